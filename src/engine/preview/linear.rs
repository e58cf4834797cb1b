//! Latents as rough images, for watching them develop.
//!
//! A linear map from latent channels to colours: under a thousandth of a step's work. Not the VAE.

use safelight_core::model::LatentRgb;
use tch::{Device, Kind, Tensor};

/// A map made ready for the device.
#[derive(Debug)]
pub(super) struct LatentPreview {
    /// `(C, 3)`.
    factors: Tensor,
    /// `(3)`.
    bias: Tensor,
}

impl LatentPreview {
    /// The model's own map when it has one for this number of channels; otherwise its first three
    /// channels, which at least show shapes and motion.
    pub(super) fn new(map: Option<&LatentRgb>, num_channels: i64, device: Device) -> Self {
        let (factors, bias) = match map.filter(|map| map.factors.len() as i64 == num_channels) {
            Some(map) => (map.factors.concat(), map.bias),
            None => (first_channels(num_channels), [0.5; 3]),
        };
        Self {
            factors: Tensor::from_slice(&factors)
                .reshape([num_channels, 3])
                .to_device(device),
            bias: Tensor::from_slice(&bias).to_device(device),
        }
    }

    /// `latents`: `(1, C, f, h, w)`, normalised → `(f, h, w, 3)` bytes on the CPU.
    pub(super) fn images(&self, latents: &Tensor) -> Tensor {
        let colours = latents
            .squeeze_dim(0)
            .permute([1, 2, 3, 0]) // c f h w -> f h w c
            .to_kind(Kind::Float)
            .matmul(&self.factors)
            + &self.bias;
        (colours * 255.0)
            .round()
            .clamp(0.0, 255.0)
            .to_kind(Kind::Uint8)
            .to_device(Device::Cpu)
    }
}

fn first_channels(num_channels: i64) -> Vec<f32> {
    let mut factors = vec![0.0; num_channels as usize * 3];
    for colour in 0..(num_channels as usize).min(3) {
        factors[colour * 3 + colour] = 0.25;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_map_gives_its_colours() {
        let map = LatentRgb {
            factors: vec![[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]],
            bias: [0.0, 0.2, 0.0],
        };
        let preview = LatentPreview::new(Some(&map), 2, Device::Cpu);
        let latents = Tensor::from_slice(&[1.0_f32, 2.0]).reshape([1, 2, 1, 1, 1]);
        let bytes: Vec<u8> = preview.images(&latents).flatten(0, -1).try_into().unwrap();
        assert_eq!(bytes, [128, 51, 255]);
    }
}
