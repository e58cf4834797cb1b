//! Encoding of a job's texts: the list of texts, paths of tokenizers and encoders, and captures.
//!
//! Templates, the choice of encoders and the parts that a model reads are defined by the family.

use std::path::Path;

use safelight_core::job::GenerateRequest;
use safelight_core::job::prompt::WeightedText;
use safelight_core::lora::{self, LoraTarget};
use safelight_core::model::ModelFiles;
use safelight_core::networks::{
    ClipL, ClipTextConfig, LanguageUse, NetworkConfig as _, T5Config, T5Kind,
};
use safelight_core::tokens::{PromptPadding, PromptTemplate, TextTokenizer};
use tch::{Device, Kind, Tensor};

use super::weighting::weigh;
use super::{
    ClipTextEncoder, LanguageEncoder, PromptEmbeds, SeenImages, T5Encoder, TextEmbeds, TokenBatch,
    with_loras, within_template,
};
use crate::capture::StageCapture;
use crate::error::EngineError;
use crate::memory::CachedNetwork;
use crate::placement::build;
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

/// Ids of a text that CLIP reads.
pub(super) const CLIP_LENGTH: i64 = 77;

const NEGATIVE: &str = "negative";

pub struct EncodedText {
    /// Role of the text: `prompt` or `negative`.
    pub role: &'static str,
    /// At least one; more where words have weights.
    pub parts: Vec<WeightedText>,
    /// Of a prompt's timeline the first text alone, as the reference has no other.
    pub is_recorded: bool,
}

impl EncodedText {
    /// All that has to be read, the prompt's own first; the negative prompt only where the request has real guidance.
    pub fn all_of(request: &GenerateRequest) -> Result<Vec<Self>, EngineError> {
        let prompts = request.section_prompts().map_err(EngineError::request)?;
        let prompts = prompts.map_or_else(|| vec![request.prompt.clone()], |it| it.texts);
        let brackets = request.options.bracket_use(request.family);
        let prompts = prompts.into_iter().enumerate().map(|(i, text)| Self {
            role: "prompt",
            parts: brackets.parts(&text),
            is_recorded: i == 0,
        });
        let negative = request.is_guided().then(|| Self {
            role: NEGATIVE,
            parts: brackets.parts(&request.negative_prompt),
            is_recorded: true,
        });
        Ok(prompts.chain(negative).collect())
    }

    pub fn is_negative(&self) -> bool {
        self.role == NEGATIVE
    }

    /// Its ids, under the names of the reference.
    pub fn record_tokens(
        &self,
        files: &EncoderFiles<'_>,
        tokens: &TokenBatch,
        capture: &mut StageCapture,
    ) {
        if self.is_recorded {
            let name = format!("{}.{}", files.tokenizer_name, self.role);
            capture.put(format!("{name}.input_ids"), &tokens.ids);
            capture.put(format!("{name}.attention_mask"), &tokens.mask);
        }
    }

    /// `part` of what the encoder gave.
    pub fn record(
        &self,
        files: &EncoderFiles<'_>,
        part: &str,
        xs: &Tensor,
        capture: &mut StageCapture,
    ) {
        if self.is_recorded {
            capture.put(format!("{}.{}.{part}", files.name, self.role), xs);
        }
    }
}

#[derive(Clone, Copy)]
pub struct EncoderFiles<'a> {
    /// Name of the component in messages.
    pub component: &'static str,
    pub home: &'a Path,
    tokenizer: &'a Path,
    tokenizer_class: Option<&'a str>,
    /// The reference's names.
    name: &'static str,
    tokenizer_name: &'static str,
}

impl<'a> EncoderFiles<'a> {
    pub fn first(files: &'a ModelFiles) -> Self {
        Self {
            component: "text encoder",
            home: &files.text_encoder,
            tokenizer: &files.tokenizer,
            tokenizer_class: files.tokenizer_class.as_deref(),
            name: "text_encoder",
            tokenizer_name: "tokenizer",
        }
    }

    pub fn second(files: &'a ModelFiles) -> Result<Self, EngineError> {
        let tokenizer = files.tokenizer_2.as_deref();
        Ok(Self {
            tokenizer: tokenizer.ok_or_else(|| lacks("tokenizer"))?,
            tokenizer_class: files.tokenizer_2_class.as_deref(),
            ..Self::second_of_one_tokenizer(files)?
        })
    }

    /// The second encoder, with the tokenizer of the first.
    pub fn second_of_one_tokenizer(files: &'a ModelFiles) -> Result<Self, EngineError> {
        let home = files.text_encoder_2.as_deref();
        Ok(Self {
            component: "second text encoder",
            home: home.ok_or_else(|| lacks("weights"))?,
            name: "text_encoder_2",
            tokenizer_name: "tokenizer_2",
            ..Self::first(files)
        })
    }

    pub fn tokenizer(&self, length: usize, vocab_size: i64) -> Result<TextTokenizer, EngineError> {
        let tokenizer = TextTokenizer::open(self.tokenizer, self.tokenizer_class, length)?;
        tokenizer.check_ids(vocab_size)?;
        Ok(tokenizer)
    }

    /// The encoder with what the request's LoRAs do to it, where they can change a `network` of its kind; `None`: where
    /// they cannot.
    pub fn encoder<T: 'static>(
        &self,
        network: Option<LoraTarget>,
        work: &StageWork<'_>,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<CachedNetwork<T>, EngineError> {
        let place = work.place;
        let loras = network.map_or(&[][..], |_| &work.request.loras);
        place.network(self.component, self.home, loras, || {
            let mut weights = place.open(self.home)?;
            if let Some(network) = network {
                weights = with_loras(&weights, loras, network)?;
            }
            build(&weights, self.component, work.hooks, new, unexpected)
        })
    }
}

fn lacks(what: &str) -> EngineError {
    EngineError::request(format!(
        "this model has no {what} for its second text encoder"
    ))
}

/// One vector of each text, `(1, C)` on the CPU, of the CLIP that `files` are.
pub fn read_clip(
    files: &EncoderFiles<'_>,
    texts: &[EncodedText],
    work: &mut StageWork<'_>,
) -> Result<Vec<Tensor>, EngineError> {
    let config = ClipTextConfig::read(files.home)?;
    let length = CLIP_LENGTH.min(config.max_position_embeddings) as usize;
    let tokenizer = files.tokenizer(length, config.vocab_size)?;
    let new = |w: &_| ClipTextEncoder::new(&config, w);
    let encoder = files.encoder(
        Some(lora::CLIP),
        work,
        new,
        ClipTextEncoder::unexpected_keys::<ClipL>,
    )?;
    let pooled = texts.iter().map(|text| {
        // Only the pooled vector is read, which has no weights.
        let tokens = TokenBatch::from_parts(&text.parts, &tokenizer)?;
        let embeds = encoder.forward(&tokens.ids, work.hooks);
        let embeds = embeds.ok_or(EngineError::Cancelled)?;
        let capture = &mut *work.capture;
        text.record_tokens(files, &tokens, capture);
        let states = &embeds.last_hidden_state;
        text.record(files, "last_hidden_state", states, capture);
        text.record(files, "pooler_output", &embeds.pooler_output, capture);
        Ok(embeds.pooler_output.to_device(Device::Cpu))
    });
    pooled.collect()
}

/// Visibility of padding for the tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaddingMode {
    Seen,
    Hidden,
    /// Zeros: not encoded, which gives equal values for the text and is much faster.
    Zero,
}

/// Each text through the T5 or UMT5 that `files` are, padded to `length` tokens, on the CPU with its mask.
pub fn read_t5(
    files: &EncoderFiles<'_>,
    kind: T5Kind,
    texts: &[EncodedText],
    (length, padding): (usize, PaddingMode),
    work: &mut StageWork<'_>,
) -> Result<Vec<TextEmbeds>, EngineError> {
    let config = T5Config::read_as(kind, files.home)?;
    let tokenizer = files.tokenizer(length, config.vocab_size)?;
    let new = |w: &_| T5Encoder::new(&config, w);
    let lora = (kind == T5Kind::T5).then_some(lora::T5);
    let encoder = files.encoder(lora, work, new, T5Encoder::unexpected_keys)?;
    let read = texts.iter().map(|text| {
        let tokens = TokenBatch::from_parts(&text.parts, &tokenizer)?;
        if let Some(notice) = tokens.cut_notice(text.role) {
            work.hooks.warn(notice);
        }
        let forward = |tokens: &TokenBatch| {
            let mask = Some(&tokens.mask).filter(|_| padding != PaddingMode::Seen);
            let states = encoder.forward(&tokens.ids, mask, work.hooks);
            states.ok_or(EngineError::Cancelled)
        };
        let padded = |tokens: &TokenBatch| {
            if padding == PaddingMode::Zero {
                let missing = length as i64 - tokens.num_tokens;
                Ok(forward(&tokens.unpadded())?.constant_pad_nd([0, 0, 0, missing]))
            } else {
                forward(tokens)
            }
        };
        let states = padded(&tokens)?;
        text.record_tokens(files, &tokens, work.capture);
        if padding != PaddingMode::Zero {
            text.record(files, "last_hidden_state", &states, work.capture);
        } else if work.capture.is_on() {
            // The reference encodes the padding, too.
            text.record(files, "last_hidden_state", &forward(&tokens)?, work.capture);
        }
        let states = match &tokens.weights {
            Some(weights) => {
                let mut empty = TokenBatch::encode("", &tokenizer)?;
                if padding == PaddingMode::Hidden {
                    // As much padding as the text has tokens.
                    empty.ids = tokens.ids.full_like(tokenizer.pad_id());
                    empty.mask = tokens.mask.shallow_clone();
                }
                weigh(&states, &padded(&empty)?, weights)
            }
            None => states,
        };
        Ok(TextEmbeds {
            mask: Some(tokens.mask),
            ..TextEmbeds::of_states(states.to_device(Device::Cpu))
        })
    });
    read.collect()
}

/// Embeddings for families whose only encoder is a language model: all texts of the job, each with its number of
/// tokens.
pub fn language_embeds(
    read_as: (LanguageUse, &PromptTemplate),
    work: &mut StageWork<'_>,
) -> Result<PromptEmbeds, EngineError> {
    embeds_of(work, |texts, work| {
        let files = EncoderFiles::first(&work.request.files);
        let read = read_language(&files, texts, read_as, work)?;
        Ok(read.into_iter().map(TextEmbeds::without_mask).collect())
    })
}

/// All texts of the job, as `read` embeds them.
pub fn embeds_of(
    work: &mut StageWork<'_>,
    read: impl FnOnce(&[EncodedText], &mut StageWork<'_>) -> Result<Vec<TextEmbeds>, EngineError>,
) -> Result<PromptEmbeds, EngineError> {
    let texts = EncodedText::all_of(work.request)?;
    let embeds = tch::no_grad(|| read(&texts, work))?;
    PromptEmbeds::from_texts(&texts, embeds, work.capture)
}

/// Images that precede each text, for vision-language models.
pub struct TextImages {
    /// Text of the images, with one `mark` for each image.
    pub spelled: String,
    pub mark: &'static str,
    /// Rows and columns of each image's tokens, and all of them: `(n, C)`
    pub grids: Vec<[i64; 2]>,
    pub tokens: Tensor,
    /// See [`SeenImages::deepstack`].
    pub deepstack: Vec<Tensor>,
}

impl TextImages {
    /// A text with `mark` in it once for each image, with as many of it as the image has tokens.
    fn spread(&self, tokens: &TokenBatch, mark: i64) -> Result<ImageTokens, EngineError> {
        let ids: Vec<i64> = tokens.unpadded().ids.view([-1]).try_into()?;
        let mut grids = self.grids.iter();
        let (mut spread, mut are) = (Vec::new(), Vec::new());
        let mut places = [(); 3].map(|()| Vec::<f32>::new());
        let mut next = 0;
        for id in ids {
            // A mark that the user typed has no image.
            let grid = if id == mark { grids.next() } else { None };
            let [rows, columns] = grid.copied().unwrap_or([1, 1]);
            for place in 0..rows * columns {
                spread.push(id);
                are.push(grid.is_some());
                for (places, place) in places.iter_mut().zip([0, place / columns, place % columns])
                {
                    places.push((next + place) as f32);
                }
            }
            // The next position follows the longer edge.
            next += rows.max(columns);
        }
        let ids = Tensor::from_slice(&spread).unsqueeze(0);
        Ok(ImageTokens {
            tokens: TokenBatch {
                mask: ids.ones_like(),
                ids,
                weights: None,
                num_tokens: spread.len() as i64,
                num_cut: tokens.num_cut,
            },
            are: Tensor::from_slice(&are),
            places: Tensor::stack(&places.map(|axis| Tensor::from_slice(&axis)), 0),
        })
    }
}

/// A text with images in it.
struct ImageTokens {
    tokens: TokenBatch,
    /// Mask of the image tokens: `(L)`, boolean.
    are: Tensor,
    /// Order, row and column of every token: `(3, L)` in f32
    places: Tensor,
}

/// Each text within `template` through the language model that `files` are, as far as `usage` reads it: the tokens that
/// the template does not drop, on the CPU with their mask. Records every layer where something is recorded.
pub fn read_language(
    files: &EncoderFiles<'_>,
    texts: &[EncodedText],
    how: (LanguageUse, &PromptTemplate),
    work: &mut StageWork<'_>,
) -> Result<Vec<TextEmbeds>, EngineError> {
    read_with_images(files, texts, how, None, work)
}

/// Like `read`, with the same images before each text, whose tokens are 0 in the mask.
pub fn read_with_images(
    files: &EncoderFiles<'_>,
    texts: &[EncodedText],
    (usage, template): (LanguageUse, &PromptTemplate),
    images: Option<&TextImages>,
    work: &mut StageWork<'_>,
) -> Result<Vec<TextEmbeds>, EngineError> {
    let config = usage.read(files.home)?;
    let room = images.map_or(0, |images| images.spelled.len());
    let tokenizer = files.tokenizer(template.length() + room, config.vocab_size)?;
    let mark = images.map(|images| {
        let tokens = TokenBatch::encode(images.mark, &tokenizer)?;
        if tokens.num_tokens != 1 {
            let (mark, found) = (images.mark, tokens.num_tokens);
            let reason =
                format!("expected a tokenizer to which {mark} is one token, found {found}");
            return Err(EngineError::config(reason, files.home));
        }
        Ok(tokens.ids.int64_value(&[0, 0]))
    });
    let mark = mark.transpose()?;
    // Captures include the output of all layers.
    let is_whole = work.capture.is_on();
    let name = if is_whole {
        "whole text encoder"
    } else {
        files.component
    };
    let encoder = work.place.network(name, files.home, &[], || {
        let new = |w: &_| {
            if is_whole {
                LanguageEncoder::whole(&config, w)
            } else {
                LanguageEncoder::new(&config, w)
            }
        };
        work.load(
            files.component,
            files.home,
            new,
            LanguageEncoder::unexpected_keys,
        )
    })?;
    let read = texts.iter().map(|text| {
        let before = images.map(|images| WeightedText::plain(&images.spelled));
        let parts: Vec<_> = before.iter().chain(&text.parts).cloned().collect();
        let tokens = TokenBatch::within(&parts, template, &tokenizer)?;
        if let Some(notice) = template.cut_notice(tokens.num_cut, text.role) {
            work.hooks.warn(notice);
        }
        let spread = images.zip(mark);
        let spread = spread
            .map(|(images, mark)| images.spread(&tokens, mark))
            .transpose()?;
        let tokens = spread
            .as_ref()
            .map_or(tokens, |spread| spread.tokens.unpadded());
        text.record_tokens(files, &tokens, work.capture);
        let places = match &spread {
            Some(spread) => Some(spread.places.shallow_clone()),
            None => tokens.places(template.padding),
        };
        if let Some(places) = &places {
            let places = places.to_kind(Kind::Int64).unsqueeze(1);
            text.record(files, "position_ids", &places, work.capture);
        }
        let tokens = if template.padding == PromptPadding::None {
            tokens.unpadded()
        } else {
            tokens
        };
        let seen = images.zip(spread.as_ref());
        let seen = seen.map(|(images, spread)| SeenImages {
            are: &spread.are,
            tokens: &images.tokens,
            deepstack: &images.deepstack,
        });
        let mut each = |number: usize, found: &Tensor| {
            let name = format!("hidden_states.{number}");
            text.record(files, &name, found, work.capture);
        };
        let (ids, mask) = (&tokens.ids, &tokens.mask);
        let (places, seen) = (places.as_ref(), seen.as_ref());
        let read = encoder.forward_seeing(ids, mask, places, seen, work.hooks, &mut each);
        let (states, last) = read.ok_or(EngineError::Cancelled)?;
        text.record(files, "last_hidden_state", &last, work.capture);
        let states = match &tokens.weights {
            Some(weights) => {
                let empty = TokenBatch::encode("", &tokenizer)?;
                let empty = encoder.forward(&empty.ids, &empty.mask, work.hooks);
                weigh(&states, &empty.ok_or(EngineError::Cancelled)?, weights)
            }
            None => states,
        };
        let states = within_template(&states, template).to_device(Device::Cpu);
        let is_text = spread.map(|spread| spread.are.logical_not().unsqueeze(0));
        let mask = within_template(&is_text.unwrap_or(tokens.mask), template);
        Ok(TextEmbeds {
            mask: Some(mask.to_kind(Kind::Int64)),
            ..TextEmbeds::of_states(states)
        })
    });
    read.collect()
}
