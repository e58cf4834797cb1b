//! Wan with only a part of its weights on the device: the same numbers to the last bit.

use safelight_core::job::LoraChoice;
use safelight_core::networks::{T5Config, T5Kind};

use super::variants::VariantRun;
use super::*;
use crate::families::tests::assert_equal_when_streamed;
use crate::text::T5Encoder;
use crate::weights::tests::as_fp8::{FORMS, Recorded};
use crate::weights::tests::made_up::{lora, made_up, write_lora};
use crate::weights::tests::made_up_gguf::both_forms;
use crate::weights::{StreamBytes, Weights};

/// What some steps with two texts give, and what the weights took.
fn answers(
    config: &WanTransformerConfig,
    file: &Path,
    kind: Kind,
    loras: &[LoraChoice],
    resident_bytes: Option<u64>,
) -> (Vec<Tensor>, Option<StreamBytes>) {
    let place = ComputePlacement {
        kind,
        resident_bytes,
        ..CPU
    };
    let w = open_transformer(file, place, loras, Expert::Only).unwrap();
    let transformer = WanTransformer::new(config, &w).unwrap();
    assert!(w.finish().is_empty(), "{:?}", w.finish());
    let size = [1, config.in_channels, 2, 4, 6];
    let latents = made_up("in.hidden_states", &size);
    let rope = transformer.rope(size);
    let contexts = ["in.prompt", "in.negative"].map(|name| {
        let embeds = made_up(name, &[1, 512, config.text_dim]);
        transformer.context(&embeds, None)
    });
    let steps = [900.0, 500.0, 100.0].into_iter();
    let steps = steps.flat_map(|timestep| contexts.iter().map(move |context| (timestep, context)));
    let answers = steps.map(|(timestep, context)| {
        let timesteps = TokenTimesteps::uniform(timestep, 12);
        transformer.call(&latents, &timesteps, context, &rope)
    });
    (answers.collect(), w.stream_bytes())
}

fn assert_same(config: &WanTransformerConfig, file: &Path, kind: Kind, loras: &[LoraChoice]) {
    assert_equal_when_streamed(4, |resident| answers(config, file, kind, loras, resident));
}

#[test]
fn streamed_wan_transformer_matches_the_resident_one() {
    let model = VariantRun::open("t2v22");
    let config = &model.run.config;
    let folder = tempfile::tempdir().unwrap();
    let loras = ["wan.comfy_alpha", "wan.peft"];
    let loras = loras.map(|form| lora(write_lora(folder.path(), form, None), 0.6));
    for (kind, loras) in [
        (Kind::Float, &[][..]),
        (Kind::BFloat16, &[]),
        (Kind::Float, &loras),
    ] {
        assert_same(&config.transformer, &config.files.transformer, kind, loras);
    }
}

#[test]
fn blocks_and_fp8_stream_as_they_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let home = fixtures().join("pipeline/transformer");
    let all = Weights::read_all(&home).unwrap();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    let config = WanTransformerConfig::read(&home).unwrap();
    assert_same(&config, &blocks, Kind::Float, &[]);
    let recorded = Recorded::open("wan");
    let tensors = recorded.weights("transformer");
    for (kind, scales, _) in [FORMS[0], FORMS[3], FORMS[5]] {
        let folder = recorded.folder("transformer", &tensors, kind, scales);
        let config = WanTransformerConfig::read(folder.path()).unwrap();
        assert_same(&config, folder.path(), Kind::BFloat16, &[]);
    }
}

#[test]
fn streamed_text_encoder_matches_the_resident_one() {
    let folder = fixtures().join("pipeline/text_encoder");
    let config = T5Config::read_as(T5Kind::Umt5, &folder).unwrap();
    let ids = Tensor::from_slice(&[3_i64, 9, 4, 9, 1]).view([1, 5]);
    let embeds = |resident_bytes| {
        let place = ComputePlacement {
            resident_bytes,
            ..CPU
        };
        let w = place.open(&folder).unwrap();
        let encoder = T5Encoder::new(&config, &w).unwrap();
        let texts = [&ids, &ids.flip([1]), &ids];
        texts.map(|ids| {
            let mask = Tensor::ones_like(ids);
            encoder.forward(ids, Some(&mask), &NoHooks).unwrap()
        })
    };
    let expected = embeds(None);
    for budget in [0, 20_000, 100_000, u64::MAX] {
        assert_eq!(embeds(Some(budget)), expected);
    }
}

#[test]
fn streamed_denoise_stage_is_identical_and_can_be_cancelled() {
    let mut run = Run::open("text_to_video");
    let expected = run.latents();
    run.place.resident_bytes = Some(0);
    assert_eq!(run.latents(), expected);
    for patience in [0, 2, 5] {
        run.assert_stops(patience);
    }
}
