//! What happens between two frames: take in events and answers, run commands, save what changed.
//!
//! Nothing here draws, waits or touches a file.

use std::time::Instant;

use egui::Context;
use safelight_core::job::{GenerateForm, JobError, JobErrorKind, JobOutcome, JobOutput, JobUpdate};

use crate::app::App;
use crate::app::background::{Answer, FoundModels};
use crate::app::commands::AppCommand;
use crate::app::form::whole_form;
use crate::app::inputs::Placing;
use crate::app::notices::Notice;
use crate::app::queue::editing::Editing;
use crate::app::queue::{ResultItem, RunningJob};
use crate::app::state::{Aside, Models, Severity, Viewing};
use crate::worker::WorkerEvent;

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
        self.paint_mask();
        self.follow_gallery();
        self.start_next();
        self.tend_queue(ctx);
        self.look_at_chosen_loras();
        self.check_form();
        self.count_tokens(ctx);
        self.save_settings_when_due(ctx);
        self.remember_when_due(ctx);
        self.step_desktop(ctx);
        self.choose_picture(ctx);
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
        let Some(mut job) = self.queue.running.take() else {
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
            JobOutcome::Finished(output) => self.keep_result(&job, output),
            JobOutcome::Cancelled => {
                self.keep_cancelled(job.to_idle());
                "Cancelled; the queue can undo it".clone_into(&mut self.session.last_word);
            }
            JobOutcome::Kept(output) => {
                self.keep_result(&job, output);
                let mut idle = job.to_idle();
                // Its file is what was made.
                idle.forget_output();
                self.keep_cancelled(idle);
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
        self.queue.last_memory = std::mem::take(&mut job.memory);
        self.queue.last_job = Some(job.id);
        self.queue.last_memory.conclude(told, climbs);
        // It may hold the whole clip.
        self.background.free(job);
        if self.session.viewing == Viewing::Live {
            self.session.screen.clear();
            if let Some(last) = self.queue.results.last() {
                self.show_result(last.id);
            }
        }
    }

    fn keep_result(&mut self, job: &RunningJob, output: JobOutput) {
        self.session.last_word = format!(
            "Done in {}",
            safelight_core::units::duration_text(output.secs)
        );
        for text in &output.warnings {
            self.session.notify(
                Severity::Warning,
                JobError::new(JobErrorKind::Internal, text.clone()),
            );
        }
        if output.clip.frames.is_empty() {
            let err = JobError::new(
                JobErrorKind::Internal,
                "the finished job came without frames",
            )
            .advise(format!("The file is {}", output.path().display()));
            self.session.notify(Severity::Warning, err);
            return;
        }
        self.keep_item(ResultItem {
            id: job.id,
            request: job.request.clone(),
            output,
            thumbs: Vec::new(),
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
            Answer::Given(given) => self.take_given(given),
            Answer::Inputs(found) => self.take_inputs(ctx, found),
            Answer::Left(left) => self.take_left(left),
            Answer::Queue(answer) => self.take_queue_answer(ctx, answer),
            Answer::Output(id, found) => self.take_output(id, found),
            Answer::PickedInput(slot, path) => {
                self.session.is_picking = false;
                let placing = Placing {
                    slot: Some(slot),
                    ..Placing::default()
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
        // A file may be another one under its old name.
        self.session.planning.forget();
        self.settle_arriving();
        self.settle_model();
        self.renew_library(found.unusable);
        self.settle_restored();
        for (paths, placing) in std::mem::take(&mut self.session.early_files) {
            self.commands.push(AppCommand::OpenInputs(paths, placing));
        }
    }

    /// Makes the form belong to a model that exists: the one it was for, else the first until that is back. A job that is
    /// changed belongs to its own.
    pub(super) fn settle_model(&mut self) {
        if self.session.queue.editing.is_some() {
            return;
        }
        let aside = self.session.aside.take();
        let aside = aside.filter(|aside| aside.stand_in == self.state.form);
        match aside {
            Some(aside) if self.is_here(&aside.form) || !self.is_here(&self.state.form) => {
                self.state.form = aside.form;
            }
            aside => self.session.aside = aside,
        }
        if !self.is_here(&self.state.form)
            && let Some(first) = self.session.models.all().first()
        {
            let form = self.state.form.clone();
            self.state.form.reset_to(first);
            // One that never had a model is not missed.
            self.session.aside = form.model.is_some().then(|| Aside {
                form,
                stand_in: self.state.form.clone(),
            });
        }
    }

    fn is_here(&self, form: &GenerateForm) -> bool {
        self.session.model(form).is_some()
    }

    /// What is remembered of the form: what its user wrote, also while a job is changed or its model is not found.
    pub(super) fn own_form(&self) -> &GenerateForm {
        let editing = self.session.queue.editing.as_ref();
        let form = editing.map_or(&self.state.form, Editing::own_form);
        let aside = self.session.aside.as_ref();
        let aside = aside.filter(|aside| aside.stand_in == *form);
        aside.map_or(form, |aside| &aside.form)
    }

    /// What the form's fields will be told beside them.
    fn check_form(&mut self) {
        let checked = self.session.model(&self.state.form).map(|spec| {
            let sources = self.session.inputs.sources();
            whole_form(&self.state.form, spec, sources, &self.settings).first_job(spec)
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
}
