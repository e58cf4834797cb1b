//! Settings as the community of SDXL writes them: each is restored, or named in a sentence.

use super::*;
use crate::families::sdxl;
use crate::model::{ControlUse, ModelSpec, test_spec};

fn spec() -> ModelSpec {
    let mut spec = test_spec();
    (spec.family, spec.name) = (sdxl::FAMILY, "SDXL".to_owned());
    spec.defaults.sampling.strength = Some(0.6);
    (spec.limits.fixed_size, spec.limits.size_multiple) = (false, 16);
    spec.limits.controls = ControlUse::NETWORKS;
    spec
}

#[test]
fn clip_skip_is_named_where_it_is_not_that_of_sdxl() {
    for (layer, is_named) in [(-1, true), (-2, false), (-3, true)] {
        let found = read_with(&json!({
            "20": node("CLIPSetLastLayer", json!({"clip": ["2", 0], "stop_at_clip_layer": layer})),
            "3.clip": ["20", 0],
        }));
        let (_, notes) = found.form_for(&spec());
        let is_said = |part: &str| notes.iter().any(|note| note.contains(part));
        assert_eq!(is_said("at clip skip 2"), is_named, "{layer}: {notes:?}");
        assert!(!is_said("CLIPSetLastLayer"), "{notes:?}");
    }
}

#[test]
fn settings_of_a1111_forge_and_civitai_are_restored_or_named() {
    let cases = include_str!("../../../../tests/fixtures/sdxl/settings.json");
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(cases.len() >= 30);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let found = read_png("parameters", text);
        let (_, notes) = found.form_for(&spec());
        assert_fields(&found, &case["fields"]);
        assert_eq!(json!(notes), case["notes"], "{text}");
    }
}
