//! `curricle export`

use crate::error::Result;
use crate::output;
use curricle_engine::run::SavedModel;
use std::path::PathBuf;

/// Write a trained model for use elsewhere.
///
/// `torchscript` is a program for libtorch, in Python (`torch.jit.load`) and C++ (`torch::jit::load`):
/// pictures as f32 `[B, 3, H, W]`, RGB in [0, 1], in (`[B, 1, H, W]` for a network trained on grey ones,
/// `[B, D]` for one on features); embeddings of length 1 out. The normalisation
/// that the network expects is part of it. `safetensors` holds the tensors alone, those of the network
/// under the names torchvision gives them, and in its metadata what is needed to use them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run's folder, one of its checkpoints, or a model exported as safetensors.
    #[arg(value_parser = super::existing)]
    model: PathBuf,
    /// What to write. Default: `safetensors` if the file's name ends so, else `torchscript`.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    Torchscript,
    Safetensors,
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
    let saved = SavedModel::open(&args.model)?;
    let named_so = args.out.extension().is_some_and(|ending| ending == "safetensors");
    let format = args.format.unwrap_or(if named_so { Format::Safetensors } else { Format::Torchscript });
    match format {
        Format::Torchscript => saved.export_torchscript(&args.out)?,
        Format::Safetensors => saved.export_safetensors(&args.out)?,
    }
    let backbone = saved.settings.backbone.name();
    let size = saved.settings.embedding.size;
    output::note(&format!("`{backbone}` with embeddings of {size} dimensions is in `{}`", args.out.display()));
    Ok(())
}
