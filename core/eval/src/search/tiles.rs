//! Finds candidates on the CPU, in square tiles of the similarity matrix.
//!
//! Each thread multiplies whole tiles. Where queries and references are the same samples
//! the matrix is symmetric, so a tile above the diagonal serves its rows and, read by columns, the rows
//! of its mirror image, which halves the multiplications. A tile is compared with every row's threshold
//! while it is still in the cache; few values pass.
//!
//! Threads finish tiles in any order, but the final contents of a list do not depend on it: everything
//! within the margin, or nothing if it is crowded and the exact search takes over.

use super::NeighbourSearch;
use super::row::{Hit, Row};
use crate::parallel;
use crate::space::as_slice;
use curricle_sdk::mm;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tch::Tensor;

/// Rows and columns of a tile: 4 MB, small enough for a cache, large enough to multiply fast.
const TILE: usize = 1024;
/// Number of values compared at once before looking at each of them.
const LANES: usize = 32;
/// Memory budget of all lists of a stripe, in bytes.
const LISTS: usize = 700 << 20;

/// Splits the queries into stripes of whole tiles whose lists fit into the memory budget.
pub(super) fn stripes(wanted: &[usize]) -> Vec<Range<usize>> {
    stripes_within(wanted, LISTS)
}

fn stripes_within(wanted: &[usize], budget: usize) -> Vec<Range<usize>> {
    let mut stripes = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for tile in blocks(&(0..wanted.len())) {
        let need: usize = wanted[tile.clone()].iter().map(|&k| Row::capacity(k) * size_of::<Hit>()).sum();
        if bytes + need > budget && tile.start > start {
            stripes.push(start..tile.start);
            (start, bytes) = (tile.start, 0);
        }
        bytes += need;
    }
    stripes.push(start..wanted.len());
    stripes
}

/// The candidates of one stripe of queries.
pub(super) fn candidates(search: &NeighbourSearch, stripe: &Range<usize>) -> Vec<Row> {
    let (margin, own) = (search.margin(), &search.own);
    let lists: Vec<Mutex<Vec<Row>>> = blocks(stripe).map(|block| Mutex::new(lists(&search.wanted[block]))).collect();
    parallel::each(tiles(search, stripe), |tile| {
        let products = mm(&tile.query_points, &tile.reference_points.tr());
        let values = as_slice(&products);
        let block = |range: &Range<usize>| lock(&lists[(range.start - stripe.start) / TILE]);
        scan_rows(&mut block(&tile.queries), &own[tile.queries.clone()], values, tile.references.start, margin);
        if tile.mirrored {
            scan_columns(&mut block(&tile.references), values, tile.queries.start, margin);
        }
    });
    lists.into_iter().flat_map(|block| block.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn lists(wanted: &[usize]) -> Vec<Row> {
    wanted.iter().map(|&k| Row::new(k)).collect()
}

/// A panic in a thread ends the whole search, so poisoned data is never read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of queries against a block of references.
struct Tile {
    queries: Range<usize>,
    references: Range<usize>,
    /// Whether it also serves its mirror image.
    mirrored: bool,
    query_points: Tensor,
    reference_points: Tensor,
}

fn tiles(search: &NeighbourSearch, stripe: &Range<usize>) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for queries in blocks(stripe) {
        for references in blocks(&(0..search.references.len())) {
            let twin = search.symmetric && stripe.contains(&references.start);
            if twin && references.start < queries.start {
                continue;
            }
            tiles.push(Tile {
                mirrored: twin && references.start > queries.start,
                query_points: search.query_points.narrow(0, queries.start as i64, queries.len() as i64),
                reference_points: search.reference_points.narrow(0, references.start as i64, references.len() as i64),
                queries: queries.clone(),
                references,
            });
        }
    }
    // Go along the diagonals, so that tiles processed at the same time do not share lists.
    tiles.sort_by_key(|t| (t.references.start.abs_diff(t.queries.start), t.queries.start));
    tiles
}

fn blocks(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    range.clone().step_by(TILE).map(move |start| start..end.min(start + TILE))
}

/// Offers each row of a tile to its list. `own` is the query itself, which it must not find.
fn scan_rows(rows: &mut [Row], own: &[Option<u32>], tile: &[f32], first: usize, margin: f32) {
    let width = tile.len() / rows.len();
    for ((row, &own), scores) in rows.iter_mut().zip(own).zip(tile.chunks_exact(width)) {
        for (chunk, at) in scores.chunks(LANES).zip((first as u32..).step_by(LANES)) {
            let threshold = row.threshold();
            if !chunk.iter().fold(false, |any, &s| any | (s > threshold)) {
                continue;
            }
            for (&score, reference) in chunk.iter().zip(at..) {
                if score > row.threshold() && Some(reference) != own {
                    row.offer(Hit { score, reference }, margin);
                }
            }
        }
    }
}

/// Offers each column of a tile to the list of its mirror image.
fn scan_columns(rows: &mut [Row], tile: &[f32], first: usize, margin: f32) {
    let mut thresholds: Vec<f32> = rows.iter().map(Row::threshold).collect();
    for (scores, reference) in tile.chunks_exact(rows.len()).zip(first as u32..) {
        for (start, chunk) in (0..).step_by(LANES).zip(scores.chunks(LANES)) {
            let limits = &thresholds[start..start + chunk.len()];
            if !chunk.iter().zip(limits).fold(false, |any, (&s, &t)| any | (s > t)) {
                continue;
            }
            for (c, &score) in (start..).zip(chunk) {
                if score > thresholds[c] {
                    rows[c].offer(Hit { score, reference }, margin);
                    thresholds[c] = rows[c].threshold();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_consist_of_whole_tiles_and_cover_all_queries() {
        let wanted = vec![36; 5 * TILE + 7];
        let one_tile = TILE * Row::capacity(36) * size_of::<Hit>();
        let stripes = stripes_within(&wanted, 2 * one_tile);
        assert_eq!(stripes, [0..2 * TILE, 2 * TILE..4 * TILE, 4 * TILE..5 * TILE + 7]);
        assert_eq!(stripes_within(&wanted, 1).len(), 6, "a tile too large for the budget is a separate stripe");
    }
}
