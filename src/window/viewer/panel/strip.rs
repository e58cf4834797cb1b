//! The strip of this session's results, before them the jobs of other devices, and the row of a batch's images.

use crate::window::layout::narrow;
use crate::window::layout::prelude::*;
use crate::window::layout::status::job_text;
use crate::window::queue::ResultItem;
use crate::window::results::panel::{ResultSubject, drag_source, result_menu_ui};

/// Edge of a thumbnail's button and the gap to the next.
const MARGIN: Vec2 = Vec2::splat(3.0);
/// Pixels of a thumbnail: sharp at 200 %.
const THUMB_PX: u32 = 160;

pub(in crate::window) fn strip_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    if !narrow::has_strip(ui.available_height(), view) {
        return;
    }
    let palette = palette(ui);
    let frame = Frame::new()
        .fill(palette.stage)
        .inner_margin(Margin::symmetric(16, 8));
    Panel::bottom("gallery")
        .frame(frame)
        .resizable(false)
        .show(ui, |ui| {
            ScrollArea::horizontal()
                .auto_shrink([false, true])
                .show(ui, |ui| {
                    ui.horizontal(|ui| {
                        running_ui(ui, view);
                        results_ui(ui, view);
                    });
                });
        });
}

/// Running jobs that are not on the stage; a click brings one there.
fn running_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    let queue = &view.app.queue;
    let live = queue.live().map(|job| job.id);
    ui.spacing_mut().button_padding = Vec2::splat(2.0);
    for job in queue.running.iter().filter(|job| Some(job.id) != live) {
        let thumbs = &view.app.cx.thumbs;
        let thumb = job.thumb(|it| thumbs.get(it.clone(), THUMB_PX).is_some());
        let button = thumb_button(view, thumb, Vec2::splat(theme::THUMB_SIDE));
        let stroke = Stroke::new(2.0, palette.amber);
        let (name, title) = (&job.device_name, job.request.title());
        let response = ui
            .add(button.stroke(stroke).fill(palette.stage))
            .on_hover_text(format!("{title}\n{name}: {}", job_text(job)))
            .accessible_name(format!("Watch {name}: {title}"));
        let mut done = response.rect.shrink(2.0);
        done.set_width(done.width() * job.progress());
        done.min.y = done.max.y - 3.0;
        ui.painter().rect_filled(done, 0.0, palette.accent);
        view.on_click(&response, PlayerCommand::Watch(name.clone()));
    }
}

/// The newest first. Only what is visible is drawn, and the next ones at both sides, which keys can reach.
fn results_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let seen = ui.clip_rect().expand2(vec2(theme::THUMB_SIDE * 2.0, 0.0));
    for (index, item) in view.app.queue.results.iter().enumerate().rev() {
        let inner = thumb_size(item);
        let (_, rect) = ui.allocate_space(inner + 2.0 * MARGIN);
        if rect.intersects(seen) {
            // An id of the result, so that it keeps the focus when others are not drawn any more.
            let scope = ui.scope_id().with(item.id.0);
            let place = UiBuilder::new().scope_id(scope).max_rect(rect);
            ui.scope_builder(place, |ui| thumb_ui(ui, view, index, item, inner));
        }
    }
}

/// Size by the shape of its images, within limits.
fn thumb_size(item: &ResultItem) -> Vec2 {
    let side = theme::THUMB_SIDE;
    let image = item.output.video.frames.first();
    let shape = image.map_or(1.0, |it| it.width as f32 / it.height.max(1) as f32);
    vec2((side * shape).clamp(side * 0.5, side * 2.0), side)
}

fn thumb_ui(ui: &mut Ui, view: &mut UiContext<'_>, index: usize, item: &ResultItem, inner: Vec2) {
    let palette = palette(ui);
    let edge = if view.app.watch.shows(item) {
        palette.accent
    } else {
        palette.line
    };
    ui.spacing_mut().button_padding = Vec2::splat(2.0);
    let button = thumb_button(view, item.middle(), inner);
    let button = button.stroke(Stroke::new(2.0, edge)).fill(palette.stage);
    let title = item.request.title();
    let seed = item
        .seed()
        .map_or(String::new(), |seed| format!("Seed {seed}. "));
    let hover = format!("{title}\n{seed}Ctrl-click compares, right-click shows a menu");
    let response = ui
        .add(button.sense(Sense::click_and_drag()))
        .on_hover_text(hover)
        .accessible_name(format!("Result {}: {title}", index + 1));
    if response.gained_focus() {
        response.scroll_to_me(None);
    }
    if item.is_batch() {
        count_badge(ui, response.rect, item.request.batch_size());
    }
    if response.clicked() {
        view.push(if ui.input(|input| input.modifiers.command) {
            PlayerCommand::CompareWith(item.id)
        } else {
            PlayerCommand::ShowResult(item.id)
        });
    }
    drag_source(&response, || ResultSubject::of_result(view, item));
    let is_delete = || ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Delete));
    if response.has_focus() && is_delete() {
        view.push(ResultSubject::of_result(view, item).trash());
    }
    if response.context_menu_opened() || response.secondary_clicked() {
        let subject = ResultSubject::of_result(view, item);
        response.context_menu(|ui| result_menu_ui(ui, view, &subject));
    }
}

/// A button with a thumbnail, which may load later.
fn thumb_button<'a>(view: &UiContext<'a>, shown: Option<ThumbSource>, inner: Vec2) -> Button<'a> {
    let thumbs = &view.app.cx.thumbs;
    match shown.and_then(|shown| thumbs.get(shown, THUMB_PX)) {
        Some(Ok(thumb)) => Button::image(Image::new(thumb).fit_to_exact_size(inner)),
        _ => Button::new("").min_size(inner + 2.0 * MARGIN),
    }
}

fn count_badge(ui: &Ui, thumb: Rect, count: u32) {
    let palette = palette(ui);
    let size = Vec2::splat(theme::COUNT_SIZE);
    let rect = Rect::from_min_size(thumb.right_bottom() - size - vec2(4.0, 4.0), size);
    let ink = (theme::COUNT_SIZE * 0.65, palette.text);
    badge(ui, rect, palette.stage.gamma_multiply(0.85), count, ink);
}

/// The images of a batch side by side; a click shows one.
pub(super) fn batch_ui(ui: &mut Ui, view: &mut UiContext<'_>, item: &ResultItem) {
    if !item.is_batch() {
        return;
    }
    let palette = palette(ui);
    let count = item.output.video.frames.len();
    let shown = view.app.watch.batch_index();
    ScrollArea::horizontal()
        .id_salt("batch")
        .auto_shrink([false, true])
        .show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.spacing_mut().button_padding = vec2(2.0, 2.0);
                for (index, frame) in item.output.video.frames.iter().enumerate() {
                    let size = vec2(frame.width as f32, frame.height as f32);
                    let scale = theme::BATCH_SIDE / size.max_elem().max(1.0);
                    let edge = if index == shown {
                        palette.accent
                    } else {
                        palette.line
                    };
                    let button = thumb_button(view, item.shown(index), size * scale)
                        .stroke(Stroke::new(2.0, edge))
                        .fill(palette.stage);
                    let request = item.generated(index);
                    let seed = request.map_or(0, |request| request.seed);
                    let response = ui
                        .add(button)
                        .on_hover_text(format!("Seed {seed} (Left and Right go through the batch)"))
                        .accessible_name(format!("Image {} of {count}", index + 1));
                    view.on_click(&response, PlayerCommand::ShowFrame(index));
                }
            });
        });
}
