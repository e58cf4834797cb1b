//! Prompts of any length as chunks of CLIP's 77 tokens, divided as in ComfyUI or in A1111.
//!
//! ComfyUI encodes words one by one and moves a word of fewer than 8 tokens to the next chunk whole. A1111 divides
//! anywhere, except that the words after a comma move along with the last 20 tokens of a full chunk; `BREAK` ends a chunk.
//! An embedding (textual inversion) takes as many tokens as it has rows: `embedding:name` in ComfyUI, the name alone in
//! A1111.

use super::TextTokenizer;
use crate::job::prompt::{BracketUse, WeightedText};
use crate::model::CatalogError;

/// Tokens of a chunk between its start and its end.
pub const CHUNK_TOKENS: usize = 75;
/// ComfyUI divides words of as many tokens between chunks.
const LONG_WORD: usize = 8;
/// A1111 ends a full chunk at a comma among as many last tokens.
const COMMA_WINDOW: usize = 20;
/// Ends a chunk in A1111.
const BREAK: &str = "BREAK";
/// Precedes the name of an embedding in ComfyUI.
pub(crate) const EMBEDDING: &str = "embedding:";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipToken {
    Id(i64),
    /// Numbers of an embedding and of its row.
    Embedding {
        number: usize,
        row: usize,
    },
}

/// At most [`CHUNK_TOKENS`] tokens with their weights, without the start, the end and padding.
pub type ClipChunk = Vec<(ClipToken, f64)>;

/// Name of an embedding in prompts, and its number of rows, at most [`CHUNK_TOKENS`].
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingName<'a> {
    pub name: &'a str,
    pub rows: usize,
}

impl TextTokenizer {
    /// The chunks of a prompt, at least one.
    pub fn clip_chunks(
        &self,
        parts: &[WeightedText],
        brackets: BracketUse,
        embeddings: &[EmbeddingName<'_>],
    ) -> Result<Vec<ClipChunk>, CatalogError> {
        if brackets == BracketUse::A1111 {
            self.a1111_chunks(parts, embeddings)
        } else {
            self.comfy_chunks(parts, embeddings)
        }
    }

    fn comfy_chunks(
        &self,
        parts: &[WeightedText],
        embeddings: &[EmbeddingName<'_>],
    ) -> Result<Vec<ClipChunk>, CatalogError> {
        let mut chunks = vec![ClipChunk::new()];
        for part in parts {
            for word in part.text.split([' ', '\n']) {
                let named = word.strip_prefix(EMBEDDING).and_then(|name| {
                    let number = find_embedding(name, embeddings)?;
                    let rest = name.strip_prefix(embeddings[number].name);
                    Some((number, rest.unwrap_or_default()))
                });
                let rest = named.map_or(word, |(_, rest)| rest);
                if let Some((number, _)) = named {
                    let rows = rows_of(number, embeddings);
                    add_word(&mut chunks, rows.map(|row| (row, part.weight)).collect());
                }
                let ids = self.ids_alone(rest)?.into_iter();
                let word = ids.map(|id| (ClipToken::Id(id), part.weight));
                add_word(&mut chunks, word.collect());
            }
        }
        Ok(chunks)
    }

    fn a1111_chunks(
        &self,
        parts: &[WeightedText],
        embeddings: &[EmbeddingName<'_>],
    ) -> Result<Vec<ClipChunk>, CatalogError> {
        let names = embeddings.iter().enumerate();
        let names = names.map(|(number, it)| Ok((self.ids_alone(it.name)?, number)));
        let mut names: Vec<(Vec<i64>, usize)> = names.collect::<Result<_, CatalogError>>()?;
        names.retain(|(ids, _)| !ids.is_empty());
        names.sort_by_key(|(ids, _)| std::cmp::Reverse(ids.len()));
        let comma = self.ids_alone(",")?;
        let mut builder = A1111Chunks::default();
        for part in parts {
            for (number, words) in divided_by_breaks(&part.text).enumerate() {
                if number > 0 && part.weight == 1.0 {
                    builder.close();
                } else if number > 0 {
                    // In a group with a weight it is a word of the opposite weight.
                    builder.add(
                        &self.ids_alone(BREAK)?,
                        -part.weight,
                        &comma,
                        &names,
                        embeddings,
                    );
                }
                builder.add(
                    &self.ids_alone(words)?,
                    part.weight,
                    &comma,
                    &names,
                    embeddings,
                );
            }
        }
        if !builder.open.is_empty() || builder.chunks.is_empty() {
            builder.close();
        }
        Ok(builder.chunks)
    }
}

/// Number of the embedding that the text after [`EMBEDDING`] names, with or without commas around.
fn find_embedding(name: &str, embeddings: &[EmbeddingName<'_>]) -> Option<usize> {
    let position = |name: &str| embeddings.iter().position(|it| it.name == name);
    position(name).or_else(|| position(name.trim_matches(',')))
}

fn rows_of(number: usize, embeddings: &[EmbeddingName<'_>]) -> impl Iterator<Item = ClipToken> {
    (0..embeddings[number].rows).map(move |row| ClipToken::Embedding { number, row })
}

/// Adds a word to the last chunk, or to a new one where it does not fit.
fn add_word(chunks: &mut Vec<ClipChunk>, mut word: ClipChunk) {
    let is_long = word.len() >= LONG_WORD;
    loop {
        let last = chunks.len() - 1;
        let room = CHUNK_TOKENS - chunks[last].len();
        if word.len() <= room {
            chunks[last].append(&mut word);
            return;
        }
        if is_long {
            chunks[last].extend(word.drain(..room));
        }
        chunks.push(ClipChunk::new());
    }
}

#[derive(Default)]
struct A1111Chunks {
    chunks: Vec<ClipChunk>,
    open: ClipChunk,
    /// Position of the last comma of the open chunk.
    last_comma: Option<usize>,
}

impl A1111Chunks {
    fn close(&mut self) {
        self.chunks.push(std::mem::take(&mut self.open));
        self.last_comma = None;
    }

    /// `names`: ids and numbers of the embeddings, the longest names first
    fn add(
        &mut self,
        ids: &[i64],
        weight: f64,
        comma: &[i64],
        names: &[(Vec<i64>, usize)],
        embeddings: &[EmbeddingName<'_>],
    ) {
        let mut at = 0;
        while at < ids.len() {
            let is_full = self.open.len() == CHUNK_TOKENS;
            if comma == [ids[at]] {
                self.last_comma = Some(self.open.len());
            } else if let Some(comma) = self.last_comma
                && is_full
                && CHUNK_TOKENS - comma <= COMMA_WINDOW
            {
                let moved = self.open.split_off(comma + 1);
                self.close();
                self.open = moved;
            }
            if self.open.len() == CHUNK_TOKENS {
                self.close();
            }
            let named = names.iter().find(|(name, _)| ids[at..].starts_with(name));
            let Some((name, number)) = named else {
                self.open.push((ClipToken::Id(ids[at]), weight));
                at += 1;
                continue;
            };
            if self.open.len() + embeddings[*number].rows > CHUNK_TOKENS {
                self.close();
            }
            let rows = rows_of(*number, embeddings);
            self.open.extend(rows.map(|row| (row, weight)));
            at += name.len();
        }
    }
}

/// The texts between words `BREAK`, without the blanks around these.
fn divided_by_breaks(text: &str) -> impl Iterator<Item = &str> {
    let is_letter = |it: char| it.is_alphanumeric() || it == '_';
    let mut rest = Some(text);
    let mut is_first = true;
    std::iter::from_fn(move || {
        let own = rest.take()?;
        let own = if is_first { own } else { own.trim_start() };
        is_first = false;
        let found = own.match_indices(BREAK).find(|(at, word)| {
            !own[..*at].ends_with(is_letter) && !own[at + word.len()..].starts_with(is_letter)
        });
        let Some((at, word)) = found else {
            return Some(own);
        };
        rest = Some(&own[at + word.len()..]);
        Some(own[..at].trim_end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_divides_a_text_where_it_is_a_word_of_its_own() {
        for (text, expected) in [
            ("", &[""][..]),
            ("a fox BREAK a cat", &["a fox", "a cat"]),
            ("BREAK BREAK x", &["", "", "x"]),
            (
                "xBREAK BREAKFAST BREAK_1, é,BREAK,",
                &["xBREAK BREAKFAST BREAK_1, é,", ","],
            ),
            (" break ", &[" break "]),
        ] {
            let found: Vec<&str> = divided_by_breaks(text).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
