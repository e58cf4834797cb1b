//! HunyuanVideo's transformer as FramePack trained it: the latents of a section behind a packed history, in one sequence
//! with text and picture, first with weights of their own (double blocks), then with common ones (single blocks). The
//! original and F1 differ in what they are shown, see [`Layout`], not in the network.
//!
//! After <https://github.com/lllyasviel/FramePack/blob/main/diffusers_helper/models/hunyuan_video_packed.py> in the
//! arithmetic of diffusers 0.42.1 (`models/transformers/transformer_hunyuan_video_framepack.py`). Fields have ComfyUI's
//! names; the blocks are Flux's.
//!
//! Text and picture lie before the latents here, which is behind them in the reference: attention knows no order but
//! that of the positions, and these tokens have none.
//!
//! Shapes: `T` tokens of picture and text, `K` of history, `N` of the section's latents; `L` = `T` + `K` + `N`; `C` width.

use safelight_core::networks::framepack_transformer::PATCH;
use safelight_core::networks::stream_blocks::SINUSOIDS;
use safelight_core::networks::{FramePackTransformerConfig, FramePackTransformerKeys};
use tch::{Device, Kind, Tensor};

use super::layout::{History, Layout, PACKED_2X, PACKED_4X, Turns, patches, unpatched};
use super::refiner::{Embedded, TokenRefiner};
use crate::families::flux::transformer::{
    DoubleBlock, MlpEmbedder, Modulation, SingleBlock, Tokens, add_norm, modulated,
};
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::nn::{Gate, Linear, Norm, Rope, TokenRows, gated_add, layer_norm, timestep_embedding};
use crate::step_cache::{Signals, StepCache};
use crate::weights::{Weights, WeightsError};

const EPS: f64 = 1e-6;

/// What the model wants guidance multiplied with.
const GUIDANCE_FACTOR: f32 = 1000.0;

const TOKEN: [i64; 3] = [1, PATCH, PATCH];

pub struct FramePackTransformer {
    img_in: Linear,
    /// `clean_x_embedder`: history of 1, 2 and 4 times the patch.
    clean: [Linear; 3],
    txt_in: TokenRefiner,
    image_projection: (Linear, Linear),
    time_in: MlpEmbedder,
    vector_in: MlpEmbedder,
    guidance_in: Option<MlpEmbedder>,
    double_blocks: Vec<DoubleBlock>,
    single_blocks: Vec<SingleBlock>,
    final_layer: FinalLayer,
    config: FramePackTransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text, a picture and a guidance: they are the same in every step.
pub struct Context {
    /// `(1, I, C)`
    image: Tensor,
    text: Embedded,
    /// What pooled text and guidance add to the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

/// What a section is shown of the others, and the places of its tokens: the same in every step of it.
pub struct Section {
    /// `(1, K, C)`
    history: Tensor,
    /// Of history and latents.
    turns: Turns,
    /// Frames, height and width of the latents.
    size: [i64; 3],
}

/// Shifts, scales and gates of one timestep.
pub struct Modulations {
    /// Of each block of the text's refiner, `(2, C)`
    refiner: Vec<Tensor>,
    /// Of each block in their order: the double blocks' `(2, 6, C)`, text first, and the single blocks' `(1, 3, C)`
    blocks: Vec<Tensor>,
    /// `(1, 2, C)` in f32
    final_layer: Tensor,
}

impl FramePackTransformer {
    /// `w`: the file's own names, in any dialect of [`FramePackTransformerKeys`].
    pub fn new(config: &FramePackTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FramePackTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let (dim, channels, image) = (config.dim(), config.in_channels, config.image_proj_dim);
        let widths = config.widths();
        let exact = w.with_kind(Kind::Float);
        let guidance = || MlpEmbedder::new(SINUSOIDS, dim, &(&exact / "guidance_in"));
        let patch_conv =
            |kernel: [i64; 3], w: &Weights| Linear::from_patch_conv(channels, dim, &kernel, w);
        let clean = w / "clean_x_embedder";
        let projection = w / "image_projection";
        let pooled = config.pooled_projection_dim;
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
            time_in: MlpEmbedder::new(SINUSOIDS, dim, &(&exact / "time_in"))?,
            vector_in: MlpEmbedder::new(pooled, dim, &(&exact / "vector_in"))?,
            guidance_in: config.guidance_embeds.then(guidance).transpose()?,
            double_blocks: (0..config.num_layers)
                .map(|i| DoubleBlock::new(&widths, &(w / "double_blocks" / i)))
                .collect::<Result<_, _>>()?,
            single_blocks: (0..config.num_single_layers)
                .map(|i| SingleBlock::new(&widths, &(w / "single_blocks" / i)))
                .collect::<Result<_, _>>()?,
            final_layer: FinalLayer::new(config, keys, &(&exact / "final_layer"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FramePackTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn config(&self) -> &FramePackTransformerConfig {
        &self.config
    }

    /// What it computes in.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
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
    ) -> Context {
        let here = |xs: &Tensor, kind| xs.to_device(self.device).to_kind(kind).contiguous();
        let mut vec = self.vector_in.forward(&here(pooled, Kind::Float));
        if let Some(guidance_in) = &self.guidance_in {
            let guidance = self.sinusoids(&[distilled_guidance as f32 * GUIDANCE_FACTOR]);
            vec = guidance_in.forward(&guidance) + vec;
        }
        let (up, down) = &self.image_projection;
        let mut image = up.forward(&here(image_embeds, self.kind));
        let image = down.forward(&image.silu_());
        let text = here(&prompt_embeds.narrow(1, 0, text_len), self.kind);
        Context {
            image,
            text: self.txt_in.embed(&text),
            vec,
        }
    }

    /// `history`, `layout`: what the section is shown and where it stands; `[height, width]`: of the latents, both even
    pub fn section(
        &self,
        history: &History,
        layout: &Layout,
        [height, width]: [i64; 2],
    ) -> Section {
        let here = |xs: &Tensor| xs.to_device(self.device).to_kind(self.kind);
        let parts = [
            (&history.history_4x, PACKED_4X, &self.clean[2]),
            (&history.history_2x, PACKED_2X, &self.clean[1]),
            (&history.clean, TOKEN, &self.clean[0]),
        ];
        let tokens =
            parts.map(|(latents, kernel, embed)| embed.forward(&patches(&here(latents), kernel)));
        let places = [height / PATCH, width / PATCH];
        let turns = [
            (&layout.history_4x, 4),
            (&layout.history_2x, 2),
            (&layout.clean, 1),
            (&layout.latents, 1),
        ];
        let turns =
            turns.map(|(frames, packed)| Turns::of_frames(frames, places, packed, &self.config));
        Section {
            history: Tensor::cat(&tokens, 1),
            turns: Turns::joined(&turns.each_ref()),
            size: [layout.latents.len() as i64, height, width],
        }
    }

    /// The turns of all tokens.
    pub fn rope(&self, context: &Context, section: &Section) -> Rope {
        let without = Turns::none(context.len(), &section.turns);
        let turns = Turns::joined(&[&without, &section.turns]);
        Rope::of_turns(&turns.cos, &turns.sin, self.device)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    ///
    /// A fifth of the model is the matrices that this takes. Many timesteps at once read them no more often than one
    /// does.
    pub fn modulations(&self, timesteps: &[f32], context: &Context) -> Vec<Modulations> {
        let sinusoids = self.sinusoids(timesteps);
        let wide = (self.time_in.forward(&sinusoids) + &context.vec).silu();
        let vec = &wide.to_kind(self.kind);
        let double = self.double_blocks.iter().map(|block| block.modulation(vec));
        let single = self.single_blocks.iter();
        let single = single.map(|block| block.modulation.forward(vec));
        let blocks: Vec<Tensor> = double.chain(single).collect();
        let final_layer = self.final_layer.modulation.forward(&wide);
        let refiner = self.txt_in.gates(&sinusoids, &context.text);
        let of = |all: &Tensor, i: usize| {
            // u n (m c) -> u m c
            let values = all.select(1, i as i64);
            values.view([all.size()[0], -1, self.config.dim()])
        };
        (0..timesteps.len())
            .map(|i| Modulations {
                refiner: refiner.iter().map(|gates| gates.get(i as i64)).collect(),
                blocks: blocks.iter().map(|all| of(all, i)).collect(),
                final_layer: of(&final_layer, i),
            })
            .collect()
    }

    /// `latents`: `(1, C, frames, h, w)`, `modulations`: the timestep's, made with the same context, `rope`: what
    /// [`rope`](Self::rope) gave for both -> velocity, as large and in f32; `None` when cancelled
    pub fn forward(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        section: &Section,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(latents, modulations, context, section, rope, None, hooks)
    }

    /// The same where what an earlier call added may stand in for blocks of this one: `cache` with the number of the
    /// call in its walk.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a call is given, made by as many others"
    )]
    pub fn forward_cached(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        section: &Section,
        rope: &Rope,
        cache: Option<(&StepCache, usize)>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let tokens = Self::tokens(context, section);
        let mut xs = self.embed(&latents, modulations, context, section, &tokens);
        let (streams, whole) = (tokens.streams(), [(0, tokens.len())]);
        let num_double = self.double_blocks.len();
        let rows = |i: usize| TokenRows {
            values: &modulations.blocks[i],
            ranges: if i < num_double { &streams } else { &whole },
        };
        // Nobody reads anything but the latents behind the last attention.
        let own = |xs: &Tensor| {
            let count = section.latent_tokens();
            xs.narrow(1, tokens.len() - count, count)
        };
        let mut normed = layer_norm(&xs, &modulated(rows(0), 0), EPS);
        let mut before = cache.map(|_| own(&xs).copy());
        let (img_start, img_len) = tokens.img;
        let ask = |normed: &Tensor, before: Option<&Tensor>, now: &Tensor, is_first: bool| {
            let (cache, call) = cache.filter(|(it, _)| it.runs_first_block() == is_first)?;
            let signals = BlockSignals {
                modulated: &normed.narrow(1, img_start, img_len),
                before: before?,
                now,
            };
            let residual = cache.stand_in(call, &signals)?;
            let hidden = self.finish(&(now + residual), modulations);
            Some(unpatched(&hidden, section.size))
        };
        if let Some(velocity) = ask(&normed, before.as_ref(), &own(&xs), false) {
            return Some(velocity);
        }
        for (i, block) in self.double_blocks.iter().enumerate() {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Block);
            // The last pass of a block is also the first of the next one.
            let next = modulated(rows(i + 1), 0);
            normed = block.forward(&mut xs, normed, rows(i), &next, &tokens, rope);
            if i == 0 && cache.is_some_and(|(cache, _)| cache.runs_first_block()) {
                if let Some(velocity) = ask(&normed, before.as_ref(), &own(&xs), true) {
                    return Some(velocity);
                }
                before = Some(own(&xs).copy());
            }
        }
        let (last, others) = self.single_blocks.split_last()?;
        for (block, i) in others.iter().zip(num_double..) {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Block);
            let ys = block.linear2.forward(&block.attend(normed, &tokens, rope));
            let next = modulated(rows(i + 1), 0);
            normed = add_norm(&mut xs, &ys, rows(i), 2, &next);
        }
        let ys = last
            .linear2
            .forward(&own(&last.attend(normed, &tokens, rope)));
        let mut hidden = own(&xs);
        let own_rows = [(0, section.latent_tokens())];
        let gate = Gate {
            rows: TokenRows {
                values: &modulations.blocks[modulations.blocks.len() - 1],
                ranges: &own_rows,
            },
            index: 2,
        };
        gated_add(&mut hidden, &ys, Some(gate));
        if let (Some((cache, _)), Some(before)) = (cache, &before) {
            cache.keep(before, &hidden);
        }
        let velocity = self.finish(&hidden, modulations);
        Some(unpatched(&velocity, section.size))
    }

    /// Picture and text as one half, history and latents as the other.
    fn tokens(context: &Context, section: &Section) -> Tokens {
        let img_len = section.history.size()[1] + section.latent_tokens();
        Tokens {
            txt: (0, context.len()),
            img: (context.len(), img_len),
            pictures: 1,
        }
    }

    /// All tokens one behind the other: `(1, L, C)`
    fn embed(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        section: &Section,
        tokens: &Tokens,
    ) -> Tensor {
        let size = [1, tokens.len(), self.config.dim()];
        let xs = Tensor::empty(size, (self.kind, self.device));
        let text = self.txt_in.forward(&context.text, &modulations.refiner);
        let mut done = 0;
        for part in [&context.image, &text, &section.history] {
            let len = part.size()[1];
            xs.narrow(1, done, len).copy_(part);
            done += len;
        }
        let patches = patches(latents, TOKEN);
        self.img_in
            .forward_into(&patches, &xs.narrow(1, done, tokens.len() - done));
        xs
    }

    /// The latents' hidden states behind the last block, `(1, N, C)` -> `(1, N, 4 channels)` in f32.
    ///
    /// In f32 as FramePack has it, where diffusers has the transformer's kind: it costs nothing.
    fn finish(&self, hidden: &Tensor, modulations: &Modulations) -> Tensor {
        let ranges = [(0, hidden.size()[1])];
        let rows = TokenRows {
            values: &modulations.final_layer,
            ranges: &ranges,
        };
        let norm = self.final_layer.norm(rows);
        let normed = layer_norm(&hidden.to_kind(Kind::Float), &norm, EPS);
        self.final_layer.linear.forward(&normed)
    }

    /// `(values, 256)` in f32
    fn sinusoids(&self, values: &[f32]) -> Tensor {
        let values = Tensor::from_slice(values).to_device(self.device);
        timestep_embedding(&values, SINUSOIDS)
    }
}

/// What a step cache may look at.
struct BlockSignals<'a> {
    modulated: &'a Tensor,
    before: &'a Tensor,
    now: &'a Tensor,
}

impl Signals for BlockSignals<'_> {
    fn modulated(&self) -> Tensor {
        self.modulated.copy()
    }

    fn first_residual(&self) -> Tensor {
        self.now - self.before
    }
}

impl Context {
    /// Tokens of picture and text, `T`.
    fn len(&self) -> i64 {
        self.image.size()[1] + self.text.len()
    }
}

impl Section {
    /// `N`
    fn latent_tokens(&self) -> i64 {
        let [frames, height, width] = self.size;
        frames * (height / PATCH) * (width / PATCH)
    }
}

struct FinalLayer {
    linear: Linear,
    /// `adaLN_modulation.1`
    modulation: Modulation,
    /// Which of its vectors they are.
    shift_and_scale: (i64, i64),
}

impl FinalLayer {
    fn new(
        config: &FramePackTransformerConfig,
        keys: FramePackTransformerKeys,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, outputs) = (config.dim(), config.out_channels() * PATCH * PATCH);
        Ok(Self {
            linear: Linear::new(dim, outputs, &(w / "linear"))?,
            modulation: Modulation::new(dim, 2, "adaLN_modulation.1", w)?,
            shift_and_scale: keys.final_shift_and_scale(),
        })
    }

    fn norm<'a>(&self, rows: TokenRows<'a>) -> Norm<'a> {
        let (shift, scale) = self.shift_and_scale;
        Norm::Modulated { rows, shift, scale }
    }
}
