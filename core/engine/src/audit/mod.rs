//! Finds samples that are probably mislabelled and proposes labels for them.
//!
//! A finished run provides embeddings and, from its weight scheme, a weight for every training sample.
//! `weights` reads the weights of the run, or computes them if it has none; `neighbours` lets the
//! nearest trusted samples vote; `evidence` combines both into one number and a ranking. The output is
//! a CSV file (`table`), an HTML page (`gallery`) on which a person can decide (`deciding`, `decisions`), and
//! labels for the next run (`cleaned`); `known` scores the findings where the wrong labels are known.

mod cleaned;
mod deciding;
mod decisions;
mod evidence;
mod gallery;
mod known;
mod means;
mod neighbours;
mod table;
mod weights;

pub use cleaned::{Cleaned, Policy, UnsureSuspects};
pub use decisions::{Decision, Decisions};
pub use evidence::{ClassCount, Confusion, Evidence};
pub use known::GroundTruthScores;
pub use weights::WeightSource;

use crate::data::noise::NoisySplit;
use crate::data::{Inputs, Split};
use crate::device::{self, DeviceChoice};
use crate::progress::{Bar, ProgressMode};
use crate::run::FinishedRun;
use crate::{Error, Result};
use curricle_sdk::guard;
use std::path::Path;
use tch::Tensor;

/// Options of an audit.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Number of trusted neighbours that vote on the label of a sample.
    pub neighbours: usize,
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
    /// Scores of the findings, if wrong labels are known.
    pub known: Option<GroundTruthScores>,
    /// The audited run, for headings.
    pub title: String,
    split: Split,
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
        drop(dataset);
        let recipe = &run.experiment.recipe;
        let inputs = guard(|| Ok(training.split.inputs.to_device(device)))
            .map_err(|source| Error::Torch { during: "moving the training set", source })?;
        let bar = Bar::new(options.progress, "computing embeddings", inputs.len() as u64);
        let mut before = 0;
        let embeddings = run.model(device)?.embed_with(&inputs, recipe.eval.batch_size, |done, _| {
            bar.advance_by((done - before) as u64);
            before = done;
        })?;
        drop(bar);
        let weights = weights::of_run(run, &training.split, &embeddings, &options.scheme)?;
        let title = run.folder.path().display().to_string();
        Self::new(training, &originals, &embeddings, weights, options.neighbours, title)
    }

    fn new(
        training: NoisySplit,
        originals: &[String],
        embeddings: &Tensor,
        weights: weights::AuditWeights,
        neighbours: usize,
        title: String,
    ) -> Result<Self> {
        let NoisySplit { split, flipped, samples } = training;
        let votes = neighbours::votes(embeddings, &split.labels, &weights.values, neighbours)?;
        let mut ranked = guard(|| {
            let means = means::Means::new(embeddings, &split.labels, &weights.values, split.class_names.len());
            evidence::collect(&split, &samples, &weights, &means, &votes)
        })
        .map_err(|source| Error::Torch { during: "comparing embeddings with class means", source })?;
        let is_known = flipped.contains(&true);
        if is_known {
            ranked.iter_mut().for_each(|evidence| evidence.original = Some(originals[evidence.row].clone()));
        }
        evidence::rank(&mut ranked);
        let known = is_known.then(|| GroundTruthScores::new(&ranked, &split.class_names));
        let class_names = split.class_names.clone();
        Ok(Self { ranked, class_names, weights: weights.source, neighbours, known, title, split })
    }

    /// The suspected samples, most suspicious first.
    pub fn suspects(&self) -> &[Evidence] {
        let count = self.ranked.iter().take_while(|evidence| evidence.suspected).count();
        &self.ranked[..count]
    }

    /// Share of the samples whose label gets the most votes. If it is low, the network hardly distinguishes the classes.
    pub fn agreement(&self) -> f64 {
        self.ranked.iter().filter(|e| e.proposed == e.label).count() as f64 / self.ranked.len().max(1) as f64
    }

    /// The name of a class.
    pub fn class(&self, class: i64) -> &str {
        usize::try_from(class).ok().and_then(|class| self.class_names.get(class)).map_or("", String::as_str)
    }

    /// Samples and suspects of each class, those with the largest share of suspects first.
    pub fn classes(&self) -> Vec<ClassCount> {
        evidence::class_counts(&self.ranked, &self.class_names)
    }

    /// Pairs of classes by how often members of the first seem to belong to the second.
    pub fn mix_ups(&self) -> Vec<Confusion> {
        evidence::mix_ups(self.suspects(), &self.class_names)
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
