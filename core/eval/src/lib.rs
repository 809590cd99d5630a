//! Evaluates embeddings: Recall@K, R-precision, MAP@R, NMI and AMI.
//!
//! Exact and reproducible: the same embeddings give the same metrics on every device and with any
//! number of threads, even with ties (see `space.rs`). The N×N similarity matrix is never held.

mod agreement;
mod error;
mod file;
mod kmeans;
mod parallel;
mod ranking;
mod search;
mod space;

pub use error::{Error, Result};
pub use file::EmbeddingFile;
pub use kmeans::{Clustering, KmeansOptions, kmeans};

use agreement::agreement;
use curricle_record::Metrics;
use curricle_sdk::guard;
use ranking::{Ranked, mean, recall_at};
use search::{NeighbourSearch, Path};
use space::{Space, dot};
use std::collections::BTreeMap;
use tch::Tensor;

/// What to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct EvalInput<'a> {
    /// Embeddings `[N, D]` of any floating-point kind, on any device. They are normalised to unit
    /// norm.
    pub embeddings: &'a Tensor,
    /// The class of each sample; any integers.
    pub labels: &'a [i64],
    /// Mask of the queries; all other samples are the gallery. `None`: each sample is a query against
    /// all others.
    pub query: Option<&'a [bool]>,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalOptions {
    /// The values of K for Recall@K.
    pub recall_at: Vec<usize>,
    /// How to cluster for NMI and AMI; `None` skips them.
    pub cluster: Option<ClusterOptions>,
}

impl Default for EvalOptions {
    fn default() -> Self {
        Self { recall_at: vec![1, 2, 4, 8], cluster: Some(ClusterOptions::default()) }
    }
}

/// How to cluster for NMI and AMI. There are as many clusters as classes, over all samples, queries
/// and gallery.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterOptions {
    /// Number of k-means restarts over which NMI, AMI and inertia are averaged.
    pub restarts: usize,
    /// Seed of the restarts.
    pub seed: u64,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { restarts: 3, seed: 0 }
    }
}

/// Evaluates embeddings.
pub fn evaluate(input: &EvalInput, options: &EvalOptions) -> Result<Metrics> {
    evaluate_by(input, options, Path::on(input.embeddings.device()))
}

/// The `k` nearest samples of each of `queries`, nearest first, with their cosine similarity.
///
/// With a `query` mask as in [`EvalInput`], only gallery samples are found.
pub fn neighbours(
    embeddings: &Tensor,
    query: Option<&[bool]>,
    queries: &[usize],
    k: usize,
) -> Result<Vec<Vec<(usize, f32)>>> {
    let space = Space::new(embeddings)?;
    check_lengths(space.len(), None, query)?;
    if let Some(unknown) = queries.iter().find(|&&q| q >= space.len()) {
        return Err(Error::Input(format!("query {unknown} is not one of the {} samples", space.len())));
    }
    let references = references(space.len(), query);
    let queries: Vec<u32> = queries.iter().map(|&q| q as u32).collect();
    let wanted = vec![k; queries.len()];
    guard(|| {
        let rows = space.rows();
        let search = NeighbourSearch::new(&space, &queries, &references, &wanted);
        Ok(search.run(Path::on(space.points.device()), |q, found| {
            let found = found.iter().map(|&r| references[r as usize]);
            found.map(|id| (id as usize, dot(rows.row(queries[q]), rows.row(id)) as f32)).collect()
        }))
    })
    .map_err(|source| Error::Torch { during: "searching neighbours", source })
}

fn evaluate_by(input: &EvalInput, options: &EvalOptions, path: Path) -> Result<Metrics> {
    let space = Space::new(input.embeddings)?;
    check_lengths(space.len(), Some(input.labels), input.query)?;
    if options.recall_at.contains(&0) {
        return Err(Error::Input("Recall@0 is not defined; K starts at 1".into()));
    }
    let (classes, count) = compact(input.labels);
    if count < 2 {
        return Err(Error::Input("all labels are the same; the evaluation needs at least two classes".into()));
    }
    let references = references(space.len(), input.query);
    let mut sizes = vec![0_usize; count];
    references.iter().for_each(|&r| sizes[classes[r as usize] as usize] += 1);

    // In the symmetric protocol, queries whose class has no other sample stay in the matrix with 0 wanted.
    let queries: Vec<u32> = match input.query {
        Some(query) => (0..).zip(query).filter(|(_, is_query)| **is_query).map(|(i, _)| i).collect(),
        None => references.clone(),
    };
    let itself = usize::from(input.query.is_none());
    let relevant: Vec<usize> = queries.iter().map(|&q| sizes[classes[q as usize] as usize] - itself).collect();
    let largest_k = options.recall_at.iter().copied().max().unwrap_or(0);
    let wanted: Vec<usize> = relevant.iter().map(|&r| if r == 0 { 0 } else { r.max(largest_k) }).collect();
    let excluded = relevant.iter().filter(|&&r| r == 0).count();
    if excluded == queries.len() {
        let reason = match input.query {
            Some(_) => "no class of a query is among the other samples; check the labels and which samples are queries",
            None => "every class has only one; check the labels, or the folders they come from",
        };
        return Err(Error::Input(format!("no query has another sample of its class to find: {reason}")));
    }

    let (ranked, clusters) = guard(|| {
        let search = NeighbourSearch::new(&space, &queries, &references, &wanted);
        let ranked = search.run(path, |q, found| {
            let class = classes[queries[q] as usize];
            let matches = found.iter().map(|&r| classes[references[r as usize] as usize] == class);
            (relevant[q] > 0).then(|| Ranked::new(matches, relevant[q]))
        });
        drop(search);
        let clusters = options.cluster.map(|options| cluster_and_compare(&space, &classes, count, options, path));
        Ok((ranked, clusters))
    })
    .map_err(|source| Error::Torch { during: "evaluating embeddings", source })?;
    let ranked: Vec<Ranked> = ranked.into_iter().flatten().collect();

    Ok(Metrics {
        recall: options.recall_at.iter().map(|&k| (k, recall_at(k, &ranked))).collect(),
        r_precision: mean(&ranked, |r| r.r_precision),
        map_at_r: mean(&ranked, |r| r.average_precision),
        nmi: clusters.map(|c| c.nmi),
        ami: clusters.map(|c| c.ami),
        inertia: clusters.map(|c| c.inertia),
        queries: ranked.len(),
        excluded,
    })
}

/// Means over restarts.
#[derive(Clone, Copy)]
struct Clusters {
    nmi: f64,
    ami: f64,
    inertia: f64,
}

fn cluster_and_compare(space: &Space, classes: &[u32], count: usize, options: ClusterOptions, path: Path) -> Clusters {
    let restarts = options.restarts.max(1);
    let mut means = Clusters { nmi: 0.0, ami: 0.0, inertia: 0.0 };
    for restart in 0..restarts {
        let options =
            KmeansOptions { clusters: count, seed: options.seed, restart: restart as u64, ..KmeansOptions::default() };
        let clustering = kmeans::cluster(space, &options, path);
        let agreement = agreement(classes, &clustering.assignment);
        means.nmi += agreement.nmi / restarts as f64;
        means.ami += agreement.ami / restarts as f64;
        means.inertia += clustering.inertia / restarts as f64;
    }
    means
}

fn check_lengths(samples: usize, labels: Option<&[i64]>, query: Option<&[bool]>) -> Result<()> {
    let lengths = [("labels", labels.map(<[i64]>::len)), ("query flags", query.map(<[bool]>::len))];
    for (what, length) in lengths {
        if let Some(length) = length.filter(|&length| length != samples) {
            return Err(Error::Input(format!(
                "there are {samples} embeddings but {length} {what}; there must be one per embedding"
            )));
        }
    }
    if query.is_some_and(|query| !query.contains(&true) || !query.contains(&false)) {
        return Err(Error::Input("the query mask needs both queries and gallery samples".into()));
    }
    Ok(())
}

/// The gallery samples, among which queries search.
fn references(samples: usize, query: Option<&[bool]>) -> Vec<u32> {
    (0..samples as u32).filter(|&i| query.is_none_or(|query| !query[i as usize])).collect()
}

/// Classes from 0 to C-1, and C.
fn compact(labels: &[i64]) -> (Vec<u32>, usize) {
    let mut numbers: BTreeMap<i64, u32> = labels.iter().map(|&l| (l, 0)).collect();
    numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
    (labels.iter().map(|l| numbers[l]).collect(), numbers.len())
}

#[cfg(test)]
mod tests;
