//! The page of models: a list that is searched, and the card of the one that is looked at.
//!
//! Knows no file: what is on cards was read in the background.

mod details;
mod list;
pub(super) mod welcome;

use egui::{
    Align, Frame, Id, Key, Layout, Margin, Modifiers, RichText, TextEdit, Ui, UiBuilder, vec2,
};
use safelight_core::units::about_rough_text;

use crate::app::commands::{AppCommand, LibraryCommand, SettingsCommand};
use crate::app::library::survey::{Fit, FitWord};
use crate::app::state::Page;
use crate::ui::widgets::{icon_button, palette, with_icon};
use crate::ui::{View, icons, theme};

const LOOK_AGAIN: &str = "Look again";
const LOOK_AGAIN_HOVER: &str = "Look for models again (F5)";
const ADD_FOLDER: &str = "Add a folder…";
const ADD_FOLDER_NAME: &str = "Add a models folder";
const ADD_FOLDER_HOVER: &str =
    "Also look for models in another folder, or in another program's. Nothing is copied or moved";
const LOOKING: &str = "Looking for models…";
const WAYS: &str = "What makes it fit:";
const ASKS_FIRST: &str =
    "Shows the files, their sizes and where they go. Nothing is downloaded before you agree";

/// What the page remembers for itself.
#[derive(Default)]
pub struct LibraryPanel {
    /// How often the page was opened, as far as it has followed.
    num_opened: u64,
    /// How often the choice has moved to where it may not be seen, as far as the list has followed.
    num_moves: u64,
    /// Another field had the keyboard in the last frame.
    is_typing: bool,
    /// How far the list is scrolled, in points.
    scroll_offset: f32,
}

pub(super) fn library_ui(ui: &mut Ui, view: &mut View<'_>) {
    keys(ui, view);
    let frame = Frame::new().inner_margin(Margin {
        left: 20,
        right: 12,
        top: 14,
        bottom: 8,
    });
    frame.show(ui, |ui| {
        header_ui(ui, view);
        ui.add_space(theme::SMALL_GAP);
        let rect = ui.available_rect_before_wrap();
        let (list, mut card) = if rect.width() < theme::STACK_WIDTH {
            rect.split_top_bottom_at_fraction(theme::STAGE_SHARE)
        } else {
            let width = (rect.width() * 0.45).clamp(theme::MODELS_MIN_WIDTH, theme::MODELS_WIDTH);
            rect.split_left_right_at_x(rect.left() + width)
        };
        let layout = Layout::top_down(Align::Min);
        ui.scope_builder(UiBuilder::new().max_rect(list).layout(layout), |ui| {
            list::list_ui(ui, view);
        });
        if card.left() > list.left() {
            card.min.x += theme::GAP;
        } else {
            card.min.y += theme::SMALL_GAP;
        }
        ui.scope_builder(UiBuilder::new().max_rect(card).layout(layout), |ui| {
            details::details_ui(ui, view);
        });
    });
}

/// The title, the search and the buttons; the search in a row of its own where there is little room.
fn header_ui(ui: &mut Ui, view: &mut View<'_>) {
    let is_small = ui.available_width() < theme::SEARCH_BESIDE_WIDTH;
    ui.horizontal(|ui| {
        ui.label(RichText::new("Models").heading().strong());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            buttons_ui(ui, view);
            if !is_small {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    search_ui(ui, view);
                });
            }
        });
    });
    if is_small {
        ui.horizontal(|ui| search_ui(ui, view));
    }
}

/// From the last to the first.
fn buttons_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = "Back to the picture (Escape)";
    if icon_button(ui, icons::X, "Close the models", explanation).clicked() {
        view.push(AppCommand::Show(Page::Watch));
    }
    if icon_button(ui, icons::RESET, LOOK_AGAIN, LOOK_AGAIN_HOVER).clicked() {
        view.push(LibraryCommand::Reload);
    }
    if ui
        .button("First steps")
        .on_hover_text("What was found, what this machine can run, what to download")
        .clicked()
    {
        view.push(AppCommand::Show(Page::Welcome));
    }
    let is_free = !view.app.cx.background.is_asking();
    // Its words would need more than there is.
    let text = if ui.available_width() < theme::KEYS_WIDTH {
        icons::FOLDER_OPEN.to_string()
    } else {
        with_icon(icons::FOLDER_OPEN, ADD_FOLDER)
    };
    if ui
        .add_enabled(is_free, egui::Button::new(text))
        .on_hover_text(ADD_FOLDER_HOVER)
        .accessible_name(ADD_FOLDER_NAME)
        .clicked()
    {
        let purpose = crate::app::commands::FolderSetting::Models;
        view.push(SettingsCommand::PickFolder(purpose));
    }
}

fn search_ui(ui: &mut Ui, view: &mut View<'_>) {
    let mut query = view.app.library.query.clone();
    let hint = "Search by name, kind, folder…";
    let field = TextEdit::singleline(&mut query)
        .id(search_id())
        .hint_text(with_icon(icons::SEARCH, hint))
        .desired_width(f32::INFINITY);
    let response = ui
        .add_sized(
            vec2(ui.available_width(), ui.spacing().interact_size.y),
            field,
        )
        .on_hover_text("All words must match. Arrows select, Enter uses, Escape goes back")
        .accessible_name("Search models");
    let num_opened = view.app.library.num_opened;
    if std::mem::replace(&mut view.panels.library.num_opened, num_opened) != num_opened {
        response.request_focus();
    }
    if response.changed() {
        view.push(LibraryCommand::Search(query));
    }
}

fn search_id() -> Id {
    Id::unique("search-of-models")
}

/// Arrows, Enter and Escape, before the search field sees them.
fn keys(ui: &Ui, view: &mut View<'_>) {
    if view.app.palette.is_covered(ui.ctx()) {
        return;
    }
    let focused = ui.memory(|memory| memory.focused());
    let is_elsewhere = focused.is_some_and(|id| id != search_id());
    // The key that leaves a field is still the field's.
    let was_elsewhere = std::mem::replace(&mut view.panels.library.is_typing, is_elsewhere);
    if is_elsewhere || was_elsewhere {
        return;
    }
    let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let by = [
        (Key::ArrowDown, 1),
        (Key::ArrowUp, -1),
        (Key::PageDown, 8),
        (Key::PageUp, -8),
    ]
    .into_iter()
    .find_map(|(key, by)| pressed(key).then_some(by));
    if let Some(by) = by {
        view.push(LibraryCommand::Step(by));
    }
    if pressed(Key::Enter)
        && let Some(id) = view.app.library.chosen.clone()
    {
        view.push(LibraryCommand::Use(id));
    }
    if pressed(Key::Escape) {
        view.push(AppCommand::Show(Page::Watch));
    }
}

/// The colour of the words on whether a model fits. Too large at its defaults is no obstacle where something helps.
fn fit_colour(ui: &Ui, fit: Option<&Fit>) -> egui::Color32 {
    let palette = palette(ui);
    match fit.map(|fit| (fit.word, fit.ways.is_empty())) {
        Some((FitWord::Fits, _)) => palette.good,
        Some((FitWord::Squeezed, _) | (FitWord::TooLarge, false)) => palette.amber,
        Some((FitWord::TooLarge, true)) => palette.error,
        Some((FitWord::Unknown, _)) | None => palette.weak,
    }
}

/// Memory verdict of a model, with the time of one result if known: `fits · about 14 h`.
fn fit_text(fit: &Fit) -> String {
    match (fit.word, fit.secs.map(about_rough_text)) {
        (FitWord::Fits, Some(time)) => format!("fits · {time}"),
        (FitWord::Fits, None) => "fits".to_owned(),
        (FitWord::Squeezed, Some(time)) => format!("just fits · {time}"),
        (FitWord::Squeezed, None) => "just fits".to_owned(),
        (FitWord::TooLarge, _) if !fit.ways.is_empty() => "too large at its defaults".to_owned(),
        (FitWord::TooLarge, _) => "too large".to_owned(),
        (FitWord::Unknown, _) => String::new(),
    }
}

/// Verdict and remedies, one per line.
fn fit_hover(fit: &Fit) -> String {
    let mut lines = vec![fit.text.clone()];
    if !fit.ways.is_empty() {
        lines.push(WAYS.to_owned());
        lines.extend(fit.ways.iter().map(|way| format!("• {way}")));
    }
    lines.join("\n")
}
