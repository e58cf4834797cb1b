//! Checks that the results of earlier stages belong to this job and this model.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::WanTransformerConfig;
use tch::Tensor;

use super::config::WanConfig;
use super::denoise::WanConditioning;
use super::prepare::WanLatentShape;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::text::TextEmbeds;

/// Results of earlier stages are checked before anything is loaded.
pub(super) fn check_inputs(
    config: &WanConfig,
    request: &GenerateRequest,
    conditions: &WanConditioning<'_>,
    shape: WanLatentShape,
) -> Result<(), EngineError> {
    let embeds = conditions.embeds;
    let network = &config.transformer;
    let text = |embeds: &TextEmbeds| fits(&embeds.prompt, &[1, -1, network.text_dim]);
    let [_, channels, frames, height, width] = shape.size();
    let image_size = match network.condition_channels() {
        0 if config.files.expand_timesteps => Some([1, channels, 1, height, width]),
        0 => None,
        more => Some([1, more, frames, height, width]),
    };
    let control_size = [1, network.vace_in_channels, frames, height, width];
    let image = conditions.image_latents.map(Tensor::size);
    let needs_image = network.condition_channels() > 0;
    let problem = if !text(&embeds.prompt) || !embeds.negative.as_ref().is_none_or(text) {
        "the embeddings are not of this model"
    } else if request.is_guided() && embeds.negative.is_none() {
        "the negative prompt has not been read"
    } else if image.is_some() && image_size.is_none() {
        "this model cannot start from a picture"
    } else if image.is_none() && needs_image {
        "this model needs a picture to start from"
    } else if image.is_some_and(|size| Some(&size[..]) != image_size.as_ref().map(|s| &s[..])) {
        "the picture's latents are not of this job"
    } else if conditions
        .base
        .is_some_and(|base| base.size() != shape.size())
    {
        "the clip's latents are not of this job"
    } else if conditions
        .kept
        .is_some_and(|kept| kept.latents.size() != shape.size())
    {
        "what the mask keeps is not of this job"
    } else if network.has_control() != conditions.control.is_some() {
        "what the control blocks read is missing, or there are none"
    } else if conditions
        .control
        .is_some_and(|control| !fits(control.latents, &control_size))
    {
        "the control clip's latents are not of this job"
    } else if !fit_image_embeds(network, conditions.image_embeds) {
        "the picture's embeddings are not of this model"
    } else {
        return Ok(());
    };
    Err(EngineError::internal(problem))
}

/// Returns whether the image embeddings fit the network, or are absent for one that reads none.
fn fit_image_embeds(network: &WanTransformerConfig, embeds: Option<&Tensor>) -> bool {
    match (network.image_dim, embeds.map(Tensor::size).as_deref()) {
        (None, None) => true,
        (Some(width), Some(&[pictures, tokens, dim])) => {
            dim == width
                && network
                    .pos_embed_seq_len
                    .is_none_or(|places| pictures * tokens == places)
        }
        _ => false,
    }
}
