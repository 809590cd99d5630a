//! Exact search in f64, where products of points on the grid are exact.
//!
//! For queries with more near ties than a list has room for: many copies of one image, or collapsed
//! embeddings. Slower, never wrong, and in bounded memory.

use super::NeighbourSearch;
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

/// Number of queries searched together, and of references per block: 8 MB.
const QUERIES: usize = 256;
const REFERENCES: usize = 4096;

/// The nearest references of these queries, in order.
pub(super) fn ranked(search: &NeighbourSearch, queries: &[usize]) -> Vec<Vec<u32>> {
    queries.chunks(QUERIES).flat_map(|chunk| rank_chunk(search, chunk)).collect()
}

fn rank_chunk(search: &NeighbourSearch, queries: &[usize]) -> Vec<Vec<u32>> {
    let at: Vec<i64> = queries.iter().map(|&q| q as i64).collect();
    let at = Tensor::from_slice(&at).to_device(search.query_points.device());
    let points = search.query_points.index_select(0, &at).to_kind(Kind::Double);
    let mut lists: Vec<List> = queries.iter().map(|&q| List::new(search.wanted[q], search.own[q])).collect();
    let mut scores = vec![0.0_f64; queries.len() * REFERENCES];
    for start in (0..search.references.len()).step_by(REFERENCES) {
        let width = REFERENCES.min(search.references.len() - start);
        let references = search.reference_points.narrow(0, start as i64, width as i64).to_kind(Kind::Double);
        let block = points.matmul(&references.tr()).to_device(Device::Cpu);
        let scores = &mut scores[..queries.len() * width];
        block.copy_data(scores, queries.len() * width);
        lists.par_iter_mut().zip(scores.par_chunks(width)).for_each(|(list, scores)| list.take(scores, start as u32));
    }
    lists.into_iter().map(List::finish).collect()
}

/// The best hits of one query so far. References come in ascending order, so a later one must be
/// strictly better to replace an earlier one.
struct List {
    hits: Vec<(f64, u32)>,
    wanted: usize,
    own: Option<u32>,
    threshold: f64,
}

impl List {
    fn new(wanted: usize, own: Option<u32>) -> Self {
        Self { hits: Vec::new(), wanted, own, threshold: f64::NEG_INFINITY }
    }

    fn take(&mut self, scores: &[f64], first: u32) {
        for (&score, reference) in scores.iter().zip(first..) {
            if score > self.threshold && Some(reference) != self.own {
                self.hits.push((score, reference));
                if self.hits.len() >= 2 * self.wanted + 64 {
                    self.cut_back();
                }
            }
        }
    }

    fn cut_back(&mut self) {
        self.hits.select_nth_unstable_by(self.wanted - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.hits.truncate(self.wanted);
        self.threshold = self.hits[self.wanted - 1].0;
    }

    fn finish(mut self) -> Vec<u32> {
        self.hits.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.hits.iter().take(self.wanted).map(|h| h.1).collect()
    }
}
