//! CLIP's vision transformer: the image encoder of Wan 2.1 (ViT-H/14).
//!
//! Reads the names of `transformers`' `CLIPVisionModel` behind whatever stands before them; the other parts of a whole
//! CLIP are left alone. Has no projection, no dropout, and reads pictures of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `N` pictures, `P` patches of each, `L` = `P` + 1 tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::{ClipVisionConfig, clip_vision};
use tch::Tensor;

use crate::encoder_home;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::nn::{ClipLayer, LayerNorm};
use crate::weights::{Weights, WeightsError};

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
    /// `config` has been read, or is as sound.
    pub fn new(config: &ClipVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &encoder_home::behind(prefix(w), w);
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let layer = config.layers();
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
        let whole = prefix(weights).trim_end_matches(clip_vision::USUAL_PREFIX);
        encoder_home::left_over(whole, weights, &others)
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

/// What stands before the names, `vision_model.` too.
fn prefix(w: &Weights) -> &str {
    clip_vision::prefix(w.keys()).unwrap_or(clip_vision::USUAL_PREFIX)
}
