// tf32.h - TF32: which products and convolutions of f32 an Ampere or later GPU rounds, and how.
//
// libtorch's flags decide, and NVIDIA_TF32_OVERRIDE wins over them, as in cuBLAS and cuDNN.

#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cstdlib>
#include <cstring>

namespace {

enum class Tf32 { None, Product, Convolution };

// By the name of the operator without its overload. Products with a vector do not use TF32.
Tf32 tf32_kind(const std::string& base) {
  for (const char* name : {"mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addbmm"})
    if (base == std::string("aten::") + name) return Tf32::Product;
  for (const char* name : {"convolution", "_convolution", "convolution_backward"})
    if (base == std::string("aten::") + name) return Tf32::Convolution;
  return Tf32::None;
}

bool tf32_allowed(Tf32 kind) {
  static const char* const wanted = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (kind == Tf32::None) return false;
  if (wanted && *wanted) return std::strcmp(wanted, "0") != 0;
  const auto& context = at::globalContext();
  return kind == Tf32::Product ? context.allowTF32CuBLAS()
                               : context.allowTF32CuDNN(at::Float32Op::CONV);
}

// A copy rounded to the 10 mantissa bits that TF32 keeps, half to even.
at::Tensor rounded_to_tf32(const at::Tensor& t) {
  at::Tensor copy = t.clone();
  auto* p = static_cast<uint32_t*>(copy.data_ptr());
  for (int64_t i = 0; i < copy.numel(); ++i) {
    const bool finite = (p[i] & 0x7f800000u) != 0x7f800000u;
    if (finite) p[i] = (p[i] + 0xfffu + ((p[i] >> 13) & 1u)) & 0xffffe000u;
  }
  return copy;
}

}  // namespace
