//! Model around the path of one transformer: its family, and its components.
//!
//! Headers define a file's kind; the family defines its components.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::formats::weights::WeightSet;
use crate::library::tensor_kind::TensorKind;
use crate::model::facts::ModelFacts;
use crate::model::{CatalogError, ModelFamily, ModelFiles};

pub(crate) struct AssembledModel {
    /// The transformer's file, or the folder that holds the model.
    pub place: PathBuf,
    pub name: String,
    pub files: ModelFiles,
    pub facts: ModelFacts,
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
pub(crate) fn is_other_model(kind: &TensorKind) -> bool {
    kind.role == "transformer" && ModelFamily::of_id(kind.family).is_none()
}

/// Error of a file without a transformer of a known family.
pub(crate) fn not_a_model(kind: &TensorKind, place: &Path) -> CatalogError {
    let what = before_comma(&kind.text);
    let finishers = [
        (
            "upscaler",
            "It upscales results: put it into the folder models/upscale_models",
        ),
        (
            "interpolator",
            "It interpolates frames: put it into the folder models/frame_interpolation",
        ),
        (
            "depth_estimator",
            "It makes depth maps: put it into the folder models/depth_estimation",
        ),
    ];
    let finisher = finishers.iter().find(|(role, _)| *role == kind.role);
    if let Some((_, advice)) = finisher.filter(|_| kind.is_supported) {
        let reason = format!("this is {what}, which makes nothing alone");
        return CatalogError::wrong_file(reason, advice, place);
    }
    let is_part = matches!(kind.role, "vae" | "text_encoder" | "image_encoder");
    if kind.role == "lora" || (is_part && kind.is_supported) {
        let reason = format!("this is {what} alone: choose the transformer that it goes with");
        CatalogError::wrong_file(reason, "", place)
    } else if is_part || is_other_model(kind) {
        CatalogError::unsupported(what, place)
    } else {
        CatalogError::unsupported(format!("a single file with {}", kind.text), place)
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
