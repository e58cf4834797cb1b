//! ControlNets beside the transformer: every version against diffusers, streamed, in a batch, several at once, and files
//! that are none (`tests/fixtures/control`).

use safelight_core::networks::{ZImageControlConfig, ZImageTransformerConfig};
use tch::Tensor;

use super::*;
use crate::closeness::{assert_close, with_both_frequencies};
use crate::families::tests::{ControlFixture, Tensors, config_of, diffusers, opened, written};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::weights::tests::made_up::made_up;

type Fixture = ControlFixture<ZImageControlConfig>;

const STRENGTH: f64 = 0.7;

fn transformer() -> ZImageTransformer {
    let (_folder, path) = written(&diffusers(&ZImage));
    let config = config_of::<ZImageTransformerConfig>(&ZImage);
    ZImageTransformer::new(&config, &opened(&path)).unwrap()
}

fn network(config: &ZImageControlConfig, tensors: &Tensors) -> ZImageControl {
    let (_folder, path) = written(tensors);
    let w = opened(&path);
    let network = ZImageControl::new(config, &w).unwrap();
    assert_eq!(ZImageControl::unexpected_keys(&w), Vec::<String>::new());
    network
}

/// The answer for some pictures' latents with networks, each at a strength.
fn ask(
    transformer: &ZImageTransformer,
    latents: &Tensor,
    networks: &[(&ZImageControl, f64)],
) -> Tensor {
    let width = transformer.config().cap_feat_dim;
    let text = made_up("in.prompt_embeds", &[1, 5, width]);
    let context = transformer.context(&text, [4, 6], &NoHooks).unwrap();
    let times = transformer.told(&[750.0]);
    let told = &transformer.modulations(&times)[0];
    let picture = made_up("in.control", &[1, 16, 4, 6]);
    let given = networks.iter().map(|(network, _)| {
        let told = network.modulations(&times).remove(0);
        (network.embedded(transformer, &picture), told)
    });
    let given: Vec<_> = given.collect();
    let acting = networks.iter().zip(&given);
    let acting: Vec<Acting<'_>> = acting
        .map(|((network, strength), (picture, told))| Acting {
            network,
            picture,
            told,
            strength: *strength,
        })
        .collect();
    let answer = transformer.forward_controlled(
        latents,
        told,
        &context,
        (Shortcut::default(), &acting),
        &NoHooks,
    );
    answer.unwrap()
}

fn latents() -> Tensor {
    made_up("in.latents", &[1, 16, 4, 6])
}

#[test]
fn every_version_steers_as_in_the_reference_and_leaves_nothing_unread() {
    with_both_frequencies(assert_every_version_steers);
}

fn assert_every_version_steers() {
    let transformer = transformer();
    let plain = ask(&transformer, &latents(), &[]);
    for version in ["1.0", "2.0", "2.1"] {
        let fixture = Fixture::of(&ZImage, version);
        let network = network(&fixture.config, &fixture.tensors);
        let found = ask(&transformer, &latents(), &[(&network, STRENGTH)]);
        fixture.assert_answer(&found);
        assert!(
            crate::closeness::distance(&found, &plain) > 0.01,
            "{version}"
        );
        assert_eq!(ask(&transformer, &latents(), &[(&network, 0.0)]), plain);
    }
}

#[test]
fn a_file_whose_blocks_beside_the_refiner_are_zeros_is_of_the_second_version() {
    let (mut second, third) = (Fixture::of(&ZImage, "2.0"), Fixture::of(&ZImage, "2.1"));
    let mut tensors = std::mem::take(&mut second.tensors);
    for (name, tensor) in third.tensors {
        if name.starts_with("control_noise_refiner.") {
            let zeros = tensor.zeros_like();
            tensors.insert(name, zeros);
        }
    }
    let network = network(&third.config, &tensors);
    let found = ask(&transformer(), &latents(), &[(&network, STRENGTH)]);
    second.assert_answer(&found);
}

#[test]
fn several_networks_act_beside_each_other_and_each_picture_of_a_batch_gets_its_own() {
    let transformer = transformer();
    let fixtures = ["1.0", "2.1"].map(|version| Fixture::of(&ZImage, version));
    let networks = fixtures
        .each_ref()
        .map(|it| network(&it.config, &it.tensors));
    let [one, two] = &networks;
    let both = ask(&transformer, &latents(), &[(one, 0.5), (two, 0.8)]);
    let other = ask(&transformer, &latents(), &[(two, 0.8), (one, 0.5)]);
    assert_close("order", &both, &other, 1e-6);
    let pictures = made_up("in.two", &[2, 16, 4, 6]);
    let given = [(one, 0.5), (two, 0.8)];
    let each = [0, 1].map(|index| ask(&transformer, &pictures.narrow(0, index, 1), &given));
    let found = ask(&transformer, &pictures, &given);
    assert_close("batch", &found, &Tensor::cat(&each, 0), 1e-6);
}

#[test]
fn a_network_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
    let transformer = transformer();
    let fixture = Fixture::of(&ZImage, "2.1");
    let (_folder, path) = written(&fixture.tensors);
    let answers = [None, Some(0)].map(|resident| {
        let w = opened(&path).with_residency(resident);
        let network = ZImageControl::new(&fixture.config, &w).unwrap();
        ask(&transformer, &latents(), &[(&network, STRENGTH)])
    });
    assert_eq!(answers[0], answers[1]);
}
