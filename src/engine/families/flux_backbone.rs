//! The transformer of FLUX.1 and its descendants without modulation layers: embedders, RoPE, blocks and output layer.
//!
//! Fields have the original names. Shapes: as in [`streams`](crate::streams).

use std::rc::Rc;

use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Device, Kind, Tensor};

use crate::nn::{Rope, angles_of_ids};
use crate::stages::images::{ForwardPass, ImageModel};
use crate::streams::{
    ControlNetResiduals, FluxSequence, MmditBackbone, SequenceEmbedder, StreamModulations,
    TokenRanges,
};
use crate::text::TextEmbeds;
use crate::{StageCapture, Weights, WeightsError};

pub struct FluxBackbone {
    entry: SequenceEmbedder,
    streams: MmditBackbone,
    /// Channels of a head that each of a token's position ids rotates.
    axes: Vec<i64>,
    /// Base of the RoPE frequencies.
    theta: f64,
}

/// Text and guidance embedded once for all steps.
pub struct FluxContext {
    pub sequence: FluxSequence,
    /// Pooled text and guidance, added to the timestep embedding: `(1, C)` in f32; `None` in models with neither.
    pub vec: Option<Tensor>,
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
            axes: axes.to_vec(),
            theta,
        })
    }

    pub fn place(&self) -> (Device, Kind) {
        (self.streams.blocks.device, self.streams.blocks.kind)
    }

    /// Embeds a text for a batch of images; `ids`: see [`rope`](Self::rope)
    pub fn context(&self, text: &TextEmbeds, ids: &[Tensor; 2], num_images: i64) -> FluxSequence {
        FluxSequence {
            txt: self.entry.text(&text.prompt),
            bias: None,
            rope: self.rope(ids, num_images),
        }
    }

    /// RoPE of all tokens of a batch, from the position ids of a text, `(T, axes)`, and of an image, `(I, axes)`.
    pub fn rope(&self, ids: &[Tensor; 2], num_images: i64) -> Rope {
        let ids = ids.each_ref().map(|ids| ids.repeat([num_images, 1]));
        let angles = angles_of_ids(&Tensor::cat(&ids, 0), &self.axes, self.theta);
        Rope::new(&angles, self.streams.blocks.device)
    }

    /// Records position ids under the reference's names; `branch`: the prediction that the text conditions
    pub fn record_ids(branch: &str, [txt, img]: &[Tensor; 2], capture: &mut StageCapture) {
        let prefix = if branch == "uncond" { "negative_" } else { "" };
        capture.put(format!("transformer.in.{branch}.txt_ids"), txt);
        capture.put(format!("transformer.in.{branch}.img_ids"), img);
        capture.put(format!("{prefix}text_ids"), txt);
    }

    /// `img`: `(B, I, input)`, `residuals`: computes ControlNet residuals -> `(B, I, output)` in f32; `None` when cancelled
    pub fn forward<M: ImageModel<Modulation = StreamModulations>>(
        &self,
        img: &Tensor,
        context: &FluxSequence,
        pass: &ForwardPass<'_, M>,
        residuals: impl FnOnce() -> Option<Rc<ControlNetResiduals>>,
    ) -> Option<Tensor> {
        let tokens = TokenRanges {
            bias: context.bias.as_ref().map(Tensor::shallow_clone),
            ..TokenRanges::of(img, &context.txt)
        };
        let mut xs = self.entry.embed(img, &context.txt, &tokens);
        let places = (&tokens, &context.rope, tokens.img);
        let (streams, modulation) = (&self.streams, pass.modulation);
        streams.forward(
            &mut xs, modulation, places, pass.skip, residuals, pass.hooks,
        )
    }
}
