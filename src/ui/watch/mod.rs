//! The middle of the window: the picture that develops, a finished result, a file, or two of them beside each other, with
//! the controls below.
//!
//! What is shown is the app's to say; here it is drawn.

mod bar;
mod batch;
mod caption;
mod compare;
pub(super) mod drop_zones;
mod empty;
mod full;
mod live;
mod more;
mod stage;
pub(super) mod strip;

use std::path::PathBuf;

use egui::{
    Color32, CursorIcon, Frame, Margin, Panel, Rect, Response, ScrollArea, Stroke, Ui, Vec2, vec2,
};

use crate::app::commands::PlayerCommand;
use crate::app::player::screen::Screen;
use crate::app::player::zoom::Zoom;
use crate::app::player::{Playhead, Viewing};
use crate::app::queue::ResultItem;
use crate::ui::create::pictures::crop;
use crate::ui::results::{Subject, drag};
use crate::ui::widgets::palette;
use crate::ui::{View, narrow};
use batch::batch_ui;

/// What the panels of the middle remember for themselves.
#[derive(Default)]
pub struct WatchPanel {
    /// How high the controls below the picture were in the last frame.
    pub(super) controls_height: f32,
    full_bar: full::FullBar,
}

/// Gives the place of the picture.
pub(super) fn watch_ui(ui: &mut Ui, view: &mut View<'_>) -> Rect {
    let is_empty = view.app.watch.is_empty(&view.app.queue);
    if view.app.watch.is_full && !is_empty {
        return full::full_ui(ui, view);
    }
    full::leave(view);
    let mut controls_height = 0.0;
    if !is_empty {
        let bar = Frame::new().inner_margin(Margin::symmetric(16, 8));
        // Where the picture would not keep its part, they scroll.
        let room = ui.available_height() - narrow::stage_height(ui.available_height());
        let height = room - bar.total_margin().sum().y;
        let shown = Panel::bottom("player")
            .frame(bar)
            .resizable(false)
            .max_size(room)
            .show_separator_line(false)
            .show(ui, |ui| {
                ScrollArea::vertical()
                    .id_salt("player")
                    .auto_shrink([false, true])
                    .max_height(height)
                    .min_scrolled_height(height)
                    .show(ui, |ui| controls_ui(ui, view));
            });
        controls_height = shown.response.rect.height();
    }
    let before = &mut view.panels.watch.controls_height;
    if std::mem::replace(before, controls_height) != controls_height {
        // What stands below them makes room for it.
        ui.ctx().request_repaint();
    }
    let area = ui.available_rect_before_wrap();
    if is_empty {
        ui.allocate_rect(area, egui::Sense::hover());
        empty::empty_ui(ui, area.shrink(16.0), view);
        return area;
    }
    if view.app.watch.viewing == Viewing::Compare {
        compare::pictures_ui(ui, view, area);
    } else {
        picture_ui(ui, view, area);
    }
    area
}

fn controls_ui(ui: &mut Ui, view: &mut View<'_>) {
    let told = caption::told(view);
    bar::bar_ui(ui, view, told.as_ref());
    if let Viewing::Result(id) = view.app.watch.viewing
        && let Some(item) = view.app.queue.result(id)
    {
        batch_ui(ui, view, item);
    }
    if view.app.watch.viewing == Viewing::Compare {
        compare::controls_ui(ui, view);
    }
    bar::below_ui(ui, view, told.as_ref());
}

/// The place in what is shown, where that can play.
fn playhead<'a>(view: &'a View<'_>) -> Option<&'a Playhead> {
    let playhead = match view.app.watch.viewing {
        Viewing::Live => {
            let job = view.app.queue.running.as_ref()?;
            job.growing.as_ref()?.playhead()
        }
        Viewing::Result(_) | Viewing::File => {
            let player = view.app.watch.player.as_ref()?;
            player.is_clip().then(|| player.playhead())?
        }
        Viewing::Compare => &view.app.watch.compare.as_ref()?.playhead,
    };
    (playhead.len() > 1).then_some(playhead)
}

fn picture_ui(ui: &mut Ui, view: &mut View<'_>, area: Rect) {
    let is_live = view.app.watch.viewing == Viewing::Live;
    let Some(size) = view.app.watch.screen.size() else {
        ui.allocate_rect(area, egui::Sense::hover());
        let text = match view.app.watch.opening() {
            Some(name) => format!("Opening {name}…"),
            None if is_live => "The first preview appears in a moment…".to_owned(),
            None => "Opening…".to_owned(),
        };
        empty::waiting_ui(ui, area, &text);
        return;
    };
    // A latent preview is coarse; the size of what will be made is known exactly. What has another shape is what was
    // looked at before, while the new picture is made ready.
    let requested = requested_size(view).filter(|it| is_of_shape(*it, size));
    let size = requested.unwrap_or(size);
    let (response, shown) = stage::stage_ui(ui, view, area, size);
    stage::paint(ui, area, shown, &view.app.watch.screen, Color32::WHITE);
    let edge = if is_live && view.app.queue.running.is_some() {
        palette(ui).accent
    } else {
        palette(ui).line
    };
    stage::edge(ui, area, shown, edge);
    crop::crop_ui(ui, view, area, shown);
    if is_live {
        inset_ui(ui, area, &view.app.watch.inset);
    }
    let name = name_of(view);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &name));
    let cell = cell_under(&response, view, shown);
    let response = if cell.is_some() {
        response
            .on_hover_cursor(CursorIcon::PointingHand)
            .on_hover_text("Open this result of the grid")
    } else {
        response
    };
    if !is_live && response.clicked() {
        view.push(cell.map_or(PlayerCommand::Toggle, PlayerCommand::PlayFile));
    }
    // Zoomed, dragging moves the picture.
    if view.app.watch.zoom == Zoom::Fit
        && let Some(subject) = Subject::shown(view)
    {
        drag::source(&response, || subject);
    }
    if more::is_possible(view) {
        response.context_menu(|ui| more::menu_ui(ui, view, false));
    }
}

/// The result that a contact sheet shows under the pointer.
fn cell_under(response: &Response, view: &View<'_>, shown: Rect) -> Option<PathBuf> {
    let file = view.app.watch.file.as_ref();
    let file = file.filter(|_| view.app.watch.viewing == Viewing::File)?;
    let pointer = response.hover_pos()?;
    let share = (pointer - shown.min) / shown.size();
    let (x, y) = (share.x * file.width as f32, share.y * file.height as f32);
    let is_inside = shown.contains(pointer);
    let index = view.app.watch.shown_of_batch();
    is_inside
        .then(|| file.cell_at(index, x as u32, y as u32))
        .flatten()
}

/// Whether they are as wide as high, but for what rounding does.
fn is_of_shape(one: Vec2, other: Vec2) -> bool {
    let (a, b) = (one.x * other.y, other.x * one.y);
    (a - b).abs() <= a.max(b) * 0.02
}

/// What is in the making, in a corner of the clip so far.
fn inset_ui(ui: &Ui, area: Rect, inset: &Screen) {
    const SHARE: f32 = 0.24;
    let Some(size) = inset.size() else {
        return;
    };
    let width = (area.width() * SHARE).min(area.height() * SHARE * size.x / size.y.max(1.0));
    let size = vec2(width, width * size.y / size.x.max(1.0));
    let corner = area.shrink(24.0).right_bottom();
    let shown = Rect::from_min_max(corner - size, corner);
    stage::paint(ui, area, shown, inset, Color32::WHITE);
    ui.painter().rect_stroke(
        shown,
        0.0,
        Stroke::new(1.0, palette(ui).accent),
        egui::StrokeKind::Outside,
    );
}

/// What a screen reader says of the picture.
fn name_of(view: &View<'_>) -> String {
    match view.app.watch.viewing {
        Viewing::Live => "Live preview".to_owned(),
        Viewing::Result(id)
            if view
                .app
                .queue
                .result(id)
                .is_some_and(ResultItem::is_pictures) =>
        {
            "Finished picture".to_owned()
        }
        Viewing::Result(_) => "Finished clip".to_owned(),
        Viewing::File => {
            let shown = view.app.watch.shown_of_batch();
            let file = view.app.watch.file.as_ref();
            file.map_or_else(String::new, |file| {
                format!("The file {}", file.name_of(shown))
            })
        }
        Viewing::Compare => "Comparison".to_owned(),
    }
}

/// In pixels, of what is made or was.
fn requested_size(view: &View<'_>) -> Option<Vec2> {
    let size = match view.app.watch.viewing {
        Viewing::Live => view
            .app
            .queue
            .running
            .as_ref()
            .map(|job| job.request.size()),
        Viewing::Result(id) => {
            let item = view.app.queue.result(id);
            item.map(|item| item.request.size())
        }
        Viewing::File | Viewing::Compare => None,
    };
    if let Some((width, height)) = size {
        return Some(vec2(width as f32, height as f32));
    }
    let file = view.app.watch.file.as_ref()?;
    Some(vec2(file.width as f32, file.height as f32))
}

/// Joins facts with a separator.
fn listed_text(facts: &[String]) -> String {
    facts.join("  ·  ")
}
