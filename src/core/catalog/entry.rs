//! `models.toml`: what is known about models before any is on the disk, and what a user adds to it.
//!
//! Knows nothing of folders on this machine beyond their names.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::details::{ModelMetadata, PartialDefaults, PartialLimits};
use super::source::{DownloadSource, EntrySources, RawSource, TextFault};
use crate::families::def_of;
use crate::files::FileError;
use crate::formats::read_capped;
use crate::library::names::model_words;
use crate::model::facts::{ModelFacts, TransformerShape};
use crate::model::{CatalogError, LatentRgb, ModelComponent, ModelFamily, SamplingPreset};

/// Size limit: handwritten files are shorter, and parsing takes many times as much memory.
const MAX_BYTES: u64 = 512 << 10;

pub(super) const BUILT_IN: &str = include_str!("../../../models.toml");

/// A model that is known but not on this disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CatalogEntry {
    pub id: String,
    pub name: String,
    pub description: String,
    pub licence: String,
    pub family: ModelFamily,
    pub variant: String,
    /// The Hugging Face repository that holds it.
    pub repository: Option<String>,
    /// Description of the file, as part of a sentence.
    pub what: String,
    pub download_bytes: u64,
    /// The files that make a working model; none where it is known only as a folder.
    pub sources: Vec<DownloadSource>,
    /// About how many numbers its transformer has; 0 where that is not known.
    #[serde(skip)]
    pub(super) transformer_numbers: u64,
    /// Of its transformer, where that is known.
    #[serde(skip)]
    pub(super) shape: Option<TransformerShape>,
    #[serde(skip)]
    pub(super) defaults: PartialDefaults,
}

impl CatalogEntry {
    /// The files that are not here in any form.
    pub fn to_fetch(&self) -> impl Iterator<Item = &DownloadSource> {
        self.sources.iter().filter(|source| source.here.is_none())
    }

    /// About how much its largest part takes in memory, where numbers of 16 bits are computed with as they are or, if
    /// `is_in_f32`, as f32. 0 where nothing is known.
    pub fn largest_part_bytes(&self, is_in_f32: bool) -> u64 {
        let parts = self.sources.iter().map(|source| {
            let is_expanded = is_in_f32 && !source.is_narrow();
            self.about_bytes(source) * if is_expanded { 2 } else { 1 }
        });
        parts.max().unwrap_or(0)
    }

    pub fn about_bytes_to_fetch(&self) -> u64 {
        self.to_fetch().map(|source| self.about_bytes(source)).sum()
    }

    /// The size of a file: what is known of it, else what its kind says.
    fn about_bytes(&self, source: &DownloadSource) -> u64 {
        let numbers = self.numbers_by_kind(source.component);
        source
            .bytes
            .unwrap_or_else(|| numbers * source.number_bytes())
    }

    /// About how many numbers a file has.
    pub(super) fn about_numbers(&self, source: &DownloadSource) -> u64 {
        match source.bytes {
            Some(bytes) => bytes / source.number_bytes(),
            None => self.numbers_by_kind(source.component),
        }
    }

    fn numbers_by_kind(&self, component: ModelComponent) -> u64 {
        let [first, second] = def_of(self.family).text_encoder_weights();
        match component {
            ModelComponent::Transformer => self.transformer_numbers,
            ModelComponent::TextEncoder => first,
            ModelComponent::TextEncoder2 => second,
            ModelComponent::ImageEncoder => 600_000_000,
            ModelComponent::Vae => 130_000_000,
            ModelComponent::TextConnectors => 2_000_000_000,
            ModelComponent::TextProjection => 1_200_000_000,
            ModelComponent::AudioVae | ModelComponent::Vocoder => 100_000_000,
            ModelComponent::LatentUpscaler => 500_000_000,
        }
    }

    /// Sum of their bytes, if it is known of every file.
    pub fn bytes_to_fetch(&self) -> Option<u64> {
        self.to_fetch().map(|source| source.bytes).sum()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogFile {
    /// Properties that several models share, by a name.
    #[serde(default)]
    shared: BTreeMap<String, SharedFields>,
    /// Files that several models need, by a name.
    #[serde(default)]
    source: BTreeMap<String, RawSource>,
    #[serde(default)]
    model: Vec<RawEntry>,
    /// Read by `helper`.
    #[serde(default, rename = "helper")]
    _helper: IgnoredAny,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SharedFields {
    licence: Option<String>,
    defaults: PartialDefaults,
    limits: PartialLimits,
    example_prompts: Option<Vec<String>>,
    latent_rgb: Option<LatentRgb>,
    presets: Option<Vec<SamplingPreset>>,
}

impl From<SharedFields> for ModelMetadata {
    fn from(shared: SharedFields) -> Self {
        Self {
            licence: shared.licence,
            defaults: shared.defaults,
            limits: shared.limits,
            example_prompts: shared.example_prompts,
            latent_rgb: shared.latent_rgb,
            presets: shared.presets,
            ..Self::default()
        }
    }
}

/// One `[[model]]` as it is written. Misspelt keys are errors with their place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    id: toml::Spanned<String>,
    family: Option<ModelFamily>,
    variant: Option<String>,
    repository: Option<String>,
    #[serde(default)]
    folders: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    download_bytes: u64,
    shape: Option<TransformerShape>,
    name: Option<String>,
    description: Option<String>,
    licence: Option<String>,
    #[serde(default)]
    defaults: PartialDefaults,
    #[serde(default)]
    limits: PartialLimits,
    example_prompts: Option<Vec<String>>,
    latent_rgb: Option<LatentRgb>,
    presets: Option<Vec<SamplingPreset>>,
    /// Names of shared tables, which this entry's own words win over.
    #[serde(default)]
    shared: Vec<String>,
    /// Names of `[source.NAME]` tables.
    #[serde(default)]
    sources: Vec<toml::Spanned<String>>,
    /// Files that only this model needs.
    #[serde(default)]
    source: Vec<RawSource>,
}

/// One known model: what ships with the app and, apart from it, what the user says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ModelEntry {
    pub id: String,
    /// Any where a user left it out.
    pub family: Option<ModelFamily>,
    /// Any where a user left it out.
    pub variant: Option<String>,
    pub repository: Option<String>,
    /// Names that its folder has in the wild.
    pub folders: Vec<String>,
    /// Names that its transformer's single file has in the wild, whatever it is stored as.
    pub files: Vec<String>,
    /// The user's own place for it.
    pub path: Option<PathBuf>,
    pub download_bytes: u64,
    pub shape: Option<TransformerShape>,
    /// Empty in a user's entry that leaves them as they are.
    pub sources: EntrySources,
    pub built_in: ModelMetadata,
    pub user: ModelMetadata,
}

impl ModelEntry {
    fn from_raw(
        raw: RawEntry,
        shared: ModelMetadata,
        sources: EntrySources,
        is_user: bool,
    ) -> Self {
        let details = shared.overlaid(ModelMetadata {
            name: raw.name,
            description: raw.description,
            licence: raw.licence,
            defaults: raw.defaults,
            limits: raw.limits,
            example_prompts: raw.example_prompts,
            latent_rgb: raw.latent_rgb,
            presets: raw.presets,
        });
        let (built_in, user) = if is_user {
            (ModelMetadata::default(), details)
        } else {
            (details, ModelMetadata::default())
        };
        Self {
            id: raw.id.into_inner(),
            family: raw.family,
            variant: raw.variant,
            repository: raw.repository,
            folders: raw.folders,
            files: raw.files,
            path: raw.path,
            download_bytes: raw.download_bytes,
            shape: raw.shape,
            sources,
            built_in,
            user,
        }
    }

    fn take_user(&mut self, user: Self) {
        if user.repository.is_some() {
            self.repository = user.repository;
        }
        self.folders.extend(user.folders);
        self.files.extend(user.files);
        self.family = user.family.or(self.family);
        self.variant = user.variant.or_else(|| self.variant.take());
        self.path = user.path;
        if user.download_bytes > 0 {
            self.download_bytes = user.download_bytes;
        }
        self.shape = user.shape.or(self.shape);
        if !user.sources.0.is_empty() {
            self.sources = user.sources;
        }
        self.user = user.user;
    }

    /// Returns true if a folder of this name is this model. A repository counts with and without its owner.
    pub(super) fn has_folder_name(&self, name: &str) -> bool {
        let last = |text: &str| text.rsplit('/').next().unwrap_or(text).to_lowercase();
        let wanted = last(name);
        self.repository
            .iter()
            .chain(&self.folders)
            .chain([&self.id])
            .any(|known| last(known) == wanted)
    }

    /// Returns true if a transformer's file of this name, without its extension, is this model.
    pub(super) fn has_file_name(&self, name: &str) -> bool {
        let wanted = model_words(name);
        self.files
            .iter()
            .chain([&self.id])
            .any(|known| model_words(known) == wanted)
    }

    pub(super) fn may_be(&self, facts: &ModelFacts) -> bool {
        self.family.is_none_or(|family| family == facts.family)
            && self
                .variant
                .as_ref()
                .is_none_or(|name| name == facts.variant.name)
            && self.shape.is_none_or(|shape| shape == facts.shape)
    }

    /// The entry as it is listed while the model is not on the disk.
    pub(super) fn listed(&self, sources: Vec<DownloadSource>) -> CatalogEntry {
        let details = self.built_in.clone().overlaid(self.user.clone());
        let what = match (&self.repository, &self.path) {
            (_, Some(path)) => format!("its folder at {}", path.display()),
            (Some(repository), None) => {
                format!("the folder {repository} from huggingface.co")
            }
            (None, None) => "its folder, which ships with the app".to_owned(),
        };
        let mut entry = CatalogEntry {
            id: self.id.clone(),
            name: details.name.unwrap_or_else(|| self.id.clone()),
            description: details.description.unwrap_or_default(),
            licence: details.licence.unwrap_or_default(),
            family: self.family.unwrap_or_default(),
            variant: self.variant.clone().unwrap_or_default(),
            repository: self.repository.clone(),
            what,
            download_bytes: self.download_bytes,
            sources,
            shape: self.shape,
            defaults: details.defaults,
            transformer_numbers: match (self.family, self.shape) {
                (Some(family), Some(shape)) => shape.numbers(family),
                _ => 0,
            },
        };
        // A download brings these files, not the repository's folder, which has the same weights in other forms too.
        let num_files = entry.to_fetch().count();
        if self.path.is_none() && num_files > 0 {
            entry.download_bytes = entry.about_bytes_to_fetch();
            entry.what = format!("{num_files} files");
        }
        entry
    }
}

/// The entry whose models have this variant and shape; among several, that with most words of a name.
pub(super) fn most_like<'a>(
    entries: &'a [ModelEntry],
    facts: &ModelFacts,
    name: &str,
) -> Option<&'a ModelEntry> {
    let words = model_words(name);
    let is_like = |entry: &&ModelEntry| {
        entry.family == Some(facts.family)
            && entry.variant.as_deref() == Some(facts.variant.name)
            && entry.shape == Some(facts.shape)
    };
    let num_common = |entry: &ModelEntry| {
        let known = model_words(&entry.id);
        known.iter().filter(|word| words.contains(word)).count()
    };
    // The first of equals, so the order in the file decides.
    entries
        .iter()
        .filter(is_like)
        .rev()
        .max_by_key(|entry| num_common(entry))
}

/// Models that are known without reading any folder: the shipped ones with those of a user's `models.toml` over them, and
/// what is wrong with that file.
pub fn known_models(file: &Path) -> (Vec<CatalogEntry>, Option<CatalogError>) {
    let (entries, problem) = with_users(file);
    let listed = entries.iter().map(|entry| {
        let sources = entry.sources.0.iter();
        entry.listed(sources.map(|(_, source)| source.clone()).collect())
    });
    (listed.collect(), problem)
}

pub(super) fn built_in() -> Vec<ModelEntry> {
    shipped().entries
}

fn shipped() -> ParsedCatalog {
    static SHIPPED: LazyLock<ParsedCatalog> = LazyLock::new(|| {
        parse(BUILT_IN, Path::new("models.toml"), None)
            .expect("the shipped models.toml parses: a test reads it")
    });
    SHIPPED.clone()
}

/// The shipped entries with those of the user's `models.toml` over them, and what is wrong with that file: then its
/// entries are left out.
pub(super) fn with_users(file: &Path) -> (Vec<ModelEntry>, Option<CatalogError>) {
    let shipped = shipped();
    let text = read_capped(file, MAX_BYTES).and_then(|bytes| {
        String::from_utf8(bytes)
            .map_err(|err| CatalogError::io(io::Error::new(io::ErrorKind::InvalidData, err), file))
    });
    let text = match text {
        Ok(text) => text,
        Err(CatalogError::Missing { .. }) => return (shipped.entries, None),
        Err(err) => return (shipped.entries, Some(err)),
    };
    let users = parse(&text, file, Some(&shipped.sources));
    let mut entries = shipped.entries;
    match users {
        Err(err) => (entries, Some(err)),
        Ok(users) => {
            for entry in &mut entries {
                entry.sources.renew(&users.sources);
            }
            for user in users.entries {
                match entries.iter_mut().find(|entry| entry.id == user.id) {
                    Some(entry) => entry.take_user(user),
                    None => entries.push(user),
                }
            }
            (entries, None)
        }
    }
}

#[derive(Clone)]
struct ParsedCatalog {
    entries: Vec<ModelEntry>,
    sources: BTreeMap<String, DownloadSource>,
}

/// `known`: the shipped sources, where the file is a user's.
fn parse(
    text: &str,
    path: &Path,
    known: Option<&BTreeMap<String, DownloadSource>>,
) -> Result<ParsedCatalog, CatalogError> {
    parse_at(text, known).map_err(|(offset, reason)| {
        CatalogError::Catalogue(FileError::in_text(text, Some(offset), "", &reason, path))
    })
}

fn parse_at(
    text: &str,
    known: Option<&BTreeMap<String, DownloadSource>>,
) -> Result<ParsedCatalog, TextFault> {
    let file: CatalogFile = toml::from_str(text).map_err(|err| {
        let at = err.span().map_or(0, |span| span.start);
        (at, err.message().replace('\n', ", "))
    })?;
    let tables = file.source.into_iter();
    let sources: BTreeMap<String, DownloadSource> = tables
        .map(|(name, raw)| Ok((name, raw.checked()?)))
        .collect::<Result<_, TextFault>>()?;
    let mut entries: Vec<ModelEntry> = Vec::new();
    for mut raw in file.model {
        let at = raw.id.span().start;
        let id = raw.id.get_ref();
        if id.trim().is_empty() || entries.iter().any(|entry| entry.id == *id) {
            let reason =
                format!("expected an id of its own for each model, found '{id}' again or empty");
            return Err((at, reason));
        }
        let mut shared = ModelMetadata::default();
        for name in &raw.shared {
            let Some(table) = file.shared.get(name) else {
                let reason = format!("expected a table [shared.{name}] in this file, found none");
                return Err((at, reason));
            };
            shared = shared.overlaid(table.clone().into());
        }
        let own = std::mem::take(&mut raw.source);
        let of_entry = EntrySources::gather(&raw.sources, own, &[Some(&sources), known], at)?;
        entries.push(ModelEntry::from_raw(raw, shared, of_entry, known.is_some()));
    }
    Ok(ParsedCatalog { entries, sources })
}
