//! The compact VGG network of Real-ESRGAN: plain convolutions, and pixels shuffled at the end.
//!
//! After `SRVGGNetCompact` of <https://github.com/xinntao/Real-ESRGAN>.

use tch::Tensor;

use crate::finish::conv::FinishConv;
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct CompactUpscaler {
    /// Each with how much of what is below 0 stays, a number for each channel: `(C)`.
    layers: Vec<(FinishConv, Tensor)>,
    last: FinishConv,
    scale: i64,
}

impl CompactUpscaler {
    pub(super) fn new(
        w: &Weights,
        width: i64,
        num_convs: i64,
        scale: i64,
    ) -> Result<Self, WeightsError> {
        let w = w / "body";
        let layers = (0..=num_convs).map(|number| {
            let inputs = if number == 0 { 3 } else { width };
            let conv = FinishConv::new(&(&w / (2 * number)), [inputs, width], 3)?;
            let slopes = (&w / (2 * number + 1)).tensor("weight", &[width])?;
            Ok((conv, slopes))
        });
        Ok(Self {
            layers: layers.collect::<Result<_, WeightsError>>()?,
            last: FinishConv::new(&(&w / (2 * num_convs + 2)), [width, 3 * scale * scale], 3)?,
            scale,
        })
    }

    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        let mut xs = places.shallow_clone();
        for (conv, slopes) in &self.layers {
            if !go_on() {
                return None;
            }
            xs = conv.forward(&xs).prelu(slopes);
        }
        Some(self.last.forward(&xs))
    }

    pub(super) fn end(&self, made: &Tensor, places: &Tensor) -> Tensor {
        let [height, width] = [2, 3].map(|axis| places.size()[axis] * self.scale);
        let nearest = places.upsample_nearest2d([height, width], None, None);
        made.pixel_shuffle(self.scale) + nearest
    }
}
