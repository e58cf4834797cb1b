//! The models on this disk, as far as they are known, and what is wrong with others.
//!
//! Plain data; who looks for them is [`crate::window::library`]'s.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::catalog::{CatalogEntry, ModelCatalog, UnusableModel};
use safelight_core::families::with_control_lora;
use safelight_core::job::{GenerateForm, JobError};
use safelight_core::library::{FolderWatch, SearchPath};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, Settings};

/// Searches for models; runs on a separate thread.
pub type LoadModels = Arc<dyn Fn(&Settings) -> FoundModels + Send + Sync>;

#[derive(Clone, Debug, Default)]
pub struct FoundModels {
    pub specs: Vec<ModelSpec>,
    pub problems: Vec<JobError>,
    pub unusable: Vec<UnusableModel>,
    pub missing: Vec<CatalogEntry>,
    pub searched: Vec<SearchPath>,
    pub watched: FolderWatch,
}

impl From<ModelCatalog> for FoundModels {
    fn from(catalog: ModelCatalog) -> Self {
        Self {
            problems: catalog.problems.iter().map(JobError::from).collect(),
            unusable: catalog.unusable(),
            specs: catalog.available,
            missing: catalog.missing,
            searched: catalog.searched,
            watched: catalog.watched,
        }
    }
}

pub fn load_catalog(paths: AppPaths) -> LoadModels {
    Arc::new(move |settings| ModelCatalog::load(&paths, settings).into())
}

#[derive(Debug, Default)]
pub struct ModelChoice {
    /// They are looked for, and none counts meanwhile.
    pub are_loading: bool,
    pub found: FoundModels,
    /// Counts the searches: a file may be another one under its old name.
    pub number: u64,
    /// One of them with a LoRA that lets it see a control image.
    controlled: Option<(PathBuf, ModelSpec)>,
}

impl ModelChoice {
    pub fn take(&mut self, mut found: FoundModels) {
        self.are_loading = false;
        let old = self.found.specs.drain(..);
        found
            .specs
            .extend(old.filter(|spec| spec.computer.is_some()));
        self.found = found;
        self.controlled = None;
        self.number += 1;
    }

    /// Takes the models of other computers: those of `hosts` alone, and of the connected ones what they say now.
    pub(crate) fn set_remote<'a>(
        &mut self,
        hosts: &[&str],
        connected: impl Iterator<Item = (&'a str, &'a Vec<ModelSpec>)>,
    ) {
        let new: Vec<(&str, &Vec<ModelSpec>)> = connected.collect();
        let specs = &mut self.found.specs;
        specs.retain(|spec| {
            let host = spec.computer.as_deref();
            host.is_none_or(|host| hosts.contains(&host) && new.iter().all(|(it, _)| *it != host))
        });
        for (host, models) in new {
            specs.extend(models.iter().map(|spec| spec.clone().on(host)));
        }
        self.number += 1;
    }

    /// Models of this computer that can be used.
    pub fn local(&self) -> impl Iterator<Item = &ModelSpec> {
        self.all().iter().filter(|spec| spec.computer.is_none())
    }

    /// Models that can be used.
    pub fn all(&self) -> &[ModelSpec] {
        if self.are_loading {
            &[]
        } else {
            &self.found.specs
        }
    }

    pub fn get(&self, id: &str) -> Option<&ModelSpec> {
        self.all().iter().find(|spec| spec.id == id)
    }

    /// Model with this id or name; the error is a sentence.
    pub fn find(&self, wanted: &str) -> Result<ModelSpec, String> {
        let is_it = |spec: &&ModelSpec| {
            spec.id.eq_ignore_ascii_case(wanted) || spec.name.eq_ignore_ascii_case(wanted)
        };
        let found = self.get(wanted).or_else(|| self.all().iter().find(is_it));
        found
            .cloned()
            .ok_or_else(|| format!("there is no model {wanted:?} on this machine"))
    }

    /// The form's, as its LoRAs make it.
    pub fn model_of(&self, form: &GenerateForm) -> Option<&ModelSpec> {
        let spec = self.get(form.model.as_ref()?)?;
        let has = |lora: &Path| form.acting_loras().any(|acting| acting.path == lora);
        let controlled = self.controlled.as_ref();
        let with = controlled.filter(|(lora, with)| with.id == spec.id && has(lora));
        Some(with.map_or(spec, |(_, with)| with))
    }

    /// From now on, the form's model sees a control image with this LoRA of it.
    pub(crate) fn follow_control(&mut self, form: &GenerateForm, lora: Option<&Path>) {
        let spec = form.model.as_ref().and_then(|id| self.get(id));
        let wanted = spec.zip(lora);
        let known = self.controlled.as_ref();
        let is_known = known.map(|(lora, with)| (with.id.as_str(), lora.as_path()))
            == wanted.map(|(spec, lora)| (spec.id.as_str(), lora));
        if !is_known {
            let with = wanted.and_then(|(spec, lora)| {
                // One that does not go with the model is parked.
                let with = with_control_lora(spec, lora).ok()?;
                Some((lora.to_owned(), with))
            });
            self.controlled = with;
        }
    }
}
