//! Prompts of any length through CLIP-L and OpenCLIP's bigG, as SDXL reads them.
//!
//! Hidden states before the last layer of both encoders are side by side; chunks of 77 tokens follow each other. The pooled
//! vector is bigG's projection of the first chunk, without weights. Unlike diffusers, and as in ComfyUI and A1111, an
//! empty negative prompt is encoded, and both encoders have the ids of one tokenizer.
//!
//! Shapes: `N` chunks of a text, `L` tokens of a chunk, `C` width.

use safelight_core::job::GenerateRequest;
use safelight_core::job::prompt::BracketUse;
use safelight_core::lora::{self, LoraTarget};
use safelight_core::networks::{ClipConfig, ClipG, ClipKind, ClipL, NetworkConfig as _};
use safelight_core::tokens::{CHUNK_TOKENS, ClipChunk, ClipToken, EmbeddingName};
use tch::{Device, Kind, Tensor};

use super::clip::EmbeddedRow;
use super::encode::CLIP_LENGTH;
use super::weighting::{weigh, weigh_and_rescale};
use super::{
    ClipTextEncoder, EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, TokenBatch, embeds_of,
};
use crate::error::EngineError;
use crate::weights::Weights;
use crate::work::StageWork;

/// Last layers whose output is not read.
const SKIPPED_LAYERS: usize = 1;
/// The id that bigG is padded with; CLIP-L is padded with the end.
const BIG_G_PADDING: i64 = 0;

/// Embeddings of all texts of the job.
pub fn sdxl_embeds(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let files = &work.request.files;
    embeds_of(work, |texts, work| {
        let files = [
            EncoderFiles::first(files),
            EncoderFiles::second_of_one_tokenizer(files)?,
        ];
        let first = read_chunks::<ClipL>(&files[0], (lora::CLIP, None), texts, work)?;
        let padding = Some(BIG_G_PADDING);
        let second = read_chunks::<ClipG>(&files[1], (lora::CLIP_G, padding), texts, work)?;
        let both = first.into_iter().zip(second);
        Ok(both
            .map(|(first, second)| TextEmbeds {
                prompt: Tensor::cat(&[first.prompt, second.prompt], -1),
                ..second
            })
            .collect())
    })
}

/// Each text through one encoder, on the CPU. `padding`: the end token when absent.
fn read_chunks<K: ClipKind>(
    files: &EncoderFiles<'_>,
    (lora, padding): (LoraTarget, Option<i64>),
    texts: &[EncodedText],
    work: &mut StageWork<'_>,
) -> Result<Vec<TextEmbeds>, EngineError> {
    let config = ClipConfig::<K>::read(files.home)?;
    let tokenizer = files.tokenizer(CLIP_LENGTH as usize, config.vocab_size)?;
    let new = |w: &_| ClipTextEncoder::new(&config, w);
    let unexpected = ClipTextEncoder::unexpected_keys::<K>;
    let encoder = files.encoder(Some(lora), work, new, unexpected)?;
    let empty = tokenizer.encode("")?;
    let [start, end] = [0, 1].map(|at| empty.ids[at]);
    let batch = |chunks: &[ClipChunk]| batch_of(chunks, [start, end, padding.unwrap_or(end)]);
    let embeddings = read_embeddings(K::IS_PROJECTED, config.hidden_size, work.request)?;
    let names = work.request.embeddings.iter().zip(&embeddings);
    let names = names.map(|(it, rows)| EmbeddingName {
        name: &it.name,
        rows: rows.size()[0] as usize,
    });
    let names: Vec<EmbeddingName<'_>> = names.collect();
    let brackets = work.request.options.bracket_use(work.request.family);
    let read = texts.iter().map(|text| {
        let chunks = tokenizer.clip_chunks(&text.parts, brackets, &names)?;
        let tokens = batch(&chunks);
        let encode = |tokens: &TokenBatch, rows: &[EmbeddedRow]| {
            let states = encoder.states(&tokens.ids, rows, SKIPPED_LAYERS, work.hooks);
            states.ok_or(EngineError::Cancelled)
        };
        let states = encode(&tokens, &embedded_rows(&chunks, &embeddings))?;
        text.record_tokens(files, &tokens, work.capture);
        let layer = config.num_hidden_layers - SKIPPED_LAYERS as i64;
        let name = format!("hidden_states.{layer}");
        text.record(files, &name, &states.hidden, work.capture);
        if let Some(projected) = &states.projected {
            text.record(files, "text_embeds", projected, work.capture);
        }
        let hidden = match &tokens.weights {
            None => states.hidden,
            Some(weights) if brackets == BracketUse::A1111 => {
                weigh_and_rescale(&states.hidden, weights)
            }
            Some(weights) => {
                let empty = encode(&batch(&[ClipChunk::new()]), &[])?;
                weigh(&states.hidden, &empty.hidden, weights)
            }
        };
        let pooled = states.projected;
        Ok(TextEmbeds {
            prompt: hidden.flatten(0, 1).unsqueeze(0).to_device(Device::Cpu),
            mask: None,
            pooled: pooled.map(|it| it.narrow(0, 0, 1).to_device(Device::Cpu)),
        })
    });
    read.collect()
}

/// Rows of the request's embeddings for one encoder, `(rows, C)` each.
fn read_embeddings(
    is_second: bool,
    width: i64,
    request: &GenerateRequest,
) -> Result<Vec<Tensor>, EngineError> {
    let name = if is_second { "clip_g" } else { "clip_l" };
    let read = request.embeddings.iter().map(|embedding| {
        let mut tensors = Weights::read_all(&embedding.path)?.into_iter();
        let found = tensors.find(|(key, _)| key == name);
        let found = found.map(|(_, rows)| rows).filter(|rows| {
            let size = rows.size();
            let rows_fit = |rows| (1..=CHUNK_TOKENS as i64).contains(&rows);
            matches!(size[..], [rows, found] if found == width && rows_fit(rows))
        });
        found.ok_or_else(|| {
            let file = embedding.path.display();
            EngineError::request(format!(
                "the embedding {file} is for another model: expected {name} of {width} numbers a row"
            ))
        })
    });
    read.collect()
}

/// The rows that chunks have in place of tokens.
fn embedded_rows(chunks: &[ClipChunk], embeddings: &[Tensor]) -> Vec<EmbeddedRow> {
    let mut rows = Vec::new();
    for (text, chunk) in (0..).zip(chunks) {
        for (position, (token, _)) in (1..).zip(chunk) {
            if let ClipToken::Embedding { number, row } = *token {
                let row = embeddings[number].get(row as i64);
                rows.push(EmbeddedRow {
                    text,
                    position,
                    row,
                });
            }
        }
    }
    rows
}

/// Ids, mask and weights of chunks, `(N, L)` each. `marks`: the ids of start, end and padding
fn batch_of(chunks: &[ClipChunk], [start, end, padding]: [i64; 3]) -> TokenBatch {
    let size = [chunks.len() as i64, CLIP_LENGTH];
    let ids = Tensor::full(size, padding, (Kind::Int64, Device::Cpu));
    let mask = ids.zeros_like();
    let weights = Tensor::ones(size, (Kind::Float, Device::Cpu));
    for (number, chunk) in chunks.iter().enumerate() {
        let own = chunk.iter().map(|(token, _)| match token {
            ClipToken::Id(id) => *id,
            ClipToken::Embedding { .. } => start,
        });
        let own: Vec<i64> = [start].into_iter().chain(own).chain([end]).collect();
        let row = |xs: &Tensor, from, count| xs.select(0, number as i64).narrow(0, from, count);
        row(&ids, 0, own.len() as i64).copy_(&Tensor::from_slice(&own));
        _ = row(&mask, 0, own.len() as i64).fill_(1);
        let own: Vec<f32> = chunk.iter().map(|(_, weight)| *weight as f32).collect();
        row(&weights, 1, own.len() as i64).copy_(&Tensor::from_slice(&own));
    }
    let is_weighted = chunks.iter().flatten().any(|(_, weight)| *weight != 1.0);
    TokenBatch {
        weights: is_weighted.then_some(weights),
        num_tokens: mask.sum(Kind::Int64).int64_value(&[]),
        num_cut: 0,
        ids,
        mask,
    }
}
