//! P classes × K samples per batch, with control over how often small classes, the hard ones, are drawn:
//! class `c` with `N_c` samples is drawn with probability ∝ `N_c^b`, with `b` between 0 (all classes
//! equally often) and 1 (in proportion to their size).

use curricle_sdk::prelude::*;
use curricle_sdk::rand::seq::{IndexedRandom, SliceRandom};

/// Settings of the sampler.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct HardClasses {
    /// Classes in a batch.
    #[schemars(range(min = 1))]
    classes: usize,
    /// Samples of each class in a batch.
    #[schemars(range(min = 1))]
    per_class: usize,
    /// Exponent b of the class size: 0 draws all classes equally often, 1 in proportion to their size.
    #[schemars(range(min = 0.0, max = 1.0))]
    balance: f64,
}

impl Default for HardClasses {
    fn default() -> Self {
        Self { classes: 8, per_class: 4, balance: 0.5 }
    }
}

impl Sampler for HardClasses {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        let count = epoch.labels.iter().max().map_or(0, |most| most + 1) as usize;
        let mut members = vec![Vec::new(); count];
        epoch.labels.iter().enumerate().for_each(|(id, &label)| members[label as usize].push(id as i64));
        members.retain(|class| !class.is_empty());
        let mut rng = rng::stream(epoch.seed, "hard_classes", epoch.epoch, 0);
        let share = |class: &Vec<i64>| (class.len() as f64).powf(self.balance);
        let batches = epoch.labels.len().div_ceil(self.batch_size());
        (0..batches)
            .map(|_| {
                let drawn = members.sample_weighted(&mut rng, self.classes, share);
                let drawn = drawn.map_err(|e| Error::other(format!("cannot draw classes: {e}")))?;
                let mut batch = Vec::with_capacity(self.batch_size());
                for class in drawn {
                    // A class with fewer than K samples repeats some.
                    let mut deck = class.clone();
                    deck.shuffle(&mut rng);
                    batch.extend(deck.iter().cycle().take(self.per_class));
                }
                Ok(batch)
            })
            .collect()
    }

    fn batch_size(&self) -> usize {
        self.classes * self.per_class
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let classes = data.class_sizes.len();
        if classes > 0 && classes < self.classes {
            return vec![Advice::new("classes", format!("the data has only {classes} classes; batches are smaller"))];
        }
        Vec::new()
    }
}

register_sampler!("hard_classes", HardClasses, "P classes × K samples, small classes oversampled");
curricle_sdk::export_plugin!();
