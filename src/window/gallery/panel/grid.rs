//! The results of the gallery as a grid: layout, keyboard, and one cell.

use std::sync::Arc;

use egui::text_selection::LabelSelectionState;
use egui::{Popup, Role, WidgetInfo};
use safelight_core::gallery::{GalleryItem, ItemReading, THUMB_SIDE};

use crate::window::gallery::panel::details::{copy, favour, menu_ui, trash};
use crate::window::layout::prelude::*;
use crate::window::results::panel::{ResultSubject, drag_results};

/// Beside the rows, for the bar that scrolls them.
const BAR_WIDTH: f32 = 12.0;
pub(super) const SEARCH_FIELD: &str = "gallery-search";
/// So much of a prompt is said for an image.
const NAME_CHARS: usize = 120;
const HOVER_CHARS: usize = 400;
const BADGE_HEIGHT: f32 = 20.0;
/// A smaller texture serves smaller images, of which there are more.
const SMALL_SIDE: u32 = 160;

#[derive(Clone, Copy, Debug)]
struct GridLayout {
    num_columns: usize,
    num_rows: usize,
    side: f32,
}

impl GridLayout {
    /// Number of columns nearest to the preferred width, at least two, and a width that fills the row.
    fn for_width(count: usize, width: f32, preferred: f32) -> Self {
        let gap = theme::GALLERY_GAP;
        let preferred = preferred.min((width - gap) / 2.0).max(1.0);
        let num_columns = (((width + gap) / (preferred + gap)).round() as usize).max(1);
        let gaps = gap * (num_columns - 1) as f32;
        Self {
            num_columns,
            num_rows: count.div_ceil(num_columns),
            side: ((width - gaps) / num_columns as f32).max(1.0),
        }
    }

    fn row_height(self) -> f32 {
        self.side + theme::GALLERY_GAP
    }

    /// Scroll offset at which a row is visible; `None` if it already is.
    fn offset_for(self, index: usize, (offset, height): (f32, f32)) -> Option<f32> {
        let top = (index / self.num_columns) as f32 * self.row_height();
        if top < offset {
            Some(top)
        } else if top + self.side > offset + height {
            Some((top + self.side - height).max(0.0))
        } else {
            None
        }
    }
}

pub(super) fn grid_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let page = &view.app.gallery;
    let panel = &mut view.panels.gallery;
    let width = ui.available_width() - BAR_WIDTH;
    let layout = GridLayout::for_width(page.items().len(), width, page.look.side);
    panel.num_columns = layout.num_columns;
    panel.is_cell_focused = false;
    let mut area = ScrollArea::vertical()
        .id_salt("gallery")
        .auto_shrink([false, false]);
    let cursor = page.selection.cursor_at();
    if std::mem::replace(&mut panel.num_moves, page.num_moves) != page.num_moves
        && let Some(offset) = cursor.and_then(|at| layout.offset_for(at, panel.scrolled))
    {
        area = area.vertical_scroll_offset(offset);
    }
    ui.spacing_mut().item_spacing.y = theme::GALLERY_GAP;
    let output = area.show_rows(ui, layout.side, layout.num_rows, |ui, rows| {
        let from = rows.start * layout.num_columns;
        for row in rows.clone() {
            row_ui(ui, view, layout, row);
        }
        from..(rows.end * layout.num_columns)
    });
    view.panels.gallery.scrolled = (output.state.clamped_offset().y, output.inner_rect.height());
    prepare(ui, view, output.inner, layout.side);
}

fn row_ui(ui: &mut Ui, view: &mut UiContext<'_>, layout: GridLayout, row: usize) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), layout.side), Sense::hover());
    let step = layout.row_height();
    for column in 0..layout.num_columns {
        let index = row * layout.num_columns + column;
        let Some(entry) = view.app.gallery.items().get(index).map(Arc::clone) else {
            return;
        };
        let corner = pos2(rect.left() + column as f32 * step, rect.top());
        let cell = Rect::from_min_size(corner, vec2(layout.side, layout.side));
        cell_ui(ui, view, index, &entry, cell);
    }
}

/// Requests the thumbnails up to a screen before and after the visible ones.
fn prepare(ui: &Ui, view: &UiContext<'_>, seen: std::ops::Range<usize>, side: f32) {
    let items = view.app.gallery.items();
    let to = seen.end.min(items.len());
    let from = seen.start.min(to);
    let behind = &items[to..(2 * to - from).min(items.len())];
    let before = &items[from.saturating_sub(to - from)..from];
    for entry in behind.iter().chain(before) {
        let shown = ThumbSource::Result(Arc::clone(entry));
        view.app.cx.thumbs.want(shown, thumb_side(ui, side));
    }
}

pub(super) fn take_keys(ui: &Ui, view: &mut UiContext<'_>) {
    if view.app.palette.is_covered(ui.ctx()) {
        return;
    }
    let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
    if pressed(Modifiers::COMMAND, Key::F) {
        view.panels.gallery.is_search_wanted = true;
    }
    let focused = ui.memory(|memory| memory.focused());
    let is_elsewhere = focused.is_some() && !view.panels.gallery.is_cell_focused;
    // The key that leaves a field is still the field's.
    let was_elsewhere = std::mem::replace(&mut view.panels.gallery.is_typing, is_elsewhere);
    if is_elsewhere || was_elsewhere || Popup::is_any_open(ui.ctx()) {
        return;
    }
    choose(ui, view);
    let page = &view.app.gallery;
    if page.selection.is_empty() {
        return;
    }
    if pressed(Modifiers::NONE, Key::Enter)
        && let Some(current) = page.current()
    {
        let play = AppCommand::Player(PlayerCommand::PlayFile(current.path.clone()));
        view.push(play);
    }
    // A key that is held throws one batch away, not one after the other.
    let is_it = |event: &Event| matches!(event, Event::Key { key, pressed: true, repeat: false, .. } if *key == Key::Delete);
    let is_fresh = ui.input(|input| input.events.iter().any(is_it));
    if pressed(Modifiers::NONE, Key::Delete) && is_fresh {
        view.commands.extend(trash(view).command);
    }
    // Ctrl+C, unless it is for text that is selected in the details.
    let text = ui.ctx().plugin::<LabelSelectionState>();
    if ui.input(|input| input.events.contains(&Event::Copy)) && !text.lock().has_selection() {
        view.commands.extend(copy(view).command);
    }
    if pressed(Modifiers::NONE, Key::B) {
        view.commands.extend(favour(view).command);
    }
}

fn choose(ui: &Ui, view: &mut UiContext<'_>) {
    let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
    let Some(listing) = &view.app.gallery.listing else {
        return;
    };
    let columns = view.panels.gallery.num_columns.max(1).cast_signed();
    let far = listing.items.len().cast_signed();
    for (key, by) in [
        (Key::ArrowLeft, -1),
        (Key::ArrowRight, 1),
        (Key::ArrowUp, -columns),
        (Key::ArrowDown, columns),
        (Key::PageUp, -columns * 4),
        (Key::PageDown, columns * 4),
        (Key::Home, -far),
        (Key::End, far),
    ] {
        // The one with the shift key first: the other is pressed with it too.
        let extends = pressed(Modifiers::SHIFT, key);
        if extends || pressed(Modifiers::NONE, key) {
            view.push(GalleryCommand::Step(by, extends));
            // The keyboard goes with the choice.
            if let Some(id) = ui.memory(|memory| memory.focused()) {
                ui.memory_mut(|memory| memory.surrender_focus(id));
            }
        }
    }
    // The window handles Escape: it clears the selection first.
    if pressed(Modifiers::COMMAND, Key::A) {
        view.push(GalleryCommand::ChooseAll);
    }
}

pub(super) fn cell_ui(
    ui: &Ui,
    view: &mut UiContext<'_>,
    index: usize,
    entry: &Arc<GalleryItem>,
    rect: Rect,
) {
    let id = Id::unique(("gallery", entry.thumb));
    let response = ui.interact(rect, id, Sense::click_and_drag());
    let page = &view.app.gallery;
    let is_chosen = page.selection.contains(&entry.path);
    response
        .widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, is_chosen, name_of(entry)));
    if response.has_focus() {
        view.panels.gallery.is_cell_focused = true;
    }
    // The menu applies to the selection.
    let is_new_choice = response.secondary_clicked() && !is_chosen;
    if response.clicked() || is_new_choice {
        let modifiers = ui.input(|input| input.modifiers);
        view.push(GalleryCommand::Click(index, modifiers));
    }
    if response.double_clicked() {
        view.push(PlayerCommand::PlayFile(entry.path.clone()));
    }
    let broken = image_ui(ui, view, entry, rect);
    badges_ui(ui, entry, rect);
    edge_ui(ui, view, entry, &response, is_chosen);
    drag_results(&response, || {
        let dragged = if is_chosen {
            view.app.gallery.chosen()
        } else {
            Arc::from([Arc::clone(entry)])
        };
        let dragged = dragged.iter();
        dragged
            .map(|entry| ResultSubject::of_entry(entry))
            .collect()
    });
    response.context_menu(|ui| menu_ui(ui, view, entry));
    response.on_hover_ui(|ui| hover_ui(ui, entry, broken.as_deref()));
}

/// Text for screen readers.
pub(crate) fn name_of(entry: &GalleryItem) -> String {
    let prompt = entry.facts().map_or("", |facts| facts.prompt.as_str());
    let what = if prompt.is_empty() {
        entry.file_name()
    } else {
        prompt.chars().take(NAME_CHARS).collect()
    };
    let kind = match entry.reading {
        ItemReading::Broken(_) => "unreadable",
        _ => result_word(!entry.is_video()),
    };
    let favourite = if entry.is_favourite {
        ", favourite"
    } else {
        ""
    };
    format!("{what}, {kind}{favourite}")
}

/// The image in its own shape, or a quiet sign; tells why there is none.
pub(crate) fn image_ui(
    ui: &Ui,
    view: &UiContext<'_>,
    entry: &Arc<GalleryItem>,
    rect: Rect,
) -> Option<String> {
    let palette = palette(ui);
    let ground = palette.panel.gamma_multiply(0.7);
    ui.painter().rect_filled(rect, theme::RADIUS, ground);
    let sign = |icon| text_at(ui, rect.center(), icon, rect.width() * 0.22, palette.line);
    let shown = ThumbSource::Result(Arc::clone(entry));
    let side = thumb_side(ui, rect.width());
    match view.app.cx.thumbs.get(shown, side) {
        Some(Ok(texture)) => {
            texture_ui(ui, texture, rect, 1.5);
            None
        }
        Some(Err(why)) => {
            sign(icons::IMAGE_BROKEN);
            Some(why.to_owned())
        }
        None => {
            let icons = [icons::IMAGE, icons::FILM];
            sign(icons[usize::from(entry.is_video())]);
            None
        }
    }
}

/// Texture edge in pixels, for an image of `points` points.
pub(super) fn thumb_side(ui: &Ui, points: f32) -> u32 {
    if points * ui.pixels_per_point() > SMALL_SIDE as f32 {
        THUMB_SIDE
    } else {
        SMALL_SIDE
    }
}

fn badges_ui(ui: &Ui, entry: &GalleryItem, rect: Rect) {
    let palette = palette(ui);
    let back = palette.stage.gamma_multiply(0.82);
    let inner = rect.shrink(5.0);
    if entry.is_favourite {
        let size = Vec2::splat(BADGE_HEIGHT);
        let rect = Rect::from_min_size(inner.right_top() - vec2(size.x, 0.0), size);
        badge(ui, rect, back, icons::STAR, (14.0, palette.amber));
    }
    if entry.is_video() {
        let secs = entry
            .facts()
            .and_then(safelight_core::gallery::ResultMetadata::video_secs);
        let (mut text, mut width) = match secs {
            Some(secs) => (seconds_text(secs), 42.0),
            None => (icons::FILM.to_string(), BADGE_HEIGHT),
        };
        if entry.facts().is_some_and(|facts| facts.sound.is_some()) {
            text = format!("{} {text}", icons::SPEAKER);
            width += BADGE_HEIGHT;
        }
        let size = vec2(width, BADGE_HEIGHT);
        let rect = Rect::from_min_size(inner.right_bottom() - size, size);
        badge(ui, rect, back, text, (11.5, palette.text));
    }
}

fn edge_ui(
    ui: &Ui,
    view: &UiContext<'_>,
    entry: &GalleryItem,
    response: &Response,
    is_chosen: bool,
) {
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
    let rect = response.rect;
    ui.painter()
        .rect_stroke(rect, theme::RADIUS, edge, StrokeKind::Inside);
}

pub(crate) fn hover_ui(ui: &mut Ui, entry: &GalleryItem, broken: Option<&str>) {
    ui.set_max_width(theme::CARD_WIDTH * 0.8);
    let why = match &entry.reading {
        ItemReading::Broken(why) => Some(why.as_str()),
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
    ui.weak(RichText::new(entry.file_name()).small());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_the_width_and_the_cursor_is_scrolled_to() {
        let layout = GridLayout::for_width(5000, 800.0, 150.0);
        assert_eq!((layout.num_columns, layout.num_rows), (5, 1000));
        let width = layout.side * 5.0 + theme::GALLERY_GAP * 4.0;
        assert!((width - 800.0).abs() < 0.1);
        assert_eq!(layout.offset_for(3, (0.0, 500.0)), None);
        assert_eq!(layout.offset_for(3, (200.0, 500.0)), Some(0.0));
        let below = layout.offset_for(50, (0.0, 500.0)).unwrap();
        let bottom = 10.0 * layout.row_height() + layout.side;
        assert!((below + 500.0 - bottom).abs() < 0.1);
        assert_eq!(GridLayout::for_width(0, 250.0, 320.0).num_columns, 2);
        assert!(GridLayout::for_width(9, 1.0, 150.0).side >= 1.0);
    }
}
