// The code of the page "Losses with a memory" in C++; gives the same numbers as ../teacher-memory.

#include "curricle.hpp"

struct TeacherMemory : curricle::Loss {
  double scale;
  uint64_t warmup;

  explicit TeacherMemory(const curricle::Settings &settings)
      : scale(settings.number("scale")), warmup(settings.integer("warmup")) {}

  std::vector<curricle::TensorSpec> tensors(const curricle::Shape &shape) const {
    auto centers = curricle::TensorSpec::trainable("centers", {shape.classes, shape.embedding}, curricle::Init::normal(1));
    centers.lr_scale = 100;
    return {centers,
            curricle::TensorSpec::state("memory", {1024, shape.embedding}, curricle::Init::constant(0)),
            curricle::TensorSpec::state("memory_labels", {1024}, curricle::Init::constant(-1), at::kLong)};
  }

  at::Tensor forward(const curricle::Batch &batch, curricle::Log &log) const {
    if (!batch.ema_embeddings) throw curricle::Error("needs the moving average");
    at::ScalarType kind = batch.precision();
    at::Tensor labels = batch.labels.unsqueeze(1), x = batch.embeddings.to(kind);
    at::Tensor logits = x.matmul(batch.tensors.get("centers").to(kind).t()) * scale;
    at::Tensor classify = -logits.log_softmax(1).gather(1, labels).squeeze(1);
    at::Tensor agree = 1.0 - (x * batch.ema_embeddings->to(kind)).sum(1);

    // A copy: the memory changes below, and the backward pass needs what it was.
    at::Tensor s = x.matmul(batch.tensors.get("memory").to(kind).clone().t());
    at::Tensor known = batch.tensors.get("memory_labels");
    at::Tensor negative = (labels != known).logical_and(known >= 0);
    at::Tensor nearest = s.masked_fill(negative.logical_not(), -1.0).amax({1});
    log.per_sample("nearest_negative", nearest);
    at::Tensor each = classify + agree;
    if (batch.info.epoch >= warmup) each = each + (nearest - 0.5).relu();
    remember(batch);
    return curricle::weighted_mean(each, batch.weights_or_ones());
  }

  void after_step(const curricle::Tensors &tensors, const curricle::StepInfo &) const {
    at::Tensor centers = tensors.get("centers");
    centers.div_(centers.norm(2, -1, true));
  }

  bool needs_ema() const { return true; }

  // Writes the batch over the oldest rows; a sample of weight 0 gets the label of an empty row.
  void remember(const curricle::Batch &batch) const {
    int64_t first = static_cast<int64_t>(batch.info.global_step) * batch.size();
    at::Tensor rows = (at::arange(batch.size(), batch.ids.options()) + first).remainder(1024);
    curricle::NoGradGuard no_grad;
    at::Tensor memory = batch.tensors.get("memory");
    memory.index_copy_(0, rows, batch.embeddings.to(memory.scalar_type()));
    at::Tensor labels = batch.labels.masked_fill(batch.weights_or_ones() == 0, -1);
    batch.tensors.get("memory_labels").index_copy_(0, rows, labels);
  }
};

struct ClassMeans : curricle::Weights {
  explicit ClassMeans(const curricle::Settings &) {}

  std::vector<curricle::TensorSpec> tensors(const curricle::Shape &shape) const {
    return {curricle::TensorSpec::state("means", {shape.classes, shape.embedding}, curricle::Init::constant(0))};
  }

  std::optional<at::Tensor> weigh_batch(const curricle::Batch &batch, curricle::Log &log) const {
    at::Tensor means = batch.tensors.get("means"), x = batch.embeddings.to(means.scalar_type());
    at::Tensor own = means.index_select(0, batch.labels);
    at::Tensor agreement = (x * (own / own.norm(2, {1}, true).clamp_min(1e-12))).sum(1);
    means.mul_(0.9).index_add_(0, batch.labels, x * 0.1);
    log.per_sample("agreement", agreement);
    if (batch.info.epoch == 0) return std::nullopt;
    return agreement.clamp(0.1, 1.0);
  }

  bool needs_embeddings() const { return false; }
};

CURRICLE_EXPORT(
    curricle::loss<TeacherMemory>("teacher_memory_cpp", "0.1.0", "centres, a memory of negatives and a teacher", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "scale": { "description": "Scale s of the similarities to the centres.", "type": "number",
               "minimum": 0.0, "default": 16.0 },
    "warmup": { "description": "Number of first epochs without the memory.", "type": "integer",
                "minimum": 0, "default": 1 }
  }
})"),
    curricle::weights<ClassMeans>("class_means_cpp", "0.1.0",
                                  "similarity to a moving average of the class, in every step", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {}
})"))
