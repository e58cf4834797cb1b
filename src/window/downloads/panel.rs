//! Downloads: the card of one model that is looked at or on its way, the page with all of them, and the badge in the
//! header.
//!
//! Fetches nothing: the work is [`crate::window::downloads`]'s.

use safelight_core::catalog::{CatalogEntry, DownloadSource, HelperKind, helper_entry};

use crate::download::{DownloadPhase, DownloadStatus};
use crate::window::context::AppContext;
use crate::window::downloads::{DownloadQuote, FetchState, ModelDownload, ModelFetch};
use crate::window::layout::prelude::*;

const CLOSE: &str = "Close";
const KEPT: &str = "What has been downloaded is kept, and is not downloaded again";
const PROGRESS: &str = "Download progress";

pub(crate) fn downloads_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    Frame::new()
        .inner_margin(theme::PAGE_MARGIN)
        .show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.label(RichText::new("Downloads").heading().strong());
                at_right(ui, "downloads", |ui| {
                    view.close_button(ui, "Close the downloads");
                    ui.add_space(theme::GAP);
                });
            });
            ui.add_space(theme::SMALL_GAP);
            page_column(ui, "downloads", |ui| {
                list_ui(ui, view);
                ui.add_space(theme::GAP);
            });
        });
}

fn list_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let fetching = &view.app.fetching;
    if fetching.fetch.is_none() {
        ui.weak("Nothing is being downloaded.");
    }
    fetch_ui(ui, view);
    let parked = view.app.fetching.parked.clone();
    if !parked.is_empty() {
        ui.add_space(theme::GAP);
        group_label(ui, "Paused or failed", "");
        for fetch in &parked {
            wide_frame(ui, card(ui, palette(ui).line), |ui| {
                ui.strong(&fetch.entry.name);
                let id = fetch.entry.id.clone();
                ui.add_enabled_ui(!view.app.fetching.is_busy(), |ui| {
                    stopped_ui(ui, view, fetch, move |it, cx| it.resume(&id, cx));
                });
            });
        }
    }
    let arrived = &view.app.fetching.arrived;
    if !arrived.is_empty() {
        ui.add_space(theme::GAP);
        group_label(ui, "Downloaded since Safelight was opened", "");
        for name in arrived {
            ui.label(name);
        }
    }
    ui.add_space(theme::GAP);
    let models = ui.button("See all models");
    let button = models.on_hover_text("Models that can be downloaded, and whether they fit");
    view.on_click(&button, AppCommand::Show(MainPage::Models));
}

/// Button that shows the download of a helper network for the form's model; nothing if none is known.
pub(crate) fn get_button(ui: &mut Ui, view: &mut UiContext<'_>, kind: HelperKind) {
    if let Some(entry) = helper_entry(kind, view.model()) {
        offer_button(ui, view, entry);
    }
}

/// Button that shows the download of a helper network.
pub(crate) fn offer_button(ui: &mut Ui, view: &mut UiContext<'_>, entry: CatalogEntry) {
    let button = ui.add(Button::new(format!("Get {}…", entry.name)).truncate());
    let button = button.on_hover_text("Show its files, its size and its licence, and download it");
    view.on_click(&button, FetchCommand::Offer(Box::new(entry)));
}

/// Progress of the running download in percent, and the number of stopped ones.
pub(crate) fn state(view: &UiContext<'_>) -> (Option<u32>, usize) {
    let fetching = &view.app.fetching;
    let fetch = fetching.fetch.as_ref();
    let fetch = fetch.filter(|it| matches!(it.state, FetchState::Running | FetchState::Pausing));
    let percent = fetch.map(|fetch| (fetch.progress.as_ref().map_or(0.0, share) * 100.0) as u32);
    (percent, fetching.stopped().count())
}

fn share(progress: &DownloadStatus) -> f32 {
    progress.done_bytes as f32 / progress.total_bytes.max(1) as f32
}

pub(crate) fn fetch_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(fetch) = view.app.fetching.fetch.clone() else {
        return;
    };
    ui.add_space(theme::SMALL_GAP);
    wide_frame(ui, card(ui, palette(ui).line), |ui| {
        let entry = &fetch.entry;
        let folder = fetch.folder.display().to_string();
        ui.strong(&entry.name);
        wide_note(ui, &entry.description, NoteTone::Hint);
        wide_note(ui, &format!("Licence: {}", entry.licence), NoteTone::Hint);
        for source in &entry.sources {
            source_ui(ui, source);
        }
        wide_note(ui, &format!("Goes into {folder}"), NoteTone::Hint);
        match &fetch.state {
            FetchState::Shown => shown_ui(ui, view, entry),
            FetchState::Asking => {
                wide_note(ui, "Asking the server for sizes…", NoteTone::Plain);
                button(ui, view, "Cancel", "", |it, _| it.pause());
            }
            FetchState::Confirming(quoted) => confirm_ui(ui, view, &folder, *quoted),
            FetchState::Pausing => {
                wide_note(ui, "Pausing…", NoteTone::Plain);
            }
            FetchState::Running => running_ui(ui, view, fetch.progress.as_ref()),
            FetchState::Stopped(_) => stopped_ui(ui, view, &fetch, begin),
        }
    });
}

fn source_ui(ui: &mut Ui, source: &DownloadSource) {
    let (part, name) = (source.label, &source.name);
    let text = match (&source.here, source.bytes) {
        (Some(_), _) => format!("{part}: {name}, already on this disk"),
        (None, Some(bytes)) => format!("{part}: {name}, {}", size_text(bytes)),
        (None, None) => format!("{part}: {name}, size not known yet"),
    };
    let place = match &source.here {
        Some(here) => here.display().to_string(),
        None => format!("From {} on huggingface.co", source.repository),
    };
    wide_note(ui, &text, NoteTone::Plain).on_hover_text(place);
}

fn shown_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &CatalogEntry) {
    let count = entry.to_fetch().count();
    if count == 0 {
        let note = "All files are present. The problem is shown below";
        wide_note(ui, note, NoteTone::Warning);
        button(ui, view, CLOSE, "", |it, cx| it.show(None, cx));
        return;
    }
    let text = entry.bytes_to_fetch().map_or_else(
        || counted(count, "1 file to download", "{} files to download"),
        |bytes| format!("{} to download", size_text(bytes)),
    );
    wide_note(ui, &text, NoteTone::Plain);
    ui.horizontal(|ui| {
        let hover = "Asks the server for the sizes first";
        button(ui, view, "Download…", hover, |it, cx| {
            it.send(FetchState::Asking, cx);
        });
        button(ui, view, CLOSE, "", |it, cx| it.show(None, cx));
    });
}

fn confirm_ui(ui: &mut Ui, view: &mut UiContext<'_>, folder: &str, quoted: DownloadQuote) {
    let free = quoted.free_bytes.map(size_text);
    let free = free.map_or_else(String::new, |free| format!(" {free} are free there."));
    let bytes = size_text(quoted.left_bytes);
    let text = format!("Download {bytes} into {folder}?{free}");
    wide_note(ui, &text, NoteTone::Plain);
    ui.horizontal(|ui| {
        button(ui, view, "Download now", "", begin);
        button(ui, view, CLOSE, "", |it, cx| it.show(None, cx));
    });
}

fn running_ui(ui: &mut Ui, view: &mut UiContext<'_>, progress: Option<&DownloadStatus>) {
    thin_progress(ui, progress.map_or(0.0, share))
        .on_hover_text(PROGRESS)
        .accessible_name(PROGRESS);
    let text = progress.map_or_else(|| "Starting…".to_owned(), running_text);
    wide_note(ui, &text, NoteTone::Plain);
    button(ui, view, "Pause", KEPT, |it, _| it.pause());
}

fn running_text(progress: &DownloadStatus) -> String {
    let DownloadStatus { phase, name, .. } = progress;
    let amount = amount_text(progress);
    match (phase, progress.secs_left()) {
        (DownloadPhase::Asking, _) => format!("Asking for {name}"),
        (DownloadPhase::Checking, _) => format!("Checking {name}"),
        (DownloadPhase::Fetching, None) => {
            format!("Downloading {name}: {amount}, waiting for the server")
        }
        (DownloadPhase::Fetching, Some(secs)) => {
            let speed = size_text(progress.bytes_per_sec as u64);
            let left = duration_text(secs);
            format!("Downloading {name}: {amount}, {speed}/s, {left} left")
        }
    }
}

/// `4 MiB of 6 MiB`
fn amount_text(progress: &DownloadStatus) -> String {
    let (done, total) = (progress.done_bytes, progress.total_bytes);
    format!("{} of {}", size_text(done), size_text(total))
}

fn stopped_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    fetch: &ModelDownload,
    again: impl FnOnce(&mut ModelFetch, &AppContext) + 'static,
) {
    let FetchState::Stopped(err) = &fetch.state else {
        return;
    };
    let name = if let Some(err) = err {
        wide_note(ui, &err.summary, NoteTone::Error);
        if !err.advice.is_empty() {
            wide_note(ui, &err.advice, NoteTone::Hint);
        }
        "Try again"
    } else {
        let text = match &fetch.progress {
            Some(progress) => format!("Paused at {}", amount_text(progress)),
            None => "Paused".to_owned(),
        };
        wide_note(ui, &text, NoteTone::Plain);
        "Continue"
    };
    ui.horizontal(|ui| {
        button(ui, view, name, KEPT, again);
        let id = fetch.entry.id.clone();
        button(ui, view, CLOSE, KEPT, move |it, _| it.forget(&id));
    });
}

fn begin(fetching: &mut ModelFetch, cx: &AppContext) {
    fetching.send(FetchState::Running, cx);
}

fn button(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    name: &str,
    hover: &str,
    act: impl FnOnce(&mut ModelFetch, &AppContext) + 'static,
) {
    let mut button = ui.button(name);
    if !hover.is_empty() {
        button = button.on_hover_text(hover);
    }
    view.on_press(&button, |app| act(&mut app.fetching, &app.cx));
}
