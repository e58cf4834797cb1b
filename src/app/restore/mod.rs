//! Filling the form with what a file says of how it was made, and offering that for files that are dropped as pictures.
//!
//! Files are read on threads of their own by [`safelight_core::restore`]; what fits a model is said there, too.

use std::path::{Path, PathBuf};

use safelight_core::job::{
    ChosenLora, GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId, SeedMode,
};
use safelight_core::lora;
use safelight_core::media::media_info;
use safelight_core::model::{InputUse, ModelSpec};
use safelight_core::restore::{self, Found, Restored, match_model};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::commands::AppCommand;
use crate::app::inputs::{Input, Slot};
use crate::app::notices::{Notice, NoticeAction};
use crate::app::state::{Models, Session, Severity};

/// Of more files that are dropped together nobody wants the settings.
const MAX_LOOKED_AT: usize = 2;
/// Sentences on a card; the others are among its details.
const MAX_SAID: usize = 4;

/// One wish of the user.
#[derive(Clone, Copy, Debug)]
pub enum RestoreCommand {
    /// Ask for a file in a dialog, and take over its settings.
    Pick,
    /// The form that stood before the settings of a file.
    Undo,
}

/// What the threads found.
pub enum RestoreAnswer {
    Picked(Option<PathBuf>),
    /// A file that was dropped as a picture or clip carries settings.
    Offer(Offer),
    /// What the file says, for the wish with this number.
    Read(u64, PathBuf, Result<Option<FoundSettings>, JobError>),
}

/// What can be had of a dropped file beside its pictures.
pub struct Offer {
    path: PathBuf,
    /// The program that made it.
    tool: String,
    is_clip: bool,
}

/// What a file says, and the LoRAs that are here for what it says of those.
pub struct FoundSettings {
    found: Found,
    lora_files: Vec<PathBuf>,
}

/// What is under way.
#[derive(Default)]
pub struct Restoring {
    /// Of the last wish: an earlier one is forgotten.
    number: u64,
    /// Read, but the models are still looked for.
    waiting: Option<(PathBuf, FoundSettings)>,
    /// The card that tells of the settings that were taken over last.
    card: Option<u64>,
    before: Option<Before>,
}

/// The form as it was, to be had back.
struct Before {
    form: GenerateForm,
    inputs: [Option<Input>; Slot::ALL.len()],
    /// The job whose settings it held.
    edit: Option<JobId>,
}

impl Restoring {
    /// Takes nothing over of what is on its way: the form has become another.
    pub(in crate::app) fn forget(&mut self) {
        self.number += 1;
        self.waiting = None;
    }
}

/// Whether a dropped file is settings and nothing else, by its name. A text among other files is rather a mistake,
/// which is told.
pub(in crate::app) fn is_settings_file(path: &Path, is_alone: bool) -> bool {
    let is = |known: &str| {
        path.extension()
            .is_some_and(|end| end.eq_ignore_ascii_case(known))
    };
    is("json") || (is_alone && is("txt"))
}

impl App {
    pub(in crate::app) fn run_restore_command(&mut self, command: RestoreCommand) {
        match command {
            RestoreCommand::Pick => {
                self.session.is_picking = true;
                self.background.pick_settings_file();
            }
            RestoreCommand::Undo => self.undo_restored(),
        }
    }

    /// Reads a file, and fills the form with what it says.
    pub(in crate::app) fn use_settings_of_file(&mut self, path: PathBuf) {
        self.session.restoring.forget();
        let number = self.session.restoring.number;
        let places = self
            .paths
            .clone()
            .map(|paths| (paths, self.settings.clone()));
        self.background.spawn("read-settings", move |postbox| {
            let found = restore::read(&path).map_err(|err| {
                JobError::from_error(JobErrorKind::InvalidRequest, &err)
                    .advise("Choose a picture, a clip or a JSON file that says how it was made")
            });
            let found = found.map(|found| {
                found.map(|found| {
                    let names_loras = matches!(&found, Found::Other(it) if !it.loras.is_empty());
                    let places = places.filter(|_| names_loras);
                    FoundSettings {
                        found,
                        lora_files: places
                            .map(|(paths, settings)| lora::find(&paths, &settings))
                            .unwrap_or_default(),
                    }
                })
            });
            postbox.post(Answer::Restore(RestoreAnswer::Read(number, path, found)));
        });
    }

    /// Looks whether files that are taken as pictures carry settings, to offer them.
    pub(in crate::app) fn look_for_settings(&self, paths: &[PathBuf]) {
        if paths.len() > MAX_LOOKED_AT {
            return;
        }
        let paths = paths.to_vec();
        self.background.spawn("look-for-settings", move |postbox| {
            for path in paths {
                // What is wrong with the file, who opens it says.
                if let Ok(Some(found)) = restore::read(&path) {
                    let is_clip = media_info(&path).is_ok_and(|info| info.num_frames > 1);
                    let offer = Offer {
                        tool: found.tool().to_owned(),
                        is_clip,
                        path,
                    };
                    postbox.post(Answer::Restore(RestoreAnswer::Offer(offer)));
                    break;
                }
            }
        });
    }

    pub(in crate::app) fn take_restore_answer(&mut self, answer: RestoreAnswer) {
        match answer {
            RestoreAnswer::Picked(path) => {
                self.session.is_picking = false;
                self.commands
                    .extend(path.map(AppCommand::UseSettingsOfFile));
            }
            RestoreAnswer::Offer(offer) => self.offer_settings(offer),
            RestoreAnswer::Read(number, path, found) if number == self.session.restoring.number => {
                match found {
                    Ok(Some(found)) => {
                        self.session.restoring.waiting = Some((path, found));
                        self.settle_restored();
                    }
                    Ok(None) => {
                        let card = restore::says_nothing(&path);
                        self.session.notify(Severity::Info, card);
                    }
                    Err(err) => self.session.show_notice(Notice::of_input(err)),
                }
            }
            // A later wish has taken its place.
            RestoreAnswer::Read(..) => {}
        }
    }

    /// Fills the form with what was read, once the models are known.
    pub(in crate::app) fn settle_restored(&mut self) {
        if matches!(self.session.models, Models::Loading) {
            return;
        }
        let Some((path, found)) = self.session.restoring.waiting.take() else {
            return;
        };
        let FoundSettings { found, lora_files } = found;
        let tool = found.tool().to_owned();
        self.session.restoring.before = Some(Before {
            form: self.state.form.clone(),
            inputs: Slot::ALL.map(|slot| self.session.inputs.get(slot).cloned()),
            edit: self.session.queue.edited(),
        });
        let notes = match found {
            Found::Own(carried) => self.use_own(carried.request, &path),
            Found::Other(restored) => self.use_restored(&restored, &lora_files, &path),
        };
        self.session.is_seed_used = false;
        let name = name_of(&path);
        self.session.last_word = format!("Settings of {name} taken over");
        // What an earlier file says is not in the form any more.
        let earlier = self.session.restoring.card.take();
        self.session
            .notices
            .retain(|notice| Some(notice.id) != earlier && !notice.offers_settings_of(&path));
        self.settle_offers();
        let (severity, rest) = if notes.is_empty() {
            (Severity::Info, "")
        } else {
            (Severity::Warning, ", but not all")
        };
        let summary = format!("the settings of {name} ({tool}) are in the form{rest}");
        let said: Vec<&str> = notes.iter().take(MAX_SAID).map(String::as_str).collect();
        let mut card =
            JobError::new(JobErrorKind::InvalidRequest, summary).advise(said.join(".\n"));
        if notes.len() > MAX_SAID {
            card = card.detail(notes.join("\n"));
        }
        let undo = NoticeAction {
            label: "Undo",
            explanation: "Brings back the form as it was before, with its pictures",
            command: AppCommand::Restore(RestoreCommand::Undo),
        };
        self.session
            .show_notice(Notice::new(severity, card).with(vec![undo]));
        self.session.restoring.card = self.session.notices.last().map(|notice| notice.id);
    }

    fn undo_restored(&mut self) {
        let Some(before) = self.session.restoring.before.take() else {
            return;
        };
        if before.edit != self.session.queue.edited() {
            "The form is another job's by now".clone_into(&mut self.session.last_word);
            return;
        }
        self.state.form = before.form;
        self.session.inputs.put_back(before.inputs);
        "The form is as it was before".clone_into(&mut self.session.last_word);
    }

    /// Takes away the offers of files that stand in no place any more: they are not used.
    pub(in crate::app) fn settle_offers(&mut self) {
        let Session {
            notices, inputs, ..
        } = &mut self.session;
        // What is being opened stands nowhere yet.
        if !inputs.is_opening() {
            notices.retain(|notice| {
                let offered = notice.offered_settings();
                offered.is_none_or(|path| inputs.has_file(path))
            });
        }
    }

    /// Our own settings: everything, where the model is here.
    fn use_own(&mut self, request: GenerateRequest, path: &Path) -> Vec<String> {
        let specs = self.session.models.all();
        if specs.iter().any(|spec| spec.id == request.model) {
            self.take_over_request(&request);
            return Vec::new();
        }
        let restored = Restored::from(&request);
        let near = match_model(&restored, specs).map(|found| {
            let is_same = found.is_same;
            (found.spec.id.clone(), found.spec.name.clone(), is_same)
        });
        match near {
            Some((id, name, is_same)) => {
                let wanted = request.model.clone();
                self.take_over_request(&GenerateRequest {
                    model: id,
                    ..request
                });
                if is_same {
                    Vec::new()
                } else {
                    // The order of sections is the other model's.
                    self.state.form.section_order = None;
                    vec![elsewhere(&wanted, &name)]
                }
            }
            None => self.use_restored(&restored, &[], path),
        }
    }

    /// Another program's settings: what the nearest model can be told.
    fn use_restored(
        &mut self,
        restored: &Restored,
        lora_files: &[PathBuf],
        path: &Path,
    ) -> Vec<String> {
        let specs = self.session.models.all();
        let name = restored.model.as_deref().unwrap_or("a model without name");
        let mut fitting = restored.clone();
        let (spec, note) = match match_model(restored, specs) {
            Some(found) if found.is_same => (Some(found.spec), None),
            Some(found) => {
                fitting.section_order = None;
                (Some(found.spec), Some(elsewhere(name, &found.spec.name)))
            }
            None => {
                fitting.forget_family();
                let current = self.session.model(&self.state.form);
                let note = current.map(|spec| {
                    format!(
                        "It was made with {name}, and no model of its family is here: {} stays chosen, with its own steps, guidance and sampler",
                        spec.name
                    )
                });
                (current, note)
            }
        };
        let Some(spec) = spec.cloned() else {
            // Without any model the words are all that can be kept.
            if let Some(prompt) = &restored.prompt {
                self.state.form.prompt.clone_from(prompt);
            }
            return vec!["There is no model here yet: only the prompt was taken over".to_owned()];
        };
        // It is the result, and not what that was made from.
        if !restored.from_picture && spec.start_image != InputUse::Required {
            self.session.inputs.remove_file(path);
        }
        let (form, notes) = fitting.form_for(&spec);
        let mut notes: Vec<String> = note.into_iter().chain(notes).collect();
        let (found, missing) = fitting.find_loras(lora_files);
        self.fill_form(&fitting, form, &spec);
        self.state.form.loras = found.iter().map(ChosenLora::from).collect();
        if !missing.is_empty() {
            notes.push(format!(
                "LoRAs that are not on this machine: {}",
                missing.join(", ")
            ));
        }
        notes
    }

    /// The model's own values, and over them what a file said; what it did not say of prompt and seed stays.
    fn fill_form(&mut self, restored: &Restored, said: GenerateForm, spec: &ModelSpec) {
        let form = &mut self.state.form;
        form.reset_to(spec);
        if restored.prompt.is_some() {
            form.prompt = said.prompt;
            form.is_one_a_line = false;
        }
        if let Some(seed) = restored.seed {
            form.set_seed(seed);
            form.seed_mode = SeedMode::Fixed;
        }
        let own_order = spec.section_order;
        let order = said.section_order;
        *form = GenerateForm {
            negative_prompt: said.negative_prompt.or_else(|| form.negative_prompt.take()),
            size: said.size,
            width: said.width,
            height: said.height,
            num_frames: said.num_frames,
            secs: said.secs.or(form.secs),
            section_order: order.filter(|order| Some(*order) != own_order),
            step_cache: said.step_cache,
            fps: said.fps,
            sampling: said.sampling.or(form.sampling),
            ..std::mem::take(form)
        };
    }

    fn offer_settings(&mut self, offer: Offer) {
        let Offer {
            path,
            tool,
            is_clip,
        } = offer;
        let name = name_of(&path);
        let place = if is_clip {
            "It is the clip to go on from"
        } else {
            "It is used as a picture"
        };
        let card = JobError::new(
            JobErrorKind::InvalidRequest,
            format!("the file {name} says how it was made, with {tool}"),
        )
        .advise(format!(
            "{place}. Its prompt, seed and the rest can be had too"
        ));
        let offer = NoticeAction {
            label: "Use its settings",
            explanation: "Fills the form with what the file says",
            command: AppCommand::UseSettingsOfFile(path),
        };
        self.session
            .show_notice(Notice::new(Severity::Info, card).with(vec![offer]));
    }
}

fn elsewhere(wanted: &str, used: &str) -> String {
    format!("It was made with {wanted}, which is not here: {used} is chosen instead")
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
