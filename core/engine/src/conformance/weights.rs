//! Checks of weight schemes.

use super::batches::{EPOCHS, unit};
use super::{NotPassed, Subject, fail, skip};
use crate::call::call;
use crate::last_words::Running;
use crate::train::declared::check_declared;
use crate::train::{Declared, SampleColumns, check_batch_weights, check_log, check_weights};
use curricle_sdk::{Batch, Error, Log, LossInfo, Round, Shape, StepInfo, WeightScheme, WeightUpdate, rng};
use rand::RngExt;
use serde_json::json;
use tch::{Device, Kind, Tensor};

const DIMENSIONS: i64 = 8;
const BATCH: i64 = 10;

/// The weight scheme under test.
pub(super) fn make(subject: &Subject) -> Result<Box<dyn WeightScheme>, NotPassed> {
    Ok(call(Running::as_noted(), &[], || subject.component.factory.weights(&subject.settings))?)
}

/// A training set to weight.
pub(super) struct WeightedData {
    /// `[N, D]`.
    pub embeddings: Tensor,
    /// `[N]`.
    pub labels: Vec<i64>,
    /// `[N]`.
    pub weights: Vec<f64>,
}

impl WeightedData {
    /// 60 samples around 6 centres.
    pub(super) fn usual() -> Self {
        Self::new((0..60).map(|sample| sample % 6).collect())
    }

    /// Unit vectors around one centre per class.
    pub(super) fn new(labels: Vec<i64>) -> Self {
        let mut stream = rng::stream(1, "conformance", 0, 0);
        let values = labels.iter().flat_map(|&label| {
            let centre = (label % DIMENSIONS) as usize;
            (0..DIMENSIONS as usize).map(|d| if d == centre { 2.0 } else { 0.0 }).collect::<Vec<f64>>()
        });
        let values: Vec<f32> = values.map(|v| (v + stream.random_range(-1.0..1.0)) as f32).collect();
        let embeddings = unit(&Tensor::from_slice(&values).view([labels.len() as i64, DIMENSIONS]));
        Self { embeddings, weights: vec![1.0; labels.len()], labels }
    }

    /// Runs the first two rounds from freshly created tensors and returns the second update.
    pub(super) fn update(&self, scheme: &dyn WeightScheme) -> Result<WeightUpdate, NotPassed> {
        Ok(self.try_update(scheme)?)
    }

    fn try_update(&self, scheme: &dyn WeightScheme) -> Result<WeightUpdate, Error> {
        let shape = Shape { classes: self.classes(), samples: self.labels.len() as i64, embedding: DIMENSIONS };
        let device = self.embeddings.device();
        let declared = call(Running::as_noted(), &[], || Declared::of_scheme(scheme, &shape, 1, device))?;
        let settings = json!({ "alpha": 2.0, "beta": 50.0, "rho": 0.5, "epsilon": 0.1 });
        let mut update = WeightUpdate { weights: self.weights.clone(), ..Default::default() };
        let flipped: Vec<bool> = (0..self.labels.len()).map(|sample| sample % 5 == 4).collect();
        for number in u64::from(!scheme.before_training())..=2 {
            curricle_torch::seed(0)?;
            let loss = LossInfo { name: "ms", settings: &settings };
            let round = Round {
                round: number,
                rounds: EPOCHS,
                seed: 5,
                embeddings: scheme.needs_embeddings().then_some(&self.embeddings),
                ema_embeddings: scheme.needs_ema().then_some(&self.embeddings),
                flipped: Some(&flipped),
                ..Round::new(&self.labels, &update.weights, &declared.tensors, loss)
            };
            let lent = [("embeddings", &self.embeddings)];
            let answer = call(Running::as_noted(), &lent, || scheme.update(&round))?;
            check_declared(&declared)?;
            check_weights(&answer, self.labels.len()).map_err(|reason| Error::other(format!("it {reason}")))?;
            update = answer;
            let epoch = if number == 2 { EPOCHS - 1 } else { 0 };
            self.weigh_batches(scheme, &declared, epoch, &mut update)?;
        }
        Ok(update)
    }

    /// Lets the scheme weigh all samples in batches, as in an epoch.
    fn weigh_batches(
        &self,
        scheme: &dyn WeightScheme,
        declared: &Declared,
        epoch: u64,
        update: &mut WeightUpdate,
    ) -> Result<(), Error> {
        let samples = self.labels.len() as i64;
        let device = self.embeddings.device();
        let labels = Tensor::from_slice(&self.labels).to_device(device);
        let weights = Tensor::from_slice(&update.weights).to_kind(Kind::Float).to_device(device);
        let starts: Vec<i64> = (0..samples).step_by(BATCH as usize).collect();
        let steps = starts.len() as u64;
        for (step, start) in (0..).zip(starts) {
            let ids = Tensor::arange_start(start, samples.min(start + BATCH), (Kind::Int64, device));
            let rows = |all: &Tensor| all.index_select(0, &ids);
            let (embeddings, labels, weights) = (rows(&self.embeddings), rows(&labels), rows(&weights));
            let batch = Batch {
                weights: Some(&weights),
                ema_embeddings: scheme.needs_ema().then_some(&embeddings),
                info: StepInfo {
                    epoch,
                    epochs: EPOCHS,
                    step,
                    steps,
                    global_step: epoch * steps + step,
                    classes: self.classes(),
                    samples,
                },
                ..Batch::new(&embeddings, &labels, &ids, &declared.tensors)
            };
            let lent = [("embeddings", &embeddings), ("labels", &labels), ("ids", &ids), ("weights", &weights)];
            let mut log = Log::enabled();
            let answer = call(Running::as_noted(), &lent, || scheme.weigh_batch(&batch, &mut log))?;
            check_log(&log)?;
            check_declared(declared)?;
            SampleColumns::new(self.labels.len(), device).keep("", &ids, log.take_per_sample())?;
            let Some(answer) = answer else { continue };
            let answer = check_batch_weights(&answer, &ids).map_err(|reason| Error::other(format!("it {reason}")))?;
            let values = Vec::<f64>::try_from(answer.to_device(Device::Cpu).to_kind(Kind::Double))?;
            update.weights[start as usize..][..values.len()].copy_from_slice(&values);
        }
        check_weights(update, self.labels.len()).map_err(|reason| Error::other(format!("it {reason}")))
    }

    fn classes(&self) -> i64 {
        self.labels.iter().max().map_or(0, |most| most + 1)
    }
}

/// There is one weight in [0, 1] per sample.
pub(crate) fn weights_are_usable(subject: &Subject) -> Result<(), NotPassed> {
    WeightedData::usual().update(make(subject)?.as_ref()).map(drop)
}

/// The same round gives the same weights, scalars and columns.
pub(crate) fn same_answer_twice(subject: &Subject) -> Result<(), NotPassed> {
    let (scheme, data) = (make(subject)?, WeightedData::usual());
    let first = data.update(scheme.as_ref())?;
    for again in [data.update(scheme.as_ref())?, data.update(make(subject)?.as_ref())?] {
        let same = first.weights == again.weights && bits(&first) == bits(&again);
        if !same {
            return fail("it returns different weights, scalars or columns when called again");
        }
    }
    Ok(())
}

/// Embeddings, labels and weights are not modified, not even through a pointer.
pub(crate) fn inputs_are_left_alone(subject: &Subject) -> Result<(), NotPassed> {
    let (scheme, lent, data) = (make(subject)?, WeightedData::usual(), WeightedData::usual());
    lent.update(scheme.as_ref())?;
    // Without `black_box` the compiler could assume that labels and weights are equal.
    let lent = std::hint::black_box(lent);
    let changed = [
        ("embeddings", lent.embeddings != data.embeddings),
        ("labels", lent.labels != data.labels),
        ("weights", lent.weights != data.weights),
    ];
    match changed.iter().find(|(_, changed)| *changed) {
        Some((name, _)) => fail(format!("the call modified the {name}")),
        None => Ok(()),
    }
}

/// Scalars and columns as bits, since they may contain NaN, which must compare equal to itself.
fn bits(update: &WeightUpdate) -> Vec<(String, Vec<u64>)> {
    let scalars = update.scalars.iter().map(|(name, value)| (name.clone(), vec![value.to_bits()]));
    let columns =
        update.columns.iter().map(|(name, values)| (name.clone(), values.iter().map(|v| v.to_bits()).collect()));
    scalars.chain(columns).collect()
}

/// A scheme that claims to be uniform keeps all weights at 1.
pub(crate) fn uniform_is_true(subject: &Subject) -> Result<(), NotPassed> {
    let scheme = make(subject)?;
    if !scheme.is_uniform() {
        return skip("the scheme is not uniform");
    }
    match WeightedData::usual().update(scheme.as_ref())?.weights.iter().find(|&&weight| weight != 1.0) {
        Some(weight) => fail(format!("it claims to be uniform, but returns a weight of {weight}")),
        None => Ok(()),
    }
}

/// Embeddings in double precision are accepted.
pub(crate) fn double_precision_works(subject: &Subject) -> Result<(), NotPassed> {
    let (scheme, data) = (make(subject)?, WeightedData::usual());
    let double = WeightedData { embeddings: data.embeddings.to_kind(Kind::Double), ..WeightedData::usual() };
    let (single, double) = (data.update(scheme.as_ref())?.weights, double.update(scheme.as_ref())?.weights);
    let mean = single.iter().zip(&double).map(|(a, b)| (a - b).abs()).sum::<f64>() / single.len() as f64;
    if mean > 0.05 {
        return fail(format!("weights from single and double precision differ by {mean:.3} on average"));
    }
    Ok(())
}

/// Edge cases give usable weights or an error, not a panic.
pub(crate) fn edge_data_does_not_panic(subject: &Subject) -> Result<(), NotPassed> {
    let scheme = make(subject)?;
    let mut nothing = WeightedData::usual();
    nothing.weights.fill(0.0);
    let mut equal = WeightedData::usual();
    equal.embeddings = unit(&Tensor::ones([60, DIMENSIONS], (Kind::Float, Device::Cpu)));
    let cases = [
        ("two samples", WeightedData::new(vec![0, 1])),
        ("a single class", WeightedData::new(vec![0; 20])),
        ("classes of one", WeightedData::new((0..20).collect())),
        ("a class without samples", WeightedData::new(vec![0, 0, 0, 2, 2, 2])),
        ("all weights 0", nothing),
        ("all embeddings equal", equal),
    ];
    for (name, data) in cases {
        match data.try_update(scheme.as_ref()) {
            Err(error @ (Error::Panic(_) | Error::Torch(_))) => return fail(format!("{name}: {error}")),
            Err(Error::Other(reason)) if reason.starts_with("it returned") => return fail(format!("{name}: {reason}")),
            _ => {}
        }
    }
    Ok(())
}
