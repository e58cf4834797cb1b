//! The second pass of a picture or clip: how much larger, and how much is made anew.

use egui::{DragValue, Ui};
use safelight_core::job::{GenerateForm, SecondPass};

use crate::ui::theme;
use crate::ui::widgets::{Own, list_box, number, own_row};

/// How many times as long the edges may become here; arguments and files say any other.
const SCALES: [f64; 4] = [1.25, 1.5, 2.0, 4.0];
const SECOND_PASS_OFF: &str = "Off";

/// For models that have one.
pub(super) fn second_pass_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let hover = "Hires fix: upscales the result and denoises it again for more detail. Takes as \
                long as a result of that size, less what the strength saves";
    let own = Own::of("second pass", &form.second_pass, &None, SECOND_PASS_OFF);
    let reset = own_row(ui, "Second pass", hover, &own, |ui, label| {
        let before = form.second_pass;
        let mut scale = before.map(|pass| pass.scale);
        ui.scope(|ui| {
            if before.is_some() {
                let gap = ui.spacing().item_spacing.x;
                ui.set_max_width(ui.available_width() - theme::VALUE_WIDTH - gap);
            }
            let shown =
                scale.map_or_else(|| SECOND_PASS_OFF.to_owned(), |scale| format!("{scale}×"));
            list_box(ui, "second-pass", &shown)
                .show_ui(ui, |ui| {
                    ui.selectable_value(&mut scale, None, SECOND_PASS_OFF);
                    for choice in SCALES {
                        ui.selectable_value(&mut scale, Some(choice), format!("{choice}×"));
                    }
                })
                .response
                .labelled_by(label)
                .on_hover_text(hover);
        });
        if scale != before.map(|pass| pass.scale) {
            let strength = before.map_or(SecondPass::STRENGTH, |pass| pass.strength);
            form.second_pass = scale.map(|scale| SecondPass { scale, strength });
        } else if let Some(pass) = &mut form.second_pass {
            let value = DragValue::new(&mut pass.strength)
                .speed(0.01)
                .range(0.01..=1.0);
            let width = ui.available_width();
            number(ui, width, value)
                .on_hover_text(
                    "Denoising strength of the second pass: 0.3 to 0.5 adds detail, more changes \
                    the image",
                )
                .accessible_name("Second pass strength");
        }
    });
    if reset {
        form.second_pass = None;
    }
}
