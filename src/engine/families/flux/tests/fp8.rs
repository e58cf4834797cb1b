//! Flux in fp8, in the names and joins of its authors, against diffusers with the same numbers
//! (`tests/fixtures/fp8`).

use safelight_core::networks::DenoiserConfig as _;

use super::dialects::originals;
use super::*;
use crate::weights::tests::as_fp8::{self, FORMS, Recorded};

#[test]
fn fp8_flux_transformer_matches_the_recorded_predictions() {
    with_both_frequencies(assert_fp8_is_as_recorded);
}

fn assert_fp8_is_as_recorded() {
    let recorded = Recorded::open("flux");
    let config = fs::read(recorded.config("transformer")).unwrap();
    let config: FluxTransformerConfig = serde_json::from_slice(&config).unwrap();
    // The scale of a matrix is that of all that is joined in it.
    let tensors = originals(&recorded.weights("transformer"));
    for (kind, scales, name) in FORMS {
        let folder = recorded.folder("transformer", &tensors, kind, scales);
        let weights = as_fp8::opened(&folder.path().join("model.safetensors"));
        let transformer = FluxTransformer::new(&config, &weights).unwrap();
        assert!(weights.finish().is_empty(), "{:?}", weights.finish());
        let get = |part: &str| recorded.get(&format!("{name}.{part}"));
        let given = |part: &str| get(&format!("transformer.in.cond.{part}"));
        let text = TextEmbeds {
            pooled: Some(given("pooled_projections").shallow_clone()),
            ..TextEmbeds::of_states(given("encoder_hidden_states").shallow_clone())
        };
        let ids = given("img_ids").max_dim(0, false).0;
        let edge = |axis: i64| (ids.double_value(&[axis]) as u32 + 1) * 16;
        let shape = ImageLatentShape::new(config.latent_channels(), edge(2), edge(1)).unwrap();
        let conditioning = ImageConditioning {
            guidance: GuidanceScales {
                distilled: given("guidance").double_value(&[0]),
                real: 1.0.into(),
            },
            ..ImageConditioning::of_prompt(shape, &text)
        };
        let timestep = get("step.00.timestep").double_value(&[]) as f32;
        let input = get("step.00.transformer.in.hidden_states");
        let skip = SkipOptions::default();
        let found = predictions_of(&transformer, input, &conditioning, &[timestep], skip);
        let expected = get("step.00.transformer.cond");
        let limit = limit(
            "fp8/flux",
            &format!("{name}.step.00.transformer.cond"),
            2e-6,
        );
        assert_close(name, &found[0], expected, limit);
    }
}
