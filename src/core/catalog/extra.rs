//! Entries of `models.toml` for files that are no part of a model: Redux adapters for image prompts.

use std::sync::LazyLock;

use serde::Deserialize;

use super::entry::BUILT_IN;
use crate::model::ModelFamily;
use crate::units::size_text;

#[derive(Deserialize)]
struct ExtraCatalogFile {
    image_prompts: Vec<DownloadableRedux>,
}

/// Networks that read images as prompts for the models of a family.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DownloadableRedux {
    family: ModelFamily,
    name: String,
    licence: String,
    files: Vec<ExtraFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtraFile {
    /// `owner/name` on the hub.
    repository: String,
    name: String,
    /// Below a folder for models.
    folder: String,
    /// About how many.
    bytes: u64,
}

impl DownloadableRedux {
    /// Networks for a family's models.
    pub(super) fn for_family(family: ModelFamily) -> Option<&'static Self> {
        static ALL: LazyLock<Vec<DownloadableRedux>> = LazyLock::new(|| {
            let file: ExtraCatalogFile =
                toml::from_str(BUILT_IN).expect("the built-in list is checked by tests");
            file.image_prompts
        });
        ALL.iter().find(|it| it.family == family)
    }

    /// File to download if it is not on this disk.
    pub(super) fn to_get(&self) -> String {
        let files = self.files.iter().map(|file| {
            format!(
                "{} from {} ({}) into the folder {}",
                file.name,
                file.repository,
                size_text(file.bytes),
                file.folder
            )
        });
        let files: Vec<String> = files.collect();
        format!(
            "Images as prompts need {} ({}): put {}",
            self.name,
            self.licence,
            files.join(" and ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{flux, wan};

    #[test]
    fn the_sentence_names_the_files_their_sizes_places_and_licence() {
        let text = DownloadableRedux::for_family(flux::FAMILY)
            .unwrap()
            .to_get();
        for part in [
            "flux1-redux-dev.safetensors",
            "black-forest-labs/FLUX.1-Redux-dev",
            "style_models",
            "sigclip_vision_patch14_384.safetensors",
            "clip_vision",
            "Non-Commercial",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(DownloadableRedux::for_family(wan::FAMILY).is_none());
    }
}
