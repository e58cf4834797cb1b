//! The tokenizer within a GGUF file as the SentencePiece model that it was made from.
//!
//! A converter writes pieces, scores and kinds, and a few facts of the normalizer; that unknown characters are
//! spelled as bytes shows in the pieces. Reads tokenizers of the kind `t5` alone, which T5 and UMT5 have.

use std::fs::File;
use std::path::Path;

use crate::catalog::gguf::{Element, Header as GgufHeader, List};
use crate::catalog::header::{Header, HeaderError};

use super::proto::{Model, NormalizerSpec, Piece, PieceKind, Trainer};
use crate::tokens::error::TokensError;

/// UMT5's has a quarter of it.
const MAX_PIECES: u64 = 1 << 20;
/// Byte pieces of a model that spells what it does not know.
const NUM_BYTES: usize = 256;

/// The model in a GGUF file; `None` where it carries no such tokenizer.
pub(super) fn model_inside(path: &Path) -> Result<Option<Model>, TokensError> {
    let wrong = |reason: String| TokensError::Config {
        reason: format!("expected a sound tokenizer in its metadata: {reason}"),
        path: path.to_owned(),
    };
    let failed = |err: HeaderError| match err {
        HeaderError::Io(source) => TokensError::Io {
            source,
            path: path.to_owned(),
        },
        HeaderError::Unsound(reason) => wrong(reason),
    };
    let (file, header) = Header::open(path).map_err(failed)?;
    let Some(header) = header.as_gguf() else {
        return Ok(None);
    };
    if header.text("tokenizer.ggml.model") != Some("t5") {
        return Ok(None);
    }
    let reader = Reader { file, header };
    let pieces = reader.pieces().map_err(failed)?.map_err(wrong)?;
    let spec = NormalizerSpec {
        precompiled_charsmap: reader.charsmap().map_err(failed)?,
        ..reader.normalizer()
    };
    Ok(Some(Model {
        trainer: reader.trainer(&pieces),
        pieces: without_padding(pieces),
        normalizer: spec,
    }))
}

struct Reader<'a> {
    file: File,
    header: &'a GgufHeader,
}

impl Reader<'_> {
    /// The inner error says what is wrong with the lists themselves.
    fn pieces(&self) -> Result<Result<Vec<Piece>, String>, HeaderError> {
        let list = |name: &str, element: Element| {
            let list = self.header.list(&format!("tokenizer.ggml.{name}"));
            list.filter(|list| list.element == element)
        };
        let (Some(tokens), Some(scores)) =
            (list("tokens", Element::Text), list("scores", Element::F32))
        else {
            return Ok(Err("found no tokens with scores".to_owned()));
        };
        let kinds = list("token_type", Element::I32).or_else(|| list("token_type", Element::U32));
        let counts = [Some(scores), kinds].into_iter().flatten();
        for count in counts.map(|list: List| list.count) {
            if count != tokens.count || count > MAX_PIECES {
                let reason = format!("found {} tokens and {count} scores or kinds", tokens.count);
                return Ok(Err(reason));
            }
        }
        let mut pieces = Vec::with_capacity(tokens.count as usize);
        self.header.each_text(&self.file, tokens, |text| {
            pieces.push(Piece {
                text,
                score: 0.0,
                kind: PieceKind::Normal,
            });
        })?;
        let scores = self.header.list_bytes(&self.file, scores)?;
        for (piece, score) in pieces.iter_mut().zip(scores.as_chunks::<4>().0) {
            piece.score = f32::from_le_bytes(*score);
        }
        Ok(match kinds {
            Some(kinds) => {
                let kinds = self.header.list_bytes(&self.file, kinds)?;
                with_kinds(pieces, kinds.as_chunks::<4>().0)
            }
            None => Ok(self.with_guessed_kinds(pieces)),
        })
    }

    fn charsmap(&self) -> Result<Vec<u8>, HeaderError> {
        let list = self.header.list("tokenizer.ggml.precompiled_charsmap");
        match list {
            Some(list) if matches!(list.element, Element::U8 | Element::I8) => {
                self.header.list_bytes(&self.file, list)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn normalizer(&self) -> NormalizerSpec {
        let flag = |name: &str| self.header.flag(&format!("tokenizer.ggml.{name}"));
        let default = NormalizerSpec::default();
        NormalizerSpec {
            add_dummy_prefix: flag("add_space_prefix").unwrap_or(default.add_dummy_prefix),
            remove_extra_whitespaces: flag("remove_extra_whitespaces")
                .unwrap_or(default.remove_extra_whitespaces),
            ..default
        }
    }

    fn trainer(&self, pieces: &[Piece]) -> Trainer {
        let default = Trainer::default();
        let named = |name: &str| {
            let piece = pieces.get(self.id(name)?)?;
            Some(piece.text.clone())
        };
        let bytes = pieces.iter().filter(|piece| piece.kind == PieceKind::Byte);
        Trainer {
            byte_fallback: bytes.count() == NUM_BYTES,
            eos_piece: named("eos").unwrap_or(default.eos_piece),
            pad_piece: named("padding").unwrap_or(default.pad_piece),
            ..default
        }
    }

    /// The id of a token with a role.
    fn id(&self, role: &str) -> Option<usize> {
        let id = self
            .header
            .number(&format!("tokenizer.ggml.{role}_token_id"))?;
        usize::try_from(id).ok()
    }

    /// For files of converters that say no kinds.
    fn with_guessed_kinds(&self, mut pieces: Vec<Piece>) -> Vec<Piece> {
        let roles = ["eos", "padding", "bos"].map(|role| self.id(role));
        let unknown = self.id("unknown").unwrap_or(2);
        for (id, piece) in pieces.iter_mut().enumerate() {
            piece.kind = if id == unknown {
                PieceKind::Unknown
            } else if roles.contains(&Some(id)) {
                PieceKind::Control
            } else if is_byte(&piece.text) {
                PieceKind::Byte
            } else {
                PieceKind::Normal
            };
        }
        pieces
    }
}

fn with_kinds(mut pieces: Vec<Piece>, kinds: &[[u8; 4]]) -> Result<Vec<Piece>, String> {
    for (piece, kind) in pieces.iter_mut().zip(kinds) {
        piece.kind = PieceKind::of_number(u64::from(u32::from_le_bytes(*kind)))?;
    }
    Ok(pieces)
}

/// `<0x0A>`
fn is_byte(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"<0x")
        .and_then(|text| text.strip_suffix(b">"));
    digits.is_some_and(|digits| digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Converters fill the vocabulary up to the rows of the model's table; the model itself ends before.
fn without_padding(mut pieces: Vec<Piece>) -> Vec<Piece> {
    let is_filler = |piece: &Piece| {
        let is_numbered = |start: &[u8], end: &[u8]| {
            let inner = piece.text.strip_prefix(start);
            let number = inner.and_then(|inner| inner.strip_suffix(end));
            number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
        };
        match piece.kind {
            PieceKind::Unused => is_numbered(b"[PAD", b"]"),
            PieceKind::Normal | PieceKind::UserDefined | PieceKind::Control => {
                is_numbered(b"<extra_id_", b">")
            }
            PieceKind::Unknown | PieceKind::Byte => false,
        }
    };
    while pieces.last().is_some_and(is_filler) {
        pieces.pop();
    }
    pieces
}
