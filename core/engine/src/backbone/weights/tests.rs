//! Tests with files that PyTorch wrote (`tests/golden/backbones.py`), and with invalid ones.

use super::*;
use std::io::{Cursor, Write};
use tch::Kind;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/pth")).join(name)
}

fn load(path: &Path, network: &str, wanted: &HashMap<String, Tensor>) -> Result<WeightsReport> {
    super::load(&WeightsFile::read(path)?, network, wanted)
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
fn new_and_legacy_files_are_read() {
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
fn tch_and_safetensors_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let filled = network();
    load(&golden("old.pth"), "tiny", &filled).unwrap();
    // As if only the `features` module had been saved.
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
fn a_pickled_model_is_refused_with_the_remedy() {
    let message = load(&golden("whole_model.pth"), "tiny", &network()).unwrap_err().to_string();
    assert!(message.contains("`torch.nn.modules.linear.Linear`"), "{message}");
    assert!(message.contains("torch.save(model.state_dict(), path)"), "{message}");
}

#[test]
fn missing_tensors_and_wrong_shapes_are_named() {
    let mut wanted = network();
    wanted.insert("features.1.weight".into(), Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    let message = load(&golden("old.pth"), "tiny", &wanted).unwrap_err().to_string();
    assert!(message.contains("lacks 1 of the 3 tensors of `tiny`: `features.1.weight`"), "{message}");
    let mut wanted = network();
    wanted.insert("features.0.bias".into(), Tensor::zeros([3], (Kind::Float, Device::Cpu)));
    let message = load(&golden("old.pth"), "tiny", &wanted).unwrap_err().to_string();
    assert!(message.contains("`features.0.bias` has shape [2], but `tiny` needs [3]"), "{message}");
    let other = [("stem.weight".to_string(), Tensor::zeros([1], (Kind::Float, Device::Cpu)))].into();
    let message = load(&golden("old.pth"), "tiny", &other).unwrap_err().to_string();
    assert!(message.contains("has none of the 1 tensors of `tiny`; tensors found: `classifier.weight`"), "{message}");
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
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
            assert!(try_out(&whole[..cut]).is_err(), "{file} truncated after {cut} bytes");
        }
        for at in (0..whole.len()).step_by(13) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            // Some bytes do not matter; the result may be anything but a panic.
            let _ = try_out(&bytes);
        }
    }
}

/// The error for a file with this pickle and a storage of one number.
fn refused(pickle: &[u8]) -> String {
    refused_with(pickle, &[0; 4])
}

/// The error for a file with this pickle and this storage.
fn refused_with(pickle: &[u8], storage: &[u8]) -> String {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, contents) in [("archive/data.pkl", pickle), ("archive/data/0", storage)] {
        archive.start_file(name, zip::write::FileOptions::default()).unwrap();
        archive.write_all(contents).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.pth");
    std::fs::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    load(&path, "tiny", &network()).unwrap_err().to_string()
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let many = 1_000_000;
    let tuples = [b")".as_slice(), &b"\x85".repeat(many), b"."].concat();
    let lists = [b"]".repeat(many), b"a".repeat(many - 1), b".".to_vec()].concat();
    // Each list is filled after it was added to another: `]`, memoize, append, pop, get.
    let mut late = b"]q\x00".to_vec();
    for at in 0..many {
        let (old, new) = ((at % 2) as u8, ((at + 1) % 2) as u8);
        late.extend([b'h', old, b']', b'q', new, b'a', b'0']);
    }
    late.push(b'.');
    for pickle in [tuples, lists, late] {
        let message = refused(&pickle);
        assert!(message.contains("has none of the 2 tensors of `tiny`"), "{message}");
    }
}

#[test]
fn shared_values_are_not_copied() {
    let doubled = [b")".as_slice(), &b"2\x86".repeat(40), b"."].concat();
    let message = refused(&doubled);
    assert!(message.contains("has none of the 2 tensors of `tiny`"), "{message}");
    // One list of pairs is turned into a dictionary many times.
    let list = [b"](".as_slice(), &b"NN\x86".repeat(1000), b"e\x85q\x01"].concat();
    let pickle = [b"ccollections\nOrderedDict\nq\x00", list.as_slice(), &b"h\x00h\x01R".repeat(1000), b"."].concat();
    let message = refused(&pickle);
    assert!(message.contains("copies shared values more often"), "{message}");
}

/// A dictionary with 30 string keys, stored in memo slot `place`; all values are memo slot `value`.
fn dictionary(place: u8, value: u8) -> Vec<u8> {
    let entries = (0..30).flat_map(|key| [b'U', 1, b'A' + key, b'h', value]);
    [b'}', b'q', place, b'('].into_iter().chain(entries).chain([b'u']).collect()
}

#[test]
fn recursive_and_shared_dictionaries_are_handled_quickly() {
    let message = refused(&[dictionary(0, 0), b".".to_vec()].concat());
    assert!(message.contains("has none of the 2 tensors of `tiny`"), "{message}");
    let mut pickle = b"Nq\x00".to_vec();
    (1..=8).for_each(|place| pickle.extend(dictionary(place, place - 1)));
    pickle.push(b'.');
    let message = refused(&pickle);
    assert!(message.contains("has more entries than state dictionaries have"), "{message}");
}

/// A pickle of one tensor `w` with a storage of floats and this size and stride.
fn one_tensor(size: &str, stride: &str) -> Vec<u8> {
    let function = b"}U\x01wctorch._utils\n_rebuild_tensor_v2\n((";
    let storage = b"U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x01tQK\x00";
    let view = format!("I{size}\n\u{85}I{stride}\n\u{85}tRs.");
    // The form with two bytes per opcode above 0x7f is UTF-8; pickles have one.
    let view: Vec<u8> = view.chars().map(|c| c as u8).collect();
    [function.as_slice(), storage, &view].concat()
}

#[test]
fn no_more_is_unpacked_than_the_tensors_declare() {
    // A megabyte of zeros, of which one number is declared.
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, contents) in [("a/data.pkl", one_tensor("1", "1")), ("a/data/0", vec![0; 1 << 20])] {
        archive.start_file(name, zip::write::FileOptions::default()).unwrap();
        archive.write_all(&contents).unwrap();
    }
    let contents = pth::read_zip(&archive.finish().unwrap().into_inner()).unwrap();
    assert_eq!(contents.tensors["w"].size(), [1]);
    assert!(contents.tensors["w"].f_as_strided([2], [1], 0).is_err(), "nothing is behind it in memory");
    let message = refused_with(&one_tensor("1000000000000000", "1"), &[0; 4]);
    assert!(message.contains("declares tensors of 4000000.0 GB"), "{message}");
    let message = refused_with(&one_tensor("2", "9223372036854775807"), &[0; 4]);
    assert!(message.contains("its tensor `w` does not fit its storage"), "{message}");
    let message = refused(&vec![b'N'; 65 << 20]);
    assert!(message.contains("has a list of tensors of more than 64 MB"), "{message}");
}

#[test]
fn a_changed_bit_of_a_tensor_is_noticed() {
    let mut bytes = std::fs::read(golden("new.pth")).unwrap();
    assert!(pth::read_zip(&bytes).is_ok());
    let storage = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap().by_name("new/data/0").unwrap().data_start();
    bytes[storage as usize + 2] ^= 1;
    let message = pth::read_zip(&bytes).unwrap_err();
    assert!(
        message.contains("`new/data/0` cannot be read") && message.ends_with("download or save it again"),
        "{message}"
    );
}

#[test]
fn offsets_outside_the_storage_are_refused() {
    let view = b"(U\x01vI9223372036854775807\nK\x01t";
    let storage = [b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x01".as_slice(), view, b"tQ"].concat();
    let function = b"}U\x01wctorch._utils\n_rebuild_tensor_v2\n(";
    let pickle = [function.as_slice(), &storage, b"K\x01K\x01\x85K\x01\x85tRs."].concat();
    let message = refused(&pickle);
    assert!(message.contains("its tensor `w` does not fit its storage"), "{message}");
}
