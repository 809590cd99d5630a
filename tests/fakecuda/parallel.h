// parallel.h - counts the OpenMP regions that the host enters outside the device's operators.
//
// The device's operators run CPU kernels, whose threads stand for the GPU. Any other region is work that the host
// does while the GPU waits, and whose threads then spin on the cores that decode images.

#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

namespace {

std::atomic<uint64_t> host_parallel{0};
thread_local int tl_operators = 0;

struct InOperator {
  InOperator() { ++tl_operators; }
  ~InOperator() { --tl_operators; }
};

}  // namespace

// Takes the place of libgomp's function, to which it passes the call on.
extern "C" __attribute__((visibility("default"))) void GOMP_parallel(
    void (*work)(void*), void* data, unsigned threads, unsigned flags) {
  using Function = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  if (tl_operators == 0) host_parallel.fetch_add(1, std::memory_order_relaxed);
  next(work, data, threads, flags);
}
