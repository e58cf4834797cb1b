//! Ids against the `sentencepiece` library (`tests/fixtures/text`), and models that somebody has damaged.

use std::fs;

use serde_json::Value;

use super::*;
use crate::testing::{json_fixture, project};
use crate::tokens::TextTokenizer;
use crate::tokens::tests::layouts::{field, piece};
use crate::tokens::tests::with_flips;

fn model_bytes() -> Vec<u8> {
    fs::read(project("assets/little-world/tokenizer/spiece.model")).unwrap()
}

#[test]
fn any_text_gives_the_ids_of_the_library() {
    let spiece = SpieceModel::parse(&model_bytes()).unwrap();
    let rows: Vec<Value> = json_fixture("text/spiece.json");
    assert!(rows.len() > 10);
    for row in rows {
        let found = serde_json::to_value(spiece.encode(row["text"].as_str().unwrap())).unwrap();
        assert_eq!(found, row["ids"], "{}", row["text"]);
    }
}

#[test]
fn both_published_forms_of_a_tokenizer_give_the_same_ids() {
    let folder = project("assets/little-world/tokenizer");
    let spiece = SpieceModel::find(&folder).unwrap().unwrap();
    let tokenizer = TextTokenizer::open(&folder, Some("PreTrainedTokenizerFast"), 512).unwrap();
    for text in [
        "a red boat",
        "",
        "Zürich, 東京 🐉!",
        "<pad> and </s> spelled out",
        "hops hops  hops",
    ] {
        let tokens = tokenizer.encode(text).unwrap();
        let ids = &tokens.ids[..tokens.num_tokens];
        let spelled = text.contains('<');
        // The other form takes special tokens where a text spells them; SentencePiece never does.
        assert_eq!(spiece.encode(text) == ids, !spelled, "{text:?}");
    }
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn small_model(more: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [
        piece("<unk>", 0.0, 2),
        piece("</s>", 0.0, 3),
        piece("▁", -2.0, 1),
        piece("a", -1.0, 1),
    ]
    .concat();
    out.extend(more.concat());
    out
}

fn small_ids(more: &[Vec<u8>], text: &str) -> Vec<i64> {
    SpieceModel::parse(&small_model(more)).unwrap().encode(text)
}

#[test]
fn a_run_of_unknown_characters_is_one_token_without_byte_pieces() {
    assert_eq!(small_ids(&[], "a xyz a"), [2, 3, 2, 0, 2, 3, 1]);
}

#[test]
fn unused_pieces_are_never_found_and_user_defined_ones_always() {
    assert_eq!(small_ids(&[piece("aa", 9.0, 5)], "aa"), [2, 3, 3, 1]);
    assert_eq!(small_ids(&[piece("aa", -50.0, 4)], "aaa"), [2, 3, 4, 1]);
    let ids = small_ids(&[piece("xy", -50.0, 4)], " xy  xy a");
    assert_eq!(ids, [2, 4, 2, 4, 2, 3, 1]);
}

#[test]
fn sentencepiece_whitespace_options_of_the_model_are_respected() {
    let keeps = field(3, &number(4, 0));
    assert_eq!(small_ids(&[keeps], " a "), [2, 2, 3, 2, 1]);
    let no_prefix = field(3, &number(3, 0));
    assert_eq!(small_ids(&[no_prefix], "a"), [3, 1]);
}

#[test]
fn a_file_of_another_kind_is_refused_and_never_panics() {
    let junk: Vec<u8> = (0..255).collect();
    let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let deep: Vec<u8> = std::iter::repeat_n(0x0b, 100_000).collect();
    for bytes in [&b""[..], b"not a model", &junk, &endless, &deep] {
        assert!(SpieceModel::parse(bytes).is_err());
    }
    let map = |value: &[u8]| field(3, &field(2, value));
    for (model, expected) in [
        (piece("</s>", 0.0, 3), "no unknown piece"),
        (piece("<unk>", 0.0, 2), "no piece '</s>'"),
        (small_model(&[piece("a", 0.0, 1)]), "'a' twice"),
        (small_model(&[piece("", 0.0, 1)]), "empty piece"),
        (small_model(&[piece("b", 0.0, 9)]), "kind 9"),
        (small_model(&[field(2, &number(3, 2))]), "model type 2"),
        (small_model(&[map(&[9, 0, 0, 0])]), "damaged"),
        (small_model(&[map(&[1])]), "damaged"),
    ] {
        let text = SpieceModel::parse(&model).err().unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_map_that_leads_to_no_text_is_unsound_wherever_it_does() {
    const LEAF: u32 = 1 << 8;
    let unit = |base: u32, byte: u32| base << 10 | byte;
    let map = |units: &[(usize, u32)], texts: &[u8]| {
        let mut all = vec![0_u32; 512];
        for &(at, unit) in units {
            all[at] = unit;
        }
        let length = (all.len() * 4) as u32;
        let all: Vec<u8> = all.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        [&length.to_le_bytes(), &all[..], texts].concat()
    };
    // 'a' from the root, 'b' behind it, and what stands for both.
    let good = [
        (0, unit(0x100, 0)),
        (0x161, unit(0x161 ^ 0x80, 0x61)),
        (0xe2, unit(0xe2 ^ 0x20, 0x62) | LEAF),
        (0x20, 1 << 31 | 2),
    ];
    assert!(normalizer::is_sound(&map(&good, b"a\0\xc3\xa9\0")));
    assert!(!normalizer::is_sound(&map(&good, b"a\xc3\xa9\0")));
    assert!(!normalizer::is_sound(&map(&good, b"a\xff\xa9\0")));
    for (at, damaged) in [
        (0, unit(0x200, 0)),
        (0x161, unit(0x361, 0x61)),
        (0x20, 1 << 31 | 0x70),
        // The root behind itself.
        (0, unit(0x63, 0x63) | LEAF),
    ] {
        let mut bad = good;
        if let Some(unit) = bad.iter_mut().find(|unit| unit.0 == at) {
            unit.1 = damaged;
        }
        let bad = [&bad[..], &[(0x63, 1 << 31 | 0x70)]].concat();
        let is_sound = normalizer::is_sound(&map(&bad, b"a\0\xc3\xa9\0"));
        assert!(!is_sound, "{at:#x}");
    }
    // What nothing leads to may be anything.
    let beside = [&good[..], &[(0x1ff, unit(0x3_ffff, 0x12) | LEAF)]].concat();
    assert!(normalizer::is_sound(&map(&beside, b"a\0\xc3\xa9\0")));
}

#[test]
fn a_model_without_sense_in_it_still_encodes_without_a_panic() {
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN] {
        for kind in [1, 4] {
            let ids = small_ids(&[piece("aa", score, kind)], "aa xaa aaa");
            assert_eq!(ids.last(), Some(&1));
        }
    }
}

#[test]
fn a_truncated_or_flipped_model_is_refused_or_encodes_without_a_panic() {
    let whole = model_bytes();
    let text = "Zürich, 東京 e\u{301} 🐉! ＬＯＵＤ";
    for len in (0..whole.len()).step_by(whole.len() / 40) {
        assert!(SpieceModel::parse(&whole[..len]).is_err(), "{len}");
    }
    for flipped in with_flips(&whole, 150) {
        if let Ok(model) = SpieceModel::parse(&flipped) {
            assert!(!model.encode(text).is_empty());
        }
    }
}

#[test]
fn an_oversized_model_is_refused_without_reading_it_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spiece.model");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let text = SpieceModel::find(&path).err().unwrap().to_string();
    assert!(text.contains("bytes"), "{text}");
}
