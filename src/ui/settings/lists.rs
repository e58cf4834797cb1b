//! Settings with several entries: folders, and the engine's variables.
//!
//! An entry counts when its field is left.

use std::collections::BTreeMap;

use egui::Ui;

use super::Edit;
use crate::ui::widgets::{field_width, icon_button};
use crate::ui::{icons, theme};

impl Edit<'_> {
    /// A field for each folder, and a way to add one.
    pub(super) fn folders(&mut self, ui: &mut Ui, mut folders: Vec<String>) -> Vec<String> {
        ui.vertical(|ui| {
            let mut removed = None;
            for (index, folder) in folders.iter_mut().enumerate() {
                ui.horizontal(|ui| {
                    let room = theme::RESET_WIDTH + ui.spacing().item_spacing.x;
                    let width = field_width(ui, theme::PATH_WIDTH + room) - room;
                    let part = format!(" {}", index + 1);
                    match self.typed(ui, &part, folder, "", width) {
                        Some(text) if text.trim().is_empty() => removed = Some(index),
                        Some(text) => text.trim().clone_into(folder),
                        None => {}
                    }
                    let name = format!("Remove: {} {}", self.row.name, index + 1);
                    let explanation = "Stop looking in this folder";
                    if icon_button(ui, icons::TRASH, &name, explanation).clicked() {
                        removed = Some(index);
                    }
                });
            }
            if let Some(index) = removed {
                folders.remove(index);
            }
            let name = format!("Add: {}", self.row.name);
            let button = ui
                .button("Add a folder…")
                .on_hover_text(self.row.explanation);
            if button.accessible_name(name).clicked() {
                self.pick_folder();
            }
        });
        folders
    }

    /// A small table of names and values.
    pub(super) fn variables(&mut self, ui: &mut Ui) {
        let mut variables = self.settings.runtime.environment.clone();
        ui.vertical(|ui| {
            for (name, value) in self.settings.runtime.environment.clone() {
                ui.horizontal(|ui| self.variable(ui, &mut variables, &name, &value));
            }
            let width = field_width(ui, theme::VARIABLE_WIDTH);
            let added = self.typed(ui, ": new", "", "NAME=value", width);
            if let Some(text) = added {
                let (name, value) = text.split_once('=').unwrap_or((&text, ""));
                let (name, value) = (name.trim(), value.trim());
                if is_name(name) && !value.contains('\0') {
                    variables.insert(name.to_owned(), value.to_owned());
                }
            }
        });
        self.settings.runtime.environment = variables;
    }

    fn variable(
        &mut self,
        ui: &mut Ui,
        variables: &mut BTreeMap<String, String>,
        name: &str,
        value: &str,
    ) {
        let width = (field_width(ui, theme::PATH_WIDTH) - theme::RESET_WIDTH) / 2.0;
        ui.add_sized(
            [width, ui.spacing().interact_size.y],
            egui::Label::new(egui::RichText::new(name).monospace()).truncate(),
        );
        let typed = self.typed(ui, &format!(": {name}"), value, "not set", width);
        if let Some(text) = typed.filter(|text| !text.contains('\0')) {
            variables.insert(name.to_owned(), text);
        }
        let button = format!("Remove: {name}");
        let explanation = "Leave this variable as Safelight sets it";
        if icon_button(ui, icons::TRASH, &button, explanation).clicked() {
            variables.remove(name);
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}
