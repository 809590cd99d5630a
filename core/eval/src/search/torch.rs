//! Finds candidates on any device, with tensor operations.

use super::NeighbourSearch;
use super::row::{Hit, Row};
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// Number of queries searched together.
const QUERIES: usize = 1024;
/// Number of references per block: 64 MB.
const REFERENCES: usize = 16 * 1024;
/// Number of additional hits kept, to detect whether ties were cut off.
const SPARE: usize = 64;

/// Splits the queries into stripes that are searched together.
pub(super) fn stripes(wanted: &[usize]) -> Vec<Range<usize>> {
    (0..wanted.len()).step_by(QUERIES).map(|start| start..wanted.len().min(start + QUERIES)).collect()
}

/// The candidates of one stripe of queries.
pub(super) fn candidates(search: &NeighbourSearch, stripe: &Range<usize>) -> Vec<Row> {
    let wanted = &search.wanted[stripe.clone()];
    let keep = (wanted.iter().max().map_or(0, |k| k + SPARE)).min(search.references.len());
    let queries = search.query_points.narrow(0, stripe.start as i64, stripe.len() as i64);
    let mut best: Option<(Tensor, Tensor)> = None;
    for start in (0..search.references.len()).step_by(REFERENCES) {
        let block = start..search.references.len().min(start + REFERENCES);
        let references = search.reference_points.narrow(0, start as i64, block.len() as i64);
        let mut scores = queries.matmul(&references.tr());
        hide_own(search, stripe, &block, &mut scores);
        let (mut values, mut at) = scores.topk(keep.min(block.len()) as i64, 1, true, true);
        at += start as i64;
        if let Some((earlier_values, earlier_at)) = best {
            values = Tensor::cat(&[earlier_values, values], 1);
            at = Tensor::cat(&[earlier_at, at], 1);
            let (merged, order) = values.topk((keep as i64).min(values.size()[1]), 1, true, true);
            (values, at) = (merged, at.gather(1, &order, false));
        }
        best = Some((values, at));
    }
    let Some((values, at)) = best else { return wanted.iter().map(|_| Row::new(0)).collect() };
    read_back(search, wanted, keep, &values, &at)
}

/// Masks each query's similarity to itself.
fn hide_own(search: &NeighbourSearch, stripe: &Range<usize>, block: &Range<usize>, scores: &mut Tensor) {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for query in stripe.clone() {
        if let Some(own) = search.own[query].filter(|&own| block.contains(&(own as usize))) {
            rows.push((query - stripe.start) as i64);
            columns.push(i64::from(own) - block.start as i64);
        }
    }
    let device = scores.device();
    let at = [rows, columns].map(|v| Some(Tensor::from_slice(&v).to_device(device)));
    let _ = scores.index_put_(&at, &Tensor::full([1], f64::NEG_INFINITY, (Kind::Float, device)), false);
}

fn read_back(search: &NeighbourSearch, wanted: &[usize], keep: usize, values: &Tensor, at: &Tensor) -> Vec<Row> {
    let mut scores = vec![0.0_f32; wanted.len() * keep];
    values.to_device(Device::Cpu).contiguous().copy_data(&mut scores, wanted.len() * keep);
    let mut references = vec![0_i64; wanted.len() * keep];
    at.to_device(Device::Cpu).contiguous().copy_data(&mut references, wanted.len() * keep);
    let complete = keep == search.references.len();
    let mut rows: Vec<Row> = wanted.iter().map(|&k| Row::new(k)).collect();
    for (row, (scores, references)) in rows.iter_mut().zip(scores.chunks(keep).zip(references.chunks(keep))) {
        if row.wanted == 0 {
            continue;
        }
        // Hits that were cut off score no higher than the last one kept.
        let limit = scores[row.wanted - 1] - search.margin();
        if !complete && scores[keep - 1] >= limit {
            row.give_up();
            continue;
        }
        let hits = scores.iter().zip(references).map(|(&score, &at)| Hit { score, reference: at as u32 });
        row.hits = hits.take_while(|h| h.score >= limit && h.score > f32::NEG_INFINITY).collect();
    }
    rows
}
