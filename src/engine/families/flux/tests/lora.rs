//! LoRAs of special forms on every dialect, against records of diffusers and PEFT (`tests/fixtures/lora`).

use std::path::Path;

use safelight_core::families::flux::lora::config_with;
use safelight_core::job::LoraChoice;

use super::*;
use crate::families::tests::{dialects, limit_of, originals, prediction_of_config, recorded};
use crate::weights::tests::as_quant::{FORMATS, write_quant};
use crate::weights::tests::made_up::{lora, lora_fixtures, write_lora, write_lora_of, write_named};
use crate::weights::tests::made_up_gguf::both_forms;

/// The strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;
/// Another order of sums: adding the change to the weights first is 3e-6 off.
const LIMIT: f64 = 5e-6;
const PEFT: &str = r#"{"peft_type":"LORA","r":3,"lora_alpha":4}"#;

/// One that lets a model see a control image.
fn control_lora(folder: &Path, form: &str, strength: f64) -> LoraChoice {
    lora(write_lora_of(&control_list(), folder, form, None), strength)
}

/// The prediction for made-up inputs.
fn answer(config: &FluxTransformerConfig, w: &Weights) -> Tensor {
    prediction_of_config::<FluxTransformer>(config, w)
}

fn with_loras(w: &Weights, loras: &[LoraChoice]) -> Weights {
    WeightsDialect::of::<FluxTransformer>(w)
        .with_loras(w, loras)
        .unwrap()
}

#[track_caller]
fn assert_recorded(what: &str, found: &Tensor, form: &str) {
    let expected = recorded::<FluxTransformer>(form);
    assert_close(what, found, &expected, limit_of::<FluxTransformer>(form));
}

#[test]
fn special_forms_on_every_dialect_are_those_of_the_reference() {
    with_both_frequencies(assert_special_forms);
}

fn assert_special_forms() {
    let config = config_of::<FluxTransformer>();
    let folder = tempfile::tempdir().unwrap();
    let rs = PEFT.replace('}', r#","use_rslora":true}"#);
    let both = r#"{"peft_type":"LOKR","r":2,"alpha":4}"#;
    let loha = r#"{"peft_type":"LOHA","r":3,"alpha":4}"#;
    let forms = [
        ("loha", Some(loha)),
        ("lokr", Some(loha)),
        ("lokr_both", Some(both)),
        ("dora", Some(PEFT)),
        ("rslora", Some(&rs)),
        ("lora_bias", Some(PEFT)),
    ];
    for (dialect, tensors) in dialects::<FluxTransformer>() {
        let (_model, path) = written(&tensors);
        let w = opened(&path);
        for (form, peft) in forms {
            let path = write_lora(folder.path(), &format!("flux.{form}"), peft);
            let found = answer(&config, &with_loras(&w, &[lora(path, 1.0)]));
            assert_recorded(&format!("{form} on {dialect}"), &found, form);
        }
        let two = [("flux.kohya", STRENGTH), ("flux.peft", -0.4)]
            .map(|(form, strength)| lora(write_lora(folder.path(), form, None), strength));
        let found = answer(&config, &with_loras(&w, &two));
        assert_recorded(dialect, &found, "kohya+peft");
    }
}

/// With what the authors' LoRAs for depth and edges have: a wider `img_in`, biases, and norms that replace the model's.
#[test]
fn a_lora_lets_dev_see_a_control_image_as_in_the_reference() {
    with_both_frequencies(assert_control_lora);
}

fn control_list() -> PathBuf {
    lora_fixtures().with_file_name("control/flux_lora.json")
}

fn assert_control_lora() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = tensors_in(&control_list().with_extension("safetensors"));
    for (dialect, tensors) in dialects::<FluxTransformer>() {
        let (model, path) = written(&tensors);
        let config = fixtures().join("dev/transformer/config.json");
        fs::copy(config, model.path().join("config.json")).unwrap();
        let w = opened(&path);
        for (form, strength, name) in [
            ("authors", 1.0, "authors"),
            ("authors", STRENGTH, "authors.weaker"),
            ("diffusers", 1.0, "diffusers"),
        ] {
            let loras = [control_lora(folder.path(), form, strength)];
            let config = config_with(model.path(), &loras).unwrap();
            assert_eq!((config.in_channels, config.out_channels()), (128, 64));
            let found = answer(&config, &with_loras(&w, &loras));
            let limit = limit("control/flux_lora", name, LIMIT);
            let what = format!("{name} on {dialect}");
            assert_close(&what, &found, &recorded[name], limit);
            // Others may be beside it.
            let other = lora(write_lora(folder.path(), "flux.outer", None), 0.0);
            let both = [&loras[..], &[other]].concat();
            let beside = answer(&config, &with_loras(&w, &both));
            assert_eq!(beside, found, "{what}");
        }
    }
}

#[test]
fn ordinary_lora_applies_together_with_a_control_lora() {
    let config = config_of::<FluxTransformer>().widened(128);
    let folder = tempfile::tempdir().unwrap();
    let control = control_lora(folder.path(), "authors", 1.0);
    let outer = lora(write_lora(folder.path(), "flux.outer", None), 0.5);
    for (dialect, tensors) in dialects::<FluxTransformer>() {
        let (_model, path) = written(&tensors);
        let w = opened(&path);
        let one = answer(&config, &with_loras(&w, std::slice::from_ref(&control)));
        let both = [control.clone(), outer.clone()];
        let both = answer(&config, &with_loras(&w, &both));
        assert!(distance(&both, &one) > 1e-3, "{dialect}");
        let order = [outer.clone(), control.clone()];
        let order = answer(&config, &with_loras(&w, &order));
        assert_close(dialect, &order, &both, LIMIT);
    }
}

#[test]
fn a_model_in_blocks_sees_a_control_image_as_its_expanded_twin_does() {
    let config = config_of::<FluxTransformer>().widened(128);
    let folder = tempfile::tempdir().unwrap();
    let control = control_lora(folder.path(), "authors", 1.0);
    let all: Vec<(String, Tensor)> = originals::<FluxTransformer>().into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| {
        let w = with_loras(&opened(&place), std::slice::from_ref(&control));
        answer(&config, &w)
    });
    assert_close("GGUF", &found, &expected, 1e-6);
}

#[test]
fn a_model_in_fp8_takes_a_lora_as_its_expanded_twin_does_and_stays_in_fp8() {
    let config = config_of::<FluxTransformer>();
    let folder = tempfile::tempdir().unwrap();
    let loras = [("flux.dora", Some(PEFT)), ("flux.kohya", None)]
        .map(|(form, peft)| lora(write_lora(folder.path(), form, peft), 0.7));
    let (_, original) = dialects::<FluxTransformer>().into_iter().nth(1).unwrap();
    let narrow = original.iter().map(|(name, tensor)| {
        let is_stored = name.contains("blocks.") && tensor.dim() == 2;
        let kind = if is_stored {
            Kind::Float8e4m3fn
        } else {
            Kind::Float
        };
        (name.clone(), tensor.to_kind(kind))
    });
    let narrow: Tensors = narrow.collect();
    let wide = narrow.iter();
    let wide = wide.map(|(name, tensor)| (name.clone(), tensor.to_kind(Kind::Float)));
    let answers = [wide.collect(), narrow].map(|tensors: Tensors| {
        let path = folder.path().join("model.safetensors");
        write_named(&path, &tensors);
        answer(&config, &with_loras(&opened(&path), &loras))
    });
    assert_close("fp8", &answers[1], &answers[0], 1e-6);
}

#[test]
fn a_quantized_model_takes_a_lora_as_its_dequantised_copy_does() {
    let config = config_of::<FluxTransformer>();
    let folder = tempfile::tempdir().unwrap();
    let loras = [("flux.dora", Some(PEFT)), ("flux.kohya", None)]
        .map(|(form, peft)| lora(write_lora(folder.path(), form, peft), 0.7));
    let path = folder.path().join("model.safetensors");
    let originals = originals::<FluxTransformer>();
    for (codes, name) in FORMATS {
        write_quant(&path, &originals, codes);
        let w = opened(&path);
        let found = answer(&config, &with_loras(&w, &loras));
        let exact = originals.iter().map(|(key, tensor)| {
            let exact = w.tensor(key, &tensor.size()).unwrap();
            (key.clone(), exact)
        });
        let exact: Tensors = exact.collect();
        let place = folder.path().join("exact.safetensors");
        write_named(&place, &exact);
        let expected = answer(&config, &with_loras(&opened(&place), &loras));
        assert_close(name, &found, &expected, 1e-6);
    }
}
