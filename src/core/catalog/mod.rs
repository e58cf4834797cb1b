//! Which models there are: what `models.toml` says, what is on disk, and what is missing.
//!
//! Reads headers and configs only; weights are the engine's.
//! A model is what its configs and headers say; the name of its folder only tells which entry of the
//! catalogue it is.

mod card;
mod component;
mod configs;
mod entry;
mod error;
mod files;
mod identify;
mod kind;
pub mod safetensors;
mod scan;
mod spec;
#[cfg(test)]
mod tests;
mod tokenizer;
mod wan;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

pub use card::{ComponentCard, IdentityCard};
pub use component::{Component, component_config};
pub use entry::CatalogEntry;
pub(crate) use error::line_and_column;
pub use error::{CatalogError, size_text};
pub use files::ModelFiles;
pub use kind::TensorKind;
pub use spec::{Defaults, Family, InputUse, LatentRgb, Limits, ModelSpec, Preset};
pub use wan::keys::{TextEncoderKeys, TransformerKeys};
pub use weights::{TensorEntry, WeightSet};

#[cfg(test)]
pub(crate) use spec::test_spec;

use crate::job::{GenerateForm, Sampler, StartPicture};
use crate::settings::{Paths, Settings};
use entry::{Details, Entry};
use scan::{Candidate, Found};
use wan::WanFacts;

/// The id of the model that ships with the app.
pub const EMBEDDED_MODEL: &str = "little-world";

/// All models of one user on one machine.
#[derive(Debug, Default)]
pub struct Catalog {
    /// On the disk, whole, and of a family that this version runs.
    pub available: Vec<ModelSpec>,
    /// Known, but not on the disk.
    pub missing: Vec<CatalogEntry>,
    /// Where models were looked for, whether or not the place exists.
    pub searched: Vec<PathBuf>,
    /// Broken model folders, and what is wrong with the user's own `models.toml`.
    pub problems: Vec<CatalogError>,
    /// Models of families and variants that this version cannot run.
    pub unsupported: Vec<CatalogError>,
    entries: Vec<Entry>,
    /// Ids of known models whose folders are there and not whole.
    broken: Vec<(String, PathBuf)>,
}

impl Catalog {
    /// Finds out what there is. Takes milliseconds for each model, more on a sleeping disk: call it
    /// from no thread that draws.
    pub fn load(paths: &Paths, settings: &Settings) -> Self {
        let (entries, problem) = entry::with_users(&paths.models_file());
        let mut catalog = Self {
            searched: scan::places(paths, settings),
            problems: problem.into_iter().collect(),
            entries,
            ..Self::default()
        };
        let mut found = Found::default();
        for path in catalog
            .entries
            .iter()
            .filter_map(|entry| entry.path.as_ref())
        {
            scan::search(path, &mut found);
        }
        for place in &catalog.searched {
            scan::search(place, &mut found);
        }
        for folder in &settings.models.folders {
            if !folder.is_dir() {
                catalog.problems.push(CatalogError::Missing {
                    what: "a folder named in the setting models.folders".to_owned(),
                    path: folder.clone(),
                });
            }
        }
        for place in found.cut_short {
            catalog.problems.push(CatalogError::Config {
                reason: "too many folders here, so only part of them was searched".to_owned(),
                path: place,
            });
        }
        for candidate in &found.candidates {
            catalog.take(candidate);
        }
        let is_here = |entry: &&Entry| catalog.available.iter().any(|spec| spec.id == entry.id);
        catalog.missing = catalog
            .entries
            .iter()
            .filter(|entry| !is_here(entry))
            .map(Entry::listed)
            .collect();
        catalog
    }

    /// The model with this id, or the one in the folder at this path.
    pub fn find(&self, id_or_path: &str) -> Result<ModelSpec, CatalogError> {
        if let Some(spec) = self.available.iter().find(|spec| spec.id == id_or_path) {
            return Ok(spec.clone());
        }
        let path = Path::new(id_or_path);
        // An id is one word; what has a slash in it or lies there is a path.
        if !id_or_path.is_empty() && (id_or_path.contains('/') || fs::metadata(path).is_ok()) {
            return open(path, &self.entries);
        }
        if let Some((_, folder)) = self.broken.iter().find(|(id, _)| id == id_or_path) {
            // What is wrong with it says more than that it is missing.
            return open(folder, &self.entries);
        }
        if let Some(entry) = self.missing.iter().find(|entry| entry.id == id_or_path) {
            return Err(CatalogError::NotHere {
                name: entry.name.clone(),
                what: entry.what.clone(),
                bytes: entry.download_bytes,
            });
        }
        let known: Vec<&str> = self
            .available
            .iter()
            .map(|spec| spec.id.as_str())
            .chain(self.missing.iter().map(|entry| entry.id.as_str()))
            .collect();
        Err(CatalogError::Unknown {
            name: id_or_path.to_owned(),
            known: known.join(", "),
        })
    }

    /// The embedded model where it is there, else the first that is.
    pub fn default_model(&self) -> Option<&ModelSpec> {
        self.available
            .iter()
            .find(|spec| spec.id == EMBEDDED_MODEL)
            .or_else(|| self.available.first())
    }

    fn take(&mut self, candidate: &Candidate) {
        let spec = identify::check_folder(&candidate.folder).and_then(|(files, facts)| {
            let taken = |id: &str| self.available.iter().any(|spec| spec.id == id);
            let claim =
                claiming(&self.entries, candidate, &facts).filter(|entry| !taken(&entry.id));
            build(candidate, files, &facts, claim, &self.entries)
        });
        match spec {
            Ok(spec) => self.available.push(spec),
            Err(err @ CatalogError::Unsupported { .. }) => self.unsupported.push(err),
            Err(err) => {
                self.problems.push(err);
                let named = |entry: &&Entry| entry.has_folder_name(&candidate.name);
                if let Some(entry) = self.entries.iter().find(named) {
                    self.broken
                        .push((entry.id.clone(), candidate.folder.clone()));
                }
            }
        }
    }
}

impl ModelSpec {
    /// The model in a diffusers folder, or in the folder of a `model_index.json`, checked whole.
    /// Its id is its path, so that a request for it can be repeated.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        open(path, &entry::built_in())
    }
}

fn open(path: &Path, entries: &[Entry]) -> Result<ModelSpec, CatalogError> {
    let folder = identify::folder_of(path)?;
    let (files, facts) = identify::check_folder(&folder)?;
    let name = scan::model_name(&folder);
    build(&Candidate { folder, name }, files, &facts, None, entries)
}

/// The entry that a folder is: by the place that the user gave, else by its name where its shape fits.
fn claiming<'a>(
    entries: &'a [Entry],
    candidate: &Candidate,
    facts: &WanFacts,
) -> Option<&'a Entry> {
    let same_place = |path: &PathBuf| {
        let canonical = |path: &Path| fs::canonicalize(path).ok();
        canonical(path).is_some_and(|path| Some(path) == canonical(&candidate.folder))
    };
    let by_place = |entry: &&Entry| entry.path.as_ref().is_some_and(same_place);
    let by_name = |entry: &&Entry| {
        entry.path.is_none()
            && entry.has_folder_name(&candidate.name)
            && entry.shape.is_none_or(|shape| shape == facts.shape)
    };
    entries
        .iter()
        .find(by_place)
        .or_else(|| entries.iter().find(by_name))
}

/// A spec from what configs say and, in rising order, the catalogue, the folder's own `safelight.json`
/// and the user's entry. A folder that no entry claims takes the defaults of one with its very shape.
fn build(
    candidate: &Candidate,
    files: ModelFiles,
    facts: &WanFacts,
    claim: Option<&Entry>,
    entries: &[Entry],
) -> Result<ModelSpec, CatalogError> {
    let like = entries.iter().find(|entry| entry.is_like(facts));
    let known = match (claim, like) {
        (Some(entry), _) => entry.built_in.clone(),
        (None, Some(entry)) => Details {
            name: None,
            description: None,
            licence: None,
            ..entry.built_in.clone()
        },
        (None, None) => Details::default(),
    };
    let own_file = candidate.folder.join("safelight.json");
    let own: Details = if own_file.exists() {
        configs::read_json(&own_file)?
    } else {
        Details::default()
    };
    let users = claim.map(|entry| entry.user.clone()).unwrap_or_default();
    let details = known.overlaid(own).overlaid(users);
    let limits = details.limits.within(facts.limits);
    let path_text = || candidate.folder.to_string_lossy().into_owned();
    let spec = ModelSpec {
        id: claim.map_or_else(path_text, |entry| entry.id.clone()),
        name: details.name.unwrap_or_else(|| candidate.name.clone()),
        description: details
            .description
            .unwrap_or_else(|| format!("A {} {} model", Family::Wan.label(), facts.variant.name())),
        licence: details.licence.unwrap_or_else(|| "not stated".to_owned()),
        family: Family::Wan,
        variant: facts.variant.name().to_owned(),
        folder: candidate.folder.clone(),
        bytes: facts.bytes,
        files,
        start_image: facts.variant.start_image(),
        end_image: facts.variant.end_image(facts.has_image_encoder),
        presets: Vec::new(),
        defaults: details
            .defaults
            .over(plain_defaults(&limits, facts.sampler)),
        limits,
        example_prompts: details.example_prompts.unwrap_or_default(),
        latent_rgb: details.latent_rgb,
    };
    check_spec(&spec, facts, &own_file)?;
    Ok(spec)
}

/// For a model that nobody has described: a short, small clip, so that a first try ends soon.
fn plain_defaults(limits: &Limits, sampler: Sampler) -> Defaults {
    let edge = limits
        .size_multiple
        .saturating_mul((256 / limits.size_multiple).max(1));
    Defaults {
        width: edge.min(limits.max_edge),
        height: edge.min(limits.max_edge),
        num_frames: limits.frame_stride
            * (limits.max_frames.saturating_sub(1) / limits.frame_stride).min(4)
            + 1,
        fps: 24.0,
        num_steps: 20,
        guidance_scale: 5.0,
        guidance_scale_2: None,
        shift: None,
        sampler,
        negative_prompt: String::new(),
    }
}

/// A description that asks for what the model cannot make, or previews another number of channels.
fn check_spec(spec: &ModelSpec, facts: &WanFacts, path: &Path) -> Result<(), CatalogError> {
    let wrong = |reason: String| CatalogError::Config {
        reason,
        // Wrong words about a model without a file of its own are the catalogue's.
        path: if path.exists() {
            path.to_owned()
        } else {
            spec.folder.clone()
        },
    };
    let (width, height) = (spec.defaults.width, spec.defaults.height);
    let picture = || StartPicture {
        path: PathBuf::new(),
        width,
        height,
    };
    let form = GenerateForm {
        image: (spec.start_image == InputUse::Required).then(picture),
        last_image: (spec.end_image == InputUse::Required).then(picture),
        width: Some(width),
        height: Some(height),
        out: PathBuf::from("clip.mp4"),
        ..GenerateForm::default()
    };
    // Defaults that have to be changed before they can be used are wrong too.
    let reasons: Vec<String> = match form.validate(spec) {
        Ok(checked) => checked.notices.into_iter().map(|it| it.message).collect(),
        Err(errors) => errors.into_iter().map(|err| err.message).collect(),
    };
    if !reasons.is_empty() {
        return Err(wrong(format!("wrong defaults: {}", reasons.join("; "))));
    }
    if let Some(preview) = &spec.latent_rgb
        && preview.factors.len() as u64 != facts.latent_channels
    {
        return Err(wrong(format!(
            "expected {} rows in latent_rgb.factors, one a channel, found {}",
            facts.latent_channels,
            preview.factors.len()
        )));
    }
    Ok(())
}
