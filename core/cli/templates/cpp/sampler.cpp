// The sampler `@name@`: every sample once per epoch, shuffled.

#include "curricle.hpp"

#include <algorithm>
#include <numeric>
#include <random>

struct @Type@ : curricle::Sampler {
  int64_t size;

  explicit @Type@(const curricle::Settings &settings) : size(settings.integer("size")) {
    if (size < 2) throw curricle::SettingError("size", "must be at least 2");
  }

  std::vector<std::vector<int64_t>> batches(const curricle::Epoch &epoch) const {
    std::vector<int64_t> ids(epoch.samples);
    std::iota(ids.begin(), ids.end(), 0);
    // Depends only on seed and epoch, so a resumed run draws the same batches.
    std::seed_seq seed{epoch.seed, epoch.epoch};
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(seed));
    std::vector<std::vector<int64_t>> all;
    for (size_t start = 0; start < ids.size(); start += size)
      all.emplace_back(ids.begin() + start, ids.begin() + std::min(ids.size(), start + size));
    return all;
  }

  size_t batch_size() const { return size; }
};

CURRICLE_EXPORT(curricle::sampler<@Type@>("@name@", "0.1.0", "every sample once, shuffled", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "size": { "description": "Samples in a batch.", "type": "integer", "minimum": 2, "default": 64 }
  }
})"))
