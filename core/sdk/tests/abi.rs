//! Components passed through the C interface and back behave the same.

use curricle_sdk::abi::{export, host};
use curricle_sdk::prelude::*;
use curricle_sdk::{Component, LossInfo, registered};

/// Mean similarity of positive pairs, scaled, plus a learnable offset.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Probe {
    scale: f64,
    fail: String,
}

impl Default for Probe {
    fn default() -> Self {
        Self { scale: 2.0, fail: String::new() }
    }
}

impl Loss for Probe {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        match self.fail.as_str() {
            "error" => return Err(Error::other("asked to fail")),
            "panic" => panic!("asked to panic"),
            "torch" => return Ok(batch.embeddings.matmul(batch.embeddings)),
            _ => {}
        }
        let pairs = batch.pairs();
        log.scalar("positives", || pairs.positive.sum(None));
        log.per_sample("row", &batch.weights_or_ones());
        if let Some(teacher) = batch.ema_embeddings {
            return Ok(teacher.sum(None) + batch.info.global_step as f64 + batch.embeddings.sum(None) * 0.0);
        }
        let weighted = batch.similarities() * &pairs.positive * batch.weights_or_ones();
        Ok(weighted.sum(None) * self.scale + batch.tensors.get("offset").sum(None))
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        vec![
            TensorSpec::trainable("offset", [shape.classes, 2], Init::Normal { std: 0.5 }).lr_scale(7.0),
            TensorSpec::state("ids", [shape.samples], Init::Constant(-1.0)).kind(Kind::Int64),
            TensorSpec::state("spread", [1], Init::Uniform { low: -1.0, high: 2.0 }).kind(Kind::Double),
        ]
    }

    fn after_step(&self, tensors: &Tensors, info: &StepInfo) -> Result<()> {
        let _ = tensors.get("offset").shallow_clone().f_fill_(info.step as f64 + info.samples as f64)?;
        Ok(())
    }

    fn initialise(&self, tensors: &Tensors, shape: &Shape, seed: u64) -> Result<()> {
        let _ = tensors.get("offset").shallow_clone().f_fill_((seed as i64) + shape.embedding)?;
        Ok(())
    }

    fn needs_ema(&self) -> bool {
        true
    }

    fn gradient_is_exact(&self) -> bool {
        false
    }

    fn takes_weights(&self) -> bool {
        false
    }

    fn runs_on_host(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        if self.scale < 0.0 { Err(Error::setting("scale", "must not be negative")) } else { Ok(()) }
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        vec![Advice::new("scale", format!("{} classes", data.class_sizes.len()))]
    }
}

register_loss!("probe", Probe, "for tests");

/// Batches of consecutive samples.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct InOrder {
    size: usize,
}

impl Sampler for InOrder {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        let ids: Vec<i64> = (0..epoch.labels.len() as i64).collect();
        Ok(ids.chunks(self.size).map(<[i64]>::to_vec).collect())
    }

    fn batch_size(&self) -> usize {
        self.size
    }
}

register_sampler!("in_order", InOrder, "for tests");

/// Weights samples by label, and counts its calls in a tensor.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct ByLabel {}

impl WeightScheme for ByLabel {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let _ = round.tensors.get("calls").shallow_clone().g_add_scalar_(1.0);
        let scale = round.age.or(round.loss.number("scale")).unwrap_or(0.0);
        let weights: Vec<f64> = round.labels.iter().map(|&label| label as f64 / 10.0).collect();
        Ok(WeightUpdate {
            columns: vec![("twice".into(), weights.iter().map(|w| w * 2.0).collect())],
            weights,
            scalars: vec![("scale".into(), scale)],
        })
    }

    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        log.per_sample("label", batch.labels);
        Ok((batch.info.step > 0).then(|| batch.labels.to_kind(Kind::Float)))
    }

    fn before_training(&self) -> bool {
        true
    }

    fn needs_embeddings(&self) -> bool {
        false
    }

    fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
        vec![TensorSpec::state("calls", [1], Init::Constant(0.0))]
    }
}

register_weights!("by_label", ByLabel, "for tests");

/// The component after a round trip through the C interface.
fn round_trip(name: &str) -> Component {
    let original: &'static Component = registered().into_iter().find(|c| c.name == name).unwrap();
    let record = Box::leak(Box::new(export::describe(original)));
    // SAFETY: leaked, and made by `describe`.
    unsafe { host::component(record) }.unwrap()
}

fn settings(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

use curricle_sdk::serde_json;

fn offset_tensors() -> Tensors {
    let mut tensors = Tensors::default();
    let offset = Tensor::ones([3, 2], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    tensors.insert("offset", offset);
    tensors
}

fn with_batch<T>(weights: bool, work: impl FnOnce(&Batch) -> T) -> (T, Tensor, Tensors) {
    let embeddings = (Tensor::arange(8, (Kind::Float, Device::Cpu)).view([4, 2]) / 8.0).set_requires_grad(true);
    let (labels, ids) = (Tensor::from_slice(&[0i64, 0, 1, 1]), Tensor::from_slice(&[0i64, 1, 2, 3]));
    let weights = weights.then(|| Tensor::from_slice(&[1.0f32, 0.5, 0.25, 0.0]));
    let tensors = offset_tensors();
    let batch = Batch { weights: weights.as_ref(), ..Batch::new(&embeddings, &labels, &ids, &tensors) };
    let result = work(&batch);
    (result, embeddings, tensors)
}

#[test]
fn a_loss_gives_the_same_value_and_gradients_across_the_boundary() {
    let direct = Probe::default();
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    for weights in [false, true] {
        let run = |loss: &dyn Loss| {
            let mut log = Log::enabled();
            let (value, x, tensors) = with_batch(weights, |batch| {
                let value = loss.forward(batch, &mut log).unwrap();
                value.backward();
                value.double_value(&[])
            });
            let rows = log.take_per_sample().remove(0);
            let scalars: Vec<_> = log.into_scalars().iter().map(|(n, t)| (n.clone(), t.double_value(&[]))).collect();
            (value, x.grad(), tensors.get("offset").grad(), scalars, rows)
        };
        assert_eq!(run(&direct), run(across.as_ref()));
    }
}

#[test]
fn declared_tensors_and_advice_survive_the_round_trip() {
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    let shape = Shape { classes: 3, samples: 4, embedding: 2 };
    assert_eq!(across.tensors(&shape), Probe::default().tensors(&shape));
    let facts = DataFacts { class_sizes: &[2, 2], embedding_size: 2, batch_size: 4 };
    assert_eq!(across.advice(&facts), Probe::default().advice(&facts));
}

#[test]
fn the_record_and_its_schema_survive_the_round_trip() {
    let across = round_trip("probe");
    assert_eq!((across.name, across.summary), ("probe", "for tests"));
    assert_eq!(across.factory.schema()["properties"]["scale"]["default"], 2.0);
}

#[test]
fn the_header_has_the_versions_of_the_crate() {
    use curricle_sdk::abi::{ABI_MAJOR, ABI_MINOR, LIBTORCH_VERSION};
    let header = include_str!("../include/curricle.h");
    for line in [
        format!("#define CURRICLE_LIBTORCH \"{LIBTORCH_VERSION}\"\n"),
        format!("#define CURRICLE_ABI_MAJOR {ABI_MAJOR}u\n"),
        format!("#define CURRICLE_ABI_MINOR {ABI_MINOR}u\n"),
    ] {
        assert!(header.contains(&line), "{line}");
    }
}

#[test]
fn errors_keep_their_kind() {
    let component = round_trip("probe");
    let Err(error) = component.factory.loss(&settings(r#"{"scale": -1.0}"#)) else { panic!("must be rejected") };
    assert!(matches!(&error, Error::Setting { path, .. } if path == "scale"), "{error}");
    for (fail, wanted) in [
        ("error", "asked to fail"),
        ("panic", "panicked: asked to panic"),
        ("torch", "libtorch: mat1 and mat2 shapes cannot be multiplied (4x2 and 4x2)"),
    ] {
        let loss = component.factory.loss(&settings(&format!(r#"{{"fail": "{fail}"}}"#))).unwrap();
        let (result, ..) = with_batch(false, |batch| loss.forward(batch, &mut Log::disabled()));
        assert_eq!(result.unwrap_err().to_string(), wanted);
    }
}

#[test]
fn a_sampler_gives_the_same_batches_across_the_boundary() {
    let across = round_trip("in_order").factory.sampler(&settings(r#"{"size": 2}"#)).unwrap();
    let epoch = Epoch { labels: &[0, 0, 1], seed: 1, epoch: 0 };
    assert_eq!(across.batches(&epoch).unwrap(), [vec![0, 1], vec![2]]);
    assert_eq!(across.batch_size(), 2);
}

#[test]
fn a_weight_scheme_gives_the_same_weights_and_updates_its_tensors_in_place() {
    let across = round_trip("by_label").factory.weights(&settings("{}")).unwrap();
    assert!(!across.needs_embeddings() && !across.is_uniform() && !across.needs_ema() && across.before_training());
    let mut tensors = Tensors::default();
    tensors.insert("calls", Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    let loss = settings(r#"{"scale": 3.0}"#);
    let loss = LossInfo { name: "probe", settings: &loss };
    let round = |age| Round { age, ..Round::new(&[1, 5], &[1.0, 1.0], &tensors, loss) };
    let update = across.update(&round(None)).unwrap();
    assert_eq!(update.weights, [0.1, 0.5]);
    assert_eq!(update.columns, [("twice".to_string(), vec![0.2, 1.0])]);
    assert_eq!(update.scalars, [("scale".to_string(), 3.0)]);
    assert_eq!(across.update(&round(Some(9.0))).unwrap().scalars[0].1, 9.0);
    assert_eq!(tensors.get("calls").double_value(&[0]), 2.0);
}

#[test]
fn the_step_and_the_moving_average_reach_a_loss() {
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    assert!(across.needs_ema());
    let (value, ..) = with_batch(false, |batch| {
        let teacher = Tensor::ones([4, 2], (Kind::Float, Device::Cpu));
        let info = StepInfo { global_step: 30, ..StepInfo::default() };
        across.forward(&Batch { ema_embeddings: Some(&teacher), info, ..*batch }, &mut Log::disabled()).unwrap()
    });
    assert_eq!(value.double_value(&[]), 38.0);
}

#[test]
fn what_a_loss_says_about_itself_survives_the_round_trip() {
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    assert!(across.needs_ema() && across.runs_on_host());
    assert!(!across.gradient_is_exact() && !across.takes_weights());
}

#[test]
fn a_loss_initialises_its_tensors() {
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    let tensors = offset_tensors();
    let shape = Shape { classes: 3, samples: 4, embedding: 2 };
    tch::no_grad(|| across.initialise(&tensors, &shape, 40)).unwrap();
    assert_eq!(tensors.get("offset").double_value(&[2, 1]), 42.0);
}

#[test]
fn a_loss_changes_its_tensors_after_the_step() {
    let across = round_trip("probe").factory.loss(&settings("{}")).unwrap();
    let tensors = offset_tensors();
    let info = StepInfo { step: 3, samples: 40, ..StepInfo::default() };
    tch::no_grad(|| across.after_step(&tensors, &info)).unwrap();
    assert_eq!(tensors.get("offset").double_value(&[2, 1]), 43.0);
}

#[test]
fn a_weight_scheme_weighs_batches_across_the_boundary() {
    let across = round_trip("by_label").factory.weights(&settings("{}")).unwrap();
    let weigh = |step| {
        let mut log = Log::disabled();
        let (weights, ..) = with_batch(false, |batch| {
            let info = StepInfo { step, ..StepInfo::default() };
            across.weigh_batch(&Batch { info, ..*batch }, &mut log).unwrap()
        });
        (weights, log.take_per_sample().remove(0).0)
    };
    assert!(weigh(0).0.is_none());
    let (weights, column) = weigh(1);
    assert_eq!(weights.unwrap(), Tensor::from_slice(&[0.0f32, 0.0, 1.0, 1.0]));
    assert_eq!(column, "label");
}
