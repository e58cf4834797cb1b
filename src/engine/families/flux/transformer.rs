//! FLUX.1's transformer: text and picture in one sequence, first with weights of their own (double blocks), then with
//! common ones (single blocks). dev, schnell and Fill are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names; the blocks and the way through
//! them are in [`streams`](crate::streams).
//!
//! Shapes: `B` pictures of one text; `T` tokens of text, `I` of a picture; `C` width.

use safelight_core::networks::{FluxTransformerConfig, FluxTransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::step_cache::Shortcut;
use crate::streams::{MakeResiduals, Modulations, OwnModulations, PictureStreams, Sizes};
use crate::weights::{Weights, WeightsError};

/// The base of the positions' frequencies.
pub const ROPE_THETA: f64 = 10000.0;
/// What the model multiplies timesteps with, which come divided by it.
const TIME_FACTOR: f32 = 1000.0;

pub struct FluxTransformer {
    streams: PictureStreams,
    told: OwnModulations,
    config: FluxTransformerConfig,
}

/// A text as the blocks read it, and a guidance: they are the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
    /// What pooled text and guidance add to the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

impl FluxTransformer {
    /// `w`: the file's own names, in any dialect of [`FluxTransformerKeys`].
    pub fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let shape = config.streams();
        let sizes = Sizes {
            input: config.in_channels,
            text: config.joint_attention_dim,
            output: config.out_channels(),
            axes: config.axes_dims_rope.to_vec(),
            theta: ROPE_THETA,
        };
        Ok(Self {
            streams: PictureStreams::new(&shape, sizes, keys.final_shift_and_scale(), w)?,
            told: OwnModulations::new(&shape, config.told(), w, &(w / "final_layer"))?,
            config: config.clone(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FluxTransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.streams.num_blocks()
    }

    pub fn config(&self) -> &FluxTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.streams.kind()
    }

    pub fn device(&self) -> Device {
        self.streams.device()
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`, `pooled`: `(1, pooled_projection_dim)`, `distilled_guidance`:
    /// as the user sets it; models that are told none leave it alone
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        pooled: &Tensor,
        distilled_guidance: f64,
    ) -> Context {
        Context {
            txt: self.streams.text(prompt_embeds),
            vec: self.told.vec(pooled, distilled_guidance),
        }
    }

    /// The turns of all tokens of `pictures`, in their order: `txt_ids`: `(T, 3)`, `img_ids`: `(I, 3)`, those of one
    /// picture, whole numbers from 0.
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, pictures: i64) -> Rope {
        self.streams.rope(txt_ids, img_ids, pictures)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32], context: &Context) -> Vec<Modulations> {
        let sinusoids = self.told.sinusoids(&told_times(timesteps));
        self.told.modulations(&sinusoids, &context.vec)
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, made with the same context, `rope`: what
    /// [`rope`](Self::rope) gave for as many -> velocity, `(B, I, out_channels)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(img, modulations, context, rope, Shortcut::default(), hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        rope: &Rope,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let beside = (shortcut, None);
        self.forward_controlled(img, modulations, context, rope, beside, hooks)
    }

    /// The same with what ControlNets add behind the blocks.
    pub fn forward_controlled(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        rope: &Rope,
        beside: (Shortcut<'_>, MakeResiduals<'_>),
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let text = (&context.txt, None);
        self.streams
            .forward(img, modulations, text, rope, beside, hooks)
    }
}

/// Timesteps divided and multiplied again, as diffusers' pipelines and models of this kind do.
pub fn told_times(timesteps: &[f32]) -> Vec<f32> {
    let times = timesteps.iter();
    times.map(|t| t / TIME_FACTOR * TIME_FACTOR).collect()
}
