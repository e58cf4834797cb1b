//! Vision transformers over patches of images: CLIP's (Wan 2.1's ViT-H/14) and SigLIP's (FramePack's so400m).
//!
//! Reads the names of `transformers` below any prefix; the other parts of a whole CLIP or SigLIP are ignored. Has no
//! projection, no dropout, and reads images of one size only. After
//! <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py> and
//! <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.
//!
//! Shapes: `N` images, `L` tokens of each, `C` width.

use safelight_core::networks::{
    ClipVisionConfig, ReduxConfig, SiglipConfig, VisionConfig, VisionKind, vision,
};
use tch::Tensor;

use crate::encoder_prefix;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{ClipTower, LayerNorm, Linear, attention, join_heads, split_heads};
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

pub(super) struct VisionTower {
    class_embedding: Option<Tensor>,
    patch_embedding: Tensor,
    patch_bias: Option<Tensor>,
    position_embedding: Tensor,
    /// The name is misspelled in every published file.
    pre_layrnorm: Option<LayerNorm>,
    layers: ClipTower,
    post_layernorm: LayerNorm,
    image_size: i64,
    patch_size: i64,
}

impl VisionTower {
    /// With a class token there is a norm in front of the layers; without one patches have a bias.
    pub(super) fn new<K: VisionKind>(
        config: &VisionConfig<K>,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let norm = |name| LayerNorm::new(dim, config.layer_norm_eps, &(w / name));
        let vector = |name| embeddings.tensor(name, &[dim]);
        let has_class = K::HAS_CLASS_TOKEN;
        Ok(Self {
            class_embedding: has_class.then(|| vector("class_embedding")).transpose()?,
            patch_embedding: embeddings.tensor(
                "patch_embedding.weight",
                &[dim, config.num_channels, patch, patch],
            )?,
            patch_bias: (!has_class)
                .then(|| vector("patch_embedding.bias"))
                .transpose()?,
            position_embedding: embeddings
                .tensor("position_embedding.weight", &[config.num_tokens(), dim])?,
            pre_layrnorm: has_class.then(|| norm("pre_layrnorm")).transpose()?,
            layers: ClipTower::new(&config.layers(), w)?,
            post_layernorm: norm("post_layernorm")?,
            image_size: config.image_size,
            patch_size: patch,
        })
    }

    /// Hidden states after all layers but the last `left`: `pixel_values`: `(N, 3, image_size, image_size)`. Returns
    /// `(N, L, C)`; `None` when cancelled.
    pub(super) fn encode(
        &self,
        pixel_values: &Tensor,
        left: usize,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let xs = self.embed(pixel_values);
        self.layers
            .forward(xs, left, None, FaultSite::Vision, hooks)
    }

    /// The last layer, and the last norm of what it gives of the first token.
    pub(super) fn last(&self, xs: &Tensor) -> (Tensor, Tensor) {
        let last = self.layers.last(xs, 1, None);
        let first = self.post_layernorm.forward(&last.select(1, 0));
        (last, first.to_kind(xs.kind()))
    }

    pub(super) fn normed(&self, xs: &Tensor) -> Tensor {
        self.post_layernorm.forward_as_kind(xs)
    }

    /// `(N, 3, image_size, image_size)` -> `(N, L, C)`
    fn embed(&self, pixel_values: &Tensor) -> Tensor {
        let (kind, device) = (self.patch_embedding.kind(), self.patch_embedding.device());
        let size = [self.image_size; 2];
        assert_eq!(pixel_values.size()[2..], size, "the processor fits");
        let _guard = disable_miopen(device);
        let (weight, bias) = (&self.patch_embedding, self.patch_bias.as_ref());
        let pixels = pixel_values.to_device(device).to_kind(kind);
        let patches = pixels.conv2d(weight, bias, [self.patch_size; 2], [0, 0], [1, 1], 1);
        // n c h w -> n (h w) c
        let patches = patches.flatten(2, 3).transpose(1, 2);
        let Some((class, norm)) = self
            .class_embedding
            .as_ref()
            .zip(self.pre_layrnorm.as_ref())
        else {
            return patches + &self.position_embedding;
        };
        let whole = class.expand([patches.size()[0], 1, -1], false);
        let xs = Tensor::cat(&[whole, patches], 1) + &self.position_embedding;
        norm.forward(&xs).to_kind(kind)
    }
}

pub struct ClipVisionEncoder(VisionTower);

/// Output of the whole network. Wan reads none of it.
pub struct ClipVisionOutput {
    /// `(N, L, C)`
    pub last_hidden_state: Tensor,
    /// `(N, C)`
    pub pooler_output: Tensor,
}

impl ClipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &ClipVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        VisionTower::new(config, &encoder_prefix::behind(clip_prefix(w), w)).map(Self)
    }

    /// The keys of a file that an image encoder should not have. The other parts of a whole CLIP are expected.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "text_projection.",
            "visual_projection.",
            "logit_scale",
        ];
        let whole = clip_prefix(weights).trim_end_matches(vision::USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
    }

    /// Penultimate hidden states, which Wan reads.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, from [`pixel_values`](super::pixel_values) with a processor
    /// that
    /// [fits](super::ClipImageProcessor::check). Returns `(N, L, C)`; `None` when cancelled.
    pub fn encode_images(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        self.0.encode(pixel_values, 1, hooks)
    }

    /// The rest of the network, for the record. `xs`: what [`Self::encode_images`] gave
    pub fn finish(&self, xs: &Tensor) -> ClipVisionOutput {
        let (last_hidden_state, pooler_output) = self.0.last(xs);
        ClipVisionOutput {
            last_hidden_state,
            pooler_output,
        }
    }
}

/// Prefix of the names, including `vision_model.`.
fn clip_prefix(w: &Weights) -> &str {
    ClipVisionConfig::prefix(&w.keys()).unwrap_or(vision::USUAL_PREFIX)
}

pub struct SiglipVisionEncoder(VisionTower);

impl SiglipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &SiglipConfig, w: &Weights) -> Result<Self, WeightsError> {
        VisionTower::new(config, &position(w)).map(Self)
    }

    /// Keys of the file that an image encoder does not have. Other parts of a whole SigLIP are expected; anything
    /// outside its prefix is ignored.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "logit_scale",
            "logit_bias",
            "vision_model.head.",
            "head.",
        ];
        let whole = siglip_prefix(weights).trim_end_matches(vision::USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
    }

    /// Hidden states after the last layer and its norm, which FramePack reads.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, from a [processor](super::SiglipImageProcessor) that
    /// [fits](super::SiglipImageProcessor::check). Returns `(N, L, C)`; `None` when cancelled.
    pub fn encode_images(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let xs = self.0.encode(pixel_values, 0, hooks)?;
        Some(self.0.normed(&xs))
    }
}

/// The position from which a SigLIP's names count.
pub(super) fn position(w: &Weights) -> Weights {
    encoder_prefix::behind(siglip_prefix(w), w)
}

/// Prefix of the names, including `vision_model.`.
fn siglip_prefix(w: &Weights) -> &str {
    SiglipConfig::prefix(&w.keys()).unwrap_or(vision::USUAL_PREFIX)
}

/// The head by which a SigLIP makes one vector of an image, for records: a learnt question attends to all patches.
pub struct SiglipHead {
    /// `(1, 1, C)`
    probe: Tensor,
    /// Of queries, keys and values in one: `(3 C, C)`
    in_proj: [Tensor; 2],
    out_proj: [Tensor; 2],
    layernorm: LayerNorm,
    fc1: [Tensor; 2],
    fc2: [Tensor; 2],
    num_heads: i64,
}

impl SiglipHead {
    /// `None` where the file has none.
    pub fn read(config: &SiglipConfig, w: &Weights) -> Result<Option<Self>, WeightsError> {
        let w = &(&position(w) / "head");
        if !w.has("probe") {
            return Ok(None);
        }
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        let linear = |weight: &str, bias: &str, [output, input]: [i64; 2]| {
            Ok::<_, WeightsError>([
                w.tensor(weight, &[output, input])?,
                w.tensor(bias, &[output])?,
            ])
        };
        Ok(Some(Self {
            probe: w.tensor("probe", &[1, 1, dim])?,
            in_proj: linear(
                "attention.in_proj_weight",
                "attention.in_proj_bias",
                [3 * dim, dim],
            )?,
            out_proj: linear(
                "attention.out_proj.weight",
                "attention.out_proj.bias",
                [dim, dim],
            )?,
            layernorm: LayerNorm::new(dim, config.layer_norm_eps, &(w / "layernorm"))?,
            fc1: linear("mlp.fc1.weight", "mlp.fc1.bias", [inner, dim])?,
            fc2: linear("mlp.fc2.weight", "mlp.fc2.bias", [dim, inner])?,
            num_heads: config.num_attention_heads,
        }))
    }

    /// `states`: `(N, L, C)`, after the last norm. Returns `(N, C)`.
    pub fn pooled(&self, states: &Tensor) -> Tensor {
        let [weights, biases] = self.in_proj.each_ref().map(|all| all.chunk(3, 0));
        let heads = |xs: &Tensor, part: usize| {
            let xs = xs.linear(&weights[part], Some(&biases[part]));
            split_heads(&xs, self.num_heads)
        };
        let asked = self.probe.expand([states.size()[0], -1, -1], false);
        let (q, k, v) = (heads(&asked, 0), heads(states, 1), heads(states, 2));
        let answers = join_heads(&attention(&q, &k, &v, None, None));
        let xs = linear(&answers, &self.out_proj);
        let normal = self.layernorm.forward_as_kind(&xs);
        let inner = linear(&normal, &self.fc1).gelu("tanh");
        (xs + linear(&inner, &self.fc2)).select(1, 0)
    }
}

fn linear(xs: &Tensor, [weight, bias]: &[Tensor; 2]) -> Tensor {
    xs.linear(weight, Some(bias))
}

/// Redux: tokens of a text of what SigLIP sees in an image, by two layers, as diffusers' `ReduxImageEncoder`
/// (`pipelines/flux/modeling_flux.py` of 0.42.1) computes them.
pub struct ReduxEmbedder {
    redux_up: Linear,
    redux_down: Linear,
}

impl ReduxEmbedder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &ReduxConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (seen, inner, text) = (config.redux_dim, config.inner_dim(), config.txt_in_features);
        Ok(Self {
            redux_up: Linear::new(seen, inner, &(w / "redux_up"))?,
            redux_down: Linear::new(inner, text, &(w / "redux_down"))?,
        })
    }

    /// The keys of a file that it should not have.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        encoder_prefix::left_over("", weights, &[])
    }

    /// `states`: after SigLIP's last norm, `(1, L, C)`. Returns `(1, L, width of text tokens)`.
    pub fn forward(&self, states: &Tensor) -> Tensor {
        self.redux_down
            .forward(&self.redux_up.forward(states).silu())
    }
}
