//! ControlNets beside the transformer: every kind against diffusers, streamed, in fp8, in a batch
//! (`tests/fixtures/control`).

use std::rc::Rc;

use safelight_core::model::ControlKind;
use safelight_core::networks::FluxControlConfig;

use super::*;
use crate::controls::acting::ControlNet as _;
use crate::families::tests::{ControlFixture, assert_each_its_own};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::streams::{MakeResiduals, Residuals};
use crate::weights::tests::as_fp8::{FORMS, write_fp8};

type Fixture = ControlFixture<FluxControlConfig>;

const KINDS: [&str; 3] = ["union", "plain", "untold"];
const STRENGTH: f64 = 0.7;
const GUIDANCE: f64 = 3.5;

fn transformer() -> FluxTransformer {
    Run::open("dev").transformer
}

fn network(config: &FluxControlConfig, w: &Weights) -> FluxControl {
    let network = FluxControl::new(config, w).unwrap();
    assert_eq!(FluxControl::unexpected_keys(w), Vec::<String>::new());
    network
}

/// The answer for some pictures' tokens with a network at a strength and a kind of control picture, or without.
fn ask(
    transformer: &FluxTransformer,
    tokens: &Tensor,
    network: Option<(&FluxControl, f64, ControlKind)>,
) -> Tensor {
    let config = transformer.config();
    let text = TextEmbeds {
        prompt: made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]),
        mask: None,
        pooled: Some(made_up("in.pooled", &[1, config.pooled_projection_dim])),
    };
    let pictures = tokens.size()[0];
    let ids = image_ids(LatentShape::new(config.latent_channels(), 48, 32).unwrap());
    let rope = |count: i64| transformer.rope(&text_ids(count), &ids, pictures);
    let context = transformer.context(&text.prompt, text.pooled().unwrap(), GUIDANCE);
    let told = &transformer.modulations(&[750.0], &context)[0];
    let make = || {
        let (network, strength, kind) = network?;
        let picture = network.embedded(&made_up("in.control", &[1, 6, network.control_channels()]));
        let own = network.text(&text, Some(kind), GUIDANCE, rope).unwrap();
        let told = &network.told(&[750.0], &own)[0];
        let samples = network.samples(tokens, (&picture, strength), told, &own, &NoHooks)?;
        let mut residuals = Residuals::default();
        residuals.push(samples);
        Some(Rc::new(residuals))
    };
    let controls: MakeResiduals<'_> = if network.is_some() { Some(&make) } else { None };
    let beside = (Shortcut::default(), controls);
    transformer
        .forward_controlled(tokens, told, &context, &rope(5), beside, &NoHooks)
        .unwrap()
}

#[test]
fn every_kind_steers_as_in_the_reference_and_leaves_nothing_unread() {
    with_both_frequencies(assert_every_kind_steers);
}

fn assert_every_kind_steers() {
    let transformer = transformer();
    let tokens = made_up("in.latents", &[1, 6, 64]);
    let plain = ask(&transformer, &tokens, None);
    for kind in KINDS {
        let fixture = Fixture::of(&Flux, kind);
        let (_folder, path) = written(&fixture.tensors);
        let network = network(&fixture.config, &opened(&path));
        let answer =
            |strength, shown| ask(&transformer, &tokens, Some((&network, strength, shown)));
        let found = answer(STRENGTH, ControlKind::Depth);
        fixture.assert_answer(&found);
        assert!(distance(&found, &plain) > 0.01, "{kind}");
        assert_close("strength 0", &answer(0.0, ControlKind::Depth), &plain, 1e-6);
        // A union alone is told what it is shown.
        let other = distance(&answer(STRENGTH, ControlKind::Edges), &found);
        assert_eq!(other > 1e-3, kind == "union", "{kind}: {other}");
    }
}

#[test]
fn a_union_that_is_not_told_what_it_is_shown_says_so() {
    let fixture = Fixture::of(&Flux, "union");
    let (_folder, path) = written(&fixture.tensors);
    let network = network(&fixture.config, &opened(&path));
    let transformer = transformer();
    let text = Run::open("dev").conditions().prompt;
    for kind in [None, Some(ControlKind::Scribble)] {
        let rope = |count| transformer.rope(&text_ids(count), &text_ids(6), 1);
        let told = network.text(&text, kind, GUIDANCE, rope);
        let reason = told.err().unwrap().to_string();
        assert!(reason.contains("must be told"), "{reason}");
    }
}

#[test]
fn a_batch_gives_each_picture_its_own() {
    let transformer = transformer();
    let fixture = Fixture::of(&Flux, "union");
    let (_folder, path) = written(&fixture.tensors);
    let network = network(&fixture.config, &opened(&path));
    let given = Some((&network, STRENGTH, ControlKind::Pose));
    assert_each_its_own(&made_up("in.two", &[2, 6, 64]), |tokens| {
        ask(&transformer, tokens, given)
    });
}

#[test]
fn a_network_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
    let transformer = transformer();
    let tokens = made_up("in.latents", &[1, 6, 64]);
    for kind in KINDS {
        let fixture = Fixture::of(&Flux, kind);
        let (_folder, path) = written(&fixture.tensors);
        let answers = [None, Some(0)].map(|resident| {
            let w = opened(&path).with_residency(resident);
            let network = network(&fixture.config, &w);
            let given = Some((&network, STRENGTH, ControlKind::Depth));
            ask(&transformer, &tokens, given)
        });
        assert_eq!(answers[0], answers[1], "{kind}");
    }
}

#[test]
fn a_network_of_fp8_gives_what_its_numbers_give() {
    let transformer = transformer();
    let tokens = made_up("in.latents", &[1, 6, 64]);
    let fixture = Fixture::of(&Flux, "union");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.safetensors");
    let answer = |w: &Weights| {
        let network = network(&fixture.config, w);
        let given = Some((&network, STRENGTH, ControlKind::Depth));
        ask(&transformer, &tokens, given)
    };
    for (kind, scales, name) in [FORMS[0], FORMS[2], FORMS[3]] {
        write_fp8(&path, &fixture.tensors, kind, scales);
        let w = opened(&path);
        let numbers = fixture.tensors.iter();
        let numbers = numbers.map(|(key, tensor)| {
            let exact = w.tensor(key, &tensor.size()).unwrap();
            (key.clone(), exact)
        });
        let (_exact, place) = written(&numbers.collect());
        let exact = answer(&opened(&place));
        assert_close(name, &answer(&opened(&path)), &exact, 1e-6);
        let far = distance(&exact, &fixture.answer);
        assert!((1e-5..0.1).contains(&far), "{name}: {far}");
    }
}
