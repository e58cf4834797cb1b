//! The model picker: which model, what it is, and what to do when there is none.

use egui::{Align, Button, Label, Layout, RichText, ScrollArea, Ui};
use safelight_core::model::ModelSpec;
use safelight_core::units::size_text;

use crate::app::commands::{AppCommand, DesktopCommand, LibraryCommand};
use crate::app::library::rows::needs_text;
use crate::app::state::Page;
use crate::ui::create::words;
use crate::ui::widgets::{flush, group_label, icon_button, palette, wide_note};
use crate::ui::{View, icons, theme};

pub(super) fn model_ui(ui: &mut Ui, view: &mut View<'_>) {
    let label = group_label(ui, words::MODEL, words::MODEL_HOVER);
    if view.app.cx.models.are_loading {
        ui.label(words::MODELS_LOADING);
    } else if view.app.cx.models.all().is_empty() {
        none_ui(ui, view);
    } else {
        let chosen = view.model();
        let name = chosen.map_or(words::CHOOSE_MODEL, |spec| spec.name.as_str());
        let name = name.to_owned();
        picker_ui(ui, view, &name, label.id);
        let chosen = view.model();
        if let Some(spec) = chosen {
            let weak = palette(ui).weak;
            let mut text = facts_text(spec);
            if !matches!(spec.licence.as_str(), "" | words::NO_LICENCE) {
                text = format!("{text}  ·  {}", spec.licence);
            }
            ui.add(Label::new(RichText::new(text).small().color(weak)).truncate())
                .on_hover_text(hover_text(spec));
        }
    }
    problems_ui(ui, view);
}

/// Opens the page of models; pressed again, it goes back.
fn picker_ui(ui: &mut Ui, view: &mut View<'_>, name: &str, label: egui::Id) {
    let is_open = view.app.cx.page == Page::Models;
    let weak = palette(ui).weak;
    let caret = RichText::new(icons::CARET_DOWN).size(theme::CHEVRON);
    let size = egui::vec2(ui.available_width(), ui.spacing().interact_size.y);
    let button = Button::new(name)
        .right_text(caret.color(weak))
        .truncate()
        .min_size(size);
    let response = ui.add(button);
    response.widget_info(|| {
        let mut info = egui::WidgetInfo::labeled(egui::Role::ComboBox, true, "");
        info.current_text_value = Some(name.to_owned());
        info
    });
    let response = response
        .labelled_by(label)
        .on_hover_text(words::ALL_MODELS_HOVER);
    if response.clicked() {
        view.push(AppCommand::Show(if is_open {
            Page::Watch
        } else {
            Page::Models
        }));
    }
}

fn facts_text(spec: &ModelSpec) -> String {
    format!(
        "{}  ·  {}  ·  {}",
        spec.family.kind_text(&spec.variant),
        needs_text(spec),
        size_text(spec.bytes)
    )
}

fn hover_text(spec: &ModelSpec) -> String {
    words::model_hover(spec, needs_text(spec))
}

/// Models that are on the disk and cannot be used, each with what is missing or wrong.
fn problems_ui(ui: &mut Ui, view: &mut View<'_>) {
    let problems = &view.app.cx.models.found.problems;
    if problems.is_empty() {
        return;
    }
    let palette = palette(ui);
    let title = words::problems(problems.len());
    let is_open = view.folds.are_problems_open;
    ui.horizontal(|ui| {
        let icon = if is_open {
            icons::CARET_DOWN
        } else {
            icons::CARET_RIGHT
        };
        let text = RichText::new(format!("{icon} {title}")).small();
        let button = Button::new(text.color(palette.amber)).frame_when_inactive(false);
        let response = flush(ui, button)
            .on_hover_text(words::PROBLEMS_HOVER)
            .accessible_name(&title);
        if response.clicked() {
            view.folds.are_problems_open = !is_open;
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let (name, hover) = (words::COPY_PROBLEMS, words::COPY_PROBLEMS_HOVER);
            if icon_button(ui, icons::COPY, name, hover).clicked() {
                let whole = problems
                    .iter()
                    .map(|it| format!("{}\n{}\n{}", it.summary, it.advice, it.details));
                let text = whole.collect::<Vec<_>>().join("\n\n");
                view.push(DesktopCommand::CopyText(text));
            }
        });
    });
    if !is_open {
        return;
    }
    ScrollArea::vertical()
        .id_salt("model-problems")
        .max_height(theme::PROBLEMS_HEIGHT)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for (index, problem) in problems.iter().enumerate() {
                if index > 0 {
                    ui.add_space(theme::SMALL_GAP);
                }
                wide_note(ui, &problem.summary, palette.text);
                if !problem.advice.is_empty() {
                    wide_note(ui, &problem.advice, palette.weak);
                }
            }
        });
}

fn none_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.label(words::NO_MODEL);
    let weak = palette(ui).weak;
    ui.label(RichText::new(words::NO_MODEL_ADVICE).small().color(weak));
    searched_ui(ui, view);
    ui.horizontal(|ui| {
        if ui.button(words::OPEN_SETTINGS).clicked() {
            view.push(AppCommand::Show(Page::Settings));
        }
        if icon_button(ui, icons::RESET, words::LOOK_AGAIN, words::LOOK_AGAIN_HOVER).clicked() {
            view.push(LibraryCommand::Reload);
        }
        if ui
            .button(words::GET_MODEL)
            .on_hover_text(words::GET_MODEL_HOVER)
            .clicked()
        {
            view.push(AppCommand::Show(Page::Welcome));
        }
    });
}

/// Where models were looked for.
fn searched_ui(ui: &mut Ui, view: &View<'_>) {
    if view.app.cx.models.found.searched.is_empty() {
        return;
    }
    let weak = palette(ui).weak;
    ui.label(RichText::new(words::SEARCHED).small());
    ScrollArea::vertical()
        .id_salt("searched-places")
        .max_height(theme::PROBLEMS_HEIGHT)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for place in &view.app.cx.models.found.searched {
                let folder = place.path.display().to_string();
                wide_note(ui, &words::searched(&folder, place.exists), weak);
            }
        });
}
