//! IFNet's config and schema against the tensors of the Python networks (`tests/fixtures/rife`).

use std::collections::BTreeMap;

use super::IfnetConfig;
use crate::library::tensor_kind;
use crate::testing::json_fixture;
use crate::testing::made_up::{Shapes, header, renamed};

fn files() -> BTreeMap<String, Shapes> {
    json_fixture("rife/shapes.json")
}

/// As ComfyUI writes a file.
fn comfy(key: &str) -> String {
    match key.strip_prefix("block") {
        Some(rest) => format!("blocks.{rest}"),
        None => key.to_owned(),
    }
}

#[test]
fn the_schema_names_exactly_the_tensors_of_each_version_in_every_programs_names() {
    for (version, file) in files() {
        for rename in [
            |key: &str| key.to_owned(),
            |key: &str| format!("module.{key}"),
            |key: &str| format!("flownet.{key}"),
            comfy,
        ] {
            let file = renamed(&file, rename);
            let config = IfnetConfig::of_header(&header(&file)).unwrap();
            let schema = config.schema().into_iter();
            let schema: Shapes = schema.map(|it| (it.name, it.shape)).collect();
            assert_eq!(schema, file, "{version}");
        }
    }
}

#[test]
fn a_version_is_known_by_its_tensors() {
    for (version, expected, alignment) in [
        ("4.6", "4.6", 32),
        ("4.9", "4.7 to 4.9", 32),
        ("4.12.lite", "4.12 or 4.13 lite", 32),
        ("4.14.lite", "4.14 lite", 32),
        ("4.22", "4.21 to 4.23", 32),
        ("4.25", "4.25 or 4.26", 64),
        ("4.25.lite", "4.25 lite", 128),
        ("4.26.heavy", "4.26 heavy", 64),
    ] {
        let weights = header(&files()[version]);
        let config = IfnetConfig::of_header(&weights).unwrap();
        let found = (config.version(), config.alignment());
        assert_eq!(found, (Some(expected), alignment));
        let kind = tensor_kind::of_tensors(&weights);
        assert_eq!(kind.role, "interpolator");
        assert_eq!(kind.text, "RIFE, which makes frames between frames");
    }
}

#[test]
fn older_versions_and_other_files_are_refused_in_a_sentence() {
    let file = &files()["4.6"];
    let problem = |shapes: &Shapes| IfnetConfig::of_header(&header(shapes)).unwrap_err();
    let mut old = renamed(file, |key| key.replace(".0.conv.", ".0.0."));
    old.retain(|key, _| key.rsplit('.').next() != Some("beta"));
    assert!(problem(&old).contains("get 4.6 or a newer one"));
    let other = Shapes::from([("weight".to_owned(), vec![1])]);
    assert!(problem(&other).contains("expected a RIFE network"));
}

#[test]
fn a_hostile_header_is_refused() {
    for (version, file) in files() {
        for key in file.keys() {
            for shape in [vec![], vec![0; 4], vec![u64::MAX; 4], vec![1; 4]] {
                let mut hostile = file.clone();
                hostile.insert(key.clone(), shape);
                // It need not be refused here, but must not panic.
                if let Ok(config) = IfnetConfig::of_header(&header(&hostile)) {
                    assert!(config.schema().len() == file.len(), "{version} {key}");
                }
            }
        }
        let blocks = ["block3.", "block4."];
        let mut short = file.clone();
        short.retain(|key, _| !blocks.iter().any(|block| key.starts_with(block)));
        assert!(IfnetConfig::of_header(&header(&short)).is_err());
    }
}
