//! Flux with only a part of its weights on the device: the same numbers to the last bit.

use safelight_core::job::Lora;
use safelight_core::networks::{T5Config, T5Kind};

use super::dialects::{dialects, originals};
use super::*;
use crate::hooks::NoHooks;
use crate::place::Placement;
use crate::text::T5Encoder;
use crate::weights::StreamBytes;
use crate::weights::tests::as_fp8::{FORMS, Recorded};
use crate::weights::tests::made_up::write_lora;
use crate::weights::tests::made_up_gguf::both_forms;

const DORA: &str = r#"{"peft_type":"LORA","r":3,"lora_alpha":4}"#;

/// What some steps give, and what the weights took.
fn streamed(
    config: &FluxTransformerConfig,
    file: &Path,
    kind: Kind,
    loras: &[Lora],
    resident_bytes: Option<u64>,
) -> (Vec<Tensor>, Option<StreamBytes>) {
    let place = Placement {
        device: Device::Cpu,
        kind,
        resident_bytes,
        keeps: false,
    };
    let w = with_loras(&place.open(file).unwrap(), loras).unwrap();
    let found = answers(config, &w, &[900.0, 500.0, 100.0]);
    (found, w.stream_bytes())
}

fn assert_same(config: &FluxTransformerConfig, file: &Path, kind: Kind, loras: &[Lora]) {
    let (expected, taken) = streamed(config, file, kind, loras, None);
    assert_eq!(taken, None);
    let (found, all) = streamed(config, file, kind, loras, Some(u64::MAX));
    let all = all.unwrap();
    assert!(found == expected && all.window == 0);
    for budget in [0, all.resident / 2, all.resident - 1] {
        let (found, taken) = streamed(config, file, kind, loras, Some(budget));
        let taken = taken.unwrap();
        assert_eq!(found, expected, "{budget} bytes of {all:?}");
        assert!(taken.resident <= budget.max(all.resident / 4), "{taken:?}");
        assert!(0 < taken.window && taken.window < all.resident / 2);
    }
}

#[test]
fn a_transformer_that_streams_gives_what_one_that_stays_gives_in_every_dialect() {
    let config = Run::open("dev").transformer.config().clone();
    let folder = tempfile::tempdir().unwrap();
    let loras = [("flux.dora", Some(DORA)), ("flux.kohya", None)].map(|(form, peft)| Lora {
        path: write_lora(folder.path(), form, peft),
        strength: 0.7,
        strength_2: None,
    });
    for (_, tensors) in dialects() {
        let (_model, path) = written(&tensors);
        assert_same(&config, &path, Kind::Float, &[]);
        assert_same(&config, &path, Kind::BFloat16, &loras);
    }
}

#[test]
fn blocks_and_fp8_stream_as_they_are_stored() {
    let config = Run::open("dev").transformer.config().clone();
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals(&weights_of("dev")).into_iter().collect();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    assert_same(&config, &blocks, Kind::Float, &[]);
    let recorded = Recorded::open("flux");
    let config = fs::read(recorded.config("transformer")).unwrap();
    let config: FluxTransformerConfig = serde_json::from_slice(&config).unwrap();
    let tensors = originals(&recorded.weights("transformer"));
    for (kind, scales, _) in [FORMS[1], FORMS[2]] {
        let folder = recorded.folder("transformer", &tensors, kind, scales);
        let file = folder.path().join("model.safetensors");
        assert_same(&config, &file, Kind::BFloat16, &[]);
    }
}

#[test]
fn a_t5_that_streams_gives_what_one_that_stays_gives() {
    let recorded = Recorded::open("flux");
    let tensors = recorded.weights("text_encoder_2");
    for (kind, scales, _) in [FORMS[0], FORMS[3]] {
        let folder = recorded.folder("text_encoder_2", &tensors, kind, scales);
        let config = T5Config::read_as(T5Kind::T5, folder.path()).unwrap();
        let embeds = |resident_bytes| {
            let place = Placement {
                device: Device::Cpu,
                kind: Kind::Float,
                resident_bytes,
                keeps: false,
            };
            let w = place.open(folder.path()).unwrap();
            let encoder = T5Encoder::new(&config, &w).unwrap();
            let ids = recorded.get("input_ids");
            [ids, ids].map(|ids| encoder.forward(ids, None, &NoHooks).unwrap())
        };
        let expected = embeds(None);
        for budget in [0, 10_000, u64::MAX] {
            assert_eq!(embeds(Some(budget)), expected);
        }
    }
}
