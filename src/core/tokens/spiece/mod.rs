//! SentencePiece Unigram models: `spiece.model`, the form in which T5 and UMT5 tokenizers were published.
//!
//! Gives the ids of the `sentencepiece` library itself: unknown characters are spelled as bytes where the model
//! can, and no text spells a special token. Does not pad or cut, and reads no model that is not Unigram.
//!
//! The Unigram of the `tokenizers` library does not do here: it sums in f64 where SentencePiece sums in f32, so ties
//! fall otherwise; its normalizer drops accents; it keeps one hash map a byte of all pieces (0.4 GB for UMT5's) and
//! overflows the stack with a piece of megabytes. T5s are read with it, because `transformers` does: see [`T5Pieces`].
//!
//! After <https://github.com/google/sentencepiece/blob/v0.2.0/src/unigram_model.cc>; scores of user-defined pieces
//! are as version 0.2.3 was measured to have them.

mod export;
mod gguf;
mod normalizer;
mod pieces;
mod proto;

use std::path::{Path, PathBuf};

pub use self::export::T5Pieces;
pub(crate) use self::gguf::GGUF_PIECES;
use self::normalizer::SpieceNormalizer;
pub(super) use self::normalizer::is_sound as is_sound_charsmap;
use self::pieces::PieceTable;
pub use self::proto::{NormalizerSpec, PieceKind, ProtoModel, ProtoPiece};
pub(crate) use self::proto::{count_pieces, has_pairs};
use crate::files::has_ending;
use crate::model::CatalogError;
use crate::tokens::files::{read_bytes, tensor_bytes};

/// The tensor of a weight file that holds the bytes of a `spiece.model` (a habit of ComfyUI's files).
pub const SPIECE_TENSOR: &str = "spiece_model";

/// The one kind of model that is read here.
const UNIGRAM: u64 = 1;
/// Difference of an unknown character's score from the worst piece's.
const UNKNOWN_PENALTY: f32 = 10.0;

pub struct SpieceModel {
    normalizer: SpieceNormalizer,
    /// Pieces that are found in texts, and nothing else.
    pieces: PieceTable,
    /// Pieces that match anywhere, and are never normalised.
    user_defined: PieceTable,
    /// By id, for pieces that are found in texts; 0 for the others.
    scores: Vec<PieceScore>,
    unk_score: f32,
    unk_id: u32,
    eos_id: u32,
    pad_id: u32,
    /// By byte; none where the model spells nothing.
    byte_ids: Option<Vec<u32>>,
}

#[derive(Clone, Copy)]
enum PieceScore {
    Plain(f32),
    UserDefined,
    Unused,
}

impl SpieceModel {
    /// Model at a tokenizer's path: a folder, a weight file, or a separate file; `None` if there is none.
    pub fn find(place: &Path) -> Result<Option<Self>, CatalogError> {
        let found = Self::find_model(place)?;
        found
            .map(|(model, path)| Self::from_model(&model, &path))
            .transpose()
    }

    /// The model that [`Self::find`] finds as its file has it, and that file.
    pub fn find_model(place: &Path) -> Result<Option<(ProtoModel, PathBuf)>, CatalogError> {
        if has_end(place, "gguf") {
            let model = gguf::model_inside(place)?;
            return Ok(model.map(|model| (model, place.to_owned())));
        }
        let Some((bytes, path)) = Self::find_bytes(place)? else {
            return Ok(None);
        };
        match ProtoModel::parse(&bytes) {
            Ok(model) => Ok(Some((model, path))),
            Err(reason) => Err(not_unigram(&reason, &path)),
        }
    }

    fn find_bytes(place: &Path) -> Result<Option<(Vec<u8>, PathBuf)>, CatalogError> {
        let path: PathBuf = if place.is_dir() {
            place.join("spiece.model")
        } else if has_end(place, "safetensors") {
            let bytes = tensor_bytes(place, SPIECE_TENSOR)?;
            return Ok(bytes.map(|bytes| (bytes, place.to_owned())));
        } else if has_end(place, "json") {
            place.with_file_name("spiece.model")
        } else {
            place.to_owned()
        };
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some((read_bytes(&path)?, path)))
    }

    /// Ids of a text, followed by the end token.
    pub fn encode(&self, text: &str) -> Vec<i64> {
        let normal = self.normalizer.normalize(text, &self.user_defined);
        let mut ids = Vec::new();
        let mut was_unknown = false;
        for (start, end, id) in self.best_path(&normal) {
            let is_unknown = id == self.unk_id;
            match &self.byte_ids {
                Some(bytes) if is_unknown => {
                    let spelled = normal[start..end].iter();
                    ids.extend(spelled.map(|&byte| i64::from(bytes[usize::from(byte)])));
                }
                // A run of unknown characters is one token.
                _ if is_unknown && was_unknown => {}
                _ => ids.push(i64::from(id)),
            }
            was_unknown = is_unknown;
        }
        ids.push(i64::from(self.eos_id));
        ids
    }

    pub fn eos_id(&self) -> i64 {
        i64::from(self.eos_id)
    }

    pub fn pad_id(&self) -> i64 {
        i64::from(self.pad_id)
    }

    /// One more than the largest id that can come out.
    pub fn vocab_size(&self) -> i64 {
        self.scores.len() as i64
    }

    /// Makes a model ready; `path` is where it is from.
    pub fn from_model(model: &ProtoModel, path: &Path) -> Result<Self, CatalogError> {
        Self::from_proto(model).map_err(|reason| not_unigram(&reason, path))
    }

    #[cfg(test)]
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        Self::from_proto(&ProtoModel::parse(bytes)?)
    }

    fn from_proto(model: &ProtoModel) -> Result<Self, String> {
        let ProtoModel {
            pieces,
            trainer,
            normalizer,
        } = model;
        if trainer.model_type != UNIGRAM {
            return Err(format!("found the model type {}", trainer.model_type));
        }
        let id = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
        let of_kind = |kinds: &'static [PieceKind]| {
            let all = pieces.iter().enumerate();
            all.filter(move |(_, piece)| kinds.contains(&piece.kind))
                .map(move |(i, piece)| (piece.text.clone(), id(i)))
        };
        let special = PieceTable::new(of_kind(&[
            PieceKind::Unknown,
            PieceKind::Control,
            PieceKind::Byte,
        ]))?;
        let find = |text: &[u8]| {
            let name = String::from_utf8_lossy(text);
            special
                .id(text)
                .ok_or_else(|| format!("found no piece '{name}'"))
        };
        let unknown = of_kind(&[PieceKind::Unknown]).next();
        let spelled = || (0..=255_u8).map(|byte| find(format!("<0x{byte:02X}>").as_bytes()));
        let normal = pieces.iter().filter(|p| p.kind == PieceKind::Normal);
        let min_score = normal.map(|p| p.score).fold(f32::MAX, f32::min);
        Ok(Self {
            normalizer: SpieceNormalizer::new(
                normalizer.clone(),
                trainer.treat_whitespace_as_suffix,
            )?,
            pieces: PieceTable::new(of_kind(&[
                PieceKind::Normal,
                PieceKind::UserDefined,
                PieceKind::Unused,
            ]))?,
            user_defined: PieceTable::new(of_kind(&[PieceKind::UserDefined]))?,
            unk_score: min_score - UNKNOWN_PENALTY,
            unk_id: unknown.ok_or("found no unknown piece")?.1,
            eos_id: find(&trainer.eos_piece)?,
            pad_id: find(&trainer.pad_piece).unwrap_or(0),
            byte_ids: trainer
                .byte_fallback
                .then(|| spelled().collect())
                .transpose()?,
            scores: pieces
                .iter()
                .map(|piece| match piece.kind {
                    PieceKind::UserDefined => PieceScore::UserDefined,
                    PieceKind::Unused => PieceScore::Unused,
                    _ => PieceScore::Plain(piece.score),
                })
                .collect(),
        })
    }

    /// The most likely pieces of a text, each with where it begins and ends.
    ///
    /// Sums are f32 and compared as the library compares them: a tie goes to the longer last piece.
    fn best_path(&self, text: &[u8]) -> Vec<(usize, usize, u32)> {
        #[derive(Clone, Copy, Default)]
        struct LatticeNode {
            score: f32,
            /// Start and id of the piece that ends here; `None` until one is found.
            piece: Option<(usize, u32)>,
        }
        let mut nodes = vec![LatticeNode::default(); text.len() + 1];
        let mut start = 0;
        while start < text.len() {
            let here = nodes[start].score;
            let char_len = char_len(text[start]).min(text.len() - start);
            let mut reach = |len: usize, score: f32, id: u32| {
                let node = &mut nodes[start + len];
                let score = here + score;
                if node.piece.is_none() || score > node.score {
                    let piece = Some((start, id));
                    *node = LatticeNode { score, piece };
                }
            };
            let mut has_char = false;
            for (len, id) in self.pieces.prefixes(&text[start..]) {
                let score = match self.scores[id as usize] {
                    PieceScore::Unused => continue,
                    PieceScore::Plain(score) => score,
                    // More than any piece of a trained model has, by length.
                    PieceScore::UserDefined => 0.1 * (len as f32 - 1.0),
                };
                reach(len, score, id);
                has_char |= len == char_len;
            }
            if !has_char {
                reach(char_len, self.unk_score, self.unk_id);
            }
            start += char_len;
        }
        let mut path = Vec::new();
        let mut end = text.len();
        while let Some((start, id)) = nodes[end].piece {
            path.push((start, end, id));
            end = start;
        }
        path.reverse();
        path
    }
}

fn not_unigram(reason: &str, path: &Path) -> CatalogError {
    let reason = format!("expected a SentencePiece Unigram model: {reason}");
    CatalogError::config(reason, path)
}

pub(super) fn has_end(path: &Path, end: &str) -> bool {
    has_ending(path, &[end])
}

/// Length in bytes of the character that begins with `byte`.
fn char_len(byte: u8) -> usize {
    match byte {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
