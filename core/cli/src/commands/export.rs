//! `curricle export`

use crate::error::{Error, Result};
use crate::output;
use curricle_engine::run::SavedModel;
use std::path::{Path, PathBuf};

/// Export a trained model.
///
/// `torchscript` is a program for libtorch, to be loaded in Python (`torch.jit.load`) or C++
/// (`torch::jit::load`). Its input is f32 images `[B, 3, H, W]`, RGB in [0, 1] (`[B, 1, H, W]` for a network
/// trained on grey images, `[B, D]` for one trained on features); its output is embeddings of unit norm. It
/// includes the normalisation that the network expects. `safetensors` holds the tensors alone, with
/// torchvision's names for those of the network, and in its metadata the settings needed to use them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run's folder, one of its checkpoints, or a model exported as safetensors.
    #[arg(value_parser = super::existing)]
    model: PathBuf,
    /// Output format. Default: from the extension of `--out`: `.pt`, `.pth` or `.ts` for `torchscript`,
    /// `.safetensors` for `safetensors`.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    Torchscript,
    Safetensors,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let format = args.format.map_or_else(|| format_of(&args.out), Ok)?;
    super::writable_file(&args.out)?;
    let saved = SavedModel::open(&args.model)?;
    match format {
        Format::Torchscript => saved.export_torchscript(&args.out)?,
        Format::Safetensors => saved.export_safetensors(&args.out)?,
    }
    let backbone = saved.settings.backbone.name();
    let size = saved.settings.embedding.size;
    output::note(&format!("wrote `{backbone}` with {size}-dimensional embeddings to `{}`", args.out.display()));
    Ok(())
}

/// The format that a file's extension stands for.
fn format_of(out: &Path) -> Result<Format> {
    match out.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "safetensors" => Ok(Format::Safetensors),
        "pt" | "pth" | "ts" => Ok(Format::Torchscript),
        "onnx" => Err(Error::usage(format!(
            "ONNX is not supported, so `{}` is not written\nhelp: export TorchScript (`.pt`), which libtorch and \
             Python's `torch.jit.load` read",
            out.display()
        ))),
        _ => Err(Error::usage(format!(
            "cannot tell the format from the name `{}`\nhelp: end it in `.pt` (TorchScript) or `.safetensors`, or add \
             `--format`",
            out.display()
        ))),
    }
}
