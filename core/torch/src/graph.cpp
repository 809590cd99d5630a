// Looks at the graph that autograd has recorded; only `graph.rs` calls it.

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <unordered_set>
#include <vector>

extern "C" {

// Whether gradients of `result` flow to `input`. Stops at `input`, so the network below it is never visited.
bool curricle_depends(const at::Tensor *result, const at::Tensor *input) {
  const auto target = torch::autograd::impl::gradient_edge(*input).function.get();
  std::vector<torch::autograd::Node *> open{torch::autograd::impl::gradient_edge(*result).function.get()};
  std::unordered_set<torch::autograd::Node *> seen;
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node == target) return true;
    for (const auto &edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return false;
}
}
