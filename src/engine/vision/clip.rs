//! CLIP's vision transformer: the image encoder of Wan 2.1 (ViT-H/14).
//!
//! Reads the names of `transformers`' `CLIPVisionModel`, with or without `vision_model.` before them; the other
//! parts of a whole CLIP are left alone. Has no projection, no dropout, and reads pictures of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `N` pictures, `P` patches of each, `L` = `P` + 1 tokens, `C` width, `H` heads of `D`.

use std::path::Path;

use safelight_core::catalog::{Component, Family};
use serde::Deserialize;
use tch::Tensor;

use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::json;
use crate::nn::{ClipActivation, ClipLayer, ClipLayerConfig, LayerNorm};
use crate::weights::{Weights, WeightsError};

/// What `image_encoder/config.json` says; what it leaves out is as in the published ViT-H/14.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ClipVisionConfig {
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub num_channels: i64,
    pub image_size: i64,
    pub patch_size: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: String,
}

impl Default for ClipVisionConfig {
    fn default() -> Self {
        Self {
            hidden_size: 1280,
            intermediate_size: 5120,
            num_hidden_layers: 32,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 224,
            patch_size: 14,
            layer_norm_eps: 1e-5,
            hidden_act: "gelu".to_owned(),
        }
    }
}

impl ClipVisionConfig {
    /// Reads and checks the numbers of an image encoder, which lies in a folder or in one file.
    /// The configuration may be that of a whole CLIP, with `vision_config` in it.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let part = Some("vision_config");
        let config: Self = json::read_component(Family::Wan, Component::ImageEncoder, part, place)?;
        match config.objection() {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    /// Tokens of one picture: its patches, and one for the whole.
    pub fn num_tokens(&self) -> i64 {
        (self.image_size / self.patch_size).pow(2) + 1
    }

    /// The numbers of the layers.
    fn layer(&self) -> ClipLayerConfig {
        ClipLayerConfig {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_attention_heads: self.num_attention_heads,
            layer_norm_eps: self.layer_norm_eps,
            activation: ClipActivation::from_name(&self.hidden_act)
                .expect("a config that was read has a known activation"),
        }
    }

    fn objection(&self) -> Option<String> {
        let sizes = [
            self.hidden_size,
            self.intermediate_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.image_size,
            self.patch_size,
        ];
        if sizes.iter().any(|&n| !(1..=1 << 16).contains(&n))
            || self.patch_size > self.image_size
            || !(self.layer_norm_eps.is_finite() && self.layer_norm_eps >= 0.0)
        {
            Some("its sizes make no sense".to_owned())
        } else if self.hidden_size % self.num_attention_heads != 0 {
            Some(format!(
                "its width {} cannot be split between {} heads",
                self.hidden_size, self.num_attention_heads
            ))
        } else if self.num_channels != 3 {
            Some(format!(
                "it reads pictures of {} channels, not of 3",
                self.num_channels
            ))
        } else if ClipActivation::from_name(&self.hidden_act).is_none() {
            Some(format!(
                "its activation '{}' is not CLIP's",
                self.hidden_act
            ))
        } else {
            None
        }
    }
}

pub struct ClipVisionEncoder {
    class_embedding: Tensor,
    patch_embedding: Tensor,
    position_embedding: Tensor,
    pre_layrnorm: LayerNorm,
    layers: Vec<ClipLayer>,
    post_layernorm: LayerNorm,
    config: ClipVisionConfig,
}

/// What the whole network makes of a picture. Wan reads none of it.
pub struct Finished {
    /// `(N, L, C)`
    pub last_hidden_state: Tensor,
    /// `(N, C)`
    pub pooler_output: Tensor,
}

impl ClipVisionEncoder {
    /// `config` has been read by [`ClipVisionConfig::read`], or is as sound.
    pub fn new(config: &ClipVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &if w.has("embeddings.class_embedding") {
            w.clone()
        } else {
            w / "vision_model"
        };
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let layer = config.layer();
        let norm = |name| LayerNorm::new(dim, config.layer_norm_eps, &(w / name));
        Ok(Self {
            class_embedding: embeddings.tensor("class_embedding", &[dim])?,
            patch_embedding: embeddings.tensor(
                "patch_embedding.weight",
                &[dim, config.num_channels, patch, patch],
            )?,
            position_embedding: embeddings
                .tensor("position_embedding.weight", &[config.num_tokens(), dim])?,
            // The name is misspelled in every published file.
            pre_layrnorm: norm("pre_layrnorm")?,
            layers: (0..config.num_hidden_layers)
                .map(|i| ClipLayer::new(&layer, &(w / "encoder" / "layers" / i)))
                .collect::<Result<_, _>>()?,
            post_layernorm: norm("post_layernorm")?,
            config: config.clone(),
        })
    }

    /// The keys of a file that an image encoder should not have. The other parts of a whole CLIP are expected.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "text_projection.",
            "visual_projection.",
            "logit_scale",
        ];
        let mut keys = weights.finish();
        keys.retain(|key| !others.iter().any(|other| key.starts_with(other)));
        keys
    }

    /// What Wan reads of pictures: the hidden states behind the last layer but one.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, of [`pixel_values`](super::pixel_values) whose processor
    /// [fits](super::ClipImageProcessor::check) -> `(N, L, C)`; `None` when cancelled.
    pub fn encode_pictures(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let mut xs = self.embed(pixel_values);
        for layer in &self.layers[..self.layers.len() - 1] {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Vision);
            xs = layer.forward(&xs, None);
        }
        Some(xs)
    }

    /// The rest of the network, for the record. `xs`: what [`Self::encode_pictures`] gave
    pub fn finish(&self, xs: &Tensor) -> Finished {
        let last = self.layers.iter().last();
        let last_hidden_state =
            last.map_or_else(|| xs.shallow_clone(), |layer| layer.forward(xs, None));
        let first = last_hidden_state.select(1, 0);
        Finished {
            pooler_output: self.post_layernorm.forward(&first).to_kind(xs.kind()),
            last_hidden_state,
        }
    }

    /// `(N, 3, image_size, image_size)` -> `(N, L, C)`
    fn embed(&self, pixel_values: &Tensor) -> Tensor {
        let (kind, device) = (self.patch_embedding.kind(), self.patch_embedding.device());
        let size = [self.config.image_size; 2];
        assert_eq!(pixel_values.size()[2..], size, "the processor fits");
        let patch = [self.config.patch_size; 2];
        let patches = pixel_values.to_device(device).to_kind(kind).conv2d(
            &self.patch_embedding,
            None::<&Tensor>,
            patch,
            [0, 0],
            [1, 1],
            1,
        );
        // n c h w -> n (h w) c
        let patches = patches.flatten(2, 3).transpose(1, 2);
        let shape = [patches.size()[0], 1, self.config.hidden_size];
        let whole = self.class_embedding.expand(shape, false);
        let xs = Tensor::cat(&[whole, patches], 1) + &self.position_embedding;
        self.pre_layrnorm.forward(&xs).to_kind(kind)
    }
}
