// The C entry point of curricle::with_gradients for `with_gradients.rs`.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. On failure the message goes to
// `fail`, which copies it; no exception leaves.

#include "curricle_gradients.hpp"

#include <exception>

using Fail = void (*)(void *context, const char *message);

extern "C" at::Tensor *curricle_sdk_with_gradients(const at::Tensor *value, at::Tensor *const *tensors,
                                                   size_t tensor_count, at::Tensor *const *gradients,
                                                   size_t gradient_count, void *context, Fail fail) {
  const auto list = [](at::Tensor *const *handles, size_t count) {
    std::vector<at::Tensor> result;
    result.reserve(count);
    for (size_t i = 0; i < count; ++i) result.push_back(*handles[i]);
    return result;
  };
  try {
    auto scalar = curricle::with_gradients(*value, list(tensors, tensor_count), list(gradients, gradient_count));
    return new at::Tensor(std::move(scalar));
  } catch (const c10::Error &error) {
    fail(context, error.what_without_backtrace());
  } catch (const std::exception &error) {
    fail(context, error.what());
  } catch (...) {
    fail(context, "an unknown C++ exception");
  }
  return nullptr;
}
