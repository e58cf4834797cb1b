//! Token counts of a prompt for each text encoder of a model, shown while the user types.
//!
//! Opens tokenizers and caches them: the largest takes a moment. Counts the same texts as the engine's stages, with the
//! cleaning, templates and limits of each family.

use std::sync::Arc;

use crate::fitting::FoundEmbedding;
use crate::job::prompt::{
    self, BracketUse, LongestText, PromptError, PromptTimeline, WildcardFolders,
};
use crate::tokens::{CHUNK_TOKENS, CLIP_TOKENS, EmbeddingName, TextReader, TextTokenizer};

/// Prompts of one count that are looked at, the longest first.
const MAX_PROMPTS: usize = 32;
/// Letters of a usual token, for an encoder whose tokenizer is not at hand.
const LETTERS_A_TOKEN: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCountRequest {
    pub readers: Vec<TextReader>,
    /// Texts to count; the longest counts.
    pub prompts: Vec<String>,
    /// True if they are literal texts rather than templates.
    pub is_literal: bool,
    pub wildcards: WildcardFolders,
    pub brackets: BracketUse,
    /// Embeddings on this computer.
    pub embeddings: Arc<Vec<FoundEmbedding>>,
    /// True if the model supports times in a prompt.
    pub has_times: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCount {
    pub name: &'static str,
    /// Of the longest text that it reads.
    pub tokens: usize,
    /// That of all chunks, for texts in chunks.
    pub limit: usize,
    /// No tokenizer was at hand, so this is a guess.
    pub is_estimate: bool,
}

impl TokenCount {
    /// Number of truncated tokens.
    pub fn num_cut(&self) -> usize {
        self.tokens.saturating_sub(self.limit)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptCount {
    /// In the order of the request's readers.
    pub encoders: Vec<TokenCount>,
    /// True if choices or wildcards may give a shorter text.
    pub varies: bool,
    /// Into how many texts the times divide a prompt; 1 without times.
    pub num_parts: usize,
    pub num_prompts: usize,
}

/// Token counter; caches the tokenizers of the last request.
#[derive(Default)]
pub struct TokenCounter {
    open: Vec<(TextReader, Option<TextTokenizer>)>,
}

impl TokenCounter {
    /// Counts; fails for a template that could not be expanded.
    pub fn count(&mut self, request: &TokenCountRequest) -> Result<PromptCount, PromptError> {
        self.settle(&request.readers);
        let mut count = PromptCount {
            num_parts: 1,
            num_prompts: request.prompts.len(),
            encoders: request.readers.iter().map(TokenCount::none).collect(),
            ..PromptCount::default()
        };
        let mut by_length: Vec<&String> = request.prompts.iter().collect();
        by_length.sort_by_key(|prompt| std::cmp::Reverse(prompt.len()));
        for (index, template) in by_length.into_iter().enumerate() {
            // Each is looked through for what is wrong with it, even where it is too short to matter.
            let is_counted = index < MAX_PROMPTS;
            let first = self.open.first().filter(|_| is_counted);
            let mut measure = |text: &str| match first {
                Some((reader, tokenizer)) => {
                    tokens_of(reader, tokenizer.as_ref(), request, text)[0]
                }
                None => text.len(),
            };
            let longest = if request.is_literal {
                LongestText {
                    text: template.clone(),
                    varies: false,
                }
            } else {
                prompt::longest(template, &request.wildcards, &mut measure)?
            };
            count.varies |= longest.varies;
            if is_counted {
                self.take(&mut count, &longest.text, request);
            }
        }
        Ok(count)
    }

    fn take(&self, count: &mut PromptCount, text: &str, request: &TokenCountRequest) {
        // The form reports invalid times.
        let timeline = if request.has_times {
            PromptTimeline::parse(text).ok().flatten()
        } else {
            None
        };
        let texts = timeline.map_or_else(|| vec![text.to_owned()], |timeline| timeline.texts());
        count.num_parts = count.num_parts.max(texts.len());
        for (encoder, (reader, tokenizer)) in count.encoders.iter_mut().zip(&self.open) {
            encoder.is_estimate = tokenizer.is_none();
            for text in &texts {
                let [tokens, limit] = tokens_of(reader, tokenizer.as_ref(), request, text);
                encoder.tokens = encoder.tokens.max(tokens);
                encoder.limit = encoder.limit.max(limit);
            }
        }
    }

    fn settle(&mut self, readers: &[TextReader]) {
        let mut before = std::mem::take(&mut self.open);
        for reader in readers {
            let known = before.iter().position(|(known, _)| known == reader);
            let tokenizer = match known {
                Some(at) => before.swap_remove(at).1,
                None => match reader.open() {
                    Ok(tokenizer) => Some(tokenizer),
                    Err(err) => {
                        tracing::warn!("tokens are estimated: {err}");
                        None
                    }
                },
            };
            self.open.push((reader.clone(), tokenizer));
        }
    }
}

impl TokenCount {
    fn none(reader: &TextReader) -> Self {
        Self {
            name: reader.name,
            tokens: 0,
            limit: reader.limit,
            is_estimate: false,
        }
    }
}

/// Number of tokens of a text, and of those that the encoder reads.
fn tokens_of(
    reader: &TextReader,
    tokenizer: Option<&TextTokenizer>,
    request: &TokenCountRequest,
    text: &str,
) -> [usize; 2] {
    let brackets = request.brackets;
    let embeddings = request.embeddings.iter().map(|it| EmbeddingName {
        name: &it.name,
        rows: it.config,
    });
    let embeddings: Vec<EmbeddingName<'_>> = embeddings.collect();
    let (prepared, around) = reader.prepared(brackets.parts(text));
    if reader.has_chunks()
        && let Some(tokenizer) = tokenizer
        && let Ok(chunks) = tokenizer.clip_chunks(&prepared, brackets, &embeddings)
    {
        let marks = CLIP_TOKENS as usize - CHUNK_TOKENS;
        let tokens = chunks.iter().map(|chunk| chunk.len() + marks).sum();
        return [tokens, chunks.len() * CLIP_TOKENS as usize];
    }
    let tokens = tokenizer
        .and_then(|tokenizer| tokenizer.count(&prepared).ok())
        .map_or_else(
            || text.chars().count().div_ceil(LETTERS_A_TOKEN) + 1,
            |tokens| tokens.saturating_sub(around),
        );
    [tokens, reader.limit]
}
