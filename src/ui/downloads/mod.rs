//! Downloads: the card of one model that is looked at or on its way, the page with all of them, and the badge in the
//! header.
//!
//! Fetches nothing: the work is [`crate::app::fetching`]'s.

pub(super) mod words;

use egui::{Frame, ProgressBar, RichText, ScrollArea, Ui};
use safelight_core::catalog::{CatalogEntry, Source};

use crate::app::commands::{AppCommand, FetchCommand};
use crate::app::fetching::{Fetch, FetchState, Quoted};
use crate::app::state::Page;
use crate::download::Progress;
use crate::ui::widgets::{
    at_right, card, group_label, icon_button, palette, progress_bar, wide_note,
};
use crate::ui::{View, icons, theme};

pub(super) fn downloads_ui(ui: &mut Ui, view: &mut View<'_>) {
    Frame::new()
        .inner_margin(theme::PAGE_MARGIN)
        .show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.label(RichText::new(words::TITLE).heading().strong());
                at_right(ui, "downloads", |ui| {
                    if icon_button(ui, icons::X, words::CLOSE_PAGE, words::BACK).clicked() {
                        view.push(AppCommand::Show(Page::Watch));
                    }
                    ui.add_space(theme::GAP);
                });
            });
            ui.add_space(theme::SMALL_GAP);
            ScrollArea::vertical()
                .auto_shrink([false, false])
                .show(ui, |ui| {
                    ui.set_max_width((ui.available_width() - theme::GAP).min(theme::PAGE_WIDTH));
                    list_ui(ui, view);
                    ui.add_space(theme::GAP);
                });
        });
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>) {
    let fetching = &view.app.fetching;
    if fetching.fetch.is_none() {
        ui.label(RichText::new(words::NONE).color(palette(ui).weak));
    }
    fetch_ui(ui, view);
    let parked = view.app.fetching.parked.clone();
    if !parked.is_empty() {
        ui.add_space(theme::GAP);
        group_label(ui, words::STOPPED, "");
        for fetch in &parked {
            card(ui, palette(ui).line).show(ui, |ui| {
                ui.set_width(ui.available_width());
                ui.label(RichText::new(&fetch.entry.name).strong());
                parked_ui(ui, view, fetch);
            });
        }
    }
    let arrived = &view.app.fetching.arrived;
    if !arrived.is_empty() {
        ui.add_space(theme::GAP);
        group_label(ui, words::DOWNLOADED, "");
        for name in arrived {
            ui.label(name);
        }
    }
    ui.add_space(theme::GAP);
    let models = ui.button(words::SEE_MODELS);
    if models.on_hover_text(words::SEE_MODELS_HOVER).clicked() {
        view.push(AppCommand::Show(Page::Models));
    }
}

/// How far the running download is, in hundredths, and how many came to a halt.
pub(super) fn state(view: &View<'_>) -> (Option<u32>, usize) {
    let fetching = &view.app.fetching;
    let is_running =
        |fetch: &&Fetch| matches!(fetch.state, FetchState::Running | FetchState::Pausing);
    let percent = fetching.fetch.as_ref().filter(is_running).map(|fetch| {
        let progress = fetch.board.read();
        progress.map_or(0, |progress| (share(&progress) * 100.0) as u32)
    });
    (percent, fetching.stopped().count())
}

fn share(progress: &Progress) -> f32 {
    progress.done_bytes as f32 / progress.total_bytes.max(1) as f32
}

/// The model that is looked at or on its way.
pub(super) fn fetch_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(fetch) = view.app.fetching.fetch.clone() else {
        return;
    };
    let palette = palette(ui);
    ui.add_space(theme::SMALL_GAP);
    card(ui, palette.line).show(ui, |ui| {
        ui.set_width(ui.available_width());
        let entry = &fetch.entry;
        let folder = fetch.folder.display().to_string();
        ui.label(RichText::new(&entry.name).strong());
        wide_note(ui, &entry.description, palette.weak);
        wide_note(ui, &words::licence(&entry.licence), palette.weak);
        for source in &entry.sources {
            source_ui(ui, source);
        }
        wide_note(ui, &words::folder(&folder), palette.weak);
        match &fetch.state {
            FetchState::Shown => shown_ui(ui, view, entry),
            FetchState::Asking => {
                wide_note(ui, words::ASKING, palette.text);
                button(ui, view, words::CANCEL, "", FetchCommand::Pause);
            }
            FetchState::Asked(quoted) => asked_ui(ui, view, &folder, *quoted),
            FetchState::Pausing => wide_note(ui, words::PAUSING, palette.text),
            FetchState::Running => running_ui(ui, view, fetch.board.read().as_ref()),
            FetchState::Stopped(_) => stopped_ui(ui, view, &fetch, FetchCommand::Begin),
        }
    });
}

fn source_ui(ui: &mut Ui, source: &Source) {
    let (part, name) = (source.component.label(), &source.name);
    let text = match (&source.here, source.bytes) {
        (Some(_), _) => words::file_here(part, name),
        (None, Some(bytes)) => words::file_of_size(part, name, bytes),
        (None, None) => words::file_of_unknown_size(part, name),
    };
    let place = match &source.here {
        Some(here) => here.display().to_string(),
        None => words::from_repository(&source.repository),
    };
    ui.scope(|ui| wide_note(ui, &text, palette(ui).text))
        .response
        .on_hover_text(place);
}

fn shown_ui(ui: &mut Ui, view: &mut View<'_>, entry: &CatalogEntry) {
    let count = entry.to_fetch().count();
    if count == 0 {
        wide_note(ui, words::ALL_HERE, palette(ui).amber);
        button(ui, view, words::CLOSE, "", FetchCommand::Show(None));
        return;
    }
    let text = entry
        .bytes_to_fetch()
        .map_or_else(|| words::files_to_download(count), words::bytes_to_download);
    wide_note(ui, &text, palette(ui).text);
    ui.horizontal(|ui| {
        let ask = FetchCommand::Ask;
        button(ui, view, words::DOWNLOAD, words::DOWNLOAD_HOVER, ask);
        button(ui, view, words::CLOSE, "", FetchCommand::Show(None));
    });
}

fn asked_ui(ui: &mut Ui, view: &mut View<'_>, folder: &str, quoted: Quoted) {
    let text = words::question(quoted.left_bytes, folder, quoted.free_bytes);
    wide_note(ui, &text, palette(ui).text);
    ui.horizontal(|ui| {
        button(ui, view, words::DOWNLOAD_NOW, "", FetchCommand::Begin);
        button(ui, view, words::CLOSE, "", FetchCommand::Show(None));
    });
}

fn running_ui(ui: &mut Ui, view: &mut View<'_>, progress: Option<&Progress>) {
    let share = progress.map_or(0.0, share);
    let bar = ProgressBar::new(share).desired_height(theme::SMALL_GAP);
    progress_bar(ui, bar)
        .on_hover_text(words::PROGRESS)
        .accessible_name(words::PROGRESS);
    let text = progress.map_or_else(|| words::STARTING.to_owned(), words::running);
    wide_note(ui, &text, palette(ui).text);
    button(ui, view, words::PAUSE, words::KEPT, FetchCommand::Pause);
}

fn parked_ui(ui: &mut Ui, view: &mut View<'_>, fetch: &Fetch) {
    let resume = FetchCommand::Resume(fetch.entry.id.clone());
    let is_free = !view.app.fetching.is_busy();
    ui.add_enabled_ui(is_free, |ui| stopped_ui(ui, view, fetch, resume));
}

/// Why it came to a halt, and how it goes on.
fn stopped_ui(ui: &mut Ui, view: &mut View<'_>, fetch: &Fetch, again: FetchCommand) {
    let palette = palette(ui);
    let FetchState::Stopped(err) = &fetch.state else {
        return;
    };
    let name = if let Some(err) = err {
        wide_note(ui, &err.summary, palette.error);
        if !err.advice.is_empty() {
            wide_note(ui, &err.advice, palette.weak);
        }
        words::TRY_AGAIN
    } else {
        let text = fetch.board.read();
        let text = text.map_or_else(|| words::PAUSED.to_owned(), |it| words::paused(&it));
        wide_note(ui, &text, palette.text);
        words::CONTINUE
    };
    ui.horizontal(|ui| {
        button(ui, view, name, words::KEPT, again);
        let forget = FetchCommand::Forget(fetch.entry.id.clone());
        button(ui, view, words::CLOSE, words::KEPT, forget);
    });
}

fn button(ui: &mut Ui, view: &mut View<'_>, name: &str, explanation: &str, command: FetchCommand) {
    let mut button = ui.button(name);
    if !explanation.is_empty() {
        button = button.on_hover_text(explanation);
    }
    if button.clicked() {
        view.push(command);
    }
}
