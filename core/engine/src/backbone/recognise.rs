//! Which network a file of pretrained weights belongs to, by the names and sizes of its tensors.

use super::Model;
use super::vit::{self, VitWeights};
use super::weights::{self, WeightsFile};
use crate::data::Layout;
use crate::{Error, Result};
use curricle_recipe::{BackboneRecipe, EmbeddingRecipe};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use tch::{Device, Tensor};

/// The convolutional networks, by name.
const CONVOLUTIONAL: [&str; 7] =
    ["resnet18", "resnet34", "resnet50", "mobilenet_v2", "efficientnet_b0", "bn_inception", "squeezenet1_1"];

/// A supported network that a file has weights for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognisedNetwork {
    /// Its name in recipes.
    pub name: &'static str,
    /// Settings by which it differs from the network of that name.
    pub settings: Vec<(&'static str, i64)>,
}

impl RecognisedNetwork {
    /// Recognises the network of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has the tensors of no supported network; then the error names the closest one.
    pub fn of(path: &Path) -> Result<Self> {
        let file = WeightsFile::read(path)?;
        if let Ok(vit) = VitWeights::recognise(&file, "vit_small_16") {
            let (name, settings) = vit::recognise(&vit.sizes()).map_err(|message| file.wrong(message))?;
            return Ok(Self { name, settings });
        }
        let mut closest: Option<(usize, &str, HashMap<String, Tensor>)> = None;
        for name in CONVOLUTIONAL {
            let tensors = tensors(name)?;
            let matched = weights::matching(&file, &tensors);
            // A deeper ResNet has all tensors of a shallower one, so most tensors win rather than the largest share.
            if matched > closest.as_ref().map_or(0, |(most, ..)| *most) {
                closest = Some((matched, name, tensors));
            }
        }
        let Some((_, name, tensors)) = closest else {
            let supported = CONVOLUTIONAL.map(|name| format!("`{name}`")).join(", ");
            return Err(file.wrong(
                file.nothing_matched(&format!("the tensors of a supported network ({supported}, vision transformers)")),
            ));
        };
        // Says what is missing or has another size.
        weights::load(&file, name, &tensors)?;
        Ok(Self { name, settings: Vec::new() })
    }
}

/// A network's tensors under their own names, uninitialised.
fn tensors(name: &str) -> Result<HashMap<String, Tensor>> {
    let recipe: BackboneRecipe = serde_json::from_value(json!({ "name": name }))
        .map_err(|e| Error::Failed(format!("backbone `{name}` needs settings: {e}")))?;
    let layout = Layout::Images { channels: 3, height: 64, width: 64 };
    let model = Model::blank(&recipe, &EmbeddingRecipe::default(), layout, None, Device::Cpu)?;
    Ok(model.backbone_tensors())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(folder: &Path, prefix: &str, tensors: &HashMap<String, Tensor>) -> std::path::PathBuf {
        let path = folder.join("weights.safetensors");
        let named: Vec<_> = tensors.iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor)).collect();
        Tensor::write_safetensors(&named, &path).unwrap();
        path
    }

    #[test]
    fn every_convolutional_network_is_recognised_with_and_without_a_prefix() {
        let folder = tempfile::tempdir().unwrap();
        for name in CONVOLUTIONAL {
            for prefix in ["", "module."] {
                let path = save(folder.path(), prefix, &tensors(name).unwrap());
                let found = RecognisedNetwork::of(&path).unwrap();
                assert_eq!((found.name, found.settings), (name, Vec::new()));
            }
        }
    }

    #[test]
    fn vision_transformers_are_recognised_with_their_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let settings = |json| serde_json::from_value::<BackboneRecipe>(json).unwrap();
        for (recipe, name, expected) in [
            (json!({ "name": "vit_small_14", "depth": 12 }), "vit_small_14", vec![]),
            (
                json!({ "name": "vit_small_16", "patch": 8, "width": 128, "depth": 2, "heads": 2 }),
                "vit_small_16",
                vec![("patch", 8), ("width", 128), ("depth", 2)],
            ),
        ] {
            let layout = Layout::Images { channels: 3, height: 112, width: 112 };
            let model =
                Model::blank(&settings(recipe), &EmbeddingRecipe::default(), layout, None, Device::Cpu).unwrap();
            let path = save(folder.path(), "", &model.backbone_tensors());
            let found = RecognisedNetwork::of(&path).unwrap();
            assert_eq!((found.name, found.settings), (name, expected));
        }
    }

    #[test]
    fn another_or_an_incomplete_network_is_refused_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |tensors: &HashMap<String, Tensor>| {
            RecognisedNetwork::of(&save(folder.path(), "", tensors)).unwrap_err().to_string()
        };
        let mut incomplete = tensors("mobilenet_v2").unwrap();
        incomplete.remove("features.18.0.weight");
        let message = refused(&incomplete);
        assert!(message.contains("lacks 1 of the") && message.contains("`mobilenet_v2`"), "{message}");
        let other =
            HashMap::from([("tower.3.kernel".to_string(), Tensor::zeros([2], (tch::Kind::Float, Device::Cpu)))]);
        let message = refused(&other);
        assert!(message.contains("a supported network (`resnet18`"), "{message}");
        assert!(message.contains("tensors found: `tower.3.kernel`"), "{message}");
    }
}
