//! The status line: what happens now, how far it is, how long it will still take, and whether the next job fits.

use egui::accesskit::Live;
use egui::{Align, Button, Label, Layout, ProgressBar, RichText, Ui};

use crate::app::commands::{DesktopCommand, QueueCommand};
use crate::app::queue::RunningJob;
use crate::app::state::PanelPlace;
use crate::ui::runtimes::idle_ui;
use crate::ui::widgets::{caret, palette, progress_bar};
use crate::ui::{View, memory, theme, words};

pub(super) fn status_ui(ui: &mut Ui, view: &mut View<'_>) {
    let palette = palette(ui);
    ui.horizontal(|ui| {
        if let Some(job) = &view.app.queue.running {
            let bar = ProgressBar::new(job.progress())
                .desired_width(180.0_f32.min(ui.available_width() * 0.25))
                .desired_height(8.0)
                .fill(palette.accent);
            progress_bar(ui, bar).accessible_name(words::PROGRESS);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            memory_button(ui, view);
            memory::summary_ui(ui, view);
            ui.add_space(theme::SMALL_GAP);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                waiting_ui(ui, view);
                text_ui(ui, view);
                idle_ui(ui, view);
                let line = &view.app.queue.device_line;
                if !line.is_empty() && ui.available_width() > theme::LABEL_WIDTH {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        let text = RichText::new(line).small().color(palette.weak);
                        ui.add(Label::new(text).truncate()).on_hover_text(line);
                    });
                }
            });
        });
    });
}

/// Lets a job go on that waits for other programs.
fn waiting_ui(ui: &mut Ui, view: &mut View<'_>) {
    let waits = |job: &RunningJob| job.waiting.is_some() && !job.cancel.is_cancelled();
    if !view.app.queue.running.as_ref().is_some_and(waits) {
        return;
    }
    let button = ui
        .small_button(words::CONTINUE_NOW)
        .on_hover_text(words::CONTINUE_NOW_HOVER);
    if button.clicked() {
        view.push(QueueCommand::WaitNoMore);
    }
}

/// What happens now. Screen readers tell what changes, but not each step of a job.
fn text_ui(ui: &mut Ui, view: &View<'_>) {
    let running = view.app.queue.running.as_ref();
    let is_running = running.is_some();
    // A wait is one change, and no step.
    let is_told = running.is_none_or(|job| job.waiting.is_some());
    let colour = if is_running {
        palette(ui).amber
    } else {
        palette(ui).weak
    };
    let text = RichText::new(status_text(view)).color(colour);
    let response = ui.add(Label::new(text).truncate());
    if is_told {
        ui.ctx()
            .accesskit_node_builder(response.id, |node| node.set_live(Live::Polite));
    }
}

fn memory_button(ui: &mut Ui, view: &mut View<'_>) {
    let is_open = view.app.cx.drawn.memory != PanelPlace::Nowhere;
    let name = if is_open {
        words::HIDE_MEMORY
    } else {
        words::SHOW_MEMORY
    };
    let text = RichText::new(format!("{} {}", caret(is_open), words::MEMORY)).small();
    let button = ui
        .add(Button::new(text).frame_when_inactive(false))
        .on_hover_text(crate::app::shortcuts::explained(
            words::MEMORY_HOVER,
            "memory",
        ))
        .accessible_name(name);
    if button.clicked() {
        view.push(DesktopCommand::ToggleMemory);
    }
}

/// One line that always says what happens.
fn status_text(view: &View<'_>) -> String {
    let queue = &view.app.queue;
    let cx = &view.app.cx;
    if let Some(job) = &queue.running {
        words::running(job, queue.waiting.len())
    } else if queue.is_paused {
        words::paused(queue.waiting.len())
    } else if queue.next(queue.edited()).is_some() {
        words::PREPARING.to_owned()
    } else if cx.models.are_loading {
        words::LOOKING.to_owned()
    } else if cx.models.all().is_empty() {
        words::NO_MODEL.to_owned()
    } else if cx.last_word.is_empty() {
        words::READY.to_owned()
    } else {
        cx.last_word.clone()
    }
}
