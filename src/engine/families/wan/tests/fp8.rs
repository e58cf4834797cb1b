//! Wan in fp8 against diffusers with the same numbers (`tests/fixtures/fp8`).

use safelight_core::networks::{T5Config, T5Kind};

use super::*;
use crate::text::T5Encoder;
use crate::weights::tests::as_fp8::{FORMS, Recorded, opened};

#[test]
fn a_transformer_of_fp8_is_that_of_the_numbers_it_stands_for() {
    let recorded = Recorded::open("wan");
    let tensors = recorded.weights("transformer");
    for (kind, scales, name) in FORMS {
        let folder = recorded.folder("transformer", &tensors, kind, scales);
        let config = WanTransformerConfig::read(folder.path()).unwrap();
        let weights = open_transformer(folder.path(), CPU, &[], Expert::Only).unwrap();
        let transformer = WanTransformer::new(&config, &weights).unwrap();
        assert!(weights.finish().is_empty(), "{:?}", weights.finish());
        let get = |part: &str| recorded.get(&format!("{name}.{part}"));
        let latents = get("step.00.transformer.in.hidden_states");
        let text = get("transformer.in.cond.encoder_hidden_states");
        let text = text.constant_pad_nd([0, 0, 0, TEXT_LENGTH as i64 - text.size()[1]]);
        let [_, _, frames, height, width] = latents.size()[..] else {
            panic!("latents have five dimensions");
        };
        let timestep = get("step.00.timestep").double_value(&[]) as f32;
        let found = transformer.forward(
            latents,
            &TokenTimesteps::uniform(timestep, frames * height * width / 4),
            &transformer.context(&text, None),
            &transformer.rope([1, 16, frames, height, width]),
            &NoHooks,
        );
        let expected = get("step.00.transformer.cond");
        let what = format!("{kind:?} {scales:?}");
        let key = format!("{name}.step.00.transformer.cond");
        let limit = limit("fp8/wan", &key, CALL_LIMIT);
        assert_close(&what, &found.unwrap(), expected, limit);
    }
}

#[test]
fn a_text_encoder_of_fp8_is_that_of_the_numbers_it_stands_for() {
    let recorded = Recorded::open("wan");
    let tensors = recorded.weights("text_encoder");
    for (kind, scales, name) in FORMS {
        let folder = recorded.folder("text_encoder", &tensors, kind, scales);
        let config = T5Config::read_as(T5Kind::Umt5, folder.path()).unwrap();
        let weights = opened(folder.path());
        let encoder = T5Encoder::new(&config, &weights).unwrap();
        assert!(weights.finish().is_empty(), "{:?}", weights.finish());
        let (ids, mask) = (recorded.get("input_ids"), recorded.get("attention_mask"));
        let found = encoder.forward(ids, Some(mask), &NoHooks).unwrap();
        let expected = recorded.get(&format!("{name}.hidden"));
        let found = found.narrow(1, 0, expected.size()[1]);
        let limit = limit("fp8/wan", &format!("{name}.hidden"), TEXT_LIMIT);
        assert_close(&format!("{kind:?} {scales:?}"), &found, expected, limit);
    }
}
