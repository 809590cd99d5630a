//! Runs grouped for a report: methods as rows, cases as columns or tables, seeds as repetitions.

use crate::agreement::{Condition, Disagreement, disagreements};
use crate::difference::{Difference, differences, shown};
use crate::published;
use crate::runs::{FoundRuns, ORACLE, ReportedRun, RunKey, SkippedRun};
use crate::{Error, Result};
use curricle_recipe::{SweepRun, nearest};
use curricle_record::RunResult;
use std::cmp::Ordering;

/// Which runs to compare and how to group them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Methods to show, in this order; all if empty.
    pub methods: Vec<String>,
    /// Cases to show, in this order; all if empty.
    pub cases: Vec<String>,
    /// Settings that define the cases, instead of their names.
    pub by: Vec<String>,
    /// Whether methods may have been trained on different batches.
    pub allow_batches: bool,
}

/// Runs grouped by method, case and seed.
#[derive(Debug)]
pub struct Comparison {
    /// All runs.
    pub runs: Vec<ReportedRun>,
    /// The methods, in the order of the rows.
    pub methods: Vec<String>,
    /// The cases in their order; a single empty one if they have no names.
    pub cases: Vec<String>,
    /// Positions of runs that did not finish.
    pub missing: Vec<RunKey>,
    /// Skipped folders.
    pub skipped: Vec<SkippedRun>,
    /// Conditions that runs should share but do not.
    pub disagreements: Vec<Disagreement>,
    /// Settings that differ between cases besides those that define the cases.
    pub other_differences: Vec<Difference>,
}

impl Comparison {
    /// Selects and groups the runs that were found.
    ///
    /// # Errors
    /// If there are no finished runs, or if runs of a case differ in their conditions.
    pub fn new(found: FoundRuns, selection: &Selection) -> Result<Self> {
        let FoundRuns { mut runs, skipped } = found;
        if runs.is_empty() {
            let mut lines = vec!["no finished run to report on".to_string()];
            lines.extend(skipped.iter().map(|l| format!("  {}: {}", l.folder.display(), l.reason)));
            return Err(Error::Usage(lines.join("\n")));
        }
        if !selection.by.is_empty() {
            name_cases(&mut runs, &selection.by)?;
        }
        choose("method", &selection.methods, &mut runs, |run| &run.method)?;
        choose("case", &selection.cases, &mut runs, |run| &run.case)?;
        let methods = ordered(&selection.methods, runs.iter().map(|run| run.method.clone()), usual_order);
        let cases = ordered(&selection.cases, runs.iter().map(|run| run.case.clone()), |a, b| {
            let key = |case: &str| runs.iter().find(|run| run.case == case).map(circumstances);
            key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal).then_with(|| natural(a, b))
        });
        // With `by`, cases are named after settings, so skipped runs match none of them.
        let known = |place: &RunKey| methods.contains(&place.method) && cases.contains(&place.case);
        let missing = skipped.iter().filter_map(|l| l.place.clone()).filter(known).collect();
        let mut comparison = Self::assemble(runs, methods, cases, missing, skipped);
        comparison.other_differences = comparison.besides(&selection.by);
        comparison.refuse_mixtures(selection.allow_batches)?;
        Ok(comparison)
    }

    /// The runs of a bench in the order of its plan, each with its result if it finished. Differing
    /// conditions become caveats rather than errors: the bench was asked for exactly these runs.
    pub fn from_results<'a>(plan: impl IntoIterator<Item = (&'a SweepRun, Option<RunResult>)>) -> Self {
        let (mut runs, mut missing) = (Vec::new(), Vec::new());
        let (mut methods, mut cases) = (Vec::new(), Vec::new());
        for (planned, result) in plan {
            let (method, case) = (planned.method.clone(), planned.case.clone().unwrap_or_default());
            methods.push(method.clone());
            cases.push(case.clone());
            match result {
                Some(result) => runs.push(ReportedRun::from_sweep(planned, result)),
                None => missing.push(RunKey { method, case, seed: planned.resolved.recipe.seed }),
            }
        }
        let as_planned = |names: Vec<String>| ordered(&[], names.into_iter(), |_, _| Ordering::Equal);
        Self::assemble(runs, as_planned(methods), as_planned(cases), missing, Vec::new())
    }

    fn assemble(
        mut runs: Vec<ReportedRun>,
        methods: Vec<String>,
        cases: Vec<String>,
        missing: Vec<RunKey>,
        mut skipped: Vec<SkippedRun>,
    ) -> Self {
        let place = |list: &[String], name: &String| list.iter().position(|known| known == name);
        runs.sort_by_key(|run| (place(&cases, &run.case), place(&methods, &run.method), run.seed()));
        let mut kept: Vec<ReportedRun> = Vec::new();
        for run in runs {
            let key =
                |run: &ReportedRun| (run.method.clone(), run.case.clone(), run.seed(), run.result.recipe_hash.clone());
            match kept.iter().find(|known| key(known) == key(&run)) {
                Some(twin) => skipped.push(SkippedRun {
                    reason: format!("duplicate of `{}`", twin.folder.display()),
                    folder: run.folder,
                    place: None,
                }),
                None => kept.push(run),
            }
        }
        let mut comparison = Self {
            runs: kept,
            methods,
            cases,
            missing,
            skipped,
            disagreements: Vec::new(),
            other_differences: Vec::new(),
        };
        let found = comparison.cases.iter().flat_map(|case| disagreements(case, &comparison.of_case(case)));
        comparison.disagreements = found.collect();
        comparison
    }

    /// Settings that differ between the cases of a method, but do not define the cases.
    fn besides(&self, by: &[String]) -> Vec<Difference> {
        if by.is_empty() {
            return Vec::new();
        }
        // With and without noise, its other settings differ too.
        let defines = |setting: &str| {
            let noise = setting.starts_with("noise.") && by.iter().any(|key| key == "noise.ratio");
            noise || by.iter().any(|key| key == setting || setting.starts_with(&format!("{key}.")))
        };
        let mut found: Vec<Difference> = Vec::new();
        for method in &self.methods {
            let groups = self.groups().filter(|(own, _, _)| own == method);
            let recipes: Vec<(&str, &serde_json::Value)> =
                groups.map(|(_, case, runs)| (case, &runs[0].settings)).collect();
            let new = differences(&recipes).into_iter().filter(|d| !defines(&d.setting));
            let new: Vec<_> = new.filter(|d| found.iter().all(|known| known.setting != d.setting)).collect();
            found.extend(new);
        }
        found
    }

    fn refuse_mixtures(&self, allow_batches: bool) -> Result<()> {
        let allowed = |d: &&Disagreement| !(allow_batches && d.condition == Condition::Batches);
        let refused: Vec<_> = self.disagreements.iter().filter(allowed).collect();
        let Some(first) = refused.first() else { return Ok(()) };
        let more = match refused.len() {
            1 => String::new(),
            2 => "and 1 more difference\n".into(),
            n => format!("and {} more differences\n", n - 1),
        };
        let help = if refused.iter().all(|d| d.condition == Condition::Batches) {
            "pass `--allow batches` to compare them anyway, with a note below the table"
        } else if first.condition == Condition::Recipe {
            "give them different names (`method` or `case` in their recipes), group them with `--by SETTING`, or \
             report on them separately"
        } else {
            "runs under different conditions are different cases: name them (`case` in their recipes), group them with \
             `--by SETTING`, or report on them separately"
        };
        Err(Error::NotComparable(format!("{first}{more}{help}")))
    }

    /// The common prefix of all run names, in whole words.
    pub fn title(&self) -> String {
        let mut names = self.runs.iter().map(|run| run.result.name.as_str());
        let first = names.next().unwrap_or_default();
        let mut common: Vec<&str> = first.split('-').collect();
        for name in names {
            let same = common.iter().zip(name.split('-')).take_while(|(a, b)| **a == *b).count();
            common.truncate(same);
        }
        if common.is_empty() { "Comparison".into() } else { common.join("-") }
    }

    /// All runs of a case.
    pub fn of_case(&self, case: &str) -> Vec<&ReportedRun> {
        self.runs.iter().filter(|run| run.case == case).collect()
    }

    /// The repetitions of a method in a case, by seed.
    pub fn group(&self, method: &str, case: &str) -> Vec<&ReportedRun> {
        self.runs.iter().filter(|run| run.method == method && run.case == case).collect()
    }

    /// All methods and cases that have runs, with those runs.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &str, Vec<&ReportedRun>)> {
        let pairs = self.cases.iter().flat_map(|case| self.methods.iter().map(move |method| (method, case)));
        let groups = pairs.map(|(method, case)| (method.as_str(), case.as_str(), self.group(method, case)));
        groups.filter(|(_, _, runs)| !runs.is_empty())
    }
}

/// Names every case after settings: `noise.ratio = 0.2`.
fn name_cases(runs: &mut [ReportedRun], by: &[String]) -> Result<()> {
    for key in by {
        if runs.iter().all(|run| run.setting(key).is_none()) {
            return Err(Error::Usage(format!("no run has a setting `{key}` to group cases by")));
        }
    }
    for run in runs {
        let values = by.iter().map(|key| match run.setting(key) {
            Some(value) => format!("{key} = {}", shown(value)),
            None => format!("no {key}"),
        });
        run.case = values.collect::<Vec<_>>().join(", ");
    }
    Ok(())
}

/// Keeps the runs whose name was chosen; every chosen name must exist.
fn choose(
    what: &str,
    chosen: &[String],
    runs: &mut Vec<ReportedRun>,
    name: impl Fn(&ReportedRun) -> &String,
) -> Result<()> {
    if chosen.is_empty() {
        return Ok(());
    }
    for wanted in chosen {
        if runs.iter().all(|run| name(run) != wanted) {
            let mut known: Vec<&str> = runs.iter().map(|run| name(run).as_str()).collect();
            known.sort_unstable();
            known.dedup();
            return Err(unknown(what, wanted, &known));
        }
    }
    runs.retain(|run| chosen.contains(name(run)));
    Ok(())
}

/// The error for an unknown method or case.
pub(super) fn unknown(what: &str, wanted: &str, known: &[&str]) -> Error {
    let hint = nearest(wanted, known.iter().copied())
        .map_or_else(|| format!("available: `{}`", known.join("`, `")), |near| format!("did you mean `{near}`?"));
    Error::Usage(format!("no run has the {what} `{wanted}`; {hint}"))
}

/// The distinct names, in the chosen order if there is one, otherwise sorted.
fn ordered(
    chosen: &[String],
    names: impl Iterator<Item = String>,
    compare: impl Fn(&str, &str) -> Ordering,
) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in chosen.iter().cloned().chain(names) {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    if chosen.is_empty() {
        distinct.sort_by(|a, b| compare(a, b));
    }
    distinct
}

/// Methods in the order of the published tables, then all others by name; `ms+knn` follows `ms`.
fn usual_order(a: &str, b: &str) -> Ordering {
    let place = |name: &str| published::methods().position(|known| known == name).unwrap_or(usize::MAX);
    // `ms + knn`, if the recipe does not name the method.
    let parts = |name| str::split_once(name, '+').map_or((name, None), |(l, w)| (l.trim(), Some(w.trim())));
    let ((a_loss, a_weights), (b_loss, b_weights)) = (parts(a), parts(b));
    let losses = place(a_loss).cmp(&place(b_loss)).then_with(|| natural(a_loss, b_loss));
    // What knows every flip is the upper bound, and comes last.
    let scheme = |weights: Option<&str>| (weights.is_some(), weights == Some(ORACLE));
    losses.then(scheme(a_weights).cmp(&scheme(b_weights))).then_with(|| natural(a, b))
}

/// Sort key of cases, before their names: the data set, then the amount of noise.
fn circumstances(run: &ReportedRun) -> (String, bool, f64) {
    let removed = run.setting("noise.remove_flipped").is_some_and(|value| value == true);
    (run.word("data.source").unwrap_or_default().into(), removed, run.number("noise.ratio").unwrap_or(0.0))
}

/// Natural order: `size 64` before `size 128`.
fn natural(a: &str, b: &str) -> Ordering {
    let key = |text: &str| -> Vec<(String, f64)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (word, after) = rest.split_at(digits);
            let end = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
            let (number, next) = after.split_at(end);
            parts.push((word.to_string(), number.trim_end_matches('.').parse().unwrap_or(-1.0)));
            rest = next;
        }
        parts
    };
    key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
}
