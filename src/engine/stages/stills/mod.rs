//! What families of single pictures have in common: sizes and noise of their latents, a given picture and a mask of it
//! before denoising, and latents to pictures behind it, all with an autoencoder of pictures.
//!
//! Knows no transformer and no family.

mod autoencoder;
mod begin;
mod decode;
mod given;
mod latents;
mod state;
mod walk;

use safelight_core::job::{JobFolder, Stage};
use tch::Tensor;

use super::StageContext;
use super::pictures::{self, KeptPixels};
use crate::error::EngineError;
use crate::families::Done;
use crate::store;
use crate::work::Work;

pub use begin::{BASE_STRENGTH, Beginning, Kept};
use decode::{decode, decoded_picture};
pub use given::{Role, Seeing, encode_controls, encode_image, encode_images};
pub(crate) use given::{binary_mask, grey, soft_mask};
pub use latents::{Draws, LatentShape, corner_mask, folded_mask, noised, seeds};
pub use state::{GivenImage, GivenImages};
pub use walk::{Conditions, StillModel, record_mask, record_places, walk_still};

/// The job's picture and mask to [`GivenImage`].
pub(crate) fn encode_image_stage(context: &StageContext<'_>) -> Done {
    let request = context.request();
    let (picture, _) = pictures::of_job(&context.folder(), request)?;
    let mask = pictures::mask_of_job(&context.folder(), request)?;
    let image = context.part(|work| {
        picture.record("image", work.capture);
        if let Some(mask) = &mask {
            mask.record("mask", work.capture);
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        encode_image(&picture.fitted, mask, work, 0)
    })?;
    image.save(&context.own_result())
}

/// The job's control pictures, and the picture and mask that it may have beside them, to [`GivenImages`]; `are_drawn` as
/// in [`encode_controls`].
pub(crate) fn encode_controlled_stage(context: &StageContext<'_>, are_drawn: bool) -> Done {
    let (request, folder) = (context.request(), context.folder());
    let image = request.image.as_ref();
    let image = image.map(|_| pictures::of_job(&folder, request).map(|(image, _)| image));
    let (image, mask) = (image.transpose()?, pictures::mask_of_job(&folder, request)?);
    let images = context.part(|work| {
        let controls = controls_of(&folder, are_drawn, work)?;
        for (name, given) in [("image", &image), ("mask", &mask)] {
            if let Some(given) = given {
                given.record(name, work.capture);
            }
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        let before = if are_drawn { controls.len() } else { 0 };
        let image = image.as_ref();
        let image = image.map(|image| encode_image(&image.fitted, mask, work, before));
        Ok(GivenImages {
            image: image.transpose()?,
            references: Vec::new(),
            controls,
        })
    })?;
    images.save(&context.own_result())
}

/// The latents of the job's control pictures, as [`encode_controls`] gives them; behind those that have a mask one channel
/// more, 1 where it keeps them.
fn controls_of(
    folder: &JobFolder,
    are_drawn: bool,
    work: &mut Work<'_>,
) -> Result<Vec<Tensor>, EngineError> {
    let request = work.request;
    let controls = pictures::controls_of_job(folder, request, work.capture)?;
    let controls = encode_controls(&controls, are_drawn, work)?;
    let masks = pictures::control_masks_of_job(folder, request)?;
    let both = controls.into_iter().zip(masks).map(|(latents, mask)| {
        let Some(mask) = mask else {
            return Ok(latents);
        };
        let hidden = corner_mask(&binary_mask(&mask, request.width, request.height)?);
        let kept: Tensor = 1.0 - hidden;
        let kept = kept.to_device(latents.device());
        let kept = kept.expand([latents.size()[0], -1, -1, -1], false);
        Ok::<_, EngineError>(Tensor::cat(&[latents, kept], 1))
    });
    both.collect()
}

/// The job's pictures to [`GivenImages`], for models that see pictures beside their own.
pub(crate) fn encode_images_stage(context: &StageContext<'_>, seeing: Seeing) -> Done {
    let (request, folder) = (context.request(), context.folder());
    let image = request.image.as_ref();
    let image = image.map(|_| pictures::of_job(&folder, request).map(|(image, _)| image));
    let (image, mask) = (image.transpose()?, pictures::mask_of_job(&folder, request)?);
    let images = context.part(|work| {
        let references =
            pictures::references_of_job(&folder, request, seeing.picture, work.capture)?;
        for (name, given) in [("image", &image), ("mask", &mask)] {
            if let Some(given) = given {
                given.record(name, work.capture);
            }
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        let image = image.as_ref().map(|image| (&image.fitted, mask));
        encode_images(image, &references, seeing, work)
    })?;
    images.save(&context.own_result())
}

/// What the first pass made, enlarged, to [`GivenImages`] with the references that it saw. Means are taken: a draw
/// would be noise that nobody asked for. Control pictures are encoded anew at the larger size; `are_drawn` as in
/// [`encode_controls`].
pub(crate) fn enlarge_stage(context: &StageContext<'_>, are_drawn: bool) -> Done {
    let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
    let before = context.earlier(Stage::EncodeImage, GivenImages::load)?;
    let images = context.part(|work| {
        let picture = decoded_picture(&latents, work)?;
        let controls = controls_of(&context.folder(), are_drawn, work)?;
        let seeing = Seeing::of(|seen, _| Ok(seen.clone()));
        let images = encode_images(Some((&picture, None)), &[], seeing, work)?;
        Ok(GivenImages { controls, ..images })
    })?;
    let images = GivenImages {
        references: before.map(|images| images.references).unwrap_or_default(),
        ..images
    };
    images.save(&context.own_result())
}

/// Latents to pictures. What a mask keeps is the given picture's own, to the
/// byte; in models that fill, which were trained to answer for all of it, where
/// that is asked for.
pub(crate) fn decode_stage(context: &StageContext<'_>) -> Done {
    let request = context.request();
    let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
    let images = context.earlier(Stage::EncodeImage, GivenImages::load)?;
    let has_mask = images
        .and_then(|images| images.image)
        .is_some_and(|image| image.mask.is_some());
    let is_kept = has_mask && (Role::of(request) == Role::Base || request.keeps_unmasked);
    let kept = is_kept.then(|| KeptPixels::of_job(&context.folder(), request));
    let kept = kept.transpose()?;
    context.part(|work| work.decoded(|work| decode(&latents, kept.as_ref(), work)))
}
