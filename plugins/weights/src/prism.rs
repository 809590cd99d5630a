//! `prism`: leaves samples out of a batch that do not fit the centre of their class.
//!
//! Liu, Yu, Shen and others, "Noise-resistant deep metric learning with ranking-based instance
//! selection", CVPR 2021. A memory bank holds the embeddings of recent samples. With v_k the mean of
//! those of class k,
//!
//! ```text
//! P_clean(i) = e^{v_y·x_i} / Σ_k e^{v_k·x_i}
//! ```
//!
//! or, with a concentration κ, the form of a von Mises-Fisher distribution per class: κ v_k/|v_k| takes
//! the place of v_k. The threshold of a batch is the R-quantile of P_clean in it, averaged over the last
//! τ batches. Samples below it have weight 0 and do not enter the bank; all others have weight 1.
//!
//! Choices the paper leaves open: classes without a sample in the bank are not in the sum, and a sample
//! of such a class is kept. P_clean of a sample that is in the batch twice is the mean of the two.
//!
//! Nothing waits for the device: the number of samples that enter the bank is known only there, so all
//! rows are written, those that are left out to a spare row at the end.

use crate::class_sums::class_sums;
use curricle_sdk::LossInfo;
use curricle_sdk::prelude::*;

/// PRISM.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prism {
    /// Share R of the samples that are left out: the noise rate, which is not known for real data.
    #[schemars(range(min = 0.0, max = 1.0), extend("exclusiveMaximum" = 1.0))]
    pub noise_rate: f64,
    /// Number of batches τ over which the threshold is averaged. 1 leaves out the share R of every batch.
    #[schemars(range(min = 1))]
    pub window: i64,
    /// Number of samples in the memory bank. Default: the number of training samples.
    #[schemars(range(min = 1))]
    pub memory: Option<i64>,
    /// Number of steps during which no sample is left out while the bank fills.
    pub warm_up: u64,
    /// Concentration κ of a von Mises-Fisher distribution per class. Default: class means as they are.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub concentration: Option<f64>,
}

impl Default for Prism {
    fn default() -> Self {
        Self { noise_rate: 0.2, window: 10, memory: None, warm_up: 100, concentration: None }
    }
}

/// The label of a free row of the bank.
const FREE: i64 = -1;

impl WeightScheme for Prism {
    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        let _no_grad = tch::no_grad_guard();
        let bank = Bank::of(batch.tensors);
        let x = batch.embeddings.to_kind(Kind::Float);
        if batch.info.global_step < self.warm_up {
            let all = batch.labels.ones_like().to_kind(Kind::Bool);
            bank.add(&x, batch.labels, &all);
            return Ok(Some(Tensor::ones([batch.size()], batch.options())));
        }
        let p = shared_by_copies(&bank.p_clean(&x, batch.labels, batch.info.classes, self.concentration), batch.ids);
        let threshold = self.threshold(&p, batch.tensors);
        let kept = p.ge_tensor(&threshold);
        bank.add(&x, batch.labels, &kept);
        log.scalar("threshold", || threshold.shallow_clone());
        log.scalar("kept", || kept.to_kind(Kind::Float).mean(None));
        log.per_sample("p_clean", &p);
        Ok(Some(kept.to_kind(batch.options().0)))
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let memory = self.memory.unwrap_or(shape.samples).max(1);
        let zero = Init::Constant(0.0);
        vec![
            TensorSpec::state("features", [memory + 1, shape.embedding], zero),
            TensorSpec::state("labels", [memory + 1], Init::Constant(FREE as f64)).kind(Kind::Int64),
            TensorSpec::state("added", [1], zero).kind(Kind::Int64),
            TensorSpec::state("quantiles", [self.window], zero),
            TensorSpec::state("batches", [1], zero).kind(Kind::Int64),
        ]
    }

    fn needs_embeddings(&self) -> bool {
        false
    }

    fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.noise_rate) {
            return Err(Error::setting("noise_rate", "must be at least 0 and below 1"));
        }
        if self.window < 1 {
            return Err(Error::setting("window", "must be at least 1"));
        }
        if self.memory.is_some_and(|memory| memory < 1) {
            return Err(Error::setting("memory", "must be at least 1"));
        }
        if self.concentration.is_some_and(|kappa| !(kappa > 0.0 && kappa.is_finite())) {
            return Err(Error::setting("concentration", "must be above 0"));
        }
        Ok(())
    }

    fn advice(&self, _data: &DataFacts, _loss: &LossInfo) -> Vec<Advice> {
        let message = format!(
            "`prism` is told that {:.0} % of the labels are wrong, which is not known for real data; compare it with \
             other methods at one value for all noise ratios, or say where the value comes from",
            100.0 * self.noise_rate
        );
        vec![Advice::new("noise_rate", message)]
    }
}

impl Prism {
    /// Adds the batch's quantile to the window and returns the mean of the window.
    fn threshold(&self, p: &Tensor, tensors: &Tensors) -> Tensor {
        let size = p.size()[0];
        let rank = ((self.noise_rate * size as f64) as i64).min(size - 1);
        let quantile = p.sort(0, false).0.narrow(0, rank, 1);
        let (mut quantiles, mut batches) =
            (tensors.get("quantiles").shallow_clone(), tensors.get("batches").shallow_clone());
        let _ = quantiles.index_copy_(0, &batches.remainder(self.window), &quantile);
        batches += 1;
        // Entries that are not filled yet are 0.
        quantiles.sum(Kind::Float) / batches.clamp_max(self.window).squeeze()
    }
}

/// The memory bank: the features and labels of the samples that were added last, and a spare last row.
struct Bank {
    features: Tensor,
    labels: Tensor,
    added: Tensor,
}

impl Bank {
    fn of(tensors: &Tensors) -> Self {
        let get = |name: &str| tensors.get(name).shallow_clone();
        Self { features: get("features"), labels: get("labels"), added: get("added") }
    }

    /// P_clean `[B]` of samples of `classes` classes; 1 for a sample whose class is not in the bank.
    fn p_clean(&self, x: &Tensor, labels: &Tensor, classes: i64, concentration: Option<f64>) -> Tensor {
        let device = x.device();
        // Free rows are summed into one more class.
        let rows = self.labels.remainder(classes + 1);
        let sums = class_sums(&self.features, &rows, classes + 1);
        let ones = Tensor::ones(rows.size(), (Kind::Float, device));
        let counts = class_sums(&ones, &rows, classes + 1).narrow(0, 0, classes);
        let means = sums.narrow(0, 0, classes) / counts.clamp_min(1.0).unsqueeze(1);
        let centres = match concentration {
            None => means,
            Some(kappa) => {
                let lengths = means.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12);
                means / lengths * kappa
            }
        };
        let present = counts.gt(0.0);
        let absent = Tensor::full([1], f64::NEG_INFINITY, (Kind::Float, device));
        let exponents = x.matmul(&centres.tr()).where_self(&present, &absent);
        let own = exponents.gather(1, &labels.unsqueeze(1), false).squeeze_dim(1);
        let p = (own - exponents.logsumexp([1i64].as_slice(), false)).exp();
        p.where_self(&present.index_select(0, labels), &p.new_ones([1], (Kind::Float, device)))
    }

    /// Writes the kept rows over the oldest ones, in order.
    fn add(&self, x: &Tensor, labels: &Tensor, kept: &Tensor) {
        let capacity = self.features.size()[0] - 1;
        let rank = kept.to_kind(Kind::Int64).cumsum(0, Kind::Int64);
        let total = rank.narrow(0, rank.size()[0] - 1, 1);
        // Of more rows than the bank has, the last ones stay, so that no row is written twice.
        let stays = kept.logical_and(&rank.gt_tensor(&(&total - capacity)));
        let spare = Tensor::full([1], capacity, (Kind::Int64, x.device()));
        let position = (&self.added + &rank - 1).remainder(capacity).where_self(&stays, &spare);
        // What goes to the spare row is equal, because the order of writing to it is not defined.
        let free = Tensor::full([1], FREE, (Kind::Int64, x.device()));
        let _ = self.labels.shallow_clone().index_copy_(0, &position, &labels.where_self(&stays, &free));
        let rows = x * stays.to_kind(Kind::Float).unsqueeze(1);
        let _ = self.features.shallow_clone().index_copy_(0, &position, &rows);
        self.added.shallow_clone().copy_(&(&self.added + total));
    }
}

/// The mean over the rows of each sample, so that copies of a sample have one weight.
fn shared_by_copies(p: &Tensor, ids: &Tensor) -> Tensor {
    let same = ids.unsqueeze(1).eq_tensor(ids).to_kind(Kind::Float);
    same.matmul(p) / same.sum_dim_intlist([1i64].as_slice(), false, None)
}

register_weights!(
    "prism",
    Prism,
    "leaves out the samples of a batch that fit their class least (PRISM; is told the noise rate)"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::noisy_clusters;

    fn create(scheme: &Prism, shape: &Shape) -> Tensors {
        let mut tensors = Tensors::default();
        for spec in scheme.tensors(shape) {
            let Init::Constant(value) = spec.init else { panic!("a constant") };
            tensors.insert(spec.name.to_string(), Tensor::full(spec.shape.as_slice(), value, (spec.kind, Device::Cpu)));
        }
        tensors
    }

    /// The method as written, in f64, with a plain list of the last samples as its bank.
    struct Naive {
        scheme: Prism,
        memory: usize,
        bank: Vec<(Vec<f64>, i64)>,
        quantiles: Vec<f64>,
    }

    impl Naive {
        fn p_clean(&self, x: &[f64], label: i64, classes: i64) -> f64 {
            let term = |class: i64| {
                let members: Vec<_> = self.bank.iter().filter(|(_, l)| *l == class).map(|(v, _)| v).collect();
                let centre: Vec<f64> =
                    (0..x.len()).map(|d| members.iter().map(|v| v[d]).sum::<f64>() / members.len() as f64).collect();
                let length = centre.iter().map(|v| v * v).sum::<f64>().sqrt();
                let scale = self.scheme.concentration.map_or(1.0, |kappa| kappa / length);
                let dot: f64 = centre.iter().zip(x).map(|(c, x)| c * x).sum();
                if members.is_empty() { 0.0 } else { (scale * dot).exp() }
            };
            if term(label) == 0.0 { 1.0 } else { term(label) / (0..classes).map(term).sum::<f64>() }
        }

        fn step(&mut self, step: u64, x: &[Vec<f64>], labels: &[i64], classes: i64) -> Vec<f64> {
            let mut weights = vec![1.0; x.len()];
            if step >= self.scheme.warm_up {
                let p: Vec<f64> = x.iter().zip(labels).map(|(x, &l)| self.p_clean(x, l, classes)).collect();
                let mut sorted = p.clone();
                sorted.sort_by(f64::total_cmp);
                self.quantiles.push(sorted[(self.scheme.noise_rate * x.len() as f64) as usize]);
                let last = &self.quantiles[self.quantiles.len().saturating_sub(self.scheme.window as usize)..];
                let threshold = last.iter().sum::<f64>() / last.len() as f64;
                weights = p.iter().map(|&p| f64::from(p >= threshold - 1e-7)).collect();
            }
            let kept = x.iter().zip(labels).zip(&weights).filter(|(_, w)| **w == 1.0);
            self.bank.extend(kept.map(|((x, &l), _)| (x.clone(), l)));
            self.bank.drain(..self.bank.len().saturating_sub(self.memory));
            weights
        }
    }

    #[test]
    fn weights_are_those_of_the_method_as_written() {
        let (embeddings, labels, _) = noisy_clusters();
        let rows: Vec<Vec<f64>> = Vec::try_from(embeddings.to_kind(Kind::Double)).unwrap();
        for (window, memory, concentration, batch_size) in
            [(1, None, None, 30), (4, Some(100), None, 30), (3, Some(70), Some(8.0), 25), (2, Some(20), None, 50)]
        {
            let scheme = Prism { noise_rate: 0.2, window, memory, warm_up: 2, concentration };
            let shape = Shape { classes: 10, samples: 300, embedding: 16 };
            let tensors = create(&scheme, &shape);
            let memory = memory.unwrap_or(300) as usize;
            let mut naive = Naive { scheme: scheme.clone(), memory, bank: Vec::new(), quantiles: Vec::new() };
            for step in 0..24u64 {
                // Every batch has other samples than the one before, each sample once.
                let first = (step as usize * 37) % 300;
                let ids: Vec<i64> = (0..batch_size).map(|i| ((first + i * 7) % 300) as i64).collect();
                let index = Tensor::from_slice(&ids);
                let x = embeddings.index_select(0, &index);
                let y: Vec<i64> = ids.iter().map(|&i| labels[i as usize]).collect();
                let on_device = Tensor::from_slice(&y);
                let info = StepInfo { global_step: step, classes: 10, samples: 300, ..StepInfo::default() };
                let batch = Batch { info, ..Batch::new(&x, &on_device, &index, &tensors) };
                let found = scheme.weigh_batch(&batch, &mut Log::enabled()).unwrap().unwrap();
                let x: Vec<Vec<f64>> = ids.iter().map(|&i| rows[i as usize].clone()).collect();
                let expected = naive.step(step, &x, &y, 10);
                let found = Vec::<f64>::try_from(found.to_kind(Kind::Double)).unwrap();
                assert_eq!(found, expected, "step {step}, window {window}");
            }
        }
    }

    #[test]
    fn after_the_warm_up_most_samples_left_out_are_flipped() {
        let (embeddings, labels, flipped) = noisy_clusters();
        let scheme = Prism { warm_up: 10, ..Prism::default() };
        let tensors = create(&scheme, &Shape { classes: 10, samples: 300, embedding: 16 });
        let (mut right, mut left_out) = (0.0, 0.0);
        for step in 0..60u64 {
            let ids: Vec<i64> = (0..50).map(|i| (step as i64 * 50 + i * 7) % 300).collect();
            let index = Tensor::from_slice(&ids);
            let (x, y) = (embeddings.index_select(0, &index), Tensor::from_slice(&labels).index_select(0, &index));
            let info = StepInfo { global_step: step, classes: 10, ..StepInfo::default() };
            let batch = Batch { info, ..Batch::new(&x, &y, &index, &tensors) };
            let weights = scheme.weigh_batch(&batch, &mut Log::disabled()).unwrap().unwrap();
            let weights = Vec::<f64>::try_from(weights.to_kind(Kind::Double)).unwrap();
            assert!(step >= 10 || weights.iter().all(|&w| w == 1.0));
            for (&id, weight) in ids.iter().zip(weights) {
                left_out += 1.0 - weight;
                right += (1.0 - weight) * f64::from(flipped[id as usize]);
            }
        }
        assert!(left_out > 300.0 && right > 0.85 * left_out, "{right} of {left_out}");
    }

    #[test]
    fn copies_of_a_sample_have_one_weight() {
        let scheme = Prism { noise_rate: 0.5, window: 1, warm_up: 0, ..Prism::default() };
        let tensors = create(&scheme, &Shape { classes: 2, samples: 3, embedding: 2 });
        let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 0.6, 0.8, 0.8, 0.6]).view([4, 2]);
        let (labels, ids) = (Tensor::from_slice(&[0i64, 1, 0, 0]), Tensor::from_slice(&[0i64, 1, 2, 2]));
        for _ in 0..3 {
            let info = StepInfo { classes: 2, ..StepInfo::default() };
            let batch = Batch { info, ..Batch::new(&x, &labels, &ids, &tensors) };
            let weights = scheme.weigh_batch(&batch, &mut Log::enabled()).unwrap().unwrap();
            assert_eq!(weights.double_value(&[2]), weights.double_value(&[3]));
        }
    }

    #[test]
    fn invalid_settings_are_refused_and_the_noise_rate_is_warned_about() {
        let refused = |scheme: Prism| scheme.check().unwrap_err().to_string();
        assert!(refused(Prism { noise_rate: 1.0, ..Prism::default() }).contains("`noise_rate`"));
        assert!(refused(Prism { window: 0, ..Prism::default() }).contains("`window`"));
        assert!(refused(Prism { memory: Some(0), ..Prism::default() }).contains("`memory`"));
        assert!(refused(Prism { concentration: Some(0.0), ..Prism::default() }).contains("`concentration`"));
        let data = DataFacts { class_sizes: &[], embedding_size: 2, batch_size: 4 };
        let nothing = serde_json::Value::Null;
        let advice = Prism::default().advice(&data, &LossInfo { name: "ms", settings: &nothing });
        assert!(advice[0].message.contains("20 % of the labels"), "{advice:?}");
    }
}
