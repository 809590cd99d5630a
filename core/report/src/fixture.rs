//! Synthetic runs for tests.

use crate::ReportedRun;
use curricle_recipe::identity;
use curricle_record::{Conditions, FORMAT, Metrics, RunResult};
use serde_json::{Value, json};
use std::path::Path;

/// A run with this Recall@1.
pub(crate) fn run(method: &str, case: &str, seed: u64, recall: f64) -> ReportedRun {
    let metrics = |recall: f64| Metrics {
        recall: [(1, recall), (8, 1.0 - 0.5 * (1.0 - recall))].into(),
        r_precision: 0.6 * recall,
        map_at_r: 0.5 * recall,
        nmi: Some(0.8 * recall),
        ami: None,
        inertia: None,
        queries: 100,
        excluded: 0,
    };
    let noise = if case == "clean" { json!({ "name": "none" }) } else { json!({ "name": "uniform", "ratio": 0.2 }) };
    let weighted = method == "bspml";
    let (loss, weights) = (method, if weighted { "balanced_self_paced" } else { "uniform" });
    let settings = json!({
        "name": format!("fixture-{method}"), "method": method, "case": case, "seed": seed,
        "data": { "source": "strokes", "classes": 100 }, "noise": noise,
        "backbone": { "name": "conv4" }, "embedding": { "size": 64 },
        "sampler": { "name": "pk", "classes": 16, "per_class": 4 },
        "loss": { "name": loss, "alpha": 2.0 }, "weights": { "name": weights },
        "train": { "epochs": 3 },
    });
    let weighting = if weighted { vec![("auroc".to_string(), 0.9), ("maw".to_string(), 0.8)] } else { Vec::new() };
    let conditions = Conditions {
        data: "d".repeat(64),
        labels: blake3::hash(format!("{case}{seed}").as_bytes()).to_hex().to_string(),
        initialisation: blake3::hash(&seed.to_le_bytes()).to_hex().to_string(),
    };
    let result = RunResult {
        format: FORMAT,
        name: format!("fixture-{method}"),
        recipe_hash: blake3::hash(format!("{method}{case}").as_bytes()).to_hex().to_string(),
        method: Some(method.into()),
        case: (!case.is_empty()).then(|| case.into()),
        seed,
        loss: loss.into(),
        weights: weights.into(),
        epochs: 3,
        steps: 30,
        untrained: metrics(0.3),
        trained: metrics(recall),
        final_loss: 0.5,
        weighting,
        batches: blake3::hash(&[seed as u8, 1]).to_hex().to_string(),
        conditions,
        seconds: 12.5,
        model_blake3: String::new(),
    };
    let folder = format!("runs/fixture/{method}-{}/seed-{seed}", &result.recipe_hash[..8]).into();
    ReportedRun { folder, method: method.into(), case: case.into(), settings, result, manifest: None }
}

/// Three methods, two cases, three seeds.
pub(crate) fn runs() -> Vec<ReportedRun> {
    let mut runs = Vec::new();
    for (case, drop) in [("noisy", 0.1), ("clean", 0.0)] {
        for (method, recall) in [("ms", 0.72), ("contrastive", 0.655), ("bspml", 0.75)] {
            for seed in 0..3 {
                let chance = [0.004, -0.01, 0.007][seed as usize] * if method == "ms" { 1.0 } else { 0.6 };
                let drop = if method == "bspml" { 0.3 * drop } else { drop };
                runs.push(run(method, case, seed, recall - drop + chance));
            }
        }
    }
    runs
}

/// Writes the folder of a run like a real one, with curves, weights and a retrieval image.
pub(crate) fn write(run: &ReportedRun, out: &Path) {
    let folder = out.join(&run.folder);
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("recipe.toml", toml::to_string(&without_nulls(&run.settings)).unwrap());
    write("result.json", serde_json::to_string_pretty(&run.result).unwrap());
    let manifest = json!({
        "format": FORMAT, "curricle": "0.1.0", "libtorch": "2.13.0", "recipe_hash": run.result.recipe_hash,
        "seed": run.seed(), "recipe_hash_without_plugins": identity(&without_nulls(&run.settings), &[]), "device": "cpu", "threads": 1, "conditions": run.result.conditions,
    });
    write("manifest.json", manifest.to_string());
    let mut metrics = String::from("{\"format\":\"curricle-metrics\",\"version\":1}\n");
    let recall = run.result.trained.recall[&1];
    for epoch in 0..=3 {
        let mut tags = vec![("eval/recall@1", 0.3 + (recall - 0.3) * f64::from(epoch) / 3.0)];
        if epoch > 0 {
            tags.push(("train/epoch_loss", 1.0 / f64::from(epoch)));
        }
        if epoch > 0 && run.result.weights != "uniform" {
            tags.push(("weights/objective_before", -10.0 * f64::from(epoch)));
            tags.push(("weights/objective", -10.0 * f64::from(epoch) - 5.0));
            tags.push(("weights/projected_gradient", 1e-9 * f64::from(epoch)));
            tags.push(("weights/auroc", 0.6 + 0.1 * f64::from(epoch)));
        }
        for (tag, value) in tags {
            metrics += &json!({ "step": 10 * epoch, "epoch": epoch, "tag": tag, "value": value }).to_string();
            metrics += "\n";
        }
    }
    write("metrics.jsonl", metrics);
    let mut samples = String::from("sample,path,label,weight,suspected,nearest_class,flipped\n");
    for i in 0..20 {
        let flipped = i % 5 == 0 && run.case != "clean";
        let weight = if flipped { 0.05 } else { 0.95 };
        samples += &format!("{i},p{i},c0,{weight},{flipped},c0,{flipped}\n");
    }
    write("samples.csv", samples);
    std::fs::write(folder.join("retrieval.png"), green_image()).unwrap();
}

/// A PNG file of 8 by 8 green pixels.
fn green_image() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 8, 8);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(&[0, 150, 60].repeat(64)).unwrap();
    bytes
}

/// TOML has no null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        other => other.clone(),
    }
}
