//! "Grid" section: one or two varied settings, and their values.
//!
//! Core interprets the values and counts the jobs.

use egui::CollapsingHeader;
use egui::containers::menu::MenuButton;
use safelight_core::job::{GridAxis, GridSetting};
use safelight_core::model::GuidanceMode;

use crate::window::layout::prelude::*;

const OFF: &str = "Nothing";

struct AxisChoice {
    setting: GridSetting,
    lora: Option<String>,
    label: String,
}

impl AxisChoice {
    fn is_of(&self, axis: &GridAxis) -> bool {
        let is_it = self.setting == axis.setting;
        is_it && (axis.lora.is_none() || self.lora == axis.lora)
    }
}

pub(super) fn grid_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    // A grid that acts is not hidden.
    let is_on = !view.form.grid.is_empty();
    let header = CollapsingHeader::new("Grid")
        .id_salt("grid")
        .open(is_on.then_some(true))
        .default_open(view.folds.is_grid_open)
        .icon(fold_icon)
        .show_unindented(ui, |ui| sides_ui(ui, view, spec));
    header.header_response.on_hover_text(
        "Vary one or two settings: a job for each value or pair of values, and a contact sheet of \
        all results in the end",
    );
    view.folds.is_grid_open = header.openness > 0.5;
}

fn sides_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let choices = choices(view, spec);
    side_ui(ui, view, &choices, 0);
    if !view.form.grid.is_empty() {
        side_ui(ui, view, &choices, 1);
        if view.error_of("grid").is_none() {
            let count = view.form.num_results(spec);
            let word = result_word(spec.family.makes_images);
            let many = format!("{{}} jobs, one {word} each, and a contact sheet");
            let text = counted(count, "1 job: write more values for a grid", &many);
            field_hint(ui, &text);
        }
    }
    // The first of all errors is shown above Generate.
    let first = view.app.cx.field_errors.first();
    if first.is_none_or(|err| err.field != "grid") {
        said_ui(ui, view, &["grid"]);
    }
}

fn choices(view: &UiContext<'_>, spec: &ModelSpec) -> Vec<AxisChoice> {
    let mut choices = Vec::new();
    for setting in GridSetting::ALL {
        let is_offered = match setting {
            GridSetting::Lora => {
                for lora in view.form.acting_loras() {
                    let name = lora.name();
                    choices.push(AxisChoice {
                        setting,
                        label: format!("Strength of {name}"),
                        lora: Some(name),
                    });
                }
                false
            }
            GridSetting::Guidance => spec.guidance != GuidanceMode::None,
            // It is the guidance itself where the model was not trained with a number.
            GridSetting::TrueCfg => spec.guidance != GuidanceMode::Cfg,
            // Only what is changed in part has a strength.
            GridSetting::Strength => {
                let inputs = view.inputs();
                let of_image = inputs.image.is_some() && spec.defaults.sampling.strength.is_some();
                of_image || inputs.source_video.is_some()
            }
            GridSetting::Model => view.app.cx.models.all().len() > 1,
            _ => true,
        };
        if is_offered {
            choices.push(AxisChoice {
                setting,
                lora: None,
                label: setting.label().to_owned(),
            });
        }
    }
    choices
}

fn side_ui(ui: &mut Ui, view: &mut UiContext<'_>, choices: &[AxisChoice], side: usize) {
    let columns = "The setting that differs from column to column of the contact sheet";
    let rows = "A second setting, which differs from row to row: a job for each pair of values";
    let (name, hover) = [("Across", columns), ("Down", rows)][side];
    let axis = view.form.grid.get(side).cloned();
    let position = |axis| choices.iter().position(|choice| choice.is_of(axis));
    let known = axis.as_ref().and_then(position);
    let before = axis.as_ref().map(|_| known.unwrap_or(usize::MAX));
    let mut chosen = before;
    row(ui, name, hover, |ui, label| {
        let selected = match (&axis, known) {
            (_, Some(at)) => choices[at].label.as_str(),
            (Some(axis), None) => axis.setting.label(),
            (None, None) => OFF,
        };
        let list = list_box(ui, name, selected).height(theme::PICKER_HEIGHT);
        let offered = choices.iter().enumerate();
        let offered = offered.map(|(at, choice)| (Some(at), choice.label.as_str(), ""));
        let offered = [(None, OFF, "")].into_iter().chain(offered);
        choose_from(list, ui, &mut chosen, offered)
            .labelled_by(label)
            .on_hover_text(hover);
    });
    let Some(at) = chosen else {
        if axis.is_some() {
            view.form.grid.remove(side);
        }
        return;
    };
    let is_new = chosen != before;
    if is_new && let Some(choice) = choices.get(at) {
        let axis = GridAxis {
            lora: choice.lora.clone(),
            ..GridAxis::new(choice.setting, "")
        };
        match view.form.grid.get_mut(side) {
            Some(before) => *before = axis,
            None => view.form.grid.push(axis),
        }
    }
    let values = ui.scope(|ui| values_ui(ui, view, name, side));
    if is_new {
        // It may be below what is seen, and is what is written next.
        let with_hint = vec2(0.0, ui.spacing().interact_size.y);
        let rect = values.response.rect;
        ui.scroll_to_rect(rect.union(rect.translate(with_hint)), None);
    }
}

fn values_ui(ui: &mut Ui, view: &mut UiContext<'_>, name: &str, side: usize) {
    let offered = offered(view, side);
    let Some(axis) = view.form.grid.get_mut(side) else {
        return;
    };
    let hover = values_hover(axis.setting);
    row(ui, "Values", hover, |ui, _| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if !offered.is_empty() {
                offered_ui(ui, &offered, &mut axis.values)
                    .on_hover_text("Add one of those that there are")
                    .accessible_name(format!("Add a value {}", name.to_lowercase()));
            }
            let field = TextEdit::singleline(&mut axis.values)
                .id_salt(("grid-values", side))
                .hint_text(axis.setting.example())
                .desired_width(ui.available_width());
            ui.add(field)
                .on_hover_text(hover)
                .accessible_name(format!("Values {}", name.to_lowercase()));
        });
    });
}

fn values_hover(setting: GridSetting) -> &'static str {
    match setting {
        GridSetting::Seed | GridSetting::Steps => {
            "Whole numbers and ranges, such as 4, 8, 12 or 1..3 or 10..50:10"
        }
        GridSetting::Guidance
        | GridSetting::TrueCfg
        | GridSetting::Strength
        | GridSetting::Shift
        | GridSetting::Lora => "Numbers and ranges, such as 1, 3.5, 6 or 0..1:0.25 or 0..1 [5]",
        GridSetting::Sampler | GridSetting::Schedule => {
            "Names, separated by commas. The button beside the field adds one"
        }
        GridSetting::Model => {
            "Models, separated by commas. The button beside the field adds one. They run one after the other, so that each is loaded once"
        }
        GridSetting::Prompt => {
            "Texts, separated by commas: the first stands in the prompt, and each of the others takes its place. A text with a comma stands in quotes"
        }
    }
}

/// The button of a menu of values, each of which is added to `values` by a click.
fn offered_ui(ui: &mut Ui, offered: &[(String, String)], values: &mut String) -> Response {
    let button = Button::new(RichText::new(icons::PLUS).small());
    let (response, _) = MenuButton::from_button(button).ui(ui, |ui| {
        for (value, label) in offered {
            if ui.button(label).clicked() {
                add(values, value);
                ui.close();
            }
        }
    });
    response
}

fn offered(view: &UiContext<'_>, side: usize) -> Vec<(String, String)> {
    let Some(axis) = view.form.grid.get(side) else {
        return Vec::new();
    };
    if axis.setting != GridSetting::Model {
        let choices = axis.setting.choices().iter();
        let owned = choices.map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
        return owned.collect();
    }
    let makes_images = view.makes_images();
    let models = view.app.cx.models.all().iter();
    let alike = models.filter(|spec| spec.family.makes_images == makes_images);
    let named = alike.map(|spec| (spec.id.clone(), spec.name.clone()));
    named.collect()
}

/// Appends a value; one with a comma is quoted.
fn add(values: &mut String, value: &str) {
    values.truncate(values.trim_end().trim_end_matches(',').trim_end().len());
    if !values.is_empty() {
        values.push_str(", ");
    }
    if value.contains([',', '"']) {
        values.push('"');
        values.push_str(&value.replace('"', "\"\""));
        values.push('"');
    } else {
        values.push_str(value);
    }
}
