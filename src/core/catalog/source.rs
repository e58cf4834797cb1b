//! Download sources of a known model's files, and local files that replace a download: an equal file may be installed
//! already, from another model or another program.
//!
//! Names files and reads headers. Downloads nothing and contacts no server.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::entry::ModelEntry;
use crate::families::def_of;
use crate::formats::weights::WeightSet;
use crate::library::names::{possible_side, side_beside};
use crate::library::single::file_stem;
use crate::library::{ComponentCandidate, WeightFileRole, storage, tokenizer};
use crate::model::facts::TransformerShape;
use crate::model::{ModelComponent, ModelFamily};

/// Extensions of files to download: only formats that run no code when opened.
const ENDS: [&str; 3] = [".safetensors", ".sft", ".gguf"];

/// Position of an error in a text, and the error.
pub(super) type TextFault = (usize, String);

/// One file of a known model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DownloadSource {
    pub component: ModelComponent,
    /// Name of its kind in lists.
    pub label: &'static str,
    /// `owner/name` on the hub.
    pub repository: String,
    /// Path of the file in the repository.
    pub path: String,
    /// The folder that it goes into, below a folder for models: `vae`.
    pub folder: String,
    /// The name that it gets there.
    pub name: String,
    /// Size in bytes, if it is known.
    pub bytes: Option<u64>,
    /// The file on this disk that makes fetching this one needless.
    pub here: Option<PathBuf>,
}

impl DownloadSource {
    /// About how many bytes of the file one number has: what is stored in 8 bits or in GGUF's blocks stays so in memory.
    pub(super) fn number_bytes(&self) -> u64 {
        let ending = Path::new(&self.path).extension();
        let is_in_blocks = ending.is_some_and(|ending| ending == "gguf");
        if is_in_blocks || self.name.contains("fp8") {
            1
        } else {
            2
        }
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.number_bytes() == 1
    }

    /// Path of the file below a folder for models.
    pub fn place_below(&self, models: &Path) -> PathBuf {
        models.join(&self.folder).join(&self.name)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSource {
    component: ModelComponent,
    repository: Spanned<String>,
    path: Spanned<String>,
    folder: Spanned<String>,
    name: Option<Spanned<String>>,
    bytes: Option<u64>,
}

impl RawSource {
    /// The source, or where in the text it is wrong and why.
    pub(super) fn checked(self) -> Result<DownloadSource, TextFault> {
        let error = |at: &Spanned<String>, expected: &str| {
            let found = at.get_ref();
            Err((
                at.span().start,
                format!("expected {expected}, found '{found}'"),
            ))
        };
        let is_repository = |text: &str| {
            let mut parts = text.split('/');
            let is_name = |part: Option<&str>| {
                part.is_some_and(|part| {
                    is_plain(part)
                        && part
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
                })
            };
            is_name(parts.next()) && is_name(parts.next()) && parts.next().is_none()
        };
        if !is_repository(self.repository.get_ref()) {
            return error(
                &self.repository,
                "a repository as owner/name on huggingface.co",
            );
        }
        let named = self.name.as_ref().unwrap_or(&self.path);
        if !self.path.get_ref().split('/').all(is_plain) {
            return error(&self.path, "the file's path in its repository");
        }
        let ends = |text: &str| ENDS.iter().any(|end| text.to_lowercase().ends_with(end));
        if !ends(self.path.get_ref()) || !ends(named.get_ref()) {
            return error(named, "a .safetensors, .sft or .gguf file");
        }
        if !self.folder.get_ref().split('/').all(is_plain) {
            return error(&self.folder, "a folder below the models folder");
        }
        let name = match &self.name {
            Some(name) if name.get_ref().contains('/') || !is_plain(name.get_ref()) => {
                return error(name, "a file's name");
            }
            Some(name) => name.get_ref().clone(),
            None => {
                let path = self.path.get_ref();
                path.rsplit('/').next().unwrap_or(path).to_owned()
            }
        };
        Ok(DownloadSource {
            component: self.component,
            label: self.component.label(),
            repository: self.repository.into_inner(),
            path: self.path.into_inner(),
            folder: self.folder.into_inner(),
            name,
            bytes: self.bytes,
            here: None,
        })
    }
}

/// Returns true if one part of a path names something below, and nothing else.
fn is_plain(part: &str) -> bool {
    !matches!(part, "" | "." | "..")
        && !part.contains(['\\', '\0'])
        && !part.contains(char::is_control)
}

/// The sources of one entry: those that a table names, by its name, and the entry's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntrySources(pub Vec<(Option<String>, DownloadSource)>);

impl EntrySources {
    /// Those that an entry names of the tables, of which the first with a name wins, and its own. `open`: where it is.
    pub(super) fn gather(
        names: &[Spanned<String>],
        own: Vec<RawSource>,
        tables: &[Option<&BTreeMap<String, DownloadSource>>],
        at: usize,
    ) -> Result<Self, TextFault> {
        let mut sources = Self::default();
        for name in names {
            let text = name.get_ref();
            let Some(source) = tables.iter().flatten().find_map(|table| table.get(text)) else {
                let reason = format!("expected a table [source.{text}], found none");
                return Err((name.span().start, reason));
            };
            sources.0.push((Some(text.clone()), source.clone()));
        }
        for source in own {
            sources.0.push((None, source.checked()?));
        }
        match sources.twice() {
            None => Ok(sources),
            Some(twice) => {
                let place = format!("{}/{}", twice.folder, twice.name);
                let reason =
                    format!("expected a place of its own for each file, found {place} twice");
                Err((at, reason))
            }
        }
    }

    /// Takes over what a user's tables say of the same names.
    pub(super) fn renew(&mut self, tables: &BTreeMap<String, DownloadSource>) {
        for (name, source) in &mut self.0 {
            if let Some(new) = name.as_ref().and_then(|name| tables.get(name)) {
                *source = new.clone();
            }
        }
    }

    /// The first two that would go to the same place.
    fn twice(&self) -> Option<&DownloadSource> {
        let places =
            |source: &DownloadSource| (source.folder.to_lowercase(), source.name.to_lowercase());
        self.0.iter().enumerate().find_map(|(index, (_, source))| {
            let mut before = self.0[..index].iter();
            before
                .any(|(_, other)| places(other) == places(source))
                .then_some(source)
        })
    }
}

/// Looks for files that make fetching needless; remembers what it looked at.
pub(super) struct LocalFileCheck<'a> {
    parts: &'a [ComponentCandidate],
    /// There is a tokenizer of UMT5 apart from its text encoder.
    has_tokenizer: bool,
    seen: HashMap<(ModelFamily, ModelComponent, TransformerShape), Option<PathBuf>>,
}

impl<'a> LocalFileCheck<'a> {
    pub(super) fn new(parts: &'a [ComponentCandidate], has_tokenizer: bool) -> Self {
        Self {
            parts,
            has_tokenizer,
            seen: HashMap::new(),
        }
    }

    pub(super) fn sources(&mut self, entry: &ModelEntry) -> Vec<DownloadSource> {
        let mut sources: Vec<DownloadSource> =
            entry.sources.0.iter().map(|it| it.1.clone()).collect();
        for source in &mut sources {
            source.here = self
                .of_name(entry, source)
                .or_else(|| self.like(entry, source.component));
        }
        self.find_transformers(entry, &mut sources);
        sources
    }

    /// The very file, whole, wherever it is: of its name, and with what belongs in it.
    fn of_name(&self, entry: &ModelEntry, source: &DownloadSource) -> Option<PathBuf> {
        let is_it = |item: &&ComponentCandidate| {
            let name = item.place.file_name().unwrap_or_default();
            name.eq_ignore_ascii_case(&source.name)
                && is_role_of(item.role, source.component)
                && source.bytes.is_none_or(|bytes| {
                    fs::metadata(&item.place).is_ok_and(|stat| stat.len() == bytes)
                })
                && is_whole(&item.place)
                && is_published(entry, source.component, &item.place)
        };
        self.parts.iter().find(is_it).map(|it| it.place.clone())
    }

    /// Another file that is this part of the published models.
    fn like(&mut self, entry: &ModelEntry, component: ModelComponent) -> Option<PathBuf> {
        let (family, shape) = (entry.family?, entry.shape?);
        if component == ModelComponent::Transformer {
            return None;
        }
        let key = (family, component, shape);
        if let Some(found) = self.seen.get(&key) {
            return found.clone();
        }
        let needs_tokenizer = component == ModelComponent::TextEncoder
            && !def_of(family).ships_tokenizers()
            && !self.has_tokenizer;
        let fits = |place: &Path| {
            let is_part = def_of(family).is_published_part(component, shape, place);
            is_part && (!needs_tokenizer || tokenizer::is_place(place))
        };
        let mut items = self.parts.iter();
        let found = items.find(|item| is_role_of(item.role, component) && fits(&item.place));
        let found = found.map(|item| item.place.clone());
        self.seen.insert(key, found.clone());
        found
    }

    /// The model's transformers in another storage; two experts only together.
    fn find_transformers(&self, entry: &ModelEntry, sources: &mut [DownloadSource]) {
        let mut wanted: Vec<&mut DownloadSource> = sources
            .iter_mut()
            .filter(|source| source.component == ModelComponent::Transformer)
            .collect();
        if wanted.is_empty() || wanted.iter().all(|source| source.here.is_some()) {
            return;
        }
        let candidates: Vec<&PathBuf> = self
            .parts
            .iter()
            .filter(|item| {
                is_role_of(item.role, ModelComponent::Transformer)
                    && entry.has_file_name(&file_stem(&item.place))
                    && is_whole(&item.place)
                    && is_published(entry, ModelComponent::Transformer, &item.place)
            })
            .map(|item| &item.place)
            .collect();
        if let [source] = &mut wanted[..] {
            source.here = candidates.first().map(|place| (*place).clone());
            return;
        }
        let pair = candidates.iter().find_map(|one| {
            let stem = file_stem(one);
            let mut others = candidates.iter();
            let other = others.find(|other| side_beside(&stem, &file_stem(other)).is_some())?;
            Some([*one, *other])
        });
        for source in wanted {
            let side = possible_side(&source.name);
            let of_side = pair
                .iter()
                .flatten()
                .find(|place| possible_side(&file_stem(place)) == side);
            if let Some(place) = of_side {
                source.here = Some((*place).clone());
            }
        }
    }
}

fn is_role_of(role: WeightFileRole, component: ModelComponent) -> bool {
    match role {
        WeightFileRole::Transformer(_) => component == ModelComponent::Transformer,
        WeightFileRole::Part(part) => part.can_be(component),
        WeightFileRole::Foreign => false,
    }
}

/// Returns true if a file is what a known model needs, by what is in it; another model's may have the same name. Of a model
/// of unknown shape, the name is all that there is.
fn is_published(entry: &ModelEntry, component: ModelComponent, place: &Path) -> bool {
    /// Shapes tell about how many numbers there are, and checkpoints may hold other parts next to them.
    const LEAST_SHARE: f64 = 0.8;
    let (Some(family), Some(shape)) = (entry.family, entry.shape) else {
        return true;
    };
    if component == ModelComponent::Transformer {
        let found = WeightSet::open(place).map_or(0, |weights| weights.parameters());
        return found as f64 >= LEAST_SHARE * shape.numbers(family) as f64;
    }
    def_of(family).is_published_part(component, shape, place)
}

fn is_whole(place: &Path) -> bool {
    WeightSet::open(place).is_ok_and(|weights| storage::unreadable(&weights).is_none())
}
