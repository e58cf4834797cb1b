//! Chroma's transformer: FLUX.1's, with one network that makes all modulations, and with text that is told from padding.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_chroma.py`). Fields have the authors' names; the
//! blocks and the way through them are in [`streams`](crate::streams).
//!
//! **Padding.** Of the tokens behind a text one counts as text. diffusers adds 1 to the score of each pair of tokens that
//! count and 0 to the others, so that what is padding is seen, with less weight. (The authors hide it.) T5 gives the same
//! numbers for padding that is far enough behind the text; such tokens stay alike in all blocks, as a text's have no
//! places, so that one of them stands for all: the logarithm of their number is added to its scores.
//!
//! Shapes: `B` pictures of one text; `T` tokens of text, `I` of a picture; `C` width.

use safelight_core::networks::{ChromaTransformerConfig, ChromaTransformerKeys};
use tch::{Device, Kind, Tensor};

use super::approximator::Approximator;
use crate::families::flux::{ROPE_THETA, image_ids, text_ids, told_times};
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::stages::stills::LatentShape;
use crate::step_cache::Shortcut;
use crate::streams::{Modulations, PictureStreams, Sizes};
use crate::weights::{Weights, WeightsError};

/// Which vectors of the last layer are its shift and its scale, in every dialect.
const SHIFT_AND_SCALE: (i64, i64) = (0, 1);

/// Numbers between the beginnings of rows that libtorch's fused attention reads as they are.
const ALIGNMENT: i64 = 8;

pub struct ChromaTransformer {
    streams: PictureStreams,
    approximator: Approximator,
    config: ChromaTransformerConfig,
}

/// A text as the blocks read it beside pictures of one size; it is the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
    /// Added to the scores: `(1, 1, T + I, T + I)`
    bias: Tensor,
    rope: Rope,
}

impl ChromaTransformer {
    /// `w`: the file's own names, in any dialect of [`ChromaTransformerKeys`].
    pub fn new(config: &ChromaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = ChromaTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let sizes = Sizes {
            input: config.in_channels,
            text: config.joint_attention_dim,
            output: config.in_channels,
            axes: config.axes_dims_rope.to_vec(),
            theta: ROPE_THETA,
        };
        Ok(Self {
            streams: PictureStreams::new(&config.streams(), sizes, SHIFT_AND_SCALE, w)?,
            approximator: Approximator::new(config, &(w / "distilled_guidance_layer"))?,
            config: config.clone(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(ChromaTransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.streams.num_blocks()
    }

    pub fn config(&self) -> &ChromaTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.streams.kind()
    }

    pub fn device(&self) -> Device {
        self.streams.device()
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`, `mask`: `(1, T)`, 1 for tokens that count as text, all of them
    /// before the others; `pictures`: how many of `shape` are asked for at once.
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        mask: &Tensor,
        shape: LatentShape,
        pictures: i64,
    ) -> Context {
        let mask = mask.to_device(Device::Cpu).to_kind(Kind::Float);
        let length = prompt_embeds.size()[1];
        let alike = alike_at_end(prompt_embeds, &mask);
        let kept = length - alike + 1;
        let bias = bias(&mask.view([-1]).narrow(0, 0, kept), alike, shape.tokens());
        Context {
            txt: self.streams.text(&prompt_embeds.narrow(1, 0, kept)),
            bias: aligned(&bias, self.device(), self.kind()),
            rope: self
                .streams
                .rope(&text_ids(kept), &image_ids(shape), pictures),
        }
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<Modulations> {
        self.approximator.modulations(&told_times(timesteps))
    }

    /// `img`: `(B, I, in_channels)`, as many as `context` was made for, `modulations`: the timestep's -> velocity, as large
    /// and in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(img, modulations, context, Shortcut::default(), hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let Context { txt, bias, rope } = context;
        self.streams.forward(
            img,
            modulations,
            (txt, Some(bias)),
            rope,
            (shortcut, None),
            hooks,
        )
    }
}

/// How many tokens at the end of a text are padding with the same numbers: at least 1, the last.
fn alike_at_end(prompt_embeds: &Tensor, mask: &Tensor) -> i64 {
    let rows = prompt_embeds.to_device(Device::Cpu).select(0, 0);
    let length = rows.size()[0];
    let last = rows.narrow(0, length - 1, 1);
    let is_alike = rows.eq_tensor(&last).all_dim(1, false);
    let is_padding = mask.view([-1]).eq(0.0);
    let other = is_alike.logical_and(&is_padding).logical_not();
    // Behind the last that is not.
    let others = other.nonzero();
    let alike = match others.size()[0] {
        0 => length,
        count => length - 1 - others.int64_value(&[count - 1, 0]),
    };
    alike.max(1)
}

/// What is added to the scores of a text's tokens and of `picture` behind them, on the CPU in f32: `mask`: `(T)`, the
/// last of which stands for `alike` tokens -> `(1, 1, T + I, T + I)`, query first
fn bias(mask: &Tensor, alike: i64, picture: i64) -> Tensor {
    let whole = Tensor::cat(
        &[mask, &Tensor::ones([picture], (Kind::Float, Device::Cpu))],
        0,
    );
    let bias = whole.unsqueeze(1) * whole.unsqueeze(0);
    drop(
        bias.select(1, mask.size()[0] - 1)
            .g_add_scalar_((alike as f64).ln()),
    );
    bias.unsqueeze(0).unsqueeze(0)
}

/// The same on a device, its rows at distances that kernels can read without making them longer in every call.
fn aligned(bias: &Tensor, device: Device, kind: Kind) -> Tensor {
    let length = bias.size()[3];
    let longer = bias.constant_pad_nd([0, (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT]);
    let longer = longer.to_device(device).to_kind(kind);
    longer.narrow(3, 0, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_that_is_alike_counts_from_the_end_and_text_never_does() {
        let row = |values: &[f32]| Tensor::from_slice(values).view([1, -1, 1]);
        for (rows, mask, expected) in [
            (
                &[1.0, 2.0, 3.0, 3.0, 3.0][..],
                &[1.0, 1.0, 0.0, 0.0, 0.0][..],
                3,
            ),
            (&[1.0, 3.0, 3.0, 2.0, 3.0], &[1.0, 1.0, 0.0, 0.0, 0.0], 1),
            (&[3.0, 3.0, 3.0], &[1.0, 1.0, 0.0], 1),
            (&[3.0, 3.0, 3.0], &[1.0, 1.0, 1.0], 1),
            (&[1.0, 3.0, 3.0], &[1.0, 0.0, 0.0], 2),
        ] {
            let mask = Tensor::from_slice(mask).view([1, -1]);
            assert_eq!(alike_at_end(&row(rows), &mask), expected, "{rows:?}");
        }
    }

    #[test]
    fn scores_of_pairs_that_count_get_one_more_and_a_token_for_several_their_logarithm() {
        let mask = Tensor::from_slice(&[1.0_f32, 0.0, 0.0]);
        let found = bias(&mask, 5, 1);
        let log = 5_f32.ln();
        let expected = [
            [1.0, 0.0, log, 1.0],
            [0.0, 0.0, log, 0.0],
            [0.0, 0.0, log, 0.0],
            [1.0, 0.0, log, 1.0],
        ];
        assert_eq!(found.size(), [1, 1, 4, 4]);
        assert!(
            found
                .view([4, 4])
                .allclose(&Tensor::from_slice2(&expected), 1e-6, 0.0, false)
        );
    }
}
