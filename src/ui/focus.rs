//! Keeps in sight what the keyboard goes to: egui gives the focus to controls that are scrolled away and leaves them
//! there, and on a slider nobody would see it.
//!
//! The control itself is asked to come into view, as screen readers ask, so this knows no scroll area.

use egui::accesskit::{Action, ActionRequest, TreeId};
use egui::{Context, Event, Id, Key, Plugin, RawInput, Stroke, StrokeKind, Ui};

use crate::ui::theme;

/// Between a control and the ring around it.
const RING_GAP: f32 = 2.0;

/// Looks after the focus of this context from now on.
pub fn install(ctx: &Context) {
    ctx.add_plugin(InSight::default());
}

#[derive(Default)]
struct InSight {
    focused: Option<Id>,
    /// The keyboard was used last, and not the pointer: nothing moves away under a pointer that presses it.
    is_walking: bool,
}

impl Plugin for InSight {
    fn debug_name(&self) -> &'static str {
        "focus in sight"
    }

    /// A ring around what has the keyboard, as long as it is walked with the keyboard.
    fn on_end_pass(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx();
        let focused = ctx.memory(egui::Memory::focused);
        let Some(response) = focused.and_then(|id| ctx.read_response(id)) else {
            return;
        };
        let seen = response.interact_rect;
        if self.is_walking && seen.is_positive() {
            let stroke = Stroke::new(1.5, theme::palette(ui.visuals()).amber);
            ctx.layer_painter(response.layer_id).rect_stroke(
                seen.expand(RING_GAP),
                f32::from(theme::RADIUS),
                stroke,
                StrokeKind::Inside,
            );
        }
    }

    fn input_hook(&mut self, ctx: &Context, input: &mut RawInput) {
        let focused = ctx.memory(egui::Memory::focused);
        let has_moved = focused != self.focused;
        self.focused = focused;
        if has_moved
            && self.is_walking
            && let Some(id) = focused
            && is_hidden(ctx, id)
        {
            input
                .events
                .push(Event::AccessKitActionRequest(ActionRequest {
                    action: Action::ScrollIntoView,
                    target_tree: TreeId::ROOT,
                    target_node: id.accesskit_id(),
                    data: None,
                }));
        }
        for event in &input.events {
            match event {
                Event::Key { key, pressed, .. } if *pressed && walks(*key) => {
                    self.is_walking = true;
                    // With Shift the focus arrives one frame later.
                    ctx.request_repaint();
                }
                Event::PointerButton { .. } => self.is_walking = false,
                _ => {}
            }
        }
    }
}

fn walks(key: Key) -> bool {
    matches!(
        key,
        Key::Tab | Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight
    )
}

/// A part of it is cut off by what it stands in.
fn is_hidden(ctx: &Context, id: Id) -> bool {
    let response = ctx.read_response(id);
    response.is_some_and(|it| !it.interact_rect.expand(1.0).contains_rect(it.rect))
}
