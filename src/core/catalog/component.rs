//! The numbers of one component, as its `config.json` says them or as its file's header shows them.
//!
//! Gives JSON in diffusers' own terms, whatever the place is, so that every reader of configs has one source.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::configs::read_json;
use super::weights::{WeightSet, is_weight_file_of};
use super::{CatalogError, Family, flux, framepack, wan};

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    Transformer,
    Vae,
    TextEncoder,
    #[serde(rename = "text_encoder_2")]
    TextEncoder2,
    ImageEncoder,
}

impl Component {
    /// What it is called in lists.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Vae => "autoencoder",
            Self::TextEncoder => "text encoder",
            Self::TextEncoder2 => "second text encoder",
            Self::ImageEncoder => "image encoder",
        }
    }

    /// Whether a `config.json` speaks of this component; one that does not say what it is may.
    fn is_described_by(self, family: Family, config: &Value) -> bool {
        let says = |key: &str| config.get(key).and_then(Value::as_str);
        let class = says("_class_name");
        let is_model = |name: &str| says("model_type").is_some_and(|says| says.starts_with(name));
        match (family, self) {
            (Family::Wan, Self::Transformer) => class == Some("WanTransformer3DModel"),
            (Family::Wan, Self::Vae) => class == Some("AutoencoderKLWan"),
            (Family::Wan, Self::TextEncoder) => is_model("umt5"),
            (Family::Flux, Self::Transformer) => class == Some("FluxTransformer2DModel"),
            (Family::Flux, Self::Vae) => class == Some("AutoencoderKL"),
            (Family::FramePack, Self::Transformer) => matches!(
                class,
                Some(
                    "HunyuanVideoFramepackTransformer3DModel"
                        | "HunyuanVideoTransformer3DModelPacked"
                )
            ),
            (Family::FramePack, Self::Vae) => class == Some("AutoencoderKLHunyuanVideo"),
            (Family::FramePack, Self::TextEncoder) => is_model("llama") || is_model("llava"),
            (Family::FramePack, Self::ImageEncoder) => is_model("siglip"),
            (Family::Flux, Self::TextEncoder)
            | (Family::FramePack, Self::TextEncoder2)
            | (_, Self::ImageEncoder) => is_model("clip"),
            (_, Self::TextEncoder2) => is_model("t5"),
        }
    }
}

/// The component's `config.json`: of its folder, or made from the header of its file.
///
/// A place is a folder, a weight file or a weight index. The config beside a file counts where the file is the
/// folder's own; the authors' config (`WanModel`) is said again in diffusers' terms.
pub fn component_config(
    family: Family,
    component: Component,
    place: &Path,
) -> Result<Value, CatalogError> {
    let (folder, is_own) = if place.is_dir() {
        (place, true)
    } else {
        let folder = place.parent().unwrap_or_else(|| Path::new(""));
        (folder, is_weight_file_of(place, folder))
    };
    let file = folder.join("config.json");
    let mut num_heads = None;
    if is_own && file.exists() {
        let config: Value = read_json(&file)?;
        if is_authors(&config) && component == Component::Transformer {
            num_heads = config.get("num_heads").and_then(Value::as_u64);
        } else if place.is_dir() || component.is_described_by(family, &config) {
            return Ok(config);
        }
    }
    let weights = WeightSet::at(place)?;
    let config = match family {
        Family::Wan => wan::config_of_header(component, &weights, num_heads),
        Family::Flux => flux::config_of_header(component, &weights),
        Family::FramePack => framepack::config_of_header(component, &weights),
    };
    config.map_err(|reason| CatalogError::Config {
        reason,
        path: place.to_owned(),
    })
}

/// Whether a config is of the authors' own layout.
pub(super) fn is_authors(config: &Value) -> bool {
    config.get("_class_name").and_then(Value::as_str) == Some("WanModel")
}
