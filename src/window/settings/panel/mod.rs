//! The settings page: every key of the settings file as a row with a name, an explanation, a control and its default.
//!
//! Changes act at once; the app writes them. The settings are [`safelight_core::settings::table`]'s, their controls in `controls` and `lists`.

mod controls;

use std::collections::BTreeMap;

use safelight_core::settings::Settings;
use safelight_core::settings::table::{self, SettingRow, Value};

use crate::window::layout::prelude::*;
use crate::window::layout::view::SettingsPanel;
use crate::window::palette::synonyms;
use crate::window::runtimes::panel::{KEY as RUNTIMES_AT, section_ui};
use crate::window::{computers, server};

const SEARCH: &str = "Search settings";

fn is_found(row: &SettingRow, section: &str, words: &str) -> bool {
    let (name, key, explanation) = (row.name, row.key, row.explanation);
    let synonyms = synonyms(key);
    let text = format!("{section} {name} {key} {explanation} {synonyms}").to_lowercase();
    words.split_whitespace().all(|word| text.contains(word))
}

struct SettingEdit<'a> {
    settings: &'a mut Settings,
    page: &'a mut SettingsPanel,
    commands: &'a mut Vec<AppCommand>,
    /// Settings before the controls were drawn, by key.
    values: &'a BTreeMap<String, Value>,
    row: &'a SettingRow,
    is_default: bool,
    label: Id,
}

pub(crate) fn settings_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let (num_shown, key) = view.app.settings.shown;
    if std::mem::replace(&mut view.panels.settings.num_shown, num_shown) != num_shown {
        view.panels.settings.search.clear();
        view.panels.settings.wanted = Some(key);
    }
    let frame = Frame::new().inner_margin(theme::PAGE_MARGIN);
    frame.show(ui, |ui| {
        header_ui(ui, view);
        ui.add_space(theme::SMALL_GAP);
        page_column(ui, "settings", |ui| {
            place_ui(ui, view);
            sections_ui(ui, view);
            ui.add_space(theme::GAP);
        });
    });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal(|ui| {
        ui.label(RichText::new("Settings").heading().strong());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add_space(theme::GAP);
            view.close_button(ui, "Close the settings");
            let width = field_width(ui, theme::SEARCH_WIDTH);
            let search = TextEdit::singleline(&mut view.panels.settings.search)
                .id_salt("settings-search")
                .hint_text(SEARCH)
                .desired_width(width);
            ui.add(search)
                .on_hover_text("Part of a setting's name, explanation or key in the file")
                .accessible_name(SEARCH);
        });
    });
}

fn place_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal_wrapped(|ui| {
        let hover = "All settings as text with comments. Changes take effect when you save, and \
                     your comments stay";
        let button = sign_button(ui, icons::FOLDER_OPEN, "Open settings file", hover);
        view.on_click(&button, SettingsCommand::OpenFile);
        small_line(ui, &view.app.settings.path);
    });
    if view.app.settings.broken.is_some() {
        let text = "The file cannot be read at the moment. What you change here counts, and is \
                   written as soon as the file is corrected.";
        ui.add(Label::new(RichText::new(text).color(palette(ui).amber)).wrap());
    }
}

fn sections_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let mut settings = view.app.cx.settings.clone();
    let mut commands = Vec::new();
    let values = settings.values();
    let changed = settings.changed_keys(&Settings::default());
    let wanted = view.panels.settings.search.trim().to_lowercase();
    let mut is_any = false;
    for section in table::SECTIONS {
        let found = section.settings.iter();
        let found = found.filter(|row| is_found(row, section.name, &wanted));
        let mut found = found.peekable();
        let has_runtimes = section.settings.iter().any(|row| row.key == RUNTIMES_AT);
        if found.peek().is_none() {
            is_any |= has_runtimes && section_ui(ui, view, &wanted);
            continue;
        }
        is_any = true;
        ui.add_space(theme::GAP);
        ui.strong(section.name);
        ui.separator();
        for row in found {
            let edit = SettingEdit {
                settings: &mut settings,
                page: &mut view.panels.settings,
                commands: &mut commands,
                values: &values,
                row,
                is_default: !changed.iter().any(|key| row.holds(key)),
                label: Id::NULL,
            };
            edit.row_ui(ui);
        }
        if has_runtimes {
            section_ui(ui, view, &wanted);
        }
        let has = |key| section.settings.iter().any(|row| row.key == key);
        if has(server::panel::KEY) {
            server::panel::address_ui(ui, view);
        }
        if has(computers::panel::KEY) {
            computers::panel::states_ui(ui, view);
        }
    }
    if !is_any {
        let search = view.panels.settings.search.trim();
        ui.weak(format!("No matches for \u{201c}{search}\u{201d}"));
    }
    if settings != view.app.cx.settings {
        view.push(SettingsCommand::Change(Box::new(settings)));
    }
    view.commands.append(&mut commands);
}

impl SettingEdit<'_> {
    /// The name, the control and the way back to the default; the control below its name where there is little room.
    fn row_ui(mut self, ui: &mut Ui) {
        let is_narrow = ui.available_width() < theme::SETTINGS_NARROW;
        let row = self.row;
        let contents = |ui: &mut Ui| {
            self.label = self.name_ui(ui);
            if is_narrow {
                self.control(ui);
                return self.reset_ui(ui);
            }
            ui.with_layout(Layout::right_to_left(Align::TOP), |ui| {
                self.reset_ui(ui);
                ui.with_layout(Layout::left_to_right(Align::TOP), |ui| self.control(ui));
            });
        };
        let shown = ui.push_id(row.key, |ui| {
            if is_narrow {
                ui.vertical(contents).response
            } else {
                ui.horizontal_top(contents).response
            }
        });
        if self.page.wanted.take_if(|key| *key == row.key).is_some() {
            shown.inner.scroll_to_me(Some(Align::Center));
        }
    }

    fn name_ui(&self, ui: &mut Ui) -> Id {
        let palette = palette(ui);
        let colour = if self.is_default {
            palette.weak
        } else {
            palette.text
        };
        let width = theme::SETTINGS_NAME_WIDTH.min(ui.available_width());
        let size = vec2(width, ui.spacing().interact_size.y);
        let row = self.row;
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_width(width);
            ui.add(Label::new(RichText::new(row.name).color(colour)).wrap())
                .on_hover_text(format!("{}\n{}", row.explanation, row.key))
                .id
        })
        .inner
    }

    /// Its place stays when there is nothing to take back, so that no control moves.
    fn reset_ui(&mut self, ui: &mut Ui) {
        if self.is_default {
            ui.allocate_space(vec2(theme::RESET_WIDTH, ui.spacing().interact_size.y));
            return;
        }
        let name = format!("Reset: {}", self.row.name);
        if icon_button(ui, icons::RESET, &name, "Back to the default").clicked() {
            self.page.draft = None;
            self.commands
                .push(SettingsCommand::Reset(self.row.key).into());
        }
    }
}
