//! The buttons that start, stop and pause; the panel with all jobs, and what it asks, are below.

mod grid;
pub(super) mod panel;
mod parts;
pub(super) mod questions;
mod reach;
mod row;

use egui::{Button, Label, Response, RichText, Ui};

use crate::app::commands::QueueCommand;
use crate::app::notices::sentence;
use crate::app::shortcuts::explained;
use crate::app::state::Page;
use crate::ui::create::above;
use crate::ui::widgets::{across, main_button, palette, second_button, with_icon};
use crate::ui::{View, icons, memory, theme};

const RESUME_QUEUE_EXPLAINED: &str = "Start the waiting jobs, one after the other";
const PAUSE_JOB: &str = "Pause this job";
const PAUSING: &str = "Pausing…";
const CANCEL: &str = "Cancel";
const CANCELLING: &str = "Cancelling…";
const RESUME: &str = "Resume";

pub(super) fn go_ui(ui: &mut Ui, view: &mut View<'_>) {
    paused_ui(ui, view);
    stop_ui(ui, view);
    memory::warning_ui(ui, view);
    if view.app.queue.editing.is_some() {
        edit_ui(ui, view);
        return;
    }
    let is_running = view.app.queue.running.is_some();
    let form = &view.form;
    let spec = view.app.cx.models.of(form);
    let count = spec.map_or(1, |spec| form.num_results(spec));
    let makes_pictures = spec.is_some_and(|spec| spec.family.makes_pictures);
    let name = generate_text(count, makes_pictures);
    let explanation = if is_running {
        add_explained(count, makes_pictures)
    } else {
        generate_explained(count, makes_pictures)
    };
    submit_ui(ui, view, icons::SPARKLE, &name, &explanation);
}

/// The main button.
fn generate_text(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, _) => "Generate".to_owned(),
        (count, true) => format!("Generate {count} pictures"),
        (count, false) => format!("Generate {count} clips"),
    }
}

/// Hover text of the main button.
fn generate_explained(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, true) => "Make the picture".to_owned(),
        (1, false) => "Make the clip".to_owned(),
        (count, true) => format!("Make {count} pictures"),
        (count, false) => format!("Make {count} clips"),
    }
}

/// Hover text of the main button while another job runs.
fn add_explained(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, true) => "Add another picture to the queue, after the running job".to_owned(),
        (1, false) => "Add another clip to the queue, after the running job".to_owned(),
        (count, true) => format!("Add {count} pictures to the queue, after the running job"),
        (count, false) => format!("Add {count} clips to the queue, after the running job"),
    }
}

/// The main button; where the form is wrong it says why.
fn submit_ui(ui: &mut Ui, view: &mut View<'_>, icon: char, name: &str, explanation: &str) {
    let has_model = view.model().is_some();
    let first_error = view
        .app
        .cx
        .field_errors
        .first()
        .map(|err| sentence(&err.message));
    let is_enabled = has_model && first_error.is_none();
    above::above_ui(ui, view);
    // The first page has a main button of its own.
    let response = if view.app.cx.page == Page::Welcome {
        second_button(ui, is_enabled, icon, name)
    } else {
        main_button(ui, is_enabled, icon, name)
    };
    let reason = first_error.unwrap_or_else(|| "There is no model yet".to_owned());
    if response
        .on_hover_text(explained(explanation, "generate"))
        .on_disabled_hover_text(reason)
        .clicked()
    {
        view.push(QueueCommand::Submit);
    }
}

/// The form holds a job of the queue.
fn edit_ui(ui: &mut Ui, view: &mut View<'_>) {
    let amber = palette(ui).amber;
    let text = RichText::new("You are editing a job of the queue").color(amber);
    ui.add(Label::new(text).truncate());
    let explanation = "Back to what was in the form before. The job stays as it was";
    if wide_button(ui, icons::X, "Cancel edit", explanation).clicked() {
        view.push(QueueCommand::CancelEdit);
    }
    let explanation = "The job keeps its place in the queue and starts over with these settings";
    let name = "Save as this job";
    submit_ui(ui, view, icons::CHECK_CIRCLE, name, explanation);
}

/// New jobs would only wait: why, and how they do not.
fn paused_ui(ui: &mut Ui, view: &mut View<'_>) {
    if !view.app.queue.is_paused {
        return;
    }
    let amber = palette(ui).amber;
    ui.label(RichText::new("The queue is paused").color(amber));
    let explanation = RESUME_QUEUE_EXPLAINED;
    if wide_button(ui, icons::PLAY, "Resume the queue", explanation).clicked() {
        view.push(QueueCommand::GoOn);
    }
}

/// Above the main button, so that a double click on that one cannot cancel what it began.
fn stop_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(job) = &view.app.queue.running else {
        return;
    };
    let is_stopping = job.cancel.is_cancelled();
    let (pause, cancel) = match (is_stopping, job.cancel.is_paused()) {
        (false, _) => (PAUSE_JOB, CANCEL),
        (true, true) => (PAUSING, CANCEL),
        (true, false) => (PAUSE_JOB, CANCELLING),
    };
    let can_cancel = !is_stopping || job.cancel.is_paused();
    ui.columns(2, |columns| {
        if let [left, right] = columns {
            left.add_enabled_ui(!is_stopping, |ui| {
                let explanation = "Stop it and free the memory. What is finished is kept, and it \
                                  can be resumed from there. Waiting jobs continue";
                if wide_button(ui, icons::PAUSE, pause, explanation).clicked() {
                    view.push(QueueCommand::PauseRunning);
                }
            });
            right.add_enabled_ui(can_cancel, |ui| {
                let explanation = explained(
                    "Stop the running job for good. Whole sections of a clip are kept, unfinished \
                    pictures are not. Waiting jobs continue",
                    "cancel",
                );
                if wide_button(ui, icons::STOP, cancel, &explanation).clicked() {
                    view.push(QueueCommand::Cancel);
                }
            });
        }
    });
    ui.add_space(theme::SMALL_GAP / 2.0);
}

fn wide_button(ui: &mut Ui, icon: char, name: &str, explanation: &str) -> Response {
    let button = Button::new(with_icon(icon, name)).truncate();
    across(ui, name, |ui| ui.add(button))
        .on_hover_text(explanation)
        .accessible_name(name)
}
