//! The buttons that start and stop, and the jobs that wait.

use egui::{Button, Label, RichText, ScrollArea, Ui};

use crate::app::commands::AppCommand;
use crate::app::shortcuts::explained;
use crate::ui::widgets::{across, icon_button, main_button, palette, sentence, with_icon};
use crate::ui::{View, icons, theme};

/// The list of waiting jobs scrolls beyond this height.
const MAX_LIST_HEIGHT: f32 = 110.0;
/// Of jobs that can go on, the newest are enough.
const MAX_LEFT: usize = 3;

pub(super) fn go_ui(ui: &mut Ui, view: &mut View<'_>) {
    left_ui(ui, view);
    waiting_ui(ui, view);
    cancel_ui(ui, view);
    let has_model = view.session.model(&view.state.form).is_some();
    let first_error = view
        .session
        .field_errors
        .first()
        .map(|err| sentence(&err.message));
    let is_enabled = has_model && first_error.is_none();
    let is_running = view.queue.running.is_some();
    let response = main_button(ui, is_enabled, icons::SPARKLE, "Generate");
    let thing = view.thing();
    let explanation = if is_running {
        format!("Queue another {thing} behind the running one")
    } else {
        format!("Make the {thing}")
    };
    let explanation = explained(&explanation, "generate");
    let reason = first_error.unwrap_or_else(|| "There is no model yet".to_owned());
    if response
        .on_hover_text(explanation)
        .on_disabled_hover_text(reason)
        .clicked()
    {
        view.push(AppCommand::Submit);
    }
}

/// Above the main button, so that a double click on that one cannot cancel what it began.
fn cancel_ui(ui: &mut Ui, view: &mut View<'_>) {
    if let Some(job) = &view.queue.running {
        let is_cancelled = job.cancel.is_cancelled();
        let text = if is_cancelled {
            "Cancelling…"
        } else {
            "Cancel"
        };
        let button = Button::new(with_icon(icons::STOP, text));
        let response =
            across(ui, "cancel", |ui| ui.add_enabled(!is_cancelled, button)).accessible_name(text);
        if response
            .on_hover_text(explained(
                "Stop the running job. Waiting ones go on",
                "cancel",
            ))
            .clicked()
        {
            view.push(AppCommand::Cancel);
        }
    }
}

/// Jobs that failed, or whose program died: they can go on.
fn left_ui(ui: &mut Ui, view: &mut View<'_>) {
    if view.queue.left.is_empty() {
        return;
    }
    let palette = palette(ui);
    let text = format!("Unfinished ({})", view.queue.left.len());
    ui.label(RichText::new(text).color(palette.weak));
    for job in view.queue.left.iter().take(MAX_LEFT) {
        ui.horizontal(|ui| {
            let prompt = &job.request.prompt;
            let name = format!("Go on with: {prompt}");
            if icon_button(ui, icons::PLAY, &name, "Go on where it stopped").clicked() {
                view.commands.push(AppCommand::Resume(job.id));
            }
            let name = format!("Do not go on with: {prompt}");
            let explanation = "Take it from this list. Its folder is kept for a week";
            if icon_button(ui, icons::X, &name, explanation).clicked() {
                view.commands.push(AppCommand::ForgetLeft(job.id));
            }
            let text = format!("{}: {prompt}", job.progress_text());
            ui.add(Label::new(text).truncate())
                .on_hover_text(format!("{prompt}\n{}", job.request.out.display()));
        });
    }
    ui.add_space(theme::SMALL_GAP);
}

fn waiting_ui(ui: &mut Ui, view: &mut View<'_>) {
    // The first one is about to start when nothing runs; showing it would only flicker.
    if view.queue.waiting.is_empty() || view.queue.running.is_none() {
        return;
    }
    let palette = palette(ui);
    let text = format!("Waiting ({})", view.queue.waiting.len());
    ui.label(RichText::new(text).color(palette.weak));
    ScrollArea::vertical()
        .max_height(MAX_LIST_HEIGHT)
        .auto_shrink([false, true])
        .show(ui, |ui| {
            for job in &view.queue.waiting {
                ui.horizontal(|ui| {
                    let name = format!("Remove from queue: {}", job.request.prompt);
                    if icon_button(ui, icons::X, &name, "Take this one out of the queue").clicked()
                    {
                        view.commands.push(AppCommand::RemoveWaiting(job.id));
                    }
                    ui.add(Label::new(&job.request.prompt).truncate())
                        .on_hover_text(format!(
                            "{}\nSeed {}",
                            job.request.prompt, job.request.seed
                        ));
                });
            }
        });
    ui.add_space(theme::SMALL_GAP);
}
