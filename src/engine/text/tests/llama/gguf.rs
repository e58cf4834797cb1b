//! The same Llama in GGUF files: weights whose heads lie otherwise, and tokenizers in metadata.

use std::path::Path;

use safelight_core::model::CatalogError;
use safelight_core::tokens::TextTokenizer;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::{assert_ids, fixture, folder, some_states, weights, wide_weights};
use crate::closeness::assert_close;
use crate::error::EngineError;
use crate::text::tests::published::json_of;
use crate::weights::Weights;
use crate::weights::tests::made_up_gguf::GgufFile;

/// As llama.cpp's converter turns the rows of queries and keys.
fn permuted(xs: &Tensor, heads: i64) -> Tensor {
    let size = xs.size();
    let halves = xs.view([heads, 2, size[0] / heads / 2, size[1]]);
    halves.transpose(1, 2).reshape(&size)
}

fn unpermuted(xs: &Tensor, heads: i64) -> Tensor {
    let size = xs.size();
    let pairs = xs.view([heads, size[0] / heads / 2, 2, size[1]]);
    pairs.transpose(1, 2).reshape(&size)
}

/// llama.cpp's name of a tensor, of a Qwen too.
pub(in crate::text::tests) fn gguf_name(name: &str) -> String {
    if name == "norm.weight" {
        return "output_norm.weight".to_owned();
    }
    let name = name
        .replace("layers.", "blk.")
        .replace("embed_tokens", "token_embd")
        .replace("post_attention_layernorm", "ffn_norm")
        .replace("input_layernorm", "attn_norm")
        .replace("self_attn.o_proj", "attn_output");
    name.replace("self_attn.", "attn_")
        .replace("mlp.", "ffn_")
        .replace("_proj", "")
}

fn shared_heads(name: &str) -> Option<i64> {
    let mut heads = [("q_proj", 4), ("k_proj", 2)].into_iter();
    let found = heads.find(|(end, _)| name.contains(end));
    found.map(|(_, heads)| heads)
}

/// A file of the wide Llama, or of the narrow one, whose heads only the metadata knows.
fn gguf(path: &Path, tensors: &[(String, Tensor)]) {
    let mut file = GgufFile::default()
        .text("general.architecture", "llama")
        .number("llama.attention.head_count", 4)
        .number("llama.attention.head_count_kv", 2);
    for (name, xs) in tensors {
        let xs = match shared_heads(name) {
            Some(heads) => permuted(xs, heads),
            None => xs.shallow_clone(),
        };
        let has_blocks = xs.dim() == 2 && xs.size()[1] % 32 == 0;
        let key = gguf_name(name);
        file = if has_blocks {
            file.q8_0(&key, &xs)
        } else {
            file.plain(&key, &xs)
        };
    }
    file.write(path);
}

#[test]
fn a_gguf_file_gives_the_same_though_its_heads_lie_otherwise() {
    let dir = folder();
    let path = dir.path().join("llama-F32.gguf");
    gguf(&path, &weights());
    let expected = some_states(dir.path());
    assert_close("narrow", &some_states(&path), &expected, 1e-6);

    let path = dir.path().join("llama-Q8_0.gguf");
    gguf(&path, &wide_weights());
    let stored = Weights::open(&path, Kind::Float, Device::Cpu).unwrap();
    let exact = wide_weights().into_iter().map(|(name, xs)| {
        let xs = stored.tensor(&gguf_name(&name), &xs.size()).unwrap();
        let xs = match shared_heads(&name) {
            Some(heads) => unpermuted(&xs, heads),
            None => xs,
        };
        (name, xs)
    });
    let plain = dir.path().join("exact.safetensors");
    Tensor::write_safetensors(&exact.collect::<Vec<_>>(), &plain).unwrap();
    assert_close("wide", &some_states(&path), &some_states(&plain), 1e-6);
}

/// What a converter writes of the tokenizer of the fixtures.
fn with_tokenizer(file: GgufFile, splitter: &str) -> GgufFile {
    let tokenizer = json_of(&fixture("text/llama/tokenizer.json"));
    with_pairs(file, &tokenizer, splitter)
        .number("tokenizer.ggml.bos_token_id", 858)
        .number("tokenizer.ggml.eos_token_id", 859)
}

/// The same of any `tokenizer.json` with byte pairs, without the ids that have a role.
pub(in crate::text::tests) fn with_pairs(
    file: GgufFile,
    tokenizer: &Value,
    splitter: &str,
) -> GgufFile {
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
    let added = tokenizer["added_tokens"].as_array().unwrap();
    let mut tokens: Vec<(i64, String, i32)> = vocab
        .iter()
        .map(|(text, id)| (id.as_i64().unwrap(), text.clone(), 1))
        .collect();
    tokens.extend(added.iter().map(|token| {
        let text = token["content"].as_str().unwrap().to_owned();
        let kind = if token["special"] == true { 3 } else { 4 };
        (token["id"].as_i64().unwrap(), text, kind)
    }));
    let spare = i64::try_from(tokens.len()).unwrap();
    tokens.extend((spare..spare + 62).map(|id| (id, format!("[PAD{id}]"), 5)));
    tokens.sort();
    let texts = tokens.iter().map(|(_, text, _)| text.clone().into_bytes());
    let texts: Vec<Vec<u8>> = texts.collect();
    let kinds: Vec<i32> = tokens.iter().map(|(_, _, kind)| *kind).collect();
    let merges = tokenizer["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| {
        let [left, right] = [0, 1].map(|n| pair[n].as_str().unwrap());
        format!("{left} {right}").into_bytes()
    });
    let merges: Vec<Vec<u8>> = merges.collect();
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", splitter)
        .texts("tokenizer.ggml.tokens", &texts)
        .integers("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", &merges)
}

#[test]
fn a_vocabulary_in_metadata_gives_the_ids_of_the_tokenizer_that_it_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("llama.gguf");
    with_tokenizer(GgufFile::default(), "llama-bpe").write(&path);
    let tokenizer = TextTokenizer::open(&path, None, 351).unwrap();
    assert_eq!(tokenizer.vocab_size(), 927);
    assert_ids(&tokenizer);
}

#[test]
fn a_tokenizer_in_metadata_that_is_not_llamas_is_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("llama.gguf");
    let say = |file: GgufFile| {
        file.write(&path);
        let Err(err) = TextTokenizer::open(&path, None, 351) else {
            panic!("it was read");
        };
        let err = EngineError::from(err);
        let is_of_file = matches!(err, EngineError::Catalog(CatalogError::WrongFile { .. }));
        assert!(is_of_file, "{err}");
        err.to_string()
    };
    let err = say(with_tokenizer(GgufFile::default(), "deepseek-llm"));
    assert!(err.contains("'deepseek-llm'"), "{err}");
    let bare = || GgufFile::default().text("tokenizer.ggml.model", "gpt2");
    assert!(say(bare()).contains("no tokens"));
    let some = |merge: &str| {
        bare()
            .texts("tokenizer.ggml.tokens", &[b"a".to_vec(), b"b".to_vec()])
            .texts("tokenizer.ggml.merges", &[merge.as_bytes().to_vec()])
    };
    assert!(say(some("a b")).contains("begins a text"));
    let begun = |merge: &str| some(merge).number("tokenizer.ggml.bos_token_id", 0);
    assert!(say(begun("ab")).contains("not two tokens"));
    // A merge of tokens that are not there is the library's to refuse.
    assert!(say(begun("a c")).contains("not a tokenizer"));
    let far = some("a b").number("tokenizer.ggml.bos_token_id", 9);
    assert!(say(far).contains("begins a text"));
    let broken = bare().texts("tokenizer.ggml.tokens", &[vec![0xff]]);
    assert!(say(broken).contains("utf-8"));
}
