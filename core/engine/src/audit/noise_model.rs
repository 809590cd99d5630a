//! How probable is it that a label is wrong?
//!
//! The scores of a sample for all classes are those of the discriminant plus β times the log densities of the classes
//! among its nearest samples. They become probabilities by a softmax with a temperature τ, which is fitted because
//! scores are overconfident: `p = softmax(s/τ)`. A given label y is one of
//!
//! - right: `p_y`;
//! - wrong at random: the true class is z ≠ y and all other classes are equally likely, `(1 - p_y)/(C - 1)`;
//! - confused: the true class is z ≠ y and y is likely to be mistaken for it in this sample,
//!   `Σ_{z≠y} p_z q_y/(1 - q_z)`, with `q = softmax(s/2τ)`: flatter than p, since people who confuse classes
//!   choose among those that look alike.
//!
//! The shares of the three kinds maximise the likelihood of the given labels (expectation maximisation,
//! which finds the only maximum), and so do τ, β and the shrinkage of the discriminant. Nothing is set from
//! known noise. The probability that a label is wrong follows from Bayes' rule.

use super::scores::{ClassScores, ScoreSettings};
use serde::Serialize;
use tch::{Device, Kind, Tensor};

/// Shrinkages to choose from, in steps of about √10.
const SHRINKAGES: [f64; 6] = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
/// Factors β of the log densities to choose from, besides 0.
const DENSITIES: [f64; 4] = [2.5, 5.0, 10.0, 20.0];
/// Temperatures to choose from before refining.
const TEMPERATURES: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// How much flatter q is than p.
const FLATTER: f64 = 2.0;
/// Steps of expectation maximisation, and the change of shares that ends it.
const STEPS: usize = 500;
const CONVERGED: f64 = 1e-7;
/// Values in a block of scores: 32 MB in f64.
const BLOCK: i64 = 1 << 22;
/// Most and fewest samples that shrinkage and temperature are fitted on.
const FITTED: (i64, i64) = (8192, 1024);
/// Other classes considered for each sample.
const OTHERS: i64 = 4;

/// What was fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NoiseEstimate {
    /// Labels judged: all but those of classes with a single sample.
    pub judged: usize,
    /// Estimated number of wrong labels among them.
    pub wrong: f64,
    /// Of these, labels that are wrong at random.
    pub random: f64,
    /// Of these, labels confused with a class that looks alike.
    pub confused: f64,
    /// Fitted temperature τ of the probabilities.
    pub temperature: f64,
    /// Fitted shrinkage γ of the discriminant.
    pub shrinkage: f64,
    /// Fitted factor β of the log densities among the nearest samples.
    pub density: f64,
}

/// What the model says about one sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judgement {
    /// Probability that the label is wrong.
    pub wrong: f64,
    /// Logarithm of the odds that it is wrong, which still ranks labels whose probability rounds to 1.
    pub log_odds: f64,
    /// The most probable other classes and the probability of each to be the true one, most probable first.
    pub others: Vec<(i64, f64)>,
    /// Squared distance to the nearest class, in units of the variance within classes.
    pub distance: f64,
}

/// The probabilities of one label by kind: right, wrong at random, confused.
type Kinds = [f64; 3];

/// Fits the model to all samples and judges each. Samples of classes of one are not judged: probability 0.
pub(super) fn judge(scores: &ClassScores) -> curricle_sdk::Result<(NoiseEstimate, Vec<Judgement>)> {
    let _no_grad = tch::no_grad_guard();
    let (labels, sizes, classes) = (scores.labels, scores.sizes, scores.sizes.len() as i64);
    let all: Vec<i64> = (0..labels.len() as i64).collect();
    let judged: Vec<i64> = all.iter().copied().filter(|&i| sizes[labels[i as usize] as usize] > 1).collect();
    let (temperature, settings) = select(scores, &judged)?;
    let mut scored = Vec::with_capacity(all.len());
    for block in all.chunks((BLOCK / classes).max(1) as usize) {
        scored.extend(Scored::of(scores, block, temperature, settings)?);
    }
    let kinds: Vec<Kinds> = judged.iter().map(|&i| scored[i as usize].kinds).collect();
    let shares = Shares::fit(&kinds).shares;
    let count = judged.len() as f64;
    let estimate = NoiseEstimate {
        judged: judged.len(),
        wrong: count * (shares[1] + shares[2]),
        random: count * shares[1],
        confused: count * shares[2],
        temperature,
        shrinkage: settings.shrinkage,
        density: settings.density,
    };
    // On clean labels too there is a most doubtful one: as if half a label of each kind were wrong.
    let [right, random, confused] = shares;
    let shares = [right, random.max(0.5 / count), confused.max(0.5 / count)];
    let judgements = scored.into_iter().zip(labels).map(|(scored, &label)| {
        let single = sizes[label as usize] < 2;
        if single { scored.unjudged() } else { scored.judgement(shares, classes) }
    });
    Ok((estimate, judgements.collect()))
}

/// The settings with the greatest likelihood, on evenly spaced samples if there are many: first the shrinkage, then
/// the densities, each with its best temperature.
fn select(scores: &ClassScores, judged: &[i64]) -> curricle_sdk::Result<(f64, ScoreSettings)> {
    let most = (BLOCK * 2 / scores.sizes.len() as i64).clamp(FITTED.1, FITTED.0) as usize;
    let count = judged.len().min(most);
    let samples: Vec<i64> = (0..count).map(|i| judged[i * judged.len() / count]).collect();
    let labels = scores.labels(&samples);
    let mut best = (f64::NEG_INFINITY, 1.0, ScoreSettings { shrinkage: 1.0, density: 0.0 });
    let mut linear = None;
    for shrinkage in SHRINKAGES {
        let attempt = scores.linear(&samples, shrinkage)?;
        let (likelihood, temperature) = best_temperature(&attempt, &labels)?;
        if likelihood > best.0 || linear.is_none() {
            best = (likelihood, temperature, ScoreSettings { shrinkage, density: 0.0 });
            linear = Some(attempt);
        }
    }
    let (Some(linear), densities) = (linear, scores.densities(&samples)?) else { return Ok((best.1, best.2)) };
    for density in DENSITIES {
        let (likelihood, temperature) = best_temperature(&(&linear + density * &densities), &labels)?;
        if likelihood > best.0 {
            best = (likelihood, temperature, ScoreSettings { density, ..best.2 });
        }
    }
    Ok((best.1, best.2))
}

/// The greatest likelihood of the labels over all temperatures, and the temperature.
fn best_temperature(scores: &Tensor, labels: &Tensor) -> curricle_sdk::Result<(f64, f64)> {
    let mut best = (f64::NEG_INFINITY, 1.0);
    let mut attempt = |temperature: f64| -> curricle_sdk::Result<f64> {
        let likelihood = Shares::fit(&kinds(scores, labels, temperature)?).likelihood;
        if likelihood > best.0 {
            best = (likelihood, temperature);
        }
        // The best one so far.
        Ok(best.1)
    };
    let mut centre = 1.0;
    for temperature in TEMPERATURES {
        centre = attempt(temperature)?;
    }
    for step in [0.5, 0.25, 0.125].map(f64::exp2) {
        let (colder, hotter) = (centre / step, centre * step);
        attempt(colder)?;
        centre = attempt(hotter)?;
    }
    Ok(best)
}

/// p, q and 1 - q of a block of scores `[B, C]`.
///
/// Where q is almost 1, the difference would be rounding error, and confusions far too likely: there it is the sum of
/// the other classes.
fn probabilities(scores: &Tensor, temperature: f64) -> curricle_sdk::Result<(Tensor, Tensor, Tensor)> {
    let softmax = |temperature: f64| (scores / temperature).softmax(1, Kind::Double);
    let (p, q) = (softmax(temperature), softmax(FLATTER * temperature));
    let highest = q.argmax(1, true);
    let none = highest.zeros_like().to_kind(Kind::Double);
    let others = q.f_scatter(1, &highest, &none)?.sum_dim_intlist([1i64].as_slice(), true, Kind::Double);
    let rest = (1f64 - &q).f_scatter(1, &highest, &others)?.clamp_min(f64::MIN_POSITIVE);
    Ok((p, q, rest))
}

/// The probability of each label `[B, 1]` by kind.
fn kinds(scores: &Tensor, labels: &Tensor, temperature: f64) -> curricle_sdk::Result<Vec<Kinds>> {
    let (p, q, rest) = probabilities(scores, temperature)?;
    let at_label = |t: &Tensor| t.gather(1, labels, false);
    let right = at_label(&p);
    let random = (1f64 - &right) / (scores.size()[1] - 1).max(1) as f64;
    let none = labels.zeros_like().to_kind(Kind::Double);
    let others = (p / rest).f_scatter(1, labels, &none)?.sum_dim_intlist([1i64].as_slice(), true, Kind::Double);
    let confused = at_label(&q) * others;
    let all = Tensor::f_cat(&[right, random, confused], 1)?.to_device(Device::Cpu);
    Ok(Vec::<f64>::try_from(all.contiguous().view(-1))?.chunks_exact(3).map(|k| [k[0], k[1], k[2]]).collect())
}

/// The shares of the three kinds of labels.
struct Shares {
    shares: Kinds,
    likelihood: f64,
}

impl Shares {
    /// The most likely shares. The likelihood is concave in them, so any start finds them.
    fn fit(labels: &[Kinds]) -> Self {
        let mut shares = [0.9, 0.05, 0.05];
        for _ in 0..STEPS {
            let mut sums = [0.0; 3];
            for kinds in labels {
                let parts = posterior(kinds, &shares);
                (0..3).for_each(|kind| sums[kind] += parts[kind]);
            }
            let next = sums.map(|sum| sum / labels.len().max(1) as f64);
            let change = (0..3).map(|kind| (next[kind] - shares[kind]).abs()).fold(0.0, f64::max);
            shares = next;
            if change < CONVERGED {
                break;
            }
        }
        let likelihood = labels.iter().map(|kinds| total(kinds, &shares).ln()).sum();
        Self { shares, likelihood }
    }
}

/// The probability of a label under all kinds. A label that is impossible for all of them stays finite.
fn total(kinds: &Kinds, shares: &Kinds) -> f64 {
    kinds.iter().zip(shares).map(|(kind, share)| kind * share).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// The probability of each kind, given the label.
fn posterior(kinds: &Kinds, shares: &Kinds) -> Kinds {
    let total = total(kinds, shares);
    [0, 1, 2].map(|kind| kinds[kind] * shares[kind] / total)
}

/// One sample at the fitted temperature.
struct Scored {
    kinds: Kinds,
    /// q of the label.
    q_label: f64,
    /// Class, p and 1 - q of the classes with the highest scores, without the label.
    others: Vec<(i64, f64, f64)>,
    distance: f64,
}

impl Scored {
    fn of(
        scores: &ClassScores,
        samples: &[i64],
        temperature: f64,
        settings: ScoreSettings,
    ) -> curricle_sdk::Result<Vec<Self>> {
        let labels = scores.labels(samples);
        let linear = scores.linear(samples, settings.shrinkage)?;
        let distance = linear.amax([1i64].as_slice(), true) * -2f64;
        let scores = linear + settings.density * scores.densities(samples)?;
        let kinds = kinds(&scores, &labels, temperature)?;
        let (p, q, rest) = probabilities(&scores, temperature)?;
        let table = |t: Tensor| -> curricle_sdk::Result<Vec<Vec<f64>>> {
            Ok(Vec::<Vec<f64>>::try_from(t.to_kind(Kind::Double).to_device(Device::Cpu))?)
        };
        let excluded = Tensor::full(labels.size().as_slice(), f64::NEG_INFINITY, (Kind::Double, labels.device()));
        let (_, top) =
            scores.f_scatter(1, &labels, &excluded)?.f_topk(OTHERS.min(scores.size()[1] - 1), 1, true, true)?;
        let (distance, q_label) = (table(distance)?, table(q.gather(1, &labels, false))?);
        let (p, rest) = (table(p.gather(1, &top, false))?, table(rest.gather(1, &top, false))?);
        let top = Vec::<Vec<i64>>::try_from(top.to_device(Device::Cpu))?;
        let one = |(at, kinds): (usize, Kinds)| Self {
            kinds,
            q_label: q_label[at][0],
            others: (0..top[at].len()).map(|rank| (top[at][rank], p[at][rank], rest[at][rank])).collect(),
            distance: distance[at][0],
        };
        Ok(kinds.into_iter().enumerate().map(one).collect())
    }

    /// The only sample of a class: nothing is known about its label.
    fn unjudged(self) -> Judgement {
        Judgement { wrong: 0.0, log_odds: f64::NEG_INFINITY, others: Vec::new(), distance: self.distance }
    }

    fn judgement(self, shares: Kinds, classes: i64) -> Judgement {
        let total = total(&self.kinds, &shares);
        let random = shares[1] / (classes - 1).max(1) as f64;
        let true_class = |&(class, p, rest): &(i64, f64, f64)| {
            let mistaken = shares[2] * self.q_label / rest;
            (class, (p * (random + mistaken) / total).min(1.0))
        };
        let [right, random_part, confused] = posterior(&self.kinds, &shares);
        let log_odds = (random_part + confused).ln() - right.ln();
        Judgement {
            wrong: random_part + confused,
            log_odds: if log_odds.is_nan() { 0.0 } else { log_odds },
            others: self.others.iter().map(true_class).collect(),
            distance: self.distance,
        }
    }
}

#[cfg(test)]
#[path = "noise_model_tests.rs"]
mod tests;
