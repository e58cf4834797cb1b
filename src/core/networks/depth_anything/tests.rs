//! Depth Anything's config and schema against the tensors of transformers' class and the authors' (`tests/fixtures/depth`).

use std::collections::BTreeMap;
use std::fs;

use super::{DepthConfig, DepthNames};
use crate::library::tensor_kind;
use crate::testing::json_fixture;
use crate::testing::made_up::{Shapes, header};

#[test]
fn the_schema_names_exactly_the_tensors_of_both_dialects() {
    let files: BTreeMap<String, Shapes> = json_fixture("depth/shapes.json");
    for (dialect, names) in [
        ("transformers", DepthNames::Transformers),
        ("authors", DepthNames::Authors),
    ] {
        let weights = header(&files[dialect]);
        let config = DepthConfig::of_header(&weights).unwrap();
        assert_eq!(
            (config.names, config.taps, config.edge),
            (names, [1, 2, 3, 4], 5)
        );
        let schema = config.schema().into_iter();
        let schema: Shapes = schema.map(|it| (it.name, it.shape)).collect();
        assert_eq!(schema, files[dialect], "{dialect}");
        assert_eq!(tensor_kind::of_tensors(&weights).role, "depth_estimator");
    }
}

#[test]
fn the_config_file_names_the_layers_and_metric_depth_is_refused() {
    let files: BTreeMap<String, Shapes> = json_fixture("depth/shapes.json");
    let mut config = DepthConfig::of_header(&header(&files["transformers"])).unwrap();
    let mut take = |written: &str| config.take_written(&serde_json::from_str(written).unwrap());
    assert!(take(r#"{"depth_estimation_type": "metric"}"#).is_err());
    assert!(take(r#"{"backbone_config": {"out_indices": [1, 2, 3, 9]}}"#).is_err());
    take(r#"{"depth_estimation_type": "relative", "backbone_config": {"out_indices": [1, 1, 3, 4]}}"#)
        .unwrap();
    assert_eq!(config.taps, [1, 1, 3, 4]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder
        .path()
        .join("depth_anything_v2_metric_vits.safetensors");
    fs::write(&path, "").unwrap();
    assert!(DepthConfig::read(&path).is_err());
}
