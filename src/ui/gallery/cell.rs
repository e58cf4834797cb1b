//! One small picture: how it looks, what it says on hover, and what clicks on it do.
//!
//! It opens nothing: a picture that is not there yet is drawn when it comes.

use std::sync::Arc;

use egui::{
    CornerRadius, Id, Rect, Response, Role, Sense, Stroke, StrokeKind, Ui, Vec2, WidgetInfo, vec2,
};
use safelight_core::gallery::{Entry, Reading, THUMB_SIDE};
use safelight_core::units::seconds_text;

use crate::app::commands::{GalleryCommand, PlayerCommand};
use crate::app::notices::sentence;
use crate::app::thumbs::Pictured;
use crate::ui::gallery::actions::menu_ui;
use crate::ui::results::{Subject, drag};
use crate::ui::widgets::{badge, palette, text_at, texture_ui};
use crate::ui::{View, icons, theme};

/// So much of a prompt is said for a picture.
const NAME_CHARS: usize = 120;
/// So much of it is shown on hover.
const HOVER_CHARS: usize = 400;
const BADGE_HEIGHT: f32 = 20.0;
/// A smaller texture serves smaller pictures, of which there are more.
const SMALL_SIDE: u32 = 160;

pub(super) fn cell_ui(ui: &Ui, view: &mut View<'_>, index: usize, entry: &Arc<Entry>, rect: Rect) {
    let id = Id::unique(("gallery", entry.thumb));
    let response = ui.interact(rect, id, Sense::click_and_drag());
    let page = &view.app.gallery;
    let is_chosen = page.selection.contains(&entry.path);
    response
        .widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, is_chosen, name_of(entry)));
    if response.has_focus() {
        view.panels.gallery.is_cell_focused = true;
    }
    // What the menu is for is what is chosen.
    let is_new_choice = response.secondary_clicked() && !is_chosen;
    if response.clicked() || is_new_choice {
        let modifiers = ui.input(|input| input.modifiers);
        view.push(GalleryCommand::Click(index, modifiers));
    }
    if response.double_clicked() {
        view.push(PlayerCommand::PlayFile(entry.path.clone()));
    }
    let broken = picture_ui(ui, view, entry, rect);
    badges_ui(ui, entry, rect);
    edge_ui(ui, view, entry, &response, is_chosen);
    drag::source(&response, || Subject::of_entry(entry));
    response.context_menu(|ui| menu_ui(ui, view, entry));
    response.on_hover_ui(|ui| hover_ui(ui, entry, broken.as_deref()));
}

/// What a screen reader says.
pub(in crate::ui) fn name_of(entry: &Entry) -> String {
    let prompt = entry.facts().map_or("", |facts| facts.prompt.as_str());
    let what = if prompt.is_empty() {
        entry.file_name()
    } else {
        prompt.chars().take(NAME_CHARS).collect()
    };
    let kind = if matches!(entry.reading, Reading::Broken(_)) {
        "unreadable"
    } else if entry.is_clip() {
        "clip"
    } else {
        "picture"
    };
    if entry.is_favourite {
        format!("{what}, {kind}, favourite")
    } else {
        format!("{what}, {kind}")
    }
}

/// The picture in its own shape, or a quiet sign; tells why there is none.
pub(in crate::ui) fn picture_ui(
    ui: &Ui,
    view: &View<'_>,
    entry: &Arc<Entry>,
    rect: Rect,
) -> Option<String> {
    let palette = palette(ui);
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter()
        .rect_filled(rect, radius, palette.panel.gamma_multiply(0.7));
    let sign = |icon| text_at(ui, rect.center(), icon, rect.width() * 0.22, palette.line);
    let pictured = Pictured::Result(Arc::clone(entry));
    let side = thumb_side(ui, rect.width());
    match view.app.cx.thumbs.get(pictured, side) {
        Some(Ok(texture)) => {
            texture_ui(ui, texture, rect, 1.5);
            None
        }
        Some(Err(why)) => {
            sign(icons::IMAGE_BROKEN);
            Some(why.to_owned())
        }
        None => {
            sign(if entry.is_clip() {
                icons::FILM
            } else {
                icons::IMAGE
            });
            None
        }
    }
}

/// How large a texture is needed for a picture of so many points.
pub(super) fn thumb_side(ui: &Ui, points: f32) -> u32 {
    if points * ui.pixels_per_point() > SMALL_SIDE as f32 {
        THUMB_SIDE
    } else {
        SMALL_SIDE
    }
}

/// A star on favourites, the length on clips.
fn badges_ui(ui: &Ui, entry: &Entry, rect: Rect) {
    let palette = palette(ui);
    let back = palette.stage.gamma_multiply(0.82);
    let inner = rect.shrink(5.0);
    if entry.is_favourite {
        let size = Vec2::splat(BADGE_HEIGHT);
        let corner = inner.right_top() - vec2(size.x, 0.0);
        let rect = Rect::from_min_size(corner, size);
        badge(ui, rect, back, icons::STAR, (14.0, palette.amber));
    }
    if entry.is_clip() {
        let secs = entry
            .facts()
            .and_then(safelight_core::gallery::Facts::clip_secs);
        let (text, width) = match secs {
            Some(secs) => (seconds_text(secs), 42.0),
            None => (icons::FILM.to_string(), BADGE_HEIGHT),
        };
        let size = vec2(width, BADGE_HEIGHT);
        let corner = inner.right_bottom() - size;
        let rect = Rect::from_min_size(corner, size);
        badge(ui, rect, back, text, (11.5, palette.text));
    }
}

fn edge_ui(ui: &Ui, view: &View<'_>, entry: &Entry, response: &Response, is_chosen: bool) {
    let palette = palette(ui);
    let is_cursor = view.app.gallery.selection.is_cursor(&entry.path);
    let edge = if is_chosen {
        Stroke::new(2.5, palette.accent)
    } else if response.has_focus() || is_cursor {
        Stroke::new(1.5, palette.amber)
    } else if response.hovered() {
        Stroke::new(1.5, palette.weak)
    } else {
        return;
    };
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter()
        .rect_stroke(response.rect, radius, edge, StrokeKind::Inside);
}

pub(in crate::ui) fn hover_ui(ui: &mut Ui, entry: &Entry, broken: Option<&str>) {
    let palette = palette(ui);
    ui.set_max_width(theme::CARD_WIDTH * 0.8);
    let why = match &entry.reading {
        Reading::Broken(why) => Some(why.as_str()),
        _ => broken,
    };
    if let Some(why) = why {
        ui.label(sentence(why));
        return;
    }
    if let Some(facts) = entry.facts() {
        let mut prompt: String = facts.prompt.chars().take(HOVER_CHARS).collect();
        if prompt.len() < facts.prompt.len() {
            prompt.push('…');
        }
        if !prompt.is_empty() {
            ui.label(prompt);
        }
    }
    let weak = egui::RichText::new(entry.file_name()).small();
    ui.label(weak.color(palette.weak));
}
