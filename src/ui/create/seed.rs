//! The seed, and which one comes after it.

use egui::{Align2, Margin, TextEdit, Ui};

use safelight_core::job::SeedMode;

use crate::app::commands::QueueCommand;
use crate::ui::create::advanced::said_ui;
use crate::ui::create::image_or_video;
use crate::ui::widgets::{icon_button, list_box, row};
use crate::ui::{View, icons, theme};

/// Before the seed and behind it, in its field.
const MARGIN: i8 = 4;
/// As many as a new seed has; the field shows them whole.
const SEEN_DIGITS: usize = 9;

pub(super) fn seed_ui(ui: &mut Ui, view: &mut View<'_>) {
    let makes_pictures = view.makes_pictures();
    let explanation = seed_hover(makes_pictures);
    row(ui, "Seed", explanation, |ui, label| {
        // Close together: a seed of nine digits is seen whole.
        ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
        ui.spacing_mut().button_padding.x = theme::SMALL_GAP;
        let others = theme::SEED_MODE_WIDTH + theme::SEED_DICE_WIDTH + 2.0 * theme::SMALL_GAP;
        let width = ui.available_width() - others - 2.0 * f32::from(MARGIN);
        let mut text = view.form.seed_text();
        let edit = TextEdit::singleline(&mut text)
            .id_salt("seed")
            .margin(Margin::symmetric(MARGIN, 2))
            .align(Align2::LEFT_CENTER)
            .desired_width(width);
        let response = ui.add(edit).labelled_by(label).on_hover_ui(|ui| {
            // A longer one is cut off in its field.
            let text = view.form.seed_text();
            if text.len() > SEEN_DIGITS {
                ui.label(text);
            }
            ui.label(explanation);
        });
        if response.changed() {
            view.form.type_seed(text);
            view.push(QueueCommand::KeepSeed);
        }
        let mode = &mut view.form.seed_mode;
        list_box(ui, "seed-mode", mode.label())
            .width(theme::SEED_MODE_WIDTH)
            .show_ui(ui, |ui| {
                for choice in SeedMode::ALL {
                    ui.selectable_value(mode, choice, choice.label())
                        .on_hover_text(seed_mode_text(choice, makes_pictures));
                }
            })
            .response
            .on_hover_text(seed_mode_text(*mode, makes_pictures))
            .accessible_name("Seed mode");
        if icon_button(ui, icons::DICE, "Roll a new seed", "Another random seed").clicked() {
            view.push(QueueCommand::RollSeed);
        }
    });
    said_ui(ui, view, &["seed"]);
}

fn seed_hover(makes_pictures: bool) -> &'static str {
    image_or_video(
        makes_pictures,
        "Seed of the random noise. The same seed and settings make the same picture",
        "Seed of the random noise. The same seed and settings make the same clip",
    )
}

fn seed_mode_text(mode: SeedMode, makes_pictures: bool) -> &'static str {
    match (mode, makes_pictures) {
        (SeedMode::Random, true) => "Every new picture gets a new seed",
        (SeedMode::Random, false) => "Every new clip gets a new seed",
        (SeedMode::Fixed, true) => "Every picture uses this seed, until you change it",
        (SeedMode::Fixed, false) => "Every clip uses this seed, until you change it",
        (SeedMode::Increment, true) => "Every new picture gets the next higher number",
        (SeedMode::Increment, false) => "Every new clip gets the next higher number",
    }
}
