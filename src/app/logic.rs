//! What happens between two frames: take in events and answers, run commands, save what changed.
//!
//! Nothing here draws, waits or touches a file.

use std::time::Instant;

use egui::{Context, TextureHandle};
use safelight_core::job::{JobError, JobErrorKind, JobOutcome, JobOutput, JobUpdate};
use safelight_core::media::{Picture, thumbnail};

use crate::app::App;
use crate::app::background::{Answer, FoundModels};
use crate::app::commands::AppCommand;
use crate::app::inputs::Placing;
use crate::app::notices::Notice;
use crate::app::queue::{ResultItem, RunningJob};
use crate::app::state::{Models, Severity, Viewing, color_image};
use crate::worker::WorkerEvent;

/// The longer side of a result's thumbnail, sharp on a screen of double density.
const THUMB_PX: u32 = 160;

impl App {
    /// One round, before each frame and also while the window is hidden.
    pub(super) fn step(&mut self, ctx: &Context) {
        self.read_clock(ctx);
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
        self.paint_mask(ctx);
        self.follow_gallery();
        self.start_next();
        self.tend_queue(ctx);
        self.look_at_chosen_loras();
        self.check_form();
        self.count_tokens(ctx);
        self.save_settings_when_due(ctx);
        self.step_desktop(ctx);
        self.choose_picture(ctx);
        self.add_batch_thumb(ctx);
    }

    /// egui's own time stands still while the window is hidden: no pass is run for it.
    fn read_clock(&mut self, ctx: &Context) {
        let pass_secs = ctx.input(|input| input.time);
        if self.last_pass.0 != pass_secs {
            self.last_pass = (pass_secs, Instant::now());
        }
        self.now_secs = pass_secs + self.last_pass.1.elapsed().as_secs_f64();
    }

    fn take_input(&mut self, ctx: &Context) {
        self.take_files(ctx);
        self.take_shortcuts(ctx);
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
            JobUpdate::Lora(checked) => self.session.loras.take_checked(checked),
            update => {
                if let JobUpdate::Device(line) = &update {
                    self.session.device_line.clone_from(line);
                }
                let planned = match &update {
                    JobUpdate::Plan(plan) => Some(plan.clone()),
                    _ => None,
                };
                running.apply(update);
                if let Some(plan) = planned {
                    let course = self.session.planning.course_of(&running.request, &plan);
                    running.memory.expect(course);
                }
            }
        }
    }

    fn end_running(&mut self, ctx: &Context, outcome: JobOutcome) {
        let Some(job) = self.queue.running.take() else {
            return;
        };
        self.notify_ended(ctx, &job, &outcome);
        let (told, climbs) = match &outcome {
            JobOutcome::Finished(output) | JobOutcome::Kept(output) => {
                (output.plan.clone(), output.rungs.clone())
            }
            JobOutcome::Cancelled | JobOutcome::Paused | JobOutcome::Failed(_) => {
                (None, Vec::new())
            }
        };
        match outcome {
            JobOutcome::Finished(output) => self.keep_result(ctx, &job, output),
            JobOutcome::Cancelled => "Cancelled".clone_into(&mut self.session.last_word),
            JobOutcome::Kept(output) => {
                self.keep_result(ctx, &job, output);
                "Cancelled; what was made is kept".clone_into(&mut self.session.last_word);
            }
            JobOutcome::Paused => self.put_off(&job),
            JobOutcome::Failed(err) => {
                self.session.last_word = "The last job failed".to_owned();
                self.queue.fail(&job, err.clone());
                self.session.show_notice(Notice::of_failed(job.id, err));
                self.find_left();
            }
        }
        self.end_turn();
        self.session.planning.forget();
        self.queue.last_memory = job.memory;
        self.queue.last_job = Some(job.id);
        self.queue.last_memory.conclude(told, climbs);
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
            Answer::Left(left) => self.take_left(left),
            Answer::Queue(answer) => self.take_queue_answer(ctx, answer),
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
                    self.take_picked_folder(ctx, purpose, path);
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
            Answer::Presets(answer) => self.take_presets_answer(answer),
            Answer::Restore(answer) => self.take_restore_answer(answer),
            Answer::Gallery(answer) => self.take_gallery(ctx, *answer),
            Answer::Prompt(answer) => self.take_prompt_answer(answer),
            Answer::Loras(answer) => self.take_loras_answer(answer),
            Answer::Settings(answer) => self.take_settings(ctx, answer),
            Answer::Desktop(answer) => self.take_desktop(ctx, answer),
            Answer::Player(answer) => self.take_player_answer(answer),
            Answer::Problem(err) => self.session.notify(Severity::Warning, err),
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
        self.settle_restored();
        for (paths, placing) in std::mem::take(&mut self.session.early_files) {
            self.commands.push(AppCommand::OpenInputs(paths, placing));
        }
    }

    /// Makes the form belong to a model that exists: the one it was for, else the first.
    fn settle_model(&mut self) {
        if self.session.model(&self.state.form).is_none()
            && let Some(first) = self.session.models.all().first()
        {
            self.state.form.reset_to(first);
        }
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
        let of_loras = self.session.loras.errors(&self.state.form);
        self.session.field_errors.extend(of_loras);
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
