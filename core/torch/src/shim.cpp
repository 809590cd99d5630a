// A C interface to the functions of libtorch that tch does not offer; only the Rust code next to it calls it.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. Every function returns null or,
// on failure, libtorch's message in memory from malloc.

#include "guarded.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <optional>
#include <utility>
#include <vector>

namespace {

std::vector<at::Tensor> list(at::Tensor *const *tensors, size_t count) {
  std::vector<at::Tensor> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) result.push_back(*tensors[i]);
  return result;
}

std::optional<at::Tensor> optional(const at::Tensor *tensor) {
  return tensor ? std::optional<at::Tensor>(*tensor) : std::nullopt;
}

// The fused kernels walk through memory and ignore strides.
std::vector<at::Tensor> laid_out_like(const std::vector<at::Tensor> &parameters, std::vector<at::Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].strides().equals(parameters[i].strides())) {
      tensors[i] = at::empty_like(parameters[i]).copy_(tensors[i]);
    }
  }
  return tensors;
}

std::vector<at::Tensor> state(const std::vector<at::Tensor> &parameters, at::Tensor *const *tensors) {
  auto result = list(tensors, parameters.size());
  for (size_t i = 0; i < result.size(); ++i) {
    TORCH_CHECK(result[i].strides().equals(parameters[i].strides()),
                "an optimiser state and its parameter have different strides");
  }
  return result;
}

} // namespace

extern "C" {

char *curricle_autocast_enter(int cuda, int kind, bool *was_enabled, int *was_kind) {
  return guarded([&] {
    const auto device = cuda ? at::kCUDA : at::kCPU;
    *was_enabled = at::autocast::is_autocast_enabled(device);
    *was_kind = static_cast<int>(at::autocast::get_autocast_dtype(device));
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(kind));
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
  });
}

char *curricle_autocast_exit(int cuda, bool was_enabled, int was_kind) {
  return guarded([&] {
    const auto device = cuda ? at::kCUDA : at::kCPU;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, was_enabled);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(was_kind));
  });
}

char *curricle_set_tf32(bool allowed) {
  return guarded([&] {
    at::globalContext().setAllowTF32CuDNN(allowed);
    at::globalContext().setAllowTF32CuBLAS(false);
  });
}

char *curricle_set_deterministic(bool wanted) {
  return guarded([&] {
    at::globalContext().setDeterministicCuDNN(wanted);
    at::globalContext().setDeterministicAlgorithms(wanted, /*warn_only=*/false);
    // Only useful to programs that read uninitialised memory.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  });
}

// tch's `manual_seed` lets the exception through, which ends the process: after an error on a CUDA device, seeding
// its generator fails too.
char *curricle_seed(int64_t seed) {
  return guarded([&] { at::manual_seed(static_cast<uint64_t>(seed)); });
}

// tch's `pin_memory` passes a device, and libtorch then warns at every call.
char *curricle_pin(const at::Tensor *tensor, at::Tensor **pinned) {
  return guarded([&] { *pinned = new at::Tensor(tensor->pin_memory()); });
}

// Returns the gradient and leaves none, so that the next backward pass does not accumulate into zeros.
char *curricle_take_grad(at::Tensor *parameter, at::Tensor **gradient) {
  return guarded([&] {
    auto &grad = parameter->mutable_grad();
    *gradient = grad.defined() ? new at::Tensor(std::move(grad)) : nullptr;
    grad.reset();
  });
}

char *curricle_norm(at::Tensor *const *tensors, size_t count, at::Tensor **norm) {
  return guarded([&] {
    auto norms = at::_foreach_norm(list(tensors, count), 2);
    *norm = new at::Tensor(at::linalg_vector_norm(at::stack(norms), 2));
  });
}

char *curricle_scale(at::Tensor *const *tensors, size_t count, const at::Tensor *factor) {
  return guarded([&] { at::_foreach_mul_(list(tensors, count), *factor); });
}

char *curricle_lerp(at::Tensor *const *tensors, at::Tensor *const *targets, size_t count, double share) {
  return guarded([&] { at::_foreach_lerp_(list(tensors, count), list(targets, count), share); });
}

char *curricle_unscale(at::Tensor *const *gradients, size_t count, at::Tensor *found_inf, const at::Tensor *inverse) {
  return guarded([&] { at::_amp_foreach_non_finite_check_and_unscale_(list(gradients, count), *found_inf, *inverse); });
}

char *curricle_adam(at::Tensor *const *parameters, at::Tensor *const *gradients, at::Tensor *const *means,
                    at::Tensor *const *squares, size_t count, const at::Tensor *step, double lr, double beta1,
                    double beta2, double weight_decay, double eps, bool decoupled, const at::Tensor *found_inf) {
  return guarded([&] {
    const auto all = list(parameters, count);
    const auto apply = [&](auto update) {
      update(all, laid_out_like(all, list(gradients, count)), state(all, means), state(all, squares),
             std::vector<at::Tensor>{}, std::vector<at::Tensor>(count, *step), lr, beta1, beta2, weight_decay, eps,
             /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, optional(found_inf));
    };
    if (decoupled) {
      apply([](auto &&...arguments) { at::_fused_adamw_(arguments...); });
    } else {
      apply([](auto &&...arguments) { at::_fused_adam_(arguments...); });
    }
  });
}

char *curricle_sgd(at::Tensor *const *parameters, at::Tensor *const *gradients, at::Tensor *const *momenta,
                   size_t count, double lr, double momentum, double weight_decay, bool nesterov,
                   const at::Tensor *found_inf) {
  return guarded([&] {
    const auto all = list(parameters, count);
    // Momenta start at 0, so the first step is like any other.
    at::_fused_sgd_(all, laid_out_like(all, list(gradients, count)),
                    momentum == 0.0 ? std::vector<at::Tensor>{} : state(all, momenta), weight_decay, momentum, lr,
                    /*dampening=*/0.0, nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    /*grad_scale=*/std::nullopt, optional(found_inf));
  });
}

} // extern "C"
