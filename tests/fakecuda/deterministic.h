// deterministic.h - operators without a deterministic kernel on CUDA.
//
// With deterministic algorithms on, they fail, as in torch 2.13: the list follows the calls of
// `alertNotDeterministic` in libtorch_cuda.so, whose operators on the CPU are deterministic and do not fail.

#pragma once

#include <ATen/Context.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

static const char* const kNondeterministicOps =
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward "
    "adaptive_max_pool3d_backward avg_pool3d_backward fractional_max_pool2d_backward "
    "fractional_max_pool3d_backward max_pool3d_with_indices_backward max_unpool2d max_unpool3d "
    "upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward "
    "upsample_trilinear3d_backward reflection_pad1d_backward reflection_pad2d_backward "
    "reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward "
    "replication_pad3d_backward nll_loss2d_forward _ctc_loss_backward grid_sampler_2d_backward "
    "grid_sampler_3d_backward histc put index_reduce ";

// Of these only some overloads: the median with its index.
static const char* const kNondeterministicOverloads =
    "median.dim median.dim_values nanmedian.dim nanmedian.dim_values ";

// cuBLAS is deterministic only with a workspace of fixed size.
void require_cublas_workspace() {
  if (!at::globalContext().deterministicAlgorithms()) return;
  const char* size = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  TORCH_CHECK(
      size && (!std::strcmp(size, ":4096:8") || !std::strcmp(size, ":16:8")),
      "Deterministic behavior was enabled, but this operation is not deterministic because it uses CuBLAS: set "
      "CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8");
}

}  // namespace
