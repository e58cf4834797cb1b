//! Deletes models from the disk: their files go to the trash, after a question, and undo brings them back.

use safelight_core::library::ModelRemoval;
use safelight_core::trash::{TrashCan, TrashedFile};

use crate::window::create::undo::UndoAction;
use crate::window::library::LibraryState;
use crate::window::prelude::*;

pub struct DeletionQuestion {
    pub name: String,
    pub plan: ModelRemoval,
}

#[derive(Default)]
pub struct ModelDeletion {
    pub question: Option<DeletionQuestion>,
    planning: BackgroundTask<DeletionQuestion>,
    /// The model's name, what is in the trash now, and why files did not move there or back.
    moving: BackgroundTask<(String, Vec<TrashedFile>, Option<String>)>,
}

impl LibraryState {
    /// Looks which files would go, and asks.
    pub(super) fn ask_to_delete(&mut self, id: &str, cx: &AppContext) {
        let spec = cx.models.local().find(|spec| spec.id == id).cloned();
        let (Some(spec), Some(paths)) = (spec, &cx.paths) else {
            return;
        };
        let mut folders = cx.settings.models.folders.clone();
        folders.push(paths.models());
        let all: Vec<ModelSpec> = cx.models.local().cloned().collect();
        self.deletion.planning = cx.background.run("model-files", move || DeletionQuestion {
            plan: ModelRemoval::plan(&spec, &all, &folders),
            name: spec.name,
        });
    }

    pub(super) fn answer_deletion(&mut self, is_agreed: bool, cx: &AppContext) {
        let question = self.deletion.question.take().filter(|_| is_agreed);
        let (Some(question), Some(paths)) = (question, &cx.paths) else {
            return;
        };
        let trash = TrashCan::new(paths.trash());
        self.deletion.moving = cx.background.run("model-files", move || {
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

    pub(in crate::window) fn restore_model(&mut self, files: Vec<TrashedFile>, cx: &AppContext) {
        self.deletion.moving = cx.background.run("model-files", move || {
            let mut problems = files.iter().filter_map(|file| file.restore().err());
            let problem = problems.next().map(|err| err.to_string());
            (String::new(), Vec::new(), problem)
        });
    }

    pub(super) fn poll_deletion(&mut self, cx: &mut AppContext) {
        if let Some(question) = self.deletion.planning.take() {
            self.deletion.question = Some(question);
        }
        if let Some((name, trashed, problem)) = self.deletion.moving.take() {
            if !trashed.is_empty() {
                let done = format!("{name} is in the trash");
                cx.offer_undo(format!("delete {name}"), done, UndoAction::Model(trashed));
            }
            if let Some(problem) = problem {
                let err = JobError::new(JobErrorKind::Disk, problem);
                cx.notify(
                    NoticeSeverity::Error,
                    err.advise("Use the file manager for this file"),
                );
            }
            self.load_quietly(cx);
        }
    }
}
