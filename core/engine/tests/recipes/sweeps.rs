//! Sweeps and searches, and messages about broken ones.

use super::{GOOD, write};
use curricle_engine::Registry;
use curricle_recipe::{self as recipe, Plan, Problems};
use insta::assert_snapshot;

fn load(test: &str, sweep: &str, sets: &[&str]) -> Result<Plan, Problems> {
    let recipe = format!("{GOOD}\n{sweep}\n");
    let path = write(
        test,
        &[
            ("recipe.toml", recipe.as_str()),
            ("soft.toml", "extends = \"recipe.toml\"\n[loss]\nname = \"springs\"\nalpha = 1.5\n"),
            ("tuned.toml", "[loss]\nname = \"springs\"\n[tune]\ngrid = { loss.alpha = [1.0, 1.5] }\n"),
        ],
    );
    let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
    recipe::load_sweep(&path, &sets, &Registry::built_in())
}

fn plan(test: &str, sweep: &str, sets: &[&str]) -> Plan {
    load(test, sweep, sets).unwrap_or_else(|problems| panic!("{}", recipe::render(problems.iter(), 100, false)))
}

fn complaint(test: &str, sweep: &str) -> String {
    match load(test, sweep, &[]) {
        Err(problems) => recipe::render(problems.iter(), 100, false),
        Ok(plan) => panic!("nothing is wrong with these {} runs", plan.runs.len()),
    }
}

fn titles(plan: &Plan) -> Vec<String> {
    let title = |run: &recipe::SweepRun| {
        format!("{} | {} | {}", run.method, run.case.as_deref().unwrap_or("-"), run.resolved.recipe.seed)
    };
    plan.runs.iter().map(title).collect()
}

#[test]
fn a_sweep_runs_all_combinations_seed_by_seed() {
    let sweep = r#"[sweep]
        methods = ["soft.toml", { name = "hard", loss = { alpha = 3 } }]
        cases = [{ name = "few", data.classes = 8 }, { name = "many" }]
        seeds = 2
        grid = { noise = [{ name = "none" }, { name = "uniform", ratio = 0.5 }], "embedding.size" = [8, 16] }
        exclude = [{ method = "hard", case = "few" }, { noise.ratio = 0.5, embedding.size = 8, seed = 1 }]"#;
    let plan = plan("all_combinations", sweep, &[]);
    assert_snapshot!(titles(&plan).join("\n"));
    let last = plan.runs.last().unwrap();
    assert_eq!(last.resolved.recipe.name, "recipe", "all runs of a sweep are in one folder");
    let folder = last.resolved.folder(std::path::Path::new("runs")).path().display().to_string();
    let hash = last.resolved.short_hash();
    assert_eq!(folder, format!("runs/recipe/hard-many-noise=uniform-ratio=0.5-size=16-{hash}/seed-1"));
    assert_eq!(last.resolved.recipe.embedding.size, 16);
    assert_eq!(last.resolved.recipe.case, last.case);
    assert_eq!(last.resolved.recipe.method.as_deref(), Some("hard"));
    // What the method's file extends is ignored; the run's recipe resolves to itself.
    let path = write("all_combinations", &[("again.toml", last.resolved.to_toml().as_str())]);
    let again = recipe::load(&path, &[], &Registry::built_in()).unwrap();
    assert_eq!((again.hash(), again.recipe.seed), (last.resolved.hash(), 1));
    assert_eq!(again.to_toml(), last.resolved.to_toml());
}

#[test]
fn every_method_is_combined_with_every_weight_scheme() {
    let sweep = r#"[sweep]
        methods = ["soft.toml", { name = "hard", loss.alpha = 3, weights.name = "paced" }]
        weights = ["uniform", { name = "paced", lambda = { target_maw = 0.5 } }]"#;
    let plan = plan("weights", sweep, &[]);
    let methods: Vec<_> = plan.runs.iter().map(|run| run.method.as_str()).collect();
    assert_eq!(methods, ["soft", "soft+paced", "hard", "hard+paced"]);
    let weights: Vec<_> = plan.runs.iter().map(|run| run.resolved.recipe.weights.name.as_str()).collect();
    assert_eq!(weights, ["uniform", "paced", "uniform", "paced"], "they replace the method's own");
}

#[test]
fn weight_schemes_of_a_sweep_have_names() {
    assert!(complaint("unnamed_weights", "[sweep]\nweights = [{ k = 3 }]").contains("without the `name`"));
    assert!(complaint("weights_number", "[sweep]\nweights = [3]").contains("must contain weight schemes"));
    assert!(complaint("weights_twice", "[sweep]\nweights = [\"uniform\", \"uniform\"]").contains("two entries named"));
}

#[test]
fn long_values_that_differ_at_their_end_have_different_labels() {
    let table = |sweeps| {
        format!(
            "{{ name = \"paced\", lambda = {{ start = 0.125, max = 0.25 }}, solver = {{ name = \"exact\", sweeps = {sweeps} }} }}"
        )
    };
    let sweep = format!("[sweep]\ngrid.weights = [{}, {}]", table(1), table(2));
    let cases: Vec<_> = plan("long_labels", &sweep, &[]).runs.iter().map(|run| run.case.clone()).collect();
    assert_ne!(cases[0], cases[1]);
}

#[test]
fn settings_of_a_zip_vary_together() {
    let sweep = "[sweep]\nzip = { data.classes = [8, 16], data.per_class = [4, 6] }\ngrid.embedding.size = [8, 16]";
    let plan = plan("zip", sweep, &[]);
    let cases: Vec<_> = plan.runs.iter().map(|run| run.case.clone().unwrap()).collect();
    assert_eq!(cases[..2], ["classes=8, per_class=4, size=8", "classes=8, per_class=4, size=16"]);
    assert_eq!(cases.len(), 4);
}

#[test]
fn an_invalid_combination_may_be_excluded() {
    let sweep = r#"[sweep]
        grid = { loss.low = [0.2, 0.9], loss.high = [0.1, 0.5] }
        exclude = [{ loss.low = 0.2, loss.high = 0.5 }]"#;
    assert_eq!(plan("broken_combination", sweep, &[]).runs.len(), 3);
}

#[test]
fn arguments_override_sweeps_and_searches() {
    let sweep = "[sweep]\nmethods = [\"tuned.toml\", \"soft.toml\"]\nseeds = 5";
    let plan = plan("command_line", sweep, &["sweep.seeds=[7]", "tune.seeds=all", "name=other", "train.epochs=9"]);
    assert_eq!(titles(&plan), ["tuned | - | 7", "soft | - | 7"]);
    assert_eq!(plan.name, "other");
    assert_eq!(plan.runs[1].resolved.recipe.name, "other");
    assert_eq!(plan.searches[0].trials[1].runs[0].resolved.recipe.train.epochs, 9);
}

#[test]
fn trials_are_evaluated_on_validation_classes_and_final_runs_are_not() {
    let sweep = "[sweep]\nmethods = [\"tuned.toml\", \"soft.toml\"]\nseeds = 3\n";
    let mut plan = plan("trials", sweep, &[]);
    assert_eq!(plan.searches.len(), 1);
    let trials = &plan.searches[0].trials;
    assert_eq!(trials.iter().map(|trial| trial.label.as_str()).collect::<Vec<_>>(), ["alpha=1", "alpha=1.5"]);
    let trial = &trials[1].runs;
    assert_eq!(trial.len(), 1, "only the first seed");
    assert_eq!(trial[0].resolved.recipe.eval.on, recipe::EvalOn::Validation);
    assert_eq!(trial[0].resolved.recipe.name, "recipe-tune");
    assert_eq!(trial[0].resolved.recipe.case.as_deref(), Some("alpha=1.5"));
    plan.settle(0, 1).unwrap();
    let tuned: Vec<_> = plan.runs.iter().filter(|run| run.method == "tuned").collect();
    assert_eq!(tuned.len(), 3);
    for (seed, run) in tuned.iter().enumerate() {
        assert!(run.search.is_none());
        assert_eq!(run.resolved.recipe.seed, seed as u64);
        assert_eq!(run.resolved.recipe.loss.settings["alpha"], 1.5);
        assert_eq!(run.resolved.recipe.eval.on, recipe::EvalOn::Test);
    }
}

#[test]
fn a_search_alone_makes_one_final_run() {
    let tune =
        "[tune]\nrandom = { loss.alpha = { min = 1, max = 2 }, data.classes = { min = 8, max = 12 } }\ntrials = 6\n";
    let plan = plan("search_alone", tune, &[]);
    assert_eq!((plan.runs.len(), plan.searches[0].trials.len()), (1, 6));
    for trial in &plan.searches[0].trials {
        assert!(trial.settings[1].1.is_u64(), "whole numbers for an integer setting: {:?}", trial.settings);
        assert!(trial.settings[0].1.is_f64(), "{:?}", trial.settings);
    }
}

macro_rules! broken_sweeps {
    ($($test:ident: $sweep:expr;)+) => {
        $(#[test] fn $test() { assert_snapshot!(complaint(stringify!($test), $sweep)); })+
    };
}

broken_sweeps! {
    sweep_with_typos: "[sweep]\nmethods = [\"sotf.toml\"]\nsedes = 3\nseeds = [-1, 2, 2]\n";
    grid_of_a_setting_that_does_not_exist: "[sweep]\nseeds = 4\ngrid = { noise.ratoi = [0.1, 0.2], loss.alhpa = [1, 2] }";
    grid_of_values_that_do_not_fit: "[sweep.grid]\ndata.classes = [8, 3, 16]\noptimizer.lr = [0.1, \"fast\"]";
    grid_that_is_not_a_list: "[sweep]\ngrid = { loss.alpha = 2, train.epochs = [], seed = [1, 2] }\nzip = 3";
    grid_with_a_value_twice: "[sweep]\ngrid = { loss.alpha = [1, 2, 1] }\nzip = { loss = { alpha = [2] } }";
    zip_of_different_lengths: "[sweep]\nzip = { data.classes = [8, 12, 16], data.per_class = [4, 8] }";
    exclusion_that_matches_nothing: "[sweep]\ngrid = { data.classes = [8, 12] }\nexclude = [{ data.classes = 13 }, { data.clases = 8 }, { method = \"x\" }, {}]";
    exclusion_of_every_run: "[sweep]\nseeds = [1, 2]\nexclude = [{ seed = [1, 2] }]";
    the_same_run_twice: "[sweep]\nseeds = 3\nmethods = [\"soft.toml\", { name = \"twin\", loss.alpha = 1.5 }]";
    far_too_many_runs: "[sweep]\nseeds = 1000\ngrid = { data.classes = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], data.size = [8, 9, 10, 11, 12, 13, 14, 15, 16, 17] }";
    search_with_typos: "[tune]\ngrid = { loss.alhpa = [1, 2] }\nmetric = \"recall@3\"";
    search_with_an_unmeasured_metric: "[tune]\ngrid = { loss.alpha = [1, 2] }\nmetric = \"recall@3\"";
    search_without_grid_or_random: "[tune]\ntrails = 3";
    search_in_a_case: "[sweep]\ncases = [{ name = \"a\", tune.grid.loss.alpha = [1] }]";
}
