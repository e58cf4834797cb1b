//! A result's settings as a workflow of `ComfyUI`: on the clipboard, and in a file.

use std::io;
use std::path::{Path, PathBuf};

use safelight_core::files::write_atomically;
use safelight_core::restore::{self, ComfyWorkflow, FileSettings};

use crate::window::prelude::*;
use crate::window::restore::name_of;

#[derive(Default)]
pub(super) struct WorkflowExport {
    reading: BackgroundTask<(PathBuf, Result<GenerateRequest, JobError>)>,
    saving: BackgroundTask<Option<(PathBuf, io::Result<()>)>>,
}

impl WorkflowExport {
    pub fn read(&mut self, path: PathBuf, cx: &AppContext) {
        self.reading = cx.background.run("read-settings", move || {
            let found = restore::read(&path);
            let request = match found {
                Ok(Some(FileSettings::Own(carried))) => Ok(carried.request),
                Ok(Some(FileSettings::Other(_))) => Err(JobError::new(
                    JobErrorKind::InvalidRequest,
                    format!("{} was not made with Safelight", name_of(&path)),
                )
                .advise("Use its settings, generate, and copy the workflow of the new result")),
                Ok(None) => Err(restore::says_nothing(&path)),
                Err(err) => Err(JobError::from_error(JobErrorKind::InvalidRequest, &err)),
            };
            (path, request)
        });
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        if !cx.models.are_loading
            && let Some((path, request)) = self.reading.take()
        {
            let workflow = request.and_then(|request| {
                ComfyWorkflow::from_request(&request, cx.models.get(&request.model))
            });
            match workflow {
                Ok(workflow) => copy(path, &workflow, cx),
                Err(err) => cx.notify(NoticeSeverity::Error, err),
            }
        }
        match self.saving.take() {
            Some(Some((path, Ok(())))) => cx.say(format!("Workflow saved as {}", name_of(&path))),
            Some(Some((path, Err(err)))) => {
                let text = format!("the workflow could not be saved: {}", path.display());
                cx.notify(NoticeSeverity::Error, JobError::disk(text, &err));
            }
            _ => {}
        }
    }

    pub fn save(&mut self, result: &Path, text: String, cx: &AppContext) {
        let name = name_of(&result.with_extension("json"));
        let instead = "Paste the workflow into a text editor and save it as a .json file";
        self.saving = cx.background.ask_or(instead, move || {
            let dialog = rfd::FileDialog::new()
                .set_title("Save the ComfyUI workflow")
                .set_file_name(name)
                .add_filter("JSON", &["json"]);
            let path = dialog.save_file()?;
            let written = write_atomically(&path, text.as_bytes());
            Some((path, written))
        });
    }
}

fn copy(path: PathBuf, workflow: &ComfyWorkflow, cx: &mut AppContext) {
    let text = workflow.to_text();
    cx.push(DesktopCommand::CopyText(text.clone()));
    let summary = format!("the workflow of {} is on the clipboard", name_of(&path));
    let how = "Save it as a .json file and open that in ComfyUI";
    let notice = match workflow.notes.as_slice() {
        [] => UserNotice::info(summary, how),
        notes => UserNotice::warning(summary, format!("{how}.\n{}", notes.join(".\n"))),
    };
    let save = NoticeAction {
        label: "Save as file…",
        explanation: "Choose where to save the workflow as a .json file",
        command: RestoreCommand::SaveWorkflow(path, text).into(),
    };
    cx.notices.show(notice.with(vec![save]));
}
