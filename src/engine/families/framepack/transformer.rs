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
use safelight_core::networks::{FramePackTransformerConfig, FramePackTransformerKeys};
use tch::{Device, Kind, Tensor};

use super::layout::{
    PACKED_2X, PACKED_4X, RotaryTables, SectionHistory, SectionLayout, patches, unpatched,
};
use super::refiner::{EmbeddedText, TokenRefiner};
use crate::hooks::Hooks;
use crate::nn::{GateArgs, Linear, Rope, gated_add, layer_norm};
use crate::step_cache::{BlockSkipper, SkipOptions};
use crate::streams::{
    self, BlocksForward, DoubleOutput, EPS, MmditBackbone, PerBlockModulation, TokenRanges,
};
use crate::weights::{Weights, WeightsError};

const TOKEN: [i64; 3] = [1, PATCH, PATCH];

pub struct FramePackTransformer {
    img_in: Linear,
    /// `clean_x_embedder`: history of 1, 2 and 4 times the patch.
    clean: [Linear; 3],
    txt_in: TokenRefiner,
    image_projection: (Linear, Linear),
    streams: MmditBackbone,
    told: PerBlockModulation,
    config: FramePackTransformerConfig,
}

/// A text, a picture and a guidance: they are the same in every step.
pub struct FramePackContext {
    /// `(1, I, C)`
    image: Tensor,
    text: EmbeddedText,
    /// Term of pooled text and guidance in the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

/// History of a section, and the positions of its tokens: constant in all of its steps.
pub struct SectionTokens {
    /// `(1, K, C)`
    history: Tensor,
    /// Of history and latents.
    turns: RotaryTables,
    /// Frames, height and width of the latents.
    size: [i64; 3],
}

/// Shifts, scales and gates of one timestep.
pub struct FramePackModulations {
    /// Of each block of the text's refiner, `(2, C)`
    refiner: Vec<Tensor>,
    streams: streams::StreamModulations,
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
        let projection = w / "image_projection";
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
            image_projection: (
                Linear::new(image, config.image_mlp_dim(), &(&projection / "up"))?,
                Linear::new(config.image_mlp_dim(), dim, &(&projection / "down"))?,
            ),
            streams: MmditBackbone::new(
                &shape,
                config.out_channels() * PATCH * PATCH,
                keys.final_shift_and_scale(),
                w,
                last,
            )?,
            told: PerBlockModulation::new(&shape, config.told(), w, last)?,
            config: config.clone(),
        })
    }

    /// The transformer's keys that were not requested; keys of other components are ignored.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FramePackTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn config(&self) -> &FramePackTransformerConfig {
        &self.config
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
    /// user sets it
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        text_len: i64,
        pooled: &Tensor,
        image_embeds: &Tensor,
        distilled_guidance: f64,
    ) -> FramePackContext {
        let here = |xs: &Tensor| self.here(xs).contiguous();
        let (up, down) = &self.image_projection;
        let mut image = up.forward(&here(image_embeds));
        let image = down.forward(&image.silu_());
        let text = here(&prompt_embeds.narrow(1, 0, text_len));
        FramePackContext {
            image,
            text: self.txt_in.embed(&text),
            vec: self.told.blocks.vec(pooled, distilled_guidance),
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
        let turns = turns
            .map(|(frames, packed)| RotaryTables::of_frames(frames, places, packed, &self.config));
        SectionTokens {
            history: Tensor::cat(&tokens, 1),
            turns: RotaryTables::joined(&turns.each_ref()),
            size: [layout.latents.len() as i64, height, width],
        }
    }

    pub fn rope(&self, context: &FramePackContext, section: &SectionTokens) -> Rope {
        let without = RotaryTables::none(context.len(), &section.turns);
        let turns = RotaryTables::joined(&[&without, &section.turns]);
        Rope::of_turns(&turns.cos, &turns.sin, self.device())
    }

    /// Modulations of each of `timesteps`, as the scheduler has them: 1000 for pure noise.
    pub fn modulations(
        &self,
        timesteps: &[f32],
        context: &FramePackContext,
    ) -> Vec<FramePackModulations> {
        let sinusoids = self.told.blocks.sinusoids(timesteps);
        let refiner = self.txt_in.gates(&sinusoids, &context.text);
        let streams = self.told.modulations(&sinusoids, &context.vec);
        (0..)
            .zip(streams)
            .map(|(i, streams)| FramePackModulations {
                refiner: refiner.iter().map(|gates| gates.get(i)).collect(),
                streams,
            })
            .collect()
    }

    /// Velocity of `latents`, `(1, C, frames, h, w)`, in f32. `modulations`: of the timestep, computed with the same
    /// context;
    /// `rope`: result of [`rope`](Self::rope) for both. `None` when cancelled.
    ///
    /// Residuals of an earlier call may replace blocks if `shortcut` has a cache, with the number of the call in the
    /// loop.
    pub fn forward(
        &self,
        latents: &Tensor,
        modulations: &FramePackModulations,
        context: &FramePackContext,
        section: &SectionTokens,
        rope: &Rope,
        shortcut: SkipOptions<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let latents = self.here(latents);
        let tokens = Self::tokens(context, section);
        let mut xs = self.embed(&latents, modulations, context, section, &tokens);
        let pass = BlocksForward::new(
            &self.streams.blocks,
            &modulations.streams.blocks,
            &tokens,
            rope,
            shortcut.without,
            hooks,
        );
        // Only the latents are read after the last attention.
        let own = |xs: &Tensor| {
            let count = section.latent_tokens();
            xs.narrow(1, tokens.count() - count, count)
        };
        let mut skip = BlockSkipper::of(shortcut);
        let no_residuals = || Some(Rc::default());
        let (normed, residuals) = match pass.double(&mut xs, &mut skip, own, no_residuals)? {
            DoubleOutput::Skipped(hidden) => {
                return Some(unpatched(&self.finish(&hidden, modulations), section.size));
            }
            DoubleOutput::Computed(normed, residuals) => (normed, residuals),
        };
        let ys = pass.single(&mut xs, normed, &residuals, own)?;
        let mut hidden = own(&xs);
        let own_tokens = [(0, section.latent_tokens())];
        let rows = pass.last_gate(&own_tokens);
        gated_add(&mut hidden, &ys, Some(GateArgs { rows, index: 2 }));
        skip.end(&hidden);
        let velocity = self.finish(&hidden, modulations);
        Some(unpatched(&velocity, section.size))
    }

    /// Picture and text as one half, history and latents as the other.
    fn tokens(context: &FramePackContext, section: &SectionTokens) -> TokenRanges {
        let img_len = section.history.size()[1] + section.latent_tokens();
        TokenRanges {
            txt: (0, context.len()),
            img: (context.len(), img_len),
            pictures: 1,
            bias: None,
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

    /// Final layer: the latents' hidden states after the last block, `(1, N, C)` to `(1, N, 4 channels)` in f32.
    ///
    /// In f32 as in FramePack, where diffusers uses the transformer's kind: it costs nothing.
    fn finish(&self, hidden: &Tensor, modulations: &FramePackModulations) -> Tensor {
        let streams = &modulations.streams;
        self.streams.finish(hidden.size()[1], streams, |norm| {
            layer_norm(&hidden.to_kind(Kind::Float), norm, EPS)
        })
    }
}

impl FramePackContext {
    /// Tokens of picture and text, `T`.
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
