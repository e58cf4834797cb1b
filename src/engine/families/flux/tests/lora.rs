//! LoRAs of every form on every dialect of the same model, against what diffusers and PEFT recorded
//! (`tests/fixtures/lora`).

use safelight_core::families::flux::lora::config_with;
use safelight_core::job::Lora;

use super::dialects::{dialects, originals};
use super::*;
use crate::weights::tests::made_up::{lora_fixtures, write, write_lora, write_lora_of};
use crate::weights::tests::made_up_gguf::both_forms;

/// The strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;
/// Another order of sums: adding the change to the weights first is 3e-6 off.
const LIMIT: f64 = 5e-6;
const PEFT: &str = r#"{"peft_type":"LORA","r":3,"lora_alpha":4}"#;

fn expected(name: &str) -> Tensor {
    let all = store::read(&lora_fixtures().join("expected.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

#[track_caller]
fn assert_expected(what: &str, found: &Tensor, name: &str) {
    let limit = limit("lora/expected", name, LIMIT);
    assert_close(what, found, &expected(name), limit);
}

fn lora(path: PathBuf, strength: f64) -> Lora {
    Lora {
        path,
        strength,
        strength_2: None,
    }
}

/// The answer to made-up inputs.
fn answer(config: &FluxTransformerConfig, w: &Weights) -> Tensor {
    answers(config, w, &[750.0]).remove(0)
}

#[test]
fn every_form_on_every_dialect_is_that_of_the_reference() {
    with_both_frequencies(assert_every_form_on_every_dialect);
}

fn assert_every_form_on_every_dialect() {
    let config = Run::open("dev").transformer.config().clone();
    let folder = tempfile::tempdir().unwrap();
    let rs = PEFT.replace('}', r#","use_rslora":true}"#);
    let both = r#"{"peft_type":"LOKR","r":2,"alpha":4}"#;
    let loha = r#"{"peft_type":"LOHA","r":3,"alpha":4}"#;
    let forms = [
        ("kohya", None),
        ("comfy", None),
        ("peft", None),
        ("peft_alpha", None),
        ("outer", None),
        ("loha", Some(loha)),
        ("lokr", Some(loha)),
        ("lokr_both", Some(both)),
        ("dora", Some(PEFT)),
        ("rslora", Some(&rs)),
        ("lora_bias", Some(PEFT)),
    ];
    for (dialect, tensors) in dialects() {
        let (_model, path) = written(&tensors);
        let w = opened(&path);
        let none = answer(&config, &with_loras(&w, &[]).unwrap());
        assert_expected(dialect, &none, "flux.none");
        for (form, peft) in forms {
            let strength = if peft.is_some() { 1.0 } else { STRENGTH };
            let name = format!("flux.{form}");
            let one = lora(write_lora(folder.path(), &name, peft), strength);
            let changed = with_loras(&w, &[one]).unwrap();
            let found = answer(&config, &changed);
            assert_expected(&format!("{form} on {dialect}"), &found, &name);
        }
        let two = [("flux.kohya", STRENGTH), ("flux.peft", -0.4)]
            .map(|(form, strength)| lora(write_lora(folder.path(), form, None), strength));
        let found = answer(&config, &with_loras(&w, &two).unwrap());
        assert_expected(dialect, &found, "flux.kohya+peft");
    }
}

/// With what the authors' LoRAs for depth and edges have: a wider `img_in`, biases, and norms that replace the model's.
#[test]
fn a_lora_lets_dev_see_a_control_picture_as_in_the_reference() {
    with_both_frequencies(assert_control_lora);
}

fn control_list() -> PathBuf {
    lora_fixtures().with_file_name("control/flux_lora.json")
}

fn assert_control_lora() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = store::read(&control_list().with_extension("safetensors")).unwrap();
    let recorded: Tensors = recorded.into_iter().collect();
    for (dialect, tensors) in dialects() {
        let (model, path) = written(&tensors);
        let config = fixtures().join("dev/transformer/config.json");
        fs::copy(config, model.path().join("config.json")).unwrap();
        let w = opened(&path);
        for (form, strength, name) in [
            ("authors", 1.0, "authors"),
            ("authors", STRENGTH, "authors.weaker"),
            ("diffusers", 1.0, "diffusers"),
        ] {
            let one = lora(
                write_lora_of(&control_list(), folder.path(), form, None),
                strength,
            );
            let loras = [one];
            let config = config_with(model.path(), &loras).unwrap();
            assert_eq!((config.in_channels, config.out_channels()), (128, 64));
            let found = answer(&config, &with_loras(&w, &loras).unwrap());
            let limit = limit("control/flux_lora", name, LIMIT);
            assert_close(
                &format!("{name} on {dialect}"),
                &found,
                &recorded[name],
                limit,
            );
            // Others may be beside it.
            let other = lora(write_lora(folder.path(), "flux.outer", None), 0.0);
            let both = [&loras[..], &[other]].concat();
            let beside = answer(&config, &with_loras(&w, &both).unwrap());
            assert_eq!(beside, found, "{name} on {dialect}");
        }
    }
}

#[test]
fn a_lora_of_the_noise_alone_acts_beside_one_that_sees_a_control_picture() {
    let config = Run::open("dev").transformer.config().clone().widened(128);
    let folder = tempfile::tempdir().unwrap();
    let control = lora(
        write_lora_of(&control_list(), folder.path(), "authors", None),
        1.0,
    );
    let outer = lora(write_lora(folder.path(), "flux.outer", None), 0.5);
    for (dialect, tensors) in dialects() {
        let (_model, path) = written(&tensors);
        let w = opened(&path);
        let one = answer(
            &config,
            &with_loras(&w, std::slice::from_ref(&control)).unwrap(),
        );
        let both = [control.clone(), outer.clone()];
        let both = answer(&config, &with_loras(&w, &both).unwrap());
        assert!(distance(&both, &one) > 1e-3, "{dialect}");
        let order = [outer.clone(), control.clone()];
        let order = answer(&config, &with_loras(&w, &order).unwrap());
        assert_close(dialect, &order, &both, LIMIT);
    }
}

#[test]
fn a_model_in_blocks_sees_a_control_picture_as_its_expanded_twin_does() {
    let config = Run::open("dev").transformer.config().clone().widened(128);
    let folder = tempfile::tempdir().unwrap();
    let control = lora(
        write_lora_of(&control_list(), folder.path(), "authors", None),
        1.0,
    );
    let all: Vec<(String, Tensor)> = originals(&weights_of("dev")).into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| {
        let w = with_loras(&opened(&place), std::slice::from_ref(&control)).unwrap();
        answer(&config, &w)
    });
    assert_close("GGUF", &found, &expected, 1e-6);
}

#[test]
fn a_model_in_fp8_takes_a_lora_as_its_expanded_twin_does_and_stays_in_fp8() {
    let config = Run::open("dev").transformer.config().clone();
    let folder = tempfile::tempdir().unwrap();
    let loras = [("flux.dora", Some(PEFT)), ("flux.kohya", None)]
        .map(|(form, peft)| lora(write_lora(folder.path(), form, peft), 0.7));
    let (_, original) = dialects().into_iter().nth(1).unwrap();
    let narrow: Tensors = original
        .iter()
        .map(|(name, tensor)| {
            let is_stored = name.contains("blocks.") && tensor.dim() == 2;
            let kind = if is_stored {
                Kind::Float8e4m3fn
            } else {
                Kind::Float
            };
            (name.clone(), tensor.to_kind(kind))
        })
        .collect();
    let wide: Tensors = narrow
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.to_kind(Kind::Float)))
        .collect();
    let answers = [narrow, wide].map(|tensors| {
        let path = folder.path().join("model.safetensors");
        let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
        write(&path, &named, &[]);
        answer(&config, &with_loras(&opened(&path), &loras).unwrap())
    });
    assert_close("fp8", &answers[0], &answers[1], 1e-6);
}
