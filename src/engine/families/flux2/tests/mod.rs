//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/flux2`.
//!
//! The weights are a formula of their names, see `tests/fixtures/flux2/generate.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::Lora;
use safelight_core::networks::Flux2TransformerConfig;
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
/// Another order of sums, and the frequencies of timesteps: the reference's limit for LoRAs.
const LIMIT: f64 = 3e-5;

/// A model's tensors by their names.
type Tensors = BTreeMap<String, Tensor>;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/flux2")
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn config() -> Flux2TransformerConfig {
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

/// What the authors call the layers of a block.
const RENAMED: [(&str, &str); 16] = [
    ("attn.norm_q.weight", "img_attn.norm.query_norm.scale"),
    ("attn.norm_k.weight", "img_attn.norm.key_norm.scale"),
    ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"),
    ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"),
    ("attn.to_out.0.", "img_attn.proj."),
    ("attn.to_add_out.", "txt_attn.proj."),
    ("ff.linear_in.", "img_mlp.0."),
    ("ff.linear_out.", "img_mlp.2."),
    ("ff_context.linear_in.", "txt_mlp.0."),
    ("ff_context.linear_out.", "txt_mlp.2."),
    ("x_embedder.", "img_in."),
    ("context_embedder.", "txt_in."),
    (
        "time_guidance_embed.timestep_embedder.linear_1.",
        "time_in.in_layer.",
    ),
    (
        "time_guidance_embed.timestep_embedder.linear_2.",
        "time_in.out_layer.",
    ),
    ("_modulation_img.linear.", "_modulation_img.lin."),
    ("_modulation_txt.linear.", "_modulation_txt.lin."),
];

/// As the authors have them.
pub(crate) fn originals(diffusers: &Tensors) -> Tensors {
    let mut made = Tensors::new();
    for (name, tensor) in diffusers {
        let mut name = name.clone();
        let mut tensor = tensor.shallow_clone();
        let joined = |parts: [&str; 3], own: &str| {
            let parts = parts.map(|part| &diffusers[&own.replace(parts[0], part)]);
            Tensor::cat(&parts, 0)
        };
        if name.starts_with("single_transformer_blocks") {
            name = name
                .replace("single_transformer_blocks", "single_blocks")
                .replace("attn.to_qkv_mlp_proj", "linear1")
                .replace("attn.to_out", "linear2")
                .replace("attn.norm_q.weight", "norm.query_norm.scale")
                .replace("attn.norm_k.weight", "norm.key_norm.scale");
        } else if name.contains("attn.to_q.") {
            tensor = joined(["to_q", "to_k", "to_v"], &name);
            name = name.replace("attn.to_q", "img_attn.qkv");
        } else if name.contains("add_q_proj") {
            tensor = joined(["add_q_proj", "add_k_proj", "add_v_proj"], &name);
            name = name.replace("attn.add_q_proj", "txt_attn.qkv");
        } else if ["to_k.", "to_v.", "add_k_proj", "add_v_proj"]
            .iter()
            .any(|part| name.contains(part))
        {
            continue;
        } else if name == "norm_out.linear.weight" {
            let halves = tensor.chunk(2, 0);
            tensor = Tensor::cat(&[&halves[1], &halves[0]], 0);
            name = "final_layer.adaLN_modulation.1.weight".to_owned();
        } else if name == "proj_out.weight" {
            name = "final_layer.linear.weight".to_owned();
        }
        for (theirs, own) in RENAMED {
            if name.starts_with("single_blocks") {
                break;
            }
            name = name.replace(theirs, own);
        }
        name = name.replace(
            "single_stream_modulation.linear",
            "single_stream_modulation.lin",
        );
        made.insert(name.replace("transformer_blocks", "double_blocks"), tensor);
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
    let transformer = Flux2Transformer::new(&config, w).unwrap();
    assert_eq!(Flux2Transformer::unexpected_keys(w), Vec::<String>::new());
    let text = made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]);
    let tokens = made_up("in.latents", &[1, 6, config.in_channels]);
    let context = transformer.context(&text);
    let shape = LatentShape::new(config.latent_channels(), 48, 32).unwrap();
    let rope = transformer.rope(&text_ids(5), &image_ids(shape), 1);
    let told = transformer.modulations(timesteps);
    let answers = told.iter();
    answers
        .map(|told| {
            let answer = transformer.forward(&tokens, told, &context, &rope, &NoHooks);
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
        path: write_lora_of(&list, folder, &format!("flux2.{form}"), None),
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
            assert_close(name, &found, &expected("none"), 1e-5);
            found
        });
        assert_eq!(answers[0], answers[1]);
        assert!(distance(&answers[2], &answers[1]) < 1e-6);
    });
}

#[test]
fn a_file_that_lacks_a_tensor_or_has_no_such_network_in_it_is_named() {
    for (name, mut tensors) in dialects() {
        let key = tensors.keys().find(|key| key.contains("blocks.1."));
        let key = key.unwrap().clone();
        tensors.remove(&key);
        let (_folder, path) = written(&tensors);
        let err = Flux2Transformer::new(&config(), &opened(&path));
        let err = err.err().unwrap().to_string();
        assert!(err.contains("blocks.1."), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let (_folder, path) = written(&other);
    let err = Flux2Transformer::new(&config(), &opened(&path));
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
            for form in ["kohya", "aitoolkit", "base_model", "peft"] {
                let what = format!("{form} on {dialect}");
                let limit = limit("flux2/lora", form, LIMIT);
                assert_close(&what, &changed(form), &expected(form), limit);
            }
            // diffusers cannot read it.
            let far = distance(&changed("comfy_alpha"), &expected("none"));
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
    let loras = ["kohya", "comfy_alpha"].map(|form| lora(folder.path(), form, 0.7));
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
    let transformer = Flux2Transformer::new(&config, &w).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.joint_attention_dim]);
    let latents = made_up("in.two", &[2, 35, config.in_channels]);
    let context = transformer.context(&text);
    let shape = LatentShape::new(config.latent_channels(), 112, 80).unwrap();
    let told = &transformer.modulations(&[300.0])[0];
    let ask = |xs: &Tensor| {
        let rope = transformer.rope(&text_ids(40), &image_ids(shape), xs.size()[0]);
        transformer
            .forward(xs, told, &context, &rope, &NoHooks)
            .unwrap()
    };
    let both = ask(&latents);
    let each = [0, 1].map(|index| ask(&latents.narrow(0, index, 1)));
    assert_close("batch", &both, &Tensor::cat(&each, 0), 1e-6);
}
