// State of libtorch and of the thread that a component could leave changed; only `surroundings.rs` calls it.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <cfenv>
#include <cstdint>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace {

// The bits of the control register that flush denormal numbers to zero, as `at::set_flush_denormal` does.
#ifdef __SSE__
constexpr uint32_t FLUSH = 0x8040;
int32_t flushing() { return static_cast<int32_t>(_mm_getcsr() & FLUSH); }
void set_flushing(int32_t bits) { _mm_setcsr((_mm_getcsr() & ~FLUSH) | static_cast<uint32_t>(bits)); }
#else
int32_t flushing() { return 0; }
void set_flushing(int32_t) {}
#endif

} // namespace

extern "C" {

// The order is that of `NAMES` in surroundings.rs.
void curricle_surroundings(int32_t *values) {
  values[0] = at::GradMode::is_enabled();
  values[1] = at::autocast::is_autocast_enabled(at::kCPU);
  values[2] = at::autocast::is_autocast_enabled(at::kCUDA);
  values[3] = at::get_num_threads();
  values[4] = std::fegetround();
  values[5] = static_cast<int32_t>(c10::typeMetaToScalarType(c10::get_default_dtype()));
  values[6] = at::globalContext().deterministicAlgorithms();
  values[7] = flushing();
  values[8] = torch::autograd::AnomalyMode::is_enabled();
}

void curricle_restore_surroundings(const int32_t *values) {
  at::GradMode::set_enabled(values[0]);
  at::autocast::set_autocast_enabled(at::kCPU, values[1]);
  at::autocast::set_autocast_enabled(at::kCUDA, values[2]);
  if (at::get_num_threads() != values[3]) at::set_num_threads(values[3]);
  std::fesetround(values[4]);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(values[5])));
  at::globalContext().setDeterministicAlgorithms(values[6], /*warn_only=*/false);
  set_flushing(values[7]);
  if (torch::autograd::AnomalyMode::is_enabled() != bool(values[8])) torch::autograd::AnomalyMode::set_enabled(values[8]);
}
}
