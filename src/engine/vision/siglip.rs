//! SigLIP's vision transformer: the image encoder of FramePack (so400m, 384 pixels, patches of 14).
//!
//! Reads the names of `transformers`' `SiglipVisionModel`, with or without `vision_model.` before them and whatever
//! stands before that; the other parts of a whole SigLIP are left alone, and so is the head that pools: FramePack
//! reads every patch. Reads pictures of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.
//!
//! Shapes: `N` pictures, `L` patches of each, `C` width, `H` heads of `D`.

use std::path::Path;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::encoder_home;
use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::json;
use crate::nn::{ClipActivation, ClipLayer, ClipLayerConfig, LayerNorm};
use crate::weights::{Weights, WeightsError};

/// By which a file is known; CLIP's image encoder has it too, and a class embedding besides.
const PATCHES: &str = "embeddings.patch_embedding.weight";
/// The longer name first: a file that has it has the shorter one too.
const ENDS: [&str; 2] = ["vision_model.embeddings.patch_embedding.weight", PATCHES];
/// Of every published SigLIP of this form; files without a configuration do not say it.
const HEAD_DIM: i64 = 72;

/// What `image_encoder/config.json` says; what it leaves out is as in the published so400m of 384 pixels.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct SiglipVisionConfig {
    pub model_type: String,
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

impl Default for SiglipVisionConfig {
    fn default() -> Self {
        Self {
            model_type: "siglip_vision_model".to_owned(),
            hidden_size: 1152,
            intermediate_size: 4304,
            num_hidden_layers: 27,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 384,
            patch_size: 14,
            layer_norm_eps: 1e-6,
            hidden_act: "gelu_pytorch_tanh".to_owned(),
        }
    }
}

impl SiglipVisionConfig {
    /// Reads and checks the numbers of an image encoder, which lies in a folder or in one file.
    /// The configuration may be that of a whole SigLIP.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config = match encoder_home::own_config(place, "siglip", "vision_config")? {
            Some(config) => config,
            None => Self::from_header(place)?,
        };
        match config.objection() {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    /// Tokens of one picture: its patches.
    pub fn num_tokens(&self) -> i64 {
        (self.image_size / self.patch_size).pow(2)
    }

    /// The numbers that the shapes in a file show; the rest is as published.
    fn from_header(path: &Path) -> Result<Self, EngineError> {
        let bad = |reason: String| EngineError::Config {
            reason,
            path: path.to_owned(),
        };
        let weights = Weights::open(path, Kind::Float, Device::Cpu)?;
        let w = position(&weights);
        let Some(&[hidden_size, num_channels, patch_size, _]) = w.shape_of(PATCHES).as_deref()
        else {
            return Err(bad(format!("it is no SigLIP: it has no '{PATCHES}'")));
        };
        if w.has("embeddings.class_embedding") {
            return Err(bad("it is a CLIP, not a SigLIP".to_owned()));
        }
        let size = |name: &str| encoder_home::matrix(&w, name, "SigLIP");
        let (num_tokens, _) = size("embeddings.position_embedding.weight")?;
        let (intermediate_size, _) = size("encoder.layers.0.mlp.fc1.weight")?;
        if hidden_size < 1 || hidden_size % HEAD_DIM != 0 {
            return Err(bad(format!(
                "its width {hidden_size} is not that of the published SigLIP: only a config.json can say how many heads it has"
            )));
        }
        let published = Self::default();
        let edge = num_tokens.isqrt().saturating_mul(patch_size);
        // Some pixels at the edges are in no patch.
        let is_published =
            num_tokens == published.num_tokens() && patch_size == published.patch_size;
        let image_size = if is_published {
            published.image_size
        } else {
            edge
        };
        let layer = |i: i64| format!("encoder.layers.{i}.mlp.fc1.weight");
        Ok(Self {
            hidden_size,
            intermediate_size,
            num_hidden_layers: encoder_home::num_layers(&w, layer),
            num_attention_heads: hidden_size / HEAD_DIM,
            num_channels,
            image_size,
            patch_size,
            ..published
        })
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
        if !self.model_type.starts_with("siglip") {
            let other = &self.model_type;
            Some(format!("it is the image encoder '{other}', not a SigLIP"))
        } else if sizes.iter().any(|&n| !(1..=1 << 16).contains(&n))
            || self.patch_size > self.image_size
            || !(self.layer_norm_eps.is_finite() && self.layer_norm_eps >= 0.0)
        {
            Some("its sizes make no sense".to_owned())
        } else if self.hidden_size % self.num_attention_heads != 0 {
            let (width, heads) = (self.hidden_size, self.num_attention_heads);
            Some(format!(
                "its width {width} cannot be split between {heads} heads"
            ))
        } else if self.num_channels != 3 {
            let channels = self.num_channels;
            Some(format!(
                "it reads pictures of {channels} channels, not of 3"
            ))
        } else if ClipActivation::from_name(&self.hidden_act).is_none() {
            let activation = &self.hidden_act;
            Some(format!("its activation '{activation}' is not SigLIP's"))
        } else {
            None
        }
    }
}

pub struct SiglipVisionEncoder {
    patch_embedding: Tensor,
    patch_bias: Tensor,
    position_embedding: Tensor,
    layers: Vec<ClipLayer>,
    post_layernorm: LayerNorm,
    config: SiglipVisionConfig,
}

impl SiglipVisionEncoder {
    /// `config` has been read by [`SiglipVisionConfig::read`], or is as sound.
    pub fn new(config: &SiglipVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &position(w);
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let kernel = [dim, config.num_channels, patch, patch];
        let layer = config.layer();
        Ok(Self {
            patch_embedding: embeddings.tensor("patch_embedding.weight", &kernel)?,
            patch_bias: embeddings.tensor("patch_embedding.bias", &[dim])?,
            position_embedding: embeddings
                .tensor("position_embedding.weight", &[config.num_tokens(), dim])?,
            layers: (0..config.num_hidden_layers)
                .map(|i| ClipLayer::new(&layer, &(w / "encoder" / "layers" / i)))
                .collect::<Result<_, _>>()?,
            post_layernorm: LayerNorm::new(dim, config.layer_norm_eps, &(w / "post_layernorm"))?,
            config: config.clone(),
        })
    }

    /// The keys of a file that an image encoder should not have. The other parts of a whole SigLIP are expected, and
    /// what stands before its names belongs to it alone.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "logit_scale",
            "logit_bias",
            "vision_model.head.",
            "head.",
        ];
        encoder_home::left_over(weights, &ENDS, &others)
    }

    /// What FramePack reads of pictures: the hidden states behind the last layer and its norm.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, of a [processor](super::SiglipImageProcessor) that
    /// [fits](super::SiglipImageProcessor::check) -> `(N, L, C)`; `None` when cancelled.
    pub fn encode_pictures(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let mut xs = self.embed(pixel_values);
        for layer in &self.layers {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Vision);
            xs = layer.forward(&xs, None);
        }
        Some(self.post_layernorm.forward_as_kind(&xs))
    }

    /// `(N, 3, image_size, image_size)` -> `(N, L, C)`
    fn embed(&self, pixel_values: &Tensor) -> Tensor {
        let (kind, device) = (self.patch_embedding.kind(), self.patch_embedding.device());
        let size = [self.config.image_size; 2];
        assert_eq!(pixel_values.size()[2..], size, "the processor fits");
        let patch = [self.config.patch_size; 2];
        let patches = pixel_values.to_device(device).to_kind(kind).conv2d(
            &self.patch_embedding,
            Some(&self.patch_bias),
            patch,
            [0, 0],
            [1, 1],
            1,
        );
        // n c h w -> n (h w) c
        patches.flatten(2, 3).transpose(1, 2) + &self.position_embedding
    }
}

/// The position from which a SigLIP's names count.
pub(super) fn position(w: &Weights) -> Weights {
    let w = encoder_home::at_key(w, &ENDS);
    if w.has(PATCHES) {
        w
    } else {
        w / "vision_model"
    }
}
