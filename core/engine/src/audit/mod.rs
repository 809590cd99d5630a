//! Finds samples that are probably mislabelled and proposes labels for them.
//!
//! A finished run provides embeddings and, from its weight scheme, a weight for every training sample.
//! `discriminant` and `nearest` score every sample for every class as if it had not been seen, `scores` adds the two
//! up, and `noise_model` turns the scores into the probability that a label is wrong and into their number; `evidence` ranks. `duplicates`
//! and `far` find near-duplicates and images that belong to no class. For a person to check, `weights` reads
//! or computes the weights of the samples and `neighbours` lets the nearest trusted ones vote. The output is
//! a CSV file (`table`), an HTML page (`gallery`) on which a person can decide (`deciding`, `decisions`), and
//! labels for the next run (`cleaned`); `known` scores the findings where the wrong labels are known.

mod cleaned;
mod deciding;
mod decisions;
mod discriminant;
mod duplicates;
mod evidence;
mod far;
mod findings;
mod gallery;
mod known;
mod means;
mod nearest;
mod neighbours;
mod noise_model;
mod scores;
mod table;
mod thumbnails;
mod weights;

pub use cleaned::{Cleaned, Policy, UnsureSuspects};
pub use decisions::{Decision, Decisions};
pub use duplicates::{DuplicateKind, DuplicatePair};
pub use evidence::{ClassCount, Confusion, Evidence};
pub use known::GroundTruthScores;
pub use noise_model::NoiseEstimate;
pub use weights::WeightSource;

use crate::backbone::Model;
use crate::data::noise::NoisySplit;
use crate::data::{Dataset, Inputs, Split};
use crate::device::{self, DeviceChoice};
use crate::progress::{Bar, ProgressMode};
use crate::run::FinishedRun;
use crate::{Error, Result};
use curricle_sdk::guard;
use scores::ClassScores;
use std::path::Path;
use tch::{Kind, Tensor};

/// Options of an audit.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Number of trusted neighbours that vote on the label of a sample.
    pub neighbours: usize,
    /// Number of samples to suspect; by default the estimated number of wrong labels.
    pub suspects: Option<usize>,
    /// Greatest distance of near-duplicates, as a share of the median distance to the nearest neighbour.
    pub duplicates_within: f64,
    /// Standard deviations beyond which a sample is too far from all classes to belong to one.
    pub no_class_beyond: f64,
    /// Name of the weight scheme that computes weights if the run has none.
    pub scheme: String,
    /// Device to compute on.
    pub device: DeviceChoice,
    /// Threads of libtorch; all physical cores by default.
    pub threads: Option<usize>,
    /// How the progress of computing embeddings is shown.
    pub progress: ProgressMode,
}

/// The findings of an audit.
#[derive(Debug)]
pub struct Audit {
    /// Every training sample, most suspicious first.
    pub ranked: Vec<Evidence>,
    /// Class names, indexed by labels and proposals.
    pub class_names: Vec<String>,
    /// Where the weights come from.
    pub weights: WeightSource,
    /// Number of neighbours that voted.
    pub neighbours: usize,
    /// The estimated number of wrong labels; `None` if no label can be judged.
    pub estimate: Option<NoiseEstimate>,
    /// Whether the network that judges the labels was trained on them.
    pub trained_on_labels: bool,
    /// Near-duplicates.
    pub duplicates: Vec<DuplicatePair>,
    /// Scores of the findings, if wrong labels are known.
    pub known: Option<GroundTruthScores>,
    /// The audited run, for headings.
    pub title: String,
    split: Split,
    test: Option<Split>,
    /// The number of suspects that was asked for, if any.
    asked: Option<usize>,
}

impl Audit {
    /// Audits the training set of a finished run.
    pub fn of(run: &FinishedRun, options: &AuditOptions) -> Result<Self> {
        if options.neighbours == 0 {
            return Err(Error::Usage("the number of neighbours must be at least 1".into()));
        }
        device::set_threads(options.threads)?;
        let device = device::resolve(options.device)?;
        let dataset = run.dataset()?;
        let training = run.training(&dataset.train)?;
        let originals: Vec<String> = (training.samples.iter())
            .map(|&sample| dataset.train.class_names[dataset.train.labels[sample] as usize].clone())
            .collect();
        // Without a split, the test set is the training set.
        let Dataset { train: Split { paths, .. }, test, .. } = dataset;
        let test = (test.paths != paths).then_some(test);
        let recipe = &run.experiment.recipe;
        let inputs = guard(|| Ok(training.split.inputs.to_device(device)))
            .map_err(|source| Error::Torch { during: "moving the training set", source })?;
        let model = run.model(device)?;
        let frozen = recipe.backbone.frozen();
        let batch_size = recipe.eval.batch_size;
        let features = features(&model, &inputs, frozen, batch_size, options.progress)?;
        let embeddings = if frozen {
            model.embed(&Inputs::Features(features.shallow_clone()), batch_size)?
        } else if matches!(inputs, Inputs::Features(_)) {
            model.embed(&inputs, batch_size)?
        } else {
            features.shallow_clone()
        };
        let weights = weights::of_run(run, &training.split, &embeddings, &options.scheme)?;
        let test = match test {
            Some(test) => {
                let inputs = guard(|| Ok(test.inputs.to_device(device)))
                    .map_err(|source| Error::Torch { during: "moving the test set", source })?;
                Some((self::features(&model, &inputs, frozen, batch_size, options.progress)?, test))
            }
            None => None,
        };
        let title = run.folder.path().display().to_string();
        let trained_on_labels = !frozen && !matches!(inputs, Inputs::Features(_));
        let audit = Self::new(training, &originals, &features, &embeddings, weights, test, options, title)?;
        Ok(Self { trained_on_labels, ..audit })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a run, put together once")]
    fn new(
        training: NoisySplit,
        originals: &[String],
        features: &Tensor,
        embeddings: &Tensor,
        weights: weights::AuditWeights,
        test: Option<(Tensor, Split)>,
        options: &AuditOptions,
        title: String,
    ) -> Result<Self> {
        let NoisySplit { split, flipped, samples } = training;
        let votes = neighbours::votes(embeddings, &split.labels, &weights.values, options.neighbours)?;
        let nearest = nearest::Nearest::search(features, test.as_ref().map(|test| &test.0))?;
        let (estimate, judgements) = judge(features, &nearest, &split)?;
        let duplicates = duplicates::find(&nearest, &split.labels, options.duplicates_within);
        let mut ranked = guard(|| {
            let means = means::Means::new(embeddings, &split.labels, &weights.values, split.class_names.len());
            evidence::collect(&split, &samples, &weights, &means, &votes, &judgements)
        })
        .map_err(|source| Error::Torch { during: "comparing embeddings with class means", source })?;
        let distances: Vec<f64> = judgements.iter().map(|judgement| judgement.distance).collect();
        for (evidence, far) in ranked.iter_mut().zip(far::scores(&distances)) {
            (evidence.far, evidence.no_class) = (far, far > options.no_class_beyond);
        }
        // The closest pairs come first within each kind, and the kinds that need a decision before the others.
        for (at, pair) in duplicates.iter().enumerate().rev() {
            ranked[pair.first].duplicate = Some(at);
            if pair.kind != DuplicateKind::TrainAndTest {
                ranked[pair.second].duplicate = Some(at);
            }
        }
        let is_known = flipped.contains(&true);
        if is_known {
            ranked.iter_mut().for_each(|evidence| evidence.original = Some(originals[evidence.row].clone()));
        }
        let estimated = estimate.map_or(0, |estimate| estimate.wrong.round() as usize);
        evidence::rank(&mut ranked, options.suspects.unwrap_or(estimated));
        let known = is_known.then(|| GroundTruthScores::new(&ranked, &split.class_names));
        Ok(Self {
            ranked,
            class_names: split.class_names.clone(),
            weights: weights.source,
            neighbours: options.neighbours,
            estimate,
            trained_on_labels: false,
            duplicates,
            known,
            title,
            split,
            test: test.map(|test| test.1),
            asked: options.suspects,
        })
    }

    /// The paths of the two samples of a pair.
    pub fn pair_paths(&self, pair: &DuplicatePair) -> (&str, &str) {
        (&self.split.paths[pair.first], &self.split_of_second(pair).paths[pair.second])
    }

    /// The split that has the second sample of a pair.
    fn split_of_second(&self, pair: &DuplicatePair) -> &Split {
        self.test.as_ref().filter(|_| pair.kind == DuplicateKind::TrainAndTest).unwrap_or(&self.split)
    }

    /// The labels of the two samples of a pair; test samples have none here.
    pub fn pair_labels(&self, pair: &DuplicatePair) -> (&str, Option<&str>) {
        let label = |row: usize| self.class(self.split.labels[row]);
        (label(pair.first), (pair.kind != DuplicateKind::TrainAndTest).then(|| label(pair.second)))
    }

    /// Samples that may belong to no class, farthest first.
    pub fn no_class(&self) -> Vec<&Evidence> {
        let mut all: Vec<_> = self.ranked.iter().filter(|e| e.no_class).collect();
        all.sort_by(|a, b| b.far.total_cmp(&a.far).then(a.row.cmp(&b.row)));
        all
    }

    /// The suspected samples, most suspicious first.
    pub fn suspects(&self) -> &[Evidence] {
        let count = self.ranked.iter().take_while(|evidence| evidence.suspected).count();
        &self.ranked[..count]
    }

    /// Share of the samples whose label gets the most votes. If it is low, the network hardly distinguishes the classes.
    pub fn agreement(&self) -> f64 {
        self.ranked.iter().filter(|e| e.voted == e.label).count() as f64 / self.ranked.len().max(1) as f64
    }

    /// The name of a class.
    pub fn class(&self, class: i64) -> &str {
        usize::try_from(class).ok().and_then(|class| self.class_names.get(class)).map_or("", String::as_str)
    }

    /// Samples and suspects of each class, those with the largest share of suspects first.
    pub fn classes(&self) -> Vec<ClassCount> {
        evidence::class_counts(&self.ranked, &self.class_names)
    }

    /// Pairs of classes by how often samples labelled as the first are estimated to belong to the second.
    pub fn mix_ups(&self) -> Vec<Confusion> {
        evidence::mix_ups(&self.ranked, &self.class_names)
    }

    /// Writes every sample with all numbers as CSV, most suspicious first.
    pub fn write_table(&self, path: &Path) -> Result<()> {
        table::write(path, self)
    }

    /// Writes a page that shows at most `limit` suspects next to typical members of both classes.
    pub fn write_gallery(&self, path: &Path, limit: usize) -> Result<()> {
        gallery::write(path, self, limit)
    }

    /// The labels after applying a person's decisions, and a policy to the other suspects.
    pub fn cleaned(&self, policy: &Policy, decisions: Option<&Decisions>) -> Cleaned {
        Cleaned::new(self, policy, decisions)
    }

    fn inputs(&self) -> &Inputs {
        &self.split.inputs
    }
}

/// The features that labels are judged by: those of a frozen network or of the data set, which no label has
/// influenced; else the trained embeddings.
fn features(
    model: &Model,
    inputs: &Inputs,
    frozen: bool,
    batch_size: Option<i64>,
    progress: ProgressMode,
) -> Result<Tensor> {
    if let Inputs::Features(features) = inputs {
        return Ok(features.shallow_clone());
    }
    let bar = Bar::new(progress, "computing embeddings", inputs.len() as u64);
    let mut before = 0;
    let advance = |done: usize, _| {
        bar.advance_by((done - before) as u64);
        before = done;
    };
    if !frozen {
        return model.embed_with(inputs, batch_size, advance);
    }
    match model.precompute(inputs, batch_size, advance)? {
        Inputs::Features(features) => Ok(features),
        _ => Err(Error::Failed("precomputed features are not features; please report this".into())),
    }
}

/// Fits the noise model, if at least two classes have samples and one of them has two.
fn judge(
    features: &Tensor,
    nearest: &nearest::Nearest,
    split: &Split,
) -> Result<(Option<NoiseEstimate>, Vec<noise_model::Judgement>)> {
    let sizes = split.class_sizes();
    if sizes.iter().filter(|size| **size > 0).count() < 2 || sizes.iter().all(|size| *size < 2) {
        let unknown =
            noise_model::Judgement { wrong: 0.0, log_odds: f64::NEG_INFINITY, others: Vec::new(), distance: 0.0 };
        return Ok((None, vec![unknown; split.len()]));
    }
    let judged = guard(|| {
        let discriminant = discriminant::Discriminant::fit(features, &split.labels, split.class_names.len())?;
        noise_model::judge(&ClassScores { discriminant: &discriminant, nearest, labels: &split.labels, sizes: &sizes })
    });
    let (estimate, judgements) = judged.map_err(|source| Error::Torch { during: "judging labels", source })?;
    Ok((Some(estimate), judgements))
}

/// Rows of length 1; a row of zeros stays.
fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12).to_kind(Kind::Float)
}

/// The median of some numbers, which are sorted on the way; 0 if there are none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}
