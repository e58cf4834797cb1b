//! Qwen-Image's text encoder: Qwen 2.5 VL with a prompt to describe an image, or to edit the reference images that it sees.

use safelight_core::families::qwen_image::{
    EDIT_PROMPT, IMAGE_MARK, LANGUAGE, PROMPT, image_words,
};
use safelight_core::job::JobFolder;
use safelight_core::media::RgbPixels;
use safelight_core::networks::{NetworkConfig as _, QwenVisionConfig};
use tch::{Kind, Tensor};

use crate::stages::images::ReferenceEncoding;
use crate::stages::job_images::references_of_job;
use crate::text::{
    EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, TextImages, embeds_of, read_with_images,
};
use crate::vision::{QwenVisionTower, patches_of, resized_to_area};
use crate::{EngineError, StageCapture, StageWork};

/// Approximate number of pixels of a reference image for the text encoder.
const TEXT_PIXELS: f64 = 147456.0;
/// Approximate number of pixels of a reference image for the autoencoder.
const LATENT_PIXELS: f64 = 1048576.0;

pub(super) const ENCODING: ReferenceEncoding =
    ReferenceEncoding::of(|image, _| resized_to_area(image, LATENT_PIXELS));

pub(super) fn encode_text(
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<PromptEmbeds, EngineError> {
    // Recorded where the autoencoder encodes them.
    let capture = &mut StageCapture::off();
    let how = (ENCODING.image, false);
    let references = references_of_job(folder, work.request, how, capture)?;
    let files = EncoderFiles::first(&work.request.files);
    embeds_of(work, |texts, work| {
        let images = match &references[..] {
            [] => None,
            seen => Some(look_at(seen, &files, texts, work)?),
        };
        let template = images.as_ref().map_or(&PROMPT, |_| &EDIT_PROMPT);
        let how = (LANGUAGE, template);
        let prompts = read_with_images(&files, texts, how, images.as_ref(), work)?;
        // Without padding.
        Ok(prompts.into_iter().map(TextEmbeds::without_mask).collect())
    })
}

/// Reference images as the text encoder sees them.
fn look_at(
    references: &[RgbPixels],
    files: &EncoderFiles<'_>,
    texts: &[EncodedText],
    work: &mut StageWork<'_>,
) -> Result<TextImages, EngineError> {
    let config = QwenVisionConfig::read(files.home)?;
    let new = |w: &_| QwenVisionTower::new(&config, w);
    // Keys of the language model are reported when it is loaded.
    let tower = work.load(files.component, files.home, new, |_| Vec::new())?;
    let (mut patches, mut grids) = (Vec::new(), Vec::new());
    for (number, image) in references.iter().enumerate() {
        let image = resized_to_area(image, TEXT_PIXELS)?;
        if work.capture.is_on() {
            let size = [i64::from(image.height), i64::from(image.width), 3];
            let bytes = Tensor::from_slice(&image.rgb).view(size);
            let name = format!("reference.{number}.condition_u8");
            work.capture.put(name, &bytes);
        }
        let (own, grid) = patches_of(&image, &config)?;
        patches.push(own);
        grids.push(grid);
    }
    let patches = Tensor::cat(&patches, 0);
    let seen = tower.forward(&patches, &grids, work.hooks);
    let seen = seen.ok_or(EngineError::Cancelled)?;
    let sizes = grids
        .iter()
        .flat_map(|[rows, columns]| [1, *rows, *columns]);
    let sizes = Tensor::from_slice(&sizes.collect::<Vec<i64>>()).view([-1, 3]);
    for text in texts {
        for (part, xs) in [
            ("in.pixel_values", &patches),
            ("in.image_grid_thw", &sizes),
            ("vision.last_hidden_state", &seen.last_hidden_state),
            ("vision.pooler_output", &seen.tokens),
        ] {
            text.record(files, part, xs, work.capture);
        }
    }
    let merge = config.spatial_merge_size;
    Ok(TextImages {
        spelled: image_words(references.len()),
        mark: IMAGE_MARK,
        grids: grids
            .iter()
            .map(|grid| grid.map(|edge| edge / merge))
            .collect(),
        tokens: seen.tokens.to_kind(Kind::Float),
        deepstack: Vec::new(),
    })
}
