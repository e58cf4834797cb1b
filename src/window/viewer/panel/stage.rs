//! An image in its area, fitted or zoomed and moved; and two of them in a comparison.

use egui::emath::GuiRounding as _;

use crate::window::create::choices::CompareMode;
use crate::window::layout::prelude::*;
use crate::window::viewer::compare::{GAINS, ResultComparison};
use crate::window::viewer::panel::playhead;
use crate::window::viewer::texture::ViewerTexture;
use crate::window::viewer::zoom::ZoomLevel;

/// Exponent of the zoom factor for each point of scrolling.
const WHEEL_SPEED: f32 = 0.004;

/// Share of a small area that is left around the image.
const MARGIN_SHARE: f32 = 0.06;
const MODES: [(CompareMode, &str, &str); 3] = [
    (
        CompareMode::SideBySide,
        "Side by side",
        "A on the left, B on the right",
    ),
    (
        CompareMode::Wipe,
        "Wipe",
        "B over A: drag the line between them, or use the keys [ and ]",
    ),
    (
        CompareMode::Difference,
        "Difference",
        "How much each pixel of B differs from A: black where they are the same",
    ),
];

/// Aligns the image to whole pixels of the screen, so that its edge is sharp.
fn on_pixels(ui: &Ui, shown: Rect) -> Rect {
    let dots = ui.pixels_per_point();
    Rect::from_min_size(
        shown.min.round_to_pixels(dots),
        shown.size().round_to_pixels(dots),
    )
}

/// Handles wheel and pointer over areas with an image each, of this size in pixels; returns the images' rectangles. They
/// share one view: input on either applies to all before they are drawn.
pub(super) fn stages_ui<const N: usize>(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    stages: [(Rect, Vec2); N],
) -> [(Response, Rect); N] {
    let mut zoom = view.app.watch.zoom;
    let steered = stages.map(|stage| (steer_ui(ui, view, stage, &mut zoom), stage));
    if zoom != view.app.watch.zoom {
        view.push(PlayerCommand::Zoom(zoom));
    }
    steered.map(|(response, (area, size))| {
        (response, on_pixels(ui, zoom.rect(place(view, area), size)))
    })
}

/// Around the image there is room, unless it has the whole screen.
fn place(view: &UiContext<'_>, area: Rect) -> Rect {
    if view.app.watch.is_full {
        return area;
    }
    area.shrink(theme::STAGE_MARGIN.min(area.size().min_elem() * MARGIN_SHARE))
}

fn steer_ui(
    ui: &mut Ui,
    view: &UiContext<'_>,
    (area, size): (Rect, Vec2),
    zoom: &mut ZoomLevel,
) -> Response {
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
            ZoomLevel::Fit => ZoomLevel::own_size(ui.ctx().pixels_per_point()),
            ZoomLevel::At { .. } => ZoomLevel::Fit,
        };
    }
    response
}

/// Draws a screen into a rectangle, as far as the area goes.
pub(super) fn paint(ui: &Ui, area: Rect, shown: Rect, screen: &ViewerTexture) {
    let Some((texture, _)) = screen.handle() else {
        return;
    };
    let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter()
        .with_clip_rect(area.intersect(ui.clip_rect()))
        .image(texture.id(), shown, whole, Color32::WHITE);
}

pub(super) fn edge(ui: &Ui, area: Rect, shown: Rect, colour: Color32) {
    let line = Stroke::new(1.0, colour.gamma_multiply(0.7));
    ui.painter()
        .with_clip_rect(area.intersect(ui.clip_rect()))
        .rect_stroke(shown, 0.0, line, StrokeKind::Outside);
}

/// Controls of the comparison, in a row; for two images, which do not play, they are in the bar.
pub(super) fn controls_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    if playhead(view).is_some() {
        ui.horizontal_wrapped(|ui| modes_ui(ui, view));
    }
    if let Some(compare) = &view.app.watch.compare {
        lines_ui(ui, compare);
    }
}

pub(super) fn modes_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(compare) = &view.app.watch.compare else {
        return;
    };
    for (mode, name, explanation) in MODES {
        if choice(ui, compare.mode == mode, name, explanation).clicked() {
            set(view, move |compare| compare.mode = mode);
        }
    }
    match compare.mode {
        CompareMode::SideBySide => {}
        CompareMode::Wipe => divider_slider(ui, view, compare),
        CompareMode::Difference => gain_ui(ui, view, compare),
    }
    if sign_button(ui, icons::SWAP, "Swap A and B", "A and B change places").clicked() {
        set(view, ResultComparison::swap);
    }
    let explanation = "Back to what was shown before (Escape)";
    let button = sign_button(ui, icons::X, "Close", explanation);
    view.on_click(&button, PlayerCommand::LeaveCompare);
}

fn set(view: &mut UiContext<'_>, change: impl FnOnce(&mut ResultComparison) + 'static) {
    view.set(|app| app.watch.compare.as_mut().map_or((), change));
}

fn divider_slider(ui: &mut Ui, view: &mut UiContext<'_>, compare: &ResultComparison) {
    let mut divider = compare.divider;
    ui.spacing_mut().slider_width = theme::LABEL_WIDTH * 1.5;
    let slider = Slider::new(&mut divider, 0.0..=1.0).show_value(false);
    let slider = number_ui(ui, slider).on_hover_text("Where A ends and B begins (keys [ and ])");
    if slider.accessible_name("Divider").changed() {
        set(view, move |compare| compare.divider = divider);
    }
}

fn gain_ui(ui: &mut Ui, view: &mut UiContext<'_>, compare: &ResultComparison) {
    for gain in GAINS {
        let explanation = match gain {
            1 => "Differences are shown as they are".to_owned(),
            _ => format!("Differences are shown {gain} times as strong as they are"),
        };
        if choice(ui, compare.gain == gain, &format!("{gain}×"), &explanation).clicked() {
            set(view, move |compare| compare.gain = gain);
        }
    }
}

/// Names of A and B, and the differences of their settings.
fn lines_ui(ui: &mut Ui, compare: &ResultComparison) {
    let palette = palette(ui);
    let sides = compare.sides.iter().zip(&compare.differences);
    for (letter, (side, line)) in ["A", "B"].into_iter().zip(sides) {
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal(|ui| {
            ui.label(RichText::new(letter).strong().color(palette.amber));
            let text = format!("{line}  ·  {}", side.title());
            let label = Label::new(RichText::new(&text).small().color(palette.weak)).truncate();
            ui.add(label).on_hover_text(&text);
        });
    }
}

pub(super) fn images_ui(ui: &mut Ui, view: &mut UiContext<'_>, area: Rect) {
    let Some(compare) = &view.app.watch.compare else {
        return;
    };
    match compare.mode {
        CompareMode::SideBySide => side_by_side_ui(ui, view, compare, area),
        CompareMode::Wipe => wipe_ui(ui, view, compare, area),
        CompareMode::Difference => {
            let size = size_of(&compare.difference);
            let [(response, shown)] = stages_ui(ui, view, [(area, size)]);
            named(&response, "Difference of A and B");
            paint(ui, area, shown, &compare.difference);
            edge(ui, area, shown, palette(ui).line);
        }
    }
}

fn named(response: &Response, name: &str) {
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, name));
}

fn size_of(screen: &ViewerTexture) -> Vec2 {
    screen.size().unwrap_or(Vec2::splat(1.0))
}

fn side_by_side_ui(ui: &mut Ui, view: &mut UiContext<'_>, compare: &ResultComparison, area: Rect) {
    let (left, right) = area.split_left_right_at_fraction(0.5);
    let [a, b] = &compare.sides;
    let stages = [(left, size_of(&a.texture)), (right, size_of(&b.texture))];
    let [first, second] = stages_ui(ui, view, stages);
    for (place, side, letter, (response, shown)) in [(left, a, "A", first), (right, b, "B", second)]
    {
        named(&response, &format!("{letter}: {}", side.title()));
        paint(ui, place, shown, &side.texture);
        edge(ui, place, shown, palette(ui).line);
        let corner = shown.intersect(place).left_top();
        letter_ui(ui, corner + vec2(6.0, 6.0), Align2::LEFT_TOP, letter);
    }
}

fn wipe_ui(ui: &mut Ui, view: &mut UiContext<'_>, compare: &ResultComparison, area: Rect) {
    let [a, b] = &compare.sides;
    let [(response, shown)] = stages_ui(ui, view, [(area, size_of(&a.texture))]);
    named(&response, &format!("A: {}, B: {}", a.title(), b.title()));
    // B in A's place, each in its own shape.
    let other = ZoomLevel::Fit.rect(shown, size_of(&b.texture));
    let visible = shown.intersect(area);
    let x = visible.left() + visible.width() * compare.divider;
    let left = Rect::from_min_max(area.min, pos2(x, area.max.y));
    let right = Rect::from_min_max(pos2(x, area.min.y), area.max);
    paint(ui, left, shown, &a.texture);
    paint(ui, right, other, &b.texture);
    edge(ui, area, shown, palette(ui).line);
    let line = Rect::from_center_size(
        pos2(x, visible.center().y),
        vec2(theme::DIVIDER_GRIP, visible.height()),
    );
    // Above the image, so that it takes the drag.
    let grip = ui.interact(line, ui.scope_id().with("divider"), Sense::drag());
    let grip = grip.on_hover_cursor(CursorIcon::ResizeHorizontal);
    if let Some(pointer) = grip.interact_pointer_pos() {
        let at = (pointer.x - visible.left()) / visible.width().max(1.0);
        set(view, move |compare| compare.divider = at.clamp(0.0, 1.0));
    }
    let is_held = grip.hovered() || grip.dragged();
    let colour = if is_held {
        palette(ui).accent
    } else {
        palette(ui).amber
    };
    ui.painter()
        .vline(x, visible.y_range(), Stroke::new(2.0, colour));
    let top = visible.top() + 6.0;
    letter_ui(ui, pos2(visible.left() + 6.0, top), Align2::LEFT_TOP, "A");
    letter_ui(ui, pos2(visible.right() - 6.0, top), Align2::RIGHT_TOP, "B");
}

/// A letter that can be read on any image.
fn letter_ui(ui: &Ui, at: Pos2, align: Align2, letter: &str) {
    let palette = palette(ui);
    let rect = align.anchor_size(at, Vec2::splat(theme::COUNT_SIZE * 1.2));
    let ink = (theme::COUNT_SIZE * 0.75, palette.text);
    badge(ui, rect, palette.stage.gamma_multiply(0.85), letter, ink);
}
