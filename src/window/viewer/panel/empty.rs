//! Placeholder while there is no image: the safelight's glow, a hint, and the newest earlier results.

use egui::{Mesh, Role, WidgetInfo};

use crate::window::gallery::panel::grid;
use crate::window::layout::prelude::*;

const MAX_NEWEST: usize = 5;
/// Size of each result, in points.
const NEWEST_SIDE: f32 = 96.0;

pub(super) fn empty_ui(ui: &mut Ui, area: Rect, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    glow(ui, area, 0.5);
    let center = area.center();
    let listing = view.app.gallery.listing.as_ref();
    let num_results = listing.map_or(0, |listing| listing.num_all);
    let spec = view.model();
    let icon = if spec.is_some_and(|spec| spec.family.makes_images) {
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
        let room = ui.available_size();
        let step = NEWEST_SIDE + theme::GALLERY_GAP;
        if room.y >= step {
            let fits = ((room.x + theme::GALLERY_GAP) / step) as usize;
            newest_ui(ui, view, fits.min(MAX_NEWEST));
        }
    });
}

fn newest_ui(ui: &mut Ui, view: &mut UiContext<'_>, count: usize) {
    let newest = view.app.gallery.newest(count);
    let step = NEWEST_SIDE + theme::GALLERY_GAP;
    ui.add_space(theme::GALLERY_GAP);
    let size = vec2(newest.len() as f32 * step - theme::GALLERY_GAP, NEWEST_SIDE);
    let (row, _) = ui.allocate_exact_size(size, Sense::hover());
    for (index, entry) in newest.iter().enumerate() {
        let corner = row.min + vec2(index as f32 * step, 0.0);
        let rect = Rect::from_min_size(corner, Vec2::splat(NEWEST_SIDE));
        let response = ui.interact(rect, Id::unique(("newest", entry.thumb)), Sense::click());
        let name = format!("Show {}", grid::name_of(entry));
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        let broken = grid::image_ui(ui, view, entry, rect);
        if response.hovered() || response.has_focus() {
            let stroke = Stroke::new(1.5, palette(ui).amber);
            let radius = CornerRadius::same(theme::RADIUS);
            ui.painter()
                .rect_stroke(rect, radius, stroke, StrokeKind::Inside);
        }
        if response.clicked() {
            view.push(PlayerCommand::PlayFile(entry.path.clone()));
        }
        response.on_hover_ui(|ui| grid::hover_ui(ui, entry, broken.as_deref()));
    }
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
