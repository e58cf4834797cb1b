//! Causal convolutions over time with replicated borders, over a whole video.
//!
//! Computed as 2-D convolutions, each frame with its predecessors as more channels, a few frames at a time: the
//! normalised input exists only for these frames, never for the whole video.

use std::collections::VecDeque;
use std::ops::Range;

use tch::{Kind, Tensor};

use crate::kernels;
use crate::nn::{ConvBias, channels_innermost, convolve_strided};
use crate::vae::doubling::DoublingConv;
use crate::weights::{Weights, WeightsError};

const TAPS: i64 = 3;

/// Numbers that frames with their predecessors and borders may be at a time: 512 MB in halves.
const MAX_GATHERED: i64 = 1 << 28;

/// `None` once the job is cancelled, so that `?` leaves the network between any two parts of a layer.
pub(super) type GoOn<'a> = &'a dyn Fn() -> Option<()>;

/// Preparation of frames before the convolution: `(n, H, W, C)` to the same size.
pub(super) type PrepareFrames<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// 3 × 3 × 3, with a step of 1 or 2 in time and in space.
#[derive(Debug)]
pub(super) struct CausalConv {
    /// `(O, 3 C, 3, 3)`, the temporal taps concatenated, channels innermost in memory
    weight: Tensor,
    /// The taps' sum, `(O, C, 3, 3)`: all that a video of one frame needs.
    still: Tensor,
    bias: ConvBias,
    time_step: i64,
    space_step: i64,
}

impl CausalConv {
    pub(super) fn new(w: &Weights, widths: [i64; 2]) -> Result<Self, WeightsError> {
        Self::with_steps(w, widths, [1, 1])
    }

    /// `[time, space]`: the steps.
    pub(super) fn with_steps(
        w: &Weights,
        widths: [i64; 2],
        [time_step, space_step]: [i64; 2],
    ) -> Result<Self, WeightsError> {
        let (weight, bias) = read(w, widths)?;
        let exact = weight.to_kind(Kind::Double);
        let still = exact.sum_dim_intlist([2_i64].as_slice(), false, Kind::Double);
        Ok(Self {
            still: channels_innermost(&still.to_kind(weight.kind())),
            weight: taps_as_channels(&weight),
            bias: ConvBias::new(bias),
            time_step,
            space_step,
        })
    }

    /// Bias that has to be added to each channel of the output of [`over`](Self::over): `(O)` in f32.
    pub(super) fn lacking(&self) -> Option<&Tensor> {
        self.bias.lacking()
    }

    /// Convolves `video`, `(T, H, W, C)`, a few frames at a time, and gives each part, `(n, h, w, O)`, and which frames of
    /// the result it is, to `part`. `None` as soon as `part` gives that.
    pub(super) fn over(
        &self,
        video: &Tensor,
        prepare: PrepareFrames<'_>,
        part: &mut dyn FnMut(Range<i64>, Tensor) -> Option<()>,
    ) -> Option<()> {
        let frames = video.size()[0];
        if frames == 1 {
            let rows = with_borders(&[vec![prepare(video).squeeze_dim(0)]]);
            return part(0..1, self.convolve(&rows, &self.still));
        }
        let count = (frames - 1) / self.time_step + 1;
        let mut ready = PreparedFrames::new(video, prepare);
        for range in parts_of(count, video, TAPS) {
            let first = range.start * self.time_step - (TAPS - 1);
            let last = (range.end - 1) * self.time_step;
            ready.hold(first, last);
            let taps = range.clone().map(|at| {
                let newest = at * self.time_step;
                let taps = (0..TAPS).map(|tap| ready.frame(newest + tap - (TAPS - 1)));
                taps.collect()
            });
            let rows = with_borders(&taps.collect::<Vec<_>>());
            part(range, self.convolve(&rows, &self.weight))?;
        }
        Some(())
    }

    /// The whole result, `(t, h, w, O)`.
    pub(super) fn forward(
        &self,
        video: &Tensor,
        prepare: PrepareFrames<'_>,
        go_on: GoOn<'_>,
    ) -> Option<Tensor> {
        self.collected(video, prepare, go_on, true)
    }

    /// Like `forward`, without the [lacking](Self::lacking) bias.
    pub(super) fn forward_bare(
        &self,
        video: &Tensor,
        prepare: PrepareFrames<'_>,
        go_on: GoOn<'_>,
    ) -> Option<Tensor> {
        self.collected(video, prepare, go_on, false)
    }

    fn collected(
        &self,
        video: &Tensor,
        prepare: PrepareFrames<'_>,
        go_on: GoOn<'_>,
        is_whole: bool,
    ) -> Option<Tensor> {
        let frames = (video.size()[0] - 1) / self.time_step + 1;
        let mut collected = CollectedFrames::new(frames);
        self.over(video, prepare, &mut |range, mut ys| {
            go_on()?;
            if is_whole && self.lacking().is_some() {
                kernels::add_to_pixels(&mut ys, None, self.lacking());
            }
            collected.put(range, ys);
            Some(())
        })?;
        collected.take()
    }

    fn convolve(&self, rows: &Tensor, weight: &Tensor) -> Tensor {
        convolve_strided(rows, weight, self.bias.fused(), [0, 0], self.space_step)
    }
}

/// Edges doubled, and frames too but for the first, then a convolution 3 × 3 × 3: as fewer taps over the video before
/// doubling.
#[derive(Debug)]
pub(super) enum UpConv {
    /// Only the edges: over the frame and the two before it.
    Space(DoublingConv),
    /// The two frames that two neighbours become: the later one's first, then its second.
    Both([DoublingConv; 2]),
}

impl UpConv {
    pub(super) fn new(w: &Weights, width: i64, doubles_time: bool) -> Result<Self, WeightsError> {
        let (weight, bias) = read(w, [width, width])?;
        if !doubles_time {
            let weight = taps_as_channels(&weight);
            return Ok(Self::Space(DoublingConv::new(&weight, &bias)));
        }
        let kind = weight.kind();
        let exact = weight.to_kind(Kind::Double);
        let tap = |tap: i64| exact.narrow(2, tap, 1);
        // Of three neighbouring frames after doubling, two come from one frame.
        let [early, late] = [[tap(0) + tap(1), tap(2)], [tap(0), tap(1) + tap(2)]].map(|taps| {
            let weight = taps_as_channels(&Tensor::cat(&taps, 2)).to_kind(kind);
            DoublingConv::new(&weight, &bias)
        });
        Ok(Self::Both([early, late]))
    }

    /// `(T, H, W, C)` → `(T, 2H, 2W, C)` or `(2T - 1, 2H, 2W, C)`
    pub(super) fn forward(&self, video: &Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        let size = video.size();
        let frames = size[0];
        let frame = |at: i64| video.get(at.clamp(0, frames - 1));
        match self {
            Self::Space(conv) => {
                let mut collected = CollectedFrames::new(frames);
                // The output has four times the pixels, each with one corner's values.
                for range in parts_of(frames, video, 4 * 2) {
                    go_on()?;
                    let taps = range
                        .clone()
                        .map(|at| vec![frame(at - 2), frame(at - 1), frame(at)]);
                    let rows = with_borders(&taps.collect::<Vec<_>>());
                    collected.put(range, conv.forward_bordered(&rows));
                }
                collected.take()
            }
            Self::Both([early, late]) => {
                let doubled = [2 * frames - 1, 2 * size[1], 2 * size[2], size[3]];
                let out = Tensor::empty(doubled, (video.kind(), video.device()));
                let rows = with_borders(&[vec![frame(0), frame(0)]]);
                out.narrow(0, 0, 1).copy_(&late.forward_bordered(&rows));
                for range in parts_of(frames - 1, video, 4 * 2) {
                    go_on()?;
                    let taps = range.clone().map(|at| vec![frame(at), frame(at + 1)]);
                    let rows = with_borders(&taps.collect::<Vec<_>>());
                    for (conv, first) in [(early, 1), (late, 2)] {
                        let start = 2 * range.start + first;
                        let end = 2 * (range.end - 1) + first + 1;
                        out.slice(0, start, end, 2)
                            .copy_(&conv.forward_bordered(&rows));
                    }
                }
                Some(out)
            }
        }
    }
}

/// A convolution of single numbers of a video, as a matrix.
#[derive(Debug)]
pub(super) struct PointConv {
    weight: Tensor,
    bias: Tensor,
}

impl PointConv {
    pub(super) fn new(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[outputs, inputs, 1, 1, 1])?;
        Ok(Self {
            weight: weight.view([outputs, inputs]),
            bias: w.tensor("bias", &[outputs])?,
        })
    }

    /// `(.., C)` → `(.., O)`
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        xs.linear(&self.weight, Some(&self.bias))
    }
}

/// The frames of a result, put together without a copy where they come at once.
struct CollectedFrames {
    frames: i64,
    whole: Option<Tensor>,
}

impl CollectedFrames {
    fn new(frames: i64) -> Self {
        Self {
            frames,
            whole: None,
        }
    }

    fn put(&mut self, range: Range<i64>, part: Tensor) {
        if range.end - range.start == self.frames {
            self.whole = Some(part);
            return;
        }
        let mut size = part.size();
        size[0] = self.frames;
        let options = (part.kind(), part.device());
        let whole = self
            .whole
            .get_or_insert_with(|| Tensor::empty(size, options));
        whole
            .narrow(0, range.start, range.end - range.start)
            .copy_(&part);
    }

    fn take(self) -> Option<Tensor> {
        self.whole
    }
}

/// The frames of a video that are prepared: those that the next part of a result needs.
struct PreparedFrames<'a> {
    video: &'a Tensor,
    prepare: PrepareFrames<'a>,
    first: i64,
    frames: VecDeque<Tensor>,
}

impl<'a> PreparedFrames<'a> {
    fn new(video: &'a Tensor, prepare: PrepareFrames<'a>) -> Self {
        Self {
            video,
            prepare,
            first: 0,
            frames: VecDeque::new(),
        }
    }

    /// Prepares missing frames up to `last` and drops those before `first`, except the video's first frame while it
    /// replaces its predecessors.
    fn hold(&mut self, first: i64, last: i64) {
        let done = self.first + self.frames.len() as i64;
        if last >= done {
            let new = (self.prepare)(&self.video.narrow(0, done, last + 1 - done));
            self.frames.extend(new.unbind(0));
        }
        while self.first < first {
            self.first += 1;
            drop(self.frames.pop_front());
        }
    }

    fn frame(&self, at: i64) -> &Tensor {
        &self.frames[(at.max(0) - self.first) as usize]
    }
}

/// `(O, C, 3, 3, 3)` and `(O)`
fn read(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<(Tensor, Tensor), WeightsError> {
    let weight = w.tensor("weight", &[outputs, inputs, TAPS, 3, 3])?;
    Ok((weight, w.tensor("bias", &[outputs])?))
}

/// `(O, C, t, h, w)` → `(O, t C, h, w)`
fn taps_as_channels(weight: &Tensor) -> Tensor {
    // o c t h w -> o (t c) h w
    channels_innermost(&weight.transpose(1, 2).flatten(1, 2))
}

/// Ranges of `count` frames of results, each made of about as much as may be at hand: `copies` of the video's frames.
fn parts_of(count: i64, video: &Tensor, copies: i64) -> impl Iterator<Item = Range<i64>> + use<> {
    let per_frame = video.size()[1..].iter().product::<i64>() * copies;
    let step = (MAX_GATHERED / per_frame.max(1)).max(1);
    (0..count)
        .step_by(step as usize)
        .map(move |start| start..count.min(start + step))
}

/// Frames concatenated as channels, with a replicated border of one pixel: `taps` lists of `n` frames `(H, W, C)` to
/// `(n, H + 2, W + 2, taps · C)`
fn with_borders<T: std::borrow::Borrow<Tensor>>(taps: &[Vec<T>]) -> Tensor {
    let like = taps[0][0].borrow();
    let size = like.size();
    let [height, width, channels] = [size[0], size[1], size[2]];
    let all = [
        taps.len() as i64,
        height + 2,
        width + 2,
        taps[0].len() as i64 * channels,
    ];
    let rows = Tensor::empty(all, (like.kind(), like.device()));
    let inner = rows.narrow(1, 1, height).narrow(2, 1, width);
    for (n, frames) in (0..).zip(taps) {
        for (tap, frame) in (0..).zip(frames) {
            inner
                .get(n)
                .narrow(2, tap * channels, channels)
                .copy_(frame.borrow());
        }
    }
    // The edges' pixels first, then whole rows with their corners.
    for (dim, last) in [(2, width + 1), (1, height + 1)] {
        for (border, edge) in [(0, 1), (last, last - 1)] {
            rows.select(dim, border).copy_(&rows.select(dim, edge));
        }
    }
    rows
}
