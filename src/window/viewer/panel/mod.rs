//! The viewer: the running job, a result, a file or a comparison, with the caption and controls below; while there is
//! none of these, the safelight's glow, a hint, and the newest earlier results.

mod bar;
pub(crate) mod drop_zones;
mod more;
mod stage;
pub(crate) mod strip;

use std::path::PathBuf;

use egui::{Mesh, Role, WidgetInfo};

use crate::window::gallery::panel::grid;
use crate::window::inputs::panel::crop;
use crate::window::layout::narrow;
use crate::window::layout::prelude::*;
use crate::window::layout::status::{SEPARATOR, job_text};
use crate::window::layout::view::FullBar;
use crate::window::results::panel::{ResultSubject, drag_source};
use crate::window::viewer::texture::ViewerTexture;
use crate::window::viewer::zoom::ZoomLevel;
use crate::window::viewer::{PlaybackPosition, ViewedMedia, ViewerMode};

const MAX_NEWEST: usize = 5;
/// Size of each result, in points.
const NEWEST_SIDE: f32 = 96.0;

/// Returns the area of the image.
pub(crate) fn watch_ui(ui: &mut Ui, view: &mut UiContext<'_>) -> Rect {
    let is_empty = view.app.watch.is_empty(&view.app.queue);
    if view.app.watch.is_full && !is_empty {
        return bar::full_ui(ui, view);
    }
    view.panels.watch.full_bar = FullBar::default();
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
        ui.allocate_rect(area, Sense::hover());
        empty_ui(ui, area.shrink(16.0), view);
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
    let watch = &view.app.watch;
    let playhead = match &watch.compare {
        Some(compare) if watch.mode == ViewerMode::Compare => &compare.playhead,
        _ => {
            let player = watch.shown_player(&view.app.queue)?;
            player.media.is_video.then_some(&player.playhead)?
        }
    };
    (playhead.len() > 1).then_some(playhead)
}

fn image_ui(ui: &mut Ui, view: &mut UiContext<'_>, area: Rect) {
    let is_live = view.app.watch.mode == ViewerMode::Live;
    let Some(size) = view.app.watch.texture.size() else {
        ui.allocate_rect(area, Sense::hover());
        let text = match view.app.watch.opening() {
            Some(name) => format!("Opening {name}…"),
            None if is_live => "The first preview appears in a moment…".to_owned(),
            None => "Opening…".to_owned(),
        };
        waiting_ui(ui, area, &text);
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
    let edge = if is_live && view.app.queue.live().is_some() {
        palette(ui).accent
    } else {
        palette(ui).line
    };
    stage::paint(ui, area, shown, &view.app.watch.texture);
    stage::edge(ui, area, shown, edge);
    crop::crop_ui(ui, view, area, shown);
    if is_live {
        inset_ui(ui, area, &view.app.watch.inset);
    }
    let name = name_of(view);
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
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
    stage::paint(ui, area, shown, inset);
    let edge = Stroke::new(1.0, palette(ui).accent);
    ui.painter()
        .rect_stroke(shown, 0.0, edge, StrokeKind::Outside);
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
    line: String,
    more: String,
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

fn empty_ui(ui: &mut Ui, area: Rect, view: &mut UiContext<'_>) {
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
        earlier_ui(ui, Rect::from_min_max(top, area.max), view, num_results);
    }
}

fn earlier_ui(ui: &mut Ui, area: Rect, view: &mut UiContext<'_>, num_results: usize) {
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
            ui.painter()
                .rect_stroke(rect, theme::RADIUS, stroke, StrokeKind::Inside);
        }
        if response.clicked() {
            view.push(PlayerCommand::PlayFile(entry.path.clone()));
        }
        response.on_hover_ui(|ui| grid::hover_ui(ui, entry, broken.as_deref()));
    }
}

fn waiting_ui(ui: &Ui, area: Rect, text: &str) {
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
