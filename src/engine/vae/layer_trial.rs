//! One layer of an autoencoder, computed by any backend: what a probe and a benchmark of backends run.

use std::ops::Range;

use safelight_core::compute::conv_backends::{ConvBackend, ConvDimensions, ShapeClass};
use tch::{Device, Kind, Tensor};

use super::causal::{CausalConv3d, ConvForm};
use crate::weights::{Weights, WeightsError};

/// Rows of the result that are compared at a time: all of them would keep a CPU busy for many seconds.
const COMPARED_ROWS: i64 = 8;

/// A convolution of 3 × 3, and as many taps in time, that gives as many channels as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialLayer {
    pub name: &'static str,
    pub channels: i64,
    /// 3, and 1 in what knows images alone.
    pub taps: i64,
    /// New frames, in addition to `taps - 1` cached ones.
    pub frames: i64,
    pub height: i64,
    pub width: i64,
}

/// The first and the last level of a decoder for videos at 256 × 256 and at 832 × 480, then those of one for images: in
/// tiles of 512 × 512, and in the bands that it makes of 1024 × 1024.
pub const TRIAL_LAYERS: [TrialLayer; 10] = [
    TrialLayer::new("conv_c384_1f_32x32", 384, 1, [32, 32]),
    TrialLayer::new("conv_c96_4f_256x256", 96, 4, [256, 256]),
    TrialLayer::new("conv_c384_1f_60x104", 384, 1, [60, 104]),
    TrialLayer::new("conv_c192_4f_240x416", 192, 4, [240, 416]),
    TrialLayer::new("conv_c96_4f_480x832", 96, 4, [480, 832]),
    TrialLayer::of_image("conv_c512_64x64", 512, [64, 64]),
    TrialLayer::of_image("conv_c128_512x512", 128, [512, 512]),
    TrialLayer::of_image("conv_c512_128x128", 512, [128, 128]),
    TrialLayer::of_image("conv_c256_512x512", 256, [512, 512]),
    TrialLayer::of_image("conv_c128_512x1024", 128, [512, 1024]),
];

impl TrialLayer {
    const fn new(name: &'static str, channels: i64, frames: i64, size: [i64; 2]) -> Self {
        Self {
            name,
            channels,
            taps: 3,
            frames,
            height: size[0],
            width: size[1],
        }
    }

    const fn of_image(name: &'static str, channels: i64, size: [i64; 2]) -> Self {
        Self {
            taps: 1,
            ..Self::new(name, channels, 1, size)
        }
    }

    /// Layers that represent a class.
    pub fn of_class(convolutions: ConvDimensions, class: ShapeClass) -> &'static [Self] {
        match (convolutions, class) {
            (ConvDimensions::Videos, ShapeClass::Small) => &TRIAL_LAYERS[..2],
            (ConvDimensions::Videos, ShapeClass::Large) => &TRIAL_LAYERS[2..5],
            (ConvDimensions::Images, ShapeClass::Small) => &TRIAL_LAYERS[5..7],
            (ConvDimensions::Images, ShapeClass::Large) => &TRIAL_LAYERS[7..],
        }
    }

    /// The layer with a fraction of the work, for machines without a GPU.
    pub fn small(self) -> Self {
        Self {
            channels: self.channels / 4,
            height: (self.height / 4).max(1),
            width: (self.width / 4).max(1),
            ..self
        }
    }
}

/// A layer with weights and frames, the same in every run.
#[derive(Debug)]
pub struct LayerTrial {
    /// `(frames + taps - 1, H, W, C)`
    xs: Tensor,
    /// `(C, C, taps, 3, 3)`
    weight: Tensor,
    bias: Tensor,
}

impl LayerTrial {
    pub fn new(layer: TrialLayer, kind: Kind, device: Device) -> Result<Self, WeightsError> {
        let w = Weights::random(kind, device);
        let (channels, taps) = (layer.channels, layer.taps);
        Ok(Self {
            xs: w.tensor(
                "frames",
                &[layer.frames + taps - 1, layer.height, layer.width, channels],
            )?,
            weight: w.tensor("weight", &[channels, channels, taps, 3, 3])?,
            bias: w.tensor("bias", &[channels])?,
        })
    }

    /// The layer as a network of this backend would have it, ready to run -> `(frames, H, W, C)`. For
    /// [`ConvBackend::NoMiopen`] the caller throws the switch.
    pub fn layer(&self, backend: ConvBackend) -> impl Fn() -> Tensor {
        let form = if self.weight.size()[2] == 1 {
            ConvForm::Images
        } else {
            ConvForm::of_backend(backend)
        };
        let conv = CausalConv3d::of_tensors(&self.weight, self.bias.shallow_clone(), form);
        move || conv.convolve(&self.xs, 1)
    }

    /// Relative error of a run's output `ys` against the definition in f32 on the CPU, at the top, the middle and the
    /// bottom;
    /// infinity if any element is NaN.
    pub fn error(&self, ys: &Tensor) -> f64 {
        if ys.isfinite().all().int64_value(&[]) == 0 {
            return f64::INFINITY;
        }
        let exact = |xs: &Tensor| xs.to_device(Device::Cpu).to_kind(Kind::Float);
        let (weight, bias) = (exact(&self.weight), exact(&self.bias));
        let conv = CausalConv3d::of_tensors(&weight, bias, ConvForm::Images);
        let height = self.xs.size()[1];
        let rows = COMPARED_ROWS.min(height);
        let [mut off, mut length] = [0.0; 2];
        for start in [0, (height - rows) / 2, height - rows] {
            let wanted = start..start + rows;
            let seen = (start - 1).max(0)..(start + rows + 1).min(height);
            let of =
                |xs: &Tensor, rows: &Range<i64>| xs.narrow(1, rows.start, rows.end - rows.start);
            let expected = conv.convolve(&exact(&of(&self.xs, &seen)), 1);
            let inside = wanted.start - seen.start..wanted.end - seen.start;
            let expected = of(&expected, &inside).to_kind(Kind::Double);
            let found = exact(&of(ys, &wanted)).to_kind(Kind::Double);
            off += (found - &expected)
                .square()
                .sum(Kind::Double)
                .double_value(&[]);
            length += expected.square().sum(Kind::Double).double_value(&[]);
        }
        let error = (off / length.max(f64::MIN_POSITIVE)).sqrt();
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Device = Device::Cpu;

    #[test]
    fn conv_backends_agree_and_wrong_results_are_detected() {
        for layer in TRIAL_LAYERS.map(TrialLayer::small).map(TrialLayer::small) {
            let trial = LayerTrial::new(layer, Kind::Float, CPU).unwrap();
            for backend in ConvBackend::ON_DEVICE {
                let ys = trial.layer(backend)();
                let size = [layer.frames, layer.height, layer.width, layer.channels];
                assert_eq!(ys.size(), size);
                let off = trial.error(&ys);
                assert!(off < 1e-5, "{}, {backend:?}: off by {off}", layer.name);
                assert!(trial.error(&(&ys * 1.1)) > 0.05);
                drop(ys.narrow(1, 0, 1).narrow(2, 0, 1).fill_(f64::NAN));
                assert_eq!(trial.error(&ys), f64::INFINITY);
            }
        }
    }

    #[test]
    fn a_border_that_is_wrong_is_seen() {
        let layer = TrialLayer::new("border", 8, 2, [40, 12]);
        let trial = LayerTrial::new(layer, Kind::Float, CPU).unwrap();
        for row in [0, 39] {
            let ys = trial.layer(ConvBackend::Frames)();
            drop(ys.narrow(1, row, 1).fill_(0.0));
            assert!(trial.error(&ys) > 1e-2, "row {row}");
        }
    }

    #[test]
    fn each_shape_class_has_its_own_self_test_layers() {
        let all = ShapeClass::ALL.map(|class| {
            ConvDimensions::ALL.map(|convolutions| {
                let layers = TrialLayer::of_class(convolutions, class);
                let last = layers.last().unwrap();
                let found = ShapeClass::of_pixels(last.width as u32, last.height as u32);
                assert_eq!(found, class);
                let is_videos = convolutions == ConvDimensions::Videos;
                assert!(layers.iter().all(|it| (it.taps > 1) == is_videos));
                layers.len()
            })
        });
        assert_eq!(all.as_flattened().iter().sum::<usize>(), TRIAL_LAYERS.len());
    }
}
