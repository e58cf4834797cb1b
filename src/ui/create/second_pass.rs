//! The second pass of a picture or clip: how much larger, and how much is made anew.

use egui::{DragValue, Ui};
use safelight_core::job::{GenerateForm, SecondPass};

use crate::ui::create::words;
use crate::ui::theme;
use crate::ui::widgets::{Own, list_box, number, own_row};

/// How many times as long the edges may become here; arguments and files say any other.
const SCALES: [f64; 4] = [1.25, 1.5, 2.0, 4.0];

/// For models that have one.
pub(super) fn second_pass_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let hover = words::SECOND_PASS_HOVER;
    let own = Own::of(
        words::SECOND_PASS_FIELD,
        &form.second_pass,
        &None,
        words::SECOND_PASS_OFF,
    );
    let reset = own_row(ui, words::SECOND_PASS, hover, &own, |ui, label| {
        let before = form.second_pass;
        let mut scale = before.map(|pass| pass.scale);
        ui.scope(|ui| {
            if before.is_some() {
                let gap = ui.spacing().item_spacing.x;
                ui.set_max_width(ui.available_width() - theme::VALUE_WIDTH - gap);
            }
            let shown = scale.map_or_else(|| words::SECOND_PASS_OFF.to_owned(), words::times);
            list_box(ui, "second-pass", &shown)
                .show_ui(ui, |ui| {
                    ui.selectable_value(&mut scale, None, words::SECOND_PASS_OFF);
                    for choice in SCALES {
                        ui.selectable_value(&mut scale, Some(choice), words::times(choice));
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
                .on_hover_text(words::SECOND_STRENGTH_HOVER)
                .accessible_name(words::SECOND_STRENGTH);
        }
    });
    if reset {
        form.second_pass = None;
    }
}
