//! Tests of every ControlNet besides its transformer, against diffusers (`tests/fixtures/control`).

use safelight_core::job::{ControlInput, ControlSettings};
use safelight_core::model::ControlKind;

use super::*;
use crate::closeness::{assert_close, distance, with_both_frequencies};
use crate::families::flux::{FluxControl, FluxTransformer};
use crate::families::qwen_image::{QwenImageControl, QwenImageTransformer};
use crate::families::sdxl::{SdxlControl, SdxlUnet};
use crate::families::z_image::{ZImageControl, ZImageTransformer};
use crate::parallel::tests::on_ranks;
use crate::stages::images::{
    ActiveControlNets, ImageConditioning, ImageLatentShape, StreamControlNet,
};
use crate::weights::tests::as_fp8::{FORMS, write_fp8};

const STRENGTH: f64 = 0.7;

/// A tiny transformer with ControlNets.
trait ControlledModel: TinyModel {
    type ControlConfig: DeserializeOwned;

    /// Kinds of networks in the fixtures.
    const KINDS: &'static [&'static str];
    /// Largest distance of a prediction from the recorded one.
    const LIMIT: f64 = 2e-6;

    fn network(config: &Self::ControlConfig, w: &Weights) -> Self::Control;

    /// Latents of a control image.
    fn control_latents(network: &Self::Control, shape: ImageLatentShape) -> Tensor;
}

/// Latents whose tokens are made up.
fn unpacked(network: &impl StreamControlNet, shape: ImageLatentShape) -> Tensor {
    let size = [1, shape.tokens(), network.layers().2.channels];
    shape.unpack(&made_up("in.control", &size))
}

impl ControlledModel for FluxTransformer {
    type ControlConfig = safelight_core::networks::FluxControlConfig;

    const KINDS: &'static [&'static str] = &["union", "plain", "untold"];

    fn network(config: &Self::ControlConfig, w: &Weights) -> FluxControl {
        FluxControl::new(config, w).unwrap()
    }

    fn control_latents(network: &FluxControl, shape: ImageLatentShape) -> Tensor {
        unpacked(network, shape)
    }
}

impl ControlledModel for QwenImageTransformer {
    type ControlConfig = safelight_core::networks::QwenImageControlConfig;

    const KINDS: &'static [&'static str] = &["union", "inpainting"];

    fn network(config: &Self::ControlConfig, w: &Weights) -> QwenImageControl {
        QwenImageControl::new(config, w).unwrap()
    }

    fn control_latents(network: &QwenImageControl, shape: ImageLatentShape) -> Tensor {
        unpacked(network, shape)
    }
}

impl ControlledModel for ZImageTransformer {
    type ControlConfig = safelight_core::networks::ZImageControlConfig;

    const KINDS: &'static [&'static str] = &["1.0", "2.0", "2.1"];

    fn network(config: &Self::ControlConfig, w: &Weights) -> ZImageControl {
        ZImageControl::new(config, w).unwrap()
    }

    fn control_latents(_: &ZImageControl, shape: ImageLatentShape) -> Tensor {
        made_up("in.control", &shape.size())
    }
}

impl ControlledModel for SdxlUnet {
    type ControlConfig = safelight_core::networks::SdxlControlConfig;

    const KINDS: &'static [&'static str] = &["plain", "union", "promax"];
    // As of the U-Net alone.
    const LIMIT: f64 = 1e-5;

    fn network(config: &Self::ControlConfig, w: &Weights) -> SdxlControl {
        SdxlControl::new(config, w).unwrap()
    }

    /// Pixels.
    fn control_latents(_: &SdxlControl, shape: ImageLatentShape) -> Tensor {
        made_up("in.control", &[1, 3, 8 * shape.height, 8 * shape.width])
    }
}

type Fixture<M> = ControlFixture<<M as ControlledModel>::ControlConfig>;

fn network_of<M: ControlledModel>(config: &M::ControlConfig, tensors: &Tensors) -> M::Control {
    let (_folder, path) = written(tensors);
    let w = opened(&path);
    let network = M::network(config, &w);
    assert_eq!(w.finish(), Vec::<String>::new());
    network
}

fn fixture_network<M: ControlledModel>(kind: &str) -> M::Control {
    let fixture = Fixture::<M>::of(&ImageFamily::<M>::NEW, kind);
    network_of::<M>(&fixture.config, &fixture.tensors)
}

fn model<M: TinyModel>() -> M {
    model_of(&diffusers::<M>())
}

const SIZE: (u32, u32) = (48, 32);

fn input<M: TinyModel>(model: &M, name: &str, num_images: i64) -> Tensor {
    let config = model.config();
    let shape = ImageLatentShape::new(config.latent_channels(), SIZE.0, SIZE.1).unwrap();
    M::input(config, shape, name, num_images)
}

/// The prediction with networks, each at a strength; `kind`: of their control images.
fn predict<M: ControlledModel>(
    model: &M,
    input: &Tensor,
    networks: &[(&M::Control, f64)],
    kind: ControlKind,
) -> Tensor {
    let config = model.config();
    let shape = ImageLatentShape::new(config.latent_channels(), SIZE.0, SIZE.1).unwrap();
    let text = M::text(config, 5);
    let control = |strength| ControlInput {
        file: "given.png".into(),
        mask: None,
        settings: ControlSettings {
            strength,
            kind: Some(kind),
            ..ControlSettings::default()
        },
    };
    let controls: Vec<ControlInput> = networks
        .iter()
        .map(|(_, strength)| control(*strength))
        .collect();
    let latents = networks.iter();
    let latents: Vec<Tensor> = latents
        .map(|(network, _)| M::control_latents(network, shape))
        .collect();
    let networks = networks.iter().map(|(network, _)| *network);
    let conditioning = ImageConditioning {
        controls: ActiveControlNets::new(&controls, networks, &latents, model, shape).unwrap(),
        ..ImageConditioning::of_prompt(shape, &text)
    };
    let skip = SkipOptions::default();
    predictions_of(model, input, &conditioning, &[750.0], skip).remove(0)
}

fn assert_steers<M: ControlledModel>() {
    with_both_frequencies(|| {
        let model = model::<M>();
        let input = input(&model, "in.latents", 1);
        let plain = predict(&model, &input, &[], ControlKind::Depth);
        for kind in M::KINDS {
            let fixture = Fixture::<M>::of(&ImageFamily::<M>::NEW, kind);
            let network = network_of::<M>(&fixture.config, &fixture.tensors);
            let at =
                |strength| predict(&model, &input, &[(&network, strength)], ControlKind::Depth);
            let found = at(STRENGTH);
            fixture.assert_answer(&found, M::LIMIT);
            assert!(distance(&found, &plain) > 0.01, "{kind}");
            assert_close("strength 0", &at(0.0), &plain, 1e-6);
        }
    });
}

fn assert_batches<M: ControlledModel>() {
    let model = model::<M>();
    let network = fixture_network::<M>(M::KINDS[0]);
    assert_each_its_own(&input(&model, "in.two", 2), |input| {
        predict(&model, input, &[(&network, STRENGTH)], ControlKind::Pose)
    });
}

fn assert_streams<M: ControlledModel>() {
    let model = model::<M>();
    let input = input(&model, "in.latents", 1);
    for kind in M::KINDS {
        let fixture = Fixture::<M>::of(&ImageFamily::<M>::NEW, kind);
        let (_folder, path) = written(&fixture.tensors);
        let predictions = [None, Some(0)].map(|resident| {
            let w = opened(&path).with_residency(resident);
            let network = M::network(&fixture.config, &w);
            predict(&model, &input, &[(&network, STRENGTH)], ControlKind::Depth)
        });
        assert_eq!(predictions[0], predictions[1], "{kind}");
    }
}

fn assert_ranks<M: ControlledModel>() {
    let run = |kind: &str| {
        let (model, network) = (model::<M>(), fixture_network::<M>(kind));
        let input = input(&model, "in.two", 2);
        predict(&model, &input, &[(&network, STRENGTH)], ControlKind::Depth)
    };
    for kind in M::KINDS {
        let whole = run(kind);
        for found in on_ranks(3, || run(kind)) {
            assert_close(kind, &found, &whole, 2e-6);
        }
    }
}

/// Several networks add up in any order.
fn assert_several<M: ControlledModel>() {
    let model = model::<M>();
    let [one, two] = [0, M::KINDS.len() - 1].map(|i| fixture_network::<M>(M::KINDS[i]));
    let input = input(&model, "in.latents", 1);
    let both = [[(&one, 0.5), (&two, 0.8)], [(&two, 0.8), (&one, 0.5)]]
        .map(|both| predict(&model, &input, &both, ControlKind::Depth));
    assert_close("order", &both[0], &both[1], 1e-6);
}

macro_rules! control_suite {
    ($($name:ident: $model:ty,)*) => {$(
        mod $name {
            #[test]
            fn every_kind_steers_as_in_the_reference_and_leaves_nothing_unread() {
                super::assert_steers::<$model>();
            }

            #[test]
            fn a_batch_gives_each_image_its_own() {
                super::assert_batches::<$model>();
            }

            #[test]
            fn streamed_controlnet_matches_the_resident_one_bit_for_bit() {
                super::assert_streams::<$model>();
            }

            #[test]
            fn several_ranks_predict_what_one_does() {
                super::assert_ranks::<$model>();
            }

            #[test]
            fn several_networks_act_together() {
                super::assert_several::<$model>();
            }
        }
    )*};
}

control_suite! {
    flux: crate::families::flux::FluxTransformer,
    qwen_image: crate::families::qwen_image::QwenImageTransformer,
    sdxl: crate::families::sdxl::SdxlUnet,
    z_image: crate::families::z_image::ZImageTransformer,
}

#[test]
fn only_a_union_for_flux_depends_on_the_kind_of_control_image_and_needs_it() {
    let model = model::<FluxTransformer>();
    let input = input(&model, "in.latents", 1);
    for kind in FluxTransformer::KINDS {
        let network = fixture_network::<FluxTransformer>(kind);
        let of = |shown| predict(&model, &input, &[(&network, STRENGTH)], shown);
        let far = distance(&of(ControlKind::Edges), &of(ControlKind::Depth));
        assert_eq!(far > 1e-3, *kind == "union", "{kind}: {far}");
    }
    let network = fixture_network::<FluxTransformer>("union");
    let text = FluxTransformer::text(model.config(), 5);
    for kind in [None, Some(ControlKind::Scribble)] {
        let prompt = network.prompt(&text, kind, 3.5, |_| unreachable!());
        let reason = prompt.err().unwrap().to_string();
        assert!(reason.contains("must be told"), "{reason}");
    }
}

#[test]
fn only_unions_for_sdxl_depend_on_the_kind_of_control_image_and_need_it() {
    let model = model::<SdxlUnet>();
    let input = input(&model, "in.latents", 1);
    for kind in SdxlUnet::KINDS {
        let network = fixture_network::<SdxlUnet>(kind);
        let of = |shown| predict(&model, &input, &[(&network, STRENGTH)], shown);
        let far = distance(&of(ControlKind::Edges), &of(ControlKind::Depth));
        assert_eq!(far > 1e-3, *kind != "plain", "{kind}: {far}");
        // As xinsir's, which have one type for both.
        assert_eq!(of(ControlKind::Scribble), of(ControlKind::SoftEdges));
    }
}

#[test]
fn fp8_controlnet_matches_its_dequantised_weights() {
    let model = model::<FluxTransformer>();
    let input = input(&model, "in.latents", 1);
    let fixture = Fixture::<FluxTransformer>::of(&ImageFamily::<FluxTransformer>::NEW, "union");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.safetensors");
    let of = |w: &Weights| {
        let network = FluxTransformer::network(&fixture.config, w);
        predict(&model, &input, &[(&network, STRENGTH)], ControlKind::Depth)
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
        let exact = of(&opened(&place));
        assert_close(name, &of(&opened(&path)), &exact, 1e-6);
        let far = distance(&exact, &fixture.answer);
        assert!((1e-5..0.1).contains(&far), "{name}: {far}");
    }
}

#[test]
fn z_image_controlnet_with_a_zero_refiner_matches_version_2_0() {
    type ZFixture = Fixture<ZImageTransformer>;
    let [mut second, third] =
        ["2.0", "2.1"].map(|kind| ZFixture::of(&ImageFamily::<ZImageTransformer>::NEW, kind));
    let mut tensors = std::mem::take(&mut second.tensors);
    for (name, tensor) in third.tensors {
        if name.starts_with("control_noise_refiner.") {
            tensors.insert(name, tensor.zeros_like());
        }
    }
    let network = network_of::<ZImageTransformer>(&third.config, &tensors);
    let model = model::<ZImageTransformer>();
    let input = input(&model, "in.latents", 1);
    let found = predict(&model, &input, &[(&network, STRENGTH)], ControlKind::Depth);
    second.assert_answer(&found, ZImageTransformer::LIMIT);
}
