//! The seed, and which one comes after it.

use egui::{ComboBox, Margin, TextEdit, Ui};

use safelight_core::job::SeedMode;

use crate::app::commands::QueueCommand;
use crate::ui::create::advanced::said_ui;
use crate::ui::widgets::{icon_button, row};
use crate::ui::{View, icons, theme};

/// Before the seed and behind it, in its field.
const MARGIN: i8 = 4;
/// As many as a new seed has; the field shows them whole.
const SEEN_DIGITS: usize = 9;

pub(super) fn seed_ui(ui: &mut Ui, view: &mut View<'_>) {
    let thing = view.thing();
    let explanation = format!(
        "The number that chance begins with. The same seed and settings make the same {thing}"
    );
    row(ui, "Seed", &explanation, |ui, label| {
        // Close together: a seed of nine digits is seen whole.
        ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
        let others = theme::SEED_MODE_WIDTH + theme::SEED_DICE_WIDTH + 2.0 * theme::SMALL_GAP;
        let width = ui.available_width() - others - 2.0 * f32::from(MARGIN);
        let mut text = view.form.seed_text();
        let edit = TextEdit::singleline(&mut text)
            .id_salt("seed")
            .margin(Margin::symmetric(MARGIN, 2))
            .desired_width(width);
        let response = ui.add(edit).labelled_by(label).on_hover_ui(|ui| {
            // A longer one is cut off in its field.
            let text = view.form.seed_text();
            if text.len() > SEEN_DIGITS {
                ui.label(text);
            }
            ui.label(&explanation);
        });
        if response.changed() {
            view.form.type_seed(text);
            view.push(QueueCommand::KeepSeed);
        }
        let mode = &mut view.form.seed_mode;
        ComboBox::from_id_salt("seed mode")
            .selected_text(mode.label())
            .width(theme::SEED_MODE_WIDTH)
            .show_ui(ui, |ui| {
                for choice in SeedMode::ALL {
                    ui.selectable_value(mode, choice, choice.label())
                        .on_hover_text(choice.meaning(thing));
                }
            })
            .response
            .on_hover_text(mode.meaning(thing))
            .accessible_name("Seed mode");
        ui.spacing_mut().button_padding.x = theme::SMALL_GAP;
        if icon_button(ui, icons::DICE, "Roll a new seed", "Another seed").clicked() {
            view.push(QueueCommand::RollSeed);
        }
    });
    said_ui(ui, view, &["seed"]);
}
