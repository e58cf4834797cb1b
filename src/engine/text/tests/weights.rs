//! Hidden states with prompt weights against `tests/fixtures/text/weights`.

use safelight_core::families::framepack::LANGUAGE;
use safelight_core::job::GenerateRequest;
use safelight_core::networks::T5Kind;
use safelight_core::tokens::HUNYUAN_PROMPT;
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::{fixtures, llama};
use crate::capture::StageCapture;
use crate::closeness::{assert_close, distance};
use crate::hooks::NoHooks;
use crate::placement::ComputePlacement;
use crate::text::weighting::weigh;
use crate::text::{
    EncodedText, EncoderFiles, PaddingMode, TextEmbeds, read_clip, read_language, read_t5,
};
use crate::weights::tests::fixtures::{self as files, fixture, json_of};
use crate::work::StageWork;

fn recorded(name: &str) -> Tensor {
    files::recorded("text/weights/recorded.safetensors", name)
}

fn facts() -> Value {
    json_of(&fixture("text/weights/facts.json"))
}

fn request(family: &str, files: &Value, prompt: &str, has_weights: bool) -> GenerateRequest {
    let request = json!({
        "model": "tiny", "family": family, "files": files, "out": "a.png", "fps": 1.0, "num_frames": 1, "sampler": "euler",
        "prompt": prompt, "negative_prompt": "", "width": 32, "height": 32, "num_steps": 2, "guidance_scale": 1.0, "seed": 5,
        "prompt_weights": if has_weights { "comfyui" } else { "off" },
    });
    serde_json::from_value(request).unwrap()
}

/// Embeddings of the prompt of a request.
fn read(
    request: &GenerateRequest,
    encode: impl FnOnce(&[EncodedText], &mut StageWork<'_>) -> Vec<TextEmbeds>,
) -> Tensor {
    let mut work = StageWork {
        request,
        place: ComputePlacement {
            device: Device::Cpu,
            kind: Kind::Float,
            resident_bytes: None,
            keeps: false,
        },
        capture: &mut StageCapture::off(),
        hooks: &NoHooks,
    };
    let texts = EncodedText::all_of(request).unwrap();
    let mut embeds = tch::no_grad(|| encode(&texts, &mut work));
    embeds.remove(0).prompt
}

fn umt5_states(prompt: &str, padding: PaddingMode, has_weights: bool) -> Tensor {
    let folder = fixtures().join("pipeline");
    let files = json!({
        "transformer": "", "vae": "", "text_encoder": folder.join("text_encoder"), "tokenizer": folder.join("tokenizer"),
        "tokenizer_class": "T5TokenizerFast", "expand_timesteps": false,
    });
    let request = request("wan", &files, prompt, has_weights);
    let length = facts()["length"].as_u64().unwrap() as usize;
    read(&request, |texts, work| {
        let files = EncoderFiles::first(&request.files);
        read_t5(&files, T5Kind::Umt5, texts, (length, padding), work).unwrap()
    })
}

#[test]
fn weights_scale_the_difference_to_the_empty_prompt_in_t5() {
    for (number, prompt) in facts()["prompts"].as_array().unwrap().iter().enumerate() {
        let prompt = prompt.as_str().unwrap();
        for (name, padding) in [
            ("zero", PaddingMode::Zero),
            ("seen", PaddingMode::Seen),
            ("hidden", PaddingMode::Hidden),
        ] {
            let expected = recorded(&format!("{number}.{name}"));
            let found = umt5_states(prompt, padding, true).narrow(1, 0, expected.size()[0]);
            let name = format!("{prompt} {name}");
            assert_close(&name, &found, &expected.unsqueeze(0), 1e-5);
            let plain = umt5_states(prompt, padding, false).narrow(1, 0, expected.size()[0]);
            assert!(distance(&plain, &expected.unsqueeze(0)) > 0.05, "{name}");
        }
    }
}

#[test]
fn weights_scale_the_difference_to_the_empty_prompt_in_llama() {
    let folder = llama::folder();
    let tokenizer = fixture("text/llama/tokenizer.json");
    let files = json!({
        "transformer": "", "vae": "", "text_encoder": folder.path(), "tokenizer": tokenizer,
        "tokenizer_class": "PreTrainedTokenizerFast", "expand_timesteps": false,
    });
    for (number, prompt) in facts()["prompts"].as_array().unwrap().iter().enumerate() {
        let prompt = prompt.as_str().unwrap();
        let request = request("framepack", &files, prompt, true);
        let found = read(&request, |texts, work| {
            let files = EncoderFiles::first(&request.files);
            read_language(&files, texts, (LANGUAGE, &HUNYUAN_PROMPT), work).unwrap()
        });
        let expected = recorded(&format!("{number}.llama")).unsqueeze(0);
        let found = found.narrow(1, 0, expected.size()[1]);
        assert_close(prompt, &found, &expected, 1e-5);
    }
}

#[test]
fn a_prompt_without_weights_is_the_same_to_the_bit_with_them_switched_on() {
    for prompt in ["a red boat [at night], 1:2", ""] {
        for padding in [PaddingMode::Zero, PaddingMode::Seen, PaddingMode::Hidden] {
            let [on, off] = [true, false].map(|it| umt5_states(prompt, padding, it));
            assert_eq!(on, off);
        }
    }
    let states = Tensor::rand([1, 3, 4], (Kind::Float, Device::Cpu));
    let empty = Tensor::rand([1, 5, 4], (Kind::Float, Device::Cpu));
    let weights = Tensor::from_slice(&[1.0_f32, 0.0, 1.0]).unsqueeze(0);
    let found = weigh(&states, &empty, &weights);
    assert_eq!(found.select(1, 0), states.select(1, 0));
    assert_eq!(found.select(1, 1), empty.select(1, 1));
    assert_eq!(found.select(1, 2), states.select(1, 2));
}

#[test]
fn the_pooled_vector_of_clip_has_no_weights_and_reads_no_brackets() {
    let pooled = |prompt: &str, has_weights: bool| {
        let folder = super::flux::clip_folder();
        let files = json!({
            "transformer": "", "vae": "", "text_encoder": folder.path(), "tokenizer": fixture("text/flux"),
            "tokenizer_class": "CLIPTokenizer", "expand_timesteps": false,
        });
        let request = request("flux", &files, prompt, has_weights);
        read(&request, |texts, work| {
            let pooled = read_clip(&EncoderFiles::first(&request.files), texts, work);
            let pooled = pooled.unwrap().into_iter();
            pooled.map(TextEmbeds::of_states).collect()
        })
    };
    let plain = pooled("a red boat", false);
    assert_eq!(pooled("a (red:1.5) boat", true), plain);
    assert_ne!(pooled("a (red:1.5) boat", false), plain);
}
