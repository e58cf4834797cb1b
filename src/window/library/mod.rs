//! Model choice, and first steps: installed models, known ones, and what this machine can run.
//!
//! Searches and folder watching run in the background; a model's card and fit are determined when it is shown.
//! [`crate::window::downloads`] downloads.

pub mod models;
pub mod panel;
pub mod rows;
pub mod searching;
pub mod survey;

use std::collections::HashMap;

use crossbeam_channel::Sender;
use safelight_core::catalog::{ComponentCard, EMBEDDED_MODEL};
use safelight_core::library::{FolderWatch, ModelRemoval};
use safelight_core::trash::{TrashCan, TrashedFile};

use crate::window::create::choices::RememberedModels;
use crate::window::create::undo::UndoAction;
use crate::window::library::models::{FoundModels, LoadModels};
use crate::window::prelude::*;

use rows::{LibraryRows, ListedModel, ModelPosition};
use searching::CheckEngine;
use survey::{ModelSurvey, SurveyNews, SurveyRequest, SurveyRun};

#[derive(Clone)]
pub struct LibraryLinks {
    pub load: LoadModels,
    pub check_engine: CheckEngine,
    pub survey: SurveyRun,
}

type ModelCard = Vec<(PathBuf, ComponentCard)>;

/// Form whose model is not found any more: it is restored together with the model, unless the user has changed its
/// replacement.
struct ParkedForm {
    form: GenerateForm,
    stand_in: GenerateForm,
}

pub struct LibraryState {
    pub remembered: RememberedModels,
    pub rows: LibraryRows,
    pub query: String,
    /// Id of the model whose details are shown.
    pub chosen: Option<String>,
    pub num_opened: u64,
    /// Counts how often the choice went to where it may not be seen.
    pub num_moves: u64,
    pub survey: ModelSurvey,
    /// The parts of models that were looked at; empty while they are read.
    pub cards: HashMap<String, ModelCard>,
    /// Result of the engine check; `None` before the check.
    pub engine: Option<Result<(), JobError>>,
    pub deletion: Option<DeletionQuestion>,
    planning_deletion: BackgroundTask<DeletionQuestion>,
    /// A deleted model's name, what is in the trash now, and why files did not move there or back.
    deleting: BackgroundTask<(String, Vec<TrashedFile>, Option<String>)>,
    aside: Option<ParkedForm>,
    links: LibraryLinks,
    /// The search for models that all of this is of.
    models_number: u64,
    looked_with: Settings,
    loading: BackgroundTask<FoundModels>,
    checking: BackgroundTask<Result<(), JobError>>,
    surveying: BackgroundTask<SurveyNews>,
    reading: BackgroundTask<(String, ModelCard)>,
    changes: BackgroundTask<()>,
    watching: Sender<FolderWatch>,
    /// Transformer's file whose model is selected as soon as it is found.
    wanted_file: Option<PathBuf>,
}

impl LibraryState {
    pub fn listed(&self) -> Option<&ListedModel> {
        let id = self.chosen.as_ref()?;
        self.rows.models.iter().find(|model| model.id == *id)
    }

    pub fn update(&mut self, command: LibraryCommand, cx: &mut AppContext) {
        match command {
            LibraryCommand::Choose(id) => self.choose(&id, cx),
            LibraryCommand::ResetForm => {
                if let Some(spec) = cx.model().cloned() {
                    cx.form.reset_to(&spec);
                }
            }
            LibraryCommand::Reload => self.load(cx),
            LibraryCommand::Search(query) => {
                self.query = query;
                self.search();
                self.num_moves += 1;
                if let Some(id) = self.chosen.clone() {
                    self.look_at(&id, cx);
                }
            }
            LibraryCommand::Step(by) => {
                let here = self.chosen.as_ref().and_then(|id| self.rows.line_of(id));
                let next = self.rows.step(here, by);
                if let Some(model) = next.and_then(|line| self.rows.model_at(line)) {
                    let id = model.id.clone();
                    self.look_at(&id, cx);
                    self.num_moves += 1;
                }
            }
            LibraryCommand::Look(id) => self.look_at(&id, cx),
            LibraryCommand::Use(id) => self.use_model(&id, cx),
            LibraryCommand::UseFile(path) => self.use_file(path, cx),
            LibraryCommand::Favour(id, is_favourite) => {
                self.remembered.favour(id, is_favourite);
                self.search();
            }
            LibraryCommand::Complete(id) => complete(&id, cx),
            LibraryCommand::Leave => {
                cx.push(AppCommand::Show(MainPage::Watch));
                self.tell_engine(cx);
            }
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        let changes = std::iter::from_fn(|| self.changes.take());
        if changes.count() > 0 {
            self.load_quietly(cx);
        }
        if let Some(found) = self.loading.take() {
            self.take_models(found, cx);
        }
        if let Some(engine) = self.checking.take() {
            self.take_engine(engine, cx);
        }
        while let Some(news) = self.surveying.take() {
            self.survey.take(news);
        }
        self.poll_deletion(cx);
        while let Some((id, card)) = self.reading.take() {
            self.cards.insert(id, card);
        }
    }

    fn choose(&mut self, id: &str, cx: &mut AppContext) {
        if let Some(spec) = cx.models.get(id) {
            cx.form.reset_to(spec);
            self.aside = None;
            self.remembered.use_now(id);
            cx.push(FetchCommand::Leave);
        }
    }

    pub(super) fn open(&mut self, cx: &AppContext) {
        self.query.clear();
        self.num_opened += 1;
        self.num_moves += 1;
        self.chosen.clone_from(&cx.form.model);
        self.search();
        self.look_around(cx);
        if let Some(id) = self.chosen.clone() {
            self.read_card(&id, cx);
        }
    }

    /// Searches anew, and keeps looking at a model that is found.
    fn search(&mut self) {
        let RememberedModels { favourites, recent } = &self.remembered;
        self.rows.search(&self.query, favourites, recent);
        let is_shown = |id: &String| self.rows.line_of(id).is_some();
        if !self.query.is_empty() && !self.chosen.as_ref().is_some_and(is_shown) {
            let first = self.rows.step(None, 0);
            let first = first.and_then(|line| self.rows.model_at(line));
            self.chosen = first.map(|model| model.id.clone());
        }
    }

    /// Looks at the machine, unless what is known is of today.
    pub(super) fn look_around(&mut self, cx: &AppContext) {
        if self.survey.machine.is_some() && !self.survey.is_stale {
            return;
        }
        self.survey.is_stale = false;
        let examine = Arc::clone(&self.links.survey);
        let request = SurveyRequest {
            settings: cx.settings.clone(),
            specs: cx.models.local().cloned().collect(),
            known: cx.models.found.missing.clone(),
        };
        self.surveying = cx.background.stream("survey", move |postbox| {
            examine(&request, &mut |news| {
                postbox.post(news);
            });
        });
    }

    fn look_at(&mut self, id: &str, cx: &mut AppContext) {
        self.read_card(id, cx);
        let is_it = |it: &ListedModel| it.id == id && matches!(it.place, ModelPosition::Known(_));
        let is_known = self.rows.models.iter().any(is_it);
        self.chosen = Some(id.to_owned());
        cx.push(FetchCommand::Show(is_known.then(|| id.to_owned())));
    }

    fn read_card(&mut self, id: &str, cx: &AppContext) {
        let spec = cx.models.get(id);
        let is_new = |spec: &&ModelSpec| spec.computer.is_none() && !self.cards.contains_key(id);
        let Some(spec) = spec.filter(is_new).cloned() else {
            return;
        };
        self.cards.insert(id.to_owned(), Vec::new());
        let id = id.to_owned();
        let reading = move || (id, spec.part_cards());
        self.reading.add(cx.background.run("model-card", reading));
    }

    /// Works with a model that is here; begins to fetch one that is not, shows what another lacks.
    fn use_model(&mut self, id: &str, cx: &mut AppContext) {
        if cx.models.get(id).is_some() {
            if cx.form.model.as_deref() != Some(id) {
                self.choose(id, cx);
            }
            self.remembered.use_now(id);
            cx.push(AppCommand::Show(MainPage::Watch));
            return;
        }
        self.look_at(id, cx);
        complete(id, cx);
    }

    fn use_file(&mut self, path: PathBuf, cx: &mut AppContext) {
        if let Some(id) = id_of_file(&path, cx) {
            return self.use_model(&id, cx);
        }
        if let Some(folder) = path.parent() {
            cx.push(SettingsCommand::AddModelFolder(folder.to_owned()));
        }
        self.wanted_file = Some(path);
    }

    fn make_first_video(&mut self, cx: &mut AppContext) {
        let Some(spec) = first_model(cx.models.all()).cloned() else {
            return;
        };
        self.remembered.use_now(&spec.id);
        cx.form.reset_to(&spec);
        if cx.form.prompt.trim().is_empty()
            && let Some(example) = spec.example_prompts.first()
        {
            cx.form.prompt.clone_from(example);
        }
        cx.push(AppCommand::Show(MainPage::Watch));
        cx.push(QueueCommand::Submit);
    }
}

/// Id of the model whose transformer is this file.
fn id_of_file(path: &Path, cx: &AppContext) -> Option<String> {
    let specs = cx.models.all().iter();
    let mut fitting = specs.filter(|spec| {
        let files = &spec.files;
        files.transformer == *path || files.transformer_2.as_deref() == Some(path)
    });
    fitting.next().map(|spec| spec.id.clone())
}

/// Offers the files that a model lacks.
fn complete(id: &str, cx: &mut AppContext) {
    let mut unusable = cx.models.found.unusable.iter();
    let model = unusable.find(|model| model.path.display().to_string() == id);
    if let Some(entry) = model.and_then(|model| model.fetch.clone()) {
        cx.push(FetchCommand::Offer(Box::new(entry)));
    }
}

/// Model for the first video: the shipped one, else any that needs no image.
pub fn first_model(models: &[ModelSpec]) -> Option<&ModelSpec> {
    use safelight_core::model::InputUse::Required;
    let needs_none = |spec: &&ModelSpec| {
        let inputs = [spec.start_image, spec.end_image, spec.mask];
        !inputs.contains(&Required) && !spec.limits.controls.is_required
    };
    let embedded = models.iter().find(|spec| spec.id == EMBEDDED_MODEL);
    embedded.or_else(|| models.iter().find(needs_none))
}

pub struct DeletionQuestion {
    pub name: String,
    pub plan: ModelRemoval,
}

impl LibraryState {
    /// Looks which files would go, and asks.
    fn ask_to_delete(&mut self, id: &str, cx: &AppContext) {
        let spec = cx.models.local().find(|spec| spec.id == id).cloned();
        let (Some(spec), Some(paths)) = (spec, &cx.paths) else {
            return;
        };
        let mut folders = cx.settings.models.folders.clone();
        folders.push(paths.models());
        let all: Vec<ModelSpec> = cx.models.local().cloned().collect();
        self.planning_deletion = cx.background.run("model-files", move || DeletionQuestion {
            plan: ModelRemoval::plan(&spec, &all, &folders),
            name: spec.name,
        });
    }

    fn answer_deletion(&mut self, is_agreed: bool, cx: &AppContext) {
        let question = self.deletion.take().filter(|_| is_agreed);
        let (Some(question), Some(paths)) = (question, &cx.paths) else {
            return;
        };
        let trash = TrashCan::new(paths.trash());
        self.deleting = cx.background.run("model-files", move || {
            let (mut trashed, mut problem) = (Vec::new(), None);
            for (file, _) in question.plan.files {
                match trash.put(&file) {
                    Ok(one) => trashed.push(one),
                    Err(err) => problem = Some(err.to_string()),
                }
            }
            (question.name, trashed, problem)
        });
    }

    pub(crate) fn restore_model(&mut self, files: Vec<TrashedFile>, cx: &AppContext) {
        self.deleting = cx.background.run("model-files", move || {
            let mut problems = files.iter().filter_map(|file| file.restore().err());
            let problem = problems.next().map(|err| err.to_string());
            (String::new(), Vec::new(), problem)
        });
    }

    fn poll_deletion(&mut self, cx: &mut AppContext) {
        if let Some(question) = self.planning_deletion.take() {
            self.deletion = Some(question);
        }
        if let Some((name, trashed, problem)) = self.deleting.take() {
            if !trashed.is_empty() {
                let done = format!("{name} is in the trash");
                cx.offer_undo(format!("delete {name}"), done, UndoAction::Model(trashed));
            }
            if let Some(problem) = problem {
                let err = JobError::new(JobErrorKind::Disk, problem);
                let advice = "Use the file manager for this file";
                cx.notify(NoticeSeverity::Error, err.advise(advice));
            }
            self.load_quietly(cx);
        }
    }
}
