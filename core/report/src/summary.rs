//! Statistics over the runs of a comparison: means, intervals, tests and caveats.

use crate::Result;
use crate::agreement::Condition;
use crate::comparison::unknown;
use crate::published::{self, Published};
use crate::runs::ORACLE;
use crate::statistics::{EXACT_SIGN_FLIPS, Spread, Test, holm};
use crate::{BestEpoch, Comparison, Measure, ReportedRun};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What to compute.
#[derive(Debug, Clone, Default)]
pub struct SummaryOptions {
    /// Names of metrics, the main one first; the default ones if empty.
    pub metrics: Vec<String>,
    /// The method that all others are tested against.
    pub against: Option<String>,
    /// The statistical test.
    pub test: Test,
}

/// One metric of one method in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricValue {
    /// Mean and spread over seeds.
    #[serde(flatten)]
    pub spread: Spread,
    /// 1 for the best method of the case, 2 for the second best; ties share a rank.
    pub rank: Option<u8>,
    /// Gain over the untrained model, paired by seed.
    pub gain: Option<Spread>,
    /// The paired test against the chosen method.
    pub against: Option<PairedComparison>,
    /// The published value for the same data set and noise.
    pub published: Option<Published>,
    /// The best epoch, for the main metric.
    pub best_epoch: Option<BestEpoch>,
}

/// A paired test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedComparison {
    /// Differences from the other method over the seeds that both have.
    pub difference: Spread,
    /// The p value.
    pub p: Option<f64>,
    /// The p value after Holm's correction over all methods of the case.
    pub p_corrected: Option<f64>,
}

/// One method in one case.
#[derive(Debug, Clone, Serialize)]
pub struct SummaryRow {
    /// The method; `untrained` for the model before training.
    pub method: String,
    /// The case, if it has a name.
    pub case: Option<String>,
    /// The loss of its runs; empty for the untrained model and where nothing ran.
    pub loss: String,
    /// Their weight scheme.
    pub weights: String,
    /// Whether this is a method rather than the untrained model.
    pub trained: bool,
    /// Seeds of its runs.
    pub seeds: Vec<u64>,
    /// Number of missing runs: seeds that were planned or that other methods of the case have.
    pub missing: usize,
    /// Values by metric name.
    pub values: BTreeMap<String, MetricValue>,
}

/// The numbers of a report.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The metrics, the main one first.
    pub metrics: Vec<Measure>,
    /// The method that others are tested against.
    pub against: Option<String>,
    /// The statistical test.
    pub test: Test,
    /// Case by case: the untrained model, then the methods.
    pub rows: Vec<SummaryRow>,
    /// What readers should know before drawing conclusions.
    pub caveats: Vec<String>,
}

impl Summary {
    /// Computes the statistics.
    ///
    /// # Errors
    /// If a metric or the method to test against is unknown.
    pub fn new(comparison: &Comparison, questions: &SummaryOptions) -> Result<Self> {
        let against = questions.against.clone();
        if let Some(method) = against.as_ref().filter(|method| !comparison.methods.contains(method)) {
            let known: Vec<&str> = comparison.methods.iter().map(String::as_str).collect();
            return Err(unknown("method", method, &known));
        }
        let metrics = Measure::choose(&questions.metrics, &comparison.runs)?;
        let mut summary = Self { metrics, against, test: questions.test, rows: Vec::new(), caveats: Vec::new() };
        for case in &comparison.cases {
            summary.add_case(comparison, case);
        }
        summary.caveats = caveats(comparison, &summary);
        Ok(summary)
    }

    /// The rows of a case, the untrained model first.
    pub fn of_case<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a SummaryRow> {
        self.rows.iter().filter(move |row| row.case.as_deref().unwrap_or_default() == case)
    }

    /// The names of all cases.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        let names = self.rows.iter().map(|row| row.case.as_deref().unwrap_or_default());
        names.collect::<BTreeSet<_>>().into_iter()
    }

    /// The row of a method in a case.
    pub fn row(&self, method: &str, case: &str) -> Option<&SummaryRow> {
        let here =
            |row: &&SummaryRow| row.trained && row.method == method && row.case.as_deref().unwrap_or_default() == case;
        self.rows.iter().find(here)
    }

    fn add_case(&mut self, comparison: &Comparison, case: &str) {
        let runs = comparison.of_case(case);
        let label = (!case.is_empty()).then(|| case.to_string());
        let mut rows: Vec<SummaryRow> = Vec::new();
        let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed()).collect();
        for method in &comparison.methods {
            let group = comparison.group(method, case);
            let expected: BTreeSet<u64> =
                comparison.missing.iter().filter(|p| p.method == *method && p.case == case).map(|p| p.seed).collect();
            if group.is_empty() && expected.is_empty() {
                continue;
            }
            let has = |seed: &u64| group.iter().any(|run| run.seed() == *seed);
            let values = self.metrics.iter().filter_map(|m| Some((m.name.clone(), self.value(comparison, m, &group)?)));
            rows.push(SummaryRow {
                method: method.clone(),
                case: label.clone(),
                loss: group.first().map(|run| run.result.loss.clone()).unwrap_or_default(),
                weights: group.first().map(|run| run.result.weights.clone()).unwrap_or_default(),
                trained: true,
                seeds: group.iter().map(|run| run.seed()).collect(),
                missing: seeds.union(&expected).filter(|seed| !has(seed)).count(),
                values: values.collect(),
            });
        }
        for measure in &self.metrics {
            rank(measure, &mut rows);
            correct(measure, &mut rows);
        }
        self.rows.extend(untrained(&self.metrics, &runs, label));
        self.rows.extend(rows);
    }

    fn value(&self, comparison: &Comparison, measure: &Measure, group: &[&ReportedRun]) -> Option<MetricValue> {
        let values: Vec<f64> = group.iter().filter_map(|run| measure.of(run)).collect();
        let gains: Vec<f64> = group.iter().filter_map(|run| Some(measure.of(run)? - measure.untrained(run)?)).collect();
        Some(MetricValue {
            spread: Spread::of(&values)?,
            rank: None,
            gain: Spread::of(&gains),
            against: self.tested(comparison, measure, group),
            published: published::value(group.first()?, measure),
            best_epoch: (self.metrics.first() == Some(measure)).then(|| BestEpoch::of(group, measure)).flatten(),
        })
    }

    fn tested(&self, comparison: &Comparison, measure: &Measure, group: &[&ReportedRun]) -> Option<PairedComparison> {
        let (other, first) = (self.against.as_ref()?, group.first()?);
        if *other == first.method {
            return None;
        }
        let others = comparison.group(other, &first.case);
        let pair = |run: &&ReportedRun| {
            let other = others.iter().find(|other| other.seed() == run.seed())?;
            Some(measure.of(run)? - measure.of(other)?)
        };
        let differences: Vec<f64> = group.iter().filter_map(pair).collect();
        let p = self.test.p_value(&differences);
        Some(PairedComparison { difference: Spread::of(&differences)?, p, p_corrected: p })
    }
}

/// Every method of a seed starts from the same model, so one run per seed is enough.
fn untrained(metrics: &[Measure], runs: &[&ReportedRun], case: Option<String>) -> Option<SummaryRow> {
    let by_seed: BTreeMap<u64, &ReportedRun> = runs.iter().rev().map(|run| (run.seed(), *run)).collect();
    let value = |measure: &Measure| {
        let values: Vec<f64> = by_seed.values().filter_map(|run| measure.untrained(run)).collect();
        let spread = Spread::of(&values)?;
        let value = MetricValue { spread, rank: None, gain: None, against: None, published: None, best_epoch: None };
        Some((measure.name.clone(), value))
    };
    let values: BTreeMap<_, _> = metrics.iter().filter_map(value).collect();
    let seeds = by_seed.keys().copied().collect();
    (!values.is_empty()).then(|| SummaryRow {
        method: "untrained".into(),
        case,
        loss: String::new(),
        weights: String::new(),
        trained: false,
        seeds,
        missing: 0,
        values,
    })
}

/// Ranks methods by the rounded values shown, so that equal numbers get equal marks. Weights that know the wrong
/// labels are an upper bound and not in the race.
fn rank(measure: &Measure, rows: &mut [SummaryRow]) {
    let Some(higher_is_better) = measure.higher_is_better else { return };
    let shown = |value: &MetricValue| measure.show(value.spread.mean).parse::<f64>().unwrap_or(f64::NAN);
    let mut ranked: Vec<&mut SummaryRow> = rows.iter_mut().filter(|row| row.weights != ORACLE).collect();
    let mut means: Vec<f64> = ranked.iter().filter_map(|row| row.values.get(&measure.name)).map(shown).collect();
    if means.len() < 2 {
        return;
    }
    means.sort_by(f64::total_cmp);
    if higher_is_better {
        means.reverse();
    }
    means.dedup();
    for value in ranked.iter_mut().filter_map(|row| row.values.get_mut(&measure.name)) {
        let place = means.iter().take(2).position(|mean| *mean == shown(value));
        value.rank = place.map(|place| place as u8 + 1);
    }
}

/// Holm's correction over all methods of a case.
fn correct(measure: &Measure, rows: &mut [SummaryRow]) {
    let mut tests: Vec<&mut PairedComparison> =
        rows.iter_mut().filter_map(|row| row.values.get_mut(&measure.name)?.against.as_mut()).collect();
    tests.retain(|test| test.p.is_some());
    let p_values: Vec<f64> = tests.iter().filter_map(|test| test.p).collect();
    for (test, corrected) in tests.into_iter().zip(holm(&p_values)) {
        test.p_corrected = Some(corrected);
    }
}

/// Rows whose missing runs are named one by one.
const NAMED: usize = 3;

/// Which runs are missing: for each row, or in one sentence if there are many.
fn missing_runs(summary: &Summary) -> Vec<String> {
    let rows: Vec<_> = summary.rows.iter().filter(|row| row.missing > 0).collect();
    if rows.len() > NAMED {
        let runs: usize = rows.iter().map(|row| row.missing).sum();
        let means = rows.len();
        return vec![format!("{runs} runs are missing, so that {means} means are of fewer seeds than planned")];
    }
    let one = |row: &&SummaryRow| {
        let case = row.case.as_ref().map_or_else(String::new, |case| format!(" in case `{case}`"));
        let runs = if row.missing == 1 { "1 run is".into() } else { format!("{} runs are", row.missing) };
        format!("{runs} missing for `{}`{case} and not included in its mean", row.method)
    };
    rows.iter().map(one).collect()
}

/// A property that may differ between runs.
type Fact = fn(&ReportedRun) -> Option<String>;

fn caveats(comparison: &Comparison, summary: &Summary) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut seen = BTreeSet::new();
    for disagreement in &comparison.disagreements {
        if seen.insert((disagreement.condition, disagreement.case.clone())) {
            let consequence = match disagreement.condition {
                Condition::Batches => "methods were not trained on the same batches",
                Condition::Recipe => "these runs are not repetitions of one recipe",
                _ => "the methods are not comparable",
            };
            caveats.push(format!("{}: {consequence}", disagreement.summary()));
        }
    }
    for difference in &comparison.other_differences {
        let values = difference.values.iter().map(|(value, cases)| format!("{value} ({})", cases.join("; ")));
        let values = values.collect::<Vec<_>>().join(", ");
        caveats.push(format!("the cases also differ in `{}`: {values}", difference.setting));
    }
    caveats.extend(missing_runs(summary));
    let seeds = summary.rows.iter().filter(|row| row.trained).map(|row| row.seeds.len());
    if seeds.clone().max() == Some(1) {
        caveats.push("one seed each: differences may be chance".into());
    } else if summary.against.is_some() {
        let (fewest, most) = (seeds.clone().filter(|n| *n > 1).min().unwrap_or(0), seeds.max().unwrap_or(0));
        if let Some(smallest) = summary.test.smallest_p(fewest).filter(|p| *p > 0.05) {
            caveats.push(format!("with {fewest} pairs the {} cannot give p below {smallest:.2}", summary.test.title()));
        }
        if summary.test == Test::SignFlip && most > EXACT_SIGN_FLIPS {
            caveats.push(format!("the exact sign-flip test takes at most {EXACT_SIGN_FLIPS} pairs: p is not shown"));
        }
    }
    let distinct = |of: Fact| -> BTreeSet<String> { comparison.runs.iter().filter_map(of).collect() };
    let made_with: [(&str, Fact); 3] = [
        ("devices", |run| run.manifest.as_ref().map(|m| m.device.clone())),
        ("versions of curricle", |run| run.manifest.as_ref().map(|m| m.curricle.clone())),
        ("versions of libtorch", |run| run.manifest.as_ref().map(|m| m.libtorch.clone())),
    ];
    for (what, of) in made_with {
        let values = distinct(of);
        if values.len() > 1 {
            let values: Vec<_> = values.into_iter().collect();
            caveats.push(format!("the runs used different {what}: {}", values.join(", ")));
        }
    }
    let elsewhere: Vec<_> =
        distinct(|run| run.word("eval.on").map(str::to_string)).into_iter().filter(|on| on != "test").collect();
    if !elsewhere.is_empty() {
        caveats.push(format!("evaluated on {} classes, not on the test classes", elsewhere.join(" and ")));
    }
    match comparison.skipped.len() {
        0 => {}
        1 => caveats.push("1 folder was skipped".into()),
        n => caveats.push(format!("{n} folders were skipped")),
    }
    caveats
}
