//! The small pictures in rows, of which only those on the screen are drawn.
//!
//! What each looks like is [`super::cell`]'s.

use std::sync::Arc;

use egui::{Rect, ScrollArea, Sense, Ui, pos2, vec2};

use crate::app::thumbs::Pictured;
use crate::ui::gallery::cell::{self, cell_ui};
use crate::ui::{View, theme};

/// Beside the rows, for the bar that scrolls them.
const BAR_WIDTH: f32 = 12.0;

/// How the rows are laid out.
#[derive(Clone, Copy, Debug)]
struct Layout {
    num_columns: usize,
    num_rows: usize,
    side: f32,
}

impl Layout {
    /// As many columns as come nearest to the wished width, two at least, and as wide as fills the row.
    fn of(count: usize, width: f32, wished: f32) -> Self {
        let gap = theme::GALLERY_GAP;
        let wished = wished.min((width - gap) / 2.0).max(1.0);
        let num_columns = (((width + gap) / (wished + gap)).round() as usize).max(1);
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

    /// Where the page must be scrolled to so that a row is seen.
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

pub(super) fn grid_ui(ui: &mut Ui, view: &mut View<'_>) {
    let page = &view.app.gallery;
    let panel = &mut view.panels.gallery;
    let width = ui.available_width() - BAR_WIDTH;
    let layout = Layout::of(page.items().len(), width, page.look.side);
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

fn row_ui(ui: &mut Ui, view: &mut View<'_>, layout: Layout, row: usize) {
    let size = vec2(ui.available_width(), layout.side);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
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

/// Has the small pictures made that are as far as a screen behind what is seen, and before it.
fn prepare(ui: &Ui, view: &View<'_>, seen: std::ops::Range<usize>, side: f32) {
    let items = view.app.gallery.items();
    let to = seen.end.min(items.len());
    let from = seen.start.min(to);
    let behind = &items[to..(2 * to - from).min(items.len())];
    let before = &items[from.saturating_sub(to - from)..from];
    for entry in behind.iter().chain(before) {
        let pictured = Pictured::Result(Arc::clone(entry));
        view.app
            .cx
            .thumbs
            .want(pictured, cell::thumb_side(ui, side));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_the_width_and_the_cursor_is_scrolled_to() {
        let layout = Layout::of(5000, 800.0, 150.0);
        assert_eq!((layout.num_columns, layout.num_rows), (5, 1000));
        let width = layout.side * 5.0 + theme::GALLERY_GAP * 4.0;
        assert!((width - 800.0).abs() < 0.1);
        assert_eq!(layout.offset_for(3, (0.0, 500.0)), None);
        assert_eq!(layout.offset_for(3, (200.0, 500.0)), Some(0.0));
        let below = layout.offset_for(50, (0.0, 500.0)).unwrap();
        let bottom = 10.0 * layout.row_height() + layout.side;
        assert!((below + 500.0 - bottom).abs() < 0.1);
        assert_eq!(Layout::of(0, 250.0, 320.0).num_columns, 2);
        assert!(Layout::of(9, 1.0, 150.0).side >= 1.0);
    }
}
