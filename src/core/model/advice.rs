//! Advice on errors of model files.

use std::borrow::Cow;
use std::io;

use super::CatalogError;
use super::ModelFamily;

/// Advice where a model is not found.
pub(crate) const SEE_MODELS: &str =
    "Run `safelight models` to see the models and the folders that were searched";

/// Advice for the user; empty if the sentence of the error contains it.
pub fn advice_for(err: &CatalogError) -> Cow<'static, str> {
    Cow::Borrowed(match err {
        CatalogError::Request { advice, .. } | CatalogError::WrongFile { advice, .. } => advice,
        CatalogError::NoSuchPath { .. } => SEE_MODELS,
        CatalogError::Missing { .. } => "The download may be incomplete: download this file again",
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
        CatalogError::Catalogue { .. } => "Correct the file; its entries are ignored until then",
        CatalogError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "You may not read it: change its permissions, or copy it into a folder of your own"
        }
        CatalogError::Io { .. } | CatalogError::Pickle { .. } | CatalogError::Expert { .. } => "",
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
