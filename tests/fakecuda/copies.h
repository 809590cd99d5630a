// copies.h - non-blocking copies between the device and pinned memory, as late as a GPU may make them.
//
// To the device: a GPU reads the source at some time after the call, so the source must not change until the host
// has waited for the device. It is compared when the host waits, and when the memory is freed.
// To the host: the data arrive when the host waits. Until then the destination is full of 0xFF (NaN, 255).
//
// A violation ends the process with a message: what a GPU computes in this case is undefined.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace {

[[noreturn]] void violation(const char* what) {
  std::fprintf(stderr, "[fakecuda] %s\n", what);
  std::abort();
}

uint64_t hash_of(const void* start, size_t bytes) {
  uint64_t h = 0xcbf29ce484222325u ^ bytes, word = 0;
  const auto* p = static_cast<const unsigned char*>(start);
  for (; bytes >= 8; p += 8, bytes -= 8) {
    std::memcpy(&word, p, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  for (; bytes; ++p, --bytes) h = (h ^ *p) * 0x100000001b3u;
  return h;
}

class Copies {
  struct Range {
    uintptr_t start;
    size_t bytes;
    bool overlaps(uintptr_t s, size_t n) const { return start < s + n && s < start + bytes; }
    void* at() const { return reinterpret_cast<void*>(start); }
  };
  struct Leaving {
    Range from;
    uint64_t hash;
  };
  struct Arriving {
    Range to;
    std::vector<char> data;
  };
  // A run may make many steps before it waits.
  static constexpr size_t kMost = 256;

  std::mutex m_;
  std::deque<Leaving> leaving_;
  std::vector<Arriving> arriving_;

  static Range range(const void* start, size_t bytes) {
    return Range{reinterpret_cast<uintptr_t>(start), bytes};
  }
  static void check(const Leaving& c) {
    if (hash_of(c.from.at(), c.from.bytes) != c.hash)
      violation("pinned memory was changed before the device had read it: the host must wait for the device "
                "before it reuses the source of a non-blocking copy");
  }

 public:
  // The device will read this pinned memory.
  void leave(const void* start, size_t bytes) {
    std::lock_guard<std::mutex> g(m_);
    if (leaving_.size() == kMost) {
      check(leaving_.front());
      leaving_.pop_front();
    }
    leaving_.push_back(Leaving{range(start, bytes), hash_of(start, bytes)});
  }
  // The device will write this pinned memory, which already holds the result.
  void arrive(void* start, size_t bytes) {
    std::lock_guard<std::mutex> g(m_);
    const auto* p = static_cast<const char*>(start);
    arriving_.push_back(Arriving{range(start, bytes), std::vector<char>(p, p + bytes)});
    std::memset(start, 0xff, bytes);
  }
  // The host has waited for the device.
  void finish() {
    std::lock_guard<std::mutex> g(m_);
    for (const auto& c : leaving_) check(c);
    leaving_.clear();
    for (const auto& c : arriving_) std::memcpy(c.to.at(), c.data.data(), c.to.bytes);
    arriving_.clear();
  }
  // Pinned memory is freed. libtorch's allocator keeps it until the device has read it, so this is allowed.
  void forget(const void* start, size_t bytes) {
    std::lock_guard<std::mutex> g(m_);
    const auto s = reinterpret_cast<uintptr_t>(start);
    for (auto c = leaving_.begin(); c != leaving_.end();) {
      if (c->from.overlaps(s, bytes)) {
        check(*c);
        c = leaving_.erase(c);
      } else {
        ++c;
      }
    }
    for (auto c = arriving_.begin(); c != arriving_.end();)
      c = c->to.overlaps(s, bytes) ? arriving_.erase(c) : c + 1;
  }
};

Copies& copies() {
  static auto* c = new Copies();
  return *c;
}

}  // namespace
