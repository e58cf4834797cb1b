//! FLUX.2's plan: the same weights in every dialect, and what a picture needs on cards of usual sizes.

use super::{Case, card};
use crate::families::flux2;
use crate::families::flux2::tests::own;
use crate::job::Stage;
use crate::memory::PartName;
use crate::model::ModelFiles;
use crate::testing::made_up::write;

fn case(size: &str, dialect: &str, dtype: &'static str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let text = if size == "4b" {
        "qwen_3_4b"
    } else {
        "qwen_3_8b"
    };
    let transformer = own(&format!("transformer {size}{dialect}"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), &transformer, dtype),
        vae: write(&file("vae"), &own("vae"), "F32"),
        text_encoder: write(&file("qwen"), &own(text), "BF16"),
        ..ModelFiles::default()
    };
    Case::of(root, flux2::FAMILY, files)
}

#[test]
fn the_weights_are_the_same_in_every_dialect_and_those_that_are_read() {
    let [one, other] = ["", " diffusers"].map(|dialect| case("4b", dialect, "BF16"));
    for part in PartName::ALL {
        let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
        assert_eq!(of(&other), of(&one), "{part:?}");
    }
    // The embedders of timesteps stay in f32.
    let exact = 3072 * 256 + 3072 * 3072;
    assert_eq!(
        one.bytes(PartName::Transformer, 2),
        2 * (3_875_544_576 + exact)
    );
    // Without the last nine layers.
    let layer = 2560 * (2 * 4096 + 2 * 1024 + 3 * 9728) + 2 * 2560 + 2 * 128;
    let read = 151_936 * 2560 + 27 * layer;
    assert_eq!(one.bytes(PartName::TextEncoder, 2), 2 * read);
}

#[test]
fn a_picture_of_a_megapixel_fits_whole_where_the_weights_do_and_else_by_streaming() {
    for (size, dtype, gib, streams) in [
        ("4b", "BF16", 12, false),
        ("9b", "BF16", 24, false),
        ("9b", "BF16", 12, true),
        ("9b", "F8_E4M3", 12, false),
    ] {
        let case = case(size, "", dtype);
        let plan = case.plan(&case.request(1024, 1024, 1), card(gib));
        assert!(plan.fits(), "{size} {dtype} {gib}: {}", plan.verdict.text);
        let denoise = plan.of_stage(Stage::Denoise).unwrap();
        assert_eq!(denoise.is_streamed(), streams, "{size} {dtype} {gib}");
        let activations = denoise.activation_bytes as f64 / f64::from(1 << 30);
        assert!(
            (0.2..1.0).contains(&activations),
            "{size} {gib}: {activations}"
        );
    }
}

#[test]
fn more_pixels_more_pictures_and_one_that_is_seen_need_more() {
    let case = case("4b", "", "BF16");
    let activations = |width, pictures, image: Option<&str>, references: &[&str]| {
        let mut request = case.request(width, 1024, 1);
        request.batch_size = pictures;
        request.image = image.map(Into::into);
        request.references = references.iter().map(Into::into).collect();
        let plan = case.plan(&request, card(48));
        plan.of_stage(Stage::Denoise).unwrap().activation_bytes
    };
    let one = activations(1024, 1, None, &[]);
    for more in [
        activations(2048, 1, None, &[]),
        activations(1024, 2, None, &[]),
        activations(1024, 1, Some("a.png"), &[]),
        activations(1024, 1, None, &["a.png"]),
    ] {
        assert!(one < more, "{one} {more}");
    }
}
