//! Images as autoencoders have them, from and to bytes.
//!
//! Opening, cropping and resizing images is elsewhere.

use tch::{Device, Kind, Tensor};

use crate::error::EngineError;

/// Refuses an image whose edges are not multiples of `step`.
pub fn check_multiples(width: u32, height: u32, step: u32) -> Result<(), EngineError> {
    if [width, height]
        .iter()
        .all(|&edge| edge > 0 && edge.is_multiple_of(step))
    {
        return Ok(());
    }
    Err(EngineError::request(format!(
        "this model makes widths and heights that are multiples of {step}, not {width}×{height}"
    )))
}

/// RGB bytes, row by row, to what the VAE reads: `(1, 3, H, W)` in -1..1.
pub fn pixels_from_rgb8(rgb: &[u8], width: u32, height: u32) -> Result<Tensor, EngineError> {
    let (width, height) = (i64::from(width), i64::from(height));
    if rgb.len() as i64 != width * height * 3 {
        return Err(EngineError::internal(format!(
            "a {width}×{height} image cannot have {} bytes",
            rgb.len()
        )));
    }
    let bytes = Tensor::from_slice(rgb).view([height, width, 3]);
    // h w c -> 1 c h w
    let pixels = bytes.permute([2, 0, 1]).unsqueeze(0).to_kind(Kind::Float) / 255.0;
    Ok((pixels * 2.0 - 1.0).contiguous())
}

/// Like [`rgb8_from_pixels`], but refuses NaN, which would become black.
///
/// One more pass on the device, which is synchronised once, for the bytes.
pub fn checked_rgb8(pixels: &Tensor) -> Result<Tensor, EngineError> {
    // NaN is both the minimum and the maximum.
    let (least, most) = pixels.aminmax(None::<i64>, false);
    let both = Tensor::stack(&[least, most], 0);
    let bytes = rgb8_from_pixels(pixels);
    if both.isfinite().all().int64_value(&[]) == 1 {
        Ok(bytes)
    } else {
        Err(EngineError::InvalidPixels)
    }
}

/// `(1, 3, F, H, W)` in -1..1 to bytes, `(F, H, W, 3)` on the CPU.
pub fn rgb8_from_pixels(pixels: &Tensor) -> Tensor {
    let unit = (pixels.to_kind(Kind::Float) * 0.5 + 0.5).clamp(0.0, 1.0);
    // 1 c f h w -> f h w c
    (unit * 255.0)
        .round()
        .to_kind(Kind::Uint8)
        .squeeze_dim(0)
        .permute([1, 2, 3, 0])
        .to_device(Device::Cpu)
        .contiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rgb_bytes_round_trip_through_float_pixels() {
        let bytes: Vec<u8> = (0..=255).flat_map(|b| [b, 255 - b, b / 2]).collect();
        let pixels = pixels_from_rgb8(&bytes, 16, 16).unwrap();
        let back = rgb8_from_pixels(&pixels.unsqueeze(2));
        let back: Vec<u8> = back.flatten(0, 3).try_into().unwrap();
        assert_eq!(back, bytes);
        assert!(pixels_from_rgb8(&bytes, 16, 15).is_err());
    }

    #[test]
    fn pixels_that_are_no_numbers_are_refused() {
        for kind in [Kind::Half, Kind::BFloat16, Kind::Float] {
            for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let pixels = Tensor::full([1, 3, 1, 2, 2], 0.5, (kind, Device::Cpu));
                let bytes = checked_rgb8(&pixels).unwrap();
                assert_eq!(bytes, rgb8_from_pixels(&pixels));
                drop(pixels.narrow(3, 1, 1).narrow(4, 0, 1).fill_(number));
                let err = checked_rgb8(&pixels).unwrap_err();
                assert!(matches!(err, EngineError::InvalidPixels), "{kind:?}: {err}");
            }
        }
    }
}
