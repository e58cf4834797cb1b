//! The LoRAs on this machine, those that the form has chosen, and what a job said of them.
//!
//! Folders are listed and headers read on threads of their own. Draws nothing.

mod looking;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{ChosenLora, FieldError, GenerateForm, JobError, JobErrorKind};
use safelight_core::lora::{CheckedLora, Coverage, Fit, FoundLora};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::commands::AppCommand;
use crate::app::notices::Notice;
use crate::app::prompt::PromptCommand;
use crate::app::state::Severity;

/// What the list of LoRAs may ask for.
#[derive(Clone, Debug)]
pub enum LorasCommand {
    /// Open the list of those that are on this machine.
    Open,
    Close,
    /// Look for files again.
    Look,
    /// Take those files into the form that are LoRAs and fit.
    Add(Vec<PathBuf>),
    /// Ask for a file in a dialog.
    Pick,
    /// Take the one in this place out of the form.
    Remove(usize),
    /// Write a word that a LoRA listens to into the prompt.
    InsertWord(String),
}

/// What the threads found.
pub enum LorasAnswer {
    /// More files that the search with this number found.
    Found(u64, Vec<FoundLora>),
    /// It has ended; or why it cannot be said what fits.
    Ended(u64, Option<String>),
    /// What is known of chosen files, for the model with this id.
    Chosen(String, Vec<FoundLora>),
    /// What is known of files that somebody wants in the form, for the model with this id.
    Wanted(String, Vec<FoundLora>),
    Picked(Vec<PathBuf>),
}

/// The state of all this until the window closes.
#[derive(Default)]
pub struct LoraShelf {
    pub is_open: bool,
    pub search: String,
    /// Only those for the chosen model.
    pub hides_others: bool,
    /// What the last search has found so far: first what fits.
    pub found: Vec<Arc<FoundLora>>,
    /// What is shown of that; none when it is to be chosen anew.
    shown: Option<Shown>,
    pub is_looking: bool,
    /// Why it cannot be said what fits.
    pub problem: Option<String>,
    /// Which search that is, and for which model.
    number: u64,
    model: Option<String>,
    /// What is known of chosen files, and for which model.
    chosen: HashMap<PathBuf, FoundLora>,
    chosen_for: Option<String>,
    /// Chosen files that are being looked at.
    asked: Vec<PathBuf>,
    /// What jobs said.
    coverage: HashMap<PathBuf, Coverage>,
}

/// A part of what was found, and what it was chosen by.
struct Shown {
    search: String,
    hides_others: bool,
    loras: Arc<[Arc<FoundLora>]>,
}

impl LoraShelf {
    /// What has the words of the search, and is for the model where others are hidden.
    pub fn shown(&mut self) -> Arc<[Arc<FoundLora>]> {
        let is_of_now = self.shown.as_ref().is_some_and(|shown| {
            shown.search == self.search && shown.hides_others == self.hides_others
        });
        if !is_of_now {
            self.shown = None;
        }
        let shown = self.shown.get_or_insert_with(|| {
            let words = self.search.to_lowercase();
            let found = self
                .found
                .iter()
                .filter(|lora| (!self.hides_others || lora.fits()) && lora.has_words(&words));
            Shown {
                search: self.search.clone(),
                hides_others: self.hides_others,
                loras: found.cloned().collect(),
            }
        });
        Arc::clone(&shown.loras)
    }

    /// What is known of a chosen file.
    pub fn chosen(&self, path: &Path) -> Option<&FoundLora> {
        self.chosen.get(path)
    }

    /// How much of a file the last job with it used.
    pub fn used(&self, path: &Path) -> Option<&Coverage> {
        self.coverage.get(path)
    }

    /// What is wrong with chosen files that are switched on.
    pub(in crate::app) fn errors(&self, form: &GenerateForm) -> Vec<FieldError> {
        form.acting_loras()
            .filter_map(|lora| {
                // Why, its own card says.
                self.objection(lora)?;
                let name = lora.name();
                let message = format!("the LoRA {name} cannot act: switch it off or remove it");
                Some(FieldError {
                    field: "lora",
                    message,
                })
            })
            .collect()
    }

    /// Why a chosen LoRA cannot act, in a sentence.
    pub fn objection(&self, lora: &ChosenLora) -> Option<String> {
        match &self.chosen(&lora.path)?.fit {
            Fit::Yes(_) => None,
            Fit::No(reason) => Some(reason.clone()),
            Fit::Gone => Some(format!("its file is gone: {}", lora.path.display())),
        }
    }

    pub(in crate::app) fn take_checked(&mut self, checked: CheckedLora) {
        self.coverage.insert(checked.lora.path, checked.coverage);
    }
}

impl App {
    pub(in crate::app) fn run_loras_command(&mut self, command: LorasCommand) {
        match command {
            LorasCommand::Open => {
                self.session.loras.is_open = true;
                self.look_for_loras();
            }
            LorasCommand::Close => self.session.loras.is_open = false,
            LorasCommand::Look => {
                self.session.loras.model = None;
                self.look_for_loras();
            }
            LorasCommand::Add(paths) => self.want_loras(paths),
            LorasCommand::Pick => {
                self.session.is_picking = true;
                self.background.pick_loras();
            }
            LorasCommand::Remove(index) => {
                let loras = &mut self.state.form.loras;
                if index < loras.len() {
                    loras.remove(index);
                }
            }
            LorasCommand::InsertWord(word) => {
                let command = PromptCommand::Insert(word);
                self.commands.push(AppCommand::Prompt(command));
            }
        }
    }

    pub(in crate::app) fn take_loras_answer(&mut self, answer: LorasAnswer) {
        let shelf = &mut self.session.loras;
        match answer {
            LorasAnswer::Found(number, found) if number == shelf.number => {
                shelf.found.extend(found.into_iter().map(Arc::new));
                // What fits comes first; among equals the order of names stays.
                shelf
                    .found
                    .sort_by_key(|lora| (!lora.fits(), lora.card.is_none()));
                shelf.shown = None;
            }
            LorasAnswer::Ended(number, problem) if number == shelf.number => {
                shelf.is_looking = false;
                shelf.problem = problem;
            }
            LorasAnswer::Found(..) | LorasAnswer::Ended(..) => {}
            LorasAnswer::Chosen(model, found) => {
                shelf.asked.clear();
                if shelf.chosen_for.as_ref() == Some(&model) {
                    let known = found.into_iter().map(|lora| (lora.path.clone(), lora));
                    shelf.chosen.extend(known);
                }
            }
            LorasAnswer::Wanted(model, found) => self.add_loras(&model, found),
            LorasAnswer::Picked(paths) => {
                self.session.is_picking = false;
                self.want_loras(paths);
            }
        }
    }

    /// Takes those that fit; what was looked at for another model is looked at again.
    fn add_loras(&mut self, model: &str, found: Vec<FoundLora>) {
        if self.state.form.model.as_deref() == Some(model) {
            for lora in found {
                self.add_lora(lora);
            }
        } else {
            self.want_loras(found.into_iter().map(|lora| lora.path).collect());
        }
    }

    /// Puts a file into the form, or says why not.
    fn add_lora(&mut self, found: FoundLora) {
        let reason = match &found.fit {
            Fit::Yes(_) => None,
            Fit::No(reason) => Some(reason.clone()),
            Fit::Gone => Some("there is no such file".to_owned()),
        };
        if let Some(reason) = reason {
            let err = JobError::new(JobErrorKind::InvalidRequest, reason)
                .advise(format!("The file is {}", found.path.display()));
            self.session.show_notice(Notice::of_input(err));
            return;
        }
        let loras = &mut self.state.form.loras;
        if let Some(known) = loras.iter_mut().find(|lora| lora.path == found.path) {
            known.is_on = true;
        } else {
            loras.push(ChosenLora::new(found.path.clone()));
            self.session.last_word = format!("Added the LoRA {}", found.name());
        }
        let shelf = &mut self.session.loras;
        shelf.chosen.insert(found.path.clone(), found);
    }

    /// Lets the chosen files be looked at for the chosen model, unless they are known.
    pub(in crate::app) fn look_at_chosen_loras(&mut self) {
        let shelf = &mut self.session.loras;
        if self.state.form.loras.is_empty() || !shelf.asked.is_empty() {
            return;
        }
        if shelf.chosen_for != self.state.form.model {
            shelf.chosen_for.clone_from(&self.state.form.model);
            shelf.chosen.clear();
        }
        let paths = self.state.form.loras.iter().map(|lora| &lora.path);
        let unknown: Vec<PathBuf> = paths
            .filter(|path| !shelf.chosen.contains_key(*path))
            .cloned()
            .collect();
        if unknown.is_empty() {
            return;
        }
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            return;
        };
        self.session.loras.asked.clone_from(&unknown);
        self.background.spawn("loras", move |postbox| {
            let found = looking::look_at(&spec, &unknown);
            postbox.post(Answer::Loras(LorasAnswer::Chosen(spec.id, found)));
        });
    }

    /// Looks whether files fit, for [`Self::add_loras`].
    fn want_loras(&mut self, paths: Vec<PathBuf>) {
        let Some(first) = paths.first() else {
            return;
        };
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            let text = format!(
                "a LoRA is for a model, and there is none: {}",
                first.display()
            );
            let err = JobError::new(JobErrorKind::InvalidRequest, text)
                .advise("Choose a model, then add the LoRA again");
            self.session.notify(Severity::Warning, err);
            return;
        };
        self.background.spawn("loras", move |postbox| {
            let found = looking::look_at(&spec, &paths);
            postbox.post(Answer::Loras(LorasAnswer::Wanted(spec.id, found)));
        });
    }

    /// Looks for the files on this machine, unless they were looked for with this model.
    fn look_for_loras(&mut self) {
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            return;
        };
        let shelf = &mut self.session.loras;
        if shelf.model.as_ref() == Some(&spec.id) {
            return;
        }
        shelf.model = Some(spec.id.clone());
        shelf.number += 1;
        shelf.is_looking = true;
        shelf.found.clear();
        shelf.shown = None;
        shelf.problem = None;
        // What is chosen may have changed, too.
        shelf.chosen_for = None;
        let number = shelf.number;
        let Some(paths) = self.paths.clone() else {
            shelf.is_looking = false;
            return;
        };
        let settings = self.settings.clone();
        self.background.spawn("loras", move |postbox| {
            looking::look_for(&spec, &paths, &settings, |found| {
                postbox.post(Answer::Loras(LorasAnswer::Found(number, found)));
            })
            .map_or_else(
                |problem| postbox.post(Answer::Loras(LorasAnswer::Ended(number, Some(problem)))),
                |()| postbox.post(Answer::Loras(LorasAnswer::Ended(number, None))),
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_searched_anew_only_when_something_else_is_looked_for() {
        let lora = |name: &str, fit| {
            let path = Path::new("/loras").join(name);
            Arc::new(FoundLora::new(&path, 1, None, fit))
        };
        let other = || Fit::No("it is for another model".to_owned());
        let mut shelf = LoraShelf {
            found: vec![
                lora("Ink.safetensors", Fit::Yes(Coverage::default())),
                lora("ink-old.safetensors", other()),
                lora("boats.safetensors", other()),
            ],
            ..LoraShelf::default()
        };
        let all = shelf.shown();
        assert_eq!(all.len(), 3);
        assert!(Arc::ptr_eq(&all, &shelf.shown()));
        shelf.search = "INK ".to_owned();
        assert_eq!(shelf.shown().len(), 2);
        shelf.hides_others = true;
        assert_eq!(shelf.shown().len(), 1);
    }
}
