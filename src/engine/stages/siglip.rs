//! SigLIP as stages use it: opened in f32 whatever the transformer computes in, as it is small, and gone when it is
//! dropped.

use std::path::Path;

use safelight_core::job::JobFolder;
use safelight_core::networks::{NetworkConfig as _, ReduxConfig, SiglipConfig};
use tch::{Device, Kind, Tensor};

use super::job_images::{prompt_image, prompt_images_of_job};
use crate::placement::{ComputePlacement, build};
use crate::vision::{ReduxEmbedder, SiglipHead, SiglipImageProcessor, SiglipVisionEncoder};
use crate::{EngineError, StageWork};

pub(crate) struct SiglipStage {
    pub(crate) processor: SiglipImageProcessor,
    encoder: SiglipVisionEncoder,
    /// For records alone.
    head: Option<SiglipHead>,
}

impl SiglipStage {
    /// `home`: the encoder's folder or file; `processor`: the folder of its `preprocessor_config.json`, where it has one.
    pub(crate) fn open(
        home: &Path,
        processor: Option<&Path>,
        work: &StageWork<'_>,
    ) -> Result<Self, EngineError> {
        let config = SiglipConfig::read(home)?;
        let read_at = processor.unwrap_or(home);
        let processor = SiglipImageProcessor::read(processor)?;
        processor.check(config.image_size, read_at)?;
        let weights = exact(work).open(home)?;
        let new = |w: &_| SiglipVisionEncoder::new(&config, w);
        let unexpected = SiglipVisionEncoder::unexpected_keys;
        let encoder = build(&weights, "image encoder", work.hooks, new, unexpected)?;
        let head = if work.capture.is_on() {
            SiglipHead::read(&config, &weights)?
        } else {
            None
        };
        Ok(Self {
            processor,
            encoder,
            head,
        })
    }

    /// `pixels`: of the [processor](Self::processor) -> hidden states after the last norm, `(1, L, C)`; recorded under the
    /// image's `name`
    pub(crate) fn look(
        &self,
        name: &str,
        pixels: &Tensor,
        work: &mut StageWork<'_>,
    ) -> Result<Tensor, EngineError> {
        let states = tch::no_grad(|| self.encoder.encode_images(pixels, work.hooks));
        let states = states.ok_or(EngineError::Cancelled)?;
        let of = |part: &str| format!("image_encoder.{name}.{part}");
        work.capture.put(of("pixel_values"), pixels);
        work.capture.put(of("last_hidden_state"), &states);
        if let Some(head) = &self.head {
            let pooled = tch::no_grad(|| head.pooled(&states));
            work.capture.put(of("pooler_output"), &pooled);
        }
        Ok(states)
    }
}

/// Tokens of all image prompts of the job: `(1, L, C)` in f32 on the CPU; SigLIP's hidden states of each image, which Redux
/// embeds as text tokens.
///
/// A single image of strength 1 gives the result of diffusers' `FluxPriorReduxPipeline`. Strengths and several images
/// follow ComfyUI: each image's tokens are scaled, and all follow the text. (diffusers scales the text's tokens, too,
/// and adds up the tokens of several images.)
pub(crate) fn encode_image_prompts(
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let images = prompt_images_of_job(folder, request, work.capture)?;
    let files = request.files.image_prompts.as_ref();
    let files = files.ok_or_else(|| EngineError::request("there is nothing that reads images"))?;
    let mut seen = Vec::new();
    {
        // Unloaded before the second network is loaded.
        let looking =
            SiglipStage::open(&files.image_encoder, files.image_processor.as_deref(), work)?;
        for (index, image) in images.iter().enumerate() {
            let pixels = looking.processor.of_bytes(image)?;
            seen.push(looking.look(&prompt_image(index), &pixels, work)?);
        }
    }
    let config = ReduxConfig::read(&files.embedder)?;
    let weights = exact(work).open(&files.embedder)?;
    let new = |w: &_| ReduxEmbedder::new(&config, w);
    let unexpected = ReduxEmbedder::unexpected_keys;
    let embedder = build(&weights, "image embedder", work.hooks, new, unexpected)?;
    drop(weights);
    let chosen = seen.iter().zip(&request.prompt_images).enumerate();
    let tokens = chosen.map(|(index, (states, image))| {
        let embeds = tch::no_grad(|| embedder.forward(states));
        let name = format!("{}.embeds", prompt_image(index));
        work.capture.put(name, &embeds);
        (embeds * image.strength).to_device(Device::Cpu)
    });
    let tokens: Vec<Tensor> = tokens.collect();
    Ok(Tensor::cat(&tokens, 1))
}

/// The stage's placement, in f32.
fn exact(work: &StageWork<'_>) -> ComputePlacement {
    ComputePlacement {
        kind: Kind::Float,
        ..work.place
    }
}
