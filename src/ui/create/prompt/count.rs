//! How much of the prompt is read, in words, below it.

use egui::Ui;

use crate::ui::View;
use crate::ui::create::prompt::words;
use crate::ui::widgets::{palette, wide_note};

pub(super) fn count_ui(ui: &mut Ui, view: &View<'_>) {
    let palette = palette(ui);
    match view.app.prompt.counting.prompt() {
        None => {}
        Some(Err(problem)) => wide_note(ui, problem, palette.error),
        Some(Ok(count)) => {
            let Some(main) = count.encoders.first().filter(|_| count.num_prompts > 0) else {
                return;
            };
            let colour = if main.num_cut() > 0 {
                palette.amber
            } else {
                palette.weak
            };
            wide_note(ui, &words::tokens(count), colour);
            if let Some(text) = words::second_encoder(count) {
                wide_note(ui, &text, palette.weak);
            }
        }
    }
}

/// Of the negative prompt only what is wrong with it.
pub(super) fn negative_count_ui(ui: &mut Ui, view: &View<'_>) {
    match view.app.prompt.counting.negative() {
        Some(Err(problem)) => wide_note(ui, problem, palette(ui).error),
        Some(Ok(count))
            if count
                .encoders
                .first()
                .is_some_and(|main| main.num_cut() > 0) =>
        {
            wide_note(ui, &words::tokens(count), palette(ui).amber);
        }
        _ => {}
    }
}
