// freed.h - freed pinned memory: poisoned, and kept for a while to see who still writes to it.
//
// libtorch's allocator hands freed pinned memory to the next batch. Code that still reads it here finds 0xDB in
// every byte; code that still writes to it ends the process.

#pragma once

#include "copies.h"

#include <c10/core/Allocator.h>

namespace {

class Freed {
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
  };
  static constexpr size_t kMost = size_t(64) << 20;
  static constexpr unsigned char kPoison = 0xdb;

  std::mutex m_;
  std::deque<Block> blocks_;
  size_t bytes_ = 0;

  static void check(const Block& b) {
    const auto* p = static_cast<const unsigned char*>(b.memory.get());
    for (size_t i = 0; i < b.bytes; ++i)
      if (p[i] != kPoison) violation("pinned memory was written to after it had been freed");
  }

 public:
  void keep(c10::DataPtr memory, size_t bytes) {
    std::memset(memory.get(), kPoison, bytes);
    std::lock_guard<std::mutex> g(m_);
    blocks_.push_back(Block{std::move(memory), bytes});
    bytes_ += bytes;
    while (bytes_ > kMost) {
      check(blocks_.front());
      bytes_ -= blocks_.front().bytes;
      blocks_.pop_front();
    }
  }
  void check_all() {
    std::lock_guard<std::mutex> g(m_);
    for (const auto& b : blocks_) check(b);
  }
};

Freed& freed() {
  static auto* f = new Freed();
  return *f;
}

}  // namespace
