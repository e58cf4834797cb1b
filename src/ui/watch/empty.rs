//! Placeholder while there is no image: the safelight's glow, a hint, and the way to earlier results.

use egui::Mesh;

use crate::ui::prelude::*;

pub(super) fn empty_ui(ui: &mut Ui, area: Rect, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    glow(ui, area, 0.5);
    let center = area.center();
    let listing = view.app.gallery.listing.as_ref();
    let num_results = listing.map_or(0, |listing| listing.num_all);
    let spec = view.model();
    let icon = if spec.is_some_and(|spec| spec.family.makes_pictures) {
        icons::IMAGE
    } else {
        icons::FILM
    };
    let red = palette.accent.gamma_multiply(0.85);
    text_at(ui, center - vec2(0.0, 40.0), icon, 54.0, red);
    let text = if num_results > 0 {
        "Nothing new yet"
    } else {
        "Nothing here yet"
    };
    text_at(ui, center + vec2(0.0, 14.0), text, 18.0, palette.text);
    let advice = if view.app.cx.models.are_loading {
        "Looking for models…"
    } else if view.app.cx.models.all().is_empty() {
        "Get a model first"
    } else if view.form.prompt.trim().is_empty() {
        "Press Generate, or write a prompt first"
    } else {
        "Press Generate"
    };
    text_at(ui, center + vec2(0.0, 40.0), advice, 13.5, palette.weak);
    if num_results > 0 {
        let top = pos2(area.left(), center.y + 66.0);
        results_ui(ui, Rect::from_min_max(top, area.max), view, num_results);
    }
}

fn results_ui(ui: &mut Ui, area: Rect, view: &mut UiContext<'_>, num_results: usize) {
    let layout = Layout::top_down(Align::Center);
    ui.scope_builder(UiBuilder::new().max_rect(area).layout(layout), |ui| {
        let text = counted(
            num_results,
            "Show the result in the gallery",
            "Show all {} results in the gallery",
        );
        let button = ui.add(Button::new(with_icon(icons::IMAGES, &text)));
        let button = button.accessible_name(&text);
        view.on_click(&button, AppCommand::Show(MainPage::Gallery));
    });
}

pub(super) fn waiting_ui(ui: &Ui, area: Rect, text: &str) {
    let palette = palette(ui);
    glow(ui, area, 1.0);
    text_at(ui, area.center(), text, 16.0, palette.weak);
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
    let reach = area.width().min(area.height()) * 0.55;
    let mut mesh = Mesh::default();
    for (ring, (distance, brightness)) in RINGS.into_iter().enumerate() {
        let colour = palette(ui).accent.gamma_multiply(brightness * strength);
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
