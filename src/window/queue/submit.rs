//! Submitting jobs: from the form, and one for each of several files; and a job's settings in the form again, to change it
//! in place or to make it once more.

use safelight_core::job::{SeedMode, SizeChoice};
use safelight_core::prompts::PromptEntry;

use crate::window::create::choices::{DropChoice, MultiFilePrompt};
use crate::window::create::form::{whole_form, window_jobs};
use crate::window::inputs::InputSlots;
use crate::window::inputs::opening::{OpenedInput, open_input};
use crate::window::loras::LoraLibrary;
use crate::window::notices::sentence;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::{RemovedJob, WaitingJob};
use crate::window::thumbnails::ThumbSource;

/// So many broken files are named in the card; the others are counted.
const MAX_NAMED: usize = 12;

impl JobQueue {
    pub(super) fn submit(
        &mut self,
        inputs: &mut InputSlots,
        loras: &LoraLibrary,
        cx: &mut AppContext,
    ) {
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        if inputs.is_opening() {
            cx.say("The image is still being opened");
            return;
        }
        let mut errors = loras.errors(&cx.form);
        errors.extend(inputs.control_errors(&spec, None));
        if !errors.is_empty() {
            return say_refused(&errors, cx);
        }
        if std::mem::take(&mut cx.is_seed_used) {
            cx.form.advance_seed(cx.num_seeds_used);
        }
        let inputs_of_form = inputs.inputs_for(&cx.form, &spec);
        let form = whole_form(&loras.acting(&cx.form), &spec, inputs_of_form, &cx.settings);
        let made = match window_jobs(&form, &spec, &cx.models) {
            Ok(made) => made,
            Err(errors) => return say_refused(&errors, cx),
        };
        cx.notices.end(&NoticeCause::Form);
        cx.push(PromptCommand::Remember(PromptEntry::from_form(
            &cx.form, &spec,
        )));
        self.grids.begin(made.grids, &made.requests);
        if self.editing.is_some() {
            let device = cx.device_of_new_jobs();
            let jobs = made.requests.into_iter();
            let jobs = jobs.map(|request| WaitingJob::new(request, device));
            self.replace_edited(jobs, inputs, cx);
            cx.notices.show_changes(&spec.name, &made.notices);
            return;
        }
        if let Some(first) = made.requests.first() {
            cx.form.settle(first);
        }
        self.add(made.requests, cx);
        cx.is_seed_used = true;
        cx.num_seeds_used = made.num_seeds;
        cx.page = MainPage::Watch;
        cx.is_view_shown = true;
        cx.last_word.clear();
        // Notices about an earlier one are obsolete.
        cx.notices.clear_hints();
        cx.notices.show_changes(&spec.name, &made.notices);
    }

    /// Puts new jobs after those that wait, and before those of an earlier run that were not resumed; returns their ids.
    pub(crate) fn add<R: Into<JobRequest>>(
        &mut self,
        requests: Vec<R>,
        cx: &AppContext,
    ) -> Vec<JobId> {
        let had_waiting = !self.waiting.is_empty();
        let held = self.waiting.iter().position(|job| job.is_held);
        let mut ids = Vec::new();
        for (at, request) in (held.unwrap_or(self.waiting.len())..).zip(requests) {
            let job = WaitingJob::new(request, cx.device_of_new_jobs());
            ids.push(job.id);
            self.waiting.insert(at, job);
        }
        self.touch();
        let must_wait = !self.running.is_empty() || self.waiting.len() > 1;
        if must_wait && !had_waiting && !self.was_closed {
            self.is_open = true;
        }
        ids
    }

    pub(super) fn take_several(
        &mut self,
        choice: DropChoice,
        inputs: &InputSlots,
        loras: &LoraLibrary,
        cx: &mut AppContext,
    ) {
        let Some(MultiFilePrompt { paths, placing, .. }) = self.several.take() else {
            return;
        };
        match choice {
            DropChoice::None => {}
            // As many as there are places, and broken ones take none.
            DropChoice::Form => cx.push(InputsCommand::OpenHere(paths, placing)),
            DropChoice::Each => self.open_each(paths, inputs, loras, cx),
        }
    }

    fn open_each(
        &mut self,
        paths: Vec<PathBuf>,
        inputs: &InputSlots,
        loras: &LoraLibrary,
        cx: &mut AppContext,
    ) {
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        let mut form = loras.acting(&cx.form);
        form.inputs = inputs.inputs_for(&cx.form, &spec);
        // Each image says which shape its own video has.
        form.size = SizeChoice::Auto;

        let (num_files, stop) = (paths.len(), CancelToken::default());
        let is_stopped = stop.clone();
        let files = cx.background.stream("images", move |postbox| {
            for path in paths {
                if is_stopped.is_cancelled() {
                    break;
                }
                let opened = open_input(&path);
                postbox.post((path, opened));
            }
        });
        self.opening.push(OpeningFiles {
            num_files,
            num_done: 0,
            stop,
            files,
            num_jobs: 0,
            num_seeds: 0,
            problems: Vec::new(),
            form,
            spec,
        });
        self.reveal(cx);
    }

    pub(super) fn take_opened(&mut self, cx: &mut AppContext) {
        for mut opening in std::mem::take(&mut self.opening) {
            while let Some((path, opened)) = opening.files.take() {
                opening.num_done += 1;
                if !opening.stop.is_cancelled() {
                    self.make_jobs(&mut opening, &path, opened, cx);
                }
            }
            if opening.files.is_busy() {
                self.opening.push(opening);
            } else {
                opening.tell_end(cx);
            }
        }
    }

    fn make_jobs(
        &mut self,
        opening: &mut OpeningFiles,
        path: &Path,
        opened: Result<OpenedInput, JobError>,
        cx: &mut AppContext,
    ) {
        let mut form = opening.form.clone();
        if form.seed_mode == SeedMode::Random || opening.num_seeds > 0 {
            form.advance_seed(opening.num_seeds);
        }
        let max_references = opening.spec.limits.max_references as usize;
        let made = opened.and_then(|input| {
            let mut inputs = form.inputs.clone();
            (inputs.image, inputs.extend, inputs.source_video) = (None, None, None);
            match input.source {
                // The first of the references that the model sees, where it sees any.
                InputMedia::Image(image) if max_references > 0 => {
                    inputs.references.insert(0, image);
                    inputs.references.truncate(max_references);
                }
                InputMedia::Image(image) => {
                    inputs.image = Some(image);
                    inputs.references.clear();
                }
                InputMedia::Video(video) => {
                    inputs.references.clear();
                    if form.changes_video(&opening.spec) {
                        inputs.source_video = Some(video);
                    } else {
                        inputs.extend = Some(video);
                    }
                }
            }
            let whole = whole_form(&form, &opening.spec, inputs, &cx.settings);
            let made = window_jobs(&whole, &opening.spec, &cx.models).map_err(|errors| {
                let why = errors.first().map_or("", |err| &err.message);
                JobError::invalid(format!("{why}: {}", path.display()))
            })?;
            Ok((made, input.thumb))
        });
        match made {
            Ok((made, thumb)) => {
                opening.num_jobs += made.requests.len();
                opening.num_seeds += made.num_seeds;
                let source = ThumbSource::Input(path.to_owned());
                cx.thumbs.put(&cx.ctx, &source, &thumb);
                self.grids.begin(made.grids, &made.requests);
                self.add(made.requests, cx);
            }
            Err(err) => opening.problems.push(err),
        }
    }
}

/// A card for what no field says: of several prompts one is wrong.
fn say_refused(errors: &[FieldError], cx: &mut AppContext) {
    let unsaid = errors.iter().filter(|err| !cx.field_errors.contains(err));
    let unsaid: Vec<&str> = unsaid.map(|err| err.message.as_str()).collect();
    if !unsaid.is_empty() {
        let is_prompt = errors.iter().all(|err| err.field == "prompt");
        let what = if is_prompt {
            "the prompt"
        } else {
            "this in the form"
        };
        let err = JobError::invalid(unsaid.join("; ")).advise(format!(
            "Nothing was added to the queue. Correct {what}, then press Generate again"
        ));
        cx.tell_about(NoticeCause::Form, NoticeSeverity::Error, err);
    }
}

pub struct OpeningFiles {
    pub num_files: usize,
    pub num_done: usize,
    pub stop: CancelToken,
    files: BackgroundTask<(PathBuf, Result<OpenedInput, JobError>)>,
    num_jobs: usize,
    num_seeds: u64,
    problems: Vec<JobError>,
    form: GenerateForm,
    spec: ModelSpec,
}

impl OpeningFiles {
    fn tell_end(self, cx: &mut AppContext) {
        cx.say(counted(
            self.num_jobs,
            "1 job was added to the queue",
            "{} jobs were added to the queue",
        ));
        let problems = self.problems;
        if problems.is_empty() {
            return;
        }
        let all = self.num_files;
        let summary = match problems.len() {
            count if count == all => format!("none of the {all} files could be used"),
            1 => format!("one of {all} files could not be used"),
            count => format!("{count} of {all} files could not be used"),
        };
        let named = problems.iter().take(MAX_NAMED);
        let mut lines: Vec<String> = named.map(|err| sentence(&err.summary)).collect();
        if problems.len() > MAX_NAMED {
            lines.push(format!("and {} more", problems.len() - MAX_NAMED));
        }
        let notice = UserNotice::warning(summary, lines.join("\n"));
        cx.notices.show(notice.about(NoticeCause::Inputs));
    }
}

pub struct EditedJob {
    pub id: JobId,
    /// The user's form, which is restored afterwards.
    pub(crate) form: GenerateForm,
    pub(crate) inputs: InputSlots,
    is_seed_used: bool,
}

impl EditedJob {
    /// A file may still arrive for what stood there before.
    pub(super) fn poll(&mut self, cx: &mut AppContext) {
        self.inputs.poll_for(&mut self.form, false, cx);
    }
}

impl JobQueue {
    /// Puts a job's settings and inputs into the form. It does not start while it is changed.
    pub(super) fn edit(&mut self, id: JobId, inputs: &mut InputSlots, cx: &mut AppContext) {
        if self.edited() == Some(id) {
            return;
        }
        self.end_edit(inputs, cx);
        let job = self.idle_job(id).and_then(|job| job.request.generate());
        let Some(request) = job.cloned() else {
            return;
        };
        if cx.models.get(&request.model).is_none() {
            let text = format!("the model of this job is not here: {}", request.model);
            let notice = UserNotice::warning(text, "Search for models again, or remove the job");
            return cx.notices.show(notice.about(NoticeCause::Models));
        }
        self.editing = Some(EditedJob {
            id,
            form: cx.form.clone(),
            inputs: std::mem::take(inputs),
            is_seed_used: cx.is_seed_used,
        });
        inputs.take_over(&request, cx);
        // The prompts of a job that is not begun may be templates, unlike those of a result.
        if request.prompt_template.is_none() {
            cx.form.literal_prompt = None;
        }
        if request.negative_prompt_template.is_none() {
            cx.form.literal_negative = None;
        }
    }

    pub(super) fn end_edit(&mut self, inputs: &mut InputSlots, cx: &mut AppContext) {
        if let Some(editing) = self.editing.take() {
            cx.replace_form(editing.form);
            *inputs = editing.inputs;
            cx.is_seed_used = editing.is_seed_used;
        }
    }

    /// Puts new jobs in the place of the edited one; those of a stopped one go to the end of the queue.
    pub(super) fn replace_edited(
        &mut self,
        jobs: impl Iterator<Item = WaitingJob>,
        inputs: &mut InputSlots,
        cx: &mut AppContext,
    ) {
        let Some(id) = self.edited() else {
            return;
        };
        let (at, is_held) = match self.remove(id) {
            Some(RemovedJob::Waiting(at, job)) => (at, job.is_held),
            Some(RemovedJob::Stopped(..) | RemovedJob::Cancelled(_)) | None => {
                (self.waiting.len(), false)
            }
        };
        for (index, mut job) in jobs.enumerate() {
            job.is_held = is_held;
            self.waiting.insert(at + index, job);
        }
        self.touch();
        self.end_edit(inputs, cx);
        cx.say("The job was changed");
    }

    /// Queues a copy after the job, with another seed unless the form keeps its seed.
    pub(super) fn duplicate(&mut self, id: JobId, cx: &AppContext) {
        let Some(job) = self.idle_job(id) else {
            return;
        };
        let mut request = job.request.clone();
        if let JobRequest::Generate(request) = &mut request {
            // It is no second one of a grid's cell.
            request.grid = None;
            let num_used = u64::from(request.batch_size.max(1));
            request.seed = cx.form.seed_mode.next(request.seed, num_used);
        }
        let copy = WaitingJob {
            is_held: job.is_held,
            ..WaitingJob::new(request, job.device)
        };
        // Last if that one does not wait.
        let at = self.waiting.iter().position(|job| job.id == id);
        let at = at.map_or(self.waiting.len(), |at| at + 1);
        self.waiting.insert(at, copy);
        self.touch();
    }
}
