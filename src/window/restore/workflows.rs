//! Workflows of `ComfyUI`: several results of one, as jobs; and a result as one, on the clipboard and in a file.

use std::io;

use safelight_core::files::write_atomically;
use safelight_core::restore::{self, ComfyWorkflow, FileSettings, ForeignSettings, match_model};

use crate::window::create::form::{whole_form, window_jobs};
use crate::window::prelude::*;
use crate::window::restore::{FoundSettings, SettingsRestore, fill_form};

/// Results of a workflow, as they are offered.
pub struct WorkflowOutputs {
    pub path: PathBuf,
    found: FoundSettings,
    pub outputs: Vec<WorkflowOutput>,
}

/// One of them.
pub struct WorkflowOutput {
    /// Node that saves it, such as "Save Image (node 9)".
    pub name: String,
    pub prompt: String,
    /// Name of the installed model.
    pub model: Option<String>,
    /// Size, length and steps, as far as the file says them.
    pub facts: String,
    /// A sentence for each setting that is not used.
    pub notes: Vec<String>,
    /// The jobs that make it; the error says what is missing.
    pub jobs: Result<Vec<GenerateRequest>, String>,
}

impl WorkflowOutputs {
    pub(super) fn new(path: PathBuf, found: FoundSettings, cx: &AppContext) -> Self {
        let outputs = (1..).zip(&found.outputs);
        let outputs = outputs.map(|(number, output)| {
            let restored = match output {
                FileSettings::Own(carried) => ForeignSettings::from(&carried.request),
                FileSettings::Other(restored) => (**restored).clone(),
            };
            WorkflowOutput::new(number, restored, &found, cx)
        });
        Self {
            outputs: outputs.collect(),
            path,
            found,
        }
    }

    /// Number of results that can be queued.
    pub fn num_ready(&self) -> usize {
        self.outputs.iter().filter(|it| it.jobs.is_ok()).count()
    }
}

impl WorkflowOutput {
    fn new(
        number: usize,
        mut restored: ForeignSettings,
        found: &FoundSettings,
        cx: &AppContext,
    ) -> Self {
        let size = restored.width.zip(restored.height);
        let size = size.map(|(width, height)| format!("{width} × {height}"));
        let frames = restored.num_frames.filter(|frames| *frames > 1);
        let frames = frames.map(|frames| format!("{frames} frames"));
        let steps = restored.num_steps.map(|steps| format!("{steps} steps"));
        let facts: Vec<String> = [size, frames, steps].into_iter().flatten().collect();
        let mut this = Self {
            name: restored
                .output
                .clone()
                .unwrap_or_else(|| format!("Result {number}")),
            prompt: restored.prompt.clone().unwrap_or_default(),
            model: None,
            facts: facts.join(", "),
            notes: Vec::new(),
            jobs: Err(String::new()),
        };
        let Some(matched) = match_model(&restored, cx.models.all()) else {
            let text = match (restored.known_family(), &restored.model) {
                (Some(family), _) => format!(
                    "No {} model is on this computer: get one on the page Models",
                    family.label
                ),
                (None, Some(name)) => format!(
                    "The model {name} is not on this computer: open it in the form to use another"
                ),
                (None, None) => {
                    "The file names no model: open it in the form to choose one".to_owned()
                }
            };
            this.jobs = Err(text);
            this.notes = restored.notes;
            return this;
        };
        if !matched.is_same {
            restored.section_order = None;
            this.notes.push(restored.replaced_by(&matched.spec.name));
        }
        this.model = Some(matched.spec.name.clone());
        let (said, _, notes) = restored.fit_to(matched.spec, &found.lora_files, &found.networks);
        this.notes.extend(notes);
        this.jobs = jobs_for(&restored, said, matched.spec, cx);
        this
    }
}

/// Jobs of settings alone. The error is a sentence on what is missing.
fn jobs_for(
    restored: &ForeignSettings,
    said: GenerateForm,
    spec: &ModelSpec,
    cx: &AppContext,
) -> Result<Vec<GenerateRequest>, String> {
    if restored.prompt.is_none() {
        let unread = restored.unread_prompt.clone();
        return Err(unread.unwrap_or_else(|| "The file names no prompt".to_owned()));
    }
    if restored.from_image || !restored.controls.is_empty() {
        return Err(
            "It needs an image or video that is not in the file: open it in the form and add it"
                .to_owned(),
        );
    }
    let mut form = GenerateForm::default();
    form.set_random_seed();
    let loras = said.loras.clone();
    fill_form(&mut form, restored, said, spec);
    form.loras = loras;
    let form = whole_form(&form, spec, FormInputs::default(), &cx.settings);
    let made = window_jobs(&form, spec, &cx.models);
    let made = made.map_err(|errors| {
        let messages = errors.into_iter().map(|err| err.message);
        messages.collect::<Vec<_>>().join("; ")
    })?;
    Ok(made.requests)
}

impl SettingsRestore {
    /// Offers the results of a workflow; one alone goes into the form.
    pub fn offer(&mut self, path: PathBuf, outputs: Vec<FileSettings>, cx: &AppContext) {
        self.form_number = cx.form_number;
        self.waiting = Some((path, FoundSettings::of(outputs, None)));
    }

    /// Fills the form with one of the offered results, counted from 0.
    pub fn open_output(&mut self, index: usize, cx: &AppContext) {
        let Some(WorkflowOutputs {
            path, mut found, ..
        }) = self.offered.take()
        else {
            return;
        };
        if index < found.outputs.len() {
            found.outputs = vec![found.outputs.swap_remove(index)];
            self.form_number = cx.form_number;
            self.waiting = Some((path, found));
        }
    }

    /// Makes a job of each offered result.
    pub fn queue_outputs(&mut self, cx: &mut AppContext) {
        let Some(offered) = self.offered.take() else {
            return;
        };
        let all = offered.outputs.len();
        let (mut requests, mut left_out) = (Vec::new(), Vec::new());
        for output in offered.outputs {
            match output.jobs {
                Ok(jobs) => requests.extend(jobs),
                Err(why) => left_out.push(format!("{}: {why}", output.name)),
            }
        }
        cx.say(counted(
            requests.len(),
            "1 job was added to the queue",
            "{} jobs were added to the queue",
        ));
        if !left_out.is_empty() {
            let count = left_out.len();
            let name = file_name(&offered.path);
            let text = format!("{count} of {all} results of {name} were not queued");
            let notice = UserNotice::warning(text, left_out.join("\n"));
            cx.notices.show(notice.about(NoticeCause::Restored));
        }
        cx.push(QueueCommand::Add(requests));
    }
}

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
                Ok(Some(FileSettings::Other(_))) => {
                    let text = format!("{} was not made with Safelight", file_name(&path));
                    let advice =
                        "Use its settings, generate, and copy the workflow of the new result";
                    Err(JobError::invalid(text).advise(advice))
                }
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
            Some(Some((path, Ok(())))) => cx.say(format!("Workflow saved as {}", file_name(&path))),
            Some(Some((path, Err(err)))) => {
                let text = format!("the workflow could not be saved: {}", path.display());
                cx.notify(NoticeSeverity::Error, JobError::disk(text, &err));
            }
            _ => {}
        }
    }

    pub fn save(&mut self, result: &Path, text: String, cx: &AppContext) {
        let name = file_name(&result.with_extension("json"));
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
    let summary = format!("the workflow of {} is on the clipboard", file_name(&path));
    let how = "Save it as a .json file and open that in ComfyUI";
    let notice = match workflow.notes.as_slice() {
        [] => UserNotice::info(summary, how),
        notes => UserNotice::warning(summary, format!("{how}.\n{}", notes.join(".\n"))),
    };
    let hover = "Choose where to save the workflow as a .json file";
    let save = RestoreCommand::SaveWorkflow(path, text);
    cx.notices.show(notice.offer("Save as file…", hover, save));
}
