//! Vision transformers: CLIP's (ViT-H/14), the image encoder of Wan 2.1, and SigLIP's (so400m, 384 pixels, patches of
//! 14), that of FramePack and Redux.
//!
//! Uses the names of `transformers` below any prefix. CLIP's projection and SigLIP's pooling head are not read.

use std::fmt;
use std::marker::PhantomData;

use super::clip_text::{ClipActivation, ClipLayers, FIRST_LAYER, check_model_type, is_of_type};
use crate::networks::prelude::*;

/// By which a vision transformer is known.
const PATCHES: &str = "embeddings.patch_embedding.weight";
const POSITIONS: &str = "embeddings.position_embedding.weight";
/// By which their files are known: CLIP's patches have no bias.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "vision" "image_encoder" "an image encoder" as Siglip: PATCHES, "embeddings.patch_embedding.bias";
    "vision" "image_encoder" "an image encoder" as ClipVision: PATCHES;
    "vision" "image_encoder" "an image encoder in OpenCLIP's layout": "visual.patch_embedding.weight";
};

/// Tensors of networks with a class token.
const OF_CLASS_TOKEN: [&str; 2] = ["embeddings.class_embedding", "pre_layrnorm.weight"];

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
    /// The published width, width inside the feed-forward layers, layers, and pixels along an edge of an image.
    const PUBLISHED: [i64; 4];
    const NORM_EPS: f64;
    const ACTIVATION: ClipActivation;
}

pub type ClipVisionConfig = VisionConfig<ClipVision>;

/// The kind of [`ClipVisionConfig`].
#[derive(Clone, Copy, Debug)]
pub enum ClipVision {}

impl VisionKind for ClipVision {
    const NAME: &'static str = "CLIP image encoder";
    const MODEL_TYPE: &'static str = "clip_vision_model";
    const HEAD_DIM: i64 = 80;
    const HAS_CLASS_TOKEN: bool = true;
    const READS_LAST_LAYER: bool = false;
    const PUBLISHED: [i64; 4] = [1280, 5120, 32, 224];
    const NORM_EPS: f64 = 1e-5;
    const ACTIVATION: ClipActivation = ClipActivation::Gelu;
}

pub type SiglipConfig = VisionConfig<Siglip>;

/// The kind of [`SiglipConfig`].
#[derive(Clone, Copy, Debug)]
pub enum Siglip {}

impl VisionKind for Siglip {
    const NAME: &'static str = "SigLIP image encoder";
    const MODEL_TYPE: &'static str = "siglip_vision_model";
    const HEAD_DIM: i64 = 72;
    const HAS_CLASS_TOKEN: bool = false;
    const READS_LAST_LAYER: bool = true;
    const PUBLISHED: [i64; 4] = [1152, 4304, 27, 384];
    const NORM_EPS: f64 = 1e-6;
    const ACTIVATION: ClipActivation = ClipActivation::GeluTanh;
}

network_config! {
    /// `image_encoder/config.json`; what it leaves out is as in the published network.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default, bound = "")]
    pub struct VisionConfig<K: VisionKind> {
        pub model_type: String = String::new(),
        pub hidden_size: i64 = K::PUBLISHED[0] => size(),
        pub intermediate_size: i64 = K::PUBLISHED[1] => dim(FIRST_LAYER, 0),
        pub num_hidden_layers: i64 = K::PUBLISHED[2] => count("encoder.layers.{}.mlp.fc1.weight"),
        pub num_attention_heads: i64 = 16 => size(),
        pub num_channels: i64 = 3,
        pub image_size: i64 = K::PUBLISHED[3] => size(),
        pub patch_size: i64 = 14 => size(),
        pub layer_norm_eps: f64 = K::NORM_EPS => epsilon(),
        pub hidden_act: ClipActivation = K::ACTIVATION,
        #[serde(skip)]
        pub kind: PhantomData<K> = PhantomData,
    }
}

impl<K: VisionKind> NetworkConfig for VisionConfig<K> {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        is_of_type(config, K::MODEL_TYPE)
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = Self::prefix(&weights.names()).ok_or_else(|| not_a(K::NAME, weights))?;
        let file_key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &file_key);
        let [hidden_size, num_channels, patch_size, _] = header.sizes(PATCHES)?;
        let positions = header.dim(POSITIONS, 0)?;
        let published = Self::default();
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
            num_attention_heads: heads(hidden_size, K::HEAD_DIM)?,
            num_channels,
            image_size,
            patch_size,
            ..Self::of_declared(&header)?
        })
    }

    fn check(&self) -> Result<(), String> {
        check_model_type(K::MODEL_TYPE, &self.model_type)?;
        self.check_declared()?;
        self.layers().check_heads()?;
        let (edge, patch, channels) = (self.image_size, self.patch_size, self.num_channels);
        ensure!(channels == 3, "expected 3 num_channels, found {channels}");
        ensure!(
            patch <= edge,
            "expected a patch_size within the image_size of {edge}, found {patch}"
        );
        ensure!(
            K::READS_LAST_LAYER || self.num_hidden_layers >= 2,
            "expected at least 2 num_hidden_layers, as the last but one is read, found 1"
        );
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(Self::prefix(&weights.names()).unwrap_or(USUAL_PREFIX))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = Self::prefix(&weights.names()).unwrap_or(USUAL_PREFIX);
        let layers = self.num_hidden_layers;
        weights.no_more_layers(&format!("{prefix}encoder.layers.{layers}."), layers)
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
    /// Prefix of the names of a file's network of this kind, `vision_model.` included; `None` where there is none.
    pub fn prefix<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
        let prefix = prefix_before(keys.clone(), &[PATCHES])?;
        let marks = OF_CLASS_TOKEN.map(|name| format!("{prefix}{name}"));
        let is_other =
            !K::HAS_CLASS_TOKEN && keys.clone().any(|key| marks.iter().any(|it| it == key));
        (!is_other).then_some(prefix)
    }

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
            self.layers().add_to(schema, false);
            schema.norm("post_layernorm", hidden);
        });
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}
