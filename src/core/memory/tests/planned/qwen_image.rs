//! Qwen-Image: what a picture needs on cards of usual sizes.

use super::{Case, card};
use crate::families::qwen_image;
use crate::families::qwen_image::tests::own;
use crate::job::Stage;
use crate::memory::PartName;
use crate::model::ModelFiles;
use crate::testing::made_up::{vae, write};

fn case(dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), &own("transformer"), dtype),
        vae: write(&file("vae"), &vae(16), "F32"),
        text_encoder: write(&file("qwen"), &own("qwen_2.5_vl_7b"), "BF16"),
        ..ModelFiles::default()
    };
    Case::of(root, qwen_image::FAMILY, files)
}

#[test]
fn the_weights_are_those_that_are_read() {
    let case = case("BF16");
    // The embedders of timesteps stay in f32.
    let exact = 3072 * 256 + 3072 + 3072 * 3072 + 3072;
    assert_eq!(
        case.bytes(PartName::Transformer, 2),
        2 * (20_430_401_088 + exact)
    );
    // Without the head, and without what sees.
    let layer = 3584 * (2 * 3584 + 2 * 512 + 3 * 18_944) + 3584 + 2 * 512 + 2 * 3584;
    let read = 152_064 * 3584 + 28 * layer + 3584;
    assert_eq!(case.bytes(PartName::TextEncoder, 2), 2 * read);
}

#[test]
fn a_picture_of_a_megapixel_fits_whole_on_48_gib_and_by_streaming_on_16() {
    for (dtype, gib, streams) in [
        ("BF16", 48, false),
        ("BF16", 16, true),
        ("F8_E4M3", 24, false),
        ("F8_E4M3", 12, true),
    ] {
        let case = case(dtype);
        let plan = case.plan(&case.request(1024, 1024, 1), card(gib));
        assert!(plan.fits(), "{dtype} {gib}: {}", plan.verdict.text);
        let denoise = plan.of_stage(Stage::Denoise).unwrap();
        assert_eq!(denoise.is_streamed(), streams, "{dtype} {gib}");
        // Guided here, so both texts.
        let activations = denoise.activation_bytes as f64 / f64::from(1 << 30);
        assert!(
            (0.2..1.5).contains(&activations),
            "{dtype} {gib}: {activations}"
        );
    }
}

#[test]
fn more_pixels_and_more_pictures_need_more() {
    let case = case("BF16");
    let activations = |width, pictures| {
        let mut request = case.request(width, 1024, 1);
        request.batch_size = pictures;
        let plan = case.plan(&request, card(80));
        plan.of_stage(Stage::Denoise).unwrap().activation_bytes
    };
    let (one, wide, two) = (
        activations(1024, 1),
        activations(2048, 1),
        activations(1024, 2),
    );
    assert!(one < wide && one < two, "{one} {wide} {two}");
}
