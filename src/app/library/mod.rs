//! Choosing a model, and the first page: what is here, what is known, what this machine can run.
//!
//! The list is made anew when models were searched; a model's card and whether it fits are found in the background,
//! once somebody looks. Fetching is [`crate::app::fetching`]'s.

pub mod rows;
pub mod survey;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::catalog::{ComponentCard, EMBEDDED_MODEL, UnusableModel};
use safelight_core::job::JobError;
use safelight_core::model::ModelSpec;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::commands::AppCommand;
use crate::app::fetching::Fetch;
use crate::app::state::{Page, Severity};
use rows::{Listed, Place, Rows};
use survey::{Survey, SurveyNews, SurveyWish};

/// How many of the models used lately are remembered.
const MAX_REMEMBERED: usize = 12;

/// What the pages of models ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCommand {
    /// Look at the model with this id.
    Look(String),
    /// Work with it, where it can be.
    Use(String),
    /// Keep it above all others, or no longer.
    Favour(String, bool),
    /// Show the files of one that lacks some to be fetched.
    Complete(String),
    ShowFolder(PathBuf),
    /// Make the first clip with what ships with the app.
    FirstClip,
    /// Leave the first page.
    Leave,
}

/// What threads say.
pub enum LibraryAnswer {
    Survey(u64, SurveyNews),
    /// The parts of the model with this id.
    Card(String, Vec<(PathBuf, ComponentCard)>),
}

/// What is remembered of choosing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    pub favourites: Vec<String>,
    /// The last one used first.
    pub recent: Vec<String>,
}

/// Everything of models in one window, beside those that can be used.
#[derive(Default)]
pub struct Library {
    pub unusable: Vec<UnusableModel>,
    pub rows: Rows,
    pub query: String,
    /// The id of the one that is looked at.
    pub chosen: Option<String>,
    /// The search field is to have the keyboard.
    pub wants_focus: bool,
    /// Another field had the keyboard in the last frame.
    pub is_typing: bool,
    /// The list is to be scrolled to the one that is looked at.
    pub wants_scroll: bool,
    /// How far the list is scrolled, in points.
    pub scroll_offset: f32,
    pub survey: Survey,
    /// The parts of models that were looked at; empty while they are read.
    pub cards: HashMap<String, Vec<(PathBuf, ComponentCard)>>,
    /// Whether the engine could start; absent before anybody looked.
    pub engine: Option<Result<(), JobError>>,
}

impl Library {
    /// The one that is looked at.
    pub fn listed(&self) -> Option<&Listed> {
        let id = self.chosen.as_ref()?;
        self.rows.models.iter().find(|model| model.id == *id)
    }

    /// Searches anew, and keeps looking at a model that is found.
    pub fn search(&mut self, remembered: &Remembered) {
        self.rows
            .search(&self.query, &remembered.favourites, &remembered.recent);
        let is_shown = |id: &String| self.rows.line_of(id).is_some();
        if !self.query.is_empty() && !self.chosen.as_ref().is_some_and(is_shown) {
            let first = self.rows.step(None, 0);
            let first = first.and_then(|line| self.rows.model_at(line));
            self.chosen = first.map(|model| model.id.clone());
        }
    }
}

/// What the first clip is made with: what ships with the app, else any that needs no picture.
pub fn first_model(models: &[ModelSpec]) -> Option<&ModelSpec> {
    use safelight_core::model::InputUse::Required;
    let needs_none = |spec: &&ModelSpec| {
        [spec.start_image, spec.end_image, spec.mask]
            .iter()
            .all(|input| *input != Required)
    };
    let embedded = models.iter().find(|spec| spec.id == EMBEDDED_MODEL);
    embedded.or_else(|| models.iter().find(needs_none))
}

impl App {
    pub(in crate::app) fn run_library_command(&mut self, command: LibraryCommand) {
        match command {
            LibraryCommand::Look(id) => self.look_at_model(&id),
            LibraryCommand::Use(id) => self.use_model(&id),
            LibraryCommand::Favour(id, is_favourite) => {
                let favourites = &mut self.state.library.favourites;
                favourites.retain(|known| *known != id);
                if is_favourite {
                    favourites.insert(0, id);
                }
                self.search_library();
            }
            LibraryCommand::Complete(id) => self.complete_model(&id),
            LibraryCommand::ShowFolder(path) => {
                let folder = if path.extension().is_some() {
                    path.parent().map(PathBuf::from).unwrap_or_default()
                } else {
                    path
                };
                self.background.open_folder(folder);
            }
            LibraryCommand::FirstClip => self.make_first_clip(),
            LibraryCommand::Leave => self.leave_welcome(),
        }
    }

    /// The page was opened.
    pub(in crate::app) fn open_library(&mut self) {
        let library = &mut self.session.library;
        library.query.clear();
        library.wants_focus = true;
        library.wants_scroll = true;
        library.chosen.clone_from(&self.state.form.model);
        self.search_library();
        self.survey();
        if let Some(id) = self.session.library.chosen.clone() {
            self.read_card(&id);
        }
    }

    fn search_library(&mut self) {
        self.session.library.search(&self.state.library);
    }

    /// Models were searched: the list, the cards and what fits are of yesterday.
    pub(in crate::app) fn renew_library(&mut self, unusable: Vec<UnusableModel>) {
        let library = &mut self.session.library;
        library.rows = Rows::take(self.session.models.all(), &unusable, &self.session.missing);
        library.unusable = unusable;
        library.cards.clear();
        self.search_library();
        self.renew_survey();
        if self.is_library_shown()
            && let Some(id) = self.session.library.chosen.clone()
        {
            self.read_card(&id);
        }
    }

    /// What this machine can run is of yesterday: who looks at it sees it anew.
    pub(in crate::app) fn renew_survey(&mut self) {
        self.session.library.survey.is_stale = true;
        if self.is_library_shown() {
            self.survey();
        }
    }

    fn is_library_shown(&self) -> bool {
        matches!(self.session.page, Page::Models | Page::Welcome)
    }

    /// Looks at the machine, unless what is known is of today.
    pub(in crate::app) fn survey(&mut self) {
        let survey = &mut self.session.library.survey;
        if survey.machine.is_some() && !survey.is_stale {
            return;
        }
        survey.is_stale = false;
        survey.number += 1;
        let number = survey.number;
        let examine = Arc::clone(&self.survey_with);
        let wish = SurveyWish {
            settings: self.settings.clone(),
            specs: self.session.models.all().to_vec(),
            known: self.session.missing.clone(),
        };
        self.background.spawn("survey", move |postbox| {
            examine(&wish, &mut |news| {
                postbox.post(Answer::Library(LibraryAnswer::Survey(number, news)));
            });
        });
    }

    pub(in crate::app) fn take_library_answer(&mut self, answer: LibraryAnswer) {
        let library = &mut self.session.library;
        match answer {
            LibraryAnswer::Survey(number, news) => library.survey.take(number, news),
            LibraryAnswer::Card(id, parts) => {
                library.cards.insert(id, parts);
            }
        }
    }

    fn look_at_model(&mut self, id: &str) {
        self.read_card(id);
        let library = &mut self.session.library;
        let is_known = library
            .rows
            .models
            .iter()
            .any(|model| model.id == id && matches!(model.place, Place::Known(_)));
        library.chosen = Some(id.to_owned());
        self.show_missing(is_known.then_some(id));
    }

    /// Reads what a model is made of, once.
    fn read_card(&mut self, id: &str) {
        let library = &mut self.session.library;
        let spec = self.session.models.all().iter().find(|spec| spec.id == id);
        let Some(spec) = spec.filter(|_| !library.cards.contains_key(id)).cloned() else {
            return;
        };
        library.cards.insert(id.to_owned(), Vec::new());
        let id = id.to_owned();
        self.background.spawn("model-card", move |postbox| {
            let parts = spec.part_cards();
            postbox.post(Answer::Library(LibraryAnswer::Card(id, parts)));
        });
    }

    /// Works with a model that is here; begins to fetch one that is not, shows what another lacks.
    fn use_model(&mut self, id: &str) {
        if self.session.models.all().iter().any(|spec| spec.id == id) {
            if self.state.form.model.as_deref() != Some(id) {
                self.commands.push(AppCommand::ChooseModel(id.to_owned()));
            }
            self.remember_model(id);
            self.show_page(Page::Watch);
            return;
        }
        self.look_at_model(id);
        self.complete_model(id);
    }

    pub(in crate::app) fn remember_model(&mut self, id: &str) {
        let recent = &mut self.state.library.recent;
        recent.retain(|known| known != id);
        recent.insert(0, id.to_owned());
        recent.truncate(MAX_REMEMBERED);
    }

    /// Offers the files that a model lacks.
    fn complete_model(&mut self, id: &str) {
        let is_busy = self.session.fetch.as_ref().is_some_and(Fetch::is_busy);
        let unusable = &self.session.library.unusable;
        let model = unusable
            .iter()
            .find(|model| model.path.display().to_string() == id);
        let entry = model.and_then(|model| model.fetch.clone());
        if let (Some(entry), Some(paths), false) = (entry, &self.paths, is_busy) {
            self.session.fetch = Some(Fetch::new(entry, paths.models()));
        }
    }

    fn make_first_clip(&mut self) {
        let Some(spec) = first_model(self.session.models.all()).cloned() else {
            return;
        };
        self.remember_model(&spec.id);
        self.state.form.reset_to(&spec);
        if self.state.form.prompt.trim().is_empty()
            && let Some(example) = spec.example_prompts.first()
        {
            self.state.form.prompt.clone_from(example);
        }
        self.show_page(Page::Watch);
        self.commands.push(AppCommand::Submit);
    }

    /// What stood on the first page and is still wrong is said where the work is.
    fn leave_welcome(&mut self) {
        self.show_page(Page::Watch);
        if let Some(Err(err)) = self.session.library.engine.clone() {
            self.session.notify(Severity::Error, err);
        }
    }

    /// Whether the engine could start; on the first page it is said in its place.
    pub(in crate::app) fn take_engine(&mut self, engine: Result<(), JobError>) {
        if let Err(err) = &engine
            && self.session.page != Page::Welcome
        {
            self.session.notify(Severity::Error, err.clone());
        }
        self.session.library.engine = Some(engine);
        self.renew_survey();
    }
}
