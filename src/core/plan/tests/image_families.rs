//! Plans of image families: the same weights in every dialect, and what an image needs on cards of usual sizes.

use std::num::NonZeroU32;
use std::ops::Range;

use super::{Case, card};
use crate::families::flux::tests::files::shapes;
use crate::families::{
    anima, chroma, flux2, flux3, krea2, qwen_image, qwen_image_21, sdxl, z_image,
};
use crate::footprint::PlannedNetwork;
use crate::job::{GenerateRequest, Stage};
use crate::model::{ModelFamily, ModelFiles};
use crate::testing::made_up::{Shapes, vae, write};

/// Of a transformer, an autoencoder and a text encoder.
fn case(family: ModelFamily, [transformer, vae, text]: [&Shapes; 3], dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), transformer, dtype),
        vae: write(&file("vae"), vae, "F32"),
        text_encoder: write(&file("text"), text, "BF16"),
        ..ModelFiles::default()
    };
    Case::of(root, family, files)
}

fn chroma(dialect: &str, dtype: &'static str) -> Case {
    let (own, text) = (chroma::tests::own(dialect), shapes("t5xxl"));
    case(chroma::FAMILY, [&own, &shapes("ae"), &text], dtype)
}

pub(super) fn z_image(dialect: &str, dtype: &'static str) -> Case {
    let [own, text] = [dialect, "qwen_3_4b"].map(z_image::tests::own);
    case(z_image::FAMILY, [&own, &shapes("ae"), &text], dtype)
}

fn krea2(dialect: &str, dtype: &'static str) -> Case {
    let of_authors = dialect == "transformer";
    let vae = if of_authors {
        "qwen_image_vae"
    } else {
        "vae diffusers"
    };
    let [own, vae, text] = [dialect, vae, "qwen3vl_4b"].map(krea2::tests::own);
    case(krea2::FAMILY, [&own, &vae, &text], dtype)
}

fn flux2(transformer: &str, dtype: &'static str) -> Case {
    let is_small = transformer.contains("4b");
    let text = if is_small { "qwen_3_4b" } else { "qwen_3_8b" };
    let [own, vae, text] = [transformer, "vae", text].map(flux2::tests::own);
    case(flux2::FAMILY, [&own, &vae, &text], dtype)
}

fn flux2_dev(transformer: &str, dtype: &'static str) -> Case {
    let parts = [transformer, "vae", "mistral_3_small_flux2"].map(flux2::tests::own);
    case(flux2::dev::FAMILY, parts.each_ref(), dtype)
}

fn anima(dialect: &str, dtype: &'static str) -> Case {
    let [own, vae, text] = [dialect, "qwen_image_vae", "qwen_3_06b_base"].map(anima::tests::own);
    case(anima::FAMILY, [&own, &vae, &text], dtype)
}

fn flux3(dialect: &str, dtype: &'static str) -> Case {
    let parts = [dialect, "vae", "qwen3vl_4b"].map(flux3::tests::own);
    case(flux3::FAMILY, parts.each_ref(), dtype)
}

fn qwen_image_21(dialect: &str, dtype: &'static str) -> Case {
    let [own, vae, text] = [dialect, "vae diffusers", "qwen3vl_8b"].map(qwen_image_21::tests::own);
    case(qwen_image_21::FAMILY, [&own, &vae, &text], dtype)
}

fn qwen_image(transformer: &str, dtype: &'static str) -> Case {
    let [own, text] = [transformer, "qwen_2.5_vl_7b"].map(qwen_image::tests::own);
    case(qwen_image::FAMILY, [&own, &vae(16), &text], dtype)
}

pub(super) fn sdxl(dialect: &str, dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str, shapes: &str, dtype: &'static str| {
        let place = root.path().join(format!("{name}.safetensors"));
        write(&place, &sdxl::tests::own(shapes), dtype)
    };
    let files = ModelFiles {
        transformer: file("transformer", dialect, dtype),
        vae: file("vae", "vae", "F32"),
        text_encoder: file("text", "clip_l", "BF16"),
        text_encoder_2: Some(file("text 2", "clip_g", "BF16")),
        ..ModelFiles::default()
    };
    Case::of(root, sdxl::FAMILY, files)
}

/// Numbers of `num_layers` layers of Qwen 3 4B and of its embeddings, without the layers that are not read.
fn qwen_3_4b(num_layers: u64) -> u64 {
    let layer = 2560 * (2 * 4096 + 2 * 1024 + 3 * 9728) + 2 * 2560 + 2 * 128;
    151_936 * 2560 + num_layers * layer
}

#[test]
fn the_weights_are_the_same_in_every_dialect() {
    for [one, other] in [
        ["transformer", "transformer diffusers"].map(|dialect| chroma(dialect, "BF16")),
        ["transformer", "transformer diffusers"].map(|dialect| z_image(dialect, "BF16")),
        ["transformer", "transformer diffusers"].map(|dialect| krea2(dialect, "BF16")),
        ["transformer", "transformer diffusers"].map(|dialect| qwen_image_21(dialect, "BF16")),
        ["transformer 4b", "transformer 4b diffusers"].map(|dialect| flux2(dialect, "BF16")),
        ["transformer klein", "transformer klein diffusers"].map(|dialect| flux3(dialect, "BF16")),
        ["unet", "unet diffusers"].map(|dialect| sdxl(dialect, "BF16")),
        ["transformer", "transformer diffusers"].map(|dialect| anima(dialect, "BF16")),
    ] {
        for part in PlannedNetwork::ALL {
            let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
            assert_eq!(of(&other), of(&one), "{} {part:?}", one.family.id);
        }
    }
}

#[test]
fn the_weights_are_those_that_are_read() {
    let krea2_exact = {
        // Norms and the vectors of modulations.
        let (dim, text) = (6144, 2560);
        let blocks = 28 * (6 * dim + 2 * dim + 2 * 128) + 4 * (2 * text + 2 * 128);
        blocks + text + dim + 2 * dim
    };
    // Without the head, and without what sees.
    let qwen_2_5_vl_7b = {
        let layer = 3584 * (2 * 3584 + 2 * 512 + 3 * 18_944) + 3584 + 2 * 512 + 2 * 3584;
        152_064 * 3584 + 28 * layer + 3584
    };
    // Of the transformer those that stay in f32: the approximator's first layer and its norms, or what embeds timesteps.
    let exact = [
        5120 * 64 + 5120 + 5 * 5120,
        3072 * 256 + 3072 * 3072,
        krea2_exact,
        3072 * 256 + 3072 + 3072 * 3072 + 3072,
        2 * 1024 * 256 + 1024 + 256,
    ];
    // Those of the transformer, and of the text encoder as it is read.
    let numbers = [
        (8_899_983_424, None),
        (3_875_544_576, Some(qwen_3_4b(27))),
        (12_820_073_036, Some(qwen_3_4b(35))),
        (20_430_401_088, Some(qwen_2_5_vl_7b)),
        (6_154_908_736, Some(qwen_3_4b(35))),
    ];
    for (case, (exact, (all, text))) in all_cases().iter().zip(exact.into_iter().zip(numbers)) {
        let transformer = case.bytes(PlannedNetwork::Transformer, 2);
        assert_eq!(transformer, 2 * (all + exact), "{}", case.family.id);
        let found = text.map(|_| case.bytes(PlannedNetwork::TextEncoder, 2));
        assert_eq!(found, text.map(|text| 2 * text), "{}", case.family.id);
    }
}

/// One of each family, in the order of their names.
fn all_cases() -> [Case; 5] {
    [
        chroma("transformer", "BF16"),
        flux2("transformer 4b", "BF16"),
        krea2("transformer", "BF16"),
        qwen_image("transformer", "BF16"),
        z_image("transformer", "BF16"),
    ]
}

#[test]
fn an_image_of_a_megapixel_fits_whole_where_the_weights_do_and_else_by_streaming() {
    type Make = fn(&str, &'static str) -> Case;
    // Transformer; its numbers and the card's GiB where it stays; those where it streams.
    let rows: [(Make, &str, Range<f64>, &str, &str); 11] = [
        (
            anima,
            "transformer",
            0.1..0.6,
            "BF16 8, F8_E4M3 8",
            "BF16 4",
        ),
        (
            chroma,
            "transformer",
            0.2..1.0,
            "BF16 24, F8_E4M3 16",
            "BF16 12",
        ),
        (
            z_image,
            "transformer",
            0.2..1.0,
            "BF16 24, F8_E4M3 12",
            "BF16 12",
        ),
        (
            krea2,
            "transformer",
            0.3..1.5,
            "BF16 32, F8_E4M3 16",
            "BF16 16, F8_E4M3 12",
        ),
        (flux2, "transformer 4b", 0.2..1.0, "BF16 12", ""),
        (
            flux2,
            "transformer 9b",
            0.2..1.0,
            "BF16 24, F8_E4M3 12",
            "BF16 12",
        ),
        (
            flux2_dev,
            "transformer dev",
            0.2..1.5,
            "BF16 96, F8_E4M3 48",
            "BF16 48, BF16 24, F8_E4M3 24",
        ),
        (
            flux3,
            "transformer klein base",
            0.2..1.0,
            "BF16 16, F8_E4M3 12",
            "BF16 10",
        ),
        (
            qwen_image_21,
            "transformer",
            0.2..1.8,
            "BF16 24, F8_E4M3 12",
            "BF16 12",
        ),
        (sdxl, "unet", 0.2..1.5, "BF16 12, F8_E4M3 8", "BF16 6"),
        (
            qwen_image,
            "transformer",
            0.2..1.5,
            "BF16 48, F8_E4M3 24",
            "BF16 16, F8_E4M3 12",
        ),
    ];
    for (make, transformer, gib_of_activations, staying, streaming) in rows {
        for (cards, streams) in [(staying, false), (streaming, true)] {
            for (dtype, gib) in cards.split(", ").filter_map(|card| card.split_once(' ')) {
                let dtype = if dtype == "BF16" { "BF16" } else { "F8_E4M3" };
                let case = make(transformer, dtype);
                let what = format!("{} {transformer} {dtype} {gib}", case.family.id);
                // Guided where the family is, so both texts.
                let request = case.request(1024, 1024, 1);
                let plan = case.plan(&request, card(gib.parse().unwrap()));
                assert!(plan.fits(), "{what}: {}", plan.verdict.text);
                let denoise = plan.of_stage(Stage::Denoise).unwrap();
                assert_eq!(denoise.is_streamed(), streams, "{what}");
                let activations = denoise.activation_bytes as f64 / f64::from(1 << 30);
                let holds = gib_of_activations.contains(&activations);
                assert!(holds, "{what}: {activations}");
            }
        }
    }
}

#[test]
fn weights_that_fit_on_no_card_are_kept_in_parts_by_several() {
    for case in all_cases() {
        let mut request = case.request(1024, 1024, 1);
        let whole = case.plan(&request, card(96));
        let weights = whole.of_stage(Stage::Denoise).unwrap().weights_bytes;
        // Room for three quarters of the weights and for the activations.
        let streamed = (4..96).find_map(|gib| {
            let plan = case.plan(&request, card(gib));
            let denoise = *plan.of_stage(Stage::Denoise)?;
            (denoise.resident_bytes * 4 >= weights * 3).then_some((gib, denoise))
        });
        let (gib, alone) = streamed.unwrap();
        for devices in [2, 8] {
            request.options.memory.devices = NonZeroU32::new(devices);
            let plan = case.plan(&request, card(gib));
            let shared = plan.of_stage(Stage::Denoise).unwrap();
            let (id, text) = (case.family.id, &plan.verdict.text);
            let named = text.contains(&format!("on each of {devices} devices"));
            assert!(named, "{id}: {text}");
            assert_eq!(shared.peak_bytes, alone.peak_bytes, "{id}");
            if alone.is_streamed() {
                assert!(
                    shared.is_in_parts() && shared.streamed_bytes_per_step == 0,
                    "{id}"
                );
                assert!(text.contains("kept in parts"), "{id}: {text}");
            }
        }
    }
}

fn activations(case: &Case, stage: Stage, change: impl Fn(&mut GenerateRequest)) -> u64 {
    let mut request = case.request(1024, 1024, 1);
    change(&mut request);
    let plan = case.plan(&request, card(80));
    plan.of_stage(stage).unwrap().activation_bytes
}

#[test]
fn more_pixels_and_more_images_need_more() {
    for case in all_cases().into_iter().chain([sdxl("unet", "BF16")]) {
        let one = activations(&case, Stage::Denoise, |_| {});
        let wide = activations(&case, Stage::Denoise, |request| request.width = 2048);
        let two = activations(&case, Stage::Denoise, |request| request.batch_size = 2);
        let id = case.family.id;
        assert!(one < wide && one < two, "{id}: {one} {wide} {two}");
    }
}

#[test]
fn images_go_one_after_the_other_through_the_autoencoder_and_larger_ones_need_more() {
    let case = krea2("transformer", "BF16");
    let one = activations(&case, Stage::Decode, |_| {});
    let wide = activations(&case, Stage::Decode, |request| request.width = 2048);
    let two = activations(&case, Stage::Decode, |request| request.batch_size = 2);
    assert!(one < wide && one == two, "{one} {wide} {two}");
}

#[test]
fn an_image_that_is_seen_or_begun_from_needs_more() {
    let case = flux2("transformer 4b", "BF16");
    let one = activations(&case, Stage::Denoise, |_| {});
    let begun = activations(&case, Stage::Denoise, |request| {
        request.image = Some("a.png".into());
    });
    let seen = activations(&case, Stage::Denoise, |request| {
        request.references = vec!["a.png".into()];
    });
    assert!(one < begun && one < seen, "{one} {begun} {seen}");
}
