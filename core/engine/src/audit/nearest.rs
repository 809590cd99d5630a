//! The nearest samples of every training sample, and how densely each class lies around it.
//!
//! Features are centred first, because those of a network mostly point the same way. Distances are in units of
//! the median distance of a sample to its nearest neighbour, so that one limit suits any network.

use crate::Result;
use curricle_eval as eval;
use tch::{Kind, Tensor};

/// Neighbours that are searched for each sample.
const NEIGHBOURS: usize = 50;
/// Distances of unit vectors below this are rounding errors of f32.
pub(super) const ROUNDING: f64 = 1e-3;
/// A constant coordinate, so that a sample at the mean has a direction; well above the rounding errors of the mean.
const CONSTANT: f64 = 1e-3;
/// Squared width of the kernel, as a share of the squared median distance to the nearest neighbour.
const WIDTH: f64 = 0.1;

/// The nearest neighbours of the training samples.
#[derive(Debug)]
pub(super) struct Nearest {
    /// For each training sample other samples and their cosine similarities, nearest first. Indices from the
    /// number of training samples on are test samples.
    pub found: Vec<Vec<(usize, f32)>>,
    /// The median distance to the nearest neighbour.
    pub unit: f64,
}

impl Nearest {
    /// Searches the neighbours of the training samples among these and the test samples.
    pub(super) fn search(train: &Tensor, test: Option<&Tensor>) -> Result<Self> {
        let count = train.size()[0] as usize;
        if count < 2 {
            return Ok(Self { found: vec![Vec::new(); count], unit: 1.0 });
        }
        let _no_grad = tch::no_grad_guard();
        let both = match test {
            Some(test) => Tensor::f_cat(&[train, test], 0).map_err(curricle_sdk::Error::from),
            None => Ok(train.shallow_clone()),
        };
        let points = both.and_then(|both| centred(&both));
        let points = points.map_err(|source| crate::Error::Torch { during: "comparing features", source })?;
        let queries: Vec<usize> = (0..count).collect();
        let found = eval::neighbours(&points, None, &queries, NEIGHBOURS)?;
        let mut nearest: Vec<f64> = found.iter().filter_map(|found| Some(distance(found.first()?.1))).collect();
        let unit = super::median(&mut nearest).max(ROUNDING);
        Ok(Self { found, unit })
    }

    /// The log densities `[B, C]` of all classes at some samples, each as if it had not been seen.
    ///
    /// A class has the mean of a Gaussian kernel over its samples. Those that are not among the neighbours count
    /// as one at the distance of the last neighbour. A common factor of all classes of a sample is left out.
    pub(super) fn log_densities(
        &self,
        samples: &[i64],
        labels: &[i64],
        sizes: &[usize],
    ) -> curricle_sdk::Result<Tensor> {
        let classes = sizes.len();
        let mut all = Vec::with_capacity(samples.len() * classes);
        for &sample in samples {
            let found = &self.found[sample as usize];
            let nearest = found.first().map_or(0.0, |first| f64::from(first.1));
            let kernel =
                |similarity: f32| ((f64::from(similarity) - nearest) / (0.5 * WIDTH * self.unit.powi(2))).exp();
            let mut sums = vec![found.last().map_or(1.0, |last| kernel(last.1)).max(f64::MIN_POSITIVE); classes];
            for &(other, similarity) in found.iter().filter(|(other, _)| *other < labels.len()) {
                sums[labels[other] as usize] += kernel(similarity);
            }
            let own = labels[sample as usize] as usize;
            let others = |class: usize| sizes[class].saturating_sub(usize::from(class == own)).max(1) as f64;
            all.extend(sums.iter().enumerate().map(|(class, sum)| (sum / others(class)).ln()));
        }
        Ok(Tensor::f_from_slice(&all)?.f_view([samples.len() as i64, classes as i64])?)
    }
}

/// The distance of two unit vectors with this cosine similarity.
pub(super) fn distance(similarity: f32) -> f64 {
    (2.0 - 2.0 * f64::from(similarity)).max(0.0).sqrt()
}

fn centred(features: &Tensor) -> curricle_sdk::Result<Tensor> {
    let x = super::unit(&features.to_kind(Kind::Float));
    let x = &x - x.mean_dim([0i64].as_slice(), true, Kind::Float);
    let constant = Tensor::full([x.size()[0], 1], CONSTANT, (Kind::Float, x.device()));
    Ok(Tensor::f_cat(&[x, constant], 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn the_density_of_a_class_is_that_of_its_nearest_group_without_the_sample() {
        // Class 0 has two groups, far apart; class 1 lies near the second. The last sample is in the second group.
        let rows = [[9.0, 0.1], [9.0, 0.0], [0.1, 9.0], [0.0, 9.1], [-3.0, 8.0], [-3.1, 8.0], [0.05, 9.0]];
        let labels = [0, 0, 0, 0, 1, 1, 0];
        let x = Tensor::from_slice2(&rows).to_kind(Kind::Float);
        let nearest = Nearest::search(&x, None).unwrap();
        let found = nearest.log_densities(&[6, 4], &labels, &[5, 2]).unwrap();
        let found = Vec::<Vec<f64>>::try_from(found).unwrap();
        assert!(found[0][0] > found[0][1] && found[1][1] > found[1][0], "{found:?}");
        // Two of the four others are where it is.
        assert!((found[0][0] - 0.5f64.ln()).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn identical_samples_have_finite_densities() {
        let x = Tensor::ones([4, 3], (Kind::Float, Device::Cpu));
        let found = Nearest::search(&x, None).unwrap().log_densities(&[0, 3], &[0, 0, 1, 1], &[2, 2]).unwrap();
        assert!(Vec::<f64>::try_from(found.view(-1)).unwrap().iter().all(|value| value.is_finite()));
    }
}
