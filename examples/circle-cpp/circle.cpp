// Circle loss (Sun et al., CVPR 2020) in C++; gives the same numbers as ../circle-rust.

#include "curricle.hpp"

struct Circle : curricle::Loss {
  double margin, gamma;

  explicit Circle(const curricle::Settings &settings)
      : margin(settings.number("margin")), gamma(settings.number("gamma")) {}

  at::Tensor forward(const curricle::Batch &batch, curricle::Log &) const {
    at::Tensor s = batch.similarities();
    curricle::Pairs pairs = batch.pairs();
    at::Tensor alpha_p = (1.0 + margin - s.detach()).relu();
    at::Tensor alpha_n = (s.detach() + margin).relu();
    at::Tensor positive = log_sum_exp(alpha_p * (s - (1.0 - margin)) * -gamma, pairs.positive);
    at::Tensor negative = log_sum_exp(alpha_n * (s - margin) * gamma, pairs.negative);
    at::Tensor each = at::softplus(positive + negative);
    return curricle::weighted_mean(each, batch.weights_or_ones());
  }

  // The log-sum-exp over the pairs of each row. A row without pairs is very negative, so that softplus
  // makes it 0, but not -∞, which would make its gradient NaN.
  at::Tensor log_sum_exp(const at::Tensor &logits, const at::Tensor &pairs) const {
    return (logits * pairs + (pairs - 1.0) * (1000.0 + 10.0 * gamma)).logsumexp(-1);
  }
};

CURRICLE_EXPORT(curricle::loss<Circle>("circle_cpp", "0.1.0", "Circle loss, written in C++", R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "margin": { "description": "Relaxation factor m.", "type": "number",
                "minimum": 0.0, "maximum": 1.0, "default": 0.4 },
    "gamma": { "description": "Scale factor γ of the similarities.", "type": "number",
               "minimum": 0.0, "default": 80.0 }
  }
})"))
