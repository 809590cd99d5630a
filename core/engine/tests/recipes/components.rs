//! Components for tests, with every kind of setting and no function.

use curricle_sdk::prelude::*;

/// A loss with numbers, a choice and a trainable tensor.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Springs {
    /// Strength of the positives' pull.
    #[schemars(range(min = 0.0))]
    alpha: f64,
    /// Similarity below which positives pull.
    low: f64,
    /// Similarity above which negatives push.
    high: f64,
    /// The pairs to use.
    mining: Mining,
    /// Number of bins.
    #[schemars(range(min = 2, max = 100))]
    bins: usize,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mining {
    /// All pairs.
    #[default]
    All,
    /// The hardest.
    Hard,
}

impl Default for Springs {
    fn default() -> Self {
        Self { alpha: 2.0, low: 0.9, high: 0.1, mining: Mining::All, bins: 10 }
    }
}

impl Loss for Springs {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        Ok(batch.embeddings.sum(None) * 0.0)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let init = Init::Normal { std: 1.0 };
        vec![TensorSpec::trainable("proxies", [shape.classes, shape.embedding], init).lr_scale(100.0)]
    }

    fn check(&self) -> Result<()> {
        if self.low < self.high {
            return Err(Error::setting("low", format!("must not be below `high`, which is {}", self.high)));
        }
        Ok(())
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        if self.alpha > 1000.0 {
            return vec![Advice::new("alpha", "so steep that all pairs but the hardest are ignored")];
        }
        Vec::new()
    }
}

register_loss!("springs", Springs, "pulls and pushes like springs");

/// A loss without settings whose check panics.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Stubborn {}

impl Loss for Stubborn {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        Ok(batch.embeddings.sum(None))
    }

    fn check(&self) -> Result<()> {
        panic!("not today")
    }
}

register_loss!("stubborn", Stubborn, "never starts");

/// Every sample once.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Shuffled {
    /// Batch size. Default: all samples.
    #[schemars(range(min = 1))]
    size: Option<usize>,
}

impl Sampler for Shuffled {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        Ok(vec![(0..epoch.labels.len() as i64).collect()])
    }

    fn batch_size(&self) -> usize {
        self.size.unwrap_or(0)
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let samples = data.class_sizes.iter().sum::<usize>();
        match self.size {
            Some(size) if samples > 0 && size > samples => {
                vec![Advice::new("size", format!("larger than the training set of {samples}"))]
            }
            _ => Vec::new(),
        }
    }
}

register_sampler!("shuffled", Shuffled, "every sample once, in random order");

/// All weights 1.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Uniform {}

impl WeightScheme for Uniform {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        Ok(WeightUpdate { weights: vec![1.0; round.labels.len()], ..WeightUpdate::default() })
    }
}

register_weights!("uniform", Uniform, "all weights stay 1");

/// Nested tables: one tagged, one untagged.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Paced {
    /// Age.
    lambda: Age,
    /// The solver for the weights.
    solver: Solver,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum Age {
    /// Grows every round.
    Schedule {
        /// Value in the first round.
        start: f64,
        /// Value in the last round.
        max: f64,
    },
    /// Chosen to reach a mean weight.
    Target {
        /// Target of the mean weight.
        #[schemars(range(min = 0.0, max = 1.0))]
        target_maw: f64,
    },
}

impl Default for Age {
    fn default() -> Self {
        Age::Target { target_maw: 0.8 }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
enum Solver {
    /// Coordinate by coordinate.
    Exact {
        /// Passes over all samples.
        #[serde(default = "sweeps")]
        #[schemars(range(min = 1))]
        sweeps: usize,
    },
    /// By sampled gradients.
    DoublyStochastic {
        /// Step size.
        #[serde(default = "step")]
        step: f64,
    },
}

fn sweeps() -> usize {
    50
}

fn step() -> f64 {
    0.1
}

impl Default for Solver {
    fn default() -> Self {
        Solver::Exact { sweeps: sweeps() }
    }
}

impl WeightScheme for Paced {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        Ok(WeightUpdate { weights: vec![1.0; round.labels.len()], ..WeightUpdate::default() })
    }
}

register_weights!("paced", Paced, "easy samples first");
