//! What stands in the middle while there is no picture: the safelight's glow and a word on what to do.
//!
//! Pushes nothing.

use egui::{Align2, FontId, Mesh, Rect, Ui, Vec2, vec2};

use crate::app::state::Models;
use crate::ui::widgets::palette;
use crate::ui::{View, icons};

/// Before anything was made.
pub(super) fn empty_ui(ui: &Ui, area: Rect, view: &View<'_>) {
    let palette = palette(ui);
    glow(ui, area, 0.5);
    let center = area.center();
    let spec = view.session.model(&view.state.form);
    let icon = if spec.is_some_and(|spec| spec.family.makes_pictures()) {
        icons::IMAGE
    } else {
        icons::FILM
    };
    ui.painter().text(
        center - vec2(0.0, 40.0),
        Align2::CENTER_CENTER,
        icon,
        FontId::proportional(54.0),
        palette.accent.gamma_multiply(0.85),
    );
    ui.painter().text(
        center + vec2(0.0, 14.0),
        Align2::CENTER_CENTER,
        "Nothing developed yet",
        FontId::proportional(18.0),
        palette.text,
    );
    let advice = match &view.session.models {
        Models::Loading => "Looking for models…",
        Models::Ready(specs) if specs.is_empty() => "A model is needed first",
        Models::Ready(_) => "Press Generate, or describe something of your own first",
    };
    ui.painter().text(
        center + vec2(0.0, 40.0),
        Align2::CENTER_CENTER,
        advice,
        FontId::proportional(13.5),
        palette.weak,
    );
}

/// Something is on its way, but there is nothing to see yet.
pub(super) fn waiting_ui(ui: &Ui, area: Rect, text: &str) {
    let palette = palette(ui);
    glow(ui, area, 1.0);
    ui.painter().text(
        area.center(),
        Align2::CENTER_CENTER,
        text,
        FontId::proportional(16.0),
        palette.weak,
    );
}

/// The safelight over the bench: a soft round glow.
fn glow(ui: &Ui, area: Rect, strength: f32) {
    const NUM_SPOKES: u32 = 64;
    // Distance from the middle, and how bright it is there.
    const RINGS: [(f32, f32); 6] = [
        (0.0, 0.20),
        (0.2, 0.16),
        (0.4, 0.095),
        (0.6, 0.045),
        (0.8, 0.013),
        (1.0, 0.0),
    ];
    let accent = palette(ui).accent;
    let reach = area.width().min(area.height()) * 0.55;
    let mut mesh = Mesh::default();
    for (ring, (distance, brightness)) in RINGS.into_iter().enumerate() {
        let colour = accent.gamma_multiply(brightness * strength);
        for spoke in 0..NUM_SPOKES {
            let angle = std::f32::consts::TAU * spoke as f32 / NUM_SPOKES as f32;
            mesh.colored_vertex(
                area.center() + Vec2::angled(angle) * reach * distance,
                colour,
            );
            if ring > 0 {
                let outer = ring as u32 * NUM_SPOKES;
                let (here, next) = (outer + spoke, outer + (spoke + 1) % NUM_SPOKES);
                mesh.add_triangle(here, next, here - NUM_SPOKES);
                mesh.add_triangle(next, next - NUM_SPOKES, here - NUM_SPOKES);
            }
        }
    }
    ui.painter().add(mesh);
}
