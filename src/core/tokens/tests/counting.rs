//! What is counted is what the engine would read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::assets;
use crate::families::{flux, framepack, sdxl, text_readers, wan};
use crate::fitting::FoundEmbedding;
use crate::job::prompt::{BracketUse, WildcardFolders};
use crate::model::{GuidanceMode, ModelSpec, test_spec};
use crate::testing::fixture;
use crate::testing::published::shipped;
use crate::token_count::{TokenCountRequest, TokenCounter};
use crate::tokens::{TextTokenizer, clean_wan_prompt};

fn wan() -> ModelSpec {
    let mut spec = test_spec();
    spec.family = wan::FAMILY;
    spec.files.tokenizer = assets();
    spec.files.tokenizer_class = Some("T5TokenizerFast".to_owned());
    spec
}

fn wish(spec: &ModelSpec, prompts: &[&str]) -> TokenCountRequest {
    TokenCountRequest {
        readers: text_readers(spec),
        prompts: prompts.iter().map(|text| (*text).to_owned()).collect(),
        is_literal: false,
        wildcards: WildcardFolders::default(),
        embeddings: Arc::default(),
        has_times: false,
        brackets: BracketUse::Weights,
    }
}

#[test]
fn the_tokens_of_a_prompt_are_those_that_the_model_reads() {
    let text = "  A red boat &amp; a   blue one, 日本の猫 ";
    let class = Some("T5TokenizerFast");
    let own = TextTokenizer::open(&assets(), class, 512).unwrap();
    let expected = own.encode(&clean_wan_prompt(text)).unwrap().num_tokens;
    let mut counter = TokenCounter::default();
    let found = counter.count(&wish(&wan(), &[text])).unwrap();
    let [umt5] = &found.encoders[..] else {
        panic!("Wan has one text encoder")
    };
    assert_eq!((umt5.tokens, umt5.limit), (expected, 512));
    assert!(!umt5.is_estimate && !found.varies && umt5.num_cut() == 0);
}

#[test]
fn tokens_beyond_the_limit_are_counted_as_cut() {
    let text = "boat ".repeat(700);
    let mut counter = TokenCounter::default();
    let found = counter.count(&wish(&wan(), &[&text])).unwrap();
    let own = TextTokenizer::open(&assets(), Some("T5TokenizerFast"), 4000).unwrap();
    let whole = own.encode(text.trim()).unwrap().num_tokens;
    assert_eq!(found.encoders[0].num_cut(), whole - 512);
}

#[test]
fn flux_reads_with_t5_and_video_and_schnell_reads_less() {
    let mut spec = wan();
    spec.family = flux::FAMILY;
    spec.guidance = GuidanceMode::Distilled;
    spec.files.tokenizer_2 = Some(assets());
    let readers = |spec: &ModelSpec| {
        let readers = text_readers(spec).into_iter();
        let named = readers.map(|reader| (reader.name, reader.limit));
        named.collect::<Vec<_>>()
    };
    assert_eq!(readers(&spec), [("T5", 512), ("CLIP", 77)]);
    spec.guidance = GuidanceMode::None;
    assert_eq!(readers(&spec), [("T5", 256), ("CLIP", 77)]);
}

#[test]
fn words_around_a_prompt_of_framepack_do_not_count() {
    let mut spec = wan();
    spec.family = framepack::FAMILY;
    spec.files.tokenizer = fixture("text/llama/tokenizer.json");
    spec.files.tokenizer_class = None;
    let mut counter = TokenCounter::default();
    let mut count = |text: &str| counter.count(&wish(&spec, &[text])).unwrap().encoders[0].tokens;
    let (none, two) = (count(""), count(" 1 1"));
    assert!(two > none && two - none <= 4, "{none} and {two}");
    assert_eq!(text_readers(&spec)[0].limit, 256);
}

#[test]
fn each_timeline_part_is_counted_separately() {
    let mut spec = wan();
    spec.files.tokenizer = assets();
    let mut counter = TokenCounter::default();
    let mut wish = wish(&spec, &["a man [0s-2s: waves at a boat] [2s: turns]"]);
    let whole = counter.count(&wish).unwrap();
    wish.has_times = true;
    let parts = counter.count(&wish).unwrap();
    assert_eq!((whole.num_parts, parts.num_parts), (1, 3));
    assert!(parts.encoders[0].tokens < whole.encoders[0].tokens);
}

#[test]
fn the_longest_of_several_prompts_and_branches_counts() {
    let spec = wan();
    let mut counter = TokenCounter::default();
    let mut count = |prompts: &[&str]| counter.count(&wish(&spec, prompts)).unwrap();
    let long = count(&["a boat with a very long red sail"]);
    let lines = count(&["a boat", "a boat with a very long red sail", "sea"]);
    assert_eq!(lines.encoders, long.encoders);
    let branches = count(&["a boat{| with a very long red sail}"]);
    assert_eq!(branches.encoders, long.encoders);
    assert!(branches.varies);
}

#[test]
fn without_a_tokenizer_the_number_is_marked_as_a_guess() {
    let mut spec = wan();
    spec.files.tokenizer = PathBuf::from("/nowhere/at/all");
    let mut counter = TokenCounter::default();
    let wish = wish(&spec, &["a red boat on the sea"]);
    let found = counter.count(&wish).unwrap();
    assert!(found.encoders[0].is_estimate);
    assert!((4..9).contains(&found.encoders[0].tokens));
}

#[test]
fn a_wildcard_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sea.txt"), "calm\n").unwrap();
    let mut wish = wish(&wan(), &["a __sea__", "a __boat__"]);
    wish.wildcards = WildcardFolders::new([folder.path().to_owned()]);
    let err = TokenCounter::default().count(&wish).unwrap_err();
    assert!(err.to_string().contains("__boat__"), "{err}");
}

#[test]
fn brackets_and_numbers_of_weights_are_no_tokens() {
    let mut counter = TokenCounter::default();
    let mut count = |text: &str, brackets| {
        let wish = TokenCountRequest {
            brackets,
            ..wish(&wan(), &[text])
        };
        counter.count(&wish).unwrap().encoders[0].tokens
    };
    let plain = count("a red boat", BracketUse::Weights);
    assert_eq!(count("a (red:1.25) boat", BracketUse::Weights), plain);
    assert!(count("a (red:1.25) boat", BracketUse::Text) > plain);
}

#[test]
fn an_embedding_counts_as_many_tokens_as_it_has_rows() {
    let mut spec = test_spec();
    spec.family = sdxl::FAMILY;
    spec.files.tokenizer = shipped("clip-l");
    let embedding = FoundEmbedding {
        path: "bad-hands.safetensors".into(),
        name: "bad-hands".to_owned(),
        config: 6,
    };
    let embeddings = Arc::new(vec![embedding]);
    let mut counter = TokenCounter::default();
    let mut count = |text: &str, brackets| {
        let wish = TokenCountRequest {
            brackets,
            embeddings: Arc::clone(&embeddings),
            ..wish(&spec, &[text])
        };
        counter.count(&wish).unwrap().encoders[0].tokens
    };
    let plain = count("a fox", BracketUse::Weights);
    let found = count("a fox embedding:bad-hands", BracketUse::Weights);
    assert_eq!(found, plain + 6);
    assert_eq!(count("a fox bad-hands", BracketUse::A1111), plain + 6);
}
