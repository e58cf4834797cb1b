//! A picture in its place: fitted or zoomed with the wheel, moved by dragging.
//!
//! Knows neither jobs nor files.

use egui::emath::GuiRounding as _;
use egui::{Color32, CornerRadius, Rect, Response, Sense, Stroke, Ui, Vec2, pos2};

use crate::app::commands::PlayerCommand;
use crate::app::player::screen::Screen;
use crate::app::player::zoom::Zoom;
use crate::ui::{View, theme};

/// How much a line of the wheel enlarges.
const WHEEL_SPEED: f32 = 0.004;

/// Around the picture in a small place.
const MARGIN_SHARE: f32 = 0.06;

/// Takes what is done with the wheel and the pointer; gives where a picture of this size in pixels lies.
pub(super) fn stage_ui(
    ui: &mut Ui,
    view: &mut View<'_>,
    area: Rect,
    size: Vec2,
) -> (Response, Rect) {
    let mut zoom = view.app.watch.zoom;
    let response = steer_ui(ui, view, area, size, &mut zoom);
    keep(view, zoom);
    let shown = on_pixels(ui, zoom.rect(place(view, area), size));
    (response, shown)
}

/// The picture begins and ends with whole pixels of the screen, so that its edge lies close to it.
fn on_pixels(ui: &Ui, shown: Rect) -> Rect {
    let dots = ui.pixels_per_point();
    Rect::from_min_size(
        shown.min.round_to_pixels(dots),
        shown.size().round_to_pixels(dots),
    )
}

/// The same for two pictures of one size of view: what is done with either acts on both before they are drawn.
pub(super) fn two_stages_ui(
    ui: &mut Ui,
    view: &mut View<'_>,
    stages: [(Rect, Vec2); 2],
) -> [(Response, Rect); 2] {
    let mut zoom = view.app.watch.zoom;
    let responses = stages.map(|(area, size)| steer_ui(ui, view, area, size, &mut zoom));
    keep(view, zoom);
    let [a, b] = stages.map(|(area, size)| on_pixels(ui, zoom.rect(place(view, area), size)));
    let [first, second] = responses;
    [(first, a), (second, b)]
}

/// Around the picture there is room, unless it has the whole screen.
fn place(view: &View<'_>, area: Rect) -> Rect {
    if view.app.watch.is_full {
        return area;
    }
    let margin = theme::STAGE_MARGIN.min(area.size().min_elem() * MARGIN_SHARE);
    area.shrink(margin)
}

fn steer_ui(ui: &mut Ui, view: &View<'_>, area: Rect, size: Vec2, zoom: &mut Zoom) -> Response {
    let response = ui.allocate_rect(area, Sense::click_and_drag());
    let place = place(view, area);
    if let Some(pointer) = response.hover_pos() {
        let (scroll, pinch) = ui.input(|input| (input.smooth_scroll_delta().y, input.zoom_delta()));
        let factor = (scroll * WHEEL_SPEED).exp() * pinch;
        if factor != 1.0 {
            *zoom = zoom.by(factor, pointer, place, size);
        }
    }
    if response.dragged() {
        *zoom = zoom.moved(response.drag_delta(), place, size);
    }
    if response.double_clicked() {
        *zoom = match zoom {
            Zoom::Fit => Zoom::own_size(ui.ctx().pixels_per_point()),
            Zoom::At { .. } => Zoom::Fit,
        };
    }
    response
}

fn keep(view: &mut View<'_>, zoom: Zoom) {
    if zoom != view.app.watch.zoom {
        view.push(PlayerCommand::Zoom(zoom));
    }
}

/// Draws a screen into a rectangle, as far as the area goes.
pub(super) fn paint(ui: &Ui, area: Rect, shown: Rect, screen: &Screen, tint: Color32) {
    let Some((texture, _)) = screen.texture() else {
        return;
    };
    let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter()
        .with_clip_rect(area.intersect(ui.clip_rect()))
        .image(texture.id(), shown, whole, tint);
}

pub(super) fn edge(ui: &Ui, area: Rect, shown: Rect, colour: Color32) {
    ui.painter()
        .with_clip_rect(area.intersect(ui.clip_rect()))
        .rect_stroke(
            shown,
            CornerRadius::ZERO,
            Stroke::new(1.0, colour.gamma_multiply(0.7)),
            egui::StrokeKind::Outside,
        );
}
