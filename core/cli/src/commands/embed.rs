//! `curricle embed`

use super::DeviceArgs;
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::device;
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{EmbedSource, SavedModel, embed};
use curricle_engine::track::Counter;
use std::path::{Path, PathBuf};

/// Compute embeddings of images with a trained model.
///
/// The model is the folder of a run, a file in its `checkpoints` folder, or a file written by `curricle export
/// --format safetensors`. Images are transformed as in evaluation. The output file holds `embeddings [N, D]`
/// and, if the images are labelled, `labels [N]`, the labels before noise is added; paths and class names are
/// in its metadata. `curricle eval` reads it.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true)))]
pub(crate) struct Args {
    /// A run's folder, one of its checkpoints, or an exported model.
    #[arg(value_parser = super::existing)]
    model: PathBuf,
    /// A folder of images (with one subfolder per class if they are labelled), or a list: a CSV file of
    /// `path,label` or a text file with one path per line.
    #[arg(long, value_name = "PATH", group = "source", value_parser = super::existing)]
    images: Option<PathBuf>,
    /// Use the run's own training or test classes instead of `--images`.
    #[arg(long, value_enum, group = "source")]
    data: Option<Data>,
    /// Safetensors file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Batch size. Default: 32 on a CPU, more on a GPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    batch_size: Option<i64>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print a summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Data {
    Train,
    Test,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    check_name(&args.out)?;
    super::writable_file(&args.out)?;
    let source = match (&args.images, args.data) {
        (Some(path), _) => EmbedSource::Images(path),
        (None, Some(Data::Train)) => EmbedSource::Train,
        (None, Some(Data::Test)) => EmbedSource::Test,
        (None, None) => return Err(Error::usage("either `--images` or `--data` is required".into())),
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
    let labels = done.classes.map_or("unlabelled".to_string(), |classes| format!("classes: {classes}"));
    output::note(&format!(
        "wrote embeddings [{}, {}] ({labels}) to `{}`",
        done.samples,
        done.dimensions,
        args.out.display()
    ));
    if done.classes.is_some() {
        output::note(&format!("evaluate with: curricle eval {}", output::in_shell(&args.out)));
    }
    Ok(())
}

/// Other programs would take the file for what its name says.
fn check_name(out: &Path) -> Result<()> {
    let extension = out.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !matches!(extension, "npy" | "npz" | "pt" | "pth" | "csv" | "tsv" | "json" | "pkl" | "h5") {
        return Ok(());
    }
    let name = out.with_extension("safetensors");
    Err(Error::usage(format!(
        "embeddings are written as safetensors, not as `.{extension}`\nhelp: use `--out {}`; in Python, read it with \
         `safetensors.numpy.load_file`",
        output::in_shell(&name)
    )))
}
