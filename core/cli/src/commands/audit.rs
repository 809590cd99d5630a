//! `curricle audit`: finds samples that are probably mislabelled.

use super::audit_recipe::{self, ImageSource, recipe_text};
use super::{DeviceArgs, PluginArgs, SetArgs};
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::Experiment;
use curricle_engine::audit::{
    Audit, AuditOptions, Cleaned, Decisions, DuplicateKind, DuplicatePair, Evidence, Policy, UnsureSuspects,
};
use curricle_engine::backbone::RecognisedNetwork;
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{self, FinishedRun, RunOptions};
use curricle_engine::stop::StopSignal;
use curricle_recipe::{BackboneRecipe, DataRecipe};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of rows in the tables of suspects and of classes.
const ROWS: usize = 10;

/// Find samples that are probably mislabelled and propose a label for each.
///
/// Audits the training set of a finished run, loading the data again through its recipe, or your own
/// images (`--images`, `--csv`), on which it trains first. Samples are ranked by the estimated probability
/// that their label is wrong, and as many are suspected as labels are estimated to be wrong. Near-duplicates
/// and images that may belong to no class are listed too. `audit.csv` lists every sample with all its
/// values; `audit.html` shows the suspects next to typical members of both classes.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("audited").required(true)))]
pub(crate) struct Args {
    /// The folder of a finished run.
    #[arg(group = "audited")]
    run: Option<PathBuf>,
    /// Folder for `audit.csv` and `audit.html`. Default: the run's folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Maximum number of suspects in the gallery; the table always lists all.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = super::whole_number::<usize>)]
    limit: usize,
    /// Number of trusted neighbours that vote on each label.
    #[arg(long, default_value_t = 10, value_name = "K", value_parser = super::at_least_one)]
    neighbours: usize,
    #[command(flatten)]
    cuts: CutArgs,
    #[command(flatten)]
    plugin: PluginArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    // A help heading applies to all options after it.
    #[command(flatten)]
    own: TrainArgs,
    #[command(flatten)]
    apply: ApplyArgs,
}

/// Where lists end.
#[derive(Debug, clap::Args)]
struct CutArgs {
    /// Suspect the N most suspicious samples. Default: the estimated number of wrong labels.
    #[arg(long, value_name = "N", value_parser = super::whole_number::<usize>, allow_negative_numbers = true)]
    suspects: Option<usize>,
    /// Greatest distance of near-duplicates, as a share of the median distance to the nearest neighbour.
    #[arg(long, default_value_t = 0.4, value_name = "SHARE", value_parser = non_negative)]
    duplicates_within: f64,
    /// Standard deviations beyond which a sample is too far from every class to belong to one.
    #[arg(long, default_value_t = 3.5, value_name = "Z", value_parser = non_negative)]
    no_class_beyond: f64,
}

/// Images that were given with the wrong option.
fn mistaken(path: &Path, is: &str, option: &str) -> Error {
    let (shown, given) = (path.display(), output::in_shell(path));
    Error::usage(format!("`{shown}` {is}\nhelp: use `{option} {given}`, or correct the path"))
}

fn non_negative(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number >= 0.0 { Ok(number) } else { Err("must be 0 or more".into()) }
}

/// Images to train on before the audit.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Your own images")]
struct TrainArgs {
    /// Train on and audit the images in this folder, which has one subfolder per class.
    #[arg(long, value_name = "FOLDER", group = "audited", value_parser = super::existing)]
    images: Option<PathBuf>,
    /// Train on and audit the images in this CSV file of `path,label`; paths are relative to the file.
    #[arg(long, value_name = "FILE", group = "audited", value_parser = super::existing)]
    csv: Option<PathBuf>,
    /// Pretrained weights of any supported network, which is recognised from the file; better and faster on
    /// photographs.
    #[arg(long, value_name = "FILE", conflicts_with = "run", value_parser = super::existing)]
    weights: Option<PathBuf>,
    /// Print the training recipe and exit.
    #[arg(long, conflicts_with = "run")]
    print_recipe: bool,
    #[command(flatten)]
    set: SetArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER", conflicts_with = "run")]
    runs: PathBuf,
    /// Start over, even if the run is finished or partly done.
    #[arg(long, conflicts_with = "run")]
    force: bool,
}

impl TrainArgs {
    /// The recipe's text.
    fn recipe(&self) -> Result<String> {
        let found = |path: &Path| path.canonicalize().map_err(Error::file("find", path));
        let weights = self.weights.as_deref().map(found).transpose()?;
        let network = weights.as_deref().map(RecognisedNetwork::of).transpose()?;
        let pretrained = weights.as_deref().zip(network.as_ref());
        match (&self.images, &self.csv) {
            (Some(path), _) if !path.is_dir() => Err(mistaken(path, "is a file, not a folder", "--csv")),
            (None, Some(path)) if path.is_dir() => Err(mistaken(path, "is a folder, not a list of images", "--images")),
            (Some(folder), _) => Ok(recipe_text(ImageSource::Folder(&found(folder)?), pretrained)),
            (None, Some(file)) => Ok(recipe_text(ImageSource::List(&found(file)?), pretrained)),
            (None, None) => Err(Error::usage("nothing to audit; name a run, or use `--images` or `--csv`".into())),
        }
    }

    /// Trains or resumes the run unless it is finished, and returns its folder.
    fn train(&self, text: &str, args: &Args) -> Result<PathBuf> {
        let folder = tempfile::tempdir().map_err(|e| Error::failed(format!("cannot create temporary folder: {e}")))?;
        let path = folder.path().join("audit.toml");
        std::fs::write(&path, text).map_err(Error::file("write", &path))?;
        let experiment = Experiment::load(&path, &self.set.sets, &args.plugin.registry()?)?;
        let options = RunOptions {
            out: self.runs.clone(),
            device: args.device.device,
            threads: args.device.threads,
            force: self.force,
            progress: ProgressMode::detect(output::verbosity() == Verbosity::Quiet),
            profile: false,
            image_cache: None,
            checkpoint_every: Duration::from_secs(run::CHECKPOINT_SECONDS),
        };
        let stop =
            StopSignal::on_signals().map_err(|e| Error::failed(format!("cannot install signal handlers: {e}")))?;
        let outcome = run::execute(&experiment, &options, &stop)?;
        if outcome.skipped {
            output::note("already trained; use `--force` to start over");
        }
        Ok(outcome.folder)
    }
}

/// How to clean the labels.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cleaned labels")]
struct ApplyArgs {
    /// Write a cleaned list of labels (CSV of `path,label`) that recipes can read.
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,
    /// Apply the decisions of this file, exported from the page, and the options below to other suspects.
    #[arg(long, value_name = "FILE", requires = "apply", value_parser = super::existing)]
    decisions: Option<PathBuf>,
    /// Relabel suspects whose proposed label is right with at least this probability.
    #[arg(long, default_value_t = 0.9, value_name = "PROBABILITY", value_parser = super::finite, requires = "apply", conflicts_with = "no_relabel")]
    relabel_above: f64,
    /// Do not relabel any sample.
    #[arg(long, requires = "apply")]
    no_relabel: bool,
    /// What to do with the other suspects.
    #[arg(long, value_enum, default_value = "keep", value_name = "WHAT", requires = "apply")]
    others: OtherSuspects,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum OtherSuspects {
    /// Keep their label.
    Keep,
    /// Exclude them from the list.
    Drop,
}

impl ApplyArgs {
    fn policy(&self) -> Result<Policy> {
        if !(0.0..=1.0).contains(&self.relabel_above) {
            return Err(Error::usage(format!("`--relabel-above` must be between 0 and 1, is {}", self.relabel_above)));
        }
        let others = match self.others {
            OtherSuspects::Keep => UnsureSuspects::Keep,
            OtherSuspects::Drop => UnsureSuspects::Drop,
        };
        Ok(Policy { relabel_above: (!self.no_relabel).then_some(self.relabel_above), others })
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let policy = args.apply.policy()?;
    args.apply.apply.as_deref().map(super::writable_file).transpose()?;
    args.out.as_deref().map(super::writable_folder).transpose()?;
    let folder = match &args.run {
        Some(_) if !args.own.set.sets.is_empty() => {
            return Err(Error::usage(
                "`--set` applies to training with `--images` or `--csv`, not to a finished run; remove it".into(),
            ));
        }
        Some(run) => run.clone(),
        None => {
            let text = args.own.recipe()?;
            if args.own.print_recipe {
                return output::print(&text);
            }
            args.own.train(&text, args)?
        }
    };
    let run = FinishedRun::open(&folder, &args.plugin.registry()?)?;
    let out = args.out.clone().unwrap_or(folder);
    std::fs::create_dir_all(&out).map_err(Error::file("create", &out))?;
    let options = AuditOptions {
        neighbours: args.neighbours,
        suspects: args.cuts.suspects,
        duplicates_within: args.cuts.duplicates_within,
        no_class_beyond: args.cuts.no_class_beyond,
        scheme: audit_recipe::SCHEME.into(),
        device: args.device.device,
        threads: args.device.threads,
        progress: ProgressMode::detect(output::verbosity() == Verbosity::Quiet),
    };
    let audit = Audit::of(&run, &options)?;
    let (table, gallery) = (out.join("audit.csv"), out.join("audit.html"));
    audit.write_table(&table)?;
    audit.write_gallery(&gallery, args.limit)?;
    let cleaned = match &args.apply.apply {
        Some(path) => {
            let decisions = args.apply.decisions.as_deref().map(|file| Decisions::read(file, &audit)).transpose()?;
            let cleaned = audit.cleaned(&policy, decisions.as_ref());
            cleaned.write(path)?;
            Some((path.as_path(), cleaned))
        }
        None => None,
    };
    let recipe = &run.experiment.recipe;
    let written =
        AuditFiles { table: &table, gallery: &gallery, cleaned, data: &recipe.data, network: &recipe.backbone };
    if args.json { output::json(&report(&audit, &written)) } else { show(&audit, &written, args.limit) }
}

/// The files of an audit.
struct AuditFiles<'a> {
    table: &'a Path,
    gallery: &'a Path,
    cleaned: Option<(&'a Path, Cleaned)>,
    /// The data that the cleaned labels belong to.
    data: &'a DataRecipe,
    /// The network that the embeddings come from.
    network: &'a BackboneRecipe,
}

/// Which network judged the labels, and how far it can be relied on.
fn network_line(audit: &Audit, AuditFiles { network, data, .. }: &AuditFiles) -> String {
    let name = network.name();
    let agreeing = 100.0 * audit.agreement();
    let basis = match (network.weights(), network) {
        (Some(file), _) => format!("`{name}` with the weights of `{}`", file.display()),
        (None, BackboneRecipe::Linear | BackboneRecipe::Mlp { .. }) => format!("`{name}` on precomputed features"),
        (None, BackboneRecipe::Torchscript(_)) => format!("`{name}`"),
        (None, _) if matches!(data, DataRecipe::Strokes(_)) => format!("`{name}`, trained from scratch"),
        (None, _) => format!(
            "`{name}`, trained from scratch on these images alone: enough for drawings and symbols, but unreliable on \
             photographs; there, use pretrained weights (`--weights` with `--images`)"
        ),
    };
    let doubt = if agreeing < 50.0 { "; it hardly knows these classes, so take the suspects as hints" } else { "" };
    format!("network: {basis}\nthe neighbours agree with {agreeing:.0} % of the labels{doubt}")
}

/// How a recipe reads a cleaned list.
fn recipe_line(path: &Path, cleaned: &Cleaned, data: &DataRecipe) -> String {
    let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
    let path = quoted(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    let root = match data {
        DataRecipe::Folder(folder) => Some(folder.path.as_path()),
        DataRecipe::Csv(list) => list.root.as_deref().or(list.path.parent()),
        _ => None,
    };
    match root {
        Some(root) => format!("data = {{ source = \"csv\", path = {path}, root = {} }}", quoted(root)),
        None if cleaned.dropped > 0 => {
            "not possible: a list for `noise` must have every sample; use `--others keep`, or a `csv` source".into()
        }
        None => format!("noise = {{ name = \"list\", path = {path}, labels = \"names\" }}"),
    }
}

fn report(audit: &Audit, written: &AuditFiles) -> serde_json::Value {
    let suspect = |(rank, e): (usize, &Evidence)| {
        json!({
            "rank": rank + 1,
            "sample": e.sample,
            "path": e.path,
            "label": audit.class(e.label),
            "proposed": audit.class(e.proposed),
            "suspicion": e.suspicion,
            "confidence": e.confidence,
            "weight": e.weight,
            "votes_for_label": e.given_share,
            "voted": audit.class(e.voted),
            "votes_for_voted": e.voted_share,
            "neighbours_agreeing": e.agreeing,
            "similarity_label": e.similarity_given,
            "similarity_proposed": e.similarity_proposed,
            "xi_pos": e.xi_pos,
            "xi_neg": e.xi_neg,
            "original": e.original,
        })
    };
    let pair = |pair: &DuplicatePair| {
        let (paths, labels) = (audit.pair_paths(pair), audit.pair_labels(pair));
        json!({ "kind": pair.kind, "paths": paths, "labels": labels, "distance": pair.distance })
    };
    let far = |e: &Evidence| json!({ "path": e.path, "label": audit.class(e.label), "far": e.far });
    json!({
        "run": audit.title,
        "samples": audit.ranked.len(),
        "weights": audit.weights,
        "neighbours": audit.neighbours,
        "estimate": audit.estimate,
        "network": written.network.name(),
        "pretrained": written.network.weights(),
        "agreement": audit.agreement(),
        "suspects": audit.suspects().iter().enumerate().map(suspect).collect::<Vec<_>>(),
        "classes": audit.classes(),
        "mix_ups": audit.mix_ups(),
        "duplicates": audit.duplicates.iter().map(pair).collect::<Vec<_>>(),
        "no_class": audit.no_class().into_iter().map(far).collect::<Vec<_>>(),
        "known": audit.known,
        "table": written.table,
        "gallery": written.gallery,
        "cleaned": written.cleaned.as_ref().map(|(path, cleaned)| json!({ "path": path, "counts": cleaned })),
    })
}

fn show(audit: &Audit, written: &AuditFiles, limit: usize) -> Result<()> {
    let suspects = audit.suspects();
    let (count, all) = (suspects.len(), audit.ranked.len());
    let are = if count == 1 { "is" } else { "are" };
    output::print(&format!(
        "{count} of {all} samples ({:.1} %) {are} suspected; {}\n",
        100.0 * count as f64 / all.max(1) as f64,
        audit.weights.describe()
    ))?;
    output::print(&format!("{}\n", estimate_line(audit)))?;
    if count > 0 {
        let mut table = output::table(&["", "path", "label", "proposed", "right (%)", "weight", "suspicion"]);
        for (rank, e) in suspects.iter().take(ROWS).enumerate() {
            table.add_row([
                (rank + 1).to_string(),
                shortened(&e.path),
                audit.class(e.label).into(),
                audit.class(e.proposed).into(),
                format!("{:.0}", 100.0 * e.confidence),
                format!("{:.2}", e.weight),
                format!("{:.2}", e.suspicion),
            ]);
        }
        output::print(&format!("{table}\n"))?;
        let mut table = output::table(&["class", "samples", "suspected"]);
        let classes: Vec<_> = audit.classes().into_iter().filter(|class| class.suspects > 0).collect();
        for class in classes.iter().take(ROWS) {
            table.add_row([class.class.clone(), class.samples.to_string(), class.suspects.to_string()]);
        }
        output::print(&format!("{table}\n"))?;
        let rest = classes.len().saturating_sub(ROWS);
        if rest > 0 {
            let classes = if rest == 1 { "class" } else { "classes" };
            output::note(&format!("and {rest} more {classes} with suspects"));
        }
    }
    output::print(&format!("{}\n", findings_lines(audit)))?;
    if let Some(known) = &audit.known {
        let mut table = output::table(&[&format!("against {} known wrong labels", known.wrong), ""]);
        for (name, value) in known.described() {
            table.add_row([name.to_string(), format!("{value:.3}")]);
        }
        output::print(&format!("{table}\n"))?;
    }
    if let Some((path, cleaned)) = &written.cleaned {
        let wrong = match (cleaned.wrong_before, cleaned.wrong_after) {
            (Some(before), Some(after)) => {
                format!("; wrong labels: {:.1} % before, {:.1} % now", 100.0 * before, 100.0 * after)
            }
            _ => String::new(),
        };
        let Cleaned { decided, relabelled, dropped, listed, .. } = cleaned;
        let decided = if *decided > 0 { format!("{decided} decided by you, ") } else { String::new() };
        output::print(&format!(
            "cleaned labels: {decided}{relabelled} relabelled, {dropped} dropped, {listed} in `{}`{wrong}\n",
            path.display()
        ))?;
        output::note(&format!("to use them in a recipe: {}", recipe_line(path, cleaned, written.data)));
    }
    output::note(&network_line(audit, written));
    let shown = if count > limit { format!(" (the first {limit})") } else { String::new() };
    output::note(&format!("gallery{shown}: {}", written.gallery.display()));
    output::note(&format!("all samples with all values: {}", written.table.display()));
    Ok(())
}

/// How many labels are wrong by estimate.
fn estimate_line(audit: &Audit) -> String {
    match &audit.estimate {
        Some(estimate) => {
            let wrong = output::counted(estimate.wrong.round() as usize, "wrong label", "wrong labels");
            let share = 100.0 * estimate.wrong / estimate.judged.max(1) as f64;
            let too_low = if audit.trained_on_labels {
                "; too low if the network has learnt wrong labels by heart (`--suspects N` lists more)"
            } else {
                ""
            };
            format!(
                "estimate: about {wrong} ({share:.1} %), {:.0} at random and {:.0} confused with a class that looks alike; \
                 the last number is rough{too_low}",
                estimate.random, estimate.confused
            )
        }
        None => "no estimate of the number of wrong labels: it needs two classes, one of them with two samples".into(),
    }
}

/// Near-duplicates and images that may belong to no class, counted.
fn findings_lines(audit: &Audit) -> String {
    let count = |kind| audit.duplicates.iter().filter(|pair| pair.kind == kind).count();
    let (pairs, far) = (audit.duplicates.len(), audit.no_class().len());
    let (plural, belong) = (if pairs == 1 { "" } else { "s" }, if far == 1 { " that may" } else { "s that may" });
    let pairs = match pairs {
        0 => "no near-duplicates".into(),
        _ => format!(
            "{pairs} pair{plural} of near-duplicates: {} with different labels, {} in the training and the test set, {} \
             with the same label",
            count(DuplicateKind::OtherClass),
            count(DuplicateKind::TrainAndTest),
            count(DuplicateKind::SameClass)
        ),
    };
    format!("{pairs}\n{far} sample{belong} belong to no class")
}

/// The end of a long path, which is the part that identifies the sample.
fn shortened(path: &str) -> String {
    const LONGEST: usize = 40;
    let length = path.chars().count();
    if length <= LONGEST {
        path.into()
    } else {
        format!("…{}", path.chars().skip(length + 1 - LONGEST).collect::<String>())
    }
}
