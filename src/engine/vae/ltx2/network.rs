//! One half of the autoencoder as a list of layers that frames stream through.
//!
//! Each layer passes on at most as many frames at a time as its level has of one chunk. So the end of a video, where all
//! layers give out what they held back, needs no more memory than the rest of it.

use safelight_core::networks::VaeHalf;
use safelight_core::networks::ltx2::Ltx2VaeConfig;
use tch::Tensor;

use super::layers::{LayerState, StreamConv, StreamLayer, StreamPlace};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct StreamNetwork {
    /// Layers with the most frames that each passes on at a time.
    layers: Vec<(StreamLayer, i64)>,
}

impl StreamNetwork {
    /// `frames`: of a chunk, as they come in
    pub(super) fn new(
        config: &Ltx2VaeConfig,
        half: VaeHalf,
        frames: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let is_decoder = half == VaeHalf::Decoder;
        let own = w / if is_decoder { "decoder" } else { "encoder" };
        let levels = config.levels(half);
        let [inputs, outputs] = config.border_channels(half);
        let [first, last] =
            [levels.first(), levels.last()].map(|level| level.map_or(1, |level| level.width));
        let mut place = StreamPlace {
            ahead: i64::from(is_decoder),
            frames,
        };
        let entrance = StreamConv::new(&(&own / "conv_in"), [inputs, first], place)?;
        let mut layers = vec![(StreamLayer::Conv(entrance), place.frames)];
        for level in &levels {
            for number in 0..level.num_blocks {
                let block = w / &level.name / "res_blocks" / number;
                let block = StreamLayer::residual(&block, level.width, place)?;
                layers.push((block, place.frames));
            }
            let Some((name, step, output)) = &level.step else {
                continue;
            };
            let widths = [
                level.width,
                Ltx2VaeConfig::step_channels(half, *step, *output),
            ];
            let w = &(w / name / "conv");
            let [time, _] = step.factors();
            let layer = if is_decoder {
                let conv = StreamConv::folded(w, widths, place, step.folded())?;
                place.frames *= time;
                StreamLayer::Unfold(conv, *step)
            } else {
                let conv = StreamConv::new(w, widths, place)?;
                place.frames = (place.frames / time).max(1);
                StreamLayer::Fold(conv, *step)
            };
            layers.push((layer, place.frames));
        }
        let head = StreamConv::new(&(&own / "conv_out"), [last, outputs], place)?;
        layers.push((StreamLayer::Head(head), place.frames));
        Ok(Self { layers })
    }

    pub(super) fn begin<'a>(&'a self, cancelled: &'a dyn Fn() -> bool) -> StreamPass<'a> {
        let states = self.layers.iter().map(|_| LayerState::default());
        StreamPass {
            network: self,
            states: states.collect(),
            cancelled,
        }
    }
}

/// One video's way through a network.
pub(super) struct StreamPass<'a> {
    network: &'a StreamNetwork,
    states: Vec<LayerState>,
    cancelled: &'a dyn Fn() -> bool,
}

impl StreamPass<'_> {
    /// `xs`: the next frames, `(T, H, W, C)`; `is_last`: no others follow. Gives `take` what comes out, a chunk at a time.
    /// `None` when cancelled.
    pub(super) fn push(
        &mut self,
        xs: Tensor,
        is_last: bool,
        take: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        self.push_to(0, xs, is_last, take)
    }

    /// From the layer `index` on.
    fn push_to(
        &mut self,
        index: usize,
        xs: Tensor,
        is_last: bool,
        take: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        let Some((layer, most)) = self.network.layers.get(index) else {
            take(xs);
            return Some(());
        };
        if (self.cancelled)() {
            return None;
        }
        let ys = layer.forward(&xs, &mut self.states[index], is_last);
        drop(xs);
        let count = ys.size()[0];
        if count == 0 {
            return Some(());
        }
        if count <= *most {
            return self.push_to(index + 1, ys, is_last, take);
        }
        for start in (0..count).step_by(*most as usize) {
            let taken = (*most).min(count - start);
            let is_end = is_last && start + taken == count;
            self.push_to(index + 1, ys.narrow(0, start, taken), is_end, take)?;
        }
        Some(())
    }
}
