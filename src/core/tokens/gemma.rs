//! Gemma's SentencePiece model of byte pairs, which ComfyUI's text encoders carry, in the terms of the `tokenizers` library:
//! as a published `tokenizer.json` has it.
//!
//! After transformers 5.24 (`convert_slow_tokenizer.py`, `GemmaConverter`).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::classes;
use super::spiece::{PieceKind, ProtoModel, ProtoPiece};

const BEGIN: &str = "<bos>";
/// The longest piece, in bytes; Gemma's longest are runs of 31 spaces.
const MAX_PIECE_BYTES: usize = 256;

/// A `tokenizer.json` of the model, or what is wrong with it.
pub(super) fn convert(model: &ProtoModel) -> Result<Value, String> {
    let pieces: Vec<(&str, &ProtoPiece)> = model
        .pieces
        .iter()
        .map(|piece| Ok((text_of(piece)?, piece)))
        .collect::<Result<_, String>>()?;
    let ids: HashMap<&str, usize> = pieces.iter().map(|(text, _)| *text).zip(0..).collect();
    if ids.len() < pieces.len() {
        return Err("it has a piece twice".to_owned());
    }
    let begin = *ids
        .get(BEGIN)
        .ok_or_else(|| format!("it has no token '{BEGIN}' to begin with"))?;
    let unknown = pieces
        .iter()
        .find(|(_, piece)| piece.kind == PieceKind::Unknown);
    let (unknown, _) = unknown.ok_or("found no unknown piece")?;
    let merges = merges(&pieces, &ids);
    classes::check_merges(merges.len())?;
    let added = pieces.iter().zip(0..).filter_map(|((text, piece), id)| {
        let is_added = matches!(
            piece.kind,
            PieceKind::Control | PieceKind::Unknown | PieceKind::UserDefined
        );
        is_added.then(|| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": !is_space(text),
            })
        })
    });
    let added: Vec<Value> = added.collect();
    let vocab: Map<String, Value> = pieces
        .iter()
        .zip(0..)
        .map(|((text, _), id): (_, u64)| ((*text).to_owned(), id.into()))
        .collect();
    let begin_token = json!({"SpecialToken": {"id": BEGIN, "type_id": 0}});
    let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin_token, text("A")],
            "pair": [begin_token, text("A"), begin_token, text("B")],
            "special_tokens": {BEGIN: {"id": BEGIN, "ids": [begin], "tokens": [BEGIN]}},
        },
        "model": {
            "type": "BPE", "unk_token": unknown, "fuse_unk": true, "byte_fallback": true,
            "vocab": vocab, "merges": merges,
        },
    }))
}

fn text_of(piece: &ProtoPiece) -> Result<&str, String> {
    let text = std::str::from_utf8(&piece.text).map_err(|err| err.to_string())?;
    if text.len() > MAX_PIECE_BYTES {
        return Err(format!(
            "expected pieces of at most {MAX_PIECE_BYTES} bytes, found one of {}",
            text.len()
        ));
    }
    Ok(text)
}

/// Returns true for a run of spaces, lines or tabs.
fn is_space(text: &str) -> bool {
    text.chars()
        .all(|letter| matches!(letter, '▁' | '\n' | '\t'))
}

/// Pairs of pieces that make another one: those of runs of white space first, then by the score of the whole.
fn merges<'a>(pieces: &[(&'a str, &ProtoPiece)], ids: &HashMap<&str, usize>) -> Vec<[&'a str; 2]> {
    let mut ranked = Vec::new();
    for (text, piece) in pieces {
        let score = match piece.kind {
            PieceKind::UserDefined if is_space(text) => 1.0,
            PieceKind::Normal => piece.score,
            _ => continue,
        };
        let splits = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        let mut pairs: Vec<_> = splits
            .filter_map(|(left, right)| Some(((ids.get(left)?, ids.get(right)?), [left, right])))
            .collect();
        pairs.sort_unstable_by_key(|(ids, _)| *ids);
        ranked.extend(pairs.into_iter().map(|(_, pair)| (score, pair)));
    }
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    ranked.into_iter().map(|(_, pair)| pair).collect()
}
