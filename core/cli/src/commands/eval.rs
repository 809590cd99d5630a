//! `curricle eval`: retrieval and clustering metrics of embeddings from a file.

use crate::error::{Error, Result};
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use curricle_engine::device::{self, DeviceChoice};
use curricle_engine::read_embeddings;
use curricle_eval::{ClusterOptions, EmbeddingFile, EvalOptions, evaluate};
use curricle_record::Metrics;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Compute Recall@K, R-precision, MAP@R, NMI and AMI of embeddings.
///
/// The file has `embeddings [N, D]` (floats), `labels [N]` (integers) and optionally `query [N]` (booleans): samples
/// marked in `query` are the queries and the others are the gallery; without it every sample is a query against all
/// others. It is a safetensors file, a NumPy archive (`np.savez("x.npz", embeddings=…, labels=…)`), or a PyTorch file
/// (`torch.save({"embeddings": …, "labels": …}, "x.pt")`).
/// Embeddings are compared by cosine similarity. The results do not depend on device or threads.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File with embeddings and labels: `.safetensors`, `.npz` or `.pt`; or `.npy` with embeddings only.
    #[arg(value_name = "FILE", value_parser = super::existing)]
    file: PathBuf,
    /// `.npy` file with the labels, if the embeddings are in a `.npy` file.
    #[arg(long, value_name = "FILE", value_parser = super::existing)]
    labels: Option<PathBuf>,
    /// Values of K for Recall@K.
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,2,4,8", value_parser = super::at_least_one)]
    recall: Vec<usize>,
    /// Skip NMI and AMI, which need k-means.
    #[arg(long)]
    no_cluster: bool,
    /// Number of k-means restarts to average NMI and AMI over.
    #[arg(long, value_name = "N", default_value = "3", value_parser = super::at_least_one)]
    restarts: usize,
    /// Seed of k-means.
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = super::whole_number::<u64>)]
    seed: u64,
    /// Device to compute on: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceChoice,
    /// Number of CPU threads.
    #[arg(long, value_name = "N", value_parser = super::at_least_one, allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Print the results as JSON, with fractions from 0 to 1 instead of percentages.
    #[arg(long)]
    json: bool,
}

/// Reads the file, evaluates it and prints the metrics.
pub(crate) fn run(args: &Args) -> Result<()> {
    let device = device::resolve(args.device)?;
    device::set_threads(args.threads)?;
    let file = read_embeddings(&args.file, args.labels.as_deref(), device)?;
    let options = EvalOptions {
        recall_at: args.recall.clone(),
        cluster: (!args.no_cluster).then_some(ClusterOptions { restarts: args.restarts, seed: args.seed }),
    };
    let metrics = evaluate(&file.input(), &options).map_err(|error| match error {
        curricle_eval::Error::Input(message) => curricle_record::Error::format(&args.file, message).into(),
        other => Error::from(other),
    })?;
    let text = if args.json { json(&file, &metrics)? } else { table(&file, &metrics) };
    output::print(&text)
}

fn classes(file: &EmbeddingFile) -> usize {
    file.labels.iter().collect::<BTreeSet<_>>().len()
}

fn json(file: &EmbeddingFile, metrics: &Metrics) -> Result<String> {
    let failed = |e: serde_json::Error| Error::failed(e.to_string());
    let mut report = serde_json::json!({
        "samples": file.labels.len(),
        "classes": classes(file),
        "dimensions": file.embeddings.size()[1],
        "normalised": file.needs_normalising,
    });
    if let (Some(report), serde_json::Value::Object(metrics)) =
        (report.as_object_mut(), serde_json::to_value(metrics).map_err(failed)?)
    {
        report.extend(metrics);
    }
    Ok(serde_json::to_string_pretty(&report).map_err(failed)? + "\n")
}

fn table(file: &EmbeddingFile, metrics: &Metrics) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["metric", "%"]);
    for (name, value) in metrics.scalars() {
        table.add_row([name, format!("{:.2}", 100.0 * value)]);
    }
    if let Some(numbers) = table.column_mut(1) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    let protocol = if file.query.is_some() { "each against the gallery" } else { "each against all other samples" };
    let mut text = format!(
        "{} of {}, {} dimensions; {}, {protocol}\n",
        output::counted(file.labels.len(), "sample", "samples"),
        output::counted(classes(file), "class", "classes"),
        file.embeddings.size()[1],
        output::counted(metrics.queries, "query", "queries")
    );
    if metrics.excluded > 0 {
        text += &format!("excluded queries: {}, because no other sample has their class\n", metrics.excluded);
    }
    if file.needs_normalising {
        text += "note: the embeddings did not have unit norm and were normalised\n";
    }
    format!("{text}\n{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Tensor;

    fn example() -> (EmbeddingFile, Metrics) {
        let file = EmbeddingFile {
            embeddings: Tensor::from_slice(&[1.0_f32, 0.0, 0.9, 0.1, 0.0, 1.0, 0.1, 0.9, 3.0, 3.0]).view([5, 2]),
            labels: vec![4, 4, 9, 9, 7],
            query: None,
            needs_normalising: true,
        };
        let metrics = evaluate(&file.input(), &EvalOptions { recall_at: vec![1, 2], cluster: None }).unwrap();
        (file, metrics)
    }

    #[test]
    fn the_table_shows_percentages_and_what_was_excluded_and_normalised() {
        let (file, metrics) = example();
        let text = table(&file, &metrics);
        assert!(text.starts_with("5 samples of 3 classes, 2 dimensions; 4 queries, each against all other samples\n"));
        assert!(text.contains("excluded queries: 1") && text.contains("were normalised"), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["recall@1", "100.00"]), "{text}");
    }

    #[test]
    fn json_contains_fractions() {
        let (file, metrics) = example();
        let report: serde_json::Value = serde_json::from_str(&json(&file, &metrics).unwrap()).unwrap();
        assert_eq!((&report["recall"]["1"], &report["excluded"]), (&serde_json::json!(1.0), &serde_json::json!(1)));
        assert_eq!((&report["normalised"], &report["nmi"]), (&serde_json::json!(true), &serde_json::Value::Null));
    }
}
