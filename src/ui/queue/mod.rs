//! The buttons that start, stop and pause; the panel with all jobs, and what it asks, are below.

pub(super) mod panel;
mod parts;
pub(super) mod questions;
mod reach;
mod row;

use egui::{Button, Label, Response, RichText, Ui};

use crate::app::commands::QueueCommand;
use crate::app::notices::sentence;
use crate::app::shortcuts::explained;
use crate::ui::widgets::{across, main_button, palette, with_icon};
use crate::ui::{View, icons, memory, theme};

pub(super) fn go_ui(ui: &mut Ui, view: &mut View<'_>) {
    paused_ui(ui, view);
    stop_ui(ui, view);
    memory::warning_ui(ui, view);
    if view.app.queue.editing.is_some() {
        edit_ui(ui, view);
        return;
    }
    let is_running = view.app.queue.running.is_some();
    let thing = view.thing();
    let form = &view.form;
    let spec = view.app.cx.models.of(form);
    let count = spec.map_or(1, |spec| form.num_results(spec));
    let (name, explanation) = if count == 1 {
        let explanation = if is_running {
            format!("Queue another {thing} behind the running one")
        } else {
            format!("Make the {thing}")
        };
        ("Generate".to_owned(), explanation)
    } else {
        let explanation = if is_running {
            format!("Queue {count} {thing}s behind the running one")
        } else {
            format!("Make {count} {thing}s")
        };
        (format!("Generate {count} {thing}s"), explanation)
    };
    submit_ui(ui, view, icons::SPARKLE, &name, &explanation);
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
    let response = main_button(ui, is_enabled, icon, name);
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
    let text = RichText::new("You are changing a job of the queue").color(amber);
    ui.add(Label::new(text).truncate());
    let explanation = "Back to what stood in the form before. The job stays as it was";
    if wide_button(ui, icons::X, "Cancel edit", explanation).clicked() {
        view.push(QueueCommand::CancelEdit);
    }
    let explanation =
        "The job keeps its place in the queue and is made with these settings, from its beginning";
    submit_ui(
        ui,
        view,
        icons::CHECK_CIRCLE,
        "Save as this job",
        explanation,
    );
}

/// New jobs would only wait: why, and how they do not.
fn paused_ui(ui: &mut Ui, view: &mut View<'_>) {
    if !view.app.queue.is_paused {
        return;
    }
    let amber = palette(ui).amber;
    ui.label(RichText::new("The queue is paused").color(amber));
    let explanation = "Start the jobs that wait, one after the other";
    if wide_button(ui, icons::PLAY, "Go on with the queue", explanation).clicked() {
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
        (false, _) => ("Pause this job", "Cancel"),
        (true, true) => ("Pausing…", "Cancel"),
        (true, false) => ("Pause this job", "Cancelling…"),
    };
    let can_cancel = !is_stopping || job.cancel.is_paused();
    ui.columns(2, |columns| {
        if let [left, right] = columns {
            left.add_enabled_ui(!is_stopping, |ui| {
                let explanation = "Stop it and free the memory. What is finished is kept, and it can go on from there. Waiting ones go on";
                if wide_button(ui, icons::PAUSE, pause, explanation).clicked() {
                    view.push(QueueCommand::PauseRunning);
                }
            });
            right.add_enabled_ui(can_cancel, |ui| {
                let explanation = "Stop the running job for good. Whole sections of a clip are kept, half-made pictures are not. Waiting ones go on";
                let explanation = explained(explanation, "cancel");
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
