//! Windows with little room, such as one at a scale of 300 %: the form and what is beside it take turns, and the memory
//! graph scrolls.
//!
//! What the panels show is theirs.

use egui::{Frame, Panel, ScrollArea, Ui};

use crate::app::state::Page;
use crate::ui::widgets::choice;
use crate::ui::{View, memory, theme};

/// Which of the two is shown.
pub(super) fn sides_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.horizontal(|ui| {
        let is_form = !view.session.is_view_shown;
        if choice(ui, is_form, "Form", "What is to be made").clicked() {
            view.session.is_view_shown = false;
        }
        if choice(ui, !is_form, "View", "The picture, and the other pages").clicked() {
            view.session.is_view_shown = true;
        }
    });
}

/// The memory graph, which leaves room for what is above it.
pub(super) fn graph_ui(ui: &mut Ui, view: &mut View<'_>, bar: Frame) {
    let height = ui.available_height();
    if height < theme::SHORT_HEIGHT && view.session.page != Page::Watch {
        return;
    }
    let height = height * theme::MEMORY_SHARE;
    Panel::bottom("memory")
        .frame(bar)
        .resizable(false)
        .show(ui, |ui| {
            ScrollArea::vertical()
                .id_salt("memory")
                .auto_shrink([false, true])
                .max_height(height)
                .min_scrolled_height(height)
                .show(ui, |ui| memory::memory_ui(ui, view, height));
        });
}
