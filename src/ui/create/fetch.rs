//! Known models that are not on this disk: what each needs, and fetching it once that was agreed to.

use egui::{ProgressBar, RichText, Ui};
use safelight_core::catalog::{CatalogEntry, Source};
use safelight_core::units::{duration_text, size_text};

use crate::app::commands::{AppCommand, FetchCommand};
use crate::app::fetching::{Fetch, FetchState, Quoted};
use crate::download::{Phase, Progress};
use crate::ui::widgets::{card, palette, progress_bar, wide_note};
use crate::ui::{View, theme};

/// The model that is looked at or on its way.
pub(in crate::ui) fn fetch_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(fetch) = view.app.fetching.fetch.clone() else {
        return;
    };
    let palette = palette(ui);
    ui.add_space(theme::SMALL_GAP);
    card(ui, palette.field).show(ui, |ui| {
        ui.set_width(ui.available_width());
        let entry = &fetch.entry;
        ui.label(RichText::new(&entry.name).strong());
        wide_note(ui, &entry.description, palette.weak);
        wide_note(ui, &format!("Licence: {}", entry.licence), palette.weak);
        for source in &entry.sources {
            source_ui(ui, source);
        }
        wide_note(
            ui,
            &format!("Goes into {}", fetch.folder.display()),
            palette.weak,
        );
        match &fetch.state {
            FetchState::Shown => shown_ui(ui, view, entry),
            FetchState::Asking => {
                wide_note(ui, "Asking the server for sizes…", palette.text);
                button(ui, view, "Cancel", AppCommand::Fetch(FetchCommand::Pause));
            }
            FetchState::Asked(quoted) => asked_ui(ui, view, &fetch, *quoted),
            FetchState::Pausing => wide_note(ui, "Pausing…", palette.text),
            FetchState::Running => running_ui(ui, view, fetch.board.read().as_ref()),
            FetchState::Stopped(err) => {
                match (err, fetch.board.read()) {
                    (Some(err), _) => {
                        wide_note(ui, &err.summary, palette.error);
                        if !err.advice.is_empty() {
                            wide_note(ui, &err.advice, palette.weak);
                        }
                    }
                    (None, progress) => wide_note(ui, &paused_text(progress), palette.text),
                }
                ui.horizontal(|ui| {
                    button(ui, view, "Go on", AppCommand::Fetch(FetchCommand::Begin));
                    button(
                        ui,
                        view,
                        "Close",
                        AppCommand::Fetch(FetchCommand::Show(None)),
                    );
                });
            }
        }
    });
}

fn source_ui(ui: &mut Ui, source: &Source) {
    let size = match (&source.here, source.bytes) {
        (Some(_), _) => "here already".to_owned(),
        (None, Some(bytes)) => size_text(bytes),
        (None, None) => "size from the server".to_owned(),
    };
    let text = format!("{}: {}, {size}", source.component.label(), source.name);
    let place = match &source.here {
        Some(here) => here.display().to_string(),
        None => format!("From {} on huggingface.co", source.repository),
    };
    ui.scope(|ui| wide_note(ui, &text, palette(ui).text))
        .response
        .on_hover_text(place);
}

fn shown_ui(ui: &mut Ui, view: &mut View<'_>, entry: &CatalogEntry) {
    let text = match (entry.to_fetch().count(), entry.bytes_to_fetch()) {
        (0, _) => {
            wide_note(
                ui,
                "All files are here; what is wrong stands below",
                palette(ui).amber,
            );
            button(
                ui,
                view,
                "Close",
                AppCommand::Fetch(FetchCommand::Show(None)),
            );
            return;
        }
        (_, Some(bytes)) => format!("{} to fetch", size_text(bytes)),
        (1, None) => "1 file to fetch".to_owned(),
        (count, None) => format!("{count} files to fetch"),
    };
    wide_note(ui, &text, palette(ui).text);
    ui.horizontal(|ui| {
        button(ui, view, "Download…", AppCommand::Fetch(FetchCommand::Ask));
        button(
            ui,
            view,
            "Close",
            AppCommand::Fetch(FetchCommand::Show(None)),
        );
    });
}

fn asked_ui(ui: &mut Ui, view: &mut View<'_>, fetch: &Fetch, quoted: Quoted) {
    let free = quoted.free_bytes.map_or_else(String::new, |bytes| {
        format!(", where {} are free", size_text(bytes))
    });
    let text = format!(
        "Fetch {} into {}{free}?",
        size_text(quoted.left_bytes),
        fetch.folder.display()
    );
    wide_note(ui, &text, palette(ui).text);
    ui.horizontal(|ui| {
        button(
            ui,
            view,
            "Fetch now",
            AppCommand::Fetch(FetchCommand::Begin),
        );
        button(
            ui,
            view,
            "Close",
            AppCommand::Fetch(FetchCommand::Show(None)),
        );
    });
}

fn running_ui(ui: &mut Ui, view: &mut View<'_>, progress: Option<&Progress>) {
    let (share, text) = progress.map_or_else(
        || (0.0, "Beginning…".to_owned()),
        |progress| {
            let share = progress.done_bytes as f32 / progress.total_bytes.max(1) as f32;
            (share, running_text(progress))
        },
    );
    let bar = ProgressBar::new(share).desired_height(theme::SMALL_GAP);
    progress_bar(ui, bar)
        .on_hover_text("How much has come")
        .accessible_name("How much has come");
    wide_note(ui, &text, palette(ui).text);
    button(ui, view, "Pause", AppCommand::Fetch(FetchCommand::Pause));
}

fn running_text(progress: &Progress) -> String {
    match progress.phase {
        Phase::Asking => format!("Asking for {}", progress.name),
        Phase::Checking => format!("Checking {}", progress.name),
        Phase::Fetching => {
            let speed = size_text(progress.bytes_per_sec as u64);
            let left = progress.secs_left().map_or_else(
                || "waiting for the server".to_owned(),
                |secs| format!("{speed}/s, {} left", duration_text(secs)),
            );
            format!(
                "Fetching {}: {}, {left}",
                progress.name,
                amount_text(progress)
            )
        }
    }
}

fn paused_text(progress: Option<Progress>) -> String {
    progress.map_or_else(
        || "Paused".to_owned(),
        |progress| format!("Paused: {} are here", amount_text(&progress)),
    )
}

fn amount_text(progress: &Progress) -> String {
    let (done, total) = (progress.done_bytes, progress.total_bytes);
    format!("{} of {}", size_text(done), size_text(total))
}

fn button(ui: &mut Ui, view: &mut View<'_>, name: &str, command: AppCommand) {
    if ui.button(name).clicked() {
        view.push(command);
    }
}
