//! Qwen-Image 2.1's text encoder: Qwen 3 VL, which also sees the reference images.

use safelight_core::families::qwen_image_21::{IMAGE_MARK, LANGUAGE, PROMPT, SYSTEM, image_words};
use safelight_core::job::JobFolder;
use safelight_core::job::prompt::WeightedText;
use safelight_core::media::RgbPixels;
use safelight_core::networks::{NetworkConfig as _, Qwen3VisionConfig};
use safelight_core::tokens::PromptTemplate;
use tch::{Kind, Tensor};

use crate::stages::images::ReferenceEncoding;
use crate::stages::job_images::references_of_job;
use crate::text::{
    EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, TextImages, TokenBatch, embeds_of,
    read_with_images,
};
use crate::vision::{Qwen3VisionTower, resized_to_area};
use crate::{EngineError, StageCapture, StageWork};

/// Approximate number of pixels of a reference image, for text encoder and autoencoder alike.
const PIXELS: f64 = 1_048_576.0;

pub(super) const ENCODING: ReferenceEncoding =
    ReferenceEncoding::of(|image, _| resized_to_area(image, PIXELS)).with_alpha();

pub(super) fn encode_text(
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<PromptEmbeds, EngineError> {
    // Recorded where the autoencoder encodes them.
    let capture = &mut StageCapture::off();
    let how = (ENCODING.image, true);
    let references = references_of_job(folder, work.request, how, capture)?;
    let files = EncoderFiles::first(&work.request.files);
    embeds_of(work, |texts, work| {
        let texts: Vec<EncodedText> = texts.iter().map(not_empty).collect();
        let images = match &references[..] {
            [] => None,
            seen => Some(look_at(seen, &files, &texts, work)?),
        };
        // The system message is not read, however many tokens it has.
        let vocabulary = LANGUAGE.read(files.home)?.vocab_size;
        let tokenizer = files.tokenizer(PROMPT.length(), vocabulary)?;
        let template = PromptTemplate {
            dropped: TokenBatch::encode(SYSTEM, &tokenizer)?.num_tokens as usize,
            ..PROMPT
        };
        let how = (LANGUAGE, &template);
        let prompts = read_with_images(&files, &texts, how, images.as_ref(), work)?;
        let marked = |text: TextEmbeds| {
            if images.is_some() {
                text
            } else {
                text.without_mask()
            }
        };
        Ok(prompts.into_iter().map(marked).collect())
    })
}

/// The model reads a space where a text is empty.
fn not_empty(text: &EncodedText) -> EncodedText {
    let is_empty = text.parts.iter().all(|part| part.text.is_empty());
    EncodedText {
        parts: if is_empty {
            vec![WeightedText::plain(" ")]
        } else {
            text.parts.clone()
        },
        ..*text
    }
}

/// Reference images as the text encoder sees them.
fn look_at(
    references: &[RgbPixels],
    files: &EncoderFiles<'_>,
    texts: &[EncodedText],
    work: &mut StageWork<'_>,
) -> Result<TextImages, EngineError> {
    let config = Qwen3VisionConfig::read(files.home)?;
    let new = |w: &_| Qwen3VisionTower::new(&config, w);
    // Keys of the language model are reported when it is loaded.
    let tower = work.load(files.component, files.home, new, |_| Vec::new())?;
    let (mut patches, mut grids) = (Vec::new(), Vec::new());
    for image in references {
        let image = resized_to_area(image, PIXELS)?.over_white();
        let (own, grid) = tower.patches_of(&image)?;
        patches.push(own);
        grids.push(grid);
    }
    let patches = Tensor::cat(&patches, 0);
    let seen = tower.forward(&patches, &grids, work.hooks);
    let seen = seen.ok_or(EngineError::Cancelled)?;
    for text in texts {
        text.record(files, "in.pixel_values", &patches, work.capture);
        let last = &seen.last_hidden_state;
        text.record(files, "vision.last_hidden_state", last, work.capture);
        text.record(files, "vision.pooler_output", &seen.tokens, work.capture);
        for (number, xs) in seen.deepstack.iter().enumerate() {
            text.record(
                files,
                &format!("vision.deepstack.{number}"),
                xs,
                work.capture,
            );
        }
    }
    let merge = config.spatial_merge_size;
    let grids = grids.iter().map(|grid| grid.map(|edge| edge / merge));
    Ok(TextImages {
        spelled: image_words(references.len()),
        mark: IMAGE_MARK,
        grids: grids.collect(),
        tokens: seen.tokens.to_kind(Kind::Float),
        deepstack: seen.deepstack,
    })
}
