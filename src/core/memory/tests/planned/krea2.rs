//! Krea 2's plan: the same weights in every dialect, and what a picture needs on cards of usual sizes.

use super::{Case, card};
use crate::families::krea2;
use crate::families::krea2::tests::own;
use crate::job::Stage;
use crate::memory::PartName;
use crate::model::ModelFiles;
use crate::testing::made_up::write;

fn case(dialect: &str, vae: &str, dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), &own(dialect), dtype),
        vae: write(&file("vae"), &own(vae), "F32"),
        text_encoder: write(&file("qwen"), &own("qwen3vl_4b"), "BF16"),
        ..ModelFiles::default()
    };
    Case::of(root, krea2::FAMILY, files)
}

#[test]
fn the_weights_are_the_same_in_every_dialect_and_those_that_are_read() {
    let one = case("transformer", "qwen_image_vae", "BF16");
    let other = case("transformer diffusers", "vae diffusers", "BF16");
    for part in PartName::ALL {
        let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
        assert_eq!(of(&other), of(&one), "{part:?}");
    }
    // Norms and the vectors of modulations stay in f32.
    let (dim, text) = (6144, 2560);
    let blocks = 28 * (6 * dim + 2 * dim + 2 * 128) + 4 * (2 * text + 2 * 128);
    let exact = blocks + text + dim + 2 * dim;
    assert_eq!(
        one.bytes(PartName::Transformer, 2),
        2 * (12_820_073_036 + exact)
    );
    // Without the last layer, the last norm and what looks at pictures.
    let layer = 2560 * (2 * 4096 + 2 * 1024 + 3 * 9728) + 2 * 2560 + 2 * 128;
    let read = 151_936 * 2560 + 35 * layer;
    assert_eq!(one.bytes(PartName::TextEncoder, 2), 2 * read);
}

#[test]
fn a_picture_of_a_megapixel_fits_whole_on_32_gib_and_by_streaming_on_16() {
    for (dtype, gib, streams) in [
        ("BF16", 32, false),
        ("BF16", 16, true),
        ("F8_E4M3", 16, false),
        ("F8_E4M3", 12, true),
    ] {
        let case = case("transformer", "qwen_image_vae", dtype);
        let plan = case.plan(&case.request(1024, 1024, 1), card(gib));
        assert!(plan.fits(), "{dtype} {gib}: {}", plan.verdict.text);
        let denoise = plan.of_stage(Stage::Denoise).unwrap();
        assert_eq!(denoise.is_streamed(), streams, "{dtype} {gib}");
        // Guided here, so both texts.
        let activations = denoise.activation_bytes as f64 / f64::from(1 << 30);
        assert!(
            (0.3..1.5).contains(&activations),
            "{dtype} {gib}: {activations}"
        );
    }
}

#[test]
fn more_pixels_and_more_pictures_need_more() {
    let case = case("transformer", "qwen_image_vae", "BF16");
    let bytes = |stage, width, pictures| {
        let mut request = case.request(width, 1024, 1);
        request.batch_size = pictures;
        let plan = case.plan(&request, card(48));
        plan.of_stage(stage).unwrap().activation_bytes
    };
    let one = bytes(Stage::Denoise, 1024, 1);
    for (width, pictures) in [(2048, 1), (1024, 2)] {
        assert!(one < bytes(Stage::Denoise, width, pictures));
    }
    // One after the other goes through the autoencoder.
    let [one, wide, two] =
        [(1024, 1), (2048, 1), (1024, 2)].map(|(width, n)| bytes(Stage::Decode, width, n));
    assert!(one < wide && one == two, "{one} {wide} {two}");
}
