//! The libtorch folders: the card on the first page that says how jobs get onto this machine's GPU, and the section of the
//! settings with all of them.
//!
//! The card is shown where jobs are not there yet, or have just come.

mod section;
mod words;

use egui::{Align, Button, Layout, ProgressBar, RichText, Ui};

use crate::app::commands::{AppCommand, DesktopCommand, RuntimeCommand, SettingsCommand};
use crate::app::notices::sentence;
use crate::app::runtimes::RuntimeState;
use crate::app::state::Page;
use crate::runtimes::{Advice, Kind, Progress, Refusal, folder};
use crate::ui::widgets::{card, palette, progress_bar, wide_note, with_icon};
use crate::ui::{View, icons, theme};
pub(in crate::ui) use section::{KEY, SectionState, section_ui};

pub(in crate::ui) fn card_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(advice) = view.app.runtimes.advice().cloned() else {
        return;
    };
    let is_done = view.app.runtimes.has_changed();
    if advice.idle_gpu().is_none() && !is_done {
        return;
    }
    let colour = if is_done {
        palette(ui).good
    } else {
        palette(ui).amber
    };
    card(ui, colour).show(ui, |ui| {
        ui.set_width(ui.available_width());
        match (&advice, is_done) {
            (_, true) => {
                ui.label(RichText::new(words::DONE).color(colour));
            }
            (Advice::Get { gpu, build }, _) => {
                ui.label(RichText::new(words::on_cpu(&gpu.name)).color(colour));
                let folder = view.app.cx.paths.as_ref().map(folder).unwrap_or_default();
                let folder = folder.join(&build.id).display().to_string();
                wide_note(ui, &words::get(build, &folder), palette(ui).text);
                wide_note(ui, words::TRIED, palette(ui).weak);
                if build.kind == Kind::Rocm {
                    wide_note(ui, words::NEVER_ON_AMD, palette(ui).weak);
                }
                follow_ui(ui, view, words::GET, words::GET_HOVER);
            }
            (Advice::Use { gpu, id }, _) => {
                ui.label(RichText::new(words::on_cpu(&gpu.name)).color(colour));
                wide_note(ui, &words::here(id), palette(ui).text);
                follow_ui(ui, view, words::USE, words::USE_HOVER);
            }
            (Advice::Mend { gpu, refusal }, _) => {
                ui.label(RichText::new(words::on_cpu(&gpu.name)).color(colour));
                mend_ui(ui, view, refusal);
            }
            (Advice::NoGpu | Advice::CpuChosen | Advice::Served { .. }, _) => {}
        }
        if ui
            .link(words::ALL)
            .on_hover_text(words::ALL_HOVER)
            .clicked()
        {
            view.push(SettingsCommand::Show(KEY));
        }
    });
    ui.add_space(theme::GAP);
}

/// Beside what the status line says of the device: that a GPU is idle, and the way to the card.
pub(in crate::ui) fn idle_ui(ui: &mut Ui, view: &mut View<'_>) {
    let is_done = view.app.runtimes.has_changed();
    let is_wanted = !is_done && view.app.cx.page != Page::Welcome;
    let Some(gpu) = view.app.runtimes.idle_gpu().filter(|_| is_wanted) else {
        return;
    };
    let text = RichText::new(words::idle(&gpu.name)).small();
    let button = Button::new(text.color(palette(ui).amber)).frame_when_inactive(false);
    if ui.add(button).on_hover_text(words::IDLE_HOVER).clicked() {
        view.push(AppCommand::Show(Page::Welcome));
    }
}

/// The button that does what is advised, or how far it is.
fn follow_ui(ui: &mut Ui, view: &mut View<'_>, name: &str, explanation: &str) {
    failure_ui(ui, view);
    if view.app.runtimes.is_busy() {
        progress_ui(ui, view);
    } else if ui.button(name).on_hover_text(explanation).clicked() {
        view.push(RuntimeCommand::Follow);
    }
}

/// Why the last errand failed.
fn failure_ui(ui: &mut Ui, view: &View<'_>) {
    if let RuntimeState::Failed(err) = &view.app.runtimes.state {
        let red = palette(ui).error;
        wide_note(ui, &sentence(&err.summary), red);
        wide_note(ui, &err.advice, palette(ui).text);
    }
}

/// How far the errand is, and the button that stops it: at the right, away from where the one that began it stood, so that
/// a double click on that one does not reach it.
fn progress_ui(ui: &mut Ui, view: &mut View<'_>) {
    let RuntimeState::Running(progress) = &view.app.runtimes.state else {
        wide_note(ui, words::STOPPING, palette(ui).weak);
        return;
    };
    let (text, share) = match progress {
        Some(Progress::Fetching {
            done_bytes,
            total_bytes,
        }) => (
            words::fetching(*done_bytes, *total_bytes),
            Some(*done_bytes as f32 / (*total_bytes).max(1) as f32),
        ),
        Some(Progress::Unpacking { .. }) => (words::UNPACKING.to_owned(), None),
        Some(Progress::Comparing { .. }) => (words::COMPARING.to_owned(), None),
        Some(Progress::Trying) => (words::TRYING.to_owned(), None),
        Some(Progress::Asking { .. }) | None => (words::ASKING.to_owned(), None),
    };
    ui.horizontal(|ui| {
        ui.label(RichText::new(text).small());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let stop = ui.button(words::STOP).on_hover_text(words::STOP_HOVER);
            if stop.clicked() {
                view.push(RuntimeCommand::Stop);
            }
        });
    });
    if let Some(share) = share {
        progress_bar(ui, ProgressBar::new(share).desired_height(theme::SMALL_GAP));
    }
}

fn mend_ui(ui: &mut Ui, view: &mut View<'_>, refusal: &Refusal) {
    wide_note(ui, &sentence(&refusal.what), palette(ui).text);
    wide_note(ui, &refusal.advice, palette(ui).text);
    if refusal.command.is_empty() {
        return;
    }
    let copy = Button::new(with_icon(icons::COPY, &refusal.command));
    if ui
        .add(copy)
        .on_hover_text(words::COPY_HOVER)
        .accessible_name(words::COPY)
        .clicked()
    {
        view.push(DesktopCommand::CopyText(refusal.command.clone()));
    }
}
