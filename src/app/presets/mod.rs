//! The presets that can be chosen, and keeping the user's own.
//!
//! Their file is read and changed on the file thread; what a preset does to the form is in [`safelight_core::presets`].

use std::path::Path;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::model::ModelSpec;
use safelight_core::presets::{
    self, LoadedPresets, OwnPreset, PresetEdit, PresetValues, PresetsError, Quality,
};

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::state::Severity;

/// Which preset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PresetKey {
    /// Every model has these.
    Quality(Quality),
    /// One of the model's, by its id.
    Model(String),
    /// One of the user's, by its name.
    Own(String),
}

impl PresetKey {
    /// Tells it from others between runs of the program.
    pub fn id(&self) -> String {
        match self {
            Self::Quality(quality) => quality.label().to_lowercase(),
            Self::Model(id) => id.clone(),
            Self::Own(name) => format!("own:{name}"),
        }
    }
}

/// One wish of the user.
#[derive(Clone, Debug)]
pub enum PresetsCommand {
    Apply(PresetKey),
    /// The values that stood before the preset.
    Undo,
    /// Keep the form's values under this name.
    Save(String),
    Rename {
        from: String,
        to: String,
    },
    Delete(String),
    /// Read the file again: it may have been changed by hand.
    Reload,
}

/// What the file thread says.
pub enum PresetsAnswer {
    Loaded(LoadedPresets),
    /// Why a change was not made.
    Failed(PresetsError),
    /// A broken file was moved there.
    MovedAside(String, LoadedPresets),
}

/// The user's presets, and what is typed in their menu.
#[derive(Debug, Default)]
pub struct OwnPresets {
    pub list: Vec<OwnPreset>,
    pub new_name: String,
    /// Which one gets which name.
    pub renaming: Option<(String, String)>,
}

/// A preset as it can be chosen.
pub struct PresetChoice {
    pub key: PresetKey,
    pub name: String,
    /// What it is for; empty for the user's own.
    pub note: String,
    pub values: PresetValues,
}

impl OwnPresets {
    /// All that can be chosen for a model: those of every model, the model's, the user's.
    pub fn choices(&self, spec: &ModelSpec) -> Vec<PresetChoice> {
        let qualities = Quality::ALL.into_iter().map(|quality| PresetChoice {
            key: PresetKey::Quality(quality),
            name: quality.label().to_owned(),
            note: quality.note().to_owned(),
            values: quality.values(spec),
        });
        let models = spec.presets.iter().map(|preset| PresetChoice {
            key: PresetKey::Model(preset.id.clone()),
            name: preset.name.clone(),
            note: preset.note.clone(),
            values: PresetValues::of_model(preset, spec),
        });
        let own = self.list.iter().map(|preset| PresetChoice {
            key: PresetKey::Own(preset.name.clone()),
            name: preset.name.clone(),
            note: match &preset.model {
                Some(model) if *model != spec.id => format!("Saved with {model}"),
                _ => String::new(),
            },
            values: preset.values.clone(),
        });
        qualities.chain(models).chain(own).collect()
    }
}

impl App {
    pub(in crate::app) fn run_presets_command(&mut self, command: PresetsCommand) {
        let model = self.session.model(&self.state.form).cloned();
        match (command, model) {
            (PresetsCommand::Apply(key), Some(spec)) => {
                let mut choices = self.session.presets.choices(&spec).into_iter();
                if let Some(choice) = choices.find(|choice| choice.key == key) {
                    let source = self.session.inputs.sources().size();
                    self.state.form.apply_preset(&choice.values, &spec, source);
                }
            }
            (PresetsCommand::Undo, Some(spec)) => self.state.form.undo_preset(&spec),
            (PresetsCommand::Save(name), Some(spec)) => {
                self.edit_presets(PresetEdit::Save(OwnPreset {
                    name,
                    model: Some(spec.id.clone()),
                    values: self.state.form.values(&spec),
                }));
            }
            (PresetsCommand::Rename { from, to }, _) => {
                self.edit_presets(PresetEdit::Rename { from, to });
            }
            (PresetsCommand::Delete(name), _) => self.edit_presets(PresetEdit::Delete(name)),
            (PresetsCommand::Reload, _) => self.load_presets(),
            // Without a model there is nothing to set or to keep.
            (PresetsCommand::Apply(_) | PresetsCommand::Undo | PresetsCommand::Save(_), None) => {}
        }
    }

    pub(in crate::app) fn load_presets(&self) {
        let Some(path) = self.paths.as_ref().map(|paths| paths.presets_file()) else {
            return;
        };
        self.background.run(Task::Work(Box::new(move || {
            let loaded = presets::load(&path);
            Some(Answer::Presets(PresetsAnswer::Loaded(loaded)))
        })));
    }

    fn edit_presets(&mut self, edit: PresetEdit) {
        let Some(path) = self.paths.as_ref().map(|paths| paths.presets_file()) else {
            return;
        };
        let is_taken = self.background.run(Task::Work(Box::new(move || {
            Some(Answer::Presets(edited(&path, &edit)))
        })));
        if !is_taken {
            let summary = "the presets were not changed: files are busy";
            let err = JobError::new(JobErrorKind::Disk, summary).advise("Try again in a moment");
            self.session.notify(Severity::Warning, err);
        }
    }

    pub(in crate::app) fn take_presets_answer(&mut self, answer: PresetsAnswer) {
        match answer {
            PresetsAnswer::Loaded(loaded) => self.take_presets(loaded),
            PresetsAnswer::Failed(err) => {
                let kind = JobErrorKind::Disk;
                let card =
                    JobError::from_error(kind, &err).advise("The presets are as they were before");
                self.session.notify(Severity::Error, card);
            }
            PresetsAnswer::MovedAside(aside, loaded) => {
                self.take_presets(loaded);
                let summary = "the file with presets was broken, and a new one was begun";
                let card = JobError::new(JobErrorKind::InvalidRequest, summary)
                    .advise(format!("The old one is kept: {aside}"));
                self.session.notify(Severity::Warning, card);
            }
        }
    }

    fn take_presets(&mut self, loaded: LoadedPresets) {
        let LoadedPresets {
            presets,
            problems,
            error,
        } = loaded;
        self.session.presets.list = presets;
        let advice =
            "Correct the file, then open the menu of the presets; it stays as it is until then";
        if let Some(err) = error {
            let card = JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(advice);
            self.session.notify(Severity::Warning, card);
        }
        if !problems.is_empty() {
            let card =
                JobError::new(JobErrorKind::InvalidRequest, problems.join("; ")).advise(advice);
            self.session.notify(Severity::Warning, card);
        }
    }
}

fn edited(path: &Path, edit: &PresetEdit) -> PresetsAnswer {
    match presets::edit(path, edit) {
        Ok(None) => PresetsAnswer::Loaded(presets::load(path)),
        Ok(Some(aside)) => {
            PresetsAnswer::MovedAside(aside.display().to_string(), presets::load(path))
        }
        Err(err) => PresetsAnswer::Failed(err),
    }
}
