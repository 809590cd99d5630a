// curricle_gradients.hpp: losses that compute their own gradient. Included by curricle.hpp.
#ifndef CURRICLE_GRADIENTS_HPP
#define CURRICLE_GRADIENTS_HPP

#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <string>
#include <utility>
#include <vector>

namespace curricle {

namespace detail {

// The single autograd node between a scalar and the tensors whose gradients are known.
struct KnownGradients : torch::autograd::Node {
  explicit KnownGradients(std::vector<at::Tensor> gradients) : gradients(std::move(gradients)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list &&upstream) override {
    torch::autograd::variable_list results(num_outputs());
    if (!upstream[0].defined()) return results;
    TORCH_CHECK(!gradients.empty(), torch::autograd::ERR_BACKWARD_TWICE);
    // Reading the factor would wait for another device.
    const bool unscaled = upstream[0].is_cpu() && upstream[0].item<double>() == 1.0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!task_should_compute_output(i)) continue;
      // A gradient that is read by this pass only is handed on as it is.
      const bool ours = last && gradients[i].storage().use_count() == 1;
      results[i] = unscaled && ours ? std::move(gradients[i]) : at::mul(gradients[i], upstream[0]);
    }
    return results;
  }

  // Called before `apply` by a backward pass that does not keep the graph.
  void will_release_variables() override { last = true; }
  void release_variables() override { gradients.clear(); }
  std::string name() const override { return "KnownGradients"; }

  std::vector<at::Tensor> gradients;
  bool last = false;
};

} // namespace detail

// A scalar with this value and these gradients with respect to `tensors`, for a loss whose gradient has a
// closed form: the graph gets one node, and the backward pass is at most one multiplication per tensor.
//
// `gradients` has one entry per tensor, of the tensor's shape; its type may differ. Compute value and gradients
// from detached tensors, or the operations are recorded for nothing. Second derivatives are not available.
// Throws c10::Error if the arguments do not fit together.
inline at::Tensor with_gradients(const at::Tensor &value, const std::vector<at::Tensor> &tensors,
                                 std::vector<at::Tensor> gradients) {
  TORCH_CHECK(value.dim() == 0, "the value must be a scalar, but has shape ", value.sizes());
  TORCH_CHECK(value.is_floating_point(), "the value must be a floating-point number, but is ", value.scalar_type());
  TORCH_CHECK(gradients.size() == tensors.size(), "expected one gradient per tensor, got ", gradients.size(),
              " for ", tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    TORCH_CHECK(gradients[i].sizes().equals(tensors[i].sizes()), "gradient ", i, " has shape ", gradients[i].sizes(),
                ", but its tensor has shape ", tensors[i].sizes());
    gradients[i] = gradients[i].detach();
  }
  at::Tensor result = value.detach();
  if (torch::autograd::compute_requires_grad(tensors)) {
    auto node = c10::make_intrusive<detail::KnownGradients>(std::move(gradients));
    node->set_next_edges(torch::autograd::collect_next_edges(tensors));
    torch::autograd::set_history(result, node);
  }
  return result;
}

} // namespace curricle

#endif // CURRICLE_GRADIENTS_HPP
