//! Files that PyTorch wrote (`tests/golden/backbones.py`), and some that are wrong.

use super::*;
use tch::{Device, Kind};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/pth")).join(name)
}

/// A network of two tensors, all zeros.
fn network() -> HashMap<String, Tensor> {
    let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
    [("features.0.weight".to_string(), zeros(&[2, 3])), ("features.0.bias".to_string(), zeros(&[2]))].into()
}

fn assert_loaded(network: &HashMap<String, Tensor>) {
    let numbers = |name: &str| Vec::<f32>::try_from(network[name].flatten(0, -1)).unwrap();
    assert_eq!(numbers("features.0.weight"), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    assert_eq!(numbers("features.0.bias"), [0.5, -1.5]);
}

#[test]
fn files_of_every_age_are_read() {
    for (file, prefix) in [("new.pth", "state_dict.module."), ("old.pth", "")] {
        let network = network();
        let report = load(&golden(file), "tiny", &network).unwrap();
        assert_loaded(&network);
        assert_eq!((report.matched, report.prefix.as_str()), (2, prefix));
        assert_eq!(report.left_over, [format!("{prefix}classifier.weight")], "`num_batches_tracked` does not count");
        assert_eq!(report.sha256.len(), 64);
        let sentence = report.sentence();
        assert!(sentence.contains("all 2 tensors matched") && sentence.contains("classifier` (1)"), "{sentence}");
    }
}

#[test]
fn what_tch_and_safetensors_write_is_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let filled = network();
    load(&golden("old.pth"), "tiny", &filled).unwrap();
    // As if only the features had been saved.
    let tensors: Vec<_> = filled.iter().map(|(name, t)| (name.replace("features.", ""), t.shallow_clone())).collect();
    let (ot, safe) = (folder.path().join("tiny.ot"), folder.path().join("tiny.safetensors"));
    Tensor::save_multi(&tensors, &ot).unwrap();
    Tensor::write_safetensors(&tensors, &safe).unwrap();
    for path in [ot, safe] {
        let network = network();
        let report = load(&path, "tiny", &network).unwrap();
        assert_loaded(&network);
        assert!(report.left_over.is_empty());
    }
}

#[test]
fn a_pickled_model_is_refused_with_the_way_out() {
    let message = load(&golden("whole_model.pth"), "tiny", &network()).unwrap_err().to_string();
    assert!(message.contains("`torch.nn.modules.linear.Linear`"), "{message}");
    assert!(message.contains("torch.save(model.state_dict(), path)"), "{message}");
}

#[test]
fn missing_tensors_and_wrong_shapes_are_named() {
    let mut wanted = network();
    wanted.insert("features.1.weight".into(), Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    let message = load(&golden("old.pth"), "tiny", &wanted).unwrap_err().to_string();
    assert!(message.contains("1 of the 3 tensors of `tiny` are missing: `features.1.weight`"), "{message}");
    let mut wanted = network();
    wanted.insert("features.0.bias".into(), Tensor::zeros([3], (Kind::Float, Device::Cpu)));
    let message = load(&golden("old.pth"), "tiny", &wanted).unwrap_err().to_string();
    assert!(message.contains("`features.0.bias` has the shape [2], and `tiny` needs [3]"), "{message}");
    let other = [("stem.weight".to_string(), Tensor::zeros([1], (Kind::Float, Device::Cpu)))].into();
    let message = load(&golden("old.pth"), "tiny", &other).unwrap_err().to_string();
    assert!(message.contains("none of the 1 tensors of `tiny` is in it; it has: `classifier.weight`"), "{message}");
}

#[test]
fn damaged_files_are_refused_and_never_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.pth");
    let try_out = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        load(&path, "tiny", &network())
    };
    assert!(try_out(b"").unwrap_err().to_string().contains("is neither a PyTorch file"));
    for file in ["new.pth", "old.pth"] {
        let whole = std::fs::read(golden(file)).unwrap();
        for cut in (0..whole.len()).step_by(97) {
            assert!(try_out(&whole[..cut]).is_err(), "{file} cut after {cut} bytes");
        }
        for at in (0..whole.len()).step_by(13) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            // Some bytes do not matter; whatever comes out, nothing may panic.
            let _ = try_out(&bytes);
        }
    }
}
