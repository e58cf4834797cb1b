//! Upscalers by the headers of the fixtures in `tests/fixtures/finish`, and headers that are none.

use std::collections::BTreeMap;

use super::*;
use crate::testing::json_fixture;
use crate::testing::made_up::{Shapes, header};
use crate::testing::published::{behind, edited};

fn shapes() -> BTreeMap<String, Shapes> {
    json_fixture("finish/upscalers.json")
}

#[test]
fn a_network_is_known_by_its_tensors_under_any_prefix() {
    let shapes = shapes();
    let found = |name: &str| UpscalerConfig::of_header(&header(&shapes[name])).unwrap();
    for (name, kind, scale, unit) in [
        ("old", "ESRGAN", 4, 1),
        ("old_once", "ESRGAN", 2, 1),
        ("plus", "ESRGAN", 4, 1),
        ("trunk", "ESRGAN", 4, 1),
        ("body", "Real-ESRGAN", 4, 1),
        ("body_x2", "Real-ESRGAN", 2, 2),
        ("body_x1", "Real-ESRGAN", 1, 4),
        ("compact", "compact", 4, 1),
        ("compact_x1", "compact", 1, 1),
        ("span", "SPAN", 2, 1),
        ("span_plain", "SPAN", 4, 1),
    ] {
        let config = found(name);
        let numbers = (config.kind(), config.scale(), config.unit());
        assert_eq!(numbers, (kind, scale, unit), "{name}");
        let prefixed = header(&behind("params_ema.", &shapes[name]));
        let prefixed = UpscalerConfig::of_header(&prefixed).unwrap();
        assert_eq!(prefixed.prefix, "params_ema.");
        assert_eq!(prefixed.layers, config.layers, "{name}");
    }
    let UpscalerLayers::Rrdb(plus) = found("plus").layers else {
        panic!("it is ESRGAN's");
    };
    assert!(plus.has_shortcuts);
    assert_eq!((plus.num_blocks, plus.num_doublings), (2, 2));
}

#[test]
fn non_rgb_or_malformed_upscalers_are_refused_with_a_reason() {
    let all = shapes();
    for (name, key, shape, expected) in [
        (
            "old",
            "model.0.weight",
            &[8, 1, 3, 3][..],
            "found 1 channels before and 3 behind",
        ),
        (
            "span",
            "upsampler.0.weight",
            &[7, 8, 3, 3],
            "found 3 channels before and 7 behind",
        ),
        ("compact", "body.0.weight", &[u64::MAX, 3, 3, 3], "width"),
        ("body", "conv_first.weight", &[8], "conv_first.weight"),
    ] {
        let shapes = edited(all[name].clone(), key, shape);
        let found = UpscalerConfig::of_header(&header(&shapes)).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
    let none = UpscalerConfig::of_header(&header(&Shapes::new())).unwrap_err();
    let is_told = none.starts_with("expected a network for upscaling");
    assert!(is_told, "{none}");
    // A file may list any number of layers that lead nowhere.
    let mut shapes = all["body"].clone();
    for number in 3..40 {
        shapes.insert(format!("conv_up{number}.weight"), vec![8, 8, 3, 3]);
    }
    let deep = UpscalerConfig::of_header(&header(&shapes)).unwrap_err();
    assert!(deep.contains("at most 3 doublings"), "{deep}");
}
