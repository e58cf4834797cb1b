//! The report on the doctor's page: its button, how far it is, and what there is when it is made.

use egui::{Frame, Label, Margin, ProgressBar, RichText, Ui};

use crate::app::commands::DoctorCommand;
use crate::app::reporting::State;
use crate::ui::widgets::{page_button, palette, progress_bar};
use crate::ui::{View, icons, theme};

/// The button that asks for one.
pub(super) fn button_ui(ui: &mut Ui, view: &mut View<'_>, is_small: bool) {
    let is_idle = view.app.queue.running.is_none();
    let is_enabled = is_idle && !view.app.doctor.report.is_busy();
    let explanation = if is_idle {
        "Measure this machine for up to ten minutes and write a page about it, without names and \
        folders. Nothing is sent"
    } else {
        "A report measures this machine: it waits until no job runs"
    };
    let button = ui.add_enabled_ui(is_enabled, |ui| {
        page_button(ui, is_small, icons::CLOCK, "Make a report", explanation)
    });
    if button.inner.on_disabled_hover_text(explanation).clicked() {
        view.push(DoctorCommand::MakeReport);
    }
}

/// How far it is, or where it lies.
pub(super) fn progress_ui(ui: &mut Ui, view: &mut View<'_>) {
    let state = &view.app.doctor.report.state;
    let (text, part) = match state {
        State::None => return,
        State::Running(progress) if progress.what.is_empty() => (
            measuring_text("Looking at this machine"),
            Some(progress.part),
        ),
        State::Running(progress) => (measuring_text(&progress.what), Some(progress.part)),
        State::Stopping => ("Writing down what was measured…".to_owned(), None),
        State::Made(made) if made.is_whole => (
            "The report is there. Nothing was sent: read it before you give it to anybody"
                .to_owned(),
            None,
        ),
        State::Made(_) => (
            "The report was stopped: what was measured until then is there".to_owned(),
            None,
        ),
    };
    let is_made = matches!(state, State::Made(_));
    let frame = Frame::new()
        .fill(palette(ui).panel)
        .corner_radius(theme::CARD_RADIUS)
        .inner_margin(Margin::symmetric(16, 10));
    ui.add_space(theme::SMALL_GAP);
    frame.show(ui, |ui| {
        ui.set_width((ui.available_width() - 12.0).min(theme::PAGE_WIDTH));
        ui.add(Label::new(RichText::new(text)).wrap());
        if let Some(part) = part {
            progress_bar(ui, ProgressBar::new(part).desired_height(theme::SMALL_GAP));
        }
        ui.horizontal(|ui| {
            if is_made {
                made_ui(ui, view);
            } else if part.is_some() {
                let stop = ui
                    .button("Cancel")
                    .on_hover_text("Measure no more. What was measured until now is kept");
                if stop.clicked() {
                    view.push(DoctorCommand::StopReport);
                }
            }
        });
    });
}

/// Progress of a report.
fn measuring_text(what: &str) -> String {
    format!("Making a report: {what}")
}

fn made_ui(ui: &mut Ui, view: &mut View<'_>) {
    let open = ui
        .button("Open")
        .on_hover_text("Open the page in your browser");
    if open.clicked() {
        view.push(DoctorCommand::OpenReport);
    }
    let show = ui
        .button("Show folder")
        .on_hover_text("Open the folder with the page and its figures as JSON");
    if show.clicked() {
        view.push(DoctorCommand::ShowReportFolder);
    }
}
