//! Outpainting of the painted image: the row with its numbers, and the dragged edges.
//!
//! Core defines the allowed margins, and the app applies them.

use egui::PointerButton;
use safelight_core::media::{MAX_OVERLAP, OutpaintMargins, OutpaintRequest};

use crate::window::layout::prelude::*;
use crate::window::layout::view::{DraggedEdge, ImageEdge, MaskPanel};
use crate::window::mask::MaskEditor;
use crate::window::mask::panel::canvas::ImagePlacement;
use crate::window::mask::panel::field_number;

/// As much as is offered on one side.
pub(super) const MAX_ROOM: u32 = 4096;
/// Distance outside of an edge at which it can be dragged, in points.
const HOLD: f32 = 12.0;
/// The bar in the middle of an edge that shows that.
const GRIP: Vec2 = vec2(40.0, 4.0);
pub(super) const EXTEND_HOVER: &str = "Outpaint: add margins that are generated, in every frame of a video. Write pixels here, or drag an edge of the image. Edges grow to what the model takes";
const OVERLAP_HOVER: &str = "How far the mask fades into the image at an extended side: half of that is generated anew, so that no seam is seen. 0 keeps every pixel of the image";

impl ImageEdge {
    const ALL: [Self; 4] = [Self::Left, Self::Top, Self::Right, Self::Bottom];

    fn of(self, margins: &mut OutpaintMargins) -> &mut u32 {
        match self {
            Self::Left => &mut margins.left,
            Self::Top => &mut margins.top,
            Self::Right => &mut margins.right,
            Self::Bottom => &mut margins.bottom,
        }
    }

    /// Unit vector out of the image.
    pub(super) fn outwards(self) -> Vec2 {
        match self {
            Self::Left => vec2(-1.0, 0.0),
            Self::Top => vec2(0.0, -1.0),
            Self::Right => vec2(1.0, 0.0),
            Self::Bottom => vec2(0.0, 1.0),
        }
    }

    /// Strip outside of this edge, `by` wide.
    fn strip(self, image: Rect, by: f32) -> Rect {
        let out = self.outwards();
        let min = image.min + out.max(Vec2::ZERO) * image.size();
        let max = image.max + out.min(Vec2::ZERO) * image.size();
        let edge = Rect::from_min_max(min, max);
        edge.union(edge.translate(out * by))
    }

    fn cursor(self) -> CursorIcon {
        match self {
            Self::Left | Self::Right => CursorIcon::ResizeHorizontal,
            Self::Top | Self::Bottom => CursorIcon::ResizeVertical,
        }
    }
}

impl DraggedEdge {
    pub(super) fn move_to(&mut self, to: [f32; 2]) {
        let moved = vec2(to[0] - self.from[0], to[1] - self.from[1]);
        let room = self.at + moved.dot(self.side.outwards());
        self.room = room.clamp(0.0, MAX_ROOM as f32);
    }
}

impl MaskPanel {
    /// The applied margins may exceed the requested ones. A view that a drag has zoomed out fits the image again.
    pub(super) fn follow_margins(&mut self, editor: &MaskEditor) {
        if self.extend.known != editor.painted.margins {
            self.extend.known = editor.painted.margins;
            self.extend.request.margins = self.extend.known;
            if std::mem::take(&mut self.extend.fits_again) {
                (self.scale, self.offset) = (None, Vec2::ZERO);
            }
        }
    }
}

pub(super) fn extend_ui(ui: &mut Ui, view: &mut UiContext<'_>, editor: &MaskEditor) {
    let panel = &mut view.panels.mask.extend;
    let mut request = panel.request;
    for side in ImageEdge::ALL {
        let value = DragValue::new(side.of(&mut request.margins)).range(0..=MAX_ROOM);
        let label = format!("{side:?}");
        let name = format!("Extend {}", label.to_lowercase());
        extend_row(ui, &label, &name, EXTEND_HOVER, value);
    }
    let overlap = DragValue::new(&mut request.overlap).range(0..=MAX_OVERLAP);
    extend_row(ui, "Overlap", "Overlap", OVERLAP_HOVER, overlap);
    let is_applied = ui
        .add_enabled(editor.busy.is_none(), Button::new("Extend the image"))
        .on_hover_text(
            "Make the room. What you painted on the image stays; 0 on all sides takes the room \
            away",
        )
        .clicked();
    panel.request = request;
    if is_applied {
        view.push(MaskCommand::Extend(request));
    }
}

fn extend_row(ui: &mut Ui, label: &str, name: &str, hover: &str, value: DragValue<'_>) {
    ui.horizontal(|ui| {
        ui.weak(label).on_hover_text(hover);
        at_right(ui, name, |ui| {
            field_number(ui, name, hover, value.suffix(" px"));
        });
    });
}

/// Draggable edges of the image; returns whether they use the pointer.
///
/// The position of the press decides, not that of the pointer when egui reports it: in a long frame it may have left
/// the edge already.
pub(super) fn edges_ui(
    ui: &Ui,
    view: &mut UiContext<'_>,
    editor: &MaskEditor,
    lie: ImagePlacement,
) -> bool {
    view.panels.mask.extend.hovered = None;
    if !editor.can_extend || editor.busy.is_some() {
        view.panels.mask.extend.dragged = None;
        return false;
    }
    let image = on_screen(editor, lie);
    for side in ImageEdge::ALL {
        let strip = side.strip(image, HOLD).intersect(lie.area);
        if !strip.is_positive() {
            continue;
        }
        let id = Id::unique(("extend-edge", side));
        let response = ui
            .interact(strip, id, Sense::drag())
            .on_hover_cursor(side.cursor())
            .on_hover_text(
                "Drag outwards to extend the image on this side; drag back to take the room \
                away. What is new is generated",
            );
        let name = format!("{side:?}").to_lowercase();
        let name = format!("Drag the {name} edge");
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Splitter, true, &name));
        if response.hovered() {
            view.panels.mask.extend.hovered = Some(side);
        }
    }
    drag(ui, view, editor, lie) || view.panels.mask.extend.hovered.is_some()
}

/// Takes hold of an edge where the button goes down on one, and lets it go with the button; whether one was held.
fn drag(ui: &Ui, view: &mut UiContext<'_>, editor: &MaskEditor, lie: ImagePlacement) -> bool {
    let panel = &mut view.panels.mask.extend;
    let (events, is_down, origin) = ui.input(|input| {
        let pointer = &input.pointer;
        let origin = pointer.press_origin().filter(|_| pointer.primary_down());
        (input.events.clone(), pointer.primary_down(), origin)
    });
    let image = on_screen(editor, lie);
    let take_hold = |at: Pos2| {
        let is_seen = ui.ctx().layer_id_at(at) == Some(ui.layer_id());
        let mut sides = ImageEdge::ALL.into_iter().filter(|_| is_seen);
        let strip = |side: &ImageEdge| side.strip(image, HOLD).intersect(lie.area);
        let side = sides.find(|side| strip(side).contains(at))?;
        let room = *side.of(&mut { editor.painted.margins }) as f32;
        let from = lie.to_image(at);
        Some(DraggedEdge {
            side,
            from,
            at: room,
            room,
            at_border_since: None,
        })
    };
    let mut was_held = panel.dragged.is_some();
    let mut let_go = None;
    for event in &events {
        match *event {
            Event::PointerMoved(at) => {
                if let Some(held) = &mut panel.dragged {
                    held.move_to(lie.to_image(at));
                }
            }
            Event::PointerButton {
                pos,
                button: PointerButton::Primary,
                pressed: true,
                ..
            } if panel.dragged.is_none() => {
                panel.dragged = take_hold(pos);
            }
            Event::PointerButton {
                pos,
                button: PointerButton::Primary,
                pressed: false,
                ..
            } => {
                if let Some(mut held) = panel.dragged.take() {
                    held.move_to(lie.to_image(pos));
                    let_go = Some(held);
                }
            }
            _ => {}
        }
        was_held |= panel.dragged.is_some();
    }
    if !is_down {
        // The window was left with the button down.
        let_go = let_go.or_else(|| panel.dragged.take());
    } else if !was_held && let Some(origin) = origin {
        // It was busy when the button went down.
        panel.dragged = take_hold(origin);
        was_held = panel.dragged.is_some();
    }
    if let Some(DraggedEdge { side, room, .. }) = let_go {
        let mut margins = editor.painted.margins;
        let room = room.round() as u32;
        if *side.of(&mut margins) != room {
            *side.of(&mut margins) = room;
            let request = panel.request;
            view.push(MaskCommand::Extend(OutpaintRequest { margins, ..request }));
        }
    }
    was_held
}

pub(super) fn draw_edges(ui: &Ui, view: &UiContext<'_>, editor: &MaskEditor, lie: ImagePlacement) {
    if !editor.can_extend {
        return;
    }
    let palette = palette(ui);
    let painter = ui.painter().with_clip_rect(lie.area);
    let image = on_screen(editor, lie);
    let panel = &view.panels.mask.extend;
    let held = panel.dragged;
    for side in ImageEdge::ALL {
        let out = side.outwards();
        let middle = side.strip(image, HOLD).center();
        let is_held = held.is_some_and(|held| held.side == side);
        let is_hovered = held.is_none() && panel.hovered == Some(side);
        let (grip, colour) = if is_held || is_hovered {
            (GRIP + Vec2::splat(2.0), palette.accent)
        } else {
            (GRIP, palette.weak)
        };
        let size = if out.x == 0.0 {
            grip
        } else {
            vec2(grip.y, grip.x)
        };
        let grip = Rect::from_center_size(middle, size);
        painter.rect_filled(grip, CornerRadius::same(2), colour);
    }
    if let Some(DraggedEdge { side, room, .. }) = held {
        let mut margins = editor.painted.margins;
        let by = (room - *side.of(&mut margins) as f32) * lie.scale;
        let strip = side.strip(image, by);
        let fill = palette.accent.gamma_multiply(0.35);
        painter.rect_filled(strip, CornerRadius::ZERO, fill);
        let stroke = Stroke::new(1.5, palette.accent);
        painter.rect_stroke(strip, CornerRadius::ZERO, stroke, StrokeKind::Inside);
        // In view and on a ground of its own, over any image.
        let text = format!("+{} px", room.round() as u32);
        let font = TextStyle::Body.resolve(ui.style());
        let text = painter.layout_no_wrap(text, font, palette.text);
        let ground = text.size() + Vec2::splat(2.0 * theme::SMALL_GAP);
        let middles = lie.area.shrink2(ground / 2.0);
        let middle = strip.center().clamp(middles.min, middles.max);
        let ground = Rect::from_center_size(middle, ground);
        painter.rect_filled(ground, CornerRadius::same(theme::RADIUS), palette.panel);
        painter.galley(middle - text.size() / 2.0, text, palette.text);
    }
}

fn on_screen(editor: &MaskEditor, lie: ImagePlacement) -> Rect {
    lie.to_screen(Rect::from_min_size(Pos2::ZERO, editor.size()))
}
