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
    PACKED_2X, PACKED_4X, SectionHistory, SectionLayout, patches, turns_of, unpatched,
};
use super::refiner::{EmbeddedText, TokenRefiner};
use crate::hooks::Hooks;
use crate::nn::{Linear, Mlp, Rope};
use crate::step_cache::SkipOptions;
use crate::streams::{MmditBackbone, StreamModulation, StreamModulations, TokenRanges};
use crate::weights::{Weights, WeightsError};

const TOKEN: [i64; 3] = [1, PATCH, PATCH];

pub struct FramePackTransformer {
    img_in: Linear,
    /// `clean_x_embedder`: history of 1, 2 and 4 times the patch.
    clean: [Linear; 3],
    txt_in: TokenRefiner,
    image_projection: Mlp,
    streams: MmditBackbone,
    told: StreamModulation,
    config: FramePackTransformerConfig,
}

/// A text, an image and a guidance, embedded once for all steps of a section.
pub struct FramePackContext {
    /// `(1, I, C)`
    image: Tensor,
    text: EmbeddedText,
    /// Term of pooled text and guidance in the timestep's embedding: `(1, C)` in f32
    vec: Option<Tensor>,
    /// Of all tokens.
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
            told: StreamModulation::new(&shape, Some(config.told()), w, Some(last))?,
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
            vec: self.told.vec(pooled, distilled_guidance),
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
        let sinusoids = self.told.sinusoids(timesteps);
        let refiner = self.txt_in.gates(&sinusoids, &context.text);
        let streams = self.told.modulations(&sinusoids, context.vec.as_ref());
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
        Some(unpatched(&velocity, section.size))
    }

    /// Image and text as one half, history and latents as the other.
    fn tokens(context: &FramePackContext, section: &SectionTokens) -> TokenRanges {
        let img_len = section.history.size()[1] + section.latent_tokens();
        TokenRanges {
            txt: (0, context.len()),
            img: (context.len(), img_len),
            images: 1,
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
