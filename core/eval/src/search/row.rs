//! The candidates for the nearest neighbours of one query, by f32 similarity.

use std::cmp::Ordering;

/// A reference and its f32 similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hit {
    pub score: f32,
    pub reference: u32,
}

/// Higher similarity first, then lower index.
pub(super) fn by_rank(a: &Hit, b: &Hit) -> Ordering {
    b.score.total_cmp(&a.score).then(a.reference.cmp(&b.reference))
}

/// The references that may be among the `wanted` nearest of one query.
///
/// References are offered in any order; when the list is full it is cut back to those that are at
/// most `margin` below the `wanted`-th best. If there are more ties than the list has room for, it
/// gives up (`crowded`) and the query is searched again exactly.
#[derive(Debug)]
pub(super) struct Row {
    pub hits: Vec<Hit>,
    pub wanted: usize,
    pub crowded: bool,
    /// The final ranking, once the exact search has found it.
    pub settled: Option<Vec<u32>>,
    threshold: f32,
}

impl Row {
    /// A list for the `wanted` nearest references.
    pub(super) fn new(wanted: usize) -> Self {
        let threshold = if wanted == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self { hits: Vec::with_capacity(Self::capacity(wanted)), wanted, crowded: false, settled: None, threshold }
    }

    /// Capacity of a list. A quarter more than wanted keeps cutting back cheap.
    pub(crate) fn capacity(wanted: usize) -> usize {
        if wanted == 0 { 0 } else { wanted + wanted / 4 + 64 }
    }

    /// Only references more similar than this are worth offering.
    pub(super) fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Adds a reference to the list if it is similar enough.
    pub(super) fn offer(&mut self, hit: Hit, margin: f32) {
        if hit.score <= self.threshold {
            return;
        }
        self.hits.push(hit);
        if self.hits.len() == Self::capacity(self.wanted) {
            self.cut_back(margin);
        }
    }

    fn cut_back(&mut self, margin: f32) {
        let room = Self::capacity(self.wanted);
        let (_, last_wanted, _) = self.hits.select_nth_unstable_by(self.wanted - 1, by_rank);
        self.threshold = last_wanted.score - margin;
        self.hits.retain(|h| h.score > self.threshold);
        if self.hits.len() > room - 16 {
            self.give_up();
        }
    }

    /// Leaves this query to the exact search.
    pub(super) fn give_up(&mut self) {
        self.crowded = true;
        self.threshold = f32::INFINITY;
        self.hits = Vec::new();
    }

    /// The nearest references in their exact order: hits within `margin` of each other are compared by
    /// `exact`, and ties by index.
    pub(super) fn settle(&mut self, margin: f32, exact: impl Fn(u32) -> f64) -> Vec<u32> {
        if let Some(ranked) = self.settled.take() {
            return ranked;
        }
        self.hits.sort_unstable_by(by_rank);
        let mut ranked = Vec::with_capacity(self.wanted);
        for close in self.hits.chunk_by(|a, b| a.score - b.score <= margin) {
            if ranked.len() >= self.wanted {
                break;
            }
            if let [only] = close {
                ranked.push(only.reference);
                continue;
            }
            let mut close: Vec<_> = close.iter().map(|h| (exact(h.reference), h.reference)).collect();
            close.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            ranked.extend(close.iter().map(|c| c.1));
        }
        ranked.truncate(self.wanted);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer_all(row: &mut Row, scores: impl Iterator<Item = f32>) {
        for (reference, score) in scores.enumerate() {
            row.offer(Hit { score, reference: reference as u32 }, 1e-3);
        }
    }

    #[test]
    fn the_best_survive_cutting_back() {
        let mut row = Row::new(3);
        offer_all(&mut row, (0..1000).map(|i| ((i * 37) % 1000) as f32 / 1000.0));
        assert!(!row.crowded);
        let ranked = row.settle(1e-4, |_| unreachable!("nothing is close"));
        let expected: Vec<u32> = [999, 998, 997].map(|s| (0..1000).find(|i| (i * 37) % 1000 == s).unwrap()).to_vec();
        assert_eq!(ranked, expected);
    }

    #[test]
    fn close_hits_are_compared_exactly_and_ties_by_index() {
        let mut row = Row::new(4);
        offer_all(&mut row, [0.5000, 0.5001, 0.9, 0.5002, 0.1].into_iter());
        assert_eq!(row.settle(1e-3, |r| if r == 0 { 2.0 } else { 1.0 }), [2, 0, 1, 3]);
    }

    #[test]
    fn a_list_with_more_ties_than_room_gives_up() {
        let mut row = Row::new(3);
        offer_all(&mut row, std::iter::repeat_n(0.5, 500));
        assert!(row.crowded && row.hits.is_empty());
    }

    #[test]
    fn a_list_of_capacity_zero_stays_empty() {
        let mut row = Row::new(0);
        offer_all(&mut row, [0.5, 0.9].into_iter());
        assert!(row.settle(1e-3, |_| 0.0).is_empty());
    }
}
