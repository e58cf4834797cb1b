//! Image prompts: SigLIP's hidden states of each image, which Redux embeds as text tokens.
//!
//! A single image of strength 1 gives the result of diffusers' `FluxPriorReduxPipeline`. Strengths and several images
//! follow ComfyUI: each image's tokens are scaled, and all follow the text. (diffusers scales the text's tokens, too,
//! and adds up the tokens of several images.)

use safelight_core::job::JobFolder;
use safelight_core::networks::{NetworkConfig as _, ReduxConfig};
use tch::{Device, Tensor};

use crate::error::EngineError;
use crate::placement::build;
use crate::stages::job_images::{prompt_image, prompt_images_of_job};
use crate::stages::siglip::{SiglipStage, exact};
use crate::vision::ReduxEmbedder;
use crate::work::StageWork;

/// Tokens of all image prompts of the job: `(1, L, C)` in f32 on the CPU
pub(super) fn encode_image_prompts(
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
