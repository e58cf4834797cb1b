//! What happens between two frames: take in events and answers, run commands, save what changed.
//!
//! Nothing here draws, waits or touches a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egui::{Context, Key, Modifiers, TextureHandle};
use safelight_core::job::{
    CancelToken, JobError, JobErrorKind, JobId, JobOutcome, JobOutput, JobUpdate,
};
use safelight_core::media::{Picture, thumbnail};
use safelight_core::settings::Settings;

use crate::app::App;
use crate::app::background::{Answer, FoundModels, FoundOutput, Task};
use crate::app::commands::{AppCommand, FolderSetting};
use crate::app::inputs::Placing;
use crate::app::player::Player;
use crate::app::queue::{ResultItem, RunningJob};
use crate::app::state::{Models, Page, Severity, Viewing, color_image};
use crate::worker::{WorkerCommand, WorkerEvent};

/// Pictures a second of an animated latent preview.
const PREVIEW_FPS: f64 = 4.0;
/// The longer side of a result's thumbnail, sharp on a screen of double density.
const THUMB_PX: u32 = 160;

impl App {
    /// One round, before each frame and also while the window is hidden.
    pub(super) fn step(&mut self, ctx: &Context) {
        self.take_input(ctx);
        let events: Vec<WorkerEvent> = self.worker.drain().collect();
        for event in events {
            self.take_event(ctx, event);
        }
        let answers: Vec<Answer> = self.background.drain().collect();
        for answer in answers {
            self.take_answer(ctx, answer);
        }
        for command in std::mem::take(&mut self.commands) {
            self.run_command(ctx, command);
        }
        self.start_next();
        self.check_form();
        self.save_if_dirty();
        self.choose_picture(ctx);
        self.add_batch_thumb(ctx);
    }

    fn take_input(&mut self, ctx: &Context) {
        self.take_files(ctx);
        // Taken away before the prompt field sees it, carried out after the field has taken what was
        // typed just before.
        self.session.is_submit_wanted |=
            ctx.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let is_typing = ctx.memory(|memory| memory.focused().is_some());
        let is_watching = self.session.page == Page::Watch;
        if is_watching && !is_typing && self.session.settings_draft.is_none() {
            let keys = [
                (Key::Space, AppCommand::TogglePlay),
                (Key::ArrowLeft, AppCommand::StepFrame(-1)),
                (Key::ArrowRight, AppCommand::StepFrame(1)),
            ];
            for (key, command) in keys {
                if ctx.input_mut(|input| input.consume_key(Modifiers::NONE, key)) {
                    self.commands.push(command);
                }
            }
        }
    }

    fn take_event(&mut self, ctx: &Context, event: WorkerEvent) {
        let Some(running) = self.queue.running.as_mut().filter(|job| job.id == event.id) else {
            tracing::warn!("an event of job {} came when it was not running", event.id);
            return;
        };
        match event.update {
            JobUpdate::Ended(outcome) => self.end_running(ctx, outcome),
            JobUpdate::Warning(text) => {
                let warning = JobError::new(JobErrorKind::Internal, text);
                self.session.notify(Severity::Warning, warning);
            }
            update => {
                if let JobUpdate::Device(line) = &update {
                    self.session.device_line.clone_from(line);
                }
                running.apply(update);
            }
        }
    }

    fn end_running(&mut self, ctx: &Context, outcome: JobOutcome) {
        let Some(job) = self.queue.running.take() else {
            return;
        };
        match outcome {
            JobOutcome::Finished(output) => self.keep_result(ctx, &job, output),
            JobOutcome::Cancelled => "Cancelled".clone_into(&mut self.session.last_word),
            JobOutcome::Kept(output) => {
                self.keep_result(ctx, &job, output);
                "Cancelled; what was made is kept".clone_into(&mut self.session.last_word);
            }
            JobOutcome::Failed(err) => {
                self.session.last_word = "The last job failed".to_owned();
                self.session.notify(Severity::Error, err);
                self.find_left();
            }
        }
        self.session.planning.forget();
        self.queue.last_memory = job.memory;
        self.queue.last_job = Some(job.id);
        self.queue.last_memory.end();
        if self.session.viewing == Viewing::Live {
            self.session.screen.clear();
            if let Some(last) = self.queue.results.last() {
                self.show_result(last.id);
            }
        }
    }

    fn keep_result(&mut self, ctx: &Context, job: &RunningJob, output: JobOutput) {
        self.session.last_word =
            format!("Done in {}", crate::ui::widgets::duration_text(output.secs));
        for text in &output.warnings {
            self.session.notify(
                Severity::Warning,
                JobError::new(JobErrorKind::Internal, text.clone()),
            );
        }
        let Some(middle) = output.clip.frames.get(output.clip.frames.len() / 2) else {
            let err = JobError::new(
                JobErrorKind::Internal,
                "the finished job came without frames",
            )
            .advise(format!("The file is {}", output.path().display()));
            self.session.notify(Severity::Warning, err);
            return;
        };
        let thumb = thumb_of(ctx, middle);
        self.queue.keep(ResultItem {
            id: job.id,
            request: job.request.clone(),
            output,
            thumb,
            batch_thumbs: Vec::new(),
        });
        if self.session.viewing == Viewing::Live {
            self.show_result(job.id);
        }
    }

    fn take_answer(&mut self, ctx: &Context, answer: Answer) {
        match answer {
            Answer::Models(found) => self.take_models(found),
            Answer::ModelsChanged => self.load_models_quietly(),
            Answer::Engine(engine) => self.take_engine(engine),
            Answer::Library(answer) => self.take_library_answer(answer),
            Answer::Inputs(found) => self.take_inputs(ctx, found),
            Answer::Left(mut left) => {
                let waiting = &self.queue.waiting;
                left.retain(|job| waiting.iter().all(|waits| waits.id != job.id));
                self.queue.left = left;
            }
            Answer::Output(id, found) => self.take_output(id, found),
            Answer::PickedInput(slot, path) => {
                self.session.is_picking = false;
                let placing = Placing {
                    slot: Some(slot),
                    keeps_size: false,
                };
                let open = path.map(|path| AppCommand::OpenInputs(vec![path], placing));
                self.commands.extend(open);
            }
            Answer::PickedFolder(purpose, path) => {
                self.session.is_picking = false;
                if let Some(path) = path {
                    self.take_folder(ctx, purpose, path);
                }
            }
            Answer::Checked(number, check) => self.take_check(number, *check),
            Answer::Examined(number) => self.end_examination(number),
            Answer::MiopenCleared(cleared) => self.take_cleared(cleared),
            Answer::Exported(path) => {
                self.session.last_word = format!("Telemetry written: {}", path.display());
            }
            Answer::Fetched(number, fetched) => self.take_fetched(number, fetched),
            Answer::Plan(wish, basis) => {
                self.session.planning.take(&wish, basis.map(|basis| *basis));
            }
            Answer::Mask(answer) => self.take_mask_answer(answer),
            Answer::Problem(err) => self.session.notify(Severity::Warning, err),
        }
    }

    /// A folder goes into the settings that are open, else into those in force.
    fn take_folder(&mut self, ctx: &Context, purpose: FolderSetting, path: PathBuf) {
        let put = |settings: &mut Settings| match purpose {
            FolderSetting::Output => settings.output.folder = Some(path),
            FolderSetting::Libtorch => settings.runtime.libtorch = Some(path),
            FolderSetting::Models => settings.models.folders.push(path),
        };
        if let Some(draft) = &mut self.session.settings_draft {
            put(draft);
        } else {
            let mut settings = self.settings.clone();
            put(&mut settings);
            self.run_command(ctx, AppCommand::ChangeSettings(Box::new(settings)));
        }
    }

    pub(super) fn take_models(&mut self, found: FoundModels) {
        self.session.model_problems = found.problems;
        self.session.missing = found.missing;
        self.session.models = Models::Ready(found.specs);
        self.session.searched = found.searched;
        self.background.watch(found.watched);
        self.settle_model();
        self.settle_arriving();
        self.renew_library(found.unusable);
    }

    /// Makes the form belong to a model that exists: the one it was for, else the first.
    fn settle_model(&mut self) {
        if self.session.model(&self.state.form).is_none()
            && let Some(first) = self.session.models.all().first()
        {
            self.state.form.reset_to(first);
        }
    }

    fn take_output(&mut self, id: JobId, found: Result<FoundOutput, JobError>) {
        let Some(job) = self.queue.waiting.iter_mut().find(|job| job.id == id) else {
            return;
        };
        match found {
            Ok(FoundOutput {
                path,
                form,
                notices,
            }) => {
                let request = &mut job.request;
                request.out = path;
                request.prompt = form.prompt;
                request.prompt_template = form.prompt_template;
                request.negative_prompt = form.negative_prompt.unwrap_or_default();
                request.negative_prompt_template = form.negative_prompt_template;
                job.has_output = true;
                let model = request.model.clone();
                self.say_changes(&model, &notices);
            }
            Err(err) => {
                self.queue.waiting.retain(|job| job.id != id);
                self.session.notify(Severity::Error, err);
            }
        }
    }

    /// Gives the worker the next job when it has none.
    fn start_next(&mut self) {
        if self.queue.running.is_some()
            || !self.queue.waiting.front().is_some_and(|job| job.has_output)
        {
            return;
        }
        let Some(job) = self.queue.waiting.pop_front() else {
            return;
        };
        let cancel = CancelToken::default();
        let command = WorkerCommand::Generate {
            id: job.id,
            request: Box::new(job.request.clone()),
            device: job.device,
            cancel: cancel.clone(),
            resume: job.resume.clone(),
        };
        if self.worker.try_send(command).is_err() {
            self.queue.waiting.clear();
            let log = self.paths.as_ref().map_or_else(String::new, |paths| {
                format!("; the log says why: {}", paths.log_file().display())
            });
            let err = JobError::new(
                JobErrorKind::Internal,
                "the worker of this window has ended",
            )
            .advise(format!("Close Safelight and open it again{log}"));
            self.session.notify(Severity::Error, err);
            return;
        }
        self.queue.running = Some(RunningJob::new(job.id, job.request, cancel));
        self.session.viewing = Viewing::Live;
        self.session.screen.clear();
    }

    /// What the form's fields will be told beside them.
    fn check_form(&mut self) {
        let checked = self.session.model(&self.state.form).map(|spec| {
            let sources = self.session.inputs.sources();
            self.state.form.to_request(spec, sources, &self.settings)
        });
        let request = checked.as_ref().and_then(|checked| checked.as_ref().ok());
        let request = request.map(|checked| checked.request.clone());
        self.plan_form(request.as_ref());
        (self.session.field_errors, self.session.field_notices) = match checked {
            None => (Vec::new(), Vec::new()),
            Some(Ok(checked)) => (Vec::new(), checked.notices),
            Some(Err(errors)) => (errors, Vec::new()),
        };
    }

    fn save_if_dirty(&mut self) {
        if self.session.are_settings_dirty
            && let Some(paths) = &self.paths
        {
            let task = Task::SaveSettings(Box::new(self.settings.clone()), paths.settings_file());
            self.session.are_settings_dirty = !self.background.run(task);
        }
    }

    /// Puts the picture of this moment on the screen, and asks to be woken for the next one.
    fn choose_picture(&mut self, ctx: &Context) {
        let (now, is_visible) = ctx.input(|input| {
            let viewport = input.viewport();
            let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
            (input.time, !is_hidden)
        });
        if !is_visible {
            return;
        }
        let wait = match (self.session.viewing, &mut self.queue.running) {
            (Viewing::Live, Some(job)) => {
                let wait = job.growing.as_mut().map(|clip| clip.tick(now));
                let (picture, wait) = match (&job.growing, wait) {
                    (Some(clip), Some(wait)) => (clip.picture(), wait),
                    _ => live_picture(job, now),
                };
                if let Some(picture) = picture {
                    self.session.screen.show(ctx, picture);
                }
                wait
            }
            (Viewing::Result(_), _) => self.session.player.as_mut().and_then(|player| {
                let wait = player.tick(now);
                if let Some(picture) = player.picture() {
                    self.session.screen.show(ctx, picture);
                }
                wait
            }),
            (Viewing::Live, None) => None,
        };
        if let Some(secs) = wait {
            ctx.request_repaint_after(
                Duration::try_from_secs_f64(secs).unwrap_or(Duration::from_secs(1)),
            );
        }
    }

    pub(super) fn show_result(&mut self, id: JobId) {
        if let Some(item) = self.queue.result(id) {
            let clip = Arc::clone(&item.output.clip);
            self.session.player = Some(if item.is_pictures() {
                Player::of_pictures(clip)
            } else {
                Player::new(clip)
            });
            self.session.viewing = Viewing::Result(id);
        }
    }

    /// Makes one more thumbnail of the batch that is looked at: all at once would stop the window.
    fn add_batch_thumb(&mut self, ctx: &Context) {
        let Viewing::Result(id) = self.session.viewing else {
            return;
        };
        let items = &mut self.queue.results;
        let Some(item) = items.iter_mut().find(|item| item.id == id) else {
            return;
        };
        let next = item.output.clip.frames.get(item.batch_thumbs.len());
        if let Some(picture) = next.filter(|_| item.is_batch()) {
            item.batch_thumbs.push(thumb_of(ctx, picture));
            ctx.request_repaint();
        }
    }
}

fn thumb_of(ctx: &Context, picture: &Picture) -> TextureHandle {
    let small = thumbnail(picture, THUMB_PX, THUMB_PX)
        .map_or_else(|_| color_image(picture), |small| color_image(&small));
    ctx.load_texture("result", small, Default::default())
}

/// The newest real frame, else the latents in a slow loop.
fn live_picture(job: &RunningJob, now_secs: f64) -> (Option<&Arc<Picture>>, Option<f64>) {
    if let Some(frame) = &job.frame {
        return (Some(&frame.picture), None);
    }
    let turn = now_secs * PREVIEW_FPS;
    let wait = (job.num_previews() > 1).then(|| (1.0 - turn.fract()) / PREVIEW_FPS + 0.02);
    (job.preview(turn as usize), wait)
}
