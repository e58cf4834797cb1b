//! The libtorch folders: the card on the first page that says how jobs get onto this machine's GPU, and the section of the
//! settings with all of them.
//!
//! The card is shown where jobs are not there yet, or have just come.

mod section;

use egui::{Align, Button, Layout, ProgressBar, RichText, Ui};
use safelight_core::units::size_text;

use crate::app::commands::{AppCommand, DesktopCommand, RuntimeCommand, SettingsCommand};
use crate::app::notices::sentence;
use crate::app::runtimes::RuntimeState;
use crate::app::state::Page;
use crate::runtimes::{Advice, Build, Kind, Progress, Refusal, folder};
use crate::ui::widgets::{card, palette, progress_bar, wide_note, with_icon};
use crate::ui::{View, icons, theme};
pub(in crate::ui) use section::{KEY, SectionState, section_ui};
const DONE: &str = "The new libtorch is installed. The next job uses it";
const GET_HOVER: &str =
    "Download it, run the self-test and use it. The current runtime stays installed";
const USE: &str = "Use it";
const USE_HOVER: &str =
    "Try whether it computes right, and use it. The one in use stays on the disk";
const NEVER_ON_AMD: &str = "Safelight has not yet run on any AMD GPU.";

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
                ui.label(RichText::new(DONE).color(colour));
            }
            (Advice::Get { gpu, build }, _) => {
                ui.label(RichText::new(on_cpu_text(&gpu.name)).color(colour));
                let folder = view.app.cx.paths.as_ref().map(folder).unwrap_or_default();
                let folder = folder.join(&build.id).display().to_string();
                wide_note(ui, &get_text(build, &folder), palette(ui).text);
                let note = "It is tried in a process of its own before jobs get it. The one in use \
                           stays on the disk.";
                wide_note(ui, note, palette(ui).weak);
                if build.kind == Kind::Rocm {
                    wide_note(ui, NEVER_ON_AMD, palette(ui).weak);
                }
                follow_ui(ui, view, "Get it", GET_HOVER);
            }
            (Advice::Use { gpu, id }, _) => {
                ui.label(RichText::new(on_cpu_text(&gpu.name)).color(colour));
                wide_note(
                    ui,
                    &format!("The libtorch “{id}” on this disk serves it."),
                    palette(ui).text,
                );
                follow_ui(ui, view, USE, USE_HOVER);
            }
            (Advice::Mend { gpu, refusal }, _) => {
                ui.label(RichText::new(on_cpu_text(&gpu.name)).color(colour));
                mend_ui(ui, view, refusal);
            }
            (Advice::NoGpu | Advice::CpuChosen | Advice::Served { .. }, _) => {}
        }
        if ui
            .link("All runtimes")
            .on_hover_text("See in the settings what is on this disk and what fits this machine")
            .clicked()
        {
            view.push(SettingsCommand::Show(KEY));
        }
    });
    ui.add_space(theme::GAP);
}

fn on_cpu_text(gpu: &str) -> String {
    format!("{gpu}: Safelight runs on the CPU")
}

fn get_text(build: &Build, folder: &str) -> String {
    let (name, licences) = (&build.name, &build.licences);
    let size = size_text(build.download_mb * 1_000_000);
    format!("{name} serves it: about {size} to download into {folder}. Licences: {licences}.")
}

/// Beside what the status line says of the device: that a GPU is idle, and the way to the card.
pub(in crate::ui) fn idle_ui(ui: &mut Ui, view: &mut View<'_>) {
    let is_done = view.app.runtimes.has_changed();
    let is_wanted = !is_done && view.app.cx.page != Page::Welcome;
    let Some(gpu) = view.app.runtimes.idle_gpu().filter(|_| is_wanted) else {
        return;
    };
    let text = RichText::new(format!("{} is not used", gpu.name)).small();
    let button = Button::new(text.color(palette(ui).amber)).frame_when_inactive(false);
    if ui
        .add(button)
        .on_hover_text("See how jobs get onto this GPU")
        .clicked()
    {
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
        wide_note(ui, "Stopping…", palette(ui).weak);
        return;
    };
    let (text, share) = match progress {
        Some(Progress::Fetching {
            done_bytes,
            total_bytes,
        }) => (
            format!("{} of {}", size_text(*done_bytes), size_text(*total_bytes)),
            Some(*done_bytes as f32 / (*total_bytes).max(1) as f32),
        ),
        Some(Progress::Unpacking { .. }) => ("Unpacking…".to_owned(), None),
        Some(Progress::Comparing { .. }) => ("Verifying files…".to_owned(), None),
        Some(Progress::Trying) => ("Trying whether it computes right…".to_owned(), None),
        Some(Progress::Asking { .. }) | None => ("Asking for sizes…".to_owned(), None),
    };
    ui.horizontal(|ui| {
        ui.label(RichText::new(text).small());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let stop = ui
                .button("Cancel")
                .on_hover_text("What was downloaded is kept for the next time");
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
        .on_hover_text("Copy this command, and run it in a terminal")
        .accessible_name("Copy the command that helps")
        .clicked()
    {
        view.push(DesktopCommand::CopyText(refusal.command.clone()));
    }
}
