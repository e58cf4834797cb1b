//! SigLIP's vision transformer: the image encoder of FramePack (so400m, 384 pixels, patches of 14).
//!
//! Reads the names of `transformers`' `SiglipVisionModel` behind whatever stands before them; the other parts of a whole
//! SigLIP are left alone, and so is the head that pools: FramePack reads every patch. Reads pictures of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.
//!
//! Shapes: `N` pictures, `L` patches of each, `C` width, `H` heads of `D`.

use safelight_core::networks::{SiglipConfig, clip_vision, siglip};
use tch::Tensor;

use crate::encoder_home;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::nn::{ClipLayer, LayerNorm};
use crate::weights::{Weights, WeightsError};

pub struct SiglipVisionEncoder {
    patch_embedding: Tensor,
    patch_bias: Tensor,
    position_embedding: Tensor,
    layers: Vec<ClipLayer>,
    post_layernorm: LayerNorm,
    config: SiglipConfig,
}

impl SiglipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &SiglipConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &position(w);
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let kernel = [dim, config.num_channels, patch, patch];
        let layer = config.layers();
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
        let whole = prefix(weights).trim_end_matches(clip_vision::USUAL_PREFIX);
        encoder_home::left_over(whole, weights, &others)
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
    encoder_home::behind(prefix(w), w)
}

/// What stands before the names, `vision_model.` too.
fn prefix(w: &Weights) -> &str {
    siglip::prefix(&w.keys()).unwrap_or(clip_vision::USUAL_PREFIX)
}
