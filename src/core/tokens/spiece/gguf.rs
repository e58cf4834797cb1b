//! The tokenizer within a GGUF file as the SentencePiece model that it was made from.
//!
//! A converter writes pieces, scores and kinds, and a few facts of the normalizer; that unknown characters are
//! spelled as bytes shows in the pieces. Reads tokenizers of the kind `t5` alone, which T5 and UMT5 have.

use std::path::Path;

use super::proto::{NormalizerSpec, PieceKind, ProtoModel, ProtoPiece, TrainerSpec};
use crate::formats::weights::gguf::GgufElement;
use crate::model::CatalogError;
use crate::tokens::gguf::{TokenizerMetadata, tokenizer_inside};

/// GGUF's name of a SentencePiece Unigram tokenizer.
pub(crate) const GGUF_PIECES: &str = "t5";
/// UMT5's has a quarter of it.
const MAX_PIECES: u64 = 1 << 20;
/// Byte pieces of a model that spells what it does not know.
const NUM_BYTES: usize = 256;

/// T5 has 0.3 MB of it.
const MAX_CHARSMAP_BYTES: u64 = 8 << 20;

/// The model in a GGUF file; `None` where it carries no such tokenizer.
pub(super) fn model_inside(path: &Path) -> Result<Option<ProtoModel>, CatalogError> {
    tokenizer_inside(path, GGUF_PIECES, |metadata| {
        let pieces = pieces(metadata)?;
        Ok(ProtoModel {
            trainer: trainer(metadata, &pieces),
            pieces: without_padding(pieces),
            normalizer: normalizer(metadata)?,
        })
    })
}

fn pieces(metadata: &TokenizerMetadata<'_>) -> Result<Vec<ProtoPiece>, CatalogError> {
    let texts = metadata.texts("tokens", MAX_PIECES)?;
    let scores = metadata.numbers("scores", &[GgufElement::F32], MAX_PIECES)?;
    let (Some(texts), Some(scores)) = (texts, scores) else {
        return Err(metadata.wrong("found no tokens with scores"));
    };
    let kinds = metadata.kinds(MAX_PIECES)?;
    let counts = [Some(scores.len()), kinds.as_ref().map(Vec::len)];
    if let Some(count) = counts.into_iter().flatten().find(|n| *n != texts.len()) {
        let reason = format!("found {} tokens and {count} scores or kinds", texts.len());
        return Err(metadata.wrong(&reason));
    }
    let pieces = texts
        .into_iter()
        .zip(scores)
        .map(|(text, score)| ProtoPiece {
            text,
            score: f32::from_le_bytes(score),
            kind: PieceKind::Normal,
        });
    let mut pieces: Vec<ProtoPiece> = pieces.collect();
    match kinds {
        Some(kinds) => {
            for (piece, kind) in pieces.iter_mut().zip(kinds) {
                let kind = PieceKind::of_number(u64::from(kind));
                piece.kind = kind.map_err(|reason| metadata.wrong(&reason))?;
            }
        }
        None => guess_kinds(metadata, &mut pieces),
    }
    Ok(pieces)
}

fn normalizer(metadata: &TokenizerMetadata<'_>) -> Result<NormalizerSpec, CatalogError> {
    let elements = [GgufElement::U8, GgufElement::I8];
    let charsmap = metadata.bytes("precompiled_charsmap", &elements, MAX_CHARSMAP_BYTES)?;
    let default = NormalizerSpec::default();
    Ok(NormalizerSpec {
        precompiled_charsmap: charsmap.unwrap_or_default(),
        add_dummy_prefix: metadata
            .flag("add_space_prefix")
            .unwrap_or(default.add_dummy_prefix),
        remove_extra_whitespaces: metadata
            .flag("remove_extra_whitespaces")
            .unwrap_or(default.remove_extra_whitespaces),
        ..default
    })
}

fn trainer(metadata: &TokenizerMetadata<'_>, pieces: &[ProtoPiece]) -> TrainerSpec {
    let default = TrainerSpec::default();
    let named = |role: &str| Some(pieces.get(metadata.id(role)?)?.text.clone());
    let bytes = pieces.iter().filter(|piece| piece.kind == PieceKind::Byte);
    TrainerSpec {
        byte_fallback: bytes.count() == NUM_BYTES,
        eos_piece: named("eos").unwrap_or(default.eos_piece),
        pad_piece: named("padding").unwrap_or(default.pad_piece),
        ..default
    }
}

/// For files of converters that say no kinds.
fn guess_kinds(metadata: &TokenizerMetadata<'_>, pieces: &mut [ProtoPiece]) {
    let roles = ["eos", "padding", "bos"].map(|role| metadata.id(role));
    let unknown = metadata.id("unknown").unwrap_or(2);
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
}

/// `<0x0A>`
fn is_byte(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"<0x")
        .and_then(|text| text.strip_suffix(b">"));
    digits.is_some_and(|digits| digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Converters fill the vocabulary up to the rows of the model's table; the model itself ends before.
fn without_padding(mut pieces: Vec<ProtoPiece>) -> Vec<ProtoPiece> {
    let is_filler = |piece: &ProtoPiece| {
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
