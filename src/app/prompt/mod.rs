//! What helps with writing a prompt: the ones that were submitted, wildcards, and how much of it is read.
//!
//! Draws nothing. Files are read on the background threads.

pub mod counting;
pub mod history;
mod keeping;
pub mod typing;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::job::prompt::{WildcardFile, WildcardFolders};
use safelight_core::job::{GenerateForm, JobError, JobErrorKind};
use safelight_core::model::ModelSpec;

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::state::Severity;
use counting::{Counted, Counting};
use history::{History, PromptEntry};
use typing::Typing;

/// Wildcards are looked at again after so long, when somebody is about to name one.
const GLANCE_SECS: f64 = 2.0;

/// The prompt field, by which the rest of the window knows whether somebody writes in it.
pub fn field_id() -> egui::Id {
    egui::Id::unique("prompt field")
}

/// What the prompt field may ask for.
#[derive(Clone, Debug)]
pub enum PromptCommand {
    /// Somebody begins to write.
    Begin,
    /// Put this in the field.
    Use(PromptEntry),
    /// What was submitted before the text in the field.
    Older,
    /// What was submitted after it, and at last what was being written.
    Newer,
    /// Take this out of the history.
    Forget(PromptEntry),
    /// Write this where the cursor is.
    Insert(String),
    /// Look which wildcards there are.
    LookAtWildcards,
    /// The same, unless they were looked at just now.
    GlanceAtWildcards,
    /// Show the folder of wildcards in the file manager; it is made if it is missing.
    OpenWildcardFolder,
}

/// What the threads found.
pub enum PromptAnswer {
    /// All prompts that are remembered, newest first, or why none can be.
    History(Result<Vec<PromptEntry>, JobError>),
    Wildcards(Vec<WildcardFile>),
    /// The folder is there.
    WildcardFolder(PathBuf),
    Counted(Box<Counted>),
}

/// The state of all this until the window closes.
#[derive(Default)]
pub struct PromptDesk {
    pub history: History,
    /// The wildcards, once they have been looked for.
    pub wildcards: Option<Arc<Vec<WildcardFile>>>,
    /// What is typed above the list of wildcards.
    pub wildcard_search: String,
    pub counting: Counting,
    pub typing: Typing,
    has_begun: bool,
    /// When the wildcards were looked at, and whether somebody is still at it.
    looked_at: Option<f64>,
    is_looking: bool,
    /// That the history cannot be kept was said.
    is_history_broken: bool,
}

impl App {
    pub(in crate::app) fn run_prompt_command(&mut self, command: PromptCommand) {
        match command {
            PromptCommand::Begin => self.begin_prompt(),
            PromptCommand::Use(entry) => {
                self.session.prompt.history.leave();
                self.put_prompt(&entry);
            }
            PromptCommand::Older => self.step_prompt(History::older),
            PromptCommand::Newer => self.step_prompt(History::newer),
            PromptCommand::Forget(entry) => {
                self.change_history(move |entries| entries.retain(|known| *known != entry));
            }
            PromptCommand::Insert(text) => {
                let prompt = &mut self.state.form.prompt;
                self.session.prompt.typing.insert(prompt, &text);
                self.session.prompt.counting.begin();
            }
            PromptCommand::LookAtWildcards => self.look_at_wildcards(),
            PromptCommand::GlanceAtWildcards => {
                let looked = self.session.prompt.looked_at;
                let is_fresh = looked.is_some_and(|at| self.now_secs - at < GLANCE_SECS);
                if !is_fresh && !self.session.prompt.is_looking {
                    self.look_at_wildcards();
                }
            }
            PromptCommand::OpenWildcardFolder => self.open_wildcard_folder(),
        }
    }

    pub(in crate::app) fn take_prompt_answer(&mut self, answer: PromptAnswer) {
        let desk = &mut self.session.prompt;
        match answer {
            PromptAnswer::History(Ok(entries)) => desk.history.take(entries),
            PromptAnswer::History(Err(err)) => {
                // Told once, not with every prompt.
                if !std::mem::replace(&mut desk.is_history_broken, true) {
                    self.session.notify(Severity::Warning, err);
                }
            }
            PromptAnswer::Wildcards(found) => {
                desk.is_looking = false;
                desk.wildcards = Some(Arc::new(found));
                desk.typing.is_stale = true;
                // One that was missing may be there now.
                desk.counting.forget();
            }
            PromptAnswer::WildcardFolder(folder) => self.background.open_folder(folder),
            PromptAnswer::Counted(counted) => desk.counting.take(*counted),
        }
    }

    /// Keeps what is being submitted.
    pub(in crate::app) fn remember_prompt(&mut self, spec: &ModelSpec) {
        let form = &self.state.form;
        let entry = PromptEntry {
            prompt: form.prompt.trim().to_owned(),
            negative: if form.is_guided(spec) {
                form.negative_prompt
                    .as_deref()
                    .unwrap_or_default()
                    .trim()
                    .to_owned()
            } else {
                String::new()
            },
        };
        if entry.prompt.is_empty() {
            return;
        }
        self.session.prompt.history.leave();
        self.change_history(move |entries| history::remember(entries, entry));
    }

    /// Puts an example into the field. What somebody wrote there is still among the earlier prompts.
    pub(in crate::app) fn use_example(&mut self, example: String) {
        let written = self.state.form.prompt.trim();
        let mut specs = self.session.models.all().iter();
        let is_example = specs.any(|spec| spec.example_prompts.iter().any(|it| it == written));
        let spec = self.session.model(&self.state.form).cloned();
        if let Some(spec) = spec.filter(|_| !is_example) {
            self.remember_prompt(&spec);
        }
        self.state.form.prompt = example;
    }

    pub(in crate::app) fn wildcard_folders(&self) -> WildcardFolders {
        let paths = self.paths.as_ref();
        let folders = paths.map(|paths| self.settings.wildcard_folders(paths));
        folders.unwrap_or_default()
    }

    fn begin_prompt(&mut self) {
        self.session.prompt.counting.begin();
        if !std::mem::replace(&mut self.session.prompt.has_begun, true) {
            self.change_history(|_| {});
        }
    }

    /// Changes the file of prompts, which other windows may have changed meanwhile, and shows what is in it then.
    fn change_history(&mut self, change: impl FnOnce(&mut Vec<PromptEntry>) + Send + 'static) {
        let Some(paths) = &self.paths else {
            self.session.prompt.history.change(change);
            return;
        };
        let path = paths.data.join("prompts.jsonl");
        let is_taken = self.background.run(Task::Work(Box::new(move || {
            let changed = keeping::change(&path, change).map_err(|err| {
                JobError::new(JobErrorKind::Disk, "the prompts cannot be remembered")
                    .advise(format!("Make this file writable: {}", path.display()))
                    .detail(err.to_string())
            });
            Some(Answer::Prompt(PromptAnswer::History(changed)))
        })));
        if !is_taken {
            let summary = "the history of prompts was not changed: files are busy";
            let err = JobError::new(JobErrorKind::Disk, summary).advise("Try again in a moment");
            self.session.notify(Severity::Warning, err);
        }
    }

    fn step_prompt(&mut self, step: fn(&mut History, &PromptEntry) -> Option<PromptEntry>) {
        self.begin_prompt();
        let current = PromptEntry {
            prompt: self.state.form.prompt.clone(),
            negative: self.state.form.negative_prompt.clone().unwrap_or_default(),
        };
        if let Some(entry) = step(&mut self.session.prompt.history, &current) {
            self.put_prompt(&entry);
        }
    }

    fn put_prompt(&mut self, entry: &PromptEntry) {
        let GenerateForm {
            prompt,
            negative_prompt,
            ..
        } = &mut self.state.form;
        prompt.clone_from(&entry.prompt);
        if !entry.negative.is_empty() {
            *negative_prompt = Some(entry.negative.clone());
        }
        self.session.prompt.typing.go_to_end(prompt);
        self.session.prompt.counting.begin();
    }

    fn look_at_wildcards(&mut self) {
        self.session.prompt.looked_at = Some(self.now_secs);
        self.session.prompt.is_looking = true;
        let folders = self.wildcard_folders();
        self.background.spawn("wildcards", move |postbox| {
            postbox.post(Answer::Prompt(PromptAnswer::Wildcards(folders.list())));
        });
    }

    fn open_wildcard_folder(&mut self) {
        let folders = self.wildcard_folders();
        let Some(folder) = folders.first().map(PathBuf::from) else {
            let err = JobError::new(JobErrorKind::Disk, "no folder for wildcards is known")
                .advise("Choose one in the settings");
            self.session.notify(Severity::Warning, err);
            return;
        };
        self.background.run(Task::Work(Box::new(move || {
            Some(match fs::create_dir_all(&folder) {
                Ok(()) => Answer::Prompt(PromptAnswer::WildcardFolder(folder)),
                Err(err) => Answer::Problem(
                    JobError::new(
                        JobErrorKind::Disk,
                        format!(
                            "the folder for wildcards cannot be made: {}",
                            folder.display()
                        ),
                    )
                    .advise("Choose another one in the settings")
                    .detail(err.to_string()),
                ),
            })
        })));
    }
}
