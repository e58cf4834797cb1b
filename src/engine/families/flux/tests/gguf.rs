//! A transformer whose matrices stay in GGUF's blocks against the same numbers in f32.

use super::dialects::originals;
use super::*;
use crate::hooks::NoHooks;
use crate::weights::tests::made_up_gguf::both_forms;

#[test]
fn a_transformer_in_blocks_gives_what_its_numbers_give() {
    let run = Run::open("dev");
    let given = |part: &str| run.get(&format!("transformer.in.cond.{part}"));
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals(&weights_of("dev")).into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| {
        let w = opened(&place);
        let config = run.transformer.config();
        let transformer = FluxTransformer::new(config, &w).unwrap();
        assert!(FluxTransformer::unexpected_keys(&w).is_empty());
        let (text, pooled) = (given("encoder_hidden_states"), given("pooled_projections"));
        let context = transformer.context(text, pooled, 3.5);
        let rope = transformer.rope(given("txt_ids"), given("img_ids"), 1);
        let noise = run.get("latents.initial");
        let told = &transformer.modulations(&[1000.0], &context)[0];
        let answer = transformer.forward(noise, told, &context, &rope, &NoHooks);
        answer.unwrap()
    });
    assert_eq!(found, expected);
    // Eight bits are near the truth, and not it.
    let far = distance(&found, run.get("step.00.transformer.cond"));
    assert!((1e-4..0.05).contains(&far), "{far}");
}
