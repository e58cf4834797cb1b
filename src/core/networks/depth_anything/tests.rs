//! Depth Anything's config and schema against the tensors of transformers' class and the authors' (`tests/fixtures/depth`).

use std::collections::BTreeMap;
use std::fs;

use super::{DEPTH_FACTORS, DepthConfig, DepthNames};
use crate::library::tensor_kind;
use crate::networks::{Schema, TensorRole, TensorSpec};
use crate::testing::json_fixture;
use crate::testing::made_up::{Shapes, header};

/// All tensors of a file.
fn schema(config: &DepthConfig) -> Vec<TensorSpec> {
    let mut schema = Schema::default();
    let (width, inner, patch) = (config.width, config.inner, config.patch);
    let embeddings = |name: &str| format!("backbone.embeddings.{name}");
    schema.add(embeddings("cls_token"), &[1, 1, width], TensorRole::Fixed);
    schema.add(embeddings("mask_token"), &[1, width], TensorRole::Fixed);
    let positions = [1, config.edge * config.edge + 1, width];
    schema.add(
        embeddings("position_embeddings"),
        &positions,
        TensorRole::Fixed,
    );
    schema.conv(
        &embeddings("patch_embeddings.projection"),
        &[width, 3, patch, patch],
    );
    schema.blocks("backbone.encoder.layer", config.layers, |schema| {
        schema.norm("norm1", width);
        match config.names {
            DepthNames::Authors => schema.linear("attention.attention.qkv", 3 * width, width),
            DepthNames::Transformers => {
                for part in ["query", "key", "value"] {
                    schema.linear(&format!("attention.attention.{part}"), width, width);
                }
            }
        }
        schema.linear("attention.output.dense", width, width);
        schema.vector("layer_scale1.lambda1", width);
        schema.norm("norm2", width);
        schema.linear("mlp.fc1", inner, width);
        schema.linear("mlp.fc2", width, inner);
        schema.vector("layer_scale2.lambda1", width);
    });
    schema.norm("backbone.layernorm", width);
    for (number, &channels) in config.neck.iter().enumerate() {
        let stage = |name: &str| format!("neck.reassemble_stage.layers.{number}.{name}");
        schema.conv(&stage("projection"), &[channels, width, 1, 1]);
        match number {
            0 | 1 => {
                let factor = DEPTH_FACTORS[number];
                schema.conv(&stage("resize"), &[channels, channels, factor, factor]);
            }
            3 => schema.conv(&stage("resize"), &[channels, channels, 3, 3]),
            _ => {}
        }
        let conv = format!("neck.convs.{number}.weight");
        schema.add(conv, &[config.fused, channels, 3, 3], TensorRole::Fixed);
        let fusion = |name: &str| format!("neck.fusion_stage.layers.{number}.{name}");
        schema.conv(&fusion("projection"), &[config.fused, config.fused, 1, 1]);
        for layer in ["residual_layer1", "residual_layer2"] {
            for conv in ["convolution1", "convolution2"] {
                let name = fusion(&format!("{layer}.{conv}"));
                schema.conv(&name, &[config.fused, config.fused, 3, 3]);
            }
        }
    }
    schema.conv("head.conv1", &[config.fused / 2, config.fused, 3, 3]);
    schema.conv("head.conv2", &[config.head, config.fused / 2, 3, 3]);
    schema.conv("head.conv3", &[1, config.head, 1, 1]);
    schema.renamed(|name| config.names.file_key(name))
}

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
        let schema = schema(&config).into_iter();
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
