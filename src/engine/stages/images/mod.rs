//! Stages that all image models share: encoding of start, reference and control images, the denoising loop, decoding.

mod autoencoder;
mod controlnet;
mod decode;
mod denoise;
mod encode;
mod latents;
mod model;
mod state;

use decode::{decode, decoded_image};
use encode::{encode_controls, encode_image, encode_images};
use safelight_core::job::{JobFolder, Stage};
use tch::Tensor;

use super::StageContext;
use super::job_images::{self, PixelRestore};
use crate::tensor_files;
use crate::{EngineError, StageWork};

pub use controlnet::{
    ActiveControlNet, ActiveControlNets, ControlEncoding, ControlImage, ControlNet, NoControlNet,
    StreamControlNet, embed_tokens,
};
pub use denoise::{denoise, denoise_latents};
pub use encode::{ReferenceEncoding, StartImageMode};
pub(crate) use encode::{binary_mask, grey, soft_mask};
pub use latents::{ImageLatentShape, InpaintBlend, NoiseDraws, corner_mask, folded_mask, seeds};
pub use model::{
    CapturedInputs, ContextInput, ControlModulation, ForwardPass, ImageConditioning, ImageModel,
    LatentForm, ReferenceTokens, WeightsDialect, packed_size,
};
pub use state::{EncodedImage, EncodedImages};

/// Encodes the job's start image with its mask, control images and reference images to [`EncodedImages`].
pub(crate) fn encode_stage<M: ImageModel>(context: &StageContext<'_>) -> Result<(), EngineError> {
    let (request, folder) = (context.request(), context.folder());
    let image = request.image.as_ref();
    let image = image.map(|_| job_images::of_job(&folder, request).map(|(image, _)| image));
    let (image, mask) = (
        image.transpose()?,
        job_images::mask_of_job(&folder, request)?,
    );
    let images = context.part(|work| {
        for (name, given) in [("image", &image), ("mask", &mask)] {
            if let Some(given) = given {
                given.record(name, work.capture);
            }
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        let image = image.as_ref().map(|image| (&image.fitted, mask));
        if let Some(encoding) = M::REFERENCES
            && request.controls.is_empty()
            && (M::SEES_START_IMAGE || !request.references.is_empty())
        {
            let how = (encoding.image, encoding.has_alpha);
            let references = job_images::references_of_job(&folder, request, how, work.capture)?;
            return encode_images(image, &references, encoding, work);
        }
        let controls = controls_of(&folder, M::CONTROLS, work)?;
        let drawn = model::num_sampled_controls::<M>(controls.len());
        let is_mean = model::is_mean::<M>(request);
        let image = image.map(|(image, mask)| encode_image(image, mask, work, drawn, is_mean));
        Ok(EncodedImages {
            image: image.transpose()?,
            controls,
            ..EncodedImages::default()
        })
    })?;
    images.save(&context.own_result())
}

/// Latents of the job's control images, see [`encode_controls`]; those with a mask have one channel more, 1 where it keeps
/// them.
fn controls_of(
    folder: &JobFolder,
    encoding: ControlEncoding,
    work: &mut StageWork<'_>,
) -> Result<Vec<Tensor>, EngineError> {
    let request = work.request;
    let controls = job_images::controls_of_job(folder, request, work.capture)?;
    let controls = encode_controls(&controls, encoding, work)?;
    let masks = job_images::control_masks_of_job(folder, request)?;
    let both = controls.into_iter().zip(masks).map(|(latents, mask)| {
        let Some(mask) = mask else {
            return Ok(latents);
        };
        let hidden = corner_mask(
            &binary_mask(&mask, request.width, request.height)?,
            latents.size()[2],
        );
        let kept: Tensor = 1.0 - hidden;
        let kept = kept.to_device(latents.device());
        let kept = kept.expand([latents.size()[0], -1, -1, -1], false);
        Ok::<_, EngineError>(Tensor::cat(&[latents, kept], 1))
    });
    both.collect()
}

/// Encodes the first pass's upscaled image, with the references that it saw, to [`EncodedImages`]: posterior means, as a
/// sample would add noise. Control images are encoded again at the larger size.
pub(crate) fn enlarge_stage<M: ImageModel>(context: &StageContext<'_>) -> Result<(), EngineError> {
    let latents = tensor_files::read_one(&context.result(Stage::Denoise), "latents")?;
    let before = context.earlier(Stage::EncodeImage, EncodedImages::load)?;
    let images = context.part(|work| {
        let image = decoded_image(&latents, work)?;
        let controls = controls_of(&context.folder(), M::CONTROLS, work)?;
        let seeing = ReferenceEncoding::of(|seen, _| Ok(seen.clone()));
        let images = encode_images(Some((&image, None)), &[], seeing, work)?;
        Ok(EncodedImages { controls, ..images })
    })?;
    let images = EncodedImages {
        references: before.map(|images| images.references).unwrap_or_default(),
        ..images
    };
    images.save(&context.own_result())
}

/// Decodes latents to images. Pixels outside a mask are the start image's, to the byte; in models that fill only if the
/// request says so.
pub(crate) fn decode_stage(context: &StageContext<'_>) -> Result<(), EngineError> {
    let request = context.request();
    let latents = tensor_files::read_one(&context.result(Stage::Denoise), "latents")?;
    let images = context.earlier(Stage::EncodeImage, EncodedImages::load)?;
    let has_mask = images
        .and_then(|images| images.image)
        .is_some_and(|image| image.mask.is_some());
    let is_kept =
        has_mask && (StartImageMode::of(request) == StartImageMode::Base || request.keeps_unmasked);
    let kept = is_kept.then(|| PixelRestore::of_job(&context.folder(), request));
    let kept = kept.transpose()?;
    context.part(|work| work.decoded(|work| decode(&latents, kept.as_ref(), work)))
}
