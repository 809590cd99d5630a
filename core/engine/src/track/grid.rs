//! Grids of images: retrieved neighbours, and samples with captions.

use super::font;
use super::rgb_image::{Rgb, RgbImage};
use crate::{Error, Result};
use tch::Tensor;

/// Minimum and maximum length of the longer side of an image in a grid.
const CELL: (usize, usize) = (64, 128);
const FRAME: usize = 3;
const GAP: usize = 4;
const PAPER: Rgb = [255; 3];
const INK: Rgb = [0; 3];
const QUERY: Rgb = [90; 3];
const RIGHT: Rgb = [0, 150, 60];
const WRONG: Rgb = [214, 40, 40];

/// One row per query: the query, then its retrieved neighbours, nearest first.
///
/// Right neighbours have a green frame, wrong ones a dashed red frame with a cross in the corner.
/// Shapes: `queries [Q, C, H, W]`, `neighbours [Q * K, C, H, W]` row by row, both u8; `right`
/// has an entry for each neighbour.
pub fn retrieval_grid(queries: &Tensor, neighbours: &Tensor, right: &[bool]) -> Result<RgbImage> {
    let (queries, neighbours) = (RgbImage::from_batch(queries)?, RgbImage::from_batch(neighbours)?);
    if queries.is_empty() || neighbours.len() != right.len() || !right.len().is_multiple_of(queries.len()) {
        return Err(Error::Failed(format!(
            "cannot draw {} queries with {} neighbours and {} marks: every query needs the same number",
            queries.len(),
            neighbours.len(),
            right.len()
        )));
    }
    let per_query = right.len() / queries.len();
    let mut cells = Vec::new();
    for (i, query) in queries.iter().enumerate() {
        cells.push(framed(query, QUERY));
        for j in i * per_query..(i + 1) * per_query {
            cells.push(if right[j] { framed(&neighbours[j], RIGHT) } else { crossed(&neighbours[j]) });
        }
    }
    Ok(arranged(&cells, per_query + 1))
}

/// Images `[N, C, H, W]`, u8, with captions below, `columns` per row. A caption may have several
/// lines, which are truncated to the width of the image.
pub fn sample_grid(images: &Tensor, captions: &[String], columns: usize) -> Result<RgbImage> {
    let images = RgbImage::from_batch(images)?;
    if images.is_empty() || images.len() != captions.len() || columns == 0 {
        return Err(Error::Failed(format!(
            "cannot draw {} images with {} captions in {columns} columns",
            images.len(),
            captions.len()
        )));
    }
    let lines = captions.iter().map(|c| c.lines().count()).max().unwrap_or(0);
    let captioned = |(image, caption): (&RgbImage, &String)| {
        let image = image.scaled(CELL.0, CELL.1);
        let (width, top) = (image.width(), image.height() + 2);
        let mut cell = RgbImage::new(width, top + lines * font::LINE, PAPER);
        cell.paste(0, 0, &image);
        for (i, line) in caption.lines().enumerate() {
            let fitting: String = line.chars().take((width + 1) / font::ADVANCE).collect();
            cell.write(0, top + i * font::LINE, &fitting, INK);
        }
        cell
    };
    let cells: Vec<RgbImage> = images.iter().zip(captions).map(captioned).collect();
    Ok(arranged(&cells, columns.min(cells.len())))
}

/// Arranges cells row by row.
fn arranged(cells: &[RgbImage], columns: usize) -> RgbImage {
    let width = cells.iter().map(RgbImage::width).max().unwrap_or(0) + GAP;
    let height = cells.iter().map(RgbImage::height).max().unwrap_or(0) + GAP;
    let mut grid = RgbImage::new(columns * width + GAP, cells.len().div_ceil(columns) * height + GAP, PAPER);
    for (i, cell) in cells.iter().enumerate() {
        grid.paste(GAP + i % columns * width, GAP + i / columns * height, cell);
    }
    grid
}

fn framed(image: &RgbImage, colour: Rgb) -> RgbImage {
    let image = image.scaled(CELL.0, CELL.1);
    let mut cell = RgbImage::new(image.width() + 2 * FRAME, image.height() + 2 * FRAME, colour);
    cell.paste(FRAME, FRAME, &image);
    cell
}

/// A dashed frame with a cross in its upper right corner, to be recognisable without colour.
fn crossed(image: &RgbImage) -> RgbImage {
    let mut cell = framed(image, WRONG);
    let (width, height) = (cell.width(), cell.height());
    for y in 0..height {
        for x in 0..width {
            let inside = (FRAME..width - FRAME).contains(&x) && (FRAME..height - FRAME).contains(&y);
            if !inside && (x + y) / 6 % 2 == 1 {
                cell.set(x, y, PAPER);
            }
        }
    }
    let corner = 13.min(width).min(height);
    let left = width - corner;
    for y in 0..corner {
        for x in 0..corner {
            let on_cross = x.abs_diff(y) <= 1 || (x + y).abs_diff(corner - 1) <= 1;
            cell.set(left + x, y, if on_cross { WRONG } else { PAPER });
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn grey(n: i64) -> Tensor {
        Tensor::full([n, 1, 32, 32], 128, (Kind::Uint8, Device::Cpu))
    }

    #[test]
    fn right_and_wrong_neighbours_differ_in_colour_and_shape() {
        let grid = retrieval_grid(&grey(2), &grey(4), &[true, false, false, true]).unwrap();
        let cell = 64 + 2 * FRAME + GAP;
        assert_eq!((grid.width(), grid.height()), (3 * cell + GAP, 2 * cell + GAP));
        // The upper edge of each frame of the first row: query, right neighbour, wrong neighbour.
        let edge = |column: usize| (0..40).map(|x| grid.pixel(GAP + column * cell + x, GAP)).collect::<Vec<_>>();
        assert!(edge(0).iter().all(|p| *p == QUERY));
        assert!(edge(1).iter().all(|p| *p == RIGHT));
        assert!(edge(2).contains(&WRONG) && edge(2).contains(&PAPER));
        // Inside, the image is unchanged.
        assert_eq!(grid.pixel(GAP + 2 * cell + 30, GAP + 30), [128; 3]);
    }

    #[test]
    fn captions_are_below_their_images_and_inside_their_cells() {
        let captions = ["w 0.01".to_string(), "a caption far too long for it\nsecond".into(), String::new()];
        let grid = sample_grid(&grey(3), &captions, 2).unwrap();
        let (cell, row) = (64 + GAP, 64 + 2 + 2 * font::LINE + GAP);
        assert_eq!((grid.width(), grid.height()), (2 * cell + GAP, 2 * row + GAP));
        let ink = |x0: usize, y0: usize, w: usize, h: usize| {
            (y0..y0 + h)
                .flat_map(|y| (x0..x0 + w).map(move |x| (x, y)))
                .filter(|&(x, y)| grid.pixel(x, y) == INK)
                .count()
        };
        let below = GAP + 64 + 2;
        assert!(ink(GAP, below, 64, font::LINE) > 20, "the first caption is there");
        assert!(ink(GAP + cell, below + font::LINE, 64, font::LINE) > 20, "its second line is there");
        assert_eq!(ink(GAP + 64, 0, GAP, grid.height()), 0, "nothing between the columns");
        assert_eq!(ink(GAP + cell + 64, 0, GAP, grid.height()), 0, "a long line is cut off");
    }

    #[test]
    fn mismatched_counts_are_an_error() {
        assert!(retrieval_grid(&grey(2), &grey(3), &[true; 3]).is_err());
        assert!(retrieval_grid(&grey(0), &grey(0), &[]).is_err());
        assert!(sample_grid(&grey(2), &["one".into()], 2).is_err());
    }
}
