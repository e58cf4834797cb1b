//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/z_image`.
//!
//! The weights are a formula of their names, see `tests/fixtures/z_image/generate.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::Lora;
use safelight_core::networks::ZImageTransformerConfig;
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
/// Another order of sums: adding the change to the weights first is 3e-6 off.
const LIMIT: f64 = 5e-6;

/// A model's tensors by their names.
type Tensors = BTreeMap<String, Tensor>;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/z_image")
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn config() -> ZImageTransformerConfig {
    serde_json::from_value(json_of("transformer.json")).unwrap()
}

/// In diffusers' names.
fn diffusers() -> Tensors {
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

/// As the authors have them.
pub(crate) fn originals(diffusers: &Tensors) -> Tensors {
    let mut made = Tensors::new();
    for (name, tensor) in diffusers {
        if name.contains("to_k.") || name.contains("to_v.") {
            continue;
        }
        if name.contains("to_q.") {
            let parts =
                ["to_q", "to_k", "to_v"].map(|part| &diffusers[&name.replace("to_q", part)]);
            made.insert(name.replace("to_q", "qkv"), Tensor::cat(&parts, 0));
            continue;
        }
        let name = name
            .replace("all_x_embedder.2-1.", "x_embedder.")
            .replace("all_final_layer.2-1.", "final_layer.")
            .replace("attention.norm_q.", "attention.q_norm.")
            .replace("attention.norm_k.", "attention.k_norm.")
            .replace("attention.to_out.0.", "attention.out.");
        made.insert(name, tensor.shallow_clone());
    }
    made
}

/// The same weights behind a prefix with another component beside them, in the original names, and in diffusers'.
fn dialects() -> [(&'static str, Tensors); 3] {
    let diffusers = diffusers();
    let original = originals(&diffusers);
    let behind = |(name, tensor): (&String, &Tensor)| {
        let name = format!("model.diffusion_model.{name}");
        (name, tensor.shallow_clone())
    };
    let mut prefixed: Tensors = original.iter().map(behind).collect();
    let other = Tensor::from_slice(&[0_f32]);
    prefixed.insert("vae.decoder.conv_in.bias".to_owned(), other);
    [
        ("prefixed", prefixed),
        ("original", original),
        ("diffusers", diffusers),
    ]
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
    let transformer = ZImageTransformer::new(&config, w).unwrap();
    assert_eq!(ZImageTransformer::unexpected_keys(w), Vec::<String>::new());
    let text = made_up("in.prompt_embeds", &[1, 5, config.cap_feat_dim]);
    let latents = made_up("in.latents", &[1, config.in_channels, 4, 6]);
    let context = transformer.context(&text, [4, 6], &NoHooks).unwrap();
    let told = transformer.modulations(timesteps);
    let answers = told.iter();
    answers
        .map(|told| {
            let answer = transformer.forward(&latents, told, &context, &NoHooks);
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
        path: write_lora_of(&list, folder, &format!("z_image.{form}"), None),
        strength,
        strength_2: None,
    }
}

#[test]
fn every_dialect_gives_the_answer_of_the_reference_and_leaves_nothing_unread() {
    with_both_frequencies(|| {
        let answers = dialects().map(|(name, tensors)| {
            let (_folder, path) = written(&tensors);
            let found = answer(&opened(&path));
            assert_close(name, &found, &expected("none"), 2e-5);
            found
        });
        assert_eq!(answers[0], answers[1]);
        assert!(distance(&answers[2], &answers[1]) < 1e-6);
    });
}

#[test]
fn what_is_left_of_lumina_and_squeezed_by_converters_changes_nothing() {
    let mut tensors = originals(&diffusers());
    let (_folder, path) = written(&tensors);
    let plain = answer(&opened(&path));
    tensors.insert("norm_final.weight".to_owned(), made_up("x", &[64]));
    for pad in ["x_pad_token", "cap_pad_token"] {
        let squeezed = tensors[pad].view([-1]);
        tensors.insert(pad.to_owned(), squeezed);
    }
    let (_folder, path) = written(&tensors);
    assert_eq!(answer(&opened(&path)), plain);
}

#[test]
fn a_file_that_lacks_a_tensor_or_has_no_z_image_in_it_is_named() {
    for (name, mut tensors) in dialects() {
        let key = tensors.keys().find(|key| key.contains("layers.1."));
        let key = key.unwrap().clone();
        tensors.remove(&key);
        let (_folder, path) = written(&tensors);
        let err = ZImageTransformer::new(&config(), &opened(&path));
        let err = err.err().unwrap().to_string();
        assert!(err.contains("layers.1."), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let (_folder, path) = written(&other);
    let err = ZImageTransformer::new(&config(), &opened(&path));
    let err = err.err().unwrap().to_string();
    assert!(err.contains("x_embedder.weight"), "{err}");
}

#[test]
fn loras_of_every_form_on_every_dialect_are_those_of_the_reference() {
    with_both_frequencies(|| {
        let folder = tempfile::tempdir().unwrap();
        for (dialect, tensors) in dialects() {
            let (_model, path) = written(&tensors);
            let w = opened(&path);
            let changed = |form: &str| {
                let one = lora(folder.path(), form, STRENGTH);
                answer(&with_loras(&w, &[one]).unwrap())
            };
            for form in ["kohya", "kohya_fused", "aitoolkit", "comfy_alpha", "peft"] {
                let what = format!("{form} on {dialect}");
                let limit = limit("z_image/lora", form, LIMIT);
                assert_close(&what, &changed(form), &expected(form), limit);
            }
            // diffusers cannot read it.
            let far = distance(&changed("comfy_fused"), &expected("none"));
            assert!(far > 0.01, "{dialect}: {far}");
        }
    });
}

#[test]
fn a_transformer_in_blocks_gives_what_its_numbers_give() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals(&diffusers()).into_iter().collect();
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
        write_fp8(&path, &originals(&diffusers()), kind, scales);
        let w = opened(&path);
        let found = answer(&w);
        let exact = originals(&diffusers()).into_iter().map(|(key, tensor)| {
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
    let loras = ["kohya", "comfy_fused"].map(|form| lora(folder.path(), form, 0.7));
    let all: Vec<(String, Tensor)> = originals(&diffusers()).into_iter().collect();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    let files = dialects().map(|(_, tensors)| written(&tensors));
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
    let (_folder, path) = written(&originals(&diffusers()));
    let w = opened(&path);
    let config = config();
    let transformer = ZImageTransformer::new(&config, &w).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.cap_feat_dim]);
    let latents = made_up("in.two", &[2, config.in_channels, 10, 14]);
    let context = transformer.context(&text, [10, 14], &NoHooks).unwrap();
    let told = &transformer.modulations(&[300.0])[0];
    let ask = |xs: &Tensor| transformer.forward(xs, told, &context, &NoHooks).unwrap();
    let both = ask(&latents);
    let each = Tensor::cat(
        &[ask(&latents.narrow(0, 0, 1)), ask(&latents.narrow(0, 1, 1))],
        0,
    );
    assert_close("batch", &both, &each, 1e-6);
}
