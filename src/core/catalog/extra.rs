//! Entries of `models.toml` for files that are no part of a model: Redux adapters for image prompts.

use std::sync::LazyLock;

use serde::Deserialize;

use super::details::PartialDefaults;
use super::entry::{BUILT_IN, CatalogEntry};
use super::source::DownloadSource;
use crate::model::{ModelComponent, ModelFamily};
use crate::naming;
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

    /// Its files as an entry that can be downloaded. Their sizes are not known to the byte.
    fn entry(&self) -> CatalogEntry {
        let source = |file: &ExtraFile| DownloadSource {
            component: ModelComponent::ImageEncoder,
            repository: file.repository.clone(),
            path: file.name.clone(),
            folder: file.folder.clone(),
            name: file.name.clone(),
            bytes: None,
            here: None,
        };
        CatalogEntry {
            id: naming::slug(&self.name),
            name: self.name.clone(),
            description: "Images as prompts, in addition to the text".to_owned(),
            licence: self.licence.clone(),
            family: self.family,
            variant: String::new(),
            repository: self.files.first().map(|file| file.repository.clone()),
            what: "networks that read images as prompts".to_owned(),
            download_bytes: self.files.iter().map(|file| file.bytes).sum(),
            sources: self.files.iter().map(source).collect(),
            transformer_numbers: 0,
            shape: None,
            defaults: PartialDefaults::default(),
        }
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

/// Networks that read images as prompts for the models of a family, as an entry that can be downloaded.
pub fn image_prompts_entry(family: ModelFamily) -> Option<CatalogEntry> {
    DownloadableRedux::for_family(family).map(DownloadableRedux::entry)
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
        assert!(image_prompts_entry(wan::FAMILY).is_none());
        let entry = image_prompts_entry(flux::FAMILY).unwrap();
        let places = entry
            .sources
            .iter()
            .map(|source| source.place_below("models".as_ref()));
        let places: Vec<_> = places.collect();
        assert_eq!(
            places,
            [
                "models/style_models/flux1-redux-dev.safetensors",
                "models/clip_vision/sigclip_vision_patch14_384.safetensors",
            ]
            .map(std::path::PathBuf::from)
        );
    }
}
