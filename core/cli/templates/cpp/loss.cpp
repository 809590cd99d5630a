// The loss `@name@`: what it is and who proposed it.
//
// mean_p (1 - S_p) + mean_n relu(S_n - m) over positive pairs p and negative pairs n; a pair counts
// with the product of its weights.

#include "curricle.hpp"

struct @Type@ : curricle::Loss {
  double margin;

  explicit @Type@(const curricle::Settings &settings) : margin(settings.number("margin")) {}

  at::Tensor forward(const curricle::Batch &batch, curricle::Log &log) const {
    at::Tensor s = batch.similarities(), w = batch.weights_or_ones();
    curricle::Pairs pairs = batch.pairs();
    w = w.unsqueeze(1) * w.unsqueeze(0);
    auto mean = [](at::Tensor terms, at::Tensor w) { return (terms * w).sum() / w.sum().clamp_min(1e-12); };
    at::Tensor attract = mean(1.0 - s, w * pairs.positive);
    at::Tensor repel = mean((s - margin).relu(), w * pairs.negative);
    log.scalar("attract", [&] { return attract; });
    return attract + repel;
  }
};

CURRICLE_EXPORT(curricle::loss<@Type@>("@name@", "0.1.0", "pulls positive pairs together", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "margin": { "description": "Similarity up to which negative pairs are left alone.", "type": "number",
                "minimum": -1.0, "maximum": 1.0, "default": 0.5 }
  }
})"))
