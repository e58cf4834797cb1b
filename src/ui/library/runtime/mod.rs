//! The card on the first page that says how jobs get onto this machine's GPU, and brings them there.
//!
//! Shown where they are not there yet, or have just come.

mod words;

use egui::{Button, ProgressBar, RichText, Ui};

use crate::app::commands::{DesktopCommand, RuntimeCommand};
use crate::app::notices::sentence;
use crate::app::runtimes::RuntimeState;
use crate::runtimes::{Advice, Progress, Refusal};
use crate::ui::widgets::{card, palette, wide_note, with_icon};
use crate::ui::{View, icons, theme};

pub(super) fn runtime_ui(ui: &mut Ui, view: &mut View<'_>) {
    let machine = view.app.library.survey.machine.as_ref();
    let Some(advice) = machine.map(|machine| machine.advice.clone()) else {
        return;
    };
    let is_done = view.app.runtimes.state == RuntimeState::Done;
    if matches!(advice, Advice::NoGpu | Advice::Served { .. }) && !is_done {
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
                wide_note(ui, &words::get(build), palette(ui).text);
                wide_note(ui, words::NOT_TRIED, palette(ui).weak);
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
            (Advice::NoGpu | Advice::Served { .. }, _) => {}
        }
    });
    ui.add_space(theme::GAP);
}

/// The button that does what is advised, or how far it is.
fn follow_ui(ui: &mut Ui, view: &mut View<'_>, name: &str, explanation: &str) {
    if let RuntimeState::Failed(err) = &view.app.runtimes.state {
        let red = palette(ui).error;
        wide_note(ui, &sentence(&err.summary), red);
        wide_note(ui, &err.advice, palette(ui).text);
    }
    match &view.app.runtimes.state {
        RuntimeState::Running(progress) => {
            let (text, share) = match progress {
                Some(Progress::Fetching {
                    done_bytes,
                    total_bytes,
                }) => (
                    words::fetching(*done_bytes, *total_bytes),
                    Some(*done_bytes as f32 / (*total_bytes).max(1) as f32),
                ),
                Some(Progress::Unpacking { .. }) => (words::UNPACKING.to_owned(), None),
                Some(Progress::Trying) => (words::TRYING.to_owned(), None),
                Some(Progress::Asking { .. }) | None => (words::ASKING.to_owned(), None),
            };
            wide_note(ui, &text, palette(ui).text);
            if let Some(share) = share {
                ui.add(ProgressBar::new(share).desired_height(theme::SMALL_GAP));
            }
            if ui
                .button(words::STOP)
                .on_hover_text(words::STOP_HOVER)
                .clicked()
            {
                view.push(RuntimeCommand::Stop);
            }
        }
        RuntimeState::Stopping => wide_note(ui, words::STOPPING, palette(ui).weak),
        _ => {
            if ui.button(name).on_hover_text(explanation).clicked() {
                view.push(RuntimeCommand::Follow);
            }
        }
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
