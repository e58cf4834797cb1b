//! FLUX.1's text encoders: a pooled vector of CLIP and the hidden states of T5.

use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _};

use crate::error::EngineError;
use crate::text::{
    EncodedText, EncoderFiles, PaddingMode, PromptEmbeds, TextEmbeds, read_clip, read_t5,
};
use crate::work::StageWork;

/// Token limits of T5: in models with distilled guidance, and in the others.
const T5_LENGTHS: (usize, usize) = (512, 256);

pub(super) fn encode_text(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let request = work.request;
    let texts = EncodedText::all_of(request)?;
    tch::no_grad(|| {
        // CLIP is unloaded before T5 is loaded.
        let pooled = read_clip(&EncoderFiles::first(&request.files), &texts, work)?;
        let files = EncoderFiles::second(&request.files)?;
        let length = match request.max_sequence_length {
            Some(length) => length as usize,
            None if FluxTransformerConfig::read(&request.files.transformer)?.guidance_embeds => {
                T5_LENGTHS.0
            }
            None => T5_LENGTHS.1,
        };
        // Flux was trained to attend to padding.
        let prompts = read_t5(&files, &texts, length, PaddingMode::Seen, work)?;
        let embeds = prompts.into_iter().zip(pooled);
        let embeds = embeds.map(|(prompt, pooled)| TextEmbeds {
            pooled: Some(pooled),
            ..TextEmbeds::of_states(prompt.states)
        });
        PromptEmbeds::from_texts(&texts, embeds.collect(), work.capture)
    })
}
