//! The lists of earlier prompts and of wildcards, and the names of wildcards that are offered while one is written.

use egui::{Popup, PopupCloseBehavior};
use safelight_core::job::prompt::WildcardFile;
use safelight_core::prompts::PromptEntry;

use crate::window::layout::prelude::*;
use crate::window::prompt::panel::NO_MATCHES;

const MAX_SHOWN: usize = 200;
const HISTORY: &str = "Earlier prompts";
const WILDCARDS: &str = "Wildcards";

pub(super) fn button_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let hover = "Prompts that you used before (Alt+Up and Alt+Down in the prompt)";
    let button = word_button(ui, false, "History", HISTORY, hover);
    if button.clicked() {
        view.panels.prompt.history_search.clear();
        view.set(|app| app.prompt.begin(&mut app.cx));
    }
    list_popup(&button, HISTORY, |ui| list_ui(ui, view, &button));
}

fn list_popup(button: &Response, name: &str, contents: impl FnOnce(&mut Ui)) {
    Popup::menu(button)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        .width(theme::LIST_WIDTH)
        .accessible_name(name)
        .show(|ui| {
            ui.set_width(theme::LIST_WIDTH);
            contents(ui);
        });
}

/// Rows of a list that scrolls; gives what the last clicked one asks for.
fn rows_ui<T>(
    ui: &mut Ui,
    id: &str,
    rows: &[&T],
    mut row_ui: impl FnMut(&mut Ui, &T) -> Option<PromptCommand>,
) -> Option<PromptCommand> {
    if rows.is_empty() {
        ui.weak(NO_MATCHES);
    }
    let mut command = None;
    ScrollArea::vertical()
        .id_salt(id)
        .max_height(theme::PICKER_HEIGHT)
        .min_scrolled_height(list_height(ui, theme::PICKER_HEIGHT))
        .show_rows(ui, ui.spacing().interact_size.y, rows.len(), |ui, seen| {
            for row in rows.get(seen).unwrap_or_default() {
                command = row_ui(ui, row).or_else(|| command.take());
            }
        });
    command
}

fn list_ui(ui: &mut Ui, view: &mut UiContext<'_>, button: &Response) {
    let history = &view.app.prompt.history;
    let all = &history.entries;
    if all.is_empty() {
        let text = if history.is_known {
            "Prompts that you generate with appear here"
        } else {
            "Reading…"
        };
        ui.weak(text);
        return;
    }
    let name = "Search earlier prompts";
    let field = search_field(ui, &mut view.panels.prompt.history_search, name);
    if button.clicked() {
        field.request_focus();
    }
    let wanted = view.panels.prompt.history_search.to_lowercase();
    let is_shown = |entry: &&PromptEntry| {
        let prompt = entry.prompt.to_lowercase();
        wanted.split_whitespace().all(|word| prompt.contains(word))
    };
    let shown: Vec<&PromptEntry> = all.iter().filter(is_shown).collect();
    if let Some(command) = rows_ui(ui, "earlier-prompts", &shown, entry_ui) {
        if matches!(command, PromptCommand::Use(_)) {
            ui.close();
        }
        view.push(command);
    }
}

fn entry_ui(ui: &mut Ui, entry: &PromptEntry) -> Option<PromptCommand> {
    let mut command = None;
    let words: Vec<&str> = entry.prompt.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MAX_SHOWN).collect();
    let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
    ui.allocate_ui_with_layout(size, Layout::right_to_left(egui::Align::Center), |ui| {
        let name = format!("Forget: {text}");
        if icon_button(ui, icons::X, &name, "Remove it from this list").clicked() {
            command = Some(PromptCommand::Forget(entry.clone()));
        }
        let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
        let mut whole = entry.prompt.clone();
        if !entry.negative.is_empty() {
            whole = format!("{whole}\n\nNegative prompt: {}", entry.negative);
        }
        let button = Button::new(&text)
            .frame_when_inactive(false)
            .truncate()
            .min_size(size);
        let response = ui
            .add(button)
            .on_hover_text(whole)
            .accessible_name(format!("Use: {text}"));
        if response.clicked() {
            command = Some(PromptCommand::Use(entry.clone()));
        }
    });
    command
}

pub(super) fn wildcards_button_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let hover = "Lists of words: __name__ in the prompt becomes a line of name.txt, another \
                one for each seed";
    let button = word_button(ui, false, "Wildcards", WILDCARDS, hover);
    if button.clicked() {
        view.panels.prompt.wildcard_search.clear();
        view.set(|app| app.prompt.look_at_wildcards(&app.cx));
    }
    list_popup(&button, WILDCARDS, |ui| wildcards_list_ui(ui, view));
}

fn wildcards_list_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let mut command = None;
    match view.app.prompt.wildcards.clone() {
        None => {
            ui.weak("Looking…");
        }
        Some(files) if files.is_empty() => {
            let note = "No wildcard files yet. A file colours.txt with one choice per line becomes \
                       __colours__ in the prompt";
            wide_note(ui, note, NoteTone::Hint);
        }
        Some(files) => {
            let search = &mut view.panels.prompt.wildcard_search;
            search_field(ui, search, "Search wildcards");
            let wanted = search.trim().to_lowercase();
            let is_shown = |file: &&WildcardFile| file.name.to_lowercase().contains(&wanted);
            let shown: Vec<&WildcardFile> = files.iter().filter(is_shown).collect();
            command = rows_ui(ui, "wildcards", &shown, |ui, file| {
                let insert = || PromptCommand::Insert(format!("__{}__", file.name));
                file_ui(ui, file).then(insert)
            });
        }
    }
    ui.separator();
    let hover = "Open the folder for your own lists. It is created if it does not exist";
    if sign_button(ui, icons::FOLDER_OPEN, "Open wildcard folder", hover).clicked() {
        command = Some(PromptCommand::OpenWildcardFolder);
    }
    if let Some(command) = command {
        ui.close();
        view.push(command);
    }
}

/// Returns true if it was clicked.
fn file_ui(ui: &mut Ui, file: &WildcardFile) -> bool {
    let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
    let count = RichText::new(counted(file.num_lines, "1 line", "{} lines"))
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

/// Up and down choose, Tab and Enter take, Escape declines.
pub(super) fn take_keys(ui: &Ui, view: &mut UiContext<'_>) {
    let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let typing = &mut *view.typing;
    let Some(offer) = &mut typing.offer else {
        // Tab completes a name and does not leave the field, even for an unknown one.
        if typing.is_naming {
            pressed(Key::Tab);
        }
        return;
    };
    let last = offer.names.len().saturating_sub(1);
    if pressed(Key::ArrowDown) {
        offer.chosen = (offer.chosen + 1) % offer.names.len().max(1);
    }
    if pressed(Key::ArrowUp) {
        offer.chosen = offer.chosen.checked_sub(1).unwrap_or(last);
    }
    let chosen = offer.chosen;
    if pressed(Key::Tab) || pressed(Key::Enter) {
        let typing = &mut *view.typing;
        typing.accept(&mut view.form.prompt, chosen);
    } else if pressed(Key::Escape) {
        view.typing.decline();
    }
}

/// `cursor`: letters before it, while the field has the focus.
pub(super) fn completion_ui(
    ui: &Ui,
    view: &mut UiContext<'_>,
    field: &Response,
    cursor: Option<usize>,
) {
    let typing = &mut *view.typing;
    if cursor.is_none() && !typing.is_pointer_over {
        typing.leave();
    }
    if let Some(cursor) = cursor {
        let has_moved = typing.cursor != Some(cursor) && typing.wanted_cursor.is_none();
        let is_stale = std::mem::take(&mut typing.is_stale);
        if has_moved || is_stale || field.changed() {
            typing.cursor = Some(cursor);
            let names = view.app.prompt.wildcards.iter();
            let names = names.flat_map(|all| all.iter().map(|found| found.name.as_str()));
            let embeddings = view.app.prompt.embedding_names(&view.app.cx);
            typing.update(&view.form.prompt, names, &embeddings);
        }
    }
    typing.is_pointer_over &= typing.offer.is_some();
    let Some(offer) = &typing.offer else {
        return;
    };
    let files = view.app.prompt.wildcards.as_ref();
    let files = files.filter(|_| offer.is_of_wildcards());
    let what = if offer.is_of_wildcards() {
        "Matching wildcards"
    } else {
        "Matching embeddings"
    };
    let mut accepted = None;
    let shown = Popup::from_response(field)
        .id(egui::Id::unique("wildcard-completion"))
        .open(true)
        .close_behavior(PopupCloseBehavior::IgnoreClicks)
        .width(field.rect.width())
        .layout(Layout::top_down_justified(Align::Min))
        .accessible_name(what)
        .show(|ui| {
            for (index, name) in offer.names.iter().enumerate() {
                let file = files.and_then(|all| all.iter().find(|file| file.name == *name));
                let entry = ui
                    .selectable_label(index == offer.chosen, offer.written(name))
                    .on_hover_text(file.map_or_else(String::new, lines_text))
                    .accessible_name(format!("Complete {name}"));
                if entry.clicked() {
                    accepted = Some(index);
                }
            }
        });
    let typing = &mut *view.typing;
    typing.is_pointer_over = shown.is_some_and(|shown| shown.response.contains_pointer());
    if let Some(index) = accepted {
        typing.accept(&mut view.form.prompt, index);
        ui.ctx().request_repaint();
    }
}
