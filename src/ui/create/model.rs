//! The model picker: which model, what it is, and what to do when there is none.

use egui::text::LayoutJob;
use egui::{
    Align, Button, ComboBox, Label, Layout, RichText, ScrollArea, TextFormat, TextStyle, Ui,
};
use safelight_core::catalog::{InputUse, ModelSpec};

use crate::app::commands::AppCommand;
use crate::app::form::thing_of;
use crate::app::state::{Models, Page};
use crate::ui::create::fetch::{fetch_ui, missing_entries};
use crate::ui::widgets::{bytes_text, flush, group_label, icon_button, palette, wide_note};
use crate::ui::{View, icons, theme};

pub(super) fn model_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation =
        "Which model does the work. Folders with more models are added in the settings";
    let label = group_label(ui, "Model", explanation);
    match &view.session.models {
        Models::Loading => {
            ui.label("Looking for models…");
        }
        Models::Ready(specs) if specs.is_empty() => none_ui(ui, view),
        Models::Ready(specs) => {
            let chosen = view.session.model(&view.state.form);
            let name = chosen.map_or("Choose a model", |spec| spec.name.as_str());
            let mut wish = None;
            ComboBox::from_id_salt("model")
                .selected_text(name)
                .width(ui.available_width())
                .height(theme::PICKER_HEIGHT)
                .truncate()
                .show_ui(ui, |ui| {
                    for spec in specs {
                        let is_chosen = chosen.is_some_and(|chosen| chosen.id == spec.id);
                        let entry = entry_text(ui, spec);
                        if ui
                            .selectable_label(is_chosen, entry)
                            .on_hover_text(hover_text(spec))
                            .accessible_name(&spec.name)
                            .clicked()
                            && !is_chosen
                        {
                            wish = Some(AppCommand::ChooseModel(spec.id.clone()));
                        }
                    }
                    wish = wish.take().or_else(|| missing_entries(ui, view.session));
                })
                .response
                .labelled_by(label.id)
                .on_hover_text(explanation);
            if let Some(spec) = chosen {
                let weak = palette(ui).weak;
                let mut text = facts_text(spec);
                if !matches!(spec.licence.as_str(), "" | "not stated") {
                    text = format!("{text}  ·  {}", spec.licence);
                }
                ui.add(Label::new(RichText::new(text).small().color(weak)).truncate())
                    .on_hover_text(hover_text(spec));
            }
            view.commands.extend(wish);
        }
    }
    fetch_ui(ui, view);
    problems_ui(ui, view);
}

/// A model's name, and below it what it is.
fn entry_text(ui: &Ui, spec: &ModelSpec) -> LayoutJob {
    let palette = palette(ui);
    let format = |style: TextStyle, color| TextFormat {
        font_id: style.resolve(ui.style()),
        color,
        ..Default::default()
    };
    let mut job = LayoutJob::default();
    job.append(&spec.name, 0.0, format(TextStyle::Button, palette.text));
    job.append(
        &format!("\n{}", facts_text(spec)),
        0.0,
        format(TextStyle::Small, palette.weak),
    );
    job
}

fn facts_text(spec: &ModelSpec) -> String {
    format!(
        "{} {}  ·  {}  ·  {}",
        spec.family.label(),
        spec.variant,
        needs_text(spec),
        bytes_text(spec.bytes)
    )
}

/// What the model makes a clip from.
fn needs_text(spec: &ModelSpec) -> &'static str {
    use InputUse::{No, Optional, Required};
    if spec.mask == Required {
        return "picture and mask";
    }
    match (spec.start_image, spec.end_image) {
        (No, No) => "text",
        (Optional, No) => "text or picture",
        (Required, No) => "picture",
        (Required, Optional) => "picture, or first and last",
        (Optional, Optional) => "text, picture, or first and last",
        (Optional | Required, Required) => "first and last picture",
        (No, Optional) => "text or last picture",
        (No, Required) => "last picture",
    }
}

fn hover_text(spec: &ModelSpec) -> String {
    format!(
        "{}\nMakes {}s from {}\nLicence: {}\n{} on disk: {}",
        spec.description,
        thing_of(Some(spec)),
        needs_text(spec),
        spec.licence,
        bytes_text(spec.bytes),
        spec.folder.display()
    )
}

/// Models that are on the disk and cannot be used, each with what is missing or wrong.
fn problems_ui(ui: &mut Ui, view: &mut View<'_>) {
    let problems = &view.session.model_problems;
    if problems.is_empty() {
        return;
    }
    let palette = palette(ui);
    let title = match problems.len() {
        1 => "1 model cannot be used".to_owned(),
        count => format!("{count} models cannot be used"),
    };
    let is_open = view.state.are_problems_open;
    ui.horizontal(|ui| {
        let icon = if is_open {
            icons::CARET_DOWN
        } else {
            icons::CARET_RIGHT
        };
        let text = RichText::new(format!("{icon} {title}")).small();
        let button = Button::new(text.color(palette.amber)).frame_when_inactive(false);
        let response = flush(ui, button)
            .on_hover_text("What is missing or wrong, and what to do")
            .accessible_name(&title);
        if response.clicked() {
            view.state.are_problems_open = !is_open;
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let name = "Copy what is wrong with models";
            if icon_button(ui, icons::COPY, name, "Copy details for a bug report").clicked() {
                let whole = problems
                    .iter()
                    .map(|it| format!("{}\n{}\n{}", it.summary, it.advice, it.details));
                let text = whole.collect::<Vec<_>>().join("\n\n");
                view.commands.push(AppCommand::CopyText(text));
            }
        });
    });
    if !is_open {
        return;
    }
    ScrollArea::vertical()
        .id_salt("model problems")
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
    ui.label("No model was found");
    let weak = palette(ui).weak;
    ui.label(
        RichText::new(
            "Safelight ships with one: its assets folder is missing. Install it again, or add a folder with a Wan 2.2 TI2V model in the settings.",
        )
        .small()
        .color(weak),
    );
    searched_ui(ui, view);
    ui.horizontal(|ui| {
        if ui.button("Open settings…").clicked() {
            view.push(AppCommand::ShowPage(Page::Settings));
        }
        if icon_button(ui, icons::RESET, "Look again", "Look for models again").clicked() {
            view.push(AppCommand::ReloadModels);
        }
        let menu = ui.menu_button("Get a model", |ui| {
            ui.set_min_width(theme::FORM_WIDTH / 2.0);
            missing_entries(ui, view.session)
        });
        view.commands.extend(menu.inner.flatten());
    });
}

/// Where models were looked for.
fn searched_ui(ui: &mut Ui, view: &View<'_>) {
    if view.session.searched.is_empty() {
        return;
    }
    let weak = palette(ui).weak;
    ui.label(RichText::new("It was looked for in").small());
    ScrollArea::vertical()
        .id_salt("searched places")
        .max_height(theme::PROBLEMS_HEIGHT)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for place in &view.session.searched {
                let note = if place.exists { "" } else { " (not there)" };
                wide_note(ui, &format!("{}{note}", place.path.display()), weak);
            }
        });
}
