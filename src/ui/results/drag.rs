//! A result that is dragged from the gallery, the viewer or the strip onto a picture's place in the form.
//!
//! Other programs are not reached: the window library begins no drags.

use egui::{Align2, Area, CornerRadius, CursorIcon, DragAndDrop, Id, Order, Response, Stroke, Ui};

use crate::app::commands::{AppCommand, InputsCommand};
use crate::app::inputs::{Placing, Slot};
use crate::ui::results::Subject;
use crate::ui::widgets::palette;
use crate::ui::{View, theme};

/// What is dragged.
#[derive(Clone, Debug)]
struct DraggedResult {
    name: String,
    is_clip: bool,
    path: std::path::PathBuf,
}

/// Lets this be dragged.
pub fn source(response: &Response, subject: impl FnOnce() -> Subject) {
    if !response.drag_started() {
        return;
    }
    let Subject { path, is_clip, .. } = subject();
    let name = path.file_name().unwrap_or_default();
    response.dnd_set_drag_payload(DraggedResult {
        name: name.to_string_lossy().into_owned(),
        is_clip,
        path,
    });
}

/// Shows where the dragged result can go, and puts it there.
pub fn drag_ui(ui: &Ui, view: &mut View<'_>) {
    let Some(dragged) = DragAndDrop::payload::<DraggedResult>(ui.ctx()) else {
        return;
    };
    let Some(pointer) = ui.ctx().pointer_interact_pos() else {
        return;
    };
    let palette = palette(ui);
    let places = Slot::ALL.into_iter().zip(view.drawn.slots);
    // A clip stands at the start alone.
    let places = places.filter(|(slot, _)| !dragged.is_clip || *slot == Slot::Start);
    let mut target = None;
    Area::new(Id::unique("dragged-result"))
        .order(Order::Tooltip)
        .fixed_pos(pointer + egui::vec2(14.0, 10.0))
        .interactable(false)
        .show(ui.ctx(), |area| {
            let painter = ui.ctx().layer_painter(area.layer_id());
            for (slot, place) in places {
                let Some(place) = place else {
                    continue;
                };
                let is_over = place.contains(pointer);
                let colour = if is_over {
                    palette.accent
                } else {
                    palette.amber
                };
                painter.rect_stroke(
                    place,
                    CornerRadius::same(theme::RADIUS),
                    Stroke::new(2.0, colour),
                    egui::StrokeKind::Inside,
                );
                if is_over {
                    target = Some(slot);
                }
            }
            let galley = painter.layout_no_wrap(
                format!("Drop {} on a picture in the form", dragged.name),
                egui::TextStyle::Small.resolve(area.style()),
                palette.text,
            );
            let place = Align2::LEFT_TOP.anchor_size(area.min_rect().min, galley.size());
            painter.rect_filled(place.expand(4.0), theme::RADIUS, palette.raised);
            painter.galley(place.min, galley, palette.text);
        });
    ui.ctx().set_cursor_icon(CursorIcon::Grabbing);
    let is_let_go = ui.input(|input| input.pointer.any_released());
    if let Some(slot) = target.filter(|_| is_let_go) {
        view.push(command(&dragged, slot));
    }
}

fn command(dragged: &DraggedResult, slot: Slot) -> AppCommand {
    let path = dragged.path.clone();
    if dragged.is_clip {
        InputsCommand::ContinueFrom(path).into()
    } else {
        InputsCommand::Open(vec![path], Placing::onto(Some(slot))).into()
    }
}
