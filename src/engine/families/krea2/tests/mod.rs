//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/krea2`.
//!
//! The weights are a formula of their names, see `tests/fixtures/krea2/generate.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::Lora;
use safelight_core::networks::Krea2TransformerConfig;
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/krea2")
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn config() -> Krea2TransformerConfig {
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
    let named = diffusers.iter().map(|(name, tensor)| {
        let mut own = name
            .replace("text_fusion.", "txtfusion.")
            .replace("transformer_blocks.", "blocks.")
            .replace("attn.to_q.", "attn.wq.")
            .replace("attn.to_k.", "attn.wk.")
            .replace("attn.to_v.", "attn.wv.")
            .replace("attn.to_out.0.", "attn.wo.")
            .replace("attn.to_gate.", "attn.gate.")
            .replace("attn.norm_q.weight", "attn.qknorm.qnorm.scale")
            .replace("attn.norm_k.weight", "attn.qknorm.knorm.scale")
            .replace(".ff.", ".mlp.")
            .replace(".norm1.weight", ".prenorm.scale")
            .replace(".norm2.weight", ".postnorm.scale");
        for (theirs, authors) in [
            ("img_in.", "first."),
            ("time_embed.linear_1.", "tmlp.0."),
            ("time_embed.linear_2.", "tmlp.2."),
            ("time_mod_proj.", "tproj.1."),
            ("txt_in.norm.weight", "txtmlp.0.scale"),
            ("txt_in.linear_1.", "txtmlp.1."),
            ("txt_in.linear_2.", "txtmlp.3."),
            ("final_layer.linear.", "last.linear."),
            ("final_layer.norm.weight", "last.norm.scale"),
            ("final_layer.scale_shift_table", "last.modulation.lin"),
        ] {
            if let Some(rest) = own.strip_prefix(theirs) {
                own = format!("{authors}{rest}");
            }
        }
        if own.starts_with("blocks.") && own.ends_with("scale_shift_table") {
            let own = own.replace("scale_shift_table", "mod.lin");
            return (own, tensor.flatten(0, 1));
        }
        (own, tensor.shallow_clone())
    });
    named.collect()
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
    let transformer = Krea2Transformer::new(&config, w).unwrap();
    assert_eq!(Krea2Transformer::unexpected_keys(w), Vec::<String>::new());
    let states = config.num_text_layers * config.text_hidden_dim;
    let text = made_up(
        "in.states",
        &[1, 5, config.num_text_layers, config.text_hidden_dim],
    );
    let tokens = made_up("in.tokens", &[1, 6, config.in_channels]);
    let context = transformer.context(&text.view([1, 5, states]), [2, 3], &NoHooks);
    let context = context.unwrap();
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
    answers(w, &[0.25]).remove(0)
}

fn expected(name: &str) -> Tensor {
    let all = store::read(&fixtures().join("lora.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

fn lora(folder: &Path, form: &str, strength: f64) -> Lora {
    let list = fixtures().join("lora.json");
    Lora {
        path: write_lora_of(&list, folder, &format!("krea2.{form}"), None),
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
fn what_authors_leave_behind_and_converters_squeeze_changes_nothing() {
    let mut tensors = originals(&diffusers());
    let (_folder, path) = written(&tensors);
    let plain = answer(&opened(&path));
    for name in Krea2TransformerKeys::UNREAD {
        tensors.insert(name.to_owned(), made_up("x", &[4, 4]));
    }
    let projector = "txtfusion.projector.weight";
    let squeezed = tensors[projector].view([-1]);
    tensors.insert(projector.to_owned(), squeezed);
    let (_folder, path) = written(&tensors);
    assert_eq!(answer(&opened(&path)), plain);
}

#[test]
fn a_file_that_lacks_a_tensor_or_has_no_krea_2_in_it_is_named() {
    for (name, mut tensors) in dialects() {
        let key = tensors.keys().find(|key| key.contains("blocks.1."));
        let key = key.unwrap().clone();
        tensors.remove(&key);
        let (_folder, path) = written(&tensors);
        let err = Krea2Transformer::new(&config(), &opened(&path));
        let err = err.err().unwrap().to_string();
        assert!(err.contains("blocks.1."), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let (_folder, path) = written(&other);
    let err = Krea2Transformer::new(&config(), &opened(&path));
    let err = err.err().unwrap().to_string();
    assert!(err.contains("first.weight"), "{err}");
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
            for form in ["comfy", "aitoolkit", "peft"] {
                let what = format!("{form} on {dialect}");
                let limit = limit("krea2/lora", form, LIMIT);
                assert_close(&what, &changed(form), &expected(form), limit);
            }
            // diffusers cannot read them.
            for form in ["comfy_alpha", "kohya"] {
                let far = distance(&changed(form), &expected("none"));
                assert!(far > 0.01, "{form} on {dialect}: {far}");
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
        // The made-up norms double what they give, in every block.
        let far = distance(&found, &expected("none"));
        assert!((1e-3..0.8).contains(&far), "{name}: {far}");
    }
}

#[test]
fn a_transformer_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let loras = ["kohya", "comfy"].map(|form| lora(folder.path(), form, 0.7));
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
            (answers(&w, &[0.9, 0.5, 0.1]), w.stream_bytes())
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
    let transformer = Krea2Transformer::new(&config, &w).unwrap();
    let states = config.num_text_layers * config.text_hidden_dim;
    let text = made_up("in.prompt_embeds", &[1, 40, states]);
    let tokens = made_up("in.two", &[2, 35, config.in_channels]);
    let context = transformer.context(&text, [5, 7], &NoHooks).unwrap();
    let told = &transformer.modulations(&[0.3])[0];
    let ask = |xs: &Tensor| transformer.forward(xs, told, &context, &NoHooks).unwrap();
    let both = ask(&tokens);
    let each = [0, 1].map(|i| ask(&tokens.narrow(0, i, 1)));
    assert_close("batch", &both, &Tensor::cat(&each, 0), 1e-6);
}
