//! `strokes`: synthetic handwritten characters.
//!
//! Each class is a character of a few curved strokes, each sample a variation of it. Every class and
//! every sample has its own random stream: adding classes or samples does not change the others, and
//! the images do not depend on the number of threads.

mod canvas;
mod character;

use super::{Inputs, Split};
use crate::{Error, Result};
use character::Character;
use curricle_recipe::StrokesRecipe;
use curricle_sdk::rng::stream;
use rayon::prelude::*;
use tch::{Kind, Tensor};

/// Draws the whole data set, class by class.
pub(super) fn draw(recipe: &StrokesRecipe) -> Result<Split> {
    let StrokesRecipe { classes, per_class, size, jitter, seed } = *recipe;
    let mut images = room_for(recipe)?;
    let pixels = size * size;
    images.par_chunks_mut(per_class * pixels).enumerate().for_each(|(class, images)| {
        let character = Character::invent(&mut stream(seed, "strokes character", class as u64, 0));
        for (sample, image) in images.chunks_exact_mut(pixels).enumerate() {
            let mut rng = stream(seed, "strokes drawing", class as u64, sample as u64);
            image.copy_from_slice(&character.redraw(size, jitter as f32, &mut rng));
        }
    });
    let shape = [classes * per_class, 1, size, size].map(|n| n as i64);
    let images = Tensor::f_from_data_size(&images, &shape, Kind::Uint8)
        .map_err(|e| Error::Torch { during: "storing the characters", source: e.into() })?;
    Ok(Split {
        inputs: Inputs::Images(images),
        labels: (0..classes as i64).flat_map(|class| std::iter::repeat_n(class, per_class)).collect(),
        class_names: (0..classes).map(class_name).collect(),
        paths: (0..classes)
            .flat_map(|class| (0..per_class).map(move |s| format!("{}/{s:04}", class_name(class))))
            .collect(),
    })
}

/// Allocates memory for all images, after checking the settings.
fn room_for(recipe: &StrokesRecipe) -> Result<Vec<u8>> {
    let StrokesRecipe { classes, per_class, size, jitter, .. } = *recipe;
    if classes == 0 || per_class == 0 || size == 0 {
        return Err(Error::Usage("`classes`, `per_class` and `size` of `strokes` must be at least 1".into()));
    }
    if !(jitter.is_finite() && jitter >= 0.0) {
        return Err(Error::Usage(format!("`jitter` of `strokes` must be 0 or more, not {jitter}")));
    }
    let bytes = [classes, per_class, size, size].iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    #[expect(clippy::slow_vector_initialization, reason = "`vec![]` aborts when memory runs out")]
    let mut images = Vec::new();
    match bytes {
        Some(bytes) if images.try_reserve_exact(bytes).is_ok() => {
            images.resize(bytes, 0);
            Ok(images)
        }
        _ => Err(Error::Usage(format!(
            "{classes} × {per_class} images of {size} × {size} pixels do not fit in memory; use fewer or smaller ones"
        ))),
    }
}

fn class_name(class: usize) -> String {
    format!("character-{class:04}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(recipe: &StrokesRecipe) -> Vec<Vec<u8>> {
        let split = draw(recipe).unwrap();
        let all = Vec::<u8>::try_from(split.inputs.tensor().unwrap().flatten(0, -1)).unwrap();
        all.chunks(recipe.size * recipe.size).map(<[u8]>::to_vec).collect()
    }

    fn small() -> StrokesRecipe {
        StrokesRecipe { classes: 4, per_class: 3, ..StrokesRecipe::default() }
    }

    #[test]
    fn adding_classes_or_samples_does_not_change_the_others() {
        let base = images(&small());
        let more_classes = images(&StrokesRecipe { classes: 6, ..small() });
        assert_eq!(base[..], more_classes[..12]);
        let more_samples = images(&StrokesRecipe { per_class: 5, ..small() });
        for class in 0..4 {
            assert_eq!(base[class * 3..][..3], more_samples[class * 5..][..3]);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(one.install(|| images(&small())), three.install(|| images(&small())));
    }

    #[test]
    fn every_drawing_is_different_and_depends_on_the_seed() {
        let base = images(&small());
        for (i, image) in base.iter().enumerate() {
            let ink = image.iter().filter(|p| **p > 100).count();
            assert!((30..600).contains(&ink), "image {i} has {ink} inked pixels");
            assert!(base[..i].iter().all(|earlier| earlier != image));
        }
        let other = images(&StrokesRecipe { seed: 1, ..small() });
        assert!(base.iter().zip(&other).all(|(a, b)| a != b));
    }

    #[test]
    fn drawings_of_one_class_are_more_similar_than_others() {
        let recipe = StrokesRecipe { classes: 20, per_class: 6, ..StrokesRecipe::default() };
        let images = images(&recipe);
        let distance = |a: usize, b: usize| {
            let squares = images[a].iter().zip(&images[b]).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2));
            squares.sum::<f64>()
        };
        let (mut within, mut between) = ((0.0, 0.0), (0.0, 0.0));
        for a in 0..images.len() {
            for b in 0..a {
                let sum = if a / 6 == b / 6 { &mut within } else { &mut between };
                *sum = (sum.0 + distance(a, b), sum.1 + 1.0);
            }
        }
        assert!(within.0 / within.1 < 0.9 * between.0 / between.1);
    }

    #[test]
    fn labels_names_and_shape_are_consistent() {
        let split = draw(&StrokesRecipe { size: 16, ..small() }).unwrap();
        assert_eq!(split.inputs.tensor().unwrap().size(), [12, 1, 16, 16]);
        assert_eq!(split.labels, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!(split.class_names[3], "character-0003");
        assert_eq!(split.paths[4], "character-0001/0001");
    }

    #[test]
    fn invalid_settings_are_refused() {
        for recipe in [
            StrokesRecipe { size: 0, ..small() },
            StrokesRecipe { jitter: f64::NAN, ..small() },
            StrokesRecipe { jitter: -1.0, ..small() },
            StrokesRecipe { classes: usize::MAX / 2, ..small() },
        ] {
            assert!(matches!(draw(&recipe), Err(Error::Usage(_))), "{recipe:?}");
        }
    }
}
