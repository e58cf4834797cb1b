//! `model_index.json` of a diffusers folder, or `modular_model_index.json`.
//!
//! `networks` reads the configs of networks and schedulers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::CatalogError;
use crate::formats::read_json;

/// Names of the index of a pipeline, and of a modular one.
const INDEX_NAMES: [&str; 2] = ["model_index.json", "modular_model_index.json"];

/// `model_index.json`: which pipeline this is, and which class each component has.
#[derive(Clone, Debug, Default)]
pub struct ModelIndex {
    pub class: String,
    pub expand_timesteps: bool,
    pub boundary_ratio: Option<f64>,
    /// Sigmas that the model was distilled to.
    pub sample_sigmas: Option<Vec<f32>>,
    /// True if the pipeline states that the model was distilled to few steps.
    pub is_distilled: Option<bool>,
    /// Component → class, for those that are not null.
    pub components: BTreeMap<String, String>,
}

impl ModelIndex {
    /// Path of a diffusers folder's index.
    pub(crate) fn path_in(folder: &Path) -> Option<PathBuf> {
        let mut paths = INDEX_NAMES.iter().map(|name| folder.join(name));
        paths.find(|path| path.is_file())
    }

    /// Returns true for the path of an index.
    pub(crate) fn is_named(path: &Path) -> bool {
        INDEX_NAMES.iter().any(|name| path.ends_with(name))
    }

    /// Returns true if the pipeline may make a scheduler itself.
    pub(crate) fn is_modular(&self) -> bool {
        self.class.contains("Modular")
    }

    pub fn read(folder: &Path) -> Result<Self, CatalogError> {
        let path = Self::path_in(folder).unwrap_or_else(|| folder.join(INDEX_NAMES[0]));
        let fields: BTreeMap<String, Value> = read_json(&path)?;
        let Some(Value::String(class)) = fields.get("_class_name") else {
            return Err(CatalogError::config(
                "expected '_class_name' with a pipeline's name, found none",
                path,
            ));
        };
        let components = fields
            .iter()
            .filter_map(|(name, value)| match value.as_array().map(Vec::as_slice) {
                Some([_, Value::String(class), ..]) => Some((name.clone(), class.clone())),
                _ => None,
            })
            .collect();
        let sample_sigmas = fields.get("sample_sigmas").and_then(Value::as_array);
        let sample_sigmas = sample_sigmas.and_then(|sigmas| {
            let sigmas = sigmas.iter().map(|sigma| Some(sigma.as_f64()? as f32));
            sigmas.collect::<Option<Vec<f32>>>()
        });
        let sample_sigmas = sample_sigmas.filter(|sigmas| !sigmas.is_empty());
        Ok(Self {
            class: class.clone(),
            expand_timesteps: fields.get("expand_timesteps") == Some(&Value::Bool(true)),
            boundary_ratio: fields.get("boundary_ratio").and_then(Value::as_f64),
            is_distilled: fields
                .get("is_distilled")
                .and_then(Value::as_bool)
                .or_else(|| sample_sigmas.is_some().then_some(true)),
            sample_sigmas,
            components,
        })
    }

    /// Folder of a component: a tokenizer may be part of a processor for text and images, a U-Net takes the place of a
    /// transformer, and Anima's second text encoder and its tokenizer have other names.
    pub(crate) fn folder_of<'a>(&self, component: &'a str) -> &'a str {
        let has = |name: &str| self.components.contains_key(name);
        if component == "tokenizer" && !has("tokenizer") && has("processor") {
            return "processor";
        }
        let others = [
            ("transformer", "unet"),
            ("text_encoder_2", "text_conditioner"),
            ("tokenizer_2", "t5_tokenizer"),
        ];
        let other = others.into_iter().find(|(name, _)| *name == component);
        let other = other.filter(|(name, other)| !has(name) && has(other));
        other.map_or(component, |(_, other)| other)
    }
}
