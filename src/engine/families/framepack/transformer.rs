//! HunyuanVideo's transformer as trained by FramePack: the latents of a section after a packed history, in one sequence
//! with text and image, first with separate weights (double blocks), then with shared ones (single blocks). The
//! original and F1 differ in their history, see [`SectionLayout`], not in the network.
//!
//! After <https://github.com/lllyasviel/FramePack/blob/main/diffusers_helper/models/hunyuan_video_packed.py> in the
//! arithmetic of diffusers 0.42.1 (`models/transformers/transformer_hunyuan_video_framepack.py`). Fields have ComfyUI's
//! names; the blocks are in [`streams`](crate::streams).
//!
//! Text and image precede the latents here, and follow them in the reference: attention only depends on the positions,
//! and these tokens have none.
//!
//! Shapes: `T` tokens of image and text, `K` of history, `N` of the section's latents; `L` = `T` + `K` + `N`; `C`
//! width.

use std::rc::Rc;

use safelight_core::networks::framepack_transformer::PATCH;
use safelight_core::networks::stream_blocks::SINUSOIDS;
use safelight_core::networks::{FramePackTransformerConfig, FramePackTransformerKeys};
use tch::{Device, Kind, Tensor};

use super::layout::{PACKED_2X, PACKED_4X, SectionHistory, SectionLayout, patches, turns_of};
use crate::nn::{
    GateArgs, LayerNorm, Linear, Mlp, PatchOrder, Rope, TokenRows, from_patches, gated_add,
    gated_add_norm, qkv_attention, silu,
};
use crate::parallel::TokenShards;
use crate::step_cache::SkipOptions;
use crate::streams::{MmditBackbone, StreamModulation, StreamModulations, TokenRanges, embedder};
use crate::{Hooks, Weights, WeightsError};

pub(super) const TOKEN: [i64; 3] = [1, PATCH, PATCH];

pub struct FramePackTransformer {
    img_in: Linear,
    /// `clean_x_embedder`: history of 1, 2 and 4 times the patch.
    clean: [Linear; 3],
    txt_in: TokenRefiner,
    image_projection: Mlp,
    streams: MmditBackbone,
    modulation: StreamModulation,
    config: FramePackTransformerConfig,
}

/// A text, an image and a guidance, embedded once for all steps of a section.
pub struct FramePackContext {
    /// `(1, I, C)`
    image: Tensor,
    text: EmbeddedText,
    /// Term of pooled text and guidance in the timestep's embedding: `(1, C)` in f32
    vec: Option<Tensor>,
    /// Rotary tables for all tokens.
    rope: Rope,
}

/// History of a section, and the positions of its tokens: constant in all of its steps.
pub struct SectionTokens {
    /// `(1, K, C)`
    history: Tensor,
    /// Cosines and sines of history and latents: each `(K + N, D / 2)` in f32
    turns: [Tensor; 2],
    /// Frames, height and width of the latents.
    size: [i64; 3],
}

/// Shifts, scales and gates of one timestep.
pub struct FramePackModulations {
    /// Of each block of the text's refiner, `(2, C)`
    refiner: Vec<Tensor>,
    streams: StreamModulations,
}

impl FramePackTransformer {
    /// `w`: the file's own names, in any dialect of [`FramePackTransformerKeys`].
    pub fn new(config: &FramePackTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FramePackTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let (dim, channels, image) = (config.dim(), config.in_channels, config.image_proj_dim);
        let patch_conv =
            |kernel: [i64; 3], w: &Weights| Linear::from_patch_conv(channels, dim, &kernel, w);
        let clean = w / "clean_x_embedder";
        let shape = config.streams();
        let last = &(&w.with_kind(Kind::Float) / "final_layer");
        Ok(Self {
            img_in: patch_conv(TOKEN, &(w / "img_in" / "proj"))?,
            clean: [
                patch_conv(TOKEN, &(&clean / "proj"))?,
                patch_conv(PACKED_2X, &(&clean / "proj_2x"))?,
                patch_conv(PACKED_4X, &(&clean / "proj_4x"))?,
            ],
            txt_in: TokenRefiner::new(config, &(w / "txt_in"))?,
            image_projection: Mlp::new(
                [image, config.image_mlp_dim(), dim],
                ["up", "down"],
                &(w / "image_projection"),
            )?,
            streams: MmditBackbone::new(
                &shape,
                config.out_channels() * PATCH * PATCH,
                keys.final_shift_and_scale(),
                w,
                // In f32 as in FramePack, where diffusers uses the transformer's kind: it costs nothing.
                (last, true),
            )?,
            modulation: StreamModulation::new(
                &shape,
                Some(config.modulation_inputs()),
                w,
                Some(last),
            )?,
            config: config.clone(),
        })
    }

    /// The transformer's keys that were not requested; keys of other components are ignored.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FramePackTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn kind(&self) -> Kind {
        self.streams.blocks.kind
    }

    pub fn device(&self) -> Device {
        self.streams.blocks.device
    }

    fn here(&self, xs: &Tensor) -> Tensor {
        xs.to_device(self.device()).to_kind(self.kind())
    }

    /// `prompt_embeds`: `(1, T, text_embed_dim)`, of which the first `text_len` tokens are text and the rest padding,
    /// `pooled`: `(1, pooled_projection_dim)`, `image_embeds`: `(1, I, image_proj_dim)`, `distilled_guidance`: as the
    /// user sets it; `section`: the tokens that follow
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        text_len: i64,
        pooled: &Tensor,
        image_embeds: &Tensor,
        distilled_guidance: f64,
        section: &SectionTokens,
    ) -> FramePackContext {
        let here = |xs: &Tensor| self.here(xs).contiguous();
        let image = here(image_embeds);
        let image = self.image_projection.forward(&image, |mut xs| xs.silu_());
        let text = self
            .txt_in
            .embed(&here(&prompt_embeds.narrow(1, 0, text_len)));
        // Image and text have no positions.
        let [cos, sin] = &section.turns;
        let none = cos.narrow(0, 0, 1).zeros_like();
        let none = none.expand([image.size()[1] + text.len(), -1], false);
        let cos = Tensor::cat(&[&none.ones_like(), cos], 0);
        let sin = Tensor::cat(&[&none, sin], 0);
        FramePackContext {
            image,
            text,
            vec: self.modulation.vec(Some(pooled), distilled_guidance),
            rope: Rope::of_turns(&cos, &sin, self.device()),
        }
    }

    /// `history`, `layout`: history of the section and positions; `[height, width]`: of the latents, both even
    pub fn section(
        &self,
        history: &SectionHistory,
        layout: &SectionLayout,
        [height, width]: [i64; 2],
    ) -> SectionTokens {
        let parts = [
            (&history.history_4x, PACKED_4X, &self.clean[2]),
            (&history.history_2x, PACKED_2X, &self.clean[1]),
            (&history.clean, TOKEN, &self.clean[0]),
        ];
        let tokens = parts
            .map(|(latents, kernel, embed)| embed.forward(&patches(&self.here(latents), kernel)));
        let places = [height / PATCH, width / PATCH];
        let turns = [
            (&layout.history_4x, 4),
            (&layout.history_2x, 2),
            (&layout.clean, 1),
            (&layout.latents, 1),
        ];
        let turns = turns.map(|(frames, packed)| turns_of(frames, places, packed, &self.config));
        SectionTokens {
            history: Tensor::cat(&tokens, 1),
            turns: [0, 1].map(|i: usize| {
                let parts = turns.each_ref().map(|part| &part[i]);
                Tensor::cat(&parts, 0)
            }),
            size: [layout.latents.len() as i64, height, width],
        }
    }

    /// Modulations of each of `timesteps`, as the scheduler has them: 1000 for pure noise.
    pub fn modulations(
        &self,
        timesteps: &[f32],
        context: &FramePackContext,
    ) -> Vec<FramePackModulations> {
        let sinusoids = self.modulation.sinusoids(timesteps);
        let refiner = self.txt_in.gates(&sinusoids, &context.text);
        let streams = self
            .modulation
            .modulations(&sinusoids, context.vec.as_ref());
        (0..)
            .zip(streams)
            .map(|(i, streams)| FramePackModulations {
                refiner: refiner.iter().map(|gates| gates.get(i)).collect(),
                streams,
            })
            .collect()
    }

    /// Velocity of `latents`, `(1, C, frames, h, w)`, in f32. `modulations`: of the timestep, computed with the same
    /// context, which is of this section. `None` when cancelled.
    pub fn forward(
        &self,
        latents: &Tensor,
        modulations: &FramePackModulations,
        context: &FramePackContext,
        section: &SectionTokens,
        skip: SkipOptions<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let latents = self.here(latents);
        let tokens = Self::tokens(context, section);
        let mut xs = self.embed(&latents, modulations, context, section, &tokens);
        // Only the latents are read after the last attention.
        let count = section.latent_tokens();
        let own = (tokens.count() - count, count);
        let places = (&tokens, &context.rope, own);
        let (streams, none) = (&modulations.streams, || Some(Rc::default()));
        let velocity = self
            .streams
            .forward(&mut xs, streams, places, skip, none, hooks)?;
        let order = PatchOrder::ChannelsFirst;
        Some(from_patches(&velocity, section.size, TOKEN, order))
    }

    /// Image and text as one half, history and latents as the other.
    fn tokens(context: &FramePackContext, section: &SectionTokens) -> TokenRanges {
        let img_len = section.history.size()[1] + section.latent_tokens();
        TokenRanges {
            txt: (0, context.len()),
            img: (context.len(), img_len),
            images: 1,
            bias: None,
            shards: TokenShards::whole(),
        }
    }

    /// All tokens concatenated: `(1, L, C)`
    fn embed(
        &self,
        latents: &Tensor,
        modulations: &FramePackModulations,
        context: &FramePackContext,
        section: &SectionTokens,
        tokens: &TokenRanges,
    ) -> Tensor {
        let size = [1, tokens.count(), self.config.dim()];
        let xs = Tensor::empty(size, (self.kind(), self.device()));
        let text = self.txt_in.forward(&context.text, &modulations.refiner);
        let mut done = 0;
        for part in [&context.image, &text, &section.history] {
            let len = part.size()[1];
            xs.narrow(1, done, len).copy_(part);
            done += len;
        }
        let patches = patches(latents, TOKEN);
        self.img_in
            .forward_into(&patches, &xs.narrow(1, done, tokens.count() - done));
        xs
    }
}

impl FramePackContext {
    /// Tokens of image and text, `T`.
    fn len(&self) -> i64 {
        self.image.size()[1] + self.text.len()
    }
}

impl SectionTokens {
    fn latent_tokens(&self) -> i64 {
        let [frames, height, width] = self.size;
        frames * (height / PATCH) * (width / PATCH)
    }
}

const EPS: f64 = 1e-6;

/// Token refiner: a small transformer for the text, conditioned on the timestep.
///
/// After HunyuanVideo's `modules/token_refiner.py` in the arithmetic of diffusers 0.42.1
/// (`models/transformers/transformer_hunyuan_video.py`). Padding was removed before, so no token is masked.
struct TokenRefiner {
    input_embedder: Linear,
    t_embedder: Mlp,
    c_embedder: Mlp,
    blocks: Vec<RefinerBlock>,
}

/// A text as the blocks read it.
struct EmbeddedText {
    /// `(1, T, C)`
    tokens: Tensor,
    /// Term of the text's mean in the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

impl TokenRefiner {
    pub(super) fn new(
        config: &FramePackTransformerConfig,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (text, dim) = (config.text_embed_dim, config.dim());
        let exact = w.with_kind(Kind::Float);
        let blocks = w / "individual_token_refiner" / "blocks";
        Ok(Self {
            input_embedder: Linear::new(text, dim, &(w / "input_embedder"))?,
            t_embedder: embedder(true, SINUSOIDS, dim, &(&exact / "t_embedder"))?,
            c_embedder: embedder(true, text, dim, &(&exact / "c_embedder"))?,
            blocks: (0..config.num_refiner_layers)
                .map(|i| RefinerBlock::new(config, &(&blocks / i)))
                .collect::<Result<_, _>>()?,
        })
    }

    /// `text`: `(1, T, text_embed_dim)`, without padding
    pub(super) fn embed(&self, text: &Tensor) -> EmbeddedText {
        let mean = text.mean_dim([1_i64].as_slice(), false, Kind::Float);
        EmbeddedText {
            tokens: self.input_embedder.forward(&text.contiguous()),
            vec: self.c_embedder.forward(&mean, |xs| xs.silu()),
        }
    }

    /// `sinusoids`: of `N` timesteps, `(N, 256)` -> the gates of each block, `(N, 2, C)`
    pub(super) fn gates(&self, sinusoids: &Tensor, text: &EmbeddedText) -> Vec<Tensor> {
        let vec = self.t_embedder.forward(sinusoids, |xs| xs.silu());
        let vec = (vec + &text.vec).silu();
        let vec = vec.to_kind(text.tokens.kind());
        let dim = text.tokens.size()[2];
        self.blocks
            .iter()
            .map(|block| block.modulation.forward(&vec).view([-1, 2, dim]))
            .collect()
    }

    /// `gates`: of each block for one timestep, `(2, C)` -> `(1, T, C)`
    pub(super) fn forward(&self, text: &EmbeddedText, gates: &[Tensor]) -> Tensor {
        let mut xs = text.tokens.copy();
        if xs.numel() > 0 {
            for (block, gates) in self.blocks.iter().zip(gates) {
                block.forward(&mut xs, &gates.unsqueeze(0));
            }
        }
        xs
    }
}

impl EmbeddedText {
    pub(super) fn len(&self) -> i64 {
        self.tokens.size()[1]
    }
}

struct RefinerBlock {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    mlp: Mlp,
    /// `adaLN_modulation.1`: gates alone.
    modulation: Linear,
    num_heads: i64,
}

impl RefinerBlock {
    fn new(config: &FramePackTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let mlp_dim = config.refiner_mlp_dim();
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        let attn = w / "self_attn";
        Ok(Self {
            norm1: LayerNorm::new(dim, EPS, &(w / "norm1"))?,
            qkv: Linear::fused(true, dim, &parts, &(&attn / "qkv"))?,
            proj: Linear::new(dim, dim, &(&attn / "proj"))?,
            norm2: LayerNorm::new(dim, EPS, &(w / "norm2"))?,
            mlp: Mlp::new([dim, mlp_dim, dim], ["0", "2"], &(w / "mlp"))?,
            // All steps' are made at once.
            modulation: Linear::new(dim, 2 * dim, &(w / "adaLN_modulation" / 1).seldom())?,
            num_heads: config.num_attention_heads,
        })
    }

    /// `xs`: `(1, T, C)`, changed in place; `gates`: `(1, 2, C)`
    fn forward(&self, xs: &mut Tensor, gates: &Tensor) {
        let ranges = [(0, xs.size()[1])];
        let rows = TokenRows {
            values: gates,
            ranges: &ranges,
        };
        let gate = |index| Some(GateArgs { rows, index });
        let ys = self.attend(&self.norm1.forward_as_kind(xs));
        let normed = gated_add_norm(xs, &ys, gate(0), &self.norm2.norm(), EPS);
        let ys = self.mlp.forward(&normed, silu);
        gated_add(xs, &ys, gate(1));
    }

    /// `(1, T, C)` -> the same
    fn attend(&self, xs: &Tensor) -> Tensor {
        let size = xs.size();
        let qkv = self.qkv.forward(xs);
        // b l (k h d) -> b l (k h) d
        let qkv = qkv.view([1, size[1], 3 * self.num_heads, -1]);
        self.proj.forward(&qkv_attention(&qkv, None))
    }
}
