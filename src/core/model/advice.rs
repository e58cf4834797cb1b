//! Advice on errors of model files.

use std::borrow::Cow;
use std::io;

use super::CatalogError;
use super::ModelFamily;

/// Advice for the user; empty if the sentence of the error contains it.
pub fn advice_for(err: &CatalogError) -> Cow<'static, str> {
    Cow::Borrowed(match err {
        CatalogError::Unknown { .. } | CatalogError::NoSuchPath { .. } => {
            "Run `safelight models` to see the models and the folders that were searched"
        }
        CatalogError::NotHere { .. } => {
            "Download it with `safelight download` and its id, put its folder into one that `safelight models` lists, or name the folder with --model"
        }
        CatalogError::Missing { .. } => "The download may be incomplete: download this file again",
        CatalogError::Weights { .. } => {
            "The download may be incomplete: download this file again. If that changes nothing, the published file is wrong: get another one"
        }
        CatalogError::WrongFile { advice, .. } => advice,
        CatalogError::MissingTensor { path, .. } | CatalogError::WrongShape { path, .. }
            if path.is_file() && !path.with_file_name("config.json").exists() =>
        {
            "This file is a part of a model, or of another version of it: get the whole model from where it was published"
        }
        CatalogError::MissingTensor { .. } | CatalogError::WrongShape { .. } => {
            "The weights and their config.json do not belong together: download both again from the same place"
        }
        CatalogError::MissingCompanion { .. } => {
            "Put that file beside the model or into ComfyUI's folder for it, or choose the one that you have"
        }
        CatalogError::MissingCompanions { .. } => {
            "Put those files beside the model or into ComfyUI's folders for them, or choose the ones that you have"
        }
        CatalogError::WrongCompanion { .. } => {
            "Choose the right file, or none to use the one beside the model"
        }
        CatalogError::Unsupported { .. } | CatalogError::NoModel { .. } => {
            return Cow::Owned(choose_a_model());
        }
        CatalogError::Lora { .. } => "`safelight inspect` says what a LoRA is for",
        CatalogError::Catalogue { .. } => "Correct the file; its entries are ignored until then",
        CatalogError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "You may not read it: change its permissions, or copy it into a folder of your own"
        }
        CatalogError::Io { .. }
        | CatalogError::Config { .. }
        | CatalogError::Pickle { .. }
        | CatalogError::PartAlone { .. }
        | CatalogError::Expert { .. }
        | CatalogError::UnknownNetwork { .. } => "",
    })
}

fn choose_a_model() -> String {
    let models: Vec<&str> = ModelFamily::published()
        .map(|family| family.models)
        .collect();
    format!(
        "Choose a model that Safelight runs ({}): a diffusers folder, or a transformer's .safetensors or .gguf file",
        models.join(", ")
    )
}
