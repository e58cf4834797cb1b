//! A sorted list of pieces, to find those that a text begins with.
//!
//! Knows no scores and no kinds.

use std::ops::Range;

/// Texts and their ids, sorted by bytes.
pub(super) struct PieceTable(Vec<(Vec<u8>, u32)>);

impl PieceTable {
    /// Says so when two pieces have the same text, or one has none.
    pub(super) fn new(pieces: impl Iterator<Item = (Vec<u8>, u32)>) -> Result<Self, String> {
        let mut sorted: Vec<_> = pieces.collect();
        sorted.sort_unstable();
        let twin = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(pair) = twin {
            let text = String::from_utf8_lossy(&pair[0].0);
            return Err(format!("it has the piece '{text}' twice"));
        }
        match sorted.first() {
            Some((text, _)) if text.is_empty() => Err("it has an empty piece".to_owned()),
            _ => Ok(Self(sorted)),
        }
    }

    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        let found = self.0.binary_search_by(|(piece, _)| piece[..].cmp(text));
        found.ok().map(|i| self.0[i].1)
    }

    /// Length and id of every piece that `text` begins with, shortest first.
    pub(super) fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> {
        let mut range = 0..self.0.len();
        let steps = text.iter().enumerate().map_while(move |(depth, &byte)| {
            range = self.narrowed(range.clone(), depth, byte);
            let (piece, id) = self.0[range.clone()].first()?;
            Some((piece.len() == depth + 1).then_some((depth + 1, *id)))
        });
        steps.flatten()
    }

    /// Of pieces with equal first `depth` bytes, those followed by `byte`.
    fn narrowed(&self, range: Range<usize>, depth: usize, byte: u8) -> Range<usize> {
        let slice = &self.0[range.clone()];
        let at = |piece: &(Vec<u8>, u32)| piece.0.get(depth).copied();
        let start = slice.partition_point(|piece| at(piece) < Some(byte));
        let end = slice.partition_point(|piece| at(piece) <= Some(byte));
        range.start + start..range.start + end
    }
}
