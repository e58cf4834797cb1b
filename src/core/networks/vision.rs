//! Vision transformers of CLIP and SigLIP: config, from a file or a header, and schema.
//!
//! Uses the names of `transformers` below any prefix. `clip_vision` and `siglip` define the two kinds.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clip_text::{ClipActivation, ClipLayers, check_model_type, is_of_type, sizes_of_layers};
use super::header::{heads, not_a, sizes};
use super::{NetworkConfig, Schema, TensorRole, TensorSpec, check_sizes};
use crate::formats::weights::WeightSet;
use crate::model::{CatalogError, DetectionRule, PartKind};

/// By which a vision transformer is known.
pub(super) const PATCHES: &str = "embeddings.patch_embedding.weight";
const POSITIONS: &str = "embeddings.position_embedding.weight";
/// By which their files are known: CLIP's patches have no bias.
pub(super) const KINDS: &[DetectionRule] = &[
    encoder(
        "an image encoder",
        &[PATCHES, "embeddings.patch_embedding.bias"],
    )
    .of(PartKind::Siglip),
    encoder("an image encoder", &[PATCHES]).of(PartKind::ClipVision),
    encoder(
        "an image encoder in OpenCLIP's layout",
        &["visual.patch_embedding.weight"],
    ),
];

const fn encoder(text: &'static str, ends: &'static [&'static str]) -> DetectionRule {
    DetectionRule::new("vision", "image_encoder", text, ends)
}
/// Prefix of the names in published files.
pub const USUAL_PREFIX: &str = "vision_model.";

/// Differences between the kinds of vision transformers.
pub trait VisionKind: Clone + fmt::Debug {
    /// The network in sentences.
    const NAME: &'static str;
    const MODEL_TYPE: &'static str;
    /// Width of one head in the published networks.
    const HEAD_DIM: i64;
    /// True if a class token precedes the patches. Patches then have no bias, and a norm precedes the layers.
    const HAS_CLASS_TOKEN: bool;
    /// The hidden states after the last layer are read; those before it otherwise.
    const READS_LAST_LAYER: bool;

    /// The numbers of the published network, with an empty `model_type`.
    fn published() -> VisionConfig<Self>;

    /// Prefix of the names of a file's network of this kind, `vision_model.` included; `None` where there is none.
    fn prefix(weights: &WeightSet) -> Option<&str>;
}

/// `image_encoder/config.json`; what it leaves out is as in the published network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, bound = "")]
pub struct VisionConfig<K: VisionKind> {
    pub model_type: String,
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub num_channels: i64,
    pub image_size: i64,
    pub patch_size: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: ClipActivation,
    #[serde(skip)]
    pub kind: PhantomData<K>,
}

impl<K: VisionKind> Default for VisionConfig<K> {
    fn default() -> Self {
        K::published()
    }
}

impl<K: VisionKind> NetworkConfig for VisionConfig<K> {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        is_of_type(config, K::MODEL_TYPE)
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = K::prefix(weights).ok_or_else(|| not_a(K::NAME, weights))?;
        let [hidden_size, num_channels, patch_size, _] =
            sizes(weights, &format!("{prefix}{PATCHES}"))?;
        let [positions, _] = sizes(weights, &format!("{prefix}{POSITIONS}"))?;
        let [intermediate_size, num_hidden_layers] = sizes_of_layers(weights, prefix)?;
        let published = K::published();
        // Some pixels at the edges of published images may be in no patch.
        let is_published =
            (positions, patch_size) == (published.num_tokens(), published.patch_size);
        let image_size = if is_published {
            published.image_size
        } else {
            edge_in_patches::<K>(positions)?.saturating_mul(patch_size)
        };
        Ok(Self {
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads: heads(hidden_size, K::HEAD_DIM)?,
            num_channels,
            image_size,
            patch_size,
            ..published
        })
    }

    fn check(&self) -> Result<(), String> {
        check_model_type(K::MODEL_TYPE, &self.model_type)?;
        let (edge, patch) = (self.image_size, self.patch_size);
        check_sizes(&[("image_size", edge), ("patch_size", patch)])?;
        if self.num_channels != 3 {
            return Err(format!(
                "expected 3 num_channels, found {}",
                self.num_channels
            ));
        }
        if patch > edge {
            return Err(format!(
                "expected a patch_size within the image_size of {edge}, found {patch}"
            ));
        }
        self.layers().check()?;
        if !K::READS_LAST_LAYER && self.num_hidden_layers < 2 {
            return Err(
                "expected at least 2 num_hidden_layers, as the last but one is read, found 1"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(K::prefix(weights).unwrap_or(USUAL_PREFIX))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = K::prefix(weights).unwrap_or(USUAL_PREFIX);
        self.layers().check_last(weights, prefix)
    }
}

/// Patches along an edge of an image with a number of positions.
fn edge_in_patches<K: VisionKind>(positions: i64) -> Result<i64, String> {
    let patches = positions - i64::from(K::HAS_CLASS_TOKEN);
    let edge = patches.isqrt();
    if edge * edge == patches {
        return Ok(edge);
    }
    let token = if K::HAS_CLASS_TOKEN {
        " and one class token"
    } else {
        ""
    };
    Err(format!(
        "expected a square of patches{token}, found {positions} positions"
    ))
}

impl<K: VisionKind> VisionConfig<K> {
    /// Tokens of one image: its patches, and the class token where there is one.
    pub fn num_tokens(&self) -> i64 {
        (self.image_size / self.patch_size).pow(2) + i64::from(K::HAS_CLASS_TOKEN)
    }

    pub fn layers(&self) -> ClipLayers {
        ClipLayers {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            layer_norm_eps: self.layer_norm_eps,
            hidden_act: self.hidden_act,
        }
    }

    /// Every required tensor; a file without one of them is truncated, even if it is not read. Image encoders are small
    /// and computed in f32 as a whole.
    pub fn schema(&self, prefix: &str) -> Vec<TensorSpec> {
        let (hidden, patch) = (self.hidden_size, self.patch_size);
        let kernel = [hidden, self.num_channels, patch, patch];
        let mut schema = Schema::default();
        schema.in_f32(|schema| {
            if K::HAS_CLASS_TOKEN {
                schema.vector("embeddings.class_embedding", hidden);
                schema.add(PATCHES, &kernel, TensorRole::Fixed);
                // The name has been misspelt since the first CLIP.
                schema.norm("pre_layrnorm", hidden);
            } else {
                schema.conv("embeddings.patch_embedding", &kernel);
            }
            schema.add(POSITIONS, &[self.num_tokens(), hidden], TensorRole::Fixed);
            self.layers().add_to(schema);
            schema.norm("post_layernorm", hidden);
        });
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}
