//! The viewer: the running job, a result, a file or a comparison, with the caption and controls below.

mod bar;
pub(crate) mod drop_zones;
mod empty;
mod more;
mod sound;
mod stage;
pub(crate) mod strip;

use std::path::PathBuf;

use crate::window::viewer::texture::ViewerTexture;
use crate::window::viewer::zoom::ZoomLevel;
use crate::window::viewer::{PlaybackPosition, ViewedMedia, ViewerMode};

use crate::window::inputs::panel::crop;
use crate::window::layout::narrow;
use crate::window::layout::prelude::*;
use crate::window::layout::status::{SEPARATOR, job_text};
use crate::window::results::panel::{ResultSubject, drag_source};

/// Returns the area of the image.
pub(crate) fn watch_ui(ui: &mut Ui, view: &mut UiContext<'_>) -> Rect {
    let is_empty = view.app.watch.is_empty(&view.app.queue);
    if view.app.watch.is_full && !is_empty {
        return bar::full_ui(ui, view);
    }
    bar::leave(view);
    let mut controls_height = 0.0;
    if !is_empty {
        let bar = Frame::new().inner_margin(Margin::symmetric(16, 8));
        // They scroll where the image would be too small.
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
        // The panels below them make room.
        ui.ctx().request_repaint();
    }
    let area = ui.available_rect_before_wrap();
    if is_empty {
        ui.allocate_rect(area, egui::Sense::hover());
        empty::empty_ui(ui, area.shrink(16.0), view);
        return area;
    }
    if view.app.watch.mode == ViewerMode::Compare {
        stage::images_ui(ui, view, area);
    } else {
        image_ui(ui, view, area);
    }
    area
}

fn controls_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let caption = caption(view);
    bar::bar_ui(ui, view, caption.as_ref());
    if let ViewerMode::Result(id) = view.app.watch.mode
        && let Some(item) = view.app.queue.result(id)
    {
        strip::batch_ui(ui, view, item);
    }
    if view.app.watch.mode == ViewerMode::Compare {
        stage::controls_ui(ui, view);
    }
    bar::below_ui(ui, view, caption.as_ref());
}

/// The place in what is shown, where that can play.
fn playhead<'a>(view: &'a UiContext<'_>) -> Option<&'a PlaybackPosition> {
    let playhead = match view.app.watch.mode {
        ViewerMode::Live => {
            let job = view.app.queue.live()?;
            &job.growing.as_ref()?.playhead
        }
        ViewerMode::Result(_) | ViewerMode::File => {
            let player = view.app.watch.player.as_ref()?;
            player.can_play().then_some(&player.playhead)?
        }
        ViewerMode::Compare => &view.app.watch.compare.as_ref()?.playhead,
    };
    (playhead.len() > 1).then_some(playhead)
}

fn image_ui(ui: &mut Ui, view: &mut UiContext<'_>, area: Rect) {
    let is_live = view.app.watch.mode == ViewerMode::Live;
    let Some(size) = view.app.watch.texture.size() else {
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
    // looked at before, while the new image is made ready.
    let is_of_its_shape = |it: &Vec2| {
        let (a, b) = (it.x * size.y, size.x * it.y);
        // But for what rounding does.
        (a - b).abs() <= a.max(b) * 0.02
    };
    let requested = requested_size(view).filter(is_of_its_shape);
    let size = requested.unwrap_or(size);
    let [(mut response, shown)] = stage::stages_ui(ui, view, [(area, size)]);
    stage::paint(ui, area, shown, &view.app.watch.texture, Color32::WHITE);
    let edge = if is_live && view.app.queue.live().is_some() {
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
    if cell.is_some() {
        response = response
            .on_hover_cursor(CursorIcon::PointingHand)
            .on_hover_text("Open this result of the grid");
    }
    if !is_live && response.clicked() {
        view.push(cell.map_or(PlayerCommand::Toggle, PlayerCommand::PlayFile));
    }
    // Zoomed, dragging moves the image.
    if view.app.watch.zoom == ZoomLevel::Fit
        && let Some(subject) = ResultSubject::from_view(view)
    {
        drag_source(&response, || subject);
    }
    if more::is_possible(view) {
        response.context_menu(|ui| more::menu_ui(ui, view, false));
    }
}

/// The result that a contact sheet shows under the pointer.
fn cell_under(response: &Response, view: &UiContext<'_>, shown: Rect) -> Option<PathBuf> {
    let media = view.app.watch.media()?;
    let pointer = response.hover_pos()?;
    let share = (pointer - shown.min) / shown.size();
    let (x, y) = (share.x * media.width as f32, share.y * media.height as f32);
    let is_inside = shown.contains(pointer);
    let index = view.app.watch.batch_index();
    is_inside
        .then(|| media.cell_at(index, x as u32, y as u32))
        .flatten()
}

fn inset_ui(ui: &Ui, area: Rect, inset: &ViewerTexture) {
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

fn name_of(view: &UiContext<'_>) -> String {
    let name = match (view.app.watch.mode, view.app.watch.media()) {
        (ViewerMode::Live, _) => "Live preview",
        (ViewerMode::Compare, _) => "Comparison",
        (ViewerMode::Result(_), Some(media)) if !media.is_video => "Finished image",
        (ViewerMode::File, Some(media)) => {
            return format!("The file {}", media.name_of(view.app.watch.batch_index()));
        }
        _ => "Finished video",
    };
    name.to_owned()
}

/// Width and height in pixels of the result or of what is being made.
fn requested_size(view: &UiContext<'_>) -> Option<Vec2> {
    let running = view.app.queue.live();
    let (width, height) = match view.app.watch.media() {
        Some(media) => (media.width, media.height),
        None => running?.request.size(),
    };
    Some(vec2(width as f32, height as f32))
}

struct ViewerCaption {
    pub line: String,
    pub more: String,
}

/// `None` for a comparison, which shows different lines.
fn caption(view: &UiContext<'_>) -> Option<ViewerCaption> {
    let watch = &view.app.watch;
    if watch.mode == ViewerMode::Live {
        let job = view.app.queue.live()?;
        return Some(ViewerCaption {
            line: job_text(job),
            more: job.request.title().into_owned(),
        });
    }
    let (media, shown) = (watch.media()?, watch.batch_index());
    let num_frames = watch.player.as_ref()?.num_frames();
    let path = media.path_of(shown).display().to_string();
    Some(ViewerCaption {
        line: media_line(media, shown, num_frames),
        more: match media.prompt(shown) {
            Some(prompt) => format!("{prompt}\n{path}"),
            None => path,
        },
    })
}

/// `832 × 480  ·  81 frames  ·  seed 12  ·  1 min 5 s  ·  boat.mp4`: what is not known is left out.
fn media_line(media: &ViewedMedia, shown: usize, num_frames: usize) -> String {
    let length = match (media.is_video, media.paths.len()) {
        (true, _) if num_frames == 1 => "1 frame".to_owned(),
        (true, _) => format!("{num_frames} frames"),
        (false, 0 | 1) => "image".to_owned(),
        (false, count) => format!("image {} of {count}", shown + 1),
    };
    let mut facts = vec![format!("{} × {}", media.width, media.height), length];
    let request = media.request_of(shown);
    let seed = request.and_then(|request| request["seed"].as_u64());
    facts.extend(seed.map(|seed| format!("seed {seed}")));
    facts.extend(media.secs.map(duration_text));
    facts.push(media.name_of(shown));
    facts.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn caption_shows_only_the_known_properties_of_a_file() {
        let settings = json!({"request": {"seed": 12}});
        let video = ViewedMedia {
            paths: vec!["boat.mp4".into()],
            width: 832,
            height: 480,
            is_video: true,
            secs: Some(65.0),
            settings: vec![Some(settings)],
            ..ViewedMedia::default()
        };
        let expected = "832 × 480  ·  81 frames  ·  seed 12  ·  1 min 5 s  ·  boat.mp4";
        assert_eq!(media_line(&video, 0, 81), expected);
        let batch = ViewedMedia {
            paths: ["a.png", "b.png"].map(Into::into).to_vec(),
            width: 64,
            height: 32,
            ..ViewedMedia::default()
        };
        let expected = "64 × 32  ·  image 2 of 2  ·  b.png";
        assert_eq!(media_line(&batch, 1, 2), expected);
    }
}
