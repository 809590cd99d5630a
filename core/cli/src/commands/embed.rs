//! `curricle embed`

use super::DeviceArgs;
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::device;
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{EmbedSource, SavedModel, embed};
use curricle_engine::track::Counter;
use std::path::PathBuf;

/// Compute embeddings of pictures with a trained model.
///
/// The model is the folder of a run, a file in its `checkpoints`, or a file from `curricle export --format
/// safetensors`. Pictures are seen as in evaluation. The file that comes out holds `embeddings [N, D]` and,
/// where there are labels, `labels [N]`, which are those of the data without noise; paths and class names
/// are in its metadata. `curricle eval` reads it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run's folder, one of its checkpoints, or an exported model.
    #[arg(value_parser = super::existing)]
    model: PathBuf,
    /// A folder of pictures (of folders, one for each class, if they have labels), or a list: a CSV
    /// file of `path,label` or a text file with one path on each line.
    #[arg(long, value_name = "PATH", required_unless_present = "data", conflicts_with = "data", value_parser = super::existing)]
    images: Option<PathBuf>,
    /// The run's own data instead: its training or its test classes.
    #[arg(long, value_enum)]
    data: Option<Data>,
    /// The safetensors file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Pictures that are computed at once.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    batch_size: i64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Data {
    Train,
    Test,
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
    let source = match (&args.images, args.data) {
        (Some(path), _) => EmbedSource::Images(path),
        (None, Some(Data::Train)) => EmbedSource::Train,
        (None, Some(Data::Test)) => EmbedSource::Test,
        (None, None) => return Err(Error::usage("either `--images` or `--data` is needed".into())),
    };
    device::set_threads(args.device.threads)?;
    let device = device::resolve(args.device.device)?;
    let saved = SavedModel::open(&args.model)?;
    let mode = ProgressMode::detect(output::verbosity() == output::Verbosity::Quiet);
    let mut counter = Counter::new(mode, "images");
    let done = embed(&saved, source, &args.out, args.batch_size, device, |done, of| counter.set(done, of))?;
    counter.finish();
    if args.json {
        return output::json(&done);
    }
    let labels = done.classes.map_or("without labels".to_string(), |classes| format!("of {classes} classes"));
    output::note(&format!(
        "{} embeddings of {} dimensions {labels} are in `{}`",
        done.samples,
        done.dimensions,
        args.out.display()
    ));
    if done.classes.is_some() {
        output::note(&format!("how good are they? curricle eval {}", args.out.display()));
    }
    Ok(())
}
