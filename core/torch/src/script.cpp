// TorchScript modules with all their tensors under their own names; only `script.rs` calls it. tch's wrapper lists
// no buffers.

#include "guarded.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using torch::jit::Module;

// Files hold a tied parameter once for each of its names. It becomes one tensor again, with one gradient.
static void tie(Module &module) {
  std::map<std::tuple<void *, std::vector<int64_t>, std::vector<int64_t>>, at::Tensor> seen;
  for (auto part : module.modules())
    for (const auto &named : part.named_parameters(/*recurse=*/false)) {
      const auto &own = named.value;
      if (own.numel() == 0) continue;
      const auto first = seen.try_emplace({own.data_ptr(), own.sizes().vec(), own.strides().vec()}, own).first->second;
      if (!first.is_same(own)) part.setattr(named.name, first);
    }
}

extern "C" {

char *curricle_script_load(const char *path, int cuda, int index, Module **module) {
  return guarded([&] {
    const auto device = cuda ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index)) : at::Device(at::kCPU);
    auto loaded = torch::jit::load(path, device, /*load_debug_files=*/false);
    tie(loaded);
    *module = new Module(std::move(loaded));
  });
}

void curricle_script_free(Module *module) { delete module; }

// Passes every tensor to `visit`, which owns it; it shares its memory with the module.
char *curricle_script_tensors(const Module *module, void *data,
                              void (*visit)(void *data, const char *name, bool buffer, at::Tensor *tensor)) {
  return guarded([&] {
    for (const auto &named : module->named_parameters())
      visit(data, named.name.c_str(), false, new at::Tensor(named.value));
    for (const auto &named : module->named_buffers())
      visit(data, named.name.c_str(), true, new at::Tensor(named.value));
  });
}

// Batch norm, known by its running statistics, stays in evaluation mode if `frozen_norm`.
char *curricle_script_train(Module *module, bool train, bool frozen_norm) {
  return guarded([&] {
    module->train(train);
    if (!train || !frozen_norm) return;
    for (auto part : module->modules())
      if (part.hasattr("running_mean") && part.hasattr("training")) part.train(false);
  });
}

char *curricle_script_forward(Module *module, const at::Tensor *input, at::Tensor **output) {
  return guarded([&] {
    // The optimising executor compiles after a few calls, so that results would depend on how many there were: a
    // resumed run would differ from an uninterrupted one.
    torch::jit::GraphOptimizerEnabledGuard no_optimisation(false);
    auto value = module->forward({*input});
    TORCH_CHECK(value.isTensor(), "its `forward` returns ", value.tagKind(), " instead of one tensor");
    *output = new at::Tensor(value.toTensor());
  });
}

// Saves a module that computes `source`, a method `forward` of TorchScript, with the tensors as `self.<name>` and
// `inner`, in evaluation mode, as `self.backbone`.
char *curricle_script_save_around(Module *inner, const char *source, const char *const *names,
                                  at::Tensor *const *tensors, size_t count, const char *path) {
  return guarded([&] {
    Module outer("curricle");
    inner->eval();
    outer.register_module("backbone", *inner);
    for (size_t i = 0; i < count; ++i) outer.register_buffer(names[i], tensors[i]->detach());
    outer.define(source);
    outer.eval();
    outer.save(path);
  });
}
}
