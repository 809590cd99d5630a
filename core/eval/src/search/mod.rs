//! Exact nearest-neighbour search in blocks, without the full N×N matrix.
//!
//! Blocks of f32 similarities yield candidates: [`tiles`] on the CPU, [`torch`] on other devices.
//! Both keep everything within the error bound of f32, so [`row::Row::settle`] (or [`exact`], if there
//! are too many ties) gives the same ranking on every device and with any number of threads.

mod exact;
mod row;
mod tiles;
mod torch;

use crate::space::{Space, dot, margin};
use rayon::prelude::*;
use tch::{Device, Tensor};

/// How candidates are found. The ranking is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Tiles scanned by the CPU, using the symmetry of the matrix.
    Tiles,
    /// Tensor operations on the device.
    Torch,
}

impl Path {
    /// The faster one for embeddings on this device.
    pub(crate) fn on(device: Device) -> Self {
        if device == Device::Cpu { Path::Tiles } else { Path::Torch }
    }
}

/// A search of queries among references.
pub(super) struct NeighbourSearch<'a> {
    space: &'a Space,
    queries: &'a [u32],
    references: &'a [u32],
    wanted: Vec<usize>,
    /// The position of each query among the references, if it is one of them.
    own: Vec<Option<u32>>,
    symmetric: bool,
    query_points: Tensor,
    reference_points: Tensor,
}

impl<'a> NeighbourSearch<'a> {
    /// Searches the `wanted` nearest `references` (ascending) of each of `queries`, excluding the query
    /// itself. A query that wants more than there are gets all.
    pub(crate) fn new(space: &'a Space, queries: &'a [u32], references: &'a [u32], wanted: &[usize]) -> Self {
        let own: Vec<Option<u32>> =
            queries.iter().map(|id| references.binary_search(id).ok().map(|at| at as u32)).collect();
        let others = own.iter().map(|own| references.len() - usize::from(own.is_some()));
        Self {
            space,
            queries,
            references,
            wanted: wanted.iter().zip(others).map(|(&k, others)| k.min(others)).collect(),
            own,
            symmetric: queries == references,
            query_points: space.select(queries),
            reference_points: space.select(references),
        }
    }

    /// Calls `visit` with the position of each query and of its nearest references, nearest first, and
    /// returns the results in the order of the queries.
    pub(crate) fn run<T: Send>(&self, path: Path, visit: impl Fn(usize, &[u32]) -> T + Sync) -> Vec<T> {
        let stripes = match path {
            Path::Tiles => tiles::stripes(&self.wanted),
            Path::Torch => torch::stripes(&self.wanted),
        };
        let mut results = Vec::with_capacity(self.queries.len());
        for stripe in stripes {
            let mut rows = match path {
                Path::Tiles => tiles::candidates(self, &stripe),
                Path::Torch => torch::candidates(self, &stripe),
            };
            let crowded: Vec<usize> = stripe.clone().filter(|q| rows[q - stripe.start].crowded).collect();
            for (query, ranked) in crowded.iter().zip(exact::ranked(self, &crowded)) {
                rows[query - stripe.start].settled = Some(ranked);
            }
            let (points, margin) = (self.space.rows(), self.margin());
            let (queries, references) = (&self.queries[stripe.clone()], self.references);
            let settled = rows.par_iter_mut().zip(queries).enumerate().map(|(at, (row, &id))| {
                let exact = |r: u32| dot(points.row(id), points.row(references[r as usize]));
                visit(stripe.start + at, &row.settle(margin, exact))
            });
            results.par_extend(settled);
        }
        results
    }

    fn margin(&self) -> f32 {
        margin(self.space.rows().dim)
    }
}
