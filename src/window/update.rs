//! One round of the window between two frames: parts take their results, commands run, changes are saved.
//!
//! Nothing here draws, waits or touches a file.

use safelight_core::job_update::{JobOutcome, JobUpdate};

use crate::window::app::SafelightApp;
use crate::window::create::form::{clear_form, whole_form};
use crate::window::prelude::*;
use crate::window::viewer::ViewerMode;

use crate::window::create::undo::{FormChange, FormSnapshot, RedoAction, UndoAction, UndoEntry};
use crate::window::shortcuts::{CommandShortcut, SHORTCUTS, ShortcutScope, take_shortcuts};
use crate::worker::WorkerEvent;

impl SafelightApp {
    /// One round, before each frame and also while the window is hidden.
    pub fn step(&mut self) {
        self.cx.read_clock();
        self.drops.poll(&mut self.inputs, &mut self.cx);
        self.num_submits += take_shortcuts(self.palette.is_covered(&self.cx.ctx), &mut self.cx);
        let events: Vec<WorkerEvent> = self.devices.events().collect();
        for event in events.into_iter().chain(self.computers.events()) {
            self.take_event(event);
        }
        self.cx.poll_thumbs();
        for problem in self.cx.background.problems() {
            let notice = UserNotice::new(NoticeSeverity::Warning, problem);
            self.cx.notices.show(notice);
        }
        self.inputs.poll(self.queue.editing.is_some(), &mut self.cx);
        if let Some((form, inputs)) = self.inputs.replaced.take() {
            let before = FormSnapshot { form, inputs };
            let edited = self.queue.edited();
            self.cx.undo.push_form("replace an image", before, edited);
        }
        self.queue.poll(&mut self.cx);
        if self.is_headless {
            // Nobody is there to resume what waited when the program ended.
            let held = self.queue.waiting.iter().find(|job| job.is_held);
            if let Some(id) = held.map(|job| job.id) {
                self.queue.release(id);
            }
        } else {
            self.server.follow_settings(&mut self.cx);
        }
        let is_free = |name: &str| self.queue.is_free(name);
        self.computers.poll(&is_free, &mut self.cx);
        self.devices.poll(&is_free, &mut self.cx);
        self.server
            .poll(&mut self.queue, &mut self.gallery, &mut self.cx);
        self.finishing.poll(&mut self.queue, &mut self.cx);
        self.library.poll(&mut self.cx);
        let own_model = self.own_form().model.clone();
        let is_editing = self.queue.editing.is_some();
        self.fetching
            .poll(own_model.as_deref(), is_editing, &mut self.cx);
        self.library.settle(is_editing, &mut self.cx);
        self.memory.poll(&mut self.cx);
        self.doctor.poll(&mut self.cx);
        self.runtimes.poll(&self.cx);
        self.gallery.poll(&self.queue, &mut self.cx);
        self.settings.poll(&mut self.cx);
        self.watch.poll(&mut self.cx);
        self.loras.poll(&mut self.cx);
        self.presets.poll(&mut self.cx);
        let edited = self.queue.edited();
        self.restoring.poll(&mut self.inputs, edited, &mut self.cx);
        self.masking.poll(&mut self.cx);
        let is_due = self.queue.submits_when_opened && !self.inputs.is_opening();
        self.queue.submits_when_opened &= !is_due;
        if is_due || self.masking.is_submit_due(&self.inputs) {
            self.cx.push(QueueCommand::Submit);
        }
        self.prompt.poll(&mut self.cx);
        self.desktop.poll(&self.drops, &mut self.cx);
        while let Some(command) = self.cx.next_command() {
            self.run_command(command);
        }
        self.poll_tabs();
        if is_editing && self.queue.editing.is_none() {
            self.library.settle_form(&mut self.cx);
        }
        self.library.follow_settings(&mut self.cx);
        if self.cx.undo.unsettled().next().is_some() && !self.inputs.is_opening() {
            let after = FormSnapshot::new(&self.inputs, &self.cx);
            self.cx.undo.settle(&after, self.queue.edited());
        }
        self.masking.follow(&mut self.inputs, &mut self.cx);
        self.queue
            .start_next(&mut self.devices, &self.computers, &mut self.cx);
        // Nothing takes the place of a running job.
        self.memory.is_shown &= self.queue.running.is_empty();
        if !self.is_headless {
            self.watch.follow(&self.queue, &self.cx);
        }
        let has_nothing = self.watch.is_empty(&self.queue);
        self.gallery.follow(has_nothing, &self.cx);
        self.queue.tend(self.fetching.is_busy(), &mut self.cx);
        self.loras.follow(&mut self.cx);
        self.check_form();
        self.prompt.count_tokens(&self.cx);
        self.settings.save_when_due(&self.cx);
        self.remembering.follow(self.remembered(), &self.cx);
        self.desktop.follow(&self.queue, &self.cx);
        if !self.is_headless {
            self.watch.show(&mut self.queue, &mut self.cx);
        }
        self.server.follow(&self.queue);
    }

    fn take_event(&mut self, event: WorkerEvent) {
        if self.queue.running.iter().all(|job| job.id != event.id) {
            tracing::warn!("an event of job {} came when it was not running", event.id);
            return;
        }
        match event.update {
            JobUpdate::Ended(outcome) => self.end_running(event.id, outcome),
            JobUpdate::Lora(checked) => {
                let coverage = &mut self.loras.coverage;
                coverage.insert(checked.lora.path, checked.coverage);
            }
            update => {
                let (id, planning) = (event.id, &self.memory);
                self.queue.take_update(id, update, planning, &mut self.cx);
            }
        }
    }

    fn end_running(&mut self, id: JobId, outcome: JobOutcome) {
        let Some(at) = self.queue.running.iter().position(|job| job.id == id) else {
            return;
        };
        let job = self.queue.running.remove(at);
        let failure = match &outcome {
            JobOutcome::Failed(err) => Some(err.clone()),
            _ => None,
        };
        let (name, pin) = (&job.device_name, job.device);
        let moves = self.devices.end(name, failure.as_ref(), pin);
        if let Some(err) = failure.filter(|_| moves) {
            return self.queue.move_on(job, err, &mut self.cx);
        }
        // The graph shows what happened, where memory ran short.
        self.cx.folds.is_graph_open |= ran_short(&outcome);
        let goes_on = self.queue.will_go_on();
        self.desktop.notify_ended(&job, &outcome, goes_on, &self.cx);
        self.server.end(&job, &outcome);
        self.queue.end(job, outcome, &mut self.cx);
        self.memory.forget();
        // Its duration is known now.
        self.library.renew_survey(&self.cx);
    }

    /// Form to save: the user's, also while a job is edited or its model is not found.
    pub(super) fn own_form(&self) -> &GenerateForm {
        let editing = self.queue.editing.as_ref();
        let form = editing.map_or(&self.cx.form, |edited| &edited.form);
        self.library.own_form(form)
    }

    fn check_form(&mut self) {
        let painted = self.masking.pending(&self.inputs, &self.cx);
        let checked = self.cx.model().map(|spec| {
            let mut inputs = self.inputs.inputs_for(&self.cx.form, spec);
            // An unfinished mask counts: the jobs get it.
            match &painted {
                Some((MaskOf::Start, mask)) => {
                    inputs.mask = inputs.mask.or_else(|| Some(mask.clone()));
                }
                Some((MaskOf::Control(index), mask)) => {
                    if let Some(control) = inputs.controls.get_mut(*index) {
                        let mask = InputMedia::Image(mask.clone());
                        control.mask.get_or_insert(mask);
                    }
                }
                None => {}
            }
            let form = self.loras.acting(&self.cx.form);
            let models = &self.cx.models;
            let form = whole_form(&form, spec, inputs, &self.cx.settings);
            let checked = form.first_job(spec, &|name| models.find(name));
            if let Ok(first) = &checked {
                self.form_jobs.follow(&form, &first.request, spec, models);
            }
            checked
        });
        let request = checked.as_ref().and_then(|checked| checked.as_ref().ok());
        let request = request.map(|checked| checked.request.clone());
        self.memory
            .plan(request.as_ref(), &self.form_jobs, &self.cx);
        (self.cx.field_errors, self.cx.field_notices) = match checked {
            None => (Vec::new(), Vec::new()),
            Some(Ok(checked)) => (self.form_jobs.errors.clone(), checked.notices),
            Some(Err(errors)) => (errors, Vec::new()),
        };
        let painted = painted.map(|(of, _)| of);
        let spec = self.cx.model();
        let of_controls = spec.map(|spec| self.inputs.control_errors(spec, painted));
        let of_loras = self.loras.errors(&self.cx.form);
        let more = of_controls.into_iter().flatten().chain(of_loras);
        self.cx.field_errors.extend(more);
    }

    fn run_command(&mut self, command: AppCommand) {
        match command {
            AppCommand::Show(page) => self.show_page(page),
            AppCommand::Undo(id) => self.undo(id),
            AppCommand::Redo => self.redo(),
            AppCommand::ShowAdvanced => {
                self.cx.num_advanced_shown += 1;
                self.cx.is_view_shown = false;
            }
            AppCommand::ClearForm => {
                let clear = |app: &mut Self| clear_form(&mut app.inputs, &mut app.cx);
                self.change_form("clear the form", clear);
            }
            AppCommand::Queue(QueueCommand::Submit)
                if self.masking.holds_up_jobs(&mut self.inputs, &mut self.cx) => {}
            AppCommand::Queue(command) => {
                let (inputs, loras) = (&mut self.inputs, &self.loras);
                self.queue.update(command, inputs, loras, &mut self.cx);
            }
            AppCommand::Library(LibraryCommand::ResetForm) => {
                self.change_form("reset the form", |app| {
                    app.library.update(LibraryCommand::ResetForm, &mut app.cx);
                });
            }
            AppCommand::Library(command) => self.library.update(command, &mut self.cx),
            AppCommand::Fetch(command) => self.fetching.update(command, &mut self.cx),
            AppCommand::Inputs(command) => {
                let name = match command {
                    InputsCommand::Remove(_) | InputsCommand::RemoveOne(..) => "remove an image",
                    InputsCommand::TakeOver(_) => "use the settings of a result",
                    InputsCommand::RemoveControlMask(_) => "remove a mask",
                    InputsCommand::Swap | InputsCommand::MoveOne(..) => "move an image",
                    _ => return self.inputs.update(command, &mut self.cx),
                };
                self.change_form(name, |app| app.inputs.update(command, &mut app.cx));
            }
            AppCommand::Mask(command) => {
                self.masking.update(command, &mut self.inputs, &mut self.cx);
            }
            AppCommand::Loras(command) => self.loras.update(command, &mut self.cx),
            AppCommand::Presets(command) => {
                let name = match command {
                    PresetsCommand::Undo => "take back a preset",
                    PresetsCommand::Apply(_) => "apply a preset",
                };
                let id = self.change_form(name, |app| {
                    app.presets.update(command, &app.inputs, &mut app.cx);
                });
                if let Some((id, done)) = id.zip(self.presets.done.take()) {
                    self.cx.notices.show_undo(id, done);
                }
            }
            AppCommand::Prompt(command) => self.prompt.update(command, &mut self.cx),
            AppCommand::Restore(command) => self.restoring.update(command, &mut self.cx),
            AppCommand::Player(command) => {
                self.watch.update(command, &mut self.queue, &mut self.cx);
            }
            AppCommand::Gallery(command) => {
                self.gallery.update(command, &self.queue, &mut self.cx);
            }
            AppCommand::Settings(command) => self.settings.update(command, &mut self.cx),
            AppCommand::Desktop(DesktopCommand::Back) if self.masking.cancel_outline() => {}
            AppCommand::Desktop(command) => {
                let (gallery, watch, queue) = (&mut self.gallery, &mut self.watch, &self.queue);
                self.desktop
                    .update(command, gallery, watch, queue, &mut self.cx);
            }
            AppCommand::Palette(command) => {
                let possible = SHORTCUTS.iter().filter(|shortcut| self.can_run(shortcut));
                let possible: Vec<&CommandShortcut> = possible.collect();
                let (presets, settings) = (&self.presets, &self.settings);
                self.palette
                    .update(command, &possible, presets, settings, &mut self.cx);
            }
            AppCommand::Tabs(command) => self.run_tabs(command),
            AppCommand::Finish(command) => self.finishing.update(command, &mut self.cx),
        }
    }

    /// Does what may set many fields of the form at once, so that it can be taken back. Returns the number of the undo
    /// entry; `None` if nothing changed.
    fn change_form(&mut self, name: &str, change: impl FnOnce(&mut Self)) -> Option<u64> {
        let before = FormSnapshot::new(&self.inputs, &self.cx);
        change(self);
        let is_changed = FormSnapshot::new(&self.inputs, &self.cx) != before;
        let edited = self.queue.edited();
        is_changed.then(|| self.cx.undo.push_form(name, before, edited))
    }

    fn undo(&mut self, id: Option<u64>) {
        let Some(UndoEntry { id, name, what }) = self.cx.undo.take(id) else {
            self.cx.say("There is nothing to undo");
            return;
        };
        self.cx.notices.end(&NoticeCause::Undo(id));
        let redo = match what {
            UndoAction::Jobs { jobs, was_paused } => {
                let ids = jobs.iter().map(|job| job.job().id).collect();
                self.queue.put_all_back(jobs, was_paused);
                RedoAction::Jobs(ids)
            }
            UndoAction::Results(results) => {
                self.gallery.bring_back(id, &mut self.cx);
                RedoAction::Results(results)
            }
            UndoAction::Form(change) => match self.change_back(*change) {
                Some(redo) => RedoAction::Form(redo),
                None => return,
            },
            UndoAction::Tab(index, tab) => {
                let id = tab.id;
                self.reopen_tab(index, *tab);
                RedoAction::Tab(id)
            }
            UndoAction::Mark(change) => {
                self.gallery.mark(change.reversed());
                RedoAction::Mark(change)
            }
            UndoAction::Model(files) => {
                self.library.restore_model(files, &self.cx);
                self.cx.say(format!("Undone: {name}"));
                return;
            }
        };
        self.cx.say(format!("Undone: {name}"));
        self.cx.undo.undone.push((name, redo));
    }

    fn redo(&mut self) {
        // Doing one again pushes an entry, which the others survive.
        let last = self.cx.undo.last_undone_at();
        let mut undone = std::mem::take(&mut self.cx.undo.undone);
        let Some((name, what)) = last.map(|at| undone.remove(at)) else {
            self.cx.undo.undone = undone;
            self.cx.say("There is nothing to redo");
            return;
        };
        self.cx.say(format!("Redone: {name}"));
        match what {
            RedoAction::Jobs(mut ids) => {
                ids.retain(|id| self.queue.idle_job(*id).is_some());
                if ids.is_empty() {
                    let word = format!("Not redone: {name}. No such job waits");
                    self.cx.say(word);
                }
                self.queue.remove_all(&ids, &mut self.inputs, &mut self.cx);
            }
            RedoAction::Results(results) => self.cx.push(GalleryCommand::Trash(results)),
            RedoAction::Mark(change) => self.cx.push(GalleryCommand::Mark(change)),
            RedoAction::Form(change) => {
                if let Some(undo) = self.change_back(*change) {
                    self.cx.undo.push(name, UndoAction::Form(undo));
                }
            }
            RedoAction::Tab(id) => {
                if self.shows_tab(id) {
                    self.run_tabs(TabsCommand::Close(None));
                }
            }
        }
        self.cx.undo.undone = undone;
    }

    /// Returns how to take that back; `None` where the form is another job's now, which a notice says.
    fn change_back(&mut self, change: FormChange) -> Option<Box<FormChange>> {
        let is_here = change.tab == self.tabs.active_id() || self.shows_tab(change.tab);
        if is_here && change.edited == self.queue.edited() {
            return Some(Box::new(change.undo(&mut self.inputs, &mut self.cx)));
        }
        let why = "the form now holds the settings of another job, so it was not changed";
        self.cx.notices.show(UserNotice::info(why, ""));
        None
    }

    pub(super) fn show_page(&mut self, page: MainPage) {
        self.cx.show(page);
        match page {
            MainPage::Models => self.library.open(&self.cx),
            MainPage::Welcome => self.library.look_around(&self.cx),
            MainPage::Doctor => self.doctor.open(self.queue.running.is_empty(), &self.cx),
            _ => {}
        }
    }

    pub fn can_paint_mask(&self, of: MaskOf) -> bool {
        self.masking.is_free() && self.masking.can_open(of, &self.inputs, &self.cx)
    }

    pub(super) fn can_run(&self, shortcut: &CommandShortcut) -> bool {
        let (cx, queue, watch) = (&self.cx, &self.queue, &self.watch);
        let model = cx.model();
        let is_shown = cx.page == MainPage::Watch && !watch.is_empty(queue);
        let has_frame = matches!(watch.mode, ViewerMode::Result(_) | ViewerMode::File);
        let is_running = !queue.running.is_empty();
        let has_idle = !queue.waiting.is_empty() || !queue.stopped.is_empty();
        match shortcut.id {
            "generate" => model.is_some() && cx.field_errors.is_empty(),
            "cancel" | "live" => is_running,
            "pause-queue" => !queue.is_paused && (is_running || has_idle),
            "go-on" => queue.is_paused,
            "clear-queue" => has_idle,
            "loras" | "seed" | "reset-form" | "advanced" => model.is_some(),
            "open" => model.is_some_and(|spec| {
                spec.start_image.is_possible() || spec.video_strength().is_some()
            }),
            "control" => model.is_some_and(|spec| spec.limits.controls.is_possible()),
            "interpolate" => is_shown && watch.media().is_some_and(|media| media.is_video),
            "paint-mask" => self.can_paint_mask(MaskOf::Start),
            "swap" => {
                self.inputs.can_swap() && model.is_some_and(|spec| spec.end_image.is_possible())
            }
            "more-of-a" | "more-of-b" => is_shown && watch.mode == ViewerMode::Compare,
            "save-frame"
            | "copy-frame"
            | "upscale"
            | "continue-from-frame"
            | "end-on-frame"
            | "copy-path" => is_shown && has_frame,
            "undo" => cx.undo.last().is_some(),
            "redo" => cx.undo.last_undone().is_some(),
            "next-tab" | "previous-tab" | "close-tab" => self.tabs.list.len() > 1,
            "settings-file" => cx.paths.is_some(),
            _ if shortcut.scope == ShortcutScope::Watching => is_shown,
            _ => true,
        }
    }
}

/// True if memory ran out in a job, even if a fallback helped.
fn ran_short(outcome: &JobOutcome) -> bool {
    match outcome {
        JobOutcome::Finished(output) => !output.rungs.is_empty(),
        JobOutcome::Failed(err) => err.kind == JobErrorKind::OutOfMemory,
        _ => false,
    }
}
