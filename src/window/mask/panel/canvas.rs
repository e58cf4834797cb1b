//! The image with the mask over it, the brush at the pointer, and what pointer, wheel and keys do there.

use egui::{MouseWheelUnit, PointerButton};

use crate::window::layout::prelude::*;
use crate::window::layout::view::MaskPanel;
use crate::window::mask::MaskEditor;
use crate::window::mask::panel::extend::{MAX_ROOM, draw_edges, edges_ui};

/// Maximum zoom in points per pixel.
const MAX_SCALE: f32 = 24.0;
/// Distance from the border of the canvas at which a dragged edge zooms out, in points: more than a fitted image leaves.
const BORDER: f32 = 24.0;
const BORDER_SECS: f64 = 0.4;
/// Part of the scale that is lost in a second.
const ZOOM_OUT: f32 = 1.5;

#[derive(Clone, Copy)]
pub(super) struct ImagePlacement {
    /// The canvas.
    pub area: Rect,
    origin: Pos2,
    /// Points per pixel.
    pub scale: f32,
}

impl ImagePlacement {
    fn in_area(panel: &MaskPanel, size: Vec2, area: Rect) -> Self {
        let scale = panel.scale.unwrap_or_else(|| fit_scale(size, area));
        let origin = area.center() + panel.offset - size * scale / 2.0;
        Self {
            area,
            origin,
            scale,
        }
    }

    pub fn to_image(self, at: Pos2) -> [f32; 2] {
        let at = (at - self.origin) / self.scale.max(f32::EPSILON);
        [at.x, at.y]
    }

    pub fn to_screen(self, rect: Rect) -> Rect {
        let place = |at: Pos2| self.origin + at.to_vec2() * self.scale;
        Rect::from_min_max(place(rect.min), place(rect.max))
    }
}

/// Points a pixel at which the whole image is seen; small ones are enlarged.
fn fit_scale(size: Vec2, area: Rect) -> f32 {
    let room = area.shrink(12.0).size().max(Vec2::splat(1.0));
    (room / size.max(Vec2::splat(1.0))).min_elem().min(8.0)
}

pub(super) fn canvas_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    editor: &MaskEditor,
    is_uncovered: bool,
) {
    let area = ui.available_rect_before_wrap();
    let response = ui.allocate_rect(area, Sense::click_and_drag());
    response
        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, "Mask over the image"));
    if is_uncovered {
        keys(ui, view);
    }
    zoom_and_pan(ui, &mut view.panels.mask, editor.size(), area, &response);
    let lie = ImagePlacement::in_area(&view.panels.mask, editor.size(), area);
    // Outside of the image, so no stroke begins there.
    let is_at_edge = !editor.is_painting() && edges_ui(ui, view, editor, lie);
    // A click outside an open popover closes it and paints nothing.
    if !is_at_edge && (is_uncovered || editor.is_painting()) {
        paint(ui, view, editor, lie, &response);
    }
    let lie = zoom_out_at_border(ui, &mut view.panels.mask, editor.size(), lie);
    draw(ui, view, editor, lie);
    draw_edges(ui, view, editor, lie);
    if !is_at_edge {
        brush(ui, &view.panels.mask, lie, &response);
    }
}

fn zoom_and_pan(ui: &Ui, panel: &mut MaskPanel, size: Vec2, area: Rect, response: &Response) {
    if response.dragged_by(PointerButton::Middle) {
        panel.scale = Some(ImagePlacement::in_area(panel, size, area).scale);
        panel.offset += response.drag_delta();
    }
    let Some(pointer) = response.hover_pos() else {
        return;
    };
    let (zoom, wheel) = ui.input(|input| {
        let turned = input.events.iter().map(|event| match event {
            Event::MouseWheel {
                unit,
                delta,
                modifiers,
                ..
            } if !modifiers.command && !modifiers.ctrl => match unit {
                MouseWheelUnit::Line | MouseWheelUnit::Page => delta.y,
                // A touch pad tells of many small steps.
                MouseWheelUnit::Point => delta.y / 40.0,
            },
            _ => 0.0,
        });
        (input.zoom_delta(), turned.sum::<f32>())
    });
    if wheel != 0.0 {
        panel.resize_brush(wheel.clamp(-8.0, 8.0));
    }
    if zoom != 1.0 && zoom.is_finite() {
        let least = fit_scale(size, area).min(1.0) / 2.0;
        zoom_to(panel, size, area, pointer, zoom, least);
    }
}

/// Zooms out while an edge of the image is dragged to the border of the canvas, so that there is always room for more.
fn zoom_out_at_border(
    ui: &Ui,
    panel: &mut MaskPanel,
    size: Vec2,
    before: ImagePlacement,
) -> ImagePlacement {
    let area = before.area;
    let Some(held) = &mut panel.extend.dragged else {
        return before;
    };
    let input = ui.input(|input| (input.pointer.latest_pos(), input.time, input.stable_dt));
    let (Some(pointer), now, secs) = input else {
        return before;
    };
    // Held where it was, it stays.
    let is_pulled = held.room > held.at;
    if area.shrink(BORDER).contains(pointer) || !is_pulled {
        held.at_border_since = None;
        return before;
    }
    ui.ctx().request_repaint();
    if now - *held.at_border_since.get_or_insert(now) < BORDER_SECS {
        return before;
    }
    held.move_to(before.to_image(pointer));
    let room = held.side.outwards().abs() * MAX_ROOM as f32;
    panel.extend.fits_again |= panel.scale.is_none();
    let least = fit_scale(size + 2.0 * room, area);
    let zoom = 1.0 - ZOOM_OUT * secs.min(0.1);
    zoom_to(panel, size, area, area.center(), zoom, least);
    ImagePlacement::in_area(panel, size, area)
}

/// Zooms so that what is under the pointer stays there.
fn zoom_to(panel: &mut MaskPanel, size: Vec2, area: Rect, pointer: Pos2, zoom: f32, least: f32) {
    let before = ImagePlacement::in_area(panel, size, area);
    let scale = (before.scale * zoom).clamp(least.min(before.scale), MAX_SCALE);
    let [x, y] = before.to_image(pointer);
    panel.scale = Some(scale);
    panel.offset = pointer - area.center() + (size / 2.0 - vec2(x, y)) * scale;
}

/// Strokes: every pointer position while a button was down counts, also in a long frame during which a stroke begins or
/// ends.
fn paint(
    ui: &Ui,
    view: &mut UiContext<'_>,
    editor: &MaskEditor,
    lie: ImagePlacement,
    response: &Response,
) {
    let buttons = [PointerButton::Primary, PointerButton::Secondary];
    let is_held = response.is_pointer_button_down_on();
    // A stroke that is over before a frame saw the button down is no click and no drag.
    let is_ours = is_held || response.contains_pointer();
    let was_painting = editor.is_painting();
    if !was_painting && (!is_ours || editor.busy.is_some()) {
        return;
    }
    let (events, held, place) = ui.input(|input| {
        let pointer = &input.pointer;
        let held = buttons.into_iter().find(|it| pointer.button_down(*it));
        let place = pointer.press_origin().or_else(|| pointer.latest_pos());
        (input.events.clone(), held, place)
    });
    let panel = &view.panels.mask;
    let tool = panel.tool;
    let brush_of = |button| panel.brush(panel.is_erasing || button == PointerButton::Secondary);
    let mut commands = Vec::new();
    let mut down = was_painting.then(|| held.unwrap_or(PointerButton::Primary));
    for event in &events {
        match (event, down) {
            (Event::PointerMoved(at), Some(button)) => {
                commands.push(MaskCommand::Move(lie.to_image(*at), brush_of(button)));
            }
            (
                &Event::PointerButton {
                    pos,
                    button,
                    pressed: true,
                    ..
                },
                None,
            ) if buttons.contains(&button) && response.rect.contains(pos) => {
                commands.push(MaskCommand::Begin(
                    lie.to_image(pos),
                    brush_of(button),
                    tool,
                ));
                down = Some(button);
            }
            (
                &Event::PointerButton {
                    pos,
                    button,
                    pressed: false,
                    ..
                },
                Some(of),
            ) if buttons.contains(&button) => {
                commands.push(MaskCommand::Move(lie.to_image(pos), brush_of(of)));
                commands.push(MaskCommand::End);
                down = None;
            }
            _ => {}
        }
    }
    match (down, held, place) {
        // The editor was busy and is free now, and the button has been down since.
        (None, Some(button), Some(at)) if commands.is_empty() && is_held => {
            commands.push(MaskCommand::Begin(lie.to_image(at), brush_of(button), tool));
        }
        // The window was left with the button down.
        (Some(_), None, _) => commands.push(MaskCommand::End),
        _ => {}
    }
    for command in commands {
        view.push(command);
    }
}

fn draw(ui: &Ui, view: &mut UiContext<'_>, editor: &MaskEditor, lie: ImagePlacement) {
    let on_screen = lie.to_screen(Rect::from_min_size(Pos2::ZERO, editor.size()));
    let visible = on_screen.intersect(lie.area);
    if !visible.is_positive() {
        return;
    }
    let (left, right) = (lie.to_image(visible.min), lie.to_image(visible.max));
    let seen = Rect::from_min_max(pos2(left[0], left[1]), pos2(right[0], right[1]));
    let dots = lie.scale * ui.ctx().pixels_per_point();
    let painter = ui.painter().with_clip_rect(visible);
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    let panel = &view.panels.mask;
    let (colour, _) = theme::MASK_COLOURS[panel.colour_of(editor.mean_rgb)];
    let tint = colour.gamma_multiply(panel.opacity);
    if let Some(tiles) = editor.changed_view(seen, dots) {
        view.set(|app| {
            if let Some(editor) = &mut app.masking.editor {
                editor.view = Some(tiles);
            }
        });
    }
    for tile in &editor.painted.shown {
        let rect = lie.to_screen(tile.rect);
        painter.image(tile.image.id(), rect, uv, Color32::WHITE);
        painter.image(tile.mask.id(), rect, uv, tint);
    }
    if let Some((corners, erases)) = editor.outline() {
        let corner = |at: [f32; 2]| lie.origin + Vec2::from(at) * lie.scale;
        let corners: Vec<Pos2> = corners.into_iter().map(corner).collect();
        let palette = palette(ui);
        // Seen on light and on dark.
        for (width, ink) in [(3.5, palette.stage), (1.5, ink(palette, erases))] {
            painter.add(egui::Shape::closed_line(
                corners.clone(),
                Stroke::new(width, ink),
            ));
        }
    }
}

fn ink(palette: &theme::ThemeColors, erases: bool) -> Color32 {
    if erases {
        palette.amber
    } else {
        palette.on_accent
    }
}

/// The brush where the pointer is, in the size that it paints.
fn brush(ui: &Ui, panel: &MaskPanel, lie: ImagePlacement, response: &Response) {
    let Some(at) = response.hover_pos() else {
        return;
    };
    ui.ctx().set_cursor_icon(CursorIcon::Crosshair);
    if panel.tool != MaskTool::Brush {
        return;
    }
    let radius = (panel.diameter / 2.0 * lie.scale).max(1.0);
    let erases = panel.is_erasing || ui.input(|input| input.pointer.secondary_down());
    let palette = palette(ui);
    let ink = ink(palette, erases);
    let painter = ui.painter().with_clip_rect(response.rect);
    // Seen on light and on dark.
    painter.circle_stroke(at, radius + 1.0, Stroke::new(1.0, palette.stage));
    painter.circle_stroke(at, radius, Stroke::new(1.5, ink));
    let inner = radius * (1.0 - panel.softness / 100.0);
    if inner > 2.0 && panel.softness > 0.0 {
        painter.circle_stroke(at, inner, Stroke::new(1.0, ink.gamma_multiply(0.5)));
    }
}

fn keys(ui: &Ui, view: &mut UiContext<'_>) {
    if ui.ctx().memory(|memory| memory.focused().is_some()) {
        return;
    }
    let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
    // The longer ones first: a shorter one would take them.
    let redo = pressed(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z)
        || pressed(Modifiers::COMMAND, Key::Y);
    if redo {
        view.push(MaskCommand::Redo);
    } else if pressed(Modifiers::COMMAND, Key::Z) {
        view.push(MaskCommand::Undo);
    }
    if pressed(Modifiers::NONE, Key::OpenBracket) {
        view.panels.mask.resize_brush(-1.0);
    }
    if pressed(Modifiers::NONE, Key::CloseBracket) {
        view.panels.mask.resize_brush(1.0);
    }
    if pressed(Modifiers::COMMAND, Key::I) {
        view.push(MaskCommand::Invert);
    }
    if pressed(Modifiers::NONE, Key::E) {
        view.panels.mask.is_erasing ^= true;
    }
    for (key, tool) in [
        (Key::B, MaskTool::Brush),
        (Key::R, MaskTool::Rectangle),
        (Key::L, MaskTool::Lasso),
    ] {
        if pressed(Modifiers::NONE, key) {
            view.panels.mask.tool = tool;
        }
    }
}
