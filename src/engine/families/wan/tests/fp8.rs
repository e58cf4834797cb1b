//! Wan in fp8 against diffusers with the same numbers (`tests/fixtures/fp8`).

use super::*;
use crate::weights::tests::as_fp8::{FORMS, Recorded};

#[test]
fn fp8_wan_transformer_matches_the_recorded_predictions() {
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
        let found = transformer.call(
            latents,
            &TokenTimesteps::uniform(timestep, frames * height * width / 4),
            &transformer.context(&text, None),
            &transformer.rope([1, 16, frames, height, width]),
        );
        let expected = get("step.00.transformer.cond");
        let what = format!("{kind:?} {scales:?}");
        let key = format!("{name}.step.00.transformer.cond");
        let limit = limit("fp8/wan", &key, CALL_LIMIT);
        assert_close(&what, &found, expected, limit);
    }
}
