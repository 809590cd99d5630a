// Gradient checkpointing: a part of a network whose activations are computed a second time in the backward pass
// instead of being kept. Only `recompute.rs` calls it.

#include "guarded.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <cstdlib>
#include <string>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A closure of Rust. It returns a tensor that the caller owns, or null and a message in memory from malloc.
using Call = at::Tensor *(*)(void *closure, const at::Tensor *input, char **failure);
using Drop = void (*)(void *closure);

class Segment : public torch::CustomClassHolder {
public:
  Segment(void *closure, Call call, Drop drop) : closure_(closure), call_(call), drop_(drop) {}
  ~Segment() override { drop_(closure_); }

  at::Tensor operator()(const at::Tensor &input) const {
    char *failure = nullptr;
    at::Tensor *owned = call_(closure_, &input, &failure);
    if (owned == nullptr) {
      const std::string message = failure ? failure : "a part of the network failed";
      std::free(failure);
      throw std::runtime_error(message);
    }
    at::Tensor output = std::move(*owned);
    delete owned;
    return output;
  }

private:
  void *closure_;
  Call call_;
  Drop drop_;
};

// The backward pass runs outside the autocast of the forward pass, and on CUDA in another thread.
class AutocastAs {
public:
  AutocastAs(at::DeviceType device, bool enabled, at::ScalarType kind)
      : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)),
        was_kind_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, kind);
    at::autocast::increment_nesting();
  }
  ~AutocastAs() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, was_kind_);
  }

private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_kind_;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext *context, const at::Tensor &input, c10::intrusive_ptr<Segment> segment) {
    const auto device = input.device().type();
    context->save_for_backward({input});
    context->saved_data["autocast"] = at::autocast::is_autocast_enabled(device);
    context->saved_data["kind"] = static_cast<int64_t>(at::autocast::get_autocast_dtype(device));
    context->saved_data["segment"] = c10::IValue::make_capsule(segment);
    return (*segment)(input);
  }

  // The gradients of the segment's own parameters are accumulated by the inner backward pass.
  static variable_list backward(AutogradContext *context, variable_list gradients) {
    const auto input = context->get_saved_variables()[0].detach().set_requires_grad(true);
    at::AutoGradMode with_gradients(true);
    at::Tensor output;
    {
      AutocastAs autocast(input.device().type(), context->saved_data["autocast"].toBool(),
                          static_cast<at::ScalarType>(context->saved_data["kind"].toInt()));
      const auto segment = context->saved_data["segment"].toCapsule();
      output = (*static_cast<const Segment *>(segment.get()))(input);
    }
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), at::Tensor()};
  }
};

} // namespace

extern "C" {

// Takes ownership of the closure.
char *curricle_recompute(const at::Tensor *input, void *closure, Call call, Drop drop, at::Tensor **output) {
  return guarded([&] {
    auto segment = c10::make_intrusive<Segment>(closure, call, drop);
    *output = new at::Tensor(Recomputed::apply(*input, std::move(segment)));
  });
}
}
