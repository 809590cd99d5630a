// Cross-batch memory (Wang et al., CVPR 2020) in C++; gives the same numbers as ../cross-batch-memory.

#include "curricle.hpp"

using curricle::Init;
using curricle::TensorSpec;

struct CrossBatchMemory : curricle::Loss {
  int64_t size;
  double margin;

  explicit CrossBatchMemory(const curricle::Settings &settings)
      : size(settings.integer("size")), margin(settings.number("margin")) {}

  // State, not trainable: a ring buffer and the position to write next. Empty rows have the label -1.
  std::vector<TensorSpec> tensors(const curricle::Shape &shape) const {
    return {TensorSpec::state("memory", {size, shape.embedding}, Init::constant(0)),
            TensorSpec::state("memory_weights", {size}, Init::constant(0)),
            TensorSpec::state("memory_labels", {size}, Init::constant(-1), at::kLong),
            TensorSpec::state("memory_ids", {size}, Init::constant(-1), at::kLong),
            TensorSpec::state("next", {1}, Init::constant(0), at::kLong)};
  }

  at::Tensor forward(const curricle::Batch &batch, curricle::Log &log) const {
    remember(batch);
    at::ScalarType kind = batch.precision();
    auto state = [&](const char *name) { return batch.tensors.get(name).detach(); };
    at::Tensor s = batch.embeddings.to(kind).matmul(state("memory").to(kind).t());
    at::Tensor labels = state("memory_labels");
    at::Tensor same_class = batch.labels.unsqueeze(1) == labels;
    at::Tensor positive = same_class.logical_and(batch.ids.unsqueeze(1) != state("memory_ids"));
    at::Tensor negative = same_class.logical_not().logical_and(labels >= 0);
    at::Tensor w = batch.weights_or_ones().unsqueeze(1) * state("memory_weights").to(kind);

    at::Tensor attract = (1.0 - s).relu(), repel = (s - margin).relu();
    auto active = [&](const at::Tensor &gap, const at::Tensor &pairs) { return gap.detach().sign() * pairs.to(kind) * w; };
    log.scalar("filled", [&] { return (labels >= 0).sum(at::kFloat); });
    log.per_sample("nearest_negative", s.masked_fill(negative.logical_not(), -1.0).amax({1}));
    return curricle::weighted_mean(attract, active(attract, positive)) +
           curricle::weighted_mean(repel, active(repel, negative));
  }

  // The memory is a constant, though it holds the current batch too.
  bool gradient_is_exact() const { return false; }

  // Writes the batch over the oldest rows, in place and without gradients: that is all it takes to be checkpointed.
  void remember(const curricle::Batch &batch) const {
    if (batch.size() > size)
      throw curricle::SettingError("size", "must be at least the batch size, " + std::to_string(batch.size()));
    curricle::NoGradGuard no_grad;
    at::Tensor next = batch.tensors.get("next");
    at::Tensor rows = (at::arange(batch.size(), batch.labels.options()) + next).remainder(size);
    auto write = [&](const char *name, const at::Tensor &values) {
      at::Tensor memory = batch.tensors.get(name);
      memory.index_copy_(0, rows, values.to(memory.scalar_type()));
    };
    write("memory", batch.embeddings);
    write("memory_weights", batch.weights_or_ones());
    write("memory_labels", batch.labels);
    write("memory_ids", batch.ids);
    next.copy_((next + batch.size()).remainder(size));
  }
};

CURRICLE_EXPORT(curricle::loss<CrossBatchMemory>("cross_batch_memory_cpp", "0.1.0",
                                                 "contrastive loss with the embeddings of earlier batches", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "size": { "description": "Number M of embeddings in the memory.", "type": "integer",
              "minimum": 1, "maximum": 10000000, "default": 1024 },
    "margin": { "description": "Similarity m below which a negative pair has no loss.", "type": "number",
                "minimum": -1.0, "maximum": 1.0, "default": 0.5 }
  }
})"))
