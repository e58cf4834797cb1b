//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/chroma`.
//!
//! The weights are a formula of their names, see `tests/fixtures/chroma/generate.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::Lora;
use safelight_core::networks::ChromaTransformerConfig;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::hooks::NoHooks;
use crate::place::Placement;
use crate::stages::stills::LatentShape;
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/chroma")
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn config() -> ChromaTransformerConfig {
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
    // What diffusers calls a layer of both kinds of block and of none.
    const NAMES: [(&str, &str); 19] = [
        ("single_transformer_blocks.", "single_blocks."),
        ("transformer_blocks.", "double_blocks."),
        ("context_embedder.", "txt_in."),
        ("x_embedder.", "img_in."),
        ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"),
        ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"),
        ("attn.to_add_out.", "txt_attn.proj."),
        ("attn.to_out.0.", "img_attn.proj."),
        ("attn.add_q_proj.", "txt_attn.qkv."),
        ("ff_context.net.0.proj.", "txt_mlp.0."),
        ("ff_context.net.2.", "txt_mlp.2."),
        ("ff.net.0.proj.", "img_mlp.0."),
        ("ff.net.2.", "img_mlp.2."),
        (".linear_1.", ".in_layer."),
        (".linear_2.", ".out_layer."),
        ("attn.norm_q.weight", "img_attn.norm.query_norm.scale"),
        ("attn.norm_k.weight", "img_attn.norm.key_norm.scale"),
        ("attn.to_q.", "img_attn.qkv."),
        ("proj_out.", "linear2."),
    ];
    let mut made = Tensors::new();
    for (name, tensor) in diffusers {
        let is_single = name.starts_with("single_transformer_blocks.");
        let parts: &[&str] = if name.contains("attn.to_q.") && is_single {
            &["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"]
        } else if name.contains("attn.to_q.") {
            &["attn.to_q", "attn.to_k", "attn.to_v"]
        } else if name.contains("attn.add_q_proj.") {
            &["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"]
        } else if ["to_k.", "to_v.", "add_k_proj.", "add_v_proj.", "proj_mlp."]
            .iter()
            .any(|part| name.contains(part))
        {
            continue;
        } else {
            &[]
        };
        let joined = parts.first().map(|first| {
            let all = parts
                .iter()
                .map(|part| &diffusers[&name.replace(first, part)]);
            Tensor::cat(&all.collect::<Vec<_>>(), 0)
        });
        let mut original = name.clone();
        if is_single {
            original = original
                .replace("attn.norm_q.weight", "norm.query_norm.scale")
                .replace("attn.norm_k.weight", "norm.key_norm.scale")
                .replace("attn.to_q.", "linear1.");
        } else if name.starts_with("proj_out.") {
            original = original.replace("proj_out.", "final_layer.linear.");
        }
        if name.contains(".norms.") {
            original = original.replace(".weight", ".scale");
        }
        for (theirs, ours) in NAMES {
            original = original.replace(theirs, ours);
        }
        made.insert(original, joined.unwrap_or_else(|| tensor.shallow_clone()));
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

/// Three tokens of text and two of padding.
fn made_up_context(transformer: &ChromaTransformer, pictures: i64) -> Context {
    let width = transformer.config().joint_attention_dim;
    let text = made_up("in.prompt_embeds", &[1, 5, width]);
    let mask = Tensor::from_slice(&[1.0_f32, 1.0, 1.0, 0.0, 0.0]).unsqueeze(0);
    let channels = transformer.config().latent_channels();
    let shape = LatentShape::new(channels, 48, 32).unwrap();
    transformer.context(&text, &mask, shape, pictures)
}

/// The answers to made-up inputs at some timesteps.
fn answers(w: &Weights, timesteps: &[f32]) -> Vec<Tensor> {
    let config = config();
    let transformer = ChromaTransformer::new(&config, w).unwrap();
    assert_eq!(ChromaTransformer::unexpected_keys(w), Vec::<String>::new());
    let latents = made_up("in.latents", &[1, 6, config.in_channels]);
    let context = made_up_context(&transformer, 1);
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
    answers(w, &[250.0]).remove(0)
}

fn expected(name: &str) -> Tensor {
    let all = store::read(&fixtures().join("lora.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

fn lora(folder: &Path, form: &str, strength: f64) -> Lora {
    let list = fixtures().join("lora.json");
    Lora {
        path: write_lora_of(&list, folder, &format!("chroma.{form}"), None),
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
fn a_file_that_lacks_a_tensor_or_has_no_chroma_in_it_is_named() {
    for (name, mut tensors) in dialects() {
        let key = tensors.keys().find(|key| key.contains("blocks.1."));
        let key = key.unwrap().clone();
        tensors.remove(&key);
        let (_folder, path) = written(&tensors);
        let err = ChromaTransformer::new(&config(), &opened(&path));
        let err = err.err().unwrap().to_string();
        assert!(err.contains("blocks.1."), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let (_folder, path) = written(&other);
    let err = ChromaTransformer::new(&config(), &opened(&path));
    let err = err.err().unwrap().to_string();
    assert!(err.contains("img_in.weight"), "{err}");
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
            for form in ["kohya", "comfy", "peft", "peft_alpha"] {
                let what = format!("{form} on {dialect}");
                let limit = limit("chroma/lora", form, LIMIT);
                assert_close(&what, &changed(form), &expected(form), limit);
            }
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
    let loras = ["kohya", "peft"].map(|form| lora(folder.path(), form, 0.7));
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
    let transformer = ChromaTransformer::new(&config(), &opened(&path)).unwrap();
    let latents = made_up("in.two", &[2, 6, config().in_channels]);
    let told = &transformer.modulations(&[300.0])[0];
    let ask = |xs: &Tensor| {
        let context = made_up_context(&transformer, xs.size()[0]);
        transformer.forward(xs, told, &context, &NoHooks).unwrap()
    };
    let both = ask(&latents);
    let each = Tensor::cat(
        &[ask(&latents.narrow(0, 0, 1)), ask(&latents.narrow(0, 1, 1))],
        0,
    );
    assert_close("batch", &both, &each, 1e-6);
}

#[test]
fn padding_that_is_alike_gives_the_answer_of_each_token_by_itself() {
    let (_folder, path) = written(&diffusers());
    let config = config();
    let transformer = ChromaTransformer::new(&config, &opened(&path)).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 30, config.joint_attention_dim]);
    let last = text.narrow(1, 29, 1).copy();
    text.narrow(1, 10, 20)
        .copy_(&last.expand([1, 20, -1], false));
    let mask = Tensor::zeros([1, 30], (Kind::Float, Device::Cpu));
    drop(mask.narrow(1, 0, 4).fill_(1.0));
    let shape = LatentShape::new(config.latent_channels(), 48, 32).unwrap();
    let latents = made_up("in.latents", &[1, 6, config.in_channels]);
    let told = &transformer.modulations(&[300.0])[0];
    let ask = |text: &Tensor| {
        let context = transformer.context(text, &mask, shape, 1);
        transformer
            .forward(&latents, told, &context, &NoHooks)
            .unwrap()
    };
    let joined = ask(&text);
    // One that differs by less than a rounding of the answer keeps each of them apart.
    drop(text.narrow(1, 28, 1).g_add_scalar_(1e-7));
    assert_close("alike", &joined, &ask(&text), 1e-6);
}

#[test]
fn many_timesteps_are_told_what_each_is_told_alone() {
    let (_folder, path) = written(&diffusers());
    let transformer = ChromaTransformer::new(&config(), &opened(&path)).unwrap();
    let timesteps: Vec<f32> = (1..=19).map(|i| i as f32 * 50.0).collect();
    let all = transformer.modulations(&timesteps);
    assert_eq!(all.len(), 19);
    for i in [0, 7, 8, 18] {
        let alone = &transformer.modulations(&timesteps[i..=i])[0];
        assert_eq!(all[i].blocks.len(), alone.blocks.len());
        for (found, expected) in all[i].blocks.iter().zip(&alone.blocks) {
            assert_close("blocks", found, expected, 1e-6);
        }
        assert_close("last", &all[i].final_layer, &alone.final_layer, 1e-6);
    }
}
