//! Feature maps between two layers, and layers applied to images that are too large for one pass.
//!
//! Layers run on a band of rows at a time, with the neighbouring rows that a convolution reaches. The result equals
//! that without bands: only norms and attention look further than one row, the norms' statistics are merged from all
//! bands, and the attention runs at latent resolution, where images are small.

use std::ops::Range;
use std::rc::Rc;

use tch::{Device, Kind, Tensor};

use super::norm::ChannelMoments;
use crate::runtime::memory_counts;
use crate::vae::tiles::Tiling;

/// An image in bands: how large they are, and where the rest of it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowBands {
    /// A layer takes as many pixels at a time as a square of this edge has; where channels are more than at the
    /// pixels, fewer.
    pub size: i64,
    /// True if feature maps wait off the device between two layers: the device then needs no more memory for a larger
    /// image, but nearly all time goes into copies. Decoding 2048 × 2048 in half precision on an H200 in bands of 256:
    /// 0.16 s and 2.5 GB on the device, 8 s and 0.6 GB off it; without bands 0.10 s and 5.6 GB.
    pub off_device: bool,
}

impl Default for RowBands {
    fn default() -> Self {
        Self {
            size: 512,
            off_device: false,
        }
    }
}

impl RowBands {
    /// Bands of as many pixels as a tile has. The rest waits on the device where it has room for that, as it is now.
    ///
    /// `pixels`: of the whole image, `width`: its channels there.
    pub(super) fn of_tiles(tiling: Tiling, pixels: i64, width: i64, pass: &ImagePass<'_>) -> Self {
        // Input and output of a layer, and the residual or the next level.
        let waiting = 3 * pixels * width * pass.kind.elt_size_in_bytes() as i64;
        Self {
            size: tiling.size,
            off_device: !has_room(pass.device, waiting as u64),
        }
    }
}

fn has_room(device: Device, bytes: u64) -> bool {
    let counts = memory_counts(device);
    let unused = counts.reserved.saturating_sub(counts.allocated);
    counts.total.saturating_sub(counts.used) + unused > bytes
}

/// One image's way through a network.
pub(super) struct ImagePass<'a> {
    /// Numbers that a layer may take or give at a time, and where the rest waits.
    bands: Option<(i64, Device)>,
    device: Device,
    kind: Kind,
    cancelled: &'a dyn Fn() -> bool,
}

impl<'a> ImagePass<'a> {
    pub(super) fn new(device: Device, kind: Kind, cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            bands: None,
            device,
            kind,
            cancelled,
        }
    }

    /// `width`: the channels of an image at the pixels; the layers there take up to twice as many.
    pub(super) fn in_bands(self, bands: RowBands, width: i64) -> Self {
        let pixels = bands.size.max(1).saturating_mul(bands.size.max(1));
        let waiting = if bands.off_device {
            Device::Cpu
        } else {
            self.device
        };
        Self {
            bands: Some((pixels.saturating_mul(2 * width), waiting)),
            ..self
        }
    }

    /// `None` once the job is cancelled, so that `?` leaves the network between any two layers or bands.
    pub(super) fn check_cancelled(&self) -> Option<()> {
        (!(self.cancelled)()).then_some(())
    }

    /// `layer` over all of `canvas`. It gets `(1, h, W, C)`, the rows that a band needs, and gives `(1, h', W', channels)`,
    /// the rows of the band alone.
    pub(super) fn over(
        &self,
        canvas: &BandedTensor,
        reach: RowMapping,
        channels: i64,
        layer: &BandLayer<'_>,
    ) -> Option<BandedTensor> {
        self.check_cancelled()?;
        let size = reach.size(canvas.size(), channels);
        let Some((most, waiting)) = self.split(canvas.size(), size) else {
            return Some(self.at_once(canvas, reach, size, layer));
        };
        let out = Tensor::empty([1, size[0], size[1], channels], (self.kind, waiting));
        let height = canvas.size()[0];
        let mut moments = Vec::new();
        for rows in bands(size[0], most) {
            self.check_cancelled()?;
            let band = RowBand::new(reach, rows, height);
            let ys = layer(&canvas.rows(band.input.clone(), self), &band);
            moments.push(band.put(&ys, &out));
        }
        Some(BandedTensor::known(out, &moments))
    }

    /// Like `over`, for a layer that reaches neighbouring rows and keeps the number of channels, into the memory of
    /// `canvas` if it has some: nothing else may read it afterwards.
    pub(super) fn over_in_place(
        &self,
        canvas: &BandedTensor,
        layer: &BandLayer<'_>,
    ) -> Option<BandedTensor> {
        let size = canvas.size();
        let Some((most, _)) = self.split(size, size) else {
            self.check_cancelled()?;
            return Some(self.at_once(canvas, RowMapping::Neighbours, size, layer));
        };
        let BandContent::There(out) = &canvas.content else {
            return self.over(canvas, RowMapping::Neighbours, size[2], layer);
        };
        let mut moments = Vec::new();
        // The last row of the band before, as it was.
        let mut above: Option<Tensor> = None;
        for rows in bands(size[0], most) {
            self.check_cancelled()?;
            let band = RowBand::new(RowMapping::Neighbours, rows, size[0]);
            let mut xs = canvas.rows(band.input.clone(), self);
            if let Some(row) = above.take() {
                xs = Tensor::cat(&[row, xs.narrow(1, 1, xs.size()[1] - 1)], 1);
            }
            let last = band.out.end - 1 - band.input.start;
            above = Some(xs.narrow(1, last, 1).copy());
            let ys = layer(&xs, &band);
            moments.push(band.put(&ys, out));
        }
        Some(BandedTensor::known(out.shallow_clone(), &moments))
    }

    fn at_once(
        &self,
        canvas: &BandedTensor,
        reach: RowMapping,
        size: [i64; 3],
        layer: &BandLayer<'_>,
    ) -> BandedTensor {
        let band = RowBand::new(reach, 0..size[0], canvas.size()[0]);
        BandedTensor::new(layer(&canvas.whole(self), &band))
    }

    /// Like `over`, for results that are too large to be kept: in bands only the statistics are kept, and rows are
    /// recomputed for each use.
    pub(super) fn over_and_again(
        &self,
        canvas: BandedTensor,
        reach: RowMapping,
        channels: i64,
        layer: Rc<BandLayer<'static>>,
    ) -> Option<BandedTensor> {
        let size = reach.size(canvas.size(), channels);
        let Some((most, _)) = self.split(canvas.size(), size) else {
            return self.over(&canvas, reach, channels, &*layer);
        };
        let content = BandContent::Made {
            source: Box::new(canvas),
            reach,
            size,
            layer,
        };
        let made = BandedTensor {
            content,
            moments: None,
        };
        let mut moments = Vec::new();
        for rows in bands(size[0], most) {
            self.check_cancelled()?;
            moments.push(ChannelMoments::from_pixels(&made.rows(rows, self)));
        }
        Some(BandedTensor {
            moments: Some(ChannelMoments::joined(&moments)),
            ..made
        })
    }

    /// Rows that a layer may make at a time and where the others wait; `None` when it may make all of them.
    fn split(&self, input: [i64; 3], out: [i64; 3]) -> Option<(i64, Device)> {
        let (numbers, waiting) = self.bands?;
        let per_row = (out[1] * out[2]).max(input.iter().product::<i64>() / out[0].max(1));
        let most = numbers / per_row.max(1);
        (most < out[0]).then_some((most, waiting))
    }
}

/// Rows `most` at a time, but two at least: a step that doubles them makes two of one.
fn bands(height: i64, most: i64) -> impl Iterator<Item = Range<i64>> {
    let most = (most / 2 * 2).max(2);
    (0..height)
        .step_by(most as usize)
        .map(move |start| start..(start + most).min(height))
}

/// Function of a layer, from the rows that a band needs to the band.
pub(super) type BandLayer<'a> = dyn Fn(&Tensor, &RowBand) -> Tensor + 'a;

pub(super) struct BandedTensor {
    content: BandContent,
    /// Statistics, if the image came in bands.
    moments: Option<ChannelMoments>,
}

enum BandContent {
    /// `(1, H, W, C)`, contiguous, anywhere
    There(Tensor),
    /// Output of a layer applied to another image.
    Made {
        source: Box<BandedTensor>,
        reach: RowMapping,
        size: [i64; 3],
        layer: Rc<BandLayer<'static>>,
    },
}

impl BandedTensor {
    pub(super) fn new(xs: Tensor) -> Self {
        Self {
            content: BandContent::There(xs),
            moments: None,
        }
    }

    /// With the statistics of its bands.
    fn known(xs: Tensor, moments: &[ChannelMoments]) -> Self {
        Self {
            content: BandContent::There(xs),
            moments: Some(ChannelMoments::joined(moments)),
        }
    }

    /// Height, width and channels.
    pub(super) fn size(&self) -> [i64; 3] {
        match &self.content {
            BandContent::There(xs) => {
                let size = xs.size();
                [size[1], size[2], size[3]]
            }
            BandContent::Made { size, .. } => *size,
        }
    }

    /// `(1, h, W, C)` where the weights are and in their kind.
    pub(super) fn rows(&self, rows: Range<i64>, pass: &ImagePass<'_>) -> Tensor {
        match &self.content {
            BandContent::There(xs) => xs
                .narrow(1, rows.start, rows.end - rows.start)
                .to_device(pass.device)
                .to_kind(pass.kind),
            BandContent::Made {
                source,
                reach,
                layer,
                ..
            } => {
                let band = RowBand::new(*reach, rows, source.size()[0]);
                layer(&source.rows(band.input.clone(), pass), &band)
            }
        }
    }

    pub(super) fn whole(&self, pass: &ImagePass<'_>) -> Tensor {
        self.rows(0..self.size()[0], pass)
    }

    /// Moments of each channel over the whole image; `None` if the image is not in bands.
    pub(super) fn moments(&self, pass: &ImagePass<'_>) -> Option<ChannelMoments> {
        pass.bands?;
        let known = self.moments.clone();
        Some(known.unwrap_or_else(|| ChannelMoments::from_pixels(&self.whole(pass))))
    }

    /// `(1, H, W, C)`, wherever it is
    pub(super) fn into_tensor(self, pass: &ImagePass<'_>) -> Tensor {
        match self.content {
            BandContent::There(xs) => xs,
            BandContent::Made { .. } => self.whole(pass),
        }
    }
}

/// Relation between the rows of a layer's output and input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowMapping {
    /// To each row its own.
    Pixel,
    /// And one above and below.
    Neighbours,
    /// Two rows out of each, which see the one above and below.
    Doubling,
    /// One out of two, which also sees the one below them.
    Halving,
}

impl RowMapping {
    /// Height, width and channels of what comes out.
    fn size(self, [height, width, _]: [i64; 3], channels: i64) -> [i64; 3] {
        let becomes = |edge: i64| match self {
            Self::Pixel | Self::Neighbours => edge,
            Self::Doubling => 2 * edge,
            Self::Halving => edge / 2,
        };
        [becomes(height), becomes(width), channels]
    }
}

/// Rows that a layer makes at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowBand {
    pub(super) out: Range<i64>,
    pub(super) input: Range<i64>,
    /// Rows that a layer makes of `input` above those of `out`.
    above: i64,
}

impl RowBand {
    /// `height`: that of all that goes in.
    fn new(reach: RowMapping, out: Range<i64>, height: i64) -> Self {
        let around = |rows: Range<i64>| (rows.start - 1).max(0)..(rows.end + 1).min(height);
        let (input, above) = match reach {
            RowMapping::Pixel => (out.clone(), 0),
            RowMapping::Neighbours => {
                let input = around(out.clone());
                let above = out.start - input.start;
                (input, above)
            }
            RowMapping::Doubling => {
                let input = around(out.start / 2..(out.end + 1) / 2);
                let above = out.start - 2 * input.start;
                (input, above)
            }
            RowMapping::Halving => (2 * out.start..(2 * out.end + 1).min(height), 0),
        };
        Self { out, input, above }
    }

    /// Puts `ys`, the band's own rows, where they belong in the whole image `out`, and says what is known of them.
    fn put(&self, ys: &Tensor, out: &Tensor) -> ChannelMoments {
        out.narrow(1, self.out.start, self.out.end - self.out.start)
            .copy_(ys);
        ChannelMoments::from_pixels(ys)
    }

    /// The band's own rows of what a layer made of all rows that it got.
    pub(super) fn trim(&self, ys: &Tensor) -> Tensor {
        ys.narrow(1, self.above, self.out.end - self.out.start)
    }
}
