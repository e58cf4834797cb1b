//! The model picker: which model, what it is, and what to do when there is none.

use egui::{ComboBox, RichText, Ui};

use super::widgets::{bytes_text, group_label, icon_button, palette};
use super::{View, icons};
use crate::app::commands::AppCommand;
use crate::app::state::Models;

pub(super) fn model_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation =
        "Which model makes the clip. Folders with more models are added in the settings";
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
                .truncate()
                .show_ui(ui, |ui| {
                    for spec in specs {
                        let is_chosen = chosen.is_some_and(|chosen| chosen.id == spec.id);
                        let hover = format!("{}\n{}", spec.description, spec.folder.display());
                        if ui
                            .selectable_label(is_chosen, &spec.name)
                            .on_hover_text(hover)
                            .clicked()
                            && !is_chosen
                        {
                            wish = Some(AppCommand::ChooseModel(spec.id.clone()));
                        }
                    }
                })
                .response
                .labelled_by(label.id)
                .on_hover_text(explanation);
            if let Some(spec) = chosen {
                let facts = format!(
                    "{} {} · {} · {}",
                    spec.family.label(),
                    spec.variant,
                    bytes_text(spec.bytes),
                    spec.licence
                );
                let weak = palette(ui).weak;
                ui.label(RichText::new(facts).small().color(weak))
                    .on_hover_text(&spec.description);
            }
            view.commands.extend(wish);
        }
    }
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
    ui.horizontal(|ui| {
        if ui.button("Open settings…").clicked() {
            view.push(AppCommand::ShowSettings(true));
        }
        if icon_button(ui, icons::RESET, "Look again", "Look for models again").clicked() {
            view.push(AppCommand::ReloadModels);
        }
    });
}
