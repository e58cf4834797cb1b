//! Vocabulary of a network's file: its declared config, its names in files, and its schema.

pub(super) use super::config::{check_only, ensure};
pub(super) use super::declared::{DeclaredConfig, NamedShapes, network_config};
pub(super) use super::dialects::{
    BlockList, MarkGroup, NamePair, TensorDialect, TensorKeys, any_of, names, renamed, two_of,
};
pub(super) use super::header::{count, heads, not_a, prefix_before, sizes, sizes_of};
pub(super) use super::transformer::{DenoiserConfig, TransformerConfig};
pub(super) use super::{
    NetworkConfig, Schema, TensorRole, TensorSpec, check_epsilon, check_layers, check_sizes,
    class_name, model_type,
};
pub(super) use crate::formats::weights::WeightSet;
pub(super) use crate::model::facts::TransformerShape;
pub(super) use crate::model::{CatalogError, DetectionRule, detection_rules};
pub(super) use serde::{Deserialize, Serialize};
pub(super) use serde_json::Value;
