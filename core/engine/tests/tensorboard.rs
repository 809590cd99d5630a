//! Reads event files back with TensorBoard.

use curricle_engine::track::{HParams, RgbImage, Tracker};
use curricle_record::metrics_file;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The contents of a log folder according to TensorBoard's reader.
fn read_back(folder: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = std::env::var_os("CURRICLE_PYTHON").map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "`{}` does not exist: run `scripts/setup`, or set `CURRICLE_PYTHON` to a Python that has tensorboard",
        python.display()
    );
    let output = Command::new(python).arg(root.join("tests/python/read_events.py")).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn tensorboard_reads_everything_a_run_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut tracker = Tracker::create(folder.path(), None).unwrap();
    let row = HParams { method: "ms".into(), noise: "20 % uniform".into(), seed: 3, settings: "size=64".into() };
    tracker.hparams(&row).unwrap();
    tracker.text("recipe", "    [loss]\n    name = \"ms\"", 0);
    tracker.scalars(&[("train/loss", 0.5), ("eval/recall@1", 0.25)], 1, 1).unwrap();
    tracker.scalar("train/loss", f64::NAN, 2, 1).unwrap();
    tracker.scalar("train/loss", f64::NEG_INFINITY, 3, 1).unwrap();
    tracker.histogram("weights/all", &[0.0, 0.5, 1.0, 1.0], 3, 1).unwrap();
    tracker.histogram("weights/none", &[], 3, 1).unwrap();
    tracker.histogram("weights/one", &[0.25], 3, 1).unwrap();
    tracker.image("eval/neighbours", &RgbImage::new(30, 20, [200, 0, 0]), 3).unwrap();
    tracker.finish().unwrap();

    let found = read_back(folder.path());
    assert_eq!(found["scalars"]["train/loss"], json!([[1, 0.5], [2, "nan"], [3, "-inf"]]));
    assert_eq!(found["scalars"]["eval/recall@1"], json!([[1, 0.25]]));
    assert_eq!(found["texts"]["recipe"], json!([[0, ["    [loss]\n    name = \"ms\""]]]));
    assert_eq!(found["images"]["eval/neighbours"], json!([{"step": 3, "width": 30, "height": 20, "png": [30, 20]}]));
    let charts: Vec<&String> = found["layout"].as_object().unwrap().keys().collect();
    assert_eq!(charts[0], "Recall@1 on the test classes");
    assert_eq!(found["layout"]["Wrong labels found by the weights (AUROC)"], json!(["^weights/auroc$"]));

    let all = &found["histograms"]["weights/all"][0];
    let moments = ["min", "max", "num", "sum", "sum_squares"].map(|name| all[name].as_f64().unwrap());
    assert_eq!(moments, [0.0, 1.0, 4.0, 2.5, 2.25]);
    assert_eq!(all["bucket"].as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>(), 4.0);
    assert_eq!(found["histograms"]["weights/none"][0]["num"], json!(0.0));
    assert_eq!(found["histograms"]["weights/one"][0]["bucket"], json!([1.0]));

    let params = json!({"method": "ms", "noise": "20 % uniform", "seed": "3", "settings": "size=64"});
    assert_eq!(found["hparams"]["start"], json!({"group": "", "params": params}));
    let columns = &found["hparams"]["experiment"];
    assert_eq!(columns["params"], json!(["method", "noise", "seed", "settings"]));
    assert_eq!(columns["metrics"], json!(["eval/recall@1", "eval/map@r", "eval/nmi", "weights/auroc"]));
    assert_eq!(found["hparams"]["end"], json!(1), "success");
}

#[test]
fn a_resumed_run_has_no_duplicate_points() {
    let folder = tempfile::tempdir().unwrap();
    let run = |resume: Option<u64>, steps: std::ops::RangeInclusive<u64>, value: f64| {
        let mut tracker = Tracker::create(folder.path(), resume).unwrap();
        for step in steps {
            tracker.histogram("weights/all", &[value], step, 1).unwrap();
            tracker.scalar("train/loss", value, step, 1).unwrap();
        }
    };
    run(None, 1..=12, 1.0);
    // The process was killed in the middle of its last record.
    let mut files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let events = files.find(|path| path.to_string_lossy().contains("tfevents")).unwrap();
    let bytes = std::fs::read(&events).unwrap();
    std::fs::write(&events, &bytes[..bytes.len() - 5]).unwrap();
    run(Some(8), 9..=10, 2.0);

    let found = read_back(folder.path());
    let values = (1..=10).map(|step| json!([step, if step <= 8 { 1.0 } else { 2.0 }]));
    assert_eq!(found["scalars"]["train/loss"], values.collect::<Value>());
    assert_eq!(found["histograms"]["weights/all"].as_array().unwrap().len(), 10);
    for tag in ["train/loss", "weights/all"] {
        assert_eq!(found["server_steps"][tag], (1..=10).collect::<Value>(), "{tag}");
    }
    assert_eq!(found["hparams"], json!({}), "the run did not end");
}

#[test]
fn a_hundred_thousand_scalars_are_all_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut tracker = Tracker::create(folder.path(), None).unwrap();
    for step in 0..100_000 {
        tracker.scalar("train/loss", step as f64, step, step / 1000).unwrap();
    }
    tracker.flush().unwrap();
    let records = metrics_file::read(&folder.path().join("metrics.jsonl")).unwrap();
    assert_eq!(records.len(), 100_000);
    let found = read_back(folder.path());
    let points = found["scalars"]["train/loss"].as_array().unwrap();
    assert_eq!((points.len(), &points[99_999]), (100_000, &json!([99_999, 99_999.0])));
}
