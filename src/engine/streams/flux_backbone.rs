//! The transformer of FLUX.1 and its descendants without modulation layers: embedders, RoPE, blocks and output layer.
//!
//! Fields have the original names. Shapes: as in [`streams`](super).

use std::rc::Rc;

use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Device, Kind, Tensor};

use super::blocks::layer;
use super::{ControlNetResiduals, MmditBackbone, StreamModulations, TokenRanges};
use crate::hooks::Hooks;
use crate::nn::{Linear, Rope, angles_of_ids};
use crate::step_cache::SkipOptions;
use crate::weights::{Weights, WeightsError};

pub struct FluxBackbone {
    entry: SequenceEmbedder,
    streams: MmditBackbone,
    /// Output channels of an image token.
    outputs: i64,
    /// Channels of a head that each of a token's position ids rotates.
    axes: Vec<i64>,
    /// Base of the RoPE frequencies.
    theta: f64,
}

pub struct SequenceEmbedder {
    img_in: Linear,
    txt_in: Linear,
    dim: i64,
    pub kind: Kind,
    pub device: Device,
}

impl SequenceEmbedder {
    /// `input` and `text`: channels of an image token and of a text token; `w`: by the authors' names
    pub fn new(
        shape: &StreamShape,
        input: i64,
        text: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            img_in: layer(shape, input, shape.dim, &(w / "img_in"))?,
            txt_in: layer(shape, text, shape.dim, &(w / "txt_in"))?,
            dim: shape.dim,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Text embedded for the blocks: `(1, T, text)` -> `(1, T, C)`
    pub fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        self.txt_in.forward(&prompt.contiguous())
    }

    /// Texts followed by images: `img`: `(B, I, input)`, `txt`: `(1, T, C)` -> `(1, L, C)`
    pub fn embed(&self, img: &Tensor, txt: &Tensor, tokens: &TokenRanges) -> Tensor {
        let img = img.to_device(self.device).to_kind(self.kind);
        let xs = Tensor::empty([1, tokens.count(), self.dim], (self.kind, self.device));
        let mut texts = tokens.of_txt(&xs).view([tokens.images, -1, self.dim]);
        texts.copy_(&txt.expand_as(&texts));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}

/// Text embedded once for all steps.
pub struct FluxSequence {
    /// `(1, T, C)`
    pub txt: Tensor,
    /// Added to the attention scores of one image and its text: `(1, 1, T + I, T + I)`
    pub bias: Option<Tensor>,
    /// Of all tokens of a batch.
    pub rope: Rope,
}

impl FluxBackbone {
    /// `input`, `text`, `outputs`: channels of an image token, of a text token and of a predicted one; `axes`: channels of a head that each of a
    /// token's position ids rotates, and the base of their frequencies; `shift_and_scale`: indices of these vectors in the
    /// final modulation; `w`: by the authors' names
    pub fn new(
        shape: &StreamShape,
        [input, text, outputs]: [i64; 3],
        (axes, theta): (&[i64], f64),
        shift_and_scale: (i64, i64),
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let last = &(w / "final_layer");
        Ok(Self {
            entry: SequenceEmbedder::new(shape, input, text, w)?,
            streams: MmditBackbone::new(shape, outputs, shift_and_scale, w, (last, false))?,
            outputs,
            axes: axes.to_vec(),
            theta,
        })
    }

    pub fn place(&self) -> (Device, Kind) {
        (self.streams.blocks.device, self.streams.blocks.kind)
    }

    /// Embeds a text, `(1, T, text)`, for a batch of images; `txt_ids`: `(T, axes)`, `img_ids`: `(I, axes)`: position ids
    /// of one image, integers from 0.
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        txt_ids: &Tensor,
        img_ids: &Tensor,
        num_images: i64,
    ) -> FluxSequence {
        FluxSequence {
            txt: self.entry.text(prompt_embeds),
            bias: None,
            rope: self.rope(txt_ids, img_ids, num_images),
        }
    }

    /// RoPE of all tokens of a batch, see [`context`](Self::context).
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, num_images: i64) -> Rope {
        let ids = [txt_ids, img_ids].map(|ids| ids.repeat([num_images, 1]));
        let angles = angles_of_ids(&Tensor::cat(&ids, 0), &self.axes, self.theta);
        Rope::new(&angles, self.streams.blocks.device)
    }

    /// `img`: `(B, I, input)`, `residuals`: computes ControlNet residuals -> `(B, I, output)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &StreamModulations,
        context: &FluxSequence,
        skip: SkipOptions<'_>,
        residuals: impl FnOnce() -> Option<Rc<ControlNetResiduals>>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let tokens = TokenRanges {
            bias: context.bias.as_ref().map(Tensor::shallow_clone),
            ..TokenRanges::of(img, &context.txt)
        };
        let mut xs = self.entry.embed(img, &context.txt, &tokens);
        let places = (&tokens, &context.rope, tokens.img);
        let streams = &self.streams;
        let velocity = streams.forward(&mut xs, modulations, places, skip, residuals, hooks)?;
        Some(velocity.view([tokens.images, -1, self.outputs]))
    }
}
