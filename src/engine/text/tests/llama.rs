//! Llama against `tests/fixtures/text/llama`, and the places and forms in which it lies.

pub(super) mod gguf;

use std::fs;
use std::path::Path;

use safelight_core::families::framepack::LANGUAGE;
use safelight_core::tokens::{HUNYUAN_PROMPT, TextTokenizer};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::{ids, used_ids};
use crate::closeness::assert_close;
use crate::hooks::NoHooks;
use crate::text::{LanguageEncoder, TokenBatch, within_template};
use crate::weights::tests::fixtures::{
    self, Cancelled, behind, fixture, json_of, open, tensors_of, write_folder,
};

const CLASS: Option<&str> = Some("PreTrainedTokenizerFast");

fn facts() -> Value {
    json_of(&fixture("text/llama/facts.json"))
}

fn config() -> Value {
    json_of(&fixture("text/llama/text_encoder.json"))
}

fn recorded(name: &str) -> Tensor {
    fixtures::recorded("text/llama/recorded.safetensors", name)
}

fn tokenizer(length: usize) -> TextTokenizer {
    let file = fixture("text/llama/tokenizer.json");
    TextTokenizer::open(&file, CLASS, length).unwrap()
}

fn weights() -> Vec<(String, Tensor)> {
    tensors_of(&facts()["shapes"], "text_encoder.")
}

/// A larger one, whose heads are as wide as published and whose rows fill blocks.
fn wide_weights() -> Vec<(String, Tensor)> {
    let mut shapes = json!({"embed_tokens.weight": [927, 64], "norm.weight": [64]});
    let layer = json!({
        "input_layernorm": [64], "post_attention_layernorm": [64],
        "self_attn.q_proj": [512, 64], "self_attn.k_proj": [256, 64],
        "self_attn.v_proj": [256, 64], "self_attn.o_proj": [64, 512],
        "mlp.gate_proj": [96, 64], "mlp.up_proj": [96, 64], "mlp.down_proj": [64, 96],
    });
    for i in 0..4 {
        for (name, size) in layer.as_object().unwrap() {
            shapes[format!("layers.{i}.{name}.weight")] = size.clone();
        }
    }
    tensors_of(&shapes, "")
}

pub(super) fn folder() -> TempDir {
    write_folder(&config(), &weights())
}

fn encoder(place: &Path) -> LanguageEncoder {
    let config = LANGUAGE.read(place).unwrap();
    let weights = open(place, Kind::Float);
    assert_eq!(config.num_read_layers(), 2);
    let encoder = LanguageEncoder::new(&config, &weights).unwrap();
    assert_eq!(LanguageEncoder::unexpected_keys(&weights), [""; 0]);
    encoder
}

fn some_ids() -> (Tensor, Tensor) {
    let ids = Tensor::from_slice(&[858_i64, 5, 77, 600, 5, 862, 864, 864]).unsqueeze(0);
    let mask = ids.ne(864).to_kind(Kind::Int64);
    (ids, mask)
}

fn some_states(place: &Path) -> Tensor {
    let (ids, mask) = some_ids();
    encoder(place).forward(&ids, &mask, &NoHooks).unwrap()
}

fn sentence(place: &Path) -> String {
    LANGUAGE.read(place).unwrap_err().to_string()
}

#[test]
fn prompts_give_the_embeddings_that_framepack_reads_and_none_after_cancellation() {
    let folder = folder();
    let encoder = encoder(folder.path());
    let tokenizer = tokenizer(HUNYUAN_PROMPT.length());
    let facts = facts();
    let rows = Tensor::from_slice(&ids(&facts["kept_rows"]));
    for (name, prompt) in facts["prompts"].as_object().unwrap() {
        let text = HUNYUAN_PROMPT.around(prompt.as_str().unwrap());
        let tokens = TokenBatch::encode(&text, &tokenizer).unwrap();
        let states = encoder.forward(&tokens.ids, &tokens.mask, &NoHooks);
        let embeds = within_template(&states.unwrap(), &HUNYUAN_PROMPT);
        assert_eq!(embeds.size(), [1, 256, 48]);
        let mask = within_template(&tokens.mask, &HUNYUAN_PROMPT);
        let expected = recorded(&format!("{name}.prompt_attention_mask"));
        assert_eq!(mask, expected, "{name}");
        let expected = recorded(&format!("{name}.prompt_embeds"));
        assert_close(name, &embeds.index_select(1, &rows), &expected, 2e-6);
    }
    let (ids, mask) = some_ids();
    assert!(encoder.forward(&ids, &mask, &Cancelled).is_none());
}

#[test]
fn whole_llama_returns_the_hidden_states_of_every_layer() {
    let folder = folder();
    let config = LANGUAGE.read(folder.path()).unwrap();
    let weights = open(folder.path(), Kind::Float);
    let whole = LanguageEncoder::whole(&config, &weights).unwrap();
    let (ids, mask) = some_ids();
    let mut states = Vec::new();
    let last = whole.forward_each(&ids, &mask, &NoHooks, &mut |number, found| {
        assert_eq!(number, states.len());
        states.push(found.shallow_clone());
    });
    let expected = recorded("some.hidden_states");
    assert_close("all layers", &Tensor::cat(&states, 0), &expected, 2e-6);
    let (read, last) = last.unwrap();
    assert_eq!(&last, states.last().unwrap());
    assert_eq!(read, states[2]);
    // What the prompt's embeddings come from is the same as without the rest.
    assert_eq!(states[2], some_states(folder.path()));
}

/// Checks the ids of the recorded texts, and what pads them.
fn assert_ids(tokenizer: &TextTokenizer) {
    for row in facts()["rows"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let tokens = TokenBatch::encode(text, tokenizer).unwrap();
        assert_eq!(used_ids(&tokens), ids(&row["ids"]), "{text:?}");
        assert_eq!(tokens.ids.size(), [1, 351]);
        let padding = tokens.ids.slice(1, tokens.num_tokens, None, 1);
        assert!(padding.eq(864).all().int64_value(&[]) == 1, "{text:?}");
    }
}

#[test]
fn any_text_gives_the_ids_of_the_reference() {
    assert_ids(&tokenizer(351));
}

#[test]
fn cut_notice_counts_only_tokens_of_the_prompt_itself() {
    let tokenizer = tokenizer(HUNYUAN_PROMPT.length());
    let notice = |count: usize| {
        let text = HUNYUAN_PROMPT.around(&"1 ".repeat(count));
        let tokens = TokenBatch::encode(&text, &tokenizer).unwrap();
        HUNYUAN_PROMPT.cut_notice(tokens.num_cut, "prompt")
    };
    assert_eq!(notice(100), None);
    let notice_of_600 = notice(600).unwrap();
    let expected = "the prompt is too long: the model reads 256 tokens";
    assert!(notice_of_600.starts_with(expected), "{notice_of_600}");
    // From one more on, each costs two ids of the prompt.
    let first = (1..200).find(|&count| notice(count).is_some()).unwrap();
    let numbers = [first, first + 1].map(|count| {
        let text = notice(count).unwrap();
        let number = text.split("the last ").nth(1).unwrap();
        number.split(' ').next().unwrap().parse::<usize>().unwrap()
    });
    assert!(numbers[0] <= 2, "{numbers:?}");
    assert!(numbers[1] == numbers[0] + 2, "{numbers:?}");
}

#[test]
fn a_llama_is_read_under_every_name_that_files_have() {
    let dir = folder();
    let expected = some_states(dir.path());
    for prefix in [
        "model.",
        "language_model.model.",
        "model.language_model.",
        "text_encoders.llama.transformer.model.",
    ] {
        let mut named = behind(prefix, weights());
        let other = Tensor::ones([2], (Kind::Float, Device::Cpu));
        for name in "vision_tower.x multi_modal_projector.y lm_head.weight".split(' ') {
            named.push((name.to_owned(), other.shallow_clone()));
        }
        Tensor::write_safetensors(&named, dir.path().join("model.safetensors")).unwrap();
        assert_eq!(some_states(dir.path()), expected, "{prefix}");
    }
}

#[test]
fn llama_config_is_inferred_from_tensor_shapes() {
    let config = json!({
        "model_type": "llama", "vocab_size": 927, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 96, "num_hidden_layers": 4,
        "rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 500_000.0, "rope_type": "default"},
    });
    let dir = write_folder(&config, &wide_weights());
    let expected = some_states(dir.path());
    let file = dir.path().join("llava_llama3_fp16.safetensors");
    Tensor::write_safetensors(&behind("model.", wide_weights()), &file).unwrap();
    // The config beside it is not this file's.
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    assert_eq!(some_states(&file), expected);
    // Heads of another width are not guessed.
    let small = dir.path().join("small.safetensors");
    Tensor::write_safetensors(&weights(), &small).unwrap();
    let err = sentence(&small);
    assert!(err.contains("48 query rows"), "{err}");
    assert!(err.contains("config.json"), "{err}");
}

#[test]
fn a_tokenizer_without_padding_pads_with_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    let mut file = json_of(&fixture("text/llama/tokenizer.json"));
    let added = file["added_tokens"].as_array_mut().unwrap();
    added.retain(|token| token["content"] != "<pad>");
    fs::write(&path, file.to_string()).unwrap();
    let tokenizer = TextTokenizer::open(&path, CLASS, 8).unwrap();
    let tokens = TokenBatch::encode("a", &tokenizer).unwrap();
    assert_eq!(tokens.num_tokens, 2);
    let padding = tokens.ids.slice(1, 2, None, 1).flatten(0, 1);
    assert_eq!(Vec::<i64>::try_from(padding).unwrap(), [859; 6]);
}

#[test]
fn a_llama_of_another_kind_is_refused_in_a_sentence() {
    let dir = folder();
    let other = "a Llama 3 text encoder, found a Qwen 2.5 (model_type qwen2)";
    let scaled = json!({"rope_type": "llama3", "factor": 8.0});
    for (name, value, expected) in [
        ("model_type", json!("qwen2"), other),
        ("hidden_size", json!(0), "hidden_size between 1"),
        ("head_dim", json!(13), "even head_dim, found 13"),
        ("rope_theta", json!(-1.0), "at least 1, found -1"),
        ("num_key_value_heads", json!(3), "divides, found 4 and 3"),
        ("num_hidden_layers", json!(2), "more than 2"),
        ("rope_scaling", scaled, "(llama3)"),
        ("rope_scaling", json!({"type": "linear"}), "(linear)"),
        ("attention_bias", json!(true), "biases"),
        ("hidden_act", json!("gelu"), "silu, found gelu"),
        ("num_hidden_layers", json!("many"), "this config is damaged"),
    ] {
        let mut config = config();
        config[name] = value;
        fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let err = sentence(dir.path());
        assert!(err.contains(expected), "{name}: {err}");
    }
    let file = dir.path().join("other.safetensors");
    Tensor::write_safetensors(&[("x", Tensor::from(1.0))], &file).unwrap();
    let err = sentence(&file);
    let expected = "expected a Llama, Mistral, Qwen or Gemma text encoder, found";
    assert!(err.contains(expected), "{err}");
}
