//! Doubling the edges of frames and convolving them 3 × 3, without ever making the doubled frames.
//!
//! Each of the four pixels that one pixel becomes sees only 2 × 2 different pixels: one convolution with four times
//! the outputs and 4 taps in place of 9, whose results are then put where they belong: by libtorch wherever the frames
//! are, or together with a shortcut by our own code, for f32 on the CPU.

use safelight_loops::doubling::CornerPlacing;
use tch::{Device, Kind, Tensor};

use crate::kernels;
use crate::nn::{ConvBias, channels_innermost, convolve_images};
use crate::parallel::row_bands;

use super::slices::{floats, run_all, shared};

/// The four pixels that one becomes.
const CORNERS: i64 = safelight_loops::doubling::CORNERS as i64;

/// Rows of this many numbers are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct DoublingConv {
    /// `(4 · O, C, 2, 2)`, the corners in the order of reading
    weight: Tensor,
    /// Of the four corners.
    corners_bias: Option<Tensor>,
    /// Of one: added when the corners are placed, where the convolution does not.
    bias: ConvBias,
}

/// Source of the shortcut: frames before the level, whose channels are spread over the pixels of a cube.
pub(super) struct ShortcutFrames<'a> {
    /// `(T, H, W, C)`
    pub(super) frames: &'a Tensor,
    /// Frames that one becomes, 1 or 2.
    pub(super) time: i64,
    /// True if the first of those frames is left out.
    pub(super) last_only: bool,
}

impl DoublingConv {
    /// `weight`: `(O, C, 3, 3)`
    pub(super) fn new(weight: &Tensor, bias: &Tensor) -> Self {
        let bias = ConvBias::new(bias.shallow_clone());
        let kind = weight.kind();
        let weight = weight.to_kind(Kind::Double);
        // Of three taps, the outer one falls on the neighbour and the other two on the pixel itself.
        let halves = |weight: &Tensor, dim: i64| {
            let [a, b, c] = [0, 1, 2].map(|tap| weight.narrow(dim, tap, 1));
            let both = &b + &a;
            [
                Tensor::cat(&[a, &b + &c], dim),
                Tensor::cat(&[both, c], dim),
            ]
        };
        let corners: Vec<Tensor> = halves(&weight, 2)
            .iter()
            .flat_map(|rows| halves(rows, 3))
            .collect();
        let weight = Tensor::cat(&corners, 0).to_kind(kind);
        Self {
            weight: channels_innermost(&weight),
            corners_bias: bias.fused().map(|bias| bias.repeat([CORNERS])),
            bias,
        }
    }

    /// `xs`: `(T, H, W, C)` → `(T, 2H, 2W, O)`
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        match row_bands() {
            // Rows of the neighbours, columns of zeros.
            Some(bands) => self.forward_bordered(&bands.bordered(xs).constant_pad_nd([0, 0, 1, 1])),
            None => kernels::placed_corners(&self.corners(xs, 1), self.bias.lacking()),
        }
    }

    /// Like [`Self::forward`], with a given border of one pixel on each side instead of zeros:
    /// `(T, H + 2, W + 2, C)` to `(T, 2H, 2W, O)`
    pub(super) fn forward_bordered(&self, xs: &Tensor) -> Tensor {
        kernels::placed_corners(&self.corners(xs, 0), self.bias.lacking())
    }

    fn outputs(&self) -> i64 {
        self.bias.own.numel() as i64
    }

    /// With a `border` of one pixel of zeros `(T, H, W, C)` → `(T, H + 1, W + 1, corners · O)`
    fn corners(&self, xs: &Tensor, border: i64) -> Tensor {
        convolve_images(xs, &self.weight, self.corners_bias.as_ref(), [border; 2])
    }

    /// `xs`: `(T, H, W, C)` → `(T, 2H, 2W, O)`, with the shortcut added; for f32 on the CPU.
    pub(super) fn forward_with(&self, xs: &Tensor, shortcut: &ShortcutFrames<'_>) -> Tensor {
        let corners = self.corners(xs, 1);
        let size = xs.size();
        let outputs = self.outputs();
        let size = [size[0], 2 * size[1], 2 * size[2], outputs];
        let doubled = Tensor::empty(size, (Kind::Float, Device::Cpu));
        let placing = CornerPlacing {
            corners: floats(&corners),
            doubled: shared(&doubled),
            before: floats(shortcut.frames),
            sources: sources(shortcut, outputs),
            time: shortcut.time as usize,
            skipped: usize::from(shortcut.last_only) * (shortcut.time as usize - 1),
            height: xs.size()[1] as usize,
            width: xs.size()[2] as usize,
            outputs: outputs as usize,
            inputs: shortcut.frames.size()[3] as usize,
        };
        let rows = xs.size()[0] as usize * placing.height;
        let grain = NUMBERS_PER_TURN / (CORNERS as usize * placing.width * placing.outputs).max(1);
        run_all(&placing, rows, grain);
        doubled
    }
}

/// For each place in a cube of `time` × 2 × 2 pixels, which channel each output takes.
fn sources(shortcut: &ShortcutFrames<'_>, outputs: i64) -> Vec<Vec<usize>> {
    let places = shortcut.time * CORNERS;
    let repeats = outputs * places / shortcut.frames.size()[3];
    (0..places)
        .map(|place| {
            (0..outputs)
                .map(|o| ((o * places + place) / repeats) as usize)
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::{DoublingConv, ShortcutFrames};
    use crate::closeness::distance;
    use crate::drawn::drawn;

    /// One operation after the other, with channels in front: `(T, O, 2H, 2W)`
    fn doubled(xs: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
        let size = xs.size();
        let xs = xs.permute([0, 3, 1, 2]);
        let xs = xs.upsample_nearest2d([2 * size[1], 2 * size[2]], None, None);
        xs.conv2d(weight, Some(bias), [1, 1], [1, 1], [1, 1], 1)
    }

    #[test]
    fn fused_upsampling_without_shortcut_matches_its_separate_steps() {
        for (frames, height, width) in [(1, 1, 1), (2, 3, 5), (3, 4, 1)] {
            let xs = drawn(&[frames, height, width, 6]);
            let (weight, bias) = (drawn(&[3, 6, 3, 3]), drawn(&[3]));
            let found = DoublingConv::new(&weight, &bias).forward(&xs);
            let expected = doubled(&xs, &weight, &bias).permute([0, 2, 3, 1]);
            let off = distance(&found, &expected);
            assert!(off < 1e-6, "{frames} × {height} × {width}: off by {off}");
        }
    }

    fn in_steps(
        xs: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        shortcut: &ShortcutFrames<'_>,
    ) -> Tensor {
        let xs = doubled(xs, weight, bias);
        let (outputs, time) = (weight.size()[0], shortcut.time);
        let before = shortcut.frames.permute([3, 0, 1, 2]);
        let repeats = outputs * time * 4 / before.size()[0];
        let spread = before.repeat_interleave_self_int(repeats, 0, None::<i64>);
        let [frames, height, width] = [1, 2, 3].map(|dim| before.size()[dim]);
        let spread = spread.view([outputs, time, 2, 2, frames, height, width].as_slice());
        // (o t h w) F H W -> (F t) o (H h) (W w)
        let spread = spread.permute([4, 1, 0, 5, 2, 6, 3]);
        let spread = spread.reshape([frames * time, outputs, 2 * height, 2 * width]);
        let first = if shortcut.last_only { time - 1 } else { 0 };
        (xs + spread.slice(0, first, None, 1)).permute([0, 2, 3, 1])
    }

    #[test]
    fn fused_upsampling_with_shortcut_matches_its_separate_steps() {
        // Shortcuts with as many, twice, four times, half as many channels, and with none of these.
        for (inputs, outputs) in [(6, 6), (6, 3), (8, 2), (3, 6), (4, 6)] {
            for (time, last_only) in [(1, false), (2, false), (2, true)] {
                if outputs * time * 4 % inputs != 0 {
                    continue;
                }
                let moments = if last_only { 1 } else { 2 };
                let frames = if last_only { 1 } else { moments * time };
                let xs = drawn(&[frames, 3, 5, outputs]);
                let before = drawn(&[moments, 3, 5, inputs]);
                let (weight, bias) = (drawn(&[outputs, outputs, 3, 3]), drawn(&[outputs]));
                let shortcut = ShortcutFrames {
                    frames: &before,
                    time,
                    last_only,
                };
                let found = DoublingConv::new(&weight, &bias).forward_with(&xs, &shortcut);
                let expected = in_steps(&xs, &weight, &bias, &shortcut);
                let off = distance(&found, &expected);
                assert!(off < 1e-6, "{inputs} → {outputs}, {time}: off by {off}");
            }
        }
    }
}
