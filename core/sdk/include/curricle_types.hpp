// curricle_types.hpp: what components in C++ see and return. Included by curricle.hpp.
#ifndef CURRICLE_TYPES_HPP
#define CURRICLE_TYPES_HPP

#include "curricle.h"
#include "curricle_settings.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define CURRICLE_TEXT_OF(x) #x
#define CURRICLE_VERSION_TEXT(a, b, c) CURRICLE_TEXT_OF(a) "." CURRICLE_TEXT_OF(b) "." CURRICLE_TEXT_OF(c)
static_assert(std::string_view(CURRICLE_VERSION_TEXT(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH)) ==
                  CURRICLE_LIBTORCH,
              "these are not the libtorch headers that curricle is built with; set LIBTORCH to the version in "
              "CURRICLE_LIBTORCH of curricle.h");
#undef CURRICLE_VERSION_TEXT
#undef CURRICLE_TEXT_OF

namespace curricle {

inline curricle_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string text(curricle_str text) { return text.len ? std::string(text.data, text.len) : std::string(); }
inline const at::Tensor &tensor(curricle_tensor handle) { return *static_cast<const at::Tensor *>(handle); }
inline std::optional<at::Tensor> some_tensor(curricle_tensor handle) {
  return handle ? std::optional<at::Tensor>(tensor(handle)) : std::nullopt;
}

// A record of the host: the fields that both sides know, and 0 for the rest.
template <class T> T read(const T *record) {
  T copy{};
  if (record) std::memcpy(&copy, record, std::min(record->size, sizeof(T)));
  return copy;
}

// Gradients are not recorded while one of these is alive. State is changed in place under it.
using NoGradGuard = at::NoGradGuard;

inline curricle_host &host() {
  static curricle_host copy{};
  return copy;
}

// Writes a line to the run's log: level 0 debug, 1 information, 2 warning.
inline void log_line(uint32_t level, std::string_view line) {
  if (host().log) host().log(level, str(line));
}

// Sizes that declared tensors may depend on.
struct Shape {
  int64_t classes, samples, embedding;
};

// How a declared tensor is initialised.
struct Init {
  uint32_t code;
  double a, b;

  static Init constant(double value) { return {CURRICLE_INIT_CONSTANT, value, 0}; }
  static Init normal(double std) { return {CURRICLE_INIT_NORMAL, std, 0}; }
  static Init uniform(double low, double high) { return {CURRICLE_INIT_UNIFORM, low, high}; }
};

// A tensor that curricle owns and lends; see curricle.h.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  Init init;
  bool is_trainable;
  at::ScalarType type = at::kFloat; // kFloat, kDouble, kLong, kInt, kByte or kBool; kFloat if trainable
  std::string group;                // parameter group of a trainable tensor
  double lr_scale = 1;              // the group's learning-rate scale unless the recipe sets one

  // Updated by the optimiser, in a parameter group of the same name.
  static TensorSpec trainable(std::string name, std::vector<int64_t> shape, Init init) {
    TensorSpec spec{name, std::move(shape), init, true};
    spec.group = std::move(name);
    return spec;
  }
  // Keeps its values from call to call.
  static TensorSpec state(std::string name, std::vector<int64_t> shape, Init init, at::ScalarType type = at::kFloat) {
    return {std::move(name), std::move(shape), init, false, type};
  }
};

struct Advice {
  std::string path, message;
};

struct DataFacts {
  std::vector<size_t> class_sizes;
  size_t embedding_size, batch_size;
};

struct Pairs {
  at::Tensor positive, negative;
};

// The declared tensors by name.
class Tensors {
public:
  // The tensor of that name; an error if the component did not declare it.
  at::Tensor get(const std::string &name) const {
    auto found = all.find(name);
    if (found == all.end()) throw Error("tensor `" + name + "` was used but not declared; add it to `tensors`");
    return found->second;
  }
  std::map<std::string, at::Tensor> all;
};

// Where in training a batch is; epochs and steps count from 0.
struct StepInfo {
  uint64_t epoch, epochs, step, steps, global_step;
  int64_t classes, samples;
};

// A batch; all tensors are on one device.
struct Batch {
  at::Tensor embeddings, labels, ids;
  std::optional<at::Tensor> weights; // none if all are 1
  Tensors tensors;
  std::optional<at::Tensor> ema_embeddings; // if needs_ema
  StepInfo info;

  int64_t size() const { return embeddings.size(0); }
  // The precision losses compute in: f64 for embeddings in f64, else f32.
  at::ScalarType precision() const { return embeddings.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  at::Tensor similarities() const {
    at::Tensor x = embeddings.to(precision());
    return x.matmul(x.t());
  }
  // 0/1 masks [B, B]: same class and different sample; different class. A sample of weight 0 is in no pair.
  Pairs pairs() const {
    at::Tensor same = labels.unsqueeze(1) == labels.unsqueeze(0);
    at::Tensor other = ids.unsqueeze(1) != ids.unsqueeze(0);
    Pairs pairs{same.logical_and(other), same.logical_not()};
    if (weights) {
      at::Tensor present = *weights > 0, both_present = present.unsqueeze(1).logical_and(present);
      pairs = {pairs.positive.logical_and(both_present), pairs.negative.logical_and(both_present)};
    }
    return {pairs.positive.to(precision()), pairs.negative.to(precision())};
  }
  at::Tensor weights_or_ones() const {
    return weights ? *weights : at::ones({size()}, embeddings.options().dtype(precision()));
  }
  // w_i w_j for all pairs [B, B].
  at::Tensor pair_weights() const {
    at::Tensor w = weights_or_ones();
    return w.unsqueeze(1) * w;
  }
};

// The mean of `terms` weighted by `weights`, 0 if all weights are 0. Differentiable.
inline at::Tensor weighted_mean(const at::Tensor &terms, const at::Tensor &weights) {
  return (terms * weights).sum() / weights.sum().clamp_min(std::numeric_limits<float>::min());
}

// Named numbers. They stay on the device.
class Log {
public:
  explicit Log(const curricle_log *log) : log(read(log)) {}
  // A one-element tensor; `value` is called only on steps that are logged.
  template <class F> void scalar(std::string_view name, F value) {
    if (log.enabled && log.scalar) log.scalar(log.context, str(name), handle(value()));
  }
  // One number per row of the batch, [B]. The last one of each sample becomes a column of samples.csv.
  void per_sample(std::string_view name, const at::Tensor &values) {
    if (log.per_sample) log.per_sample(log.context, str(name), handle(values));
  }

private:
  curricle_log log;

  // An undefined tensor crosses as it is: curricle's error says under which name it was logged.
  static at::Tensor *handle(const at::Tensor &value) { return new at::Tensor(value.defined() ? value.detach() : value); }
};

struct Epoch {
  const int64_t *labels;
  size_t samples;
  uint64_t seed, epoch;
};

struct LossInfo {
  std::string name;
  Json settings;
};

struct Round {
  uint64_t round, rounds, seed; // rounds count from 1; 0 is the one before training
  std::optional<at::Tensor> embeddings;
  std::vector<int64_t> labels;
  std::vector<double> weights;
  Tensors tensors;
  LossInfo loss;
  double age; // overrides the age of the scheme's schedule; NaN if it does not
  std::optional<at::Tensor> ema_embeddings; // if needs_ema
};

struct WeightUpdate {
  std::vector<double> weights;
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<std::pair<std::string, std::vector<double>>> columns;
};

// The optional members of a component. A loss needs forward, a sampler batches and batch_size, a weight scheme
// update or weigh_batch.
struct Loss {
  std::vector<TensorSpec> tensors(const Shape &) const { return {}; }
  void initialise(const Tensors &, const Shape &, uint64_t /*seed*/) const {}
  void after_step(const Tensors &, const StepInfo &) const {}
  bool needs_ema() const { return false; }
  bool gradient_is_exact() const { return true; }
  bool takes_weights() const { return true; }
  bool runs_on_host() const { return false; }
  std::vector<Advice> advice(const DataFacts &) const { return {}; }
};
struct Sampler {
  std::vector<Advice> advice(const DataFacts &) const { return {}; }
};
struct Weights {
  WeightUpdate update(const Round &round) const { return {round.weights, {}, {}}; }
  std::optional<at::Tensor> weigh_batch(const Batch &, Log &) const { return std::nullopt; }
  bool before_training() const { return false; }
  bool needs_ema() const { return false; }
  bool needs_embeddings() const { return true; }
  bool is_uniform() const { return false; }
  std::vector<TensorSpec> tensors(const Shape &) const { return {}; }
  std::vector<Advice> advice(const DataFacts &, const LossInfo &) const { return {}; }
};

} // namespace curricle

#endif // CURRICLE_TYPES_HPP
