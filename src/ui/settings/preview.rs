//! How a job shows itself while it develops: the choice among the settings.

use egui::{ComboBox, Ui};
use safelight_core::job::PreviewChoice;

use super::name;

pub(super) fn preview_ui(ui: &mut Ui, preview: &mut PreviewChoice) {
    let label = name(
        ui,
        "Preview",
        "How a picture or clip is shown while it develops. A tiny decoder makes it sharp where one lies among your models, in ComfyUI's folder vae_approx for example: taef1 for Flux, taew2_1 or taew2_2 for Wan, taehv for FramePack",
    );
    ComboBox::from_id_salt("preview")
        .selected_text(preview.label())
        .show_ui(ui, |ui| {
            for choice in PreviewChoice::ALL {
                ui.selectable_value(preview, choice, choice.label());
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();
}
