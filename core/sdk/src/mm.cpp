// The f32 products of oneDNN for `mm.rs`.
//
// Tensors cross as `at::Tensor *`, as in torch-sys, borrowed in and owned out. On failure the message goes to
// `fail`, which copies it; no exception leaves.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <algorithm>
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

void kernel(const at::Tensor &a, const at::Tensor &b, const at::Tensor &product, int64_t from, int64_t columns) {
  at::native::cpublas::brgemm(a.size(0), columns, a.size(1), a.size(1), b.size(1), b.size(1), /*add_C=*/false,
                              a.const_data_ptr<float>(), b.const_data_ptr<float>() + from,
                              product.data_ptr<float>() + from, /*is_vnni=*/false);
}

// Whether the kernel runs here: `ONEDNN_MAX_CPU_ISA` can exclude the instructions that it needs.
bool has_kernel() {
  static const bool answer = [] {
    const auto one = at::empty({1, 1});
    try {
      kernel(one, one, at::empty({1, 1}), 0, 1);
      return true;
    } catch (const c10::Error &) {
      return false;
    }
  }();
  return answer;
}

// A layer takes 10 µs to prepare, as long as a product of the size of a batch takes. These go to the kernel directly,
// which reads the right factor row by row and stays fast while that fits into the cache.
bool is_small(const at::Tensor &a, const at::Tensor &b) {
  const int64_t multiplications = a.size(0) * a.size(1) * b.size(1);
  return b.is_contiguous() && a.size(1) <= 512 && multiplications <= (1 << 23) && has_kernel();
}

at::Tensor small_product(const at::Tensor &left, const at::Tensor &b) {
  const auto a = left.contiguous();
  const int64_t columns = b.size(1);
  const auto product = at::empty({a.size(0), columns}, a.options());
  // Every thread takes some of the columns, in units of a vector register. The sums do not depend on how many.
  const bool worth_it = a.numel() * columns > (1 << 19);
  const int64_t parts = worth_it ? at::get_num_threads() : 1;
  const int64_t width = std::min<int64_t>(((columns + parts - 1) / parts + 15) / 16 * 16, 512);
  at::parallel_for(0, (columns + width - 1) / width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      kernel(a, b, product, part * width, std::min(width, columns - part * width));
    }
  });
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
