//! Upscaling: each frame passes through the network as often as requested, and is then resized to the requested size.

use std::path::Path;

use safelight_core::footprint::TileSize;
use safelight_core::media::{RgbPixels, crop_to_aspect, resize_lanczos};
use tch::{Device, Kind, Tensor};

use super::run::FinishContext;
use super::tiles::{UpscaleCanvas, upscale};
use super::upscaler::LoadedUpscaler;
use crate::error::EngineError;
use crate::placement::dtype_name;

/// The frames of the job's source from the order's first one on.
pub(super) fn run(
    context: &FinishContext<'_>,
    network: &Path,
    passes: u32,
) -> Result<(), EngineError> {
    let (kind, device) = context.placement();
    let mut upscaler = LoadedUpscaler::open(network, kind, device)?;
    let after = context.request.after;
    context.source_frames(context.order.first_frame, &mut |number, image| {
        let mut image =
            crop_to_aspect(&image, after.width, after.height).map_err(|err| of_image(&err))?;
        for _ in 0..passes {
            image = sound(context, &mut upscaler, network, &image)?;
        }
        if (image.width, image.height) != (after.width, after.height) {
            image =
                resize_lanczos(&image, after.width, after.height).map_err(|err| of_image(&err))?;
        }
        context.send_frame(number, image);
        Ok(())
    })
}

/// One pass. Where the network makes no numbers in halves, it is loaded in f32 for good.
fn sound(
    context: &FinishContext<'_>,
    upscaler: &mut LoadedUpscaler,
    network: &Path,
    image: &RgbPixels,
) -> Result<RgbPixels, EngineError> {
    if let Some(made) = pass(context, upscaler, image)? {
        return Ok(made);
    }
    if upscaler.kind != Kind::Float {
        context.warn(format!(
            "the upscaler gave invalid pixels (NaN) in {}, so it computes in f32, which takes longer",
            dtype_name(upscaler.kind)
        ));
        *upscaler = LoadedUpscaler::open(network, Kind::Float, upscaler.device)?;
        if let Some(made) = pass(context, upscaler, image)? {
            return Ok(made);
        }
    }
    Err(EngineError::request(format!(
        "the upscaler gives invalid pixels (NaN): its file may be damaged: {}",
        network.display()
    )))
}

/// Output of the network for an image; `None` if it contains NaN.
fn pass(
    context: &FinishContext<'_>,
    upscaler: &LoadedUpscaler,
    image: &RgbPixels,
) -> Result<Option<RgbPixels>, EngineError> {
    let tiles = TileSize::within(
        context.free_bytes(upscaler.device),
        &upscaler.config,
        [image.width, image.height],
        upscaler.kind.elt_size_in_bytes() as u64,
        context.most_tile(),
    );
    let [height, width] = [image.height, image.width].map(i64::from);
    let scale = i64::from(upscaler.config.scale());
    let pixels = pixels(image, upscaler.device)?;
    let mut canvas = UpscaleCanvas::new(height * scale, width * scale);
    let mut is_sound = true;
    let done = upscale(
        upscaler,
        &pixels,
        tiles,
        &|| context.check_cancelled(),
        &mut |piece, corner| is_sound &= canvas.put(piece, corner),
    );
    if done.is_none() {
        return Err(EngineError::Cancelled);
    }
    if !is_sound {
        return Ok(None);
    }
    let rgb = canvas
        .into_rgb()
        .map_err(|err| EngineError::internal(err.to_string()))?;
    let made = RgbPixels::new((width * scale) as u32, (height * scale) as u32, rgb);
    made.map(Some).map_err(|err| of_image(&err))
}

/// Bytes to numbers from 0 to 1, `(1, 3, H, W)`.
pub(super) fn pixels(image: &RgbPixels, device: Device) -> Result<Tensor, EngineError> {
    let bytes = Tensor::f_from_slice(&image.rgb)
        .map_err(|err| EngineError::internal(err.to_string()))?
        .view([i64::from(image.height), i64::from(image.width), 3])
        .to_device(device);
    // h w c -> 1 c h w
    Ok(bytes.permute([2, 0, 1]).unsqueeze(0).to_kind(Kind::Float) / 255.0)
}

fn of_image(err: &safelight_core::media::MediaError) -> EngineError {
    EngineError::internal(err.to_string())
}
