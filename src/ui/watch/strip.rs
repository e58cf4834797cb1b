//! The strip of this session's results; a click plays one again.

use egui::{
    Align2, Button, CornerRadius, FontId, Frame, Image, Margin, Panel, Rect, ScrollArea, Stroke,
    Ui, Vec2, vec2,
};

use crate::app::commands::AppCommand;
use crate::app::player::commands::PlayerCommand;
use crate::app::queue::ResultItem;
use crate::ui::watch::is_shown;
use crate::ui::widgets::palette;
use crate::ui::{View, narrow, theme};

pub(in crate::ui) fn strip_ui(ui: &mut Ui, view: &mut View<'_>) {
    if !narrow::has_strip(ui.available_height(), view) {
        return;
    }
    let palette = palette(ui);
    let frame = Frame::new()
        .fill(palette.stage)
        .inner_margin(Margin::symmetric(16, 8));
    Panel::bottom("gallery")
        .frame(frame)
        .resizable(false)
        .show(ui, |ui| {
            ScrollArea::horizontal()
                .auto_shrink([false, true])
                .show(ui, |ui| {
                    ui.horizontal(|ui| {
                        for (index, item) in view.queue.results.iter().enumerate().rev() {
                            thumb_ui(ui, view, index, item);
                        }
                    });
                });
        });
}

fn thumb_ui(ui: &mut Ui, view: &mut View<'_>, index: usize, item: &ResultItem) {
    let palette = palette(ui);
    let size = item.thumb.size_vec2();
    let scale = theme::THUMB_SIDE / size.y.max(1.0);
    let width = (size.x * scale).clamp(theme::THUMB_SIDE * 0.5, theme::THUMB_SIDE * 2.0);
    let image = Image::new(&item.thumb).fit_to_exact_size(vec2(width, theme::THUMB_SIDE));
    let edge = if is_shown(view, item.id) {
        palette.accent
    } else {
        palette.line
    };
    ui.spacing_mut().button_padding = vec2(2.0, 2.0);
    let button = Button::image(image)
        .stroke(Stroke::new(2.0, edge))
        .fill(palette.stage);
    let response = ui
        .add(button)
        .on_hover_text(format!(
            "{}\nSeed {}. Ctrl-click compares",
            item.request.prompt, item.request.seed
        ))
        .accessible_name(format!("Result {}: {}", index + 1, item.request.prompt));
    if item.is_batch() {
        count_badge(ui, response.rect, item.request.batch_size);
    }
    if response.clicked() {
        let is_compared = ui.input(|input| input.modifiers.command);
        view.push(if is_compared {
            AppCommand::Player(PlayerCommand::CompareWith(item.id))
        } else {
            AppCommand::ShowResult(item.id)
        });
    }
}

/// How many pictures a batch has, in the corner of its thumbnail.
fn count_badge(ui: &Ui, thumb: Rect, count: u32) {
    let palette = palette(ui);
    let size = Vec2::splat(theme::COUNT_SIZE);
    let rect = Rect::from_min_size(thumb.right_bottom() - size - vec2(4.0, 4.0), size);
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter()
        .rect_filled(rect, radius, palette.stage.gamma_multiply(0.85));
    ui.painter().text(
        rect.center(),
        Align2::CENTER_CENTER,
        count,
        FontId::proportional(theme::COUNT_SIZE * 0.65),
        palette.text,
    );
}
