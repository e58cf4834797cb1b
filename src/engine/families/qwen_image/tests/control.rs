//! ControlNets beside the transformer: both kinds against diffusers, streamed, in a batch (`tests/fixtures/control`).

use std::rc::Rc;

use safelight_core::networks::{QwenImageControlConfig, QwenImageTransformerConfig};
use tch::Tensor;

use super::*;
use crate::closeness::{assert_close, distance, with_both_frequencies};
use crate::controls::acting::ControlNet as _;
use crate::families::tests::{
    ControlFixture, assert_each_its_own, config_of, diffusers, opened, written,
};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::streams::{MakeResiduals, Residuals};
use crate::weights::Weights;
use crate::weights::tests::made_up::made_up;

type Fixture = ControlFixture<QwenImageControlConfig>;

const STRENGTH: f64 = 0.7;

fn transformer() -> QwenImageTransformer {
    let (_folder, path) = written(&diffusers(&QwenImage));
    let config = config_of::<QwenImageTransformerConfig>(&QwenImage);
    QwenImageTransformer::new(&config, &opened(&path)).unwrap()
}

fn network(config: &QwenImageControlConfig, w: &Weights) -> QwenImageControl {
    let network = QwenImageControl::new(config, w).unwrap();
    assert_eq!(QwenImageControl::unexpected_keys(w), Vec::<String>::new());
    network
}

/// The answer for some pictures' tokens with a network at a strength, or without.
fn ask(
    transformer: &QwenImageTransformer,
    tokens: &Tensor,
    network: Option<(&QwenImageControl, f64)>,
) -> Tensor {
    let width = transformer.config().joint_attention_dim;
    let text = made_up("in.prompt_embeds", &[1, 5, width]);
    let pictures = tokens.size()[0];
    let context = transformer.context(&text, [2, 3], &[], pictures);
    let told = &transformer.modulations(&[750.0])[0];
    let make = || {
        let (network, strength) = network?;
        let channels = network.control_channels();
        let picture = network.embedded(&made_up("in.control", &[1, 6, channels]));
        let own = network.text(&text, transformer.rope(5, &[[2, 3]], pictures));
        let told = &network.told(&[750.0], &own)[0];
        let samples = network.samples(tokens, (&picture, strength), told, &own, &NoHooks)?;
        let mut residuals = Residuals::default();
        residuals.push(samples);
        Some(Rc::new(residuals))
    };
    let controls: MakeResiduals<'_> = if network.is_some() { Some(&make) } else { None };
    let answer = transformer.forward_controlled(
        tokens,
        told,
        &context,
        (Shortcut::default(), controls),
        &NoHooks,
    );
    answer.unwrap()
}

#[test]
fn both_kinds_steer_as_in_the_reference_and_leave_nothing_unread() {
    with_both_frequencies(assert_both_kinds_steer);
}

fn assert_both_kinds_steer() {
    let transformer = transformer();
    let tokens = made_up("in.latents", &[1, 6, 64]);
    let plain = ask(&transformer, &tokens, None);
    for kind in ["union", "inpainting"] {
        let fixture = Fixture::of(&QwenImage, kind);
        let (_folder, path) = written(&fixture.tensors);
        let network = network(&fixture.config, &opened(&path));
        let found = ask(&transformer, &tokens, Some((&network, STRENGTH)));
        fixture.assert_answer(&found);
        assert!(distance(&found, &plain) > 0.01, "{kind}");
        let none = ask(&transformer, &tokens, Some((&network, 0.0)));
        assert_close("strength 0", &none, &plain, 1e-6);
    }
}

#[test]
fn a_batch_gives_each_picture_its_own() {
    let transformer = transformer();
    let fixture = Fixture::of(&QwenImage, "union");
    let (_folder, path) = written(&fixture.tensors);
    let network = network(&fixture.config, &opened(&path));
    let given = Some((&network, STRENGTH));
    assert_each_its_own(&made_up("in.two", &[2, 6, 64]), |tokens| {
        ask(&transformer, tokens, given)
    });
}

#[test]
fn a_network_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
    let transformer = transformer();
    let tokens = made_up("in.latents", &[1, 6, 64]);
    let fixture = Fixture::of(&QwenImage, "inpainting");
    let (_folder, path) = written(&fixture.tensors);
    let answers = [None, Some(0)].map(|resident| {
        let w = opened(&path).with_residency(resident);
        ask(
            &transformer,
            &tokens,
            Some((&network(&fixture.config, &w), STRENGTH)),
        )
    });
    assert_eq!(answers[0], answers[1]);
}
