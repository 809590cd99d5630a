//! Content hashes, which show whether two runs used the same data.

use super::{Inputs, Split};
use crate::{Error, Result};
use tch::{Device, Kind};

/// Bytes hashed at once.
const BLOCK: i64 = 1 << 22;

/// Hash of the inputs, labels and class names of some splits, and of the query flags.
pub(crate) fn of_splits(parts: &[&Split], query: Option<&[bool]>) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for split in parts {
        add_part(&mut hasher, split).map_err(|e| Error::Torch { during: "hashing the data set", source: e.into() })?;
    }
    if let Some(query) = query {
        hasher.update(&query.iter().map(|q| u8::from(*q)).collect::<Vec<_>>());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Adds strings with their lengths, so that no two lists give the same bytes.
pub(crate) fn add_texts(hasher: &mut blake3::Hasher, texts: &[String]) {
    hasher.update(&(texts.len() as u64).to_le_bytes());
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
}

/// Adds labels.
pub(crate) fn add_labels(hasher: &mut blake3::Hasher, labels: &[i64]) {
    hasher.update(&(labels.len() as u64).to_le_bytes());
    labels.iter().for_each(|label| {
        hasher.update(&label.to_le_bytes());
    });
}

fn add_part(hasher: &mut blake3::Hasher, split: &Split) -> Result<(), tch::TchError> {
    let inputs = match &split.inputs {
        Inputs::Images(tensor) | Inputs::Features(tensor) => tensor,
        Inputs::Files(files) => {
            files.hash_into(hasher);
            add_labels(hasher, &split.labels);
            add_texts(hasher, &split.class_names);
            return Ok(());
        }
    };
    for size in inputs.size() {
        hasher.update(&size.to_le_bytes());
    }
    let bytes = inputs.f_contiguous()?.f_to(Device::Cpu)?.f_view([-1])?.f_view_dtype(Kind::Uint8)?;
    let total = bytes.size()[0];
    let mut buffer = vec![0u8; BLOCK.min(total) as usize];
    for start in (0..total).step_by(BLOCK as usize) {
        let length = BLOCK.min(total - start);
        let buffer = &mut buffer[..length as usize];
        bytes.f_narrow(0, start, length)?.f_copy_data_u8(buffer, length as usize)?;
        hasher.update(buffer);
    }
    add_labels(hasher, &split.labels);
    add_texts(hasher, &split.class_names);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;

    #[test]
    fn the_hash_depends_on_inputs_labels_and_names_but_not_on_paths() {
        let hash = |change: fn(&mut Split)| {
            let mut split = numbered(&[0, 0, 1, 1]);
            change(&mut split);
            of_splits(&[&split], None).unwrap()
        };
        let base = hash(|_| ());
        assert_eq!(base, hash(|split| split.paths[0] = "elsewhere".into()));
        assert_ne!(base, hash(|split| split.labels = vec![0, 1, 1, 1]));
        assert_ne!(base, hash(|split| split.class_names[1] = "other".into()));
        assert_ne!(base, hash(|split| split.inputs = Inputs::Features(split.inputs.tensor().unwrap() + 1.0)));
        assert_ne!(base, hash(|split| split.inputs = Inputs::Features(split.inputs.tensor().unwrap().view([2, 2]))));
    }

    #[test]
    fn data_larger_than_a_block_is_hashed_to_its_end() {
        let mut split = numbered(&[0, 0]);
        let features = tch::Tensor::zeros([2, 1_500_000], (Kind::Float, Device::Cpu));
        split.inputs = Inputs::Features(features.copy());
        let before = of_splits(&[&split], None).unwrap();
        let _ = features.get(1).narrow(0, 1_499_999, 1).fill_(1.0);
        split.inputs = Inputs::Features(features);
        assert_ne!(before, of_splits(&[&split], None).unwrap());
    }
}
