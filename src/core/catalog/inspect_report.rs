//! Report on a folder or file: its kind, its storage, and all that is missing or wrong.
//!
//! A check stops at the first error; a report continues and lists all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::families;
use crate::fitting::LoraInfo;
use crate::formats::weights::WeightSet;
use crate::library::identify::ModelTarget;
use crate::library::other_models::pipeline_name;
use crate::library::single::CheckpointParts;
use crate::library::{ComponentLibrary, identify, tensor_kind};
use crate::lora::LoraFile;
use crate::model::configs::ModelIndex;
use crate::model::{CatalogError, ModelFamily, ModelSpec, with_article};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentCard {
    pub name: String,
    /// The class that the pipeline names; empty for a single file.
    pub class: String,
    pub files: Vec<String>,
    pub bytes: u64,
    pub parameters: u64,
    /// Storage of the weights: the number of weights of each type.
    pub dtypes: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdentityCard {
    pub path: PathBuf,
    /// `diffusers folder`, `safetensors file`, `sharded safetensors files` or `GGUF file`.
    pub kind: &'static str,
    /// A noun phrase for people.
    pub what: String,
    pub family: String,
    pub variant: String,
    /// True if this version makes videos with it.
    pub is_runnable: bool,
    /// True if this version runs the file, alone or as a component of a model.
    pub is_supported: bool,
    pub components: Vec<ComponentCard>,
    pub parameters: u64,
    pub bytes: u64,
    /// Metadata of the file.
    pub notes: BTreeMap<String, String>,
    /// Problems, one sentence each.
    pub problems: Vec<String>,
    /// The model, if it is runnable.
    pub model: Option<ModelSpec>,
    /// The LoRA, if it is one.
    pub lora: Option<LoraInfo>,
}

impl IdentityCard {
    /// Reads the card of a diffusers folder or of one weight file. Fails only where there is nothing to put on a card.
    pub fn read(path: &Path) -> Result<Self, CatalogError> {
        Self::read_with(path, &ComponentLibrary::of_this_program(), ModelSpec::open)
    }

    /// Like [`Self::read`], with components also from folders that were searched before.
    pub(super) fn read_with(
        path: &Path,
        library: &ComponentLibrary,
        open: impl FnOnce(&Path) -> Result<ModelSpec, CatalogError>,
    ) -> Result<Self, CatalogError> {
        let is_file = path.is_file();
        let (path, place) = match identify::target(path)? {
            ModelTarget::Pipeline(folder) if !is_file || ModelIndex::is_named(path) => {
                return Self::of_folder(&folder);
            }
            // The transformer of a diffusers folder gets a separate report.
            ModelTarget::Pipeline(_) => (path.to_owned(), path.to_owned()),
            ModelTarget::Parts(path) => match families::transformer_at(&path, library) {
                Ok(place) => (path, place),
                // One component's own folder is as good as its file.
                Err(CatalogError::NoModel { path }) => match WeightSet::open(&path) {
                    Ok(_) => (path.clone(), path),
                    Err(CatalogError::Missing { .. }) => {
                        return Err(identify::without_index(&path));
                    }
                    Err(err) => return Err(err),
                },
                Err(err) => return Err(err),
            },
        };
        let card = Self::of_weights(&path, &place, WeightSet::open(&place)?);
        let is_transformer = card.components.iter().any(|it| it.name == "transformer");
        if ModelFamily::of_id(&card.family).is_some() && is_transformer {
            return Ok(card.with_model(&place, open(&path)));
        }
        Ok(card)
    }

    /// Completes the report of a transformer's file with the files around it.
    fn with_model(mut self, place: &Path, model: Result<ModelSpec, CatalogError>) -> Self {
        match model {
            Ok(spec) => {
                let files = &spec.files;
                let experts = if files.transformer_2.is_some() {
                    ", a high-noise and a low-noise expert"
                } else {
                    ""
                };
                self.what = format!(
                    "{} model{experts}: {}",
                    with_article(&spec.family.kind_text(&spec.variant)),
                    self.what
                );
                // In a diffusers folder the components belong to that folder, which has a separate report.
                if files.scheduler.is_none() {
                    let cards = spec.part_cards().into_iter();
                    self.components = cards.map(|(_, card)| card).collect();
                    self.parameters = self.components.iter().map(|card| card.parameters).sum();
                    self.bytes = spec.bytes;
                }
                self.variant.clone_from(&spec.variant);
                (self.is_runnable, self.is_supported) = (true, true);
                self.model = Some(spec);
            }
            // The card says what it is; it is not broken.
            Err(CatalogError::Unsupported { what, .. }) => {
                (self.what, self.is_supported) = (what, false);
            }
            Err(err) => {
                self.variant = families::variant_at(place).unwrap_or_default();
                self.problems.push(err.to_string());
            }
        }
        self
    }

    /// One file, or the shards of one component.
    fn of_weights(path: &Path, place: &Path, weights: WeightSet) -> Self {
        let tensors = tensor_kind::of_tensors(&weights);
        let components = own_parts(tensors.role, place, &weights);
        Self {
            path: path.to_owned(),
            kind: match weights.files.len() {
                1 if weights.is_gguf => "GGUF file",
                1 => "safetensors file",
                _ => "sharded safetensors files",
            },
            what: tensors.text,
            family: tensors.family.to_owned(),
            variant: String::new(),
            is_runnable: false,
            // Not all ControlNets are of a kind that is used here.
            is_supported: match tensors.role {
                "controlnet" => families::control_network(path).is_ok(),
                _ => tensors.is_supported,
            },
            parameters: weights.parameters(),
            bytes: weights.bytes,
            components,
            notes: weights.notes,
            problems: Vec::new(),
            model: None,
            lora: None,
        }
        .with_lora()
    }

    fn with_lora(mut self) -> Self {
        let is_lora = self.components.iter().any(|it| it.name == "lora");
        if !is_lora {
            return self;
        }
        let read = LoraFile::read(&self.path).and_then(|mut file| {
            file.read_alphas()?;
            Ok(LoraInfo::of(&file))
        });
        match read {
            Ok(card) => {
                self.is_supported = card.is_supported;
                self.what = card.text();
                self.family = card.family.to_owned();
                self.lora = Some(card);
            }
            Err(err) => {
                self.is_supported = false;
                self.problems.push(err.to_string());
            }
        }
        self
    }

    fn of_folder(folder: &Path) -> Result<Self, CatalogError> {
        let index = ModelIndex::read(folder)?;
        let mut problems = Vec::new();
        let mut components = Vec::new();
        for (name, class) in &index.components {
            match read_component(folder, name, class) {
                Ok(card) => components.extend(card),
                Err(err) => problems.push(err.to_string()),
            }
        }
        let family = families::family_of_pipeline(&index.class);
        let mut is_supported = family.is_some();
        let (model, what) = match ModelSpec::open(folder) {
            Ok(spec) => {
                let kind = spec.family.kind_text(&spec.variant);
                let what = format!("{} model", with_article(&kind));
                (Some(spec), what)
            }
            Err(CatalogError::Unsupported { what, .. }) => {
                is_supported = false;
                (None, what)
            }
            Err(err) => {
                // A component often names the problem already.
                let text = err.to_string();
                if !problems.contains(&text) {
                    problems.push(text);
                }
                let what = match family {
                    Some(family) => {
                        format!("{} model that is not whole", with_article(family.label))
                    }
                    None => pipeline_name(&index.class),
                };
                (None, what)
            }
        };
        Ok(Self {
            path: folder.to_owned(),
            kind: "diffusers folder",
            what,
            family: family.map_or_else(String::new, |family| family.label.to_lowercase()),
            variant: model
                .as_ref()
                .map_or_else(String::new, |spec| spec.variant.clone()),
            is_runnable: model.is_some(),
            is_supported,
            parameters: components.iter().map(|card| card.parameters).sum(),
            bytes: components.iter().map(|card| card.bytes).sum(),
            components,
            notes: BTreeMap::new(),
            problems,
            model,
            lora: None,
        })
    }
}

impl ModelSpec {
    /// Place and storage of each of its parts. Reads headers.
    /// A part of a file with several counts its own tensors only.
    pub fn part_cards(&self) -> Vec<(PathBuf, ComponentCard)> {
        let files = &self.files;
        let parts = [
            ("transformer", Some(&files.transformer)),
            ("transformer_2", files.transformer_2.as_ref()),
            ("vae", Some(&files.vae)),
            ("text_encoder", Some(&files.text_encoder)),
            ("text_encoder_2", files.text_encoder_2.as_ref()),
            ("image_encoder", files.image_encoder.as_ref()),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(name, place)| Some((name, place?)));
        let mut places = vec![&files.transformer, &files.vae, &files.text_encoder];
        let more = files.more.iter().filter(|(_, place)| {
            let is_new = !places.contains(place);
            places.push(place);
            is_new
        });
        let more: Vec<_> = more.map(|(part, place)| (part.label(), place)).collect();
        let parts = parts.chain(more);
        let cards = parts.clone().filter_map(|(name, place)| {
            // All of them were opened just before.
            let mut weights = WeightSet::open(place).ok()?;
            if parts.clone().filter(|(_, other)| *other == place).count() > 1 {
                weights = only_part(weights, name);
            }
            Some((place.clone(), component_card(name, "", place, &weights)))
        });
        cards.collect()
    }
}

fn only_part(mut weights: WeightSet, part: &str) -> WeightSet {
    let parts = CheckpointParts::from_weights(&weights);
    weights
        .tensors
        .retain(|key, _| parts.of_key(key) == Some(part));
    weights
        .faults
        .retain(|key, _| parts.of_key(key) == Some(part));
    weights.bytes = weights.tensors.values().map(|entry| entry.bytes).sum();
    weights
}

/// The parts that a file holds: one of its whole kind, or those of a checkpoint.
fn own_parts(role: &str, place: &Path, weights: &WeightSet) -> Vec<ComponentCard> {
    let parts = CheckpointParts::from_weights(weights);
    let keys = weights.tensors.keys();
    let held: BTreeSet<&str> = keys.filter_map(|key| parts.of_key(key)).collect();
    if held.len() < 2 {
        return vec![component_card(role, "", place, weights)];
    }
    let card = |part: &&str| {
        let own = only_part(weights.clone(), part);
        component_card(part, "", place, &own)
    };
    held.iter().map(card).collect()
}

/// The card of a component with weights; `None` for those that have none (schedulers, tokenizers).
fn read_component(
    folder: &Path,
    name: &str,
    class: &str,
) -> Result<Option<ComponentCard>, CatalogError> {
    let path = folder.join(name);
    if !path.is_dir() {
        return Err(CatalogError::missing(format!("the folder {name}"), path));
    }
    let has_no_weights = [
        "Scheduler",
        "Tokenizer",
        "TokenizerFast",
        "Processor",
        "FeatureExtractor",
    ]
    .iter()
    .any(|end| class.ends_with(end));
    if has_no_weights {
        return Ok(None);
    }
    let weights = WeightSet::open(&path)?;
    Ok(Some(component_card(name, class, &path, &weights)))
}

fn component_card(name: &str, class: &str, path: &Path, weights: &WeightSet) -> ComponentCard {
    let file_name = |file: &PathBuf| {
        let name = file.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    ComponentCard {
        name: name.to_owned(),
        class: class.to_owned(),
        files: weights.files.iter().map(file_name).collect(),
        bytes: weights.bytes,
        parameters: weights.parameters(),
        dtypes: weights.dtypes(),
    }
}
