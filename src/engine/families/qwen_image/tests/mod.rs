//! The transformer by itself: its names behind every prefix, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/qwen_image`.
//!
//! The weights are a formula of their names, see `tests/fixtures/qwen_image/generate.py`. Limits are relative L2
//! distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::Lora;
use safelight_core::networks::QwenImageTransformerConfig;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::hooks::NoHooks;
use crate::place::Placement;
use crate::store;
use crate::weights::tests::as_fp8::{FORMS, write_fp8};
use crate::weights::tests::made_up::{made_up, write_lora_of};
use crate::weights::tests::made_up_gguf::both_forms;

/// The strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;
/// Another order of sums: adding the change to the weights first is 6e-6 off.
const LIMIT: f64 = 1e-5;
/// Rows and columns of the picture that is asked for.
const GRID: [i64; 2] = [2, 3];

/// A model's tensors by their names.
type Tensors = BTreeMap<String, Tensor>;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen_image")
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn config() -> QwenImageTransformerConfig {
    serde_json::from_value(json_of("transformer.json")).unwrap()
}

fn tensors() -> Tensors {
    let shapes = json_of("shapes.json")["tiny"]["transformer"].take();
    let shapes: BTreeMap<String, Vec<i64>> = serde_json::from_value(shapes).unwrap();
    let named = shapes.into_iter();
    named
        .map(|(name, shape)| {
            let tensor = made_up(&format!("transformer.{name}"), &shape);
            (name, tensor)
        })
        .collect()
}

/// The same weights behind a prefix with another component beside them, and bare.
fn layouts() -> [(&'static str, Tensors); 2] {
    let bare = tensors();
    let behind = |(name, tensor): (&String, &Tensor)| {
        let name = format!("model.diffusion_model.{name}");
        (name, tensor.shallow_clone())
    };
    let mut prefixed: Tensors = bare.iter().map(behind).collect();
    let other = Tensor::from_slice(&[0_f32]);
    prefixed.insert("vae.decoder.conv_in.bias".to_owned(), other);
    [("prefixed", prefixed), ("bare", bare)]
}

/// A file of `tensors`, which is gone with the folder.
fn written(tensors: &Tensors) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transformer.safetensors");
    let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
    Tensor::write_safetensors(&named, &path).unwrap();
    (folder, path)
}

fn opened(path: &Path) -> Weights {
    Weights::open(path, Kind::Float, Device::Cpu).unwrap()
}

/// The answers to made-up inputs at some timesteps.
fn answers(w: &Weights, timesteps: &[f32]) -> Vec<Tensor> {
    let config = config();
    let transformer = QwenImageTransformer::new(&config, w).unwrap();
    assert_eq!(
        QwenImageTransformer::unexpected_keys(w),
        Vec::<String>::new()
    );
    let text = made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]);
    let tokens = made_up("in.latents", &[1, 6, config.in_channels]);
    let context = transformer.context(&text, GRID, &[], 1);
    let told = transformer.modulations(timesteps);
    let answers = told.iter();
    answers
        .map(|told| {
            let answer = transformer.forward(&tokens, told, &context, &NoHooks);
            answer.unwrap()
        })
        .collect()
}

fn answer(w: &Weights) -> Tensor {
    answers(w, &[750.0]).remove(0)
}

fn expected(name: &str) -> Tensor {
    let all = store::read(&fixtures().join("lora.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

fn lora(folder: &Path, form: &str, strength: f64) -> Lora {
    let list = fixtures().join("lora.json");
    Lora {
        path: write_lora_of(&list, folder, &format!("qwen_image.{form}"), None),
        strength,
        strength_2: None,
    }
}

#[test]
fn every_layout_gives_the_answer_of_the_reference_and_leaves_nothing_unread() {
    with_both_frequencies(|| {
        for (name, tensors) in layouts() {
            let (_folder, path) = written(&tensors);
            let limit = limit("qwen_image/lora", "none", 1e-5);
            assert_close(name, &answer(&opened(&path)), &expected("none"), limit);
        }
    });
}

#[test]
fn a_file_that_lacks_a_tensor_or_has_no_qwen_image_in_it_is_named() {
    for (name, mut tensors) in layouts() {
        let key = tensors.keys().find(|key| key.contains("blocks.1."));
        let key = key.unwrap().clone();
        tensors.remove(&key);
        let (_folder, path) = written(&tensors);
        let err = QwenImageTransformer::new(&config(), &opened(&path));
        let err = err.err().unwrap().to_string();
        assert!(err.contains("blocks.1."), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let (_folder, path) = written(&other);
    let err = QwenImageTransformer::new(&config(), &opened(&path));
    let err = err.err().unwrap().to_string();
    assert!(err.contains("img_in.weight"), "{err}");
}

#[test]
fn loras_of_every_form_on_every_layout_are_those_of_the_reference() {
    with_both_frequencies(|| {
        let folder = tempfile::tempdir().unwrap();
        for (layout, tensors) in layouts() {
            let (_model, path) = written(&tensors);
            let w = opened(&path);
            for form in ["musubi", "comfy", "comfy_alpha", "lightning", "peft"] {
                let one = lora(folder.path(), form, STRENGTH);
                let changed = answer(&with_loras(&w, &[one]).unwrap());
                let limit = limit("qwen_image/lora", form, LIMIT);
                assert_close(
                    &format!("{form} on {layout}"),
                    &changed,
                    &expected(form),
                    limit,
                );
                let far = distance(&changed, &expected("none"));
                assert!(far > 0.01, "{form} on {layout}: {far}");
            }
        }
    });
}

#[test]
fn a_transformer_in_blocks_gives_what_its_numbers_give() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = tensors().into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, exact] = places.map(|place| answer(&opened(&place)));
    assert_eq!(found, exact);
    // Eight bits are near the truth, and not it.
    let far = distance(&found, &expected("none"));
    assert!((1e-4..0.05).contains(&far), "{far}");
}

#[test]
fn a_transformer_of_fp8_gives_what_its_numbers_give_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for (kind, scales, name) in FORMS {
        write_fp8(&path, &tensors(), kind, scales);
        let w = opened(&path);
        let found = answer(&w);
        let exact = tensors().into_iter().map(|(key, tensor)| {
            let exact = w.tensor(&key, &tensor.size()).unwrap();
            (key, exact)
        });
        let (_folder, plain) = written(&exact.collect());
        assert_close(name, &found, &answer(&opened(&plain)), 1e-6);
        let far = distance(&found, &expected("none"));
        assert!((1e-3..0.4).contains(&far), "{name}: {far}");
    }
}

#[test]
fn a_transformer_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let loras = ["musubi", "lightning"].map(|form| lora(folder.path(), form, 0.7));
    let all: Vec<(String, Tensor)> = tensors().into_iter().collect();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    let files = layouts().map(|(_, tensors)| written(&tensors));
    let places = files.iter().map(|(_, path)| (path, &loras[..]));
    for (path, loras) in places.chain([(&blocks, &[][..])]) {
        let run = |resident_bytes| {
            let place = Placement {
                device: Device::Cpu,
                kind: Kind::Float,
                resident_bytes,
                keeps: false,
            };
            let w = with_loras(&place.open(path).unwrap(), loras).unwrap();
            (answers(&w, &[900.0, 500.0, 100.0]), w.stream_bytes())
        };
        let (whole, _) = run(None);
        let all = run(Some(u64::MAX)).1.unwrap();
        for budget in [0, all.resident / 2, all.resident - 1] {
            let (found, taken) = run(Some(budget));
            assert_eq!(found, whole, "{budget} bytes of {all:?}");
            let taken = taken.unwrap();
            assert!(taken.resident <= budget.max(all.resident / 4), "{taken:?}");
        }
    }
}

#[test]
fn a_batch_on_any_device_is_asked_at_once_and_gives_each_picture_its_own() {
    let (_folder, path) = written(&tensors());
    let w = opened(&path);
    let config = config();
    let transformer = QwenImageTransformer::new(&config, &w).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.joint_attention_dim]);
    let tokens = made_up("in.two", &[2, 35, config.in_channels]);
    let told = &transformer.modulations(&[300.0])[0];
    let ask = |xs: &Tensor| {
        let context = transformer.context(&text, [5, 7], &[], xs.size()[0]);
        transformer.forward(xs, told, &context, &NoHooks).unwrap()
    };
    let both = ask(&tokens);
    let each = [ask(&tokens.narrow(0, 0, 1)), ask(&tokens.narrow(0, 1, 1))];
    assert_close("batch", &both, &Tensor::cat(&each, 0), 1e-6);
}
