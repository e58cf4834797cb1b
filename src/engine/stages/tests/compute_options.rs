//! Compute options through whole stages: other roundings, close results.

use safelight_core::compute::AttentionChoice;
use serde_json::json;

use super::*;
use crate::closeness::distance;
use crate::runtime::attention_choice;

/// The latents of a tiny Wan's two steps.
fn latents(attention: AttentionChoice) -> Tensor {
    let job = tempfile::tempdir().unwrap();
    let request = tiny_wan(&json!({"prompt": "a boat", "width": 64, "num_steps": 2, "seed": 3}));
    for stage in [Stage::EncodeText, Stage::Denoise] {
        let mut order = order_in(job.path(), (stage, 0), &request);
        order.memory.compute_options.attention = attention;
        try_stage(&order, &|_, _| {}).0.unwrap();
        assert_eq!(attention_choice(), AttentionChoice::Auto);
    }
    let result = JobFolder::open(job.path()).result(Stage::Denoise).unwrap();
    tensor_files::read_one(&result, "latents").unwrap()
}

#[test]
fn a_stage_with_sliced_attention_gives_the_same_latents_in_other_roundings() {
    let [whole, sliced] = [AttentionChoice::Auto, AttentionChoice::Sliced].map(latents);
    let off = distance(&sliced, &whole);
    assert!(0.0 < off && off < 1e-5, "off by {off}");
}
