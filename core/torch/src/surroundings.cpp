// State of libtorch and of the thread that a component could leave changed; only `surroundings.rs` calls it.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <cfenv>
#include <cstdint>

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
}

void curricle_restore_surroundings(const int32_t *values) {
  at::GradMode::set_enabled(values[0]);
  at::autocast::set_autocast_enabled(at::kCPU, values[1]);
  at::autocast::set_autocast_enabled(at::kCUDA, values[2]);
  if (at::get_num_threads() != values[3]) at::set_num_threads(values[3]);
  std::fesetround(values[4]);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(values[5])));
  at::globalContext().setDeterministicAlgorithms(values[6], /*warn_only=*/false);
}
}
