//! The pictures of a batch side by side; a click shows one.

use egui::{ScrollArea, Stroke, Ui, vec2};

use crate::app::commands::{AppCommand, PlayerCommand};
use crate::app::queue::ResultItem;
use crate::ui::watch::strip::thumb_button;
use crate::ui::widgets::palette;
use crate::ui::{View, theme};

pub(super) fn batch_ui(ui: &mut Ui, view: &mut View<'_>, item: &ResultItem) {
    if !item.is_batch() {
        return;
    }
    let palette = palette(ui);
    let count = item.output.clip.frames.len();
    let shown = view.app.watch.shown_of_batch();
    let mut wish = None;
    ScrollArea::horizontal()
        .id_salt("batch")
        .auto_shrink([false, true])
        .show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.spacing_mut().button_padding = vec2(2.0, 2.0);
                for (index, frame) in item.output.clip.frames.iter().enumerate() {
                    let size = vec2(frame.width as f32, frame.height as f32);
                    let scale = theme::BATCH_SIDE / size.max_elem().max(1.0);
                    let edge = if index == shown {
                        palette.accent
                    } else {
                        palette.line
                    };
                    let button = thumb_button(view, item.pictured(index), size * scale)
                        .stroke(Stroke::new(2.0, edge))
                        .fill(palette.stage);
                    let request = item.generated(index);
                    let seed = request.map_or(0, |request| request.seed);
                    let response = ui
                        .add(button)
                        .on_hover_text(format!("Seed {seed} (Left and Right go through the batch)"))
                        .accessible_name(format!("Picture {} of {count}", index + 1));
                    if response.clicked() {
                        wish = Some(AppCommand::Player(PlayerCommand::ShowFrame(index)));
                    }
                }
            });
        });
    view.commands.extend(wish);
}
