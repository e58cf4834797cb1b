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
    context.source_frames(context.order.first_frame, &mut |number, picture| {
        let mut picture =
            crop_to_aspect(&picture, after.width, after.height).map_err(|err| of_picture(&err))?;
        for _ in 0..passes {
            picture = sound(context, &mut upscaler, network, &picture)?;
        }
        if (picture.width, picture.height) != (after.width, after.height) {
            picture = resize_lanczos(&picture, after.width, after.height)
                .map_err(|err| of_picture(&err))?;
        }
        context.send_frame(number, picture);
        Ok(())
    })
}

/// One pass. Where the network makes no numbers in halves, it is loaded in f32 for good.
fn sound(
    context: &FinishContext<'_>,
    upscaler: &mut LoadedUpscaler,
    network: &Path,
    picture: &RgbPixels,
) -> Result<RgbPixels, EngineError> {
    if let Some(made) = pass(context, upscaler, picture)? {
        return Ok(made);
    }
    if upscaler.kind != Kind::Float {
        context.warn(format!(
            "the upscaler gave invalid pixels (NaN) in {}, so it computes in f32, which takes longer",
            dtype_name(upscaler.kind)
        ));
        *upscaler = LoadedUpscaler::open(network, Kind::Float, upscaler.device)?;
        if let Some(made) = pass(context, upscaler, picture)? {
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
    picture: &RgbPixels,
) -> Result<Option<RgbPixels>, EngineError> {
    let tiles = TileSize::within(
        context.free_bytes(upscaler.device),
        &upscaler.config,
        [picture.width, picture.height],
        upscaler.kind.elt_size_in_bytes() as u64,
        context.most_tile(),
    );
    let [height, width] = [picture.height, picture.width].map(i64::from);
    let scale = i64::from(upscaler.config.scale());
    let pixels = pixels(picture, upscaler.device)?;
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
    made.map(Some).map_err(|err| of_picture(&err))
}

/// Bytes to numbers from 0 to 1, `(1, 3, H, W)`.
pub(super) fn pixels(picture: &RgbPixels, device: Device) -> Result<Tensor, EngineError> {
    let bytes = Tensor::f_from_slice(&picture.rgb)
        .map_err(|err| EngineError::internal(err.to_string()))?
        .view([i64::from(picture.height), i64::from(picture.width), 3])
        .to_device(device);
    // h w c -> 1 c h w
    Ok(bytes.permute([2, 0, 1]).unsqueeze(0).to_kind(Kind::Float) / 255.0)
}

fn of_picture(err: &safelight_core::media::MediaError) -> EngineError {
    EngineError::internal(err.to_string())
}
