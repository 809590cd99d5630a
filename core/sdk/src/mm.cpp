// The f32 product of oneDNN for `mm.rs`.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. On failure the message goes to
// `fail`, which copies it; no exception leaves.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <exception>
#include <optional>
#include <string_view>

using Fail = void (*)(void *context, const char *message);
using Linear = at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &, std::string_view,
                          c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

extern "C" at::Tensor *curricle_sdk_mm(const at::Tensor *bias, const at::Tensor *a, const at::Tensor *b, void *context, Fail fail) {
  try {
    // The linear layer that compiled PyTorch models use on the CPU, without an activation.
    static const auto linear =
        c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Linear>();
    const auto shift = bias ? std::optional<at::Tensor>(*bias) : std::nullopt;
    return new at::Tensor(linear.call(*a, b->t(), shift, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt));
  } catch (const c10::Error &error) {
    fail(context, error.what_without_backtrace());
  } catch (const std::exception &error) {
    fail(context, error.what());
  } catch (...) {
    fail(context, "an unknown C++ exception");
  }
  return nullptr;
}
