//! The wildcard files that there are, behind a button.

use egui::{Button, Popup, PopupCloseBehavior, RichText, ScrollArea, Ui, vec2};
use safelight_core::job::prompt::WildcardFile;

use crate::app::commands::PromptCommand;
use crate::ui::create::prompt::words;
use crate::ui::widgets::{icon_button, list_height, palette, search_field, wide_note, with_icon};
use crate::ui::{View, icons, theme};

pub(super) fn button_ui(ui: &mut Ui, view: &mut View<'_>) {
    let button = icon_button(
        ui,
        icons::ASTERISK,
        words::WILDCARDS,
        words::WILDCARDS_HOVER,
    );
    if button.clicked() {
        view.panels.prompt.wildcard_search.clear();
        view.push(PromptCommand::LookAtWildcards);
    }
    Popup::menu(&button)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        .width(theme::LIST_WIDTH)
        .accessible_name(words::WILDCARDS)
        .show(|ui| list_ui(ui, view));
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>) {
    let weak = palette(ui).weak;
    let mut wish = None;
    match view.app.prompt.wildcards.clone() {
        None => {
            ui.label(RichText::new(words::WILDCARDS_LOOKING).color(weak));
        }
        Some(files) if files.is_empty() => {
            wide_note(ui, words::WILDCARDS_NONE, weak);
        }
        Some(files) => {
            let search = &mut view.panels.prompt.wildcard_search;
            search_field(ui, search, words::WILDCARDS_SEARCH);
            let wanted = search.trim().to_lowercase();
            let shown: Vec<&WildcardFile> = files
                .iter()
                .filter(|file| file.name.to_lowercase().contains(&wanted))
                .collect();
            if shown.is_empty() {
                ui.label(RichText::new(words::NO_MATCHES).color(weak));
            }
            ScrollArea::vertical()
                .id_salt("wildcards")
                .max_height(theme::PICKER_HEIGHT)
                .min_scrolled_height(list_height(ui, theme::PICKER_HEIGHT))
                .show_rows(ui, ui.spacing().interact_size.y, shown.len(), |ui, rows| {
                    for file in shown.get(rows).unwrap_or_default() {
                        if file_ui(ui, file) {
                            wish = Some(PromptCommand::Insert(format!("__{}__", file.name)));
                        }
                    }
                });
        }
    }
    ui.separator();
    let open = ui
        .button(with_icon(icons::FOLDER_OPEN, words::WILDCARDS_FOLDER))
        .on_hover_text(words::WILDCARDS_FOLDER_HOVER)
        .accessible_name(words::WILDCARDS_FOLDER);
    if open.clicked() {
        wish = Some(PromptCommand::OpenWildcardFolder);
    }
    if let Some(command) = wish {
        ui.close();
        view.push(command);
    }
}

/// Whether it was clicked.
fn file_ui(ui: &mut Ui, file: &WildcardFile) -> bool {
    let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
    let count = RichText::new(words::lines(file.num_lines))
        .small()
        .color(palette(ui).weak);
    let button = Button::new(format!("__{}__", file.name))
        .right_text(count)
        .frame_when_inactive(false)
        .truncate()
        .min_size(size);
    ui.add(button)
        .on_hover_text(lines_text(file))
        .accessible_name(words::insert(&file.name))
        .clicked()
}

/// The first of its lines.
pub(super) fn lines_text(file: &WildcardFile) -> String {
    let mut text = file.beginning.join("\n");
    if let more @ 1.. = file.num_lines - file.beginning.len().min(file.num_lines) {
        text = words::more_lines(&text, more);
    }
    if text.is_empty() {
        words::NO_LINES.to_owned()
    } else {
        text
    }
}
