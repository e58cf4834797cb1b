//! FramePack's plan: the same weights in every dialect, and what a section needs.

use serde_json::json;

use super::{Case, card};
use crate::families::flux::tests::files::{framepack_shapes, shapes};
use crate::families::{framepack, read_footprint};
use crate::footprint::PlannedNetwork;
use crate::job::{GenerateRequest, PreviewChoice, Stage};
use crate::model::ModelFiles;
use crate::testing::made_up::write;

fn case(dialect: &str, vae: &str) -> Case {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| root.path().join(format!("{name}.safetensors"));
    let files = ModelFiles {
        transformer: write(&file("transformer"), &framepack_shapes(dialect), "BF16"),
        vae: write(&file("vae"), &framepack_shapes(vae), "F16"),
        text_encoder: write(&file("llama"), &framepack_shapes("llama"), "F16"),
        text_encoder_2: Some(write(&file("clip"), &shapes("clip_l"), "F16")),
        image_encoder: Some(write(&file("siglip"), &framepack_shapes("siglip"), "F16")),
        ..ModelFiles::default()
    };
    Case::of(root, framepack::FAMILY, files)
}

/// As it is published.
pub(crate) fn published() -> Case {
    case("transformer diffusers", "vae diffusers")
}

fn request(case: &Case) -> GenerateRequest {
    let mut request = case.request(544, 704, 73);
    request.sections =
        serde_json::from_value(json!({"count": 2, "window": 9, "order": "original"})).ok();
    request
}

#[test]
fn the_weights_are_the_same_in_every_dialect() {
    let first = case("transformer diffusers", "vae diffusers");
    for dialect in ["transformer hunyuan", "transformer comfy"] {
        let other = case(dialect, "vae comfy");
        for part in PlannedNetwork::ALL {
            let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
            assert_eq!(of(&other), of(&first), "{dialect} {part:?}");
        }
    }
    let gib = first.bytes(PlannedNetwork::Transformer, 2) as f64 / f64::from(1 << 30);
    assert!((23.5..25.0).contains(&gib), "{gib}");
}

#[test]
fn a_section_fits_on_a_card_of_24_gib_by_streaming_and_sections_count_once() {
    let case = case("transformer diffusers", "vae diffusers");
    let plan = case.plan(&request(&case), card(24));
    let denoise = plan.of_stage(Stage::Denoise).unwrap();
    assert!(plan.fits() && denoise.is_streamed());
    let stages: Vec<Stage> = plan.stages.iter().map(|stage| stage.stage).collect();
    let decodes = stages.iter().filter(|stage| **stage == Stage::Decode);
    assert_eq!(decodes.count(), 1);
    assert!(case.plan(&request(&case), card(48)).rank() == 0);
}

#[test]
fn a_tiny_decoder_for_previews_counts_where_it_is_used() {
    let mut case = case("transformer diffusers", "vae diffusers");
    let bare = case.plan(&request(&case), card(48));
    let shapes = [("decoder.1.weight".to_owned(), vec![1024, 1024, 16, 1])];
    let file = case.root.path().join("taehv.safetensors");
    case.files.preview_decoder = Some(write(&file, &shapes.into(), "F16"));
    case.weights = read_footprint(case.family, &case.files, &[], &[]).unwrap();
    let of = |case: &Case, preview: PreviewChoice| {
        let mut request = request(case);
        request.options.preview = preview;
        let plan = case.plan(&request, card(48));
        let bytes = |stage: Stage| plan.of_stage(stage).unwrap().activation_bytes;
        [bytes(Stage::Denoise), bytes(Stage::Decode)]
    };
    let bytes = |stage: Stage| bare.of_stage(stage).unwrap().activation_bytes;
    let [denoise, decode] = [bytes(Stage::Denoise), bytes(Stage::Decode)];
    let weights = 2 * 16 * 1024 * 1024;
    assert_eq!(of(&case, PreviewChoice::Auto), [denoise + weights, decode]);
    assert_eq!(of(&case, PreviewChoice::Linear), [denoise, decode]);
    assert_eq!(of(&case, PreviewChoice::Off), [denoise, decode]);
}
