//! The list of earlier prompts, behind a button.

use egui::{Button, Layout, Popup, PopupCloseBehavior, Response, RichText, ScrollArea, Ui, vec2};
use safelight_core::prompts::PromptEntry;

use crate::app::commands::PromptCommand;
use crate::ui::create::prompt::NO_MATCHES;
use crate::ui::widgets::{icon_button, list_height, palette, search_field};
use crate::ui::{View, icons, theme};

/// A row shows so much of a prompt.
const MAX_SHOWN: usize = 200;
const HISTORY: &str = "Earlier prompts";

pub(super) fn button_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = "Prompts that you used before (Alt+Up and Alt+Down in the prompt)";
    let button = icon_button(ui, icons::CLOCK, HISTORY, explanation);
    if button.clicked() {
        view.panels.prompt.history_search.clear();
        view.push(PromptCommand::Begin);
    }
    Popup::menu(&button)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        .width(theme::LIST_WIDTH)
        .accessible_name(HISTORY)
        .show(|ui| list_ui(ui, view, &button));
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>, button: &Response) {
    let history = &view.app.prompt.history;
    let all = history.entries();
    if all.is_empty() {
        let text = if history.is_known {
            "Prompts that you generate with appear here"
        } else {
            "Reading…"
        };
        ui.label(RichText::new(text).color(palette(ui).weak));
        return;
    }
    let name = "Search earlier prompts";
    let field = search_field(ui, &mut view.panels.prompt.history_search, name);
    if button.clicked() {
        field.request_focus();
    }
    let wanted = view.panels.prompt.history_search.trim().to_lowercase();
    let shown: Vec<&PromptEntry> = all.iter().filter(|entry| has(entry, &wanted)).collect();
    if shown.is_empty() {
        ui.label(RichText::new(NO_MATCHES).color(palette(ui).weak));
    }
    let mut wish = None;
    ScrollArea::vertical()
        .id_salt("earlier-prompts")
        .max_height(theme::PICKER_HEIGHT)
        .min_scrolled_height(list_height(ui, theme::PICKER_HEIGHT))
        .show_rows(ui, ui.spacing().interact_size.y, shown.len(), |ui, rows| {
            for entry in shown.get(rows).unwrap_or_default() {
                wish = entry_ui(ui, entry).or_else(|| wish.take());
            }
        });
    if let Some(command) = wish {
        if matches!(command, PromptCommand::Use(_)) {
            ui.close();
        }
        view.push(command);
    }
}

fn entry_ui(ui: &mut Ui, entry: &PromptEntry) -> Option<PromptCommand> {
    let mut wish = None;
    let text = one_line(&entry.prompt);
    let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
    let layout = Layout::right_to_left(egui::Align::Center);
    ui.allocate_ui_with_layout(size, layout, |ui| {
        let name = format!("Forget: {text}");
        if icon_button(ui, icons::X, &name, "Remove it from this list").clicked() {
            wish = Some(PromptCommand::Forget(entry.clone()));
        }
        let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
        let whole = if entry.negative.is_empty() {
            entry.prompt.clone()
        } else {
            format!("{}\n\nNegative prompt: {}", entry.prompt, entry.negative)
        };
        let button = Button::new(&text)
            .frame_when_inactive(false)
            .truncate()
            .min_size(size);
        let response = ui
            .add(button)
            .on_hover_text(whole)
            .accessible_name(format!("Use: {text}"));
        if response.clicked() {
            wish = Some(PromptCommand::Use(entry.clone()));
        }
    });
    wish
}

/// Each of the words stands somewhere in it.
fn has(entry: &PromptEntry, wanted: &str) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let prompt = entry.prompt.to_lowercase();
    wanted.split_whitespace().all(|word| prompt.contains(word))
}

fn one_line(prompt: &str) -> String {
    let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(MAX_SHOWN).collect()
}
