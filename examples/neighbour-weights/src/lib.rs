//! Filtering by class centres, after PRISM (Liu et al., CVPR 2021): a softmax over the similarities to
//! all class centres gives the probability that a sample belongs to its class, i.e. is clean; the
//! samples with the lowest probabilities are excluded from the next round.
//!
//! `P_i = exp(<x_i, c_{y_i}>/τ) / Σ_k exp(<x_i, c_k>/τ)`, with centres `c_k` weighted by the weights of
//! the last round. PRISM keeps a memory of recent embeddings; a weight scheme gets those of the whole
//! training set.

use curricle_sdk::prelude::*;

/// Settings of the filter.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NeighbourWeights {
    /// Fraction of the samples to exclude.
    #[schemars(range(min = 0.0, max = 1.0))]
    drop: f64,
    /// Temperature τ of the softmax.
    #[schemars(range(min = 1e-3))]
    temperature: f64,
    /// Number of first rounds without exclusion, until the embeddings are meaningful.
    warmup: u64,
}

impl Default for NeighbourWeights {
    fn default() -> Self {
        Self { drop: 0.2, temperature: 0.1, warmup: 1 }
    }
}

impl WeightScheme for NeighbourWeights {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let x = round.embeddings.ok_or_else(|| Error::other("needs the embeddings"))?;
        let clean = self.clean_probability(x, round.labels, round.weights)?;
        let count = (self.drop * clean.len() as f64).floor() as usize;
        let count = if round.round <= self.warmup { 0 } else { count };
        let mut order: Vec<usize> = (0..clean.len()).collect();
        order.sort_by(|&a, &b| clean[a].total_cmp(&clean[b]).then(a.cmp(&b)));
        let mut weights = vec![1.0; clean.len()];
        order[..count].iter().for_each(|&sample| weights[sample] = 0.0);
        let threshold = order.get(count).map_or(1.0, |&sample| clean[sample]);
        Ok(WeightUpdate {
            weights,
            scalars: vec![("threshold".into(), threshold)],
            columns: vec![("clean".into(), clean)],
        })
    }
}

impl NeighbourWeights {
    fn clean_probability(&self, x: &Tensor, labels: &[i64], weights: &[f64]) -> Result<Vec<f64>> {
        let classes = labels.iter().max().map_or(0, |most| most + 1);
        let labels = Tensor::from_slice(labels).to_device(x.device());
        let weights = Tensor::from_slice(weights).to_device(x.device()).to_kind(x.kind()).unsqueeze(1);
        let sums = Tensor::zeros([classes, x.size()[1]], (x.kind(), x.device())).index_add(0, &labels, &(x * weights));
        let centres = &sums / sums.norm_scalaropt_dim(2.0, [1], true).clamp_min(1e-12);
        // In blocks: all similarities at once may not fit on the device.
        let mut clean = Vec::new();
        for (x, labels) in x.split(4096, 0).iter().zip(labels.split(4096, 0)) {
            let probability = (x.matmul(&centres.tr()) / self.temperature).softmax(1, Kind::Double);
            let own = probability.gather(1, &labels.unsqueeze(1), false).squeeze_dim(1);
            clean.extend(Vec::<f64>::try_from(&own.to_device(Device::Cpu))?);
        }
        Ok(clean)
    }
}

register_weights!("neighbour", NeighbourWeights, "excludes the samples least probable under their class centre");
curricle_sdk::export_plugin!();
