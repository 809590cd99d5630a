// A C interface to the functions of libtorch that tch does not offer; only the Rust code next to it calls it.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. Every function returns null or,
// on failure, libtorch's message in memory from malloc.

#include "guarded.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
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

// Overwrites tensors, unless the step is skipped.
void set(const std::vector<at::Tensor> &tensors, std::vector<at::Tensor> values, const at::Tensor *skip) {
  if (skip) {
    const auto kept = skip->to(at::kBool);
    for (size_t i = 0; i < values.size(); ++i) values[i] = at::where(kept, tensors[i], values[i]);
  }
  at::_foreach_copy_(tensors, values);
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

// Whether a CUDA device has compute capability 8.0 or later: libtorch asks the same before a convolution in bf16.
char *curricle_computes_bf16(int index, bool *answer) {
  return guarded([&] {
    c10::DeviceGuard guard(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index)));
    *answer = at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
  });
}

// Bytes in pinned memory; tch can only copy a tensor into it.
char *curricle_pinned(const int64_t *sizes, size_t dimensions, at::Tensor **pinned) {
  return guarded([&] {
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
    *pinned = new at::Tensor(at::empty(at::IntArrayRef(sizes, dimensions), options));
  });
}

// Copies tensors to their places in a buffer on the host. From a CUDA device into pinned memory the copies are only
// queued, and waited for once.
char *curricle_gather(at::Tensor *const *tensors, const int64_t *offsets, size_t count, const at::Tensor *buffer) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    c10::DeviceIndex waited_for = -1;
    for (size_t i = 0; i < count; ++i) {
      const auto &tensor = *tensors[i];
      const auto bytes = static_cast<int64_t>(tensor.nbytes());
      if (bytes == 0) continue;
      auto place = buffer->narrow(0, offsets[i], bytes).view(tensor.scalar_type()).view(tensor.sizes());
      place.copy_(tensor, /*non_blocking=*/true);
      if (tensor.is_cuda()) waited_for = tensor.device().index();
    }
    if (waited_for >= 0) at::detail::getCUDAHooks().deviceSynchronize(waited_for);
  });
}

// tch's `manual_seed` lets the exception through, which ends the process: after an error on a CUDA device, seeding
// its generator fails too.
char *curricle_seed(int64_t seed) {
  return guarded([&] { at::manual_seed(static_cast<uint64_t>(seed)); });
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

char *curricle_copy(at::Tensor *const *tensors, at::Tensor *const *sources, size_t count) {
  return guarded([&] { at::_foreach_copy_(list(tensors, count), list(sources, count)); });
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

// libtorch has no fused kernel for RMSprop; these are a few calls for all parameters.
char *curricle_rmsprop(at::Tensor *const *parameters, at::Tensor *const *gradients, at::Tensor *const *squares,
                       at::Tensor *const *momenta, size_t count, double lr, double alpha, double eps, double momentum,
                       double weight_decay, const at::Tensor *found_inf) {
  return guarded([&] {
    const auto all = list(parameters, count);
    auto gradient = laid_out_like(all, list(gradients, count));
    if (weight_decay != 0.0) gradient = at::_foreach_add(gradient, at::_foreach_mul(all, weight_decay));
    const auto old_square = state(all, squares);
    auto square = at::_foreach_mul(gradient, gradient);
    at::_foreach_mul_(square, 1.0 - alpha);
    at::_foreach_add_(square, at::_foreach_mul(old_square, alpha));
    auto root = at::_foreach_sqrt(square);
    at::_foreach_add_(root, eps);
    auto direction = at::_foreach_div(gradient, root);
    set(old_square, std::move(square), found_inf);
    if (momentum != 0.0) {
      const auto velocity = state(all, momenta);
      at::_foreach_add_(direction, at::_foreach_mul(velocity, momentum));
      set(velocity, direction, found_inf);
    }
    set(all, at::_foreach_sub(all, at::_foreach_mul(direction, lr)), found_inf);
  });
}

} // extern "C"
