//! Pictures as prompts: what SigLIP sees in them, made tokens of a text by Redux, one picture's behind the other's.
//!
//! A single picture of strength 1 gives what diffusers' `FluxPriorReduxPipeline` gives. Strengths and several pictures
//! are ComfyUI's: each picture's own tokens are multiplied, and all stand behind the text. (diffusers multiplies the
//! text's tokens, too, and adds the tokens of several pictures up.)

use safelight_core::media::Picture;
use safelight_core::networks::{NetworkConfig as _, ReduxConfig};
use tch::{Device, Tensor};

use crate::error::EngineError;
use crate::place::made;
use crate::stages::looking::{Looking, exact};
use crate::stages::pictures::prompt_picture;
use crate::text::PromptEmbeds;
use crate::vision::ReduxEmbedder;
use crate::work::Work;

/// `pictures`: as they were opened -> their tokens, `(1, L of all, C)` in f32 on the CPU
pub fn encode_pictures(pictures: &[Picture], work: &mut Work<'_>) -> Result<Tensor, EngineError> {
    let request = work.request;
    let files = request.files.picture_prompts.as_ref();
    let files =
        files.ok_or_else(|| EngineError::request("there is nothing that reads pictures"))?;
    let mut seen = Vec::new();
    {
        // Gone before the second network is there.
        let looking = Looking::open(&files.image_encoder, files.image_processor.as_deref(), work)?;
        for (index, picture) in pictures.iter().enumerate() {
            let pixels = looking.processor.of_bytes(picture)?;
            seen.push(looking.look(&prompt_picture(index), &pixels, work)?);
        }
    }
    let config = ReduxConfig::read(&files.embedder)?;
    let weights = exact(work).open(&files.embedder)?;
    let new = |w: &_| ReduxEmbedder::new(&config, w);
    let unexpected = ReduxEmbedder::unexpected_keys;
    let embedder = made(&weights, "image embedder", work.hooks, new, unexpected)?;
    drop(weights);
    let chosen = seen.iter().zip(&request.prompt_pictures).enumerate();
    let tokens = chosen.map(|(index, (states, picture))| {
        let embeds = tch::no_grad(|| embedder.forward(states));
        let name = format!("{}.embeds", prompt_picture(index));
        work.capture.put(name, &embeds);
        (embeds * picture.strength).to_device(Device::Cpu)
    });
    let tokens: Vec<Tensor> = tokens.collect();
    Ok(Tensor::cat(&tokens, 1))
}

/// The texts with the pictures' `tokens` behind the prompt's own; the negative prompt has none.
pub fn with_pictures(mut embeds: PromptEmbeds, tokens: &Tensor) -> PromptEmbeds {
    let prompt = &mut embeds.prompt.prompt;
    let tokens = tokens.to_device(prompt.device()).to_kind(prompt.kind());
    *prompt = Tensor::cat(&[&*prompt, &tokens], 1);
    embeds
}
