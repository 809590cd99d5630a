//! `curricle data`

use super::RecipeArgs;
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::data::{self, DataReport, PUBLISHED, PublishedSet};
use curricle_engine::device;
use curricle_engine::progress::Bar;
use curricle_engine::progress::ProgressMode;
use curricle_record::{Exit, SkippedFile};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Maximum number of files to list; the others are only counted.
const SHOWN: usize = 50;

/// List the published data sets and what to download for them, or inspect data.
///
/// Without a subcommand, lists the sets with their files, sizes and hashes, as far as these are known.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(CheckArgs),
    Verify(VerifyArgs),
}

/// Compare a folder with a published data set: its lists and that all images are there.
///
/// Exits with 1 if something differs.
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// Data set.
    #[arg(value_parser = PUBLISHED.map(|set| set.name))]
    set: String,
    /// Folder with the unpacked data set.
    #[arg(value_parser = super::existing)]
    folder: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Check that every file of a recipe's data set exists and can be decoded.
///
/// Exits with 1 if a file is missing or cannot be decoded.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Number of threads for decoding. Default: one per core.
    #[arg(long, value_name = "N", value_parser = super::at_least_one, allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        None if args.json => output::json(&PUBLISHED),
        None => output::print(&PUBLISHED.iter().map(described).collect::<Vec<_>>().join("\n")),
        Some(Command::Check(args)) => check(args),
        Some(Command::Verify(args)) => verify(args),
    }
}

/// What to download for a set, and how to check it.
fn described(set: &PublishedSet) -> String {
    let mut text = format!("{}: {}\n  from {}\n", set.name, set.summary, set.from);
    for archive in set.archives {
        let known = match (archive.bytes, archive.md5) {
            (Some(bytes), Some(md5)) => format!("{bytes} bytes, md5 {md5}"),
            _ => "size and hash not known".into(),
        };
        text += &format!("  download {:32} {known}\n", archive.name);
    }
    for file in set.files {
        let known = match (file.bytes, file.sha256) {
            (Some(bytes), Some(hash)) => format!("{bytes} bytes, sha256 {hash}"),
            _ => "size and hash not known".into(),
        };
        text += &format!("  expects  {:32} {known}\n", file.paths[0]);
    }
    text += &format!("  images   {}\n  verify   curricle data verify {} FOLDER\n", set.images, set.name);
    text
}

fn verify(args: &VerifyArgs) -> Result<()> {
    let set = PublishedSet::find(&args.set).ok_or_else(|| Error::usage(format!("there is no `{}`", args.set)))?;
    let report = set.verify(&args.folder)?;
    if args.json {
        output::json(&report)?;
    } else if report.problems.is_empty() {
        output::print(&format!("`{}` has all {} images of `{}`\n", args.folder.display(), report.images, set.name))?;
    } else {
        let lines: String = report.problems.iter().map(|problem| format!("{problem}\n")).collect();
        output::print(&format!("{lines}`{}` is not the complete `{}`\n", args.folder.display(), set.name))?;
    }
    if report.problems.is_empty() { Ok(()) } else { Err(Error::Reported(Exit::Failed)) }
}

fn check(args: &CheckArgs) -> Result<()> {
    let resolved = args.recipe.load(None)?;
    device::set_threads(args.threads)?;
    let mode = ProgressMode::detect(output::verbosity() == Verbosity::Quiet);
    let bar: OnceLock<Bar> = OnceLock::new();
    let report = data::check(
        &resolved.recipe.data,
        |files| {
            let _ = bar.set(Bar::new(mode, "checking files", files as u64));
        },
        &|| {
            if let Some(bar) = bar.get() {
                bar.advance();
            }
        },
    );
    drop(bar);
    let report = report.map_err(|error| resolved.blame(error))?;
    if args.json {
        output::json(&report)?;
    } else {
        show(&report)?;
    }
    if report.bad.is_empty() { Ok(()) } else { Err(Error::Reported(Exit::Failed)) }
}

fn show(report: &DataReport) -> Result<()> {
    let mut table = output::table(&["split", "classes", "samples", "smallest class", "largest class"]);
    for split in &report.splits {
        let numbers = [split.classes, split.samples, split.smallest_class, split.largest_class];
        table.add_row([split.split.to_string()].into_iter().chain(numbers.map(|n| n.to_string())));
    }
    let mut text = format!("{table}\n");
    listed(&mut text, &report.ignored);
    if !report.ignored.is_empty() {
        let entries = if report.ignored.len() == 1 {
            "1 entry is".into()
        } else {
            format!("{} entries are", report.ignored.len())
        };
        text += &format!("{entries} not part of the data set (listed above)\n");
    }
    listed(&mut text, &report.bad);
    text += &match (&report.root, report.bad.len()) {
        (None, _) => "this source has no files to check\n".to_string(),
        (Some(root), 0) if report.files == 1 => format!("the only file in `{}` can be decoded\n", root.display()),
        (Some(root), 0) => format!("all {} files in `{}` can be decoded\n", report.files, root.display()),
        (Some(root), bad) => format!(
            "{bad} of {} files in `{}` cannot be used; fix them, or skip them with `images.on_bad_image = \"skip\"`\n",
            report.files,
            root.display()
        ),
    };
    output::print(&text)
}

fn listed(text: &mut String, files: &[SkippedFile]) {
    for file in files.iter().take(SHOWN) {
        text.push_str(&format!("`{}`: {}\n", file.path, file.problem));
    }
    if files.len() > SHOWN {
        text.push_str(&format!("… and {} more; `--json` lists all\n", files.len() - SHOWN));
    }
}
