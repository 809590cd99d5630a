// The f32 products of oneDNN for `mm.rs`.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. On failure the message goes to
// `fail`, which copies it; no exception leaves.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <exception>
#include <optional>
#include <string_view>

using Fail = void (*)(void *context, const char *message);
using Linear = at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &, std::string_view,
                          c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

namespace {

// The linear layer that compiled PyTorch models use on the CPU, without an activation.
at::Tensor linear(const std::optional<at::Tensor> &bias, const at::Tensor &a, const at::Tensor &b) {
  static const auto layer =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Linear>();
  return layer.call(a, b.t(), bias, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

void kernel(const at::Tensor &a, const at::Tensor &b, const at::Tensor &product) {
  at::native::cpublas::brgemm(a.size(0), b.size(1), a.size(1), a.size(1), b.size(1), b.size(1), /*add_C=*/false,
                              a.const_data_ptr<float>(), b.const_data_ptr<float>(), product.data_ptr<float>(),
                              /*is_vnni=*/false);
}

// Whether the kernel runs here: `ONEDNN_MAX_CPU_ISA` can exclude the instructions that it needs.
bool has_kernel() {
  static const bool answer = [] {
    const auto one = at::empty({1, 1});
    try {
      kernel(one, one, at::empty({1, 1}));
      return true;
    } catch (const c10::Error &) {
      return false;
    }
  }();
  return answer;
}

// A layer takes 10 µs to prepare, as long as a product of the size of a batch takes. These go to the kernel directly,
// which reads the right factor row by row and stays fast while that fits into the cache. It uses one thread: with more,
// passing the factors between cores would take as long as they save.
bool is_small(const at::Tensor &a, const at::Tensor &b) {
  const int64_t multiplications = a.size(0) * a.size(1) * b.size(1);
  return b.is_contiguous() && a.size(1) <= 512 && multiplications <= (1 << 22) && has_kernel();
}

at::Tensor small_product(const at::Tensor &a, const at::Tensor &b) {
  const auto product = at::empty({a.size(0), b.size(1)}, a.options());
  kernel(a.contiguous(), b, product);
  return product;
}

} // namespace

extern "C" at::Tensor *curricle_sdk_mm(const at::Tensor *bias, const at::Tensor *a, const at::Tensor *b, void *context, Fail fail) {
  try {
    if (!bias && is_small(*a, *b)) return new at::Tensor(small_product(*a, *b));
    return new at::Tensor(linear(bias ? std::optional<at::Tensor>(*bias) : std::nullopt, *a, *b));
  } catch (const c10::Error &error) {
    fail(context, error.what_without_backtrace());
  } catch (const std::exception &error) {
    fail(context, error.what());
  } catch (...) {
    fail(context, "an unknown C++ exception");
  }
  return nullptr;
}
