//! Helper networks of `models.toml`: files that are no part of a model, such as ControlNets and upscalers.

use std::sync::LazyLock;

use serde::Deserialize;

use super::details::PartialDefaults;
use super::entry::{BUILT_IN, CatalogEntry};
use super::source::DownloadSource;
use crate::enum_macros::labelled;
use crate::model::{ModelComponent, ModelFamily, ModelSpec};
use crate::naming;
use crate::units::size_text;

labelled! {
    /// Use of a helper network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HelperKind {
        ImagePrompts = "image encoder",
        ControlNet = "ControlNet",
        PreviewDecoder = "preview decoder",
        Upscaler = "upscaler",
        Interpolator = "RIFE network",
        DepthEstimator = "depth network",
    }
}

#[derive(Deserialize)]
struct HelperFile {
    helper: Vec<HelperNetwork>,
}

/// A published helper network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HelperNetwork {
    kind: HelperKind,
    /// Families that it is for; all where there are none.
    #[serde(default)]
    families: Vec<ModelFamily>,
    /// Channels of the latents that it reads, where that matters.
    latent_channels: Option<u64>,
    name: String,
    description: String,
    licence: String,
    files: Vec<PublishedFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFile {
    /// `owner/name` on the hub.
    repository: String,
    /// Path in the repository.
    path: String,
    /// The name that it gets, where that is not the path's.
    name: Option<String>,
    /// Below a folder for models.
    folder: String,
    /// Size in bytes, if it is known; the server says it before the download.
    bytes: Option<u64>,
}

impl PublishedFile {
    fn name(&self) -> &str {
        let last = self.path.rsplit('/').next();
        self.name.as_deref().or(last).unwrap_or_default()
    }
}

impl HelperNetwork {
    /// The first of this kind for models of a family with latents of these channels.
    pub(super) fn find(
        kind: HelperKind,
        family: Option<ModelFamily>,
        latent_channels: Option<u64>,
    ) -> Option<&'static Self> {
        static ALL: LazyLock<Vec<HelperNetwork>> = LazyLock::new(|| {
            let file: HelperFile =
                toml::from_str(BUILT_IN).expect("the built-in list is checked by tests");
            file.helper
        });
        ALL.iter().find(|it| {
            let is_for = |family| it.families.contains(&family);
            it.kind == kind
                && (it.families.is_empty() || family.is_some_and(is_for))
                && (it.latent_channels.is_none() || it.latent_channels == latent_channels)
        })
    }

    fn entry(&self) -> CatalogEntry {
        let source = |file: &PublishedFile| DownloadSource {
            component: ModelComponent::ImageEncoder,
            label: self.kind.label(),
            repository: file.repository.clone(),
            path: file.path.clone(),
            folder: file.folder.clone(),
            name: file.name().to_owned(),
            bytes: file.bytes,
            here: None,
        };
        let bytes: Option<u64> = self.files.iter().map(|file| file.bytes).sum();
        CatalogEntry {
            id: naming::slug(&self.name),
            name: self.name.clone(),
            description: self.description.clone(),
            licence: self.licence.clone(),
            family: self.families.first().copied().unwrap_or_default(),
            variant: String::new(),
            repository: self.files.first().map(|file| file.repository.clone()),
            what: self.description.clone(),
            download_bytes: bytes.unwrap_or_default(),
            sources: self.files.iter().map(source).collect(),
            transformer_numbers: 0,
            shape: None,
            defaults: PartialDefaults::default(),
        }
    }

    /// Sentence on the files to get, without a window that downloads them.
    pub(super) fn to_get(&self) -> String {
        let files = self.files.iter().map(|file| {
            let size = file
                .bytes
                .map_or_else(String::new, |bytes| format!(" ({})", size_text(bytes)));
            let (name, repository, folder) = (file.name(), &file.repository, &file.folder);
            format!("{name} from {repository}{size} into the folder {folder}")
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

/// A helper network that can be downloaded; `spec`: the model that it is for.
pub fn helper_entry(kind: HelperKind, spec: Option<&ModelSpec>) -> Option<CatalogEntry> {
    let family = spec.map(|spec| spec.family);
    let latent_channels = spec.and_then(|spec| spec.latent_channels);
    HelperNetwork::find(kind, family, latent_channels).map(HelperNetwork::entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{chroma, flux, krea2, qwen_image, wan, z_image};

    #[test]
    fn the_sentence_names_the_files_their_places_and_licence() {
        let redux = HelperNetwork::find(HelperKind::ImagePrompts, Some(flux::FAMILY), None);
        let redux = redux.unwrap();
        let text = redux.to_get();
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
        let sources = redux.entry().sources.into_iter();
        let places: Vec<_> = sources
            .map(|it| it.place_below("models".as_ref()))
            .collect();
        let expected = [
            "models/style_models/flux1-redux-dev.safetensors",
            "models/clip_vision/sigclip_vision_patch14_384.safetensors",
        ];
        assert_eq!(places, expected.map(std::path::PathBuf::from));
    }

    #[test]
    fn each_kind_of_helper_is_offered_for_the_models_that_it_reads() {
        use HelperKind::{ControlNet, ImagePrompts, Interpolator, PreviewDecoder, Upscaler};
        for (kind, family, channels, expected) in [
            (Upscaler, None, None, "RealESRGAN_x4plus.safetensors"),
            (Interpolator, None, None, "rife_v4.26.safetensors"),
            (ImagePrompts, Some(wan::FAMILY), Some(16), ""),
            (ControlNet, Some(wan::FAMILY), Some(16), ""),
            (
                ControlNet,
                Some(z_image::FAMILY),
                Some(16),
                "Z-Image-Turbo-Fun-Controlnet-Union.safetensors",
            ),
            (
                ControlNet,
                Some(qwen_image::FAMILY),
                Some(16),
                "Qwen-Image-InstantX-ControlNet-Union.safetensors",
            ),
            (
                ControlNet,
                Some(flux::FAMILY),
                Some(16),
                "FLUX.1-dev-ControlNet-Union-Pro-2.0.safetensors",
            ),
            (
                PreviewDecoder,
                Some(chroma::FAMILY),
                Some(16),
                "taef1.safetensors",
            ),
            (
                PreviewDecoder,
                Some(krea2::FAMILY),
                Some(16),
                "taew2_1.safetensors",
            ),
            (
                PreviewDecoder,
                Some(wan::FAMILY),
                Some(48),
                "taew2_2.safetensors",
            ),
            // Latents of its own, as the little world has.
            (PreviewDecoder, Some(wan::FAMILY), None, ""),
        ] {
            let found = HelperNetwork::find(kind, family, channels);
            let name = found.map_or("", |found| found.files[0].name());
            assert_eq!(name, expected, "{kind:?} of {family:?}");
        }
    }
}
