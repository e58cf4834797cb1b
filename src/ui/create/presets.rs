//! Presets: values that go together, taken over with one click and given back with another.

use egui::Ui;
use safelight_core::catalog::ModelSpec;

use crate::app::commands::AppCommand;
use crate::ui::View;
use crate::ui::widgets::{choice, field_hint, row};

pub(super) fn presets_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    if spec.presets.is_empty() {
        return;
    }
    let chosen = view.state.form.preset(spec);
    let explanation = "Values that go together: steps, guidance, shift and sampler at once";
    let mut wish = None;
    row(ui, "Preset", explanation, |ui, _| {
        ui.horizontal_wrapped(|ui| {
            for preset in &spec.presets {
                let is_chosen = chosen == Some(preset);
                if choice(ui, is_chosen, &preset.name, &preset.note).clicked() {
                    // A second click gives back what the first one took.
                    wish = Some(if is_chosen {
                        AppCommand::UndoPreset
                    } else {
                        AppCommand::ApplyPreset(preset.id.clone())
                    });
                }
            }
            // It stays when a value was changed since.
            if chosen.is_some() || view.state.form.before_preset.is_some() {
                let reset = ui
                    .button("Reset")
                    .on_hover_text("Back to the values before the preset");
                if reset.clicked() {
                    wish = Some(AppCommand::UndoPreset);
                }
            }
        });
    });
    if let Some(preset) = chosen {
        field_hint(ui, &preset.note);
    }
    view.commands.extend(wish);
}
