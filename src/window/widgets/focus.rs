//! Scrolls the focused control into view: egui moves the focus to controls that are scrolled away and leaves them
//! there, and on a slider it would not be visible.
//!
//! Uses the scroll request of screen readers, so it is independent of scroll areas.

use egui::accesskit::{Action, ActionRequest, TreeId};
use egui::{Plugin, RawInput};

use crate::window::layout::prelude::*;

const RING_GAP: f32 = 2.0;

pub fn install(ctx: &Context) {
    ctx.add_plugin(FocusScroll::default());
}

#[derive(Default)]
struct FocusScroll {
    focused: Option<Id>,
    wanted: Option<Id>,
    /// The keyboard was used last, and not the pointer: nothing moves away under a pointer that presses it.
    is_walking: bool,
}

impl Plugin for FocusScroll {
    fn debug_name(&self) -> &'static str {
        "focus-scroll"
    }

    fn input_hook(&mut self, _ctx: &Context, input: &mut RawInput) {
        for event in &input.events {
            match event {
                Event::Key { key, pressed, .. } if *pressed => self.is_walking |= walks(*key),
                Event::PointerButton { .. } => self.is_walking = false,
                _ => {}
            }
        }
        if let Some(id) = self.wanted.take() {
            let request = ActionRequest {
                action: Action::ScrollIntoView,
                target_tree: TreeId::ROOT,
                target_node: id.accesskit_id(),
                data: None,
            };
            input.events.push(Event::AccessKitActionRequest(request));
        }
    }

    fn on_end_pass(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx();
        let focused = ctx.memory(egui::Memory::focused);
        let has_moved = std::mem::replace(&mut self.focused, focused) != focused;
        let response = focused.and_then(|id| ctx.read_response(id));
        let Some(response) = response.filter(|_| self.is_walking) else {
            return;
        };
        if has_moved && is_hidden(&response) {
            self.wanted = focused;
            ctx.request_repaint();
        }
        ring(ui, &response);
    }
}

fn walks(key: Key) -> bool {
    matches!(
        key,
        Key::Tab | Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight
    )
}

/// Returns whether a part of it is clipped by its container.
fn is_hidden(response: &Response) -> bool {
    let seen = response.interact_rect.expand(1.0);
    !seen.contains_rect(response.rect)
}

fn ring(ui: &Ui, response: &Response) {
    let seen = response.interact_rect;
    if seen.is_positive() {
        let stroke = Stroke::new(1.5, theme::palette(ui.visuals()).amber);
        ui.ctx().layer_painter(response.layer_id).rect_stroke(
            seen.expand(RING_GAP),
            f32::from(theme::RADIUS),
            stroke,
            StrokeKind::Inside,
        );
    }
}
