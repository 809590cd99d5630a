// selftest.cpp - shows that the stand-in device catches what it is meant to catch.
//
// usage: LD_PRELOAD=libfakecuda.so selftest CASE
// Prints what the case saw. Cases that a GPU would answer with undefined behaviour end the process.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

const auto kHere = at::TensorOptions(at::kFloat);
const auto kThere = kHere.device(at::kCUDA);

at::Tensor pinned(float value) { return at::full({64}, value, kHere.pinned_memory(true)); }

void wait() { c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0); }

void changed_source() {
  at::Tensor source = pinned(1);
  at::Tensor there = source.to(at::kCUDA, /*non_blocking=*/true);
  source.fill_(2);
  wait();
}

void source_after_waiting() {
  at::Tensor source = pinned(1);
  at::Tensor there = source.to(at::kCUDA, /*non_blocking=*/true);
  wait();
  source.fill_(2);
  wait();
  std::printf("%g\n", there.sum().item<float>());
}

void early_read() {
  at::Tensor here = pinned(0);
  here.copy_(at::ones({64}, kThere), /*non_blocking=*/true);
  std::printf("%s ", here.isnan().all().item<bool>() ? "nothing" : "something");
  wait();
  std::printf("%g\n", here.sum().item<float>());
}

void freed_read() {
  at::Tensor here = at::zeros({64}, at::TensorOptions(at::kByte).pinned_memory(true));
  const auto* bytes = static_cast<const unsigned char*>(here.data_ptr());
  here.reset();
  std::printf("%x\n", bytes[0]);
}

void freed_write() {
  at::Tensor here = pinned(0);
  auto* numbers = here.data_ptr<float>();
  here.reset();
  numbers[3] = 1;
}

void nondeterministic() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::Tensor x = at::ones({1, 1, 4, 4}, kThere).set_requires_grad(true);
  std::get<0>(at::adaptive_max_pool2d(x, {1, 1})).sum().backward();
}

void workspace() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  std::printf("%g\n", at::ones({2, 2}, kThere).mm(at::ones({2, 2}, kThere)).sum().item<float>());
}

void tf32() {
  at::Tensor x = at::full({8, 8}, 1.0 + 1.0 / 4096, kThere);
  at::globalContext().setAllowTF32CuBLAS(true);
  std::printf("%.7f ", x.mm(at::eye(8, kThere)).max().item<float>());
  at::globalContext().setAllowTF32CuBLAS(false);
  std::printf("%.7f\n", x.mm(at::eye(8, kThere)).max().item<float>());
}

void parallel_device() {
  at::set_num_threads(2);
  at::ones({1 << 20}, kThere).exp();
}

void parallel_host() {
  at::set_num_threads(2);
  at::ones({1 << 20}, kHere).exp();
}

}  // namespace

int main(int, char** arguments) try {
  const struct { const char* name; void (*run)(); } cases[] = {
      {"changed_source", changed_source}, {"source_after_waiting", source_after_waiting},
      {"early_read", early_read},         {"freed_read", freed_read},
      {"freed_write", freed_write},       {"nondeterministic", nondeterministic},
      {"workspace", workspace},           {"tf32", tf32},
      {"parallel_device", parallel_device}, {"parallel_host", parallel_host}};
  for (const auto& one : cases)
    if (!std::strcmp(one.name, arguments[1])) return one.run(), 0;
  return 2;
} catch (const c10::Error& error) {
  std::printf("%s\n", error.what_without_backtrace());
  return 1;
}
