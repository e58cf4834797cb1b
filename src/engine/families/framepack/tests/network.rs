//! One call of the transformer, in every layout, and in the storages that it may lie in.

use super::*;
use crate::weights::tests::fixtures::Cancelled;

#[test]
fn a_call_matches_diffusers_in_both_layouts_and_at_every_size() {
    with_both_frequencies(|| {
        for (name, case) in cases() {
            let (_folder, weights) = write(&tensors(&case.config), Kind::Float);
            let transformer = FramePackTransformer::new(&config(&case.config), &weights).unwrap();
            assert_answer(&name, &case.ask(&name, &transformer), &name);
        }
    });
}

#[test]
fn half_precision_gives_about_the_same_answer() {
    let case = &cases()["original"];
    let (_folder, weights) = write(&tensors("tiny"), Kind::BFloat16);
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    let off = distance(&case.ask("original", &transformer), &answer("original"));
    assert!(off < 0.03, "{off}");
}

#[test]
fn a_cancelled_call_gives_nothing() {
    let (_folder, weights) = write(&tensors("tiny"), Kind::Float);
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    let latents = Tensor::zeros([1, 16, 1, 2, 2], (Kind::Float, Device::Cpu));
    let layout = SectionLayout {
        latents: vec![1],
        clean: vec![0],
        history_2x: vec![2],
        history_4x: vec![3],
    };
    let history = SectionHistory {
        clean: latents.shallow_clone(),
        history_2x: latents.shallow_clone(),
        history_4x: latents.shallow_clone(),
    };
    let zeros = |tokens, width| Tensor::zeros([1, tokens, width], (Kind::Float, Device::Cpu));
    let pooled = zeros(1, 20).squeeze_dim(0);
    let section = transformer.section(&history, &layout, [2, 2]);
    let context = transformer.context(&zeros(2, 24), 2, &pooled, &zeros(2, 12), 1.0, &section);
    let told = &transformer.modulations(&[1.0], &context)[0];
    let skip = SkipOptions::default();
    let given = transformer.forward(&latents, told, &context, &section, skip, &Cancelled);
    assert!(given.is_none());
}
