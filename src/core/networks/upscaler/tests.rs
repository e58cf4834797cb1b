//! Upscalers by the headers of the fixtures in `tests/fixtures/finish`, and headers that are none.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::formats::weights::{TensorEntry, TensorType};

type Shapes = BTreeMap<String, Vec<u64>>;

fn shapes() -> BTreeMap<String, Shapes> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/finish/upscalers.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn header(shapes: &Shapes) -> WeightSet {
    let tensors = shapes.iter().map(|(name, shape)| {
        let entry = TensorEntry {
            dtype: TensorType::Plain(safetensors::Dtype::F32),
            shape: shape.clone(),
            bytes: 0,
            file: 0,
        };
        (name.clone(), entry)
    });
    WeightSet {
        tensors: tensors.collect(),
        ..WeightSet::default()
    }
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
        assert_eq!(
            (config.kind(), config.scale(), config.unit()),
            (kind, scale, unit),
            "{name}"
        );
        let prefixed: Shapes = shapes[name]
            .iter()
            .map(|(key, shape)| (format!("params_ema.{key}"), shape.clone()))
            .collect();
        let behind = UpscalerConfig::of_header(&header(&prefixed)).unwrap();
        assert_eq!(
            (behind.prefix.as_str(), behind.layers),
            ("params_ema.", config.layers)
        );
    }
    let UpscalerLayers::Rrdb(plus) = found("plus").layers else {
        panic!("it is ESRGAN's");
    };
    assert!(plus.has_shortcuts);
    assert_eq!((plus.num_blocks, plus.num_doublings), (2, 2));
}

#[test]
fn what_is_no_upscaler_of_colours_is_refused_in_a_sentence() {
    let all = shapes();
    let refused = |name: &str, key: &str, shape: &[u64]| {
        let mut shapes = all[name].clone();
        shapes.insert(key.to_owned(), shape.to_vec());
        UpscalerConfig::of_header(&header(&shapes)).unwrap_err()
    };
    let grey = refused("old", "model.0.weight", &[8, 1, 3, 3]);
    assert!(
        grey.contains("found 1 channels before and 3 behind"),
        "{grey}"
    );
    let odd = refused("span", "upsampler.0.weight", &[7, 8, 3, 3]);
    assert!(
        odd.contains("found 3 channels before and 7 behind"),
        "{odd}"
    );
    let huge = refused("compact", "body.0.weight", &[u64::MAX, 3, 3, 3]);
    assert!(huge.contains("width"), "{huge}");
    let flat = refused("body", "conv_first.weight", &[8]);
    assert!(flat.contains("conv_first.weight"), "{flat}");
    let none = UpscalerConfig::of_header(&header(&Shapes::new())).unwrap_err();
    assert!(
        none.starts_with("expected a network for upscaling"),
        "{none}"
    );
    // A file may list any number of layers that lead nowhere.
    let mut shapes = all["body"].clone();
    for number in 3..40 {
        shapes.insert(format!("conv_up{number}.weight"), vec![8, 8, 3, 3]);
    }
    let deep = UpscalerConfig::of_header(&header(&shapes)).unwrap_err();
    assert!(deep.contains("at most 3 doublings"), "{deep}");
}
