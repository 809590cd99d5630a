//! Candidates on the CPU, by square tiles of the similarity matrix.
//!
//! libtorch multiplies one tile at a time. Where queries and references are the same samples the
//! matrix is symmetric, so a tile above the diagonal serves its rows and, read by columns, the
//! rows of its mirror image: half the multiplications of a search that does not know. A tile is
//! compared with every row's threshold while it is still in the cache; few values get past it.
//!
//! Each row sees its references in an order fixed by the tiles, whatever the number of threads.

use super::Search;
use super::row::{Hit, Row};
use crate::eval::space::as_slice;
use rayon::prelude::*;
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// Rows and columns of a tile: 4 MB, small enough for a cache, large enough to multiply at speed.
const TILE: usize = 1024;
/// Columns one task scans when a tile is read by columns: one cache line of each row or more.
const STRIP: usize = 64;
/// Values compared before looking at each of them.
const LANES: usize = 32;
/// Bytes all lists of a stripe may take.
const LISTS: usize = 700 << 20;

/// Queries whose lists fit into memory together, in whole tiles.
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
pub(super) fn candidates(search: &Search, stripe: &Range<usize>) -> Vec<Row> {
    let margin = search.margin();
    let mut rows: Vec<Row> = search.wanted[stripe.clone()].iter().map(|&k| Row::new(k)).collect();
    let memory = Tensor::empty([(TILE * TILE) as i64], (Kind::Float, Device::Cpu));
    for i in blocks(stripe) {
        for j in blocks(&(0..search.references.len())) {
            let twin = search.symmetric && stripe.contains(&j.start);
            if twin && j.start < i.start {
                continue;
            }
            let tile = multiply(search, &i, &j, &memory);
            let values = as_slice(&tile);
            let own = &mut rows[i.start - stripe.start..i.end - stripe.start];
            scan_rows(own, &search.own[i.clone()], values, j.start, margin);
            if twin && j.start > i.start {
                scan_columns(&mut rows[j.start - stripe.start..j.end - stripe.start], values, i.start, margin);
            }
        }
    }
    rows
}

fn blocks(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    range.clone().step_by(TILE).map(move |start| start..end.min(start + TILE))
}

fn multiply(search: &Search, i: &Range<usize>, j: &Range<usize>, memory: &Tensor) -> Tensor {
    let (height, width) = (i.len() as i64, j.len() as i64);
    let tile = memory.narrow(0, 0, height * width).view([height, width]);
    let a = search.query_points.narrow(0, i.start as i64, height);
    let b = search.reference_points.narrow(0, j.start as i64, width);
    a.mm_out(&tile, &b.tr())
}

/// Offers each row of a tile to its list. `own` is the reference a row must not find: itself.
fn scan_rows(rows: &mut [Row], own: &[Option<u32>], tile: &[f32], first: usize, margin: f32) {
    let width = tile.len() / rows.len();
    let rows = rows.par_iter_mut().zip(own).zip(tile.par_chunks(width)).with_min_len(16);
    rows.for_each(|((row, &own), scores)| {
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
    });
}

/// Offers each column of a tile to the list of its mirror image.
fn scan_columns(rows: &mut [Row], tile: &[f32], first: usize, margin: f32) {
    let width = rows.len();
    rows.par_chunks_mut(STRIP).enumerate().for_each(|(strip, rows)| {
        let mut thresholds: Vec<f32> = rows.iter().map(Row::threshold).collect();
        for (line, reference) in tile.chunks_exact(width).zip(first as u32..) {
            let scores = &line[strip * STRIP..][..rows.len()];
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
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_whole_tiles_and_cover_all_queries() {
        let wanted = vec![36; 5 * TILE + 7];
        let one_tile = TILE * Row::capacity(36) * size_of::<Hit>();
        let stripes = stripes_within(&wanted, 2 * one_tile);
        assert_eq!(stripes, [0..2 * TILE, 2 * TILE..4 * TILE, 4 * TILE..5 * TILE + 7]);
        assert_eq!(stripes_within(&wanted, 1).len(), 6, "a tile too large for the budget is a stripe of its own");
    }
}
