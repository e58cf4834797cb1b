//! Controls of the settings: choices, switches, numbers, folders, lists of folders and variables.
//!
//! A path takes effect when its field is left, a number at once.

use safelight_core::job::DeviceChoice;
use safelight_core::settings::OutputSettings;
use safelight_core::settings::table::{SettingControl, Value};
use safelight_core::uri::is_address;

use crate::window::layout::prelude::*;
use crate::window::settings::panel::SettingEdit;

impl SettingEdit<'_> {
    pub(super) fn control(&mut self, ui: &mut Ui) {
        let own = self.values.get(self.row.key);
        let text = own.and_then(Value::as_str).unwrap_or_default();
        let mut number = own.and_then(Value::as_integer).unwrap_or_default();

        let after = match self.row.control {
            SettingControl::Switch(text) => {
                let mut is_on = own.and_then(Value::as_bool).unwrap_or_default();
                ui.checkbox(&mut is_on, text)
                    .on_hover_text(self.row.explanation)
                    .accessible_name(self.row.name);
                Some(is_on.into())
            }
            SettingControl::Choice(choices) => Some(self.choice(ui, text, choices).into()),
            SettingControl::Secs { least } => {
                let least = i64::try_from(least).unwrap_or_default();
                let drag = DragValue::new(&mut number).range(least..=86_400);
                self.called(number_ui(ui, drag.suffix(" s")));
                Some(number.into())
            }
            SettingControl::Number((least, most)) => {
                let range = i64::from(least)..=i64::from(most);
                let drag = DragValue::new(&mut number).range(range);
                self.called(number_ui(ui, drag));
                Some(number.into())
            }
            SettingControl::Gib(automatic) => {
                let gib = own.and_then(Value::as_float);
                self.gib(ui, gib, automatic).map(Value::from)
            }
            SettingControl::Quality => {
                self.quality(ui, &mut number);
                Some(number.into())
            }
            SettingControl::Scale => return self.scale(ui),
            SettingControl::Device => return self.device(ui),
            SettingControl::Variables => return self.variables(ui),
            SettingControl::Folder(hint) => Some(self.folder(ui, text, hint).into()),
            SettingControl::Address(hint) => Some(self.address(ui, text, hint).into()),
            control @ (SettingControl::Folders | SettingControl::Names(..)) => {
                let texts = own.and_then(Value::as_array);
                let texts = texts.into_iter().flatten().filter_map(Value::as_str);
                let texts = texts.map(str::to_owned).collect();
                Some(match control {
                    SettingControl::Names(hint, problem) => {
                        self.names(ui, texts, (hint, problem)).into()
                    }
                    _ => self.folders(ui, texts).into(),
                })
            }
        };
        // A path that is not set is nothing, and is written as an empty text.
        let is_none = |value: Option<&Value>| value.is_none_or(|value| value.as_str() == Some(""));
        if after.as_ref() != own && !(is_none(after.as_ref()) && is_none(own)) {
            *self.settings = self.settings.with_value(self.row.key, after);
        }
    }

    fn choice(&self, ui: &mut Ui, value: &str, choices: &[(&str, &str)]) -> String {
        let mut value = value;
        let chosen = choices.iter().find(|(choice, _)| *choice == value);
        let list = list_box(ui, self.row.key, chosen.map_or("", |(_, text)| text))
            .width(field_width(ui, theme::CHOICE_WIDTH));
        let choices = choices.iter().copied().map(unexplained);
        choose_from(list, ui, &mut value, choices)
            .on_hover_text(self.row.explanation)
            .labelled_by(self.label);
        value.to_owned()
    }

    /// GiB, or the text for none.
    fn gib(&self, ui: &mut Ui, mut gib: Option<f64>, automatic: &str) -> Option<f64> {
        ui.horizontal_wrapped(|ui| {
            let mut is_automatic = gib.is_none();
            let name = format!("{}: {automatic}", self.row.name);
            let checkbox = ui.checkbox(&mut is_automatic, automatic);
            if checkbox.accessible_name(name).changed() {
                gib = (!is_automatic).then_some(8.0);
            }
            if let Some(gib) = &mut gib {
                let drag = DragValue::new(gib).range(0.0..=4096.0).speed(0.1);
                self.called(number_ui(ui, drag.fixed_decimals(1).suffix(" GiB")));
            }
        });
        gib
    }

    fn quality(&self, ui: &mut Ui, crf: &mut i64) {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().slider_width = field_width(ui, theme::SETTINGS_SLIDER_WIDTH);
            let slider = Slider::new(crf, 0..=i64::from(OutputSettings::WORST_CRF));
            self.called(number_ui(ui, slider));
            let meaning = match *crf {
                ..=10 => "hardly any loss, large files",
                11..=18 => "looks like the original",
                19..=27 => "small files",
                _ => "visibly worse",
            };
            ui.add(Label::new(meaning).extend());
        });
    }

    /// Counts when it is let go or left: the window does not grow while it is dragged.
    fn scale(&mut self, ui: &mut Ui) {
        let current = f64::from(self.settings.interface.scale) * 100.0;
        let mut percent = self.page.scale_draft.unwrap_or(current);
        ui.horizontal_wrapped(|ui| {
            let drag = DragValue::new(&mut percent)
                .range(50.0..=300.0)
                .fixed_decimals(0)
                .update_while_editing(false)
                .suffix(" %");
            let response = number_ui(ui, drag);
            if response.dragged() {
                self.page.scale_draft = Some(percent);
            } else if response.drag_stopped() || response.changed() {
                self.page.scale_draft = None;
                self.settings.interface.scale = (percent / 100.0) as f32;
            }
            self.called(response);
            // All of them in one row.
            ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
            for choice in [100_u32, 125, 150, 200, 300] {
                let is_chosen = (current - f64::from(choice)).abs() < 0.5;
                let name = format!("Scale {choice} %");
                let button = ui.selectable_label(is_chosen, choice.to_string());
                if button.accessible_name(name).clicked() {
                    self.settings.interface.scale = choice as f32 / 100.0;
                }
            }
        });
    }

    fn device(&mut self, ui: &mut Ui) {
        let mut device = self.settings.runtime.device;
        let gpu = match device {
            DeviceChoice::Cuda(index) => index,
            _ => 0,
        };
        let (numbered, name) = (DeviceChoice::Cuda(gpu).to_string(), format!("GPU {gpu}"));
        let choices = [("auto", "Automatic"), ("cpu", "CPU"), (&numbered, &name)];
        ui.horizontal_wrapped(|ui| {
            let chosen = self.choice(ui, &device.to_string(), &choices);
            device = chosen.parse().unwrap_or(device);
            if let DeviceChoice::Cuda(index) = &mut device {
                let drag = DragValue::new(index).range(0..=15).prefix("number ");
                number_ui(ui, drag)
                    .on_hover_text("As libtorch counts them, from 0")
                    .accessible_name("GPU number");
            }
        });
        self.settings.runtime.device = device;
    }

    /// A path that can be typed or chosen; empty means what the hint says.
    fn folder(&mut self, ui: &mut Ui, folder: &str, hint: &str) -> String {
        let mut chosen = folder.to_owned();
        ui.horizontal(|ui| {
            let room = theme::RESET_WIDTH + ui.spacing().item_spacing.x;
            let width = field_width(ui, theme::PATH_WIDTH + room) - room;
            if let Some(text) = self.typed(ui, "", folder, hint, width) {
                text.trim().clone_into(&mut chosen);
            }
            let name = format!("Choose: {}", self.row.name);
            if icon_button(ui, icons::FOLDER_OPEN, &name, "Choose a folder…").clicked() {
                self.pick_folder();
            }
        });
        chosen
    }

    /// An address that can be typed; what is none is shown as wrong and does not count.
    fn address(&mut self, ui: &mut Ui, address: &str, hint: &str) -> String {
        let problem = |text: &str| {
            let is_wrong = !text.is_empty() && !is_address(text);
            is_wrong.then(|| "An address begins with https://".to_owned())
        };
        let typed = ui.vertical(|ui| self.checked(ui, "", address, hint, &problem));
        typed.inner.unwrap_or_else(|| address.to_owned())
    }

    /// A text like [`Self::typed`] that does not count while there is a problem with it, which is shown below.
    fn checked(
        &mut self,
        ui: &mut Ui,
        part: &str,
        value: &str,
        hint: &str,
        problem: &dyn Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let key = format!("{}{part}", self.row.key);
        let typed = self.typed(ui, part, value, hint, field_width(ui, theme::PATH_WIDTH));
        let typed = typed.map(|text| text.trim().to_owned());
        if let Some(wrong) = typed.clone().filter(|text| problem(text).is_some()) {
            self.page.draft = Some((key.clone(), wrong));
        }
        let draft = self.page.draft.as_ref().filter(|(of, _)| *of == key);
        match draft.and_then(|(_, text)| problem(text.trim())) {
            Some(problem) => {
                wide_note(ui, &sentence(&problem), NoteTone::Warning);
                None
            }
            None => typed,
        }
    }

    pub(super) fn pick_folder(&mut self) {
        self.commands
            .push(SettingsCommand::PickFolder(self.row.key).into());
    }

    /// A text that counts when its field is left; `part` tells several fields of one row apart.
    pub(super) fn typed(
        &mut self,
        ui: &mut Ui,
        part: &str,
        value: &str,
        hint: &str,
        width: f32,
    ) -> Option<String> {
        let key = format!("{}{part}", self.row.key);
        let draft = self.page.draft.as_ref().filter(|(of, _)| *of == key);
        let mut text = draft.map_or(value, |(_, text)| text).to_owned();
        let edit = TextEdit::singleline(&mut text)
            .id_salt(&key)
            .hint_text(hint)
            .desired_width(width);
        let response = ui.add(edit).on_hover_text(self.row.explanation);
        if response.changed() {
            self.page.draft = Some((key.clone(), text.clone()));
        }
        let has_draft = self.page.draft.as_ref().is_some_and(|(of, _)| *of == key);
        // Left by a click, by Tab or by Enter; or by a page that was closed over it.
        let is_left = has_draft && !response.has_focus();
        if part.is_empty() {
            response.labelled_by(self.label);
        } else {
            response.accessible_name(format!("{}{part}", self.row.name));
        }
        if is_left {
            self.page.draft = None;
        }
        is_left.then_some(text)
    }

    fn called(&self, response: Response) {
        response
            .on_hover_text(self.row.explanation)
            .labelled_by(self.label);
    }

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
                    let hover = "Stop looking in this folder";
                    if icon_button(ui, icons::TRASH, &name, hover).clicked() {
                        removed = Some(index);
                    }
                });
            }
            if let Some(index) = removed {
                folders.remove(index);
            }
            let (button, name) = (
                ui.button("Add a folder…"),
                format!("Add: {}", self.row.name),
            );
            if pressed(button, self.row.explanation, name) {
                self.pick_folder();
            }
        });
        folders
    }

    /// Names, which can be removed, and a field for another one.
    fn names(
        &mut self,
        ui: &mut Ui,
        mut names: Vec<String>,
        (hint, problem): (&str, fn(&str) -> Option<String>),
    ) -> Vec<String> {
        ui.vertical(|ui| {
            let mut removed = None;
            for (index, name) in names.iter().enumerate() {
                ui.horizontal(|ui| {
                    let label = format!("Remove: {name}");
                    let hover = "Take it out of the list. Nothing is deleted";
                    if icon_button(ui, icons::TRASH, &label, hover).clicked() {
                        removed = Some(index);
                    }
                    ui.add(Label::new(RichText::new(name).monospace()).truncate());
                });
            }
            removed.map(|index| names.remove(index));
            let is_new = |text: &str| !text.is_empty() && !names.iter().any(|name| name == text);
            let problem = |text: &str| problem(text).filter(|_| is_new(text));
            let typed = self.checked(ui, ": new", "", hint, &problem);
            names.extend(typed.filter(|text| is_new(text)));
        });
        names
    }

    pub(super) fn variables(&mut self, ui: &mut Ui) {
        let mut variables = self.settings.runtime.environment.clone();
        ui.vertical(|ui| {
            for (name, value) in self.settings.runtime.environment.clone() {
                ui.horizontal(|ui| {
                    let width = (field_width(ui, theme::PATH_WIDTH) - theme::RESET_WIDTH) / 2.0;
                    let label = Label::new(RichText::new(&name).monospace()).truncate();
                    ui.add_sized([width, ui.spacing().interact_size.y], label);
                    let typed = self.typed(ui, &format!(": {name}"), &value, "not set", width);
                    let button = format!("Remove: {name}");
                    let hover = "Leave this variable as Safelight sets it";
                    if icon_button(ui, icons::TRASH, &button, hover).clicked() {
                        variables.remove(&name);
                    } else if let Some(text) = typed.filter(|text| !text.contains('\0')) {
                        variables.insert(name, text);
                    }
                });
            }
            let width = field_width(ui, theme::VARIABLE_WIDTH);
            if let Some(text) = self.typed(ui, ": new", "", "NAME=value", width) {
                let (name, value) = text.split_once('=').unwrap_or((&text, ""));
                let (name, value) = (name.trim(), value.trim());
                if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
                    variables.insert(name.to_owned(), value.to_owned());
                }
            }
        });
        self.settings.runtime.environment = variables;
    }
}
