// The loss `@name@`: what it is and who proposed it.
//
// mean_p (1 - S_p) + mean_n relu(S_n - m) over positive pairs p and negative pairs n; a pair counts
// with w_i w_j.

#include "curricle.hpp"

struct @Type@ : curricle::Loss {
  double margin;

  explicit @Type@(const curricle::Settings &settings) : margin(settings.number("margin")) {}

  at::Tensor forward(const curricle::Batch &batch, curricle::Log &log) const {
    at::Tensor s = batch.similarities(), w = batch.pair_weights();
    curricle::Pairs pairs = batch.pairs();
    at::Tensor attract = curricle::weighted_mean(1.0 - s, pairs.positive * w);
    at::Tensor repel = curricle::weighted_mean((s - margin).relu(), pairs.negative * w);
    log.scalar("attract", [&] { return attract; });
    return attract + repel;
  }
};

CURRICLE_EXPORT(curricle::loss<@Type@>("@name@", "0.1.0", "pulls positive pairs together", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "margin": { "description": "Margin m: negative pairs that are less similar have no loss.", "type": "number",
                "minimum": -1.0, "maximum": 1.0, "default": 0.5 }
  }
})"))
