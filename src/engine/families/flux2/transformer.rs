//! FLUX.2's transformer: FLUX.1's two kinds of blocks with modulations that all blocks of a kind share, gates in the
//! feed-forward part and no biases. klein of both sizes are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux2/blob/main/src/flux2/model.py> in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_flux2.py`). Fields have the original names; the blocks are in
//! [`streams`](crate::streams).
//!
//! Shapes: `B` pictures of one text; `T` tokens of a text, `I` of a picture with those that are seen beside it; `C` width.

use safelight_core::networks::{Flux2TransformerConfig, Flux2TransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::families::flux::told_times;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::step_cache::Shortcut;
use crate::streams::{Modulations, PictureStreams, SharedModulations, Sizes};
use crate::weights::{Weights, WeightsError};

pub struct Flux2Transformer {
    streams: PictureStreams,
    told: SharedModulations,
    config: Flux2TransformerConfig,
}

/// A text as the blocks read it: the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
}

impl Flux2Transformer {
    /// `w`: the file's own names, in any dialect of [`Flux2TransformerKeys`].
    pub fn new(config: &Flux2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = Flux2TransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let shape = config.streams();
        let sizes = Sizes {
            input: config.in_channels,
            text: config.joint_attention_dim,
            output: config.out_channels(),
            axes: config.axes_dims_rope.to_vec(),
            theta: config.rope_theta,
        };
        Ok(Self {
            streams: PictureStreams::new(&shape, sizes, keys.final_shift_and_scale(), w)?,
            told: SharedModulations::new(&shape, w)?,
            config: config.clone(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(Flux2TransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.streams.num_blocks()
    }

    pub fn config(&self) -> &Flux2TransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.streams.kind()
    }

    pub fn device(&self) -> Device {
        self.streams.device()
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`
    pub fn context(&self, prompt_embeds: &Tensor) -> Context {
        Context {
            txt: self.streams.text(prompt_embeds),
        }
    }

    /// The turns of all tokens of `pictures`, in their order: `txt_ids`: `(T, 4)`, `img_ids`: `(I, 4)`, those of one
    /// picture, whole numbers from 0.
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, pictures: i64) -> Rope {
        self.streams.rope(txt_ids, img_ids, pictures)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<Modulations> {
        self.told.modulations(&told_times(timesteps))
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, `rope`: what [`rope`](Self::rope) gave for as many
    /// -> velocity, `(B, I, in_channels)` in f32; `None` when cancelled
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
        let text = (&context.txt, None);
        self.streams
            .forward(img, modulations, text, rope, (shortcut, None), hooks)
    }
}
