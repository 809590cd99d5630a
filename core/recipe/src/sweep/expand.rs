//! Expansion of a sweep into its runs.

use super::exclude::Candidate;
use super::{MAX_RUNS, Sweep, Variation, read, take_arguments};
use crate::arguments as set_arguments;
use crate::catalogue::Catalogue;
use crate::files::{self, Layer};
use crate::grid::{GridPoint, SweepAxis, count, points};
use crate::plan::{Plan, Search, SweepRun, seed_node};
use crate::problems::{Problem, Problems};
use crate::resolved::Resolved;
use crate::resolver::{Draft, Resolver};
use crate::source::Origin;
use crate::tree::{Entry, Node, Table, Value};
use crate::tune::{self, Tune};
use curricle_record::folder_name;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Pairs of equal runs that are shown; further ones are counted.
const DUPLICATES_SHOWN: usize = 3;

/// Loads a recipe and all runs of its `[sweep]` and `[tune]`; without these, the recipe is the only
/// run.
pub fn load_sweep(path: &Path, sets: &[String], catalogue: &impl Catalogue) -> Result<Plan, Problems> {
    let path = &files::named_by_command(path);
    let mut layers = files::layers(path)?;
    let mut arguments = set_arguments::tables(sets)?;
    let for_sweep = take_arguments(&mut arguments, "sweep");
    let for_tune = take_arguments(&mut arguments, "tune");
    let mut problems = Vec::new();
    let sweep = read::take(&mut layers, for_sweep, &for_tune, &mut problems).unwrap_or_default();
    // Otherwise `--set tune.trials=3`, meant for the searches of methods, would be read as a search.
    let only_methods_search = sweep.methods.iter().any(|method| method.tune.is_some());
    let tune = tune::take(&mut layers, &for_tune, !only_methods_search, &mut problems);
    // Despite problems in these two, the expansion can continue and find others.
    let is_harmless = |problem: &Problem| matches!(problem.path.as_str(), "sweep.exclude" | "sweep.seeds");
    if !problems.iter().all(is_harmless) {
        return Err(Problems::from(problems));
    }

    let tables = layers.iter().rev().take(1).map(|layer| &layer.table);
    let named = arguments.iter().rev().chain(tables).find_map(|table| table.get_str("name")).map(str::to_string);
    let name = named.unwrap_or_else(|| files::stem(path));
    let resolver = Resolver::new(catalogue);
    let expansion = Expansion { path, layers, arguments, sweep, tune, name, resolver, problems, drafts: Vec::new() };
    expansion.plan()
}

struct Expansion<'a, C> {
    path: &'a Path,
    layers: Vec<Layer>,
    arguments: Vec<Table>,
    sweep: Sweep,
    tune: Option<Tune>,
    name: String,
    resolver: Resolver<'a, C>,
    problems: Vec<Problem>,
    /// Recipes of all combinations, including excluded ones, to report unused exclusions.
    drafts: Vec<(Combination, Node)>,
}

/// A method in a case at a point of the grid.
#[derive(Debug, Clone)]
struct Combination {
    method: Option<usize>,
    case: Option<usize>,
    point: GridPoint,
}

/// A combination that is run.
struct KeptCombination {
    combination: Combination,
    resolved: Resolved,
    /// Indices into the list of seeds.
    seeds: Vec<usize>,
    search: Option<usize>,
}

impl<C: Catalogue> Expansion<'_, C> {
    fn plan(mut self) -> Result<Plan, Problems> {
        self.refuse_too_many()?;
        let mut kept = Vec::new();
        let mut searches = Vec::new();
        for combination in self.combinations() {
            match self.keep(combination, &mut searches) {
                Ok(one) => kept.extend(one),
                // The other combinations may have problems too.
                Err(problems) => self.problems.extend(problems.into_all()),
            }
        }
        self.report_unused_exclusions();
        if kept.is_empty() && self.problems.is_empty() {
            let problem = Problem::new(&self.sweep.origin, "`sweep.exclude` excludes every run");
            self.problems.push(problem.at("sweep.exclude"));
        }
        self.checked()?;
        let runs = self.runs(&kept)?;
        self.refuse_duplicates(&runs);
        self.checked()?;
        Ok(Plan { name: folder_name(&[&self.name]), runs, searches })
    }

    fn checked(&mut self) -> Result<(), Problems> {
        let mut seen = HashSet::new();
        let mut problems = std::mem::take(&mut self.problems);
        problems.retain(|problem| seen.insert(problem.identity()));
        Problems::check(problems)
    }

    fn refuse_too_many(&self) -> Result<(), Problems> {
        let Sweep { methods, cases, seeds, axes, origin, .. } = &self.sweep;
        let lists = [methods.len(), cases.len(), seeds.len(), count(axes)];
        let runs = lists.into_iter().fold(1, |product: usize, n| product.saturating_mul(n.max(1)));
        if runs <= MAX_RUNS {
            return Ok(());
        }
        let problem = Problem::new(origin, format!("this sweep has {runs} runs; at most {MAX_RUNS} are allowed"));
        Err(problem.at("sweep").help("vary fewer settings at once, or split the recipe").into())
    }

    fn combinations(&self) -> Vec<Combination> {
        // `None` means the recipe as it is.
        let choices = |all: &[Variation]| -> Vec<Option<usize>> {
            if all.is_empty() { vec![None] } else { (0..all.len()).map(Some).collect() }
        };
        let points = points(&self.sweep.axes);
        let mut all = Vec::new();
        for case in choices(&self.sweep.cases) {
            for point in &points {
                for method in choices(&self.sweep.methods) {
                    all.push(Combination { method, case, point: point.clone() });
                }
            }
        }
        all
    }

    /// Resolves a combination unless it is excluded for every seed.
    fn keep(
        &mut self,
        combination: Combination,
        searches: &mut Vec<Search>,
    ) -> Result<Option<KeptCombination>, Problems> {
        let draft = self.draft(&combination, None)?;
        let seeds = self.seeds_kept(&combination, &draft.tree);
        if !self.sweep.exclude.is_empty() {
            self.drafts.push((combination.clone(), draft.tree.clone()));
        }
        if seeds.is_empty() {
            return Ok(None);
        }
        let own = combination.method.and_then(|method| self.sweep.methods[method].tune.clone());
        let Some(tune) = own.or_else(|| self.tune.clone()) else {
            return Ok(Some(KeptCombination { resolved: draft.finish()?, combination, seeds, search: None }));
        };
        let search = self.search(&tune, &combination, &seeds)?;
        // The recipe of the first trial is a placeholder until the search is done: without the searched
        // settings, the recipe may be incomplete.
        let Some(resolved) = search.trials.first().map(|trial| trial.resolved.clone()) else { return Ok(None) };
        searches.push(search);
        Ok(Some(KeptCombination { resolved, combination, seeds, search: Some(searches.len() - 1) }))
    }

    /// The search for a combination's settings.
    fn search(&mut self, tune: &Tune, combination: &Combination, seeds: &[usize]) -> Result<Search, Problems> {
        let seeds: Vec<Option<(u64, Origin)>> = if self.sweep.seeds.is_empty() {
            vec![None]
        } else {
            seeds.iter().map(|seed| Some(self.sweep.seeds[*seed].clone())).collect()
        };
        let probe = self.draft(combination, Some(&tune.probe()))?;
        let mut trials = Vec::new();
        for point in tune.candidates(&probe.tree)? {
            let resolved = self.draft(combination, Some(&point.table))?.finish()?;
            trials.push((point, resolved));
        }
        let (method, case) = (self.method_name(combination), self.case_name(combination));
        tune.search(method, case, trials, &seeds)
    }

    fn draft(&mut self, combination: &Combination, searched: Option<&Table>) -> Result<Draft<C>, Problems> {
        let Combination { method, case, point } = combination;
        let method = method.map(|i| &self.sweep.methods[i]);
        let variations = [method, case.map(|i| &self.sweep.cases[i])];
        let mut layers = self.layers.clone();
        layers.extend(variations.into_iter().flatten().map(|variation| variation.layer.clone()));
        let mut labels = Table::default();
        let mut label = |key: &str, text: String| {
            let node = Node { value: Value::String(text), origin: Origin::Default };
            labels.insert(Entry { key: key.into(), key_origin: Origin::Default, node });
        };
        let case = self.case_name(combination);
        let is_one_of_several = method.is_some() || case.is_some();
        if is_one_of_several {
            // A method's own name would scatter the runs over several folders.
            label("name", folder_name(&[&self.name]));
        }
        if let Some(method) = method {
            label("method", method.name.clone());
        }
        if let Some(case) = case {
            label("case", case);
        }
        let mut arguments = vec![point.table.clone()];
        arguments.extend(searched.cloned());
        arguments.extend(self.arguments.iter().cloned());
        // Last, because a name from the command line is the name of the whole sweep.
        arguments.push(labels);
        self.resolver.draft(self.path, layers, arguments)
    }

    fn method_name(&self, combination: &Combination) -> String {
        combination.method.map_or_else(|| self.name.clone(), |i| self.sweep.methods[i].name.clone())
    }

    /// The named case and the values of the grid, e.g. `clean, size=64`.
    fn case_name(&self, combination: &Combination) -> Option<String> {
        let named = combination.case.map(|i| self.sweep.cases[i].name.as_str());
        let label = Some(combination.point.label.as_str()).filter(|label| !label.is_empty());
        let parts: Vec<_> = named.into_iter().chain(label).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The indices of the seeds with which a combination is run.
    fn seeds_kept(&self, combination: &Combination, tree: &Node) -> Vec<usize> {
        let (method, case) = (self.method_name(combination), self.case_name(combination));
        let kept = |(_, seed): &(usize, u64)| {
            let candidate = self.candidate(combination, &method, case.as_deref(), *seed, tree);
            // Every exclusion is tried, so that each records whether it was used.
            self.sweep.exclude.iter().filter(|exclusion| exclusion.fits(&candidate)).count() == 0
        };
        self.seeds(tree).into_iter().enumerate().filter(kept).map(|(index, _)| index).collect()
    }

    fn seeds(&self, tree: &Node) -> Vec<u64> {
        if !self.sweep.seeds.is_empty() {
            return self.sweep.seeds.iter().map(|(seed, _)| *seed).collect();
        }
        match tree.find("seed").map(|entry| &entry.node.value) {
            Some(Value::Integer(seed)) => vec![u64::try_from(*seed).unwrap_or(0)],
            _ => vec![0],
        }
    }

    fn candidate<'c>(
        &'c self,
        combination: &Combination,
        method: &'c str,
        case: Option<&'c str>,
        seed: u64,
        tree: &'c Node,
    ) -> Candidate<'c> {
        let named = combination.case.map_or("", |i| self.sweep.cases[i].name.as_str());
        Candidate { method, cases: [named, case.unwrap_or_default()], seed, tree }
    }

    fn report_unused_exclusions(&mut self) {
        let names: Vec<_> = self.drafts.iter().map(|(c, _)| (self.method_name(c), self.case_name(c))).collect();
        let mut candidates = Vec::new();
        for ((combination, tree), (method, case)) in self.drafts.iter().zip(&names) {
            for seed in self.seeds(tree) {
                candidates.push(self.candidate(combination, method, case.as_deref(), seed, tree));
            }
        }
        let complaints = self.sweep.exclude.iter().filter_map(|exclusion| exclusion.complaint(&candidates));
        let complaints: Vec<_> = complaints.collect();
        self.problems.extend(complaints);
    }

    fn runs(&self, kept: &[KeptCombination]) -> Result<Vec<SweepRun>, Problems> {
        let mut runs = Vec::new();
        for index in 0..self.sweep.seeds.len().max(1) {
            for KeptCombination { combination, resolved, seeds, search } in kept {
                if !seeds.contains(&index) {
                    continue;
                }
                let seed = self.sweep.seeds.get(index).map(|(seed, origin)| ("seed", seed_node(*seed, origin)));
                runs.push(SweepRun {
                    method: self.method_name(combination),
                    case: self.case_name(combination),
                    resolved: resolved.with(seed)?,
                    search: *search,
                });
            }
        }
        Ok(runs)
    }

    /// Refuses equal runs, which are a mistake: a method listed under two names, or an argument that
    /// overrides what a grid varies.
    fn refuse_duplicates(&mut self, runs: &[SweepRun]) {
        let title = |run: &SweepRun| match &run.case {
            Some(case) => format!("`{}` ({case})", run.method),
            None => format!("`{}`", run.method),
        };
        let mut known: HashMap<(String, u64), &SweepRun> = HashMap::new();
        let mut duplicates = Vec::new();
        for run in runs.iter().filter(|run| run.search.is_none()) {
            let key = (run.resolved.hash(), run.resolved.recipe.seed);
            match known.get(&key) {
                Some(first) => duplicates.push((*first, run)),
                None => drop(known.insert(key, run)),
            }
        }
        // The pairs of one seed are enough.
        let seed = duplicates.first().map(|(_, run)| run.resolved.recipe.seed);
        duplicates.retain(|(_, run)| Some(run.resolved.recipe.seed) == seed);
        for (first, second) in duplicates.iter().take(DUPLICATES_SHOWN) {
            let mut message = format!("{} and {} are the same run", title(first), title(second));
            if first.method == second.method && first.case == second.case {
                message = format!("{} is the same run for several seeds", title(first));
            }
            let of_method = self.sweep.methods.iter().find(|m| m.name == second.method && first.method != m.name);
            let of_case = self.sweep.cases.iter().find(|case| {
                let name = |run: &SweepRun| run.case.as_ref().is_some_and(|c| c.starts_with(&case.name));
                name(second) && !name(first)
            });
            let axis = self.sweep.axes.first().map(SweepAxis::origin);
            let origin = of_method.or(of_case).map(|variation| variation.origin.clone()).or(axis);
            let problem = Problem::new(&origin.unwrap_or_else(|| self.sweep.origin.clone()), message);
            let help = "all their settings are equal; remove one, `exclude` it, or drop the `--set` that overrides \
                        the difference";
            self.problems.push(problem.at("sweep").label("duplicate").help(help));
        }
        if duplicates.len() > DUPLICATES_SHOWN {
            let more = duplicates.len() - DUPLICATES_SHOWN;
            let message = format!("and {more} more {} of equal runs", if more == 1 { "pair" } else { "pairs" });
            self.problems.push(Problem::new(&self.sweep.origin, message).at("sweep"));
        }
    }
}
