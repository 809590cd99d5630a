//! `curricle audit`: finds samples that are probably mislabelled.

use super::audit_output::{self, AuditFiles};
use super::audit_recipe::{self, ImageSource, recipe_text};
use super::{DeviceArgs, PluginArgs, SetArgs};
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::Experiment;
use curricle_engine::audit::{Audit, AuditOptions, Decisions, Policy, UnsureSuspects};
use curricle_engine::backbone::RecognisedNetwork;
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{self, FinishedRun, RunOptions};
use curricle_engine::stop::StopSignal;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    if args.json {
        output::json(&audit_output::report(&audit, &written))
    } else {
        audit_output::show(&audit, &written, args.limit)
    }
}
