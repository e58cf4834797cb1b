//! Stage 1: prompts to what T5 makes of them. Texts are read as they are written, and their tokens do not see padding.

use safelight_core::families::chroma::TEXT_TOKENS;
use tch::{Kind, Tensor};

use crate::error::EngineError;
use crate::text::{EncoderFiles, Padding, PromptEmbeds, Text, TextEmbeds, read_t5};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    let request = work.request;
    let texts = Text::all_of(request)?;
    let length = request.max_sequence_length.unwrap_or(TEXT_TOKENS);
    tch::no_grad(|| {
        let files = EncoderFiles::first(&request.files);
        let read = read_t5(&files, &texts, length as usize, Padding::Hidden, work)?;
        let embeds = read.into_iter().map(|read| TextEmbeds {
            mask: Some(with_one_more(&read.mask)),
            prompt: read.states,
            pooled: None,
        });
        PromptEmbeds::of(&texts, embeds.collect(), work.capture)
    })
}

/// The first token of the padding counts as text, too: `(1, T)` in f32
fn with_one_more(mask: &Tensor) -> Tensor {
    let count = mask.to_kind(Kind::Int64).sum(Kind::Int64);
    let places = Tensor::arange(mask.size()[1], (Kind::Int64, mask.device()));
    places.le_tensor(&count).unsqueeze(0).to_kind(Kind::Float)
}
