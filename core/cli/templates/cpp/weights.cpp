// The weight scheme `@name@`: a sample's weight is its similarity to the centre of its class.

#include "curricle.hpp"

#include <algorithm>

struct @Type@ : curricle::Weights {
  double threshold;

  explicit @Type@(const curricle::Settings &settings) : threshold(settings.number("threshold")) {}

  curricle::WeightUpdate update(const curricle::Round &round) const {
    const at::Tensor &x = round.embeddings.value();
    int64_t classes = round.labels.empty() ? 0 : 1 + *std::max_element(round.labels.begin(), round.labels.end());
    at::Tensor labels = at::tensor(round.labels).to(x.device());
    at::Tensor sums = at::zeros({classes, x.size(1)}, x.options()).index_add(0, labels, x);
    at::Tensor centres = sums / sums.norm(2, {1}, true).clamp_min(1e-12);
    at::Tensor near = (x * centres.index_select(0, labels)).sum({1}).to(at::kDouble).cpu().contiguous();
    curricle::WeightUpdate update;
    const double *values = near.data_ptr<double>();
    for (int64_t i = 0; i < near.size(0); ++i)
      update.weights.push_back(values[i] < threshold ? 0.0 : std::clamp(values[i], 0.0, 1.0));
    return update;
  }
};

CURRICLE_EXPORT(curricle::weights<@Type@>("@name@", "0.1.0", "weights by similarity to the class centre", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "threshold": { "description": "Similarity to the centre below which the weight is 0.", "type": "number",
                   "minimum": -1.0, "maximum": 1.0, "default": 0.0 }
  }
})"))
