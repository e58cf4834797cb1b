//! Z-Image's plan: the same weights in every dialect, and what a picture needs on cards of usual sizes.

use super::{Case, card};
use crate::families::flux::tests::files::shapes;
use crate::families::z_image;
use crate::families::z_image::tests::own;
use crate::job::Stage;
use crate::memory::PartName;
use crate::model::ModelFiles;
use crate::testing::made_up::write;

pub(super) fn case(dialect: &str, dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), &own(dialect), dtype),
        vae: write(&file("vae"), &shapes("ae"), "F32"),
        text_encoder: write(&file("qwen"), &own("qwen_3_4b"), "BF16"),
        ..ModelFiles::default()
    };
    Case::of(root, z_image::FAMILY, files)
}

#[test]
fn the_weights_are_the_same_in_every_dialect_and_those_that_are_read() {
    let [one, other] =
        ["transformer", "transformer diffusers"].map(|dialect| case(dialect, "BF16"));
    for part in PartName::ALL {
        let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
        assert_eq!(of(&other), of(&one), "{part:?}");
    }
    // The embedders of timesteps stay in f32.
    let exact = 1024 * 256 + 1024 + 256 * 1024 + 256;
    assert_eq!(
        one.bytes(PartName::Transformer, 2),
        2 * (6_154_908_736 + exact)
    );
    // Without the last layer and the last norm.
    let layer = 2560 * (2 * 4096 + 2 * 1024 + 3 * 9728) + 2 * 2560 + 2 * 128;
    let read = 151_936 * 2560 + 35 * layer;
    assert_eq!(one.bytes(PartName::TextEncoder, 2), 2 * read);
}

#[test]
fn a_picture_of_a_megapixel_fits_whole_on_24_gib_and_by_streaming_on_12() {
    for (dtype, gib, streams) in [
        ("BF16", 24, false),
        ("BF16", 12, true),
        ("F8_E4M3", 12, false),
    ] {
        let case = case("transformer", dtype);
        let plan = case.plan(&case.request(1024, 1024, 1), card(gib));
        assert!(plan.fits(), "{dtype} {gib}: {}", plan.verdict.text);
        let denoise = plan.of_stage(Stage::Denoise).unwrap();
        assert_eq!(denoise.is_streamed(), streams, "{dtype} {gib}");
        // Guided here, so both texts.
        let activations = denoise.activation_bytes as f64 / f64::from(1 << 30);
        assert!(
            (0.2..1.0).contains(&activations),
            "{dtype} {gib}: {activations}"
        );
    }
}

#[test]
fn more_pixels_and_more_pictures_need_more() {
    let case = case("transformer", "BF16");
    let activations = |width, pictures| {
        let mut request = case.request(width, 1024, 1);
        request.batch_size = pictures;
        let plan = case.plan(&request, card(48));
        plan.of_stage(Stage::Denoise).unwrap().activation_bytes
    };
    let (one, wide, two) = (
        activations(1024, 1),
        activations(2048, 1),
        activations(1024, 2),
    );
    assert!(one < wide && one < two, "{one} {wide} {two}");
}
