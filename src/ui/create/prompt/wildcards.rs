//! The wildcard files that there are, behind a button.

use egui::{Button, Popup, PopupCloseBehavior, RichText, ScrollArea, Ui, vec2};
use safelight_core::job::prompt::WildcardFile;

use crate::app::commands::PromptCommand;
use crate::ui::create::prompt::NO_MATCHES;
use crate::ui::widgets::{icon_button, list_height, palette, search_field, wide_note, with_icon};
use crate::ui::{View, icons, theme};

const WILDCARDS: &str = "Wildcards";
const WILDCARDS_FOLDER: &str = "Open wildcard folder";

pub(super) fn button_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = "Lists of words: __name__ in the prompt becomes a line of name.txt, another \
                      one for each seed";
    let button = icon_button(ui, icons::ASTERISK, WILDCARDS, explanation);
    if button.clicked() {
        view.panels.prompt.wildcard_search.clear();
        view.push(PromptCommand::LookAtWildcards);
    }
    Popup::menu(&button)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        .width(theme::LIST_WIDTH)
        .accessible_name(WILDCARDS)
        .show(|ui| list_ui(ui, view));
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>) {
    let weak = palette(ui).weak;
    let mut wish = None;
    match view.app.prompt.wildcards.clone() {
        None => {
            ui.label(RichText::new("Looking…").color(weak));
        }
        Some(files) if files.is_empty() => {
            let note = "No wildcard files yet. A file colours.txt with one choice per line becomes \
                       __colours__ in the prompt";
            wide_note(ui, note, weak);
        }
        Some(files) => {
            let search = &mut view.panels.prompt.wildcard_search;
            search_field(ui, search, "Search wildcards");
            let wanted = search.trim().to_lowercase();
            let shown: Vec<&WildcardFile> = files
                .iter()
                .filter(|file| file.name.to_lowercase().contains(&wanted))
                .collect();
            if shown.is_empty() {
                ui.label(RichText::new(NO_MATCHES).color(weak));
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
        .button(with_icon(icons::FOLDER_OPEN, WILDCARDS_FOLDER))
        .on_hover_text("Open the folder for your own lists. It is created if it does not exist")
        .accessible_name(WILDCARDS_FOLDER);
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
    let count = RichText::new(num_lines_text(file.num_lines))
        .small()
        .color(palette(ui).weak);
    let button = Button::new(format!("__{}__", file.name))
        .right_text(count)
        .frame_when_inactive(false)
        .truncate()
        .min_size(size);
    ui.add(button)
        .on_hover_text(lines_text(file))
        .accessible_name(format!("Insert {}", file.name))
        .clicked()
}

fn num_lines_text(count: usize) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// The first of its lines.
pub(super) fn lines_text(file: &WildcardFile) -> String {
    let mut text = file.beginning.join("\n");
    if let more @ 1.. = file.num_lines - file.beginning.len().min(file.num_lines) {
        text = format!("{text}\n… and {more} more");
    }
    if text.is_empty() {
        "This list is empty".to_owned()
    } else {
        text
    }
}
