//! Layout of small windows, such as one at a scale of 300 %: the form and the view alternate, and the memory panel and
//! the strip of results leave room for the image.
//!
//! The panels define their content.

use egui::CentralPanel;

use crate::window::layout::prelude::*;
use crate::window::memory;
use crate::window::state::PanelPlace;

pub(crate) fn sides_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal(|ui| {
        for (is_view, name, hover) in [
            (false, "Form", "What to make"),
            (true, "View", "The image, and the other pages"),
        ] {
            let is_shown = view.app.cx.is_view_shown == is_view;
            if choice(ui, is_shown, name, hover).clicked() {
                view.set(move |app| app.cx.is_view_shown = is_view);
            }
        }
    });
}

/// Placement of the memory panel: at the bottom if there is room. If there is not, it covers the view when the user
/// opened it, and is hidden when it opened automatically.
pub(crate) fn memory_place(height: f32, view: &UiContext<'_>) -> PanelPlace {
    if !view.folds.is_graph_open {
        PanelPlace::Nowhere
    } else if room_for_memory(height, view) >= theme::MEMORY_MIN_HEIGHT {
        PanelPlace::Beside
    } else if view.app.cx.is_memory_over {
        PanelPlace::Over
    } else {
        PanelPlace::Nowhere
    }
}

fn room_for_memory(height: f32, view: &UiContext<'_>) -> f32 {
    room_for_graph(height, view).min(height * theme::MEMORY_SHARE)
}

pub(crate) fn memory_page_ui(ui: &mut Ui, view: &mut UiContext<'_>, bar: Frame) {
    CentralPanel::default().frame(bar).show(ui, |ui| {
        let height = ui.available_height();
        ScrollArea::vertical()
            .id_salt("memory")
            .auto_shrink([false, false])
            .show(ui, |ui| memory::panel::memory_ui(ui, view, height));
    });
}

/// The memory graph, as high as what is above it allows: it scrolls.
pub(crate) fn graph_ui(ui: &mut Ui, view: &mut UiContext<'_>, bar: Frame) {
    let room = room_for_memory(ui.available_height(), view);
    let height = room - bar.total_margin().sum().y;
    Panel::bottom("memory")
        .frame(bar)
        .resizable(false)
        .max_size(room)
        .show(ui, |ui| {
            ScrollArea::vertical()
                .id_salt("memory")
                .auto_shrink([false, true])
                .max_height(height)
                .min_scrolled_height(height)
                .show(ui, |ui| memory::panel::memory_ui(ui, view, height));
        });
}

fn room_for_graph(height: f32, view: &UiContext<'_>) -> f32 {
    if view.app.cx.page != MainPage::Watch {
        return height - theme::PAGE_MIN_HEIGHT;
    }
    let strip = if has_strip(height, view) {
        theme::STRIP_HEIGHT
    } else {
        0.0
    };
    height - stage_height(height) - view.panels.watch.controls_height - strip
}

/// Returns whether there are results or other running jobs, and room for their strip below the image.
pub(crate) fn has_strip(height: f32, view: &UiContext<'_>) -> bool {
    let below = view.panels.watch.controls_height + theme::STRIP_HEIGHT;
    let queue = &view.app.queue;
    let is_empty = queue.results.is_empty() && queue.running.len() < 2;
    !is_empty && height - below >= stage_height(height)
}

pub(crate) fn stage_height(height: f32) -> f32 {
    theme::STAGE_HEIGHT.min(height * theme::STAGE_SHARE)
}
