//! Model around the path of one transformer: its family, and its components.
//!
//! Headers define a file's kind; the family defines its components.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::families::ModelFamily;
use crate::formats::weights::WeightSet;
use crate::library::component_search::ComponentOverrides;
use crate::library::tensor_kind::TensorKind;
use crate::library::{ComponentLibrary, WeightFileRole, place_of, tensor_kind};
use crate::model::facts::ModelFacts;
use crate::model::{CatalogError, ModelFiles};

pub(crate) struct AssembledModel {
    /// The transformer's file, or the folder that holds the model.
    pub place: PathBuf,
    pub name: String,
    pub files: ModelFiles,
    pub facts: ModelFacts,
}

pub(crate) fn assemble(
    place: &Path,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<AssembledModel, CatalogError> {
    let weights = WeightSet::open(place)?;
    let kind_of = tensor_kind::of_tensors(&weights);
    // Some storages have other names, by which the kind is known all the same.
    let is_of = |family: &ModelFamily| {
        (family.files.has_transformer)(&weights)
            || (kind_of.family, kind_of.role) == (family.id, "transformer")
    };
    match ModelFamily::all().find(is_of) {
        // Some other models have a family's tensors and more.
        Some(_) if is_other_model(&kind_of) => Err(not_a_model(&kind_of, place)),
        Some(family) => (family.files.assemble)(place, &weights, companions, library),
        None => Err(not_a_model(&kind_of, place)),
    }
}

/// The variant of the transformer at a place as far as its header alone says it, whatever is around it.
pub(crate) fn variant_at(place: &Path) -> Option<String> {
    let weights = WeightSet::open(place).ok()?;
    let family = ModelFamily::all().find(|family| (family.files.has_transformer)(&weights))?;
    let name = (family.files.variant_at)(place)?;
    Some(name.to_owned())
}

/// The parts of a checkpoint with all of them, by how ComfyUI and others name its tensors.
pub(crate) struct CheckpointParts {
    /// Names of the text encoders, sorted: of two, CLIP-L comes before T5.
    texts: BTreeSet<String>,
}

impl CheckpointParts {
    pub(crate) fn from_weights(weights: &WeightSet) -> Self {
        let texts = weights.tensors.keys().filter_map(|key| text_of(key));
        Self {
            texts: texts.map(str::to_owned).collect(),
        }
    }

    /// Part that a tensor belongs to; `None` for files that hold one part alone.
    pub(crate) fn of_key(&self, key: &str) -> Option<&'static str> {
        if let Some(text) = text_of(key) {
            let is_first = self.texts.first().is_some_and(|first| first == text);
            return Some(if is_first {
                "text_encoder"
            } else {
                "text_encoder_2"
            });
        }
        let starts = [
            ("model.diffusion_model.", "transformer"),
            ("vae.", "vae"),
            ("first_stage_model.", "vae"),
        ];
        let mut starts = starts.iter();
        let found = starts.find(|(start, _)| key.starts_with(start));
        found.map(|(_, part)| *part)
    }
}

fn text_of(key: &str) -> Option<&str> {
    let (name, _) = key.strip_prefix("text_encoders.")?.split_once('.')?;
    Some(name)
}

/// A description without what it says about storage.
pub(crate) fn before_comma(text: &str) -> &str {
    text.split_once(", ").map_or(text, |(before, _)| before)
}

/// Returns true if the tensors are those of a known model that no family runs.
fn is_other_model(kind: &TensorKind) -> bool {
    kind.role == "transformer" && ModelFamily::of_id(kind.family).is_none()
}

/// Error of a file without a transformer of a known family.
pub(crate) fn not_a_model(kind: &TensorKind, place: &Path) -> CatalogError {
    let (path, what) = (place.to_owned(), before_comma(&kind.text).to_owned());
    let finishers = [
        ("upscaler", "Use it with `safelight upscale --model`"),
        (
            "interpolator",
            "Use it with `safelight interpolate --model`",
        ),
    ];
    let finisher = finishers.iter().find(|(role, _)| *role == kind.role);
    if let Some((_, advice)) = finisher.filter(|_| kind.is_supported) {
        let reason = format!("this is {what}, which makes nothing alone");
        return CatalogError::WrongFile {
            reason,
            advice,
            path,
        };
    }
    let is_part = matches!(kind.role, "vae" | "text_encoder" | "image_encoder");
    if kind.role == "lora" || (is_part && kind.is_supported) {
        CatalogError::PartAlone { what, path }
    } else if is_part || is_other_model(kind) {
        CatalogError::unsupported(what, path)
    } else {
        CatalogError::unsupported(format!("a single file with {}", kind.text), path)
    }
}

/// A file's name without its extension, or a folder's name.
pub(crate) fn file_stem(place: &Path) -> String {
    let name = if place.is_dir() {
        place.file_name()
    } else {
        place.file_stem()
    };
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    name.trim_end_matches(".safetensors.index")
        .trim_end_matches(".safetensors")
        .to_owned()
}

/// Path of the transformer at a path that is no diffusers folder.
pub(crate) fn transformer_at(
    path: &Path,
    library: &ComponentLibrary,
) -> Result<PathBuf, CatalogError> {
    if path.is_file() {
        return Ok(place_of(path));
    }
    let experts = ["high_noise_model", "low_noise_model"].map(|name| path.join(name));
    if let Some(expert) = experts.into_iter().find(|folder| folder.is_dir()) {
        return Ok(expert);
    }
    let items = library.in_folder(path);
    let mut places: Vec<&PathBuf> = items
        .iter()
        .filter(|item| matches!(item.role, WeightFileRole::Transformer(_)))
        .map(|item| &item.place)
        .collect();
    // Two experts are one model.
    if let [one, two] = places[..]
        && ModelFamily::all().any(|family| (family.files.are_experts)(one, two))
    {
        places.pop();
    }
    match places[..] {
        [only] => Ok(only.clone()),
        [] => Err(CatalogError::NoModel {
            path: path.to_owned(),
        }),
        _ => {
            let names: Vec<String> = places.iter().map(|place| file_stem(place)).collect();
            Err(CatalogError::config(
                format!(
                    "this folder has {} model files: choose one of {}",
                    names.len(),
                    names.join(", ")
                ),
                path,
            ))
        }
    }
}
