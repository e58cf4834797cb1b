//! Headers written here, sound and hostile.

use std::fs;

use super::*;
use crate::formats::weights::TensorType;
use crate::testing::file_of;
use crate::testing::random::Random;

/// Bytes of a header, put together by hand.
#[derive(Clone, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn new(version: u32, num_tensors: u64, num_entries: u64) -> Self {
        Self(b"GGUF".to_vec())
            .u32(version)
            .u64(num_tensors)
            .u64(num_entries)
    }

    fn u32(mut self, n: u32) -> Self {
        self.0.extend(n.to_le_bytes());
        self
    }

    fn u64(mut self, n: u64) -> Self {
        self.0.extend(n.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let mut with = self.u64(text.len() as u64);
        with.0.extend(text.as_bytes());
        with
    }

    fn tensor(self, name: &str, dims: &[u64], id: u32, offset: u64) -> Self {
        let with = self.text(name).u32(dims.len() as u32);
        let with = dims.iter().fold(with, |with, &n| with.u64(n));
        with.u32(id).u64(offset)
    }

    /// The data, after the padding of the usual alignment.
    fn data(mut self, len: usize) -> Vec<u8> {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + len, 7);
        self.0
    }
}

fn read(bytes: &[u8]) -> Result<WeightHeader, HeaderError> {
    let (_folder, path) = file_of("a.gguf", bytes);
    WeightHeader::open(&path).map(|(_, header)| header)
}

fn gguf(bytes: &[u8]) -> (WeightHeader, GgufMetadata) {
    let mut header = read(bytes).unwrap();
    let metadata = header.gguf.take().unwrap();
    (header, metadata)
}

/// Two tensors and an entry of each sort.
fn whole() -> Vec<u8> {
    Writer::new(3, 2, 5)
        .text("general.architecture")
        .u32(8)
        .text("wan")
        .text("general.file_type")
        .u32(4)
        .u32(7)
        .text("tokens")
        .u32(9)
        .u32(8)
        .u64(2)
        .text("a")
        .text("bc")
        .text("scores")
        .u32(9)
        .u32(6)
        .u64(2)
        .u32(1_f32.to_bits())
        .u32(2_f32.to_bits())
        .text("comfy.gguf.orig_shape.b")
        .u32(9)
        .u32(5)
        .u64(2)
        .u32(4)
        .u32(16)
        .tensor("a", &[3, 2], 0, 0)
        .tensor("b", &[32, 2], 8, 32)
        .data(32 + 68)
}

#[test]
fn gguf_header_gives_types_shapes_offsets_and_metadata() {
    let bytes = whole();
    let (header, metadata) = gguf(&bytes);
    assert_eq!(metadata.text("general.architecture"), Some("wan"));
    assert_eq!(metadata.number("general.file_type"), Some(7));
    let a = &header.tensors["a"];
    assert_eq!((a.shape.as_slice(), a.bytes), (&[2, 3][..], 24));
    let b = &header.tensors["b"];
    assert_eq!(b.dtype, TensorType::Blocks(BlockType::Q8_0));
    assert_eq!((b.shape.as_slice(), b.bytes), (&[4, 16][..], 68));
    assert_eq!(b.start, a.start + 32);
    assert_eq!(b.start + b.bytes, bytes.len() as u64);
    let notes = header.notes;
    assert_eq!(notes["tokens"], "a list of 2");
    assert!(!notes.keys().any(|key| key.contains("orig_shape")));
}

#[test]
fn gguf_metadata_lists_are_read_on_demand() {
    let (_folder, path) = file_of("a.gguf", &whole());
    let (file, header) = WeightHeader::open(&path).unwrap();
    let header = header.gguf.unwrap();
    let mut texts = Vec::new();
    let tokens = header.list("tokens").unwrap();
    header
        .each_text(&file, tokens, |text| texts.push(text))
        .unwrap();
    assert_eq!(texts, [b"a".to_vec(), b"bc".to_vec()]);
    let scores = header.list("scores").unwrap();
    let bytes = header.list_bytes(&file, scores).unwrap();
    assert_eq!(bytes[4..], 2_f32.to_le_bytes());
    assert!(header.each_text(&file, scores, drop).is_err());
}

#[test]
fn both_versions_are_read_and_an_own_alignment_counts() {
    let bytes = Writer::new(2, 1, 1)
        .text("general.alignment")
        .u32(4)
        .u32(8)
        .tensor("a", &[2], 0, 0);
    let start = bytes.0.len().next_multiple_of(8);
    let mut bytes = bytes.0;
    bytes.resize(start + 8, 0);
    assert_eq!(gguf(&bytes).0.tensors["a"].start, start as u64);
}

#[test]
fn gguf_tensors_regain_the_dimensions_that_ggml_folds_or_drops() {
    let bytes = Writer::new(3, 4, 0)
        .tensor("patch_embedding.bias", &[4], 0, 0)
        .tensor("patch_embedding.weight", &[2, 2, 1, 12], 0, 32)
        .tensor("blocks.0.modulation", &[4, 6], 0, 224)
        .tensor("blocks.0.self_attn.q.weight", &[4, 4], 0, 320)
        .data(384);
    let (header, _) = gguf(&bytes);
    let shape = |name: &str| header.tensors[name].shape.clone();
    assert_eq!(shape("patch_embedding.weight"), [4, 3, 1, 2, 2]);
    assert_eq!(shape("blocks.0.modulation"), [1, 6, 4]);
    assert_eq!(shape("blocks.0.self_attn.q.weight"), [4, 4]);
}

#[test]
fn types_that_cannot_be_expanded_are_named() {
    let bytes = Writer::new(3, 1, 0).tensor("a", &[256], 16, 0).data(66);
    let (header, _) = gguf(&bytes);
    assert_eq!(header.tensors["a"].dtype.to_string(), "IQ2_XXS");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = whole();
    for cut in 4..whole.len() {
        let err = read(&whole[..cut]).unwrap_err();
        assert!(err.to_string().contains("cut off"), "{cut}: {err}");
    }
}

#[test]
fn hostile_headers_are_refused_in_one_sentence() {
    let entry = |id: u32| Writer::new(3, 0, 1).text("k").u32(id);
    let tensor = |dims: &[u64], id, offset| {
        Writer::new(3, 1, 0)
            .tensor("a", dims, id, offset)
            .data(4096)
    };
    let twins = Writer::new(3, 2, 0)
        .tensor("a", &[8], 0, 0)
        .tensor("a", &[8], 0, 32);
    let overlap = Writer::new(3, 2, 0)
        .tensor("a", &[9], 0, 0)
        .tensor("b", &[8], 0, 32);
    let alignment = |n| {
        Writer::new(3, 0, 1)
            .text("general.alignment")
            .u32(4)
            .u32(n)
            .data(64)
    };
    let split = Writer::new(3, 0, 1).text("split.count").u32(2);
    let mut split = split.0;
    split.extend(3_u16.to_le_bytes());
    for (bytes, expected) in [
        (Writer::new(1, 0, 0).data(64), "version 1"),
        (Writer::new(4, 0, 0).data(64), "version 4"),
        (Writer::new(3 << 24, 0, 0).data(64), "big-endian"),
        (
            Writer::new(3, u64::MAX, 0).data(64),
            "at most 65536 tensors",
        ),
        (Writer::new(3, 0, 1 << 60).data(64), "entries of metadata"),
        (Writer::new(3, 1000, 0).data(64), "cut off"),
        (entry(8).u64(u64::MAX).data(64), "cut off"),
        (entry(9).u32(8).u64(u64::MAX).data(64), "cut off"),
        (entry(9).u32(11).u64(u64::MAX / 4).data(64), "cut off"),
        (entry(9).u32(9).u64(1).data(64), "list of lists"),
        (entry(13).data(64), "type 13"),
        (alignment(0), "power of two"),
        (alignment(24), "power of two"),
        (split, "gguf-split"),
        (tensor(&[1; 9], 0, 0), "at most 8 sizes"),
        (tensor(&[u64::MAX, 2], 0, 0), "impossible shape"),
        (tensor(&[1 << 62, 1], 0, 0), "impossible shape"),
        (tensor(&[1 << 40, 1 << 40, 0], 0, 0), "impossible shape"),
        (tensor(&[4], 0, u64::MAX - 2), "impossible offset"),
        (tensor(&[4], 0, 1 << 40), "cut off"),
        (tensor(&[33], 8, 0), "whole blocks of 32 Q8_0"),
        (tensor(&[32], 99, 0), "the type 99"),
        (twins.data(64), "'a' twice"),
        (overlap.data(64), "overlap"),
    ] {
        let text = read(&bytes).unwrap_err().to_string();
        assert!(text.contains(expected), "expected {expected}: {text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn a_long_list_that_is_not_there_costs_nothing() {
    // A sparse file as large as its claims.
    let bytes = Writer::new(3, 0, 1).text("k").u32(9).u32(8).u64(1 << 39);
    let (_folder, path) = file_of("a.gguf", &bytes.0);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 42).unwrap();
    let text = WeightHeader::open(&path).unwrap_err().to_string();
    assert!(text.contains("cut off"), "{text}");
}

#[test]
fn no_bytes_make_it_panic() {
    let mut random = Random::new(7);
    for _ in 0..256 {
        let damaged = random.damaged(&whole(), 24, 420);
        let _either = read(&damaged).is_ok();
    }
}
