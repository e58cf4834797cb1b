//! Two drop zones over the window while a file with settings is dragged: one takes its settings, one the file.
//!
//! The app handles the drop.

use egui::Painter;

use crate::window::layout::prelude::*;

/// Beside the place of the image and between the zones.
const MARGIN: f32 = 28.0;
const MAX_HEIGHT: f32 = 260.0;

/// Draws them where the held file is offered both; whether it is.
pub(in crate::window) fn zones_ui(ui: &Ui, view: &mut UiContext<'_>, window: Rect) -> bool {
    if !view.app.drops.has_zones() {
        return false;
    }
    let area = room(view, window);
    let palette = palette(ui);
    let painter = ui.painter();
    painter.text(
        area.center_top() + vec2(0.0, MARGIN),
        Align2::CENTER_TOP,
        "What is this file for?",
        FontId::proportional(theme::HEADING_TEXT),
        palette.text,
    );
    let is_video = view.app.drops.held.is_some_and(|held| held.is_video);
    let elsewhere = if is_video {
        "Dropped anywhere else, the video plays"
    } else {
        "Dropped anywhere else, the image goes into the form"
    };
    if !view.app.drops.is_on_wayland() {
        painter.text(
            area.center_bottom() - vec2(0.0, MARGIN),
            Align2::CENTER_BOTTOM,
            elsewhere,
            TextStyle::Body.resolve(ui.style()),
            palette.weak,
        );
    }
    let row = area.shrink2(vec2(MARGIN, MARGIN * 2.8));
    let height = row.height().clamp(60.0, MAX_HEIGHT);
    let row = Rect::from_center_size(row.center(), vec2(row.width(), height));
    let more = "Its prompt, seed and settings go into the form";
    let settings = (icons::RESET, "Use settings", more);
    let Some(start) = start_words(view, is_video) else {
        zone_ui(ui, painter, row, settings);
        view.drawn.drop_zones = [Some(row), None];
        return true;
    };
    let (left, right) = row.split_left_right_at_fraction(0.5);
    let left = left.with_max_x(left.right() - MARGIN / 2.0);
    let right = right.with_min_x(right.left() + MARGIN / 2.0);
    zone_ui(ui, painter, left, settings);
    zone_ui(ui, painter, right, start);
    view.drawn.drop_zones = [Some(left), Some(right)];
    true
}

fn start_words(view: &UiContext<'_>, is_video: bool) -> Option<(char, &'static str, &'static str)> {
    let spec = view.model();
    if is_video && spec.is_some_and(|spec| view.form.changes_video(spec)) {
        let more = "The next video is made from it, as far as the strength says";
        return Some((icons::FILM, "Regenerate video (vid2vid)", more));
    }
    if !spec.is_none_or(|spec| spec.start_image.is_possible()) {
        return None;
    }
    if view.app.drops.is_on_wayland() {
        let more = "An image starts the next result, a video is extended";
        Some((icons::UPLOAD, "Use the file itself", more))
    } else if !is_video {
        let more = "The next result is made from it";
        Some((icons::IMAGE, "Use as start image", more))
    } else {
        let more = "New frames are added behind its last one";
        (!view.makes_images()).then_some((icons::FILM, "Extend video", more))
    }
}

/// Beside the form's places, or in the lower half of a window that has them everywhere.
fn room(view: &UiContext<'_>, window: Rect) -> Rect {
    let places = view.drawn.slots.iter().flatten();
    let form = places.map(|place| place.right()).fold(0.0, f32::max) + theme::GAP;
    let form = form.max(theme::FORM_WIDTH);
    if window.right() - form >= theme::WATCH_MIN_WIDTH {
        Rect::from_min_max(pos2(form, window.top()), window.max)
    } else {
        Rect::from_min_max(window.left_center(), window.max)
    }
}

fn zone_ui(ui: &Ui, painter: &Painter, rect: Rect, (icon, name, more): (char, &str, &str)) {
    let palette = palette(ui);
    let stroke = Stroke::new(2.0, palette.accent);
    painter.rect(
        rect,
        theme::CARD_RADIUS,
        palette.panel,
        stroke,
        StrokeKind::Inside,
    );
    let middle = rect.center();
    let text = |down: f32, text: &str, size: f32, colour| {
        let font = FontId::proportional(size);
        let at = middle + vec2(0.0, down);
        painter.text(at, Align2::CENTER_CENTER, text, font, colour);
    };
    if rect.height() > 120.0 {
        text(-40.0, &icon.to_string(), 40.0, palette.accent);
    }
    text(4.0, name, 18.0, palette.text);
    let small = TextStyle::Small.resolve(ui.style());
    let width = (rect.width() - 2.0 * theme::GAP).max(1.0);
    let mut lines = LayoutJob::simple(more.to_owned(), small, palette.weak, width);
    lines.halign = Align::Center;
    let galley = painter.layout_job(lines);
    painter.galley(middle + vec2(0.0, 22.0), galley, palette.weak);
    let response = ui.interact(rect, ui.scope_id().with(name), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, name));
}
