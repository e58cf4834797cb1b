//! The middle of the window: the picture that develops, or a finished clip with its controls.

mod batch;
pub(super) mod strip;

use egui::{
    Align2, Button, Color32, CornerRadius, FontId, Frame, Margin, Mesh, Panel, Rect, RichText,
    Sense, Slider, Stroke, Ui, Vec2, pos2, vec2,
};
use safelight_core::job::JobId;

use crate::app::commands::AppCommand;
use crate::app::queue::ResultItem;
use crate::app::state::{Models, Viewing};
use crate::ui::watch::batch::batch_ui;
use crate::ui::widgets::{duration_text, icon_button, palette};
use crate::ui::{View, icons};

pub(super) fn watch_ui(ui: &mut Ui, view: &mut View<'_>) {
    if let Viewing::Result(id) = view.session.viewing
        && let Some(item) = view.queue.result(id)
    {
        let bar = Frame::new().inner_margin(Margin::symmetric(16, 8));
        Panel::bottom("player")
            .frame(bar)
            .resizable(false)
            .show_separator_line(false)
            .show(ui, |ui| {
                player_ui(ui, view);
                batch_ui(ui, view, item);
                result_ui(ui, view, item);
            });
    }
    let area = ui.available_rect_before_wrap();
    let response = ui.allocate_rect(area, Sense::click());
    let area = area.shrink(16.0);
    let is_live = view.session.viewing == Viewing::Live;
    if is_live && view.queue.running.is_none() && view.session.screen.texture().is_none() {
        empty_ui(ui, area, view);
        return;
    }
    let Some((texture, [width, height])) = view.session.screen.texture() else {
        waiting_ui(ui, area);
        return;
    };
    let shown = fit(
        area,
        requested_aspect(view).unwrap_or_else(|| width as f32 / height.max(1) as f32),
    );
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter().image(texture.id(), shown, uv, Color32::WHITE);
    let edge = if view.queue.running.is_some() && is_live {
        palette(ui).accent
    } else {
        palette(ui).line
    };
    ui.painter().rect_stroke(
        shown,
        CornerRadius::ZERO,
        Stroke::new(1.0, edge.gamma_multiply(0.7)),
        egui::StrokeKind::Outside,
    );
    let name = match view.session.viewing {
        Viewing::Live => "Live preview",
        Viewing::Result(id) if view.queue.result(id).is_some_and(ResultItem::is_pictures) => {
            "Finished picture"
        }
        Viewing::Result(_) => "Finished clip",
    };
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, name));
    if !is_live && response.clicked() {
        view.push(AppCommand::TogglePlay);
    }
}

/// A latent preview is coarse; the shape of what will be made is known exactly.
fn requested_aspect(view: &View<'_>) -> Option<f32> {
    let request = match view.session.viewing {
        Viewing::Live => view.queue.running.as_ref().map(|job| &job.request),
        Viewing::Result(id) => view.queue.result(id).map(|item| &item.request),
    }?;
    Some(request.width as f32 / request.height.max(1) as f32)
}

/// The largest rectangle of this aspect in the area.
fn fit(area: Rect, aspect: f32) -> Rect {
    let width = area.width().min(area.height() * aspect).max(1.0);
    Rect::from_center_size(area.center(), vec2(width, width / aspect.max(f32::EPSILON)))
}

/// Before anything was made.
fn empty_ui(ui: &Ui, area: Rect, view: &View<'_>) {
    let palette = palette(ui);
    glow(ui, area, 0.5);
    let center = area.center();
    let spec = view.session.model(&view.state.form);
    let icon = if spec.is_some_and(|spec| spec.family.makes_pictures()) {
        icons::IMAGE
    } else {
        icons::FILM
    };
    ui.painter().text(
        center - vec2(0.0, 40.0),
        Align2::CENTER_CENTER,
        icon,
        FontId::proportional(54.0),
        palette.accent.gamma_multiply(0.85),
    );
    ui.painter().text(
        center + vec2(0.0, 14.0),
        Align2::CENTER_CENTER,
        "Nothing developed yet",
        FontId::proportional(18.0),
        palette.text,
    );
    let advice = match &view.session.models {
        Models::Loading => "Looking for models…",
        Models::Ready(specs) if specs.is_empty() => "A model is needed first",
        Models::Ready(_) => "Press Generate, or describe something of your own first",
    };
    ui.painter().text(
        center + vec2(0.0, 40.0),
        Align2::CENTER_CENTER,
        advice,
        FontId::proportional(13.5),
        palette.weak,
    );
}

/// A job runs, but there is nothing to see yet.
fn waiting_ui(ui: &Ui, area: Rect) {
    let palette = palette(ui);
    glow(ui, area, 1.0);
    ui.painter().text(
        area.center(),
        Align2::CENTER_CENTER,
        "In the dark, something begins…",
        FontId::proportional(16.0),
        palette.weak,
    );
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
    let accent = palette(ui).accent;
    let reach = area.width().min(area.height()) * 0.55;
    let mut mesh = Mesh::default();
    for (ring, (distance, brightness)) in RINGS.into_iter().enumerate() {
        let colour = accent.gamma_multiply(brightness * strength);
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

fn player_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(player) = &view.session.player else {
        return;
    };
    if !player.is_clip() {
        return;
    }
    let (len, fps, is_playing) = (player.len(), player.fps(), player.is_playing());
    let mut index = player.index();
    let mut wish = None;
    ui.horizontal(|ui| {
        let (icon, name) = if is_playing {
            (icons::PAUSE, "Pause")
        } else {
            (icons::PLAY, "Play")
        };
        if icon_button(ui, icon, name, "Play or pause (space)").clicked() {
            wish = Some(AppCommand::TogglePlay);
        }
        if icon_button(
            ui,
            icons::CARET_LEFT,
            "Previous frame",
            "One frame back (left arrow)",
        )
        .clicked()
        {
            wish = Some(AppCommand::StepFrame(-1));
        }
        if icon_button(
            ui,
            icons::CARET_RIGHT,
            "Next frame",
            "One frame on (right arrow)",
        )
        .clicked()
        {
            wish = Some(AppCommand::StepFrame(1));
        }
        let text = format!("{} / {len}   {:.1} s", index + 1, index as f64 / fps);
        ui.spacing_mut().slider_width = (ui.available_width() - 150.0).max(60.0);
        let slider = Slider::new(&mut index, 0..=len - 1).show_value(false);
        let response = ui
            .add(slider)
            .on_hover_text("Drag to look at a frame")
            .accessible_name("Position");
        if response.changed() {
            wish = Some(AppCommand::ShowFrame(index));
        }
        let weak = palette(ui).weak;
        ui.label(RichText::new(text).monospace().color(weak));
    });
    view.commands.extend(wish);
}

fn result_ui(ui: &mut Ui, view: &mut View<'_>, item: &ResultItem) {
    let palette = palette(ui);
    let id = item.id;
    ui.horizontal_wrapped(|ui| {
        let buttons = [
            (
                icons::FOLDER_OPEN,
                "Open folder",
                "Show the file in the file manager",
                AppCommand::OpenFolderOf(id),
            ),
            (
                icons::COPY,
                "Copy path",
                "Put the file's path on the clipboard",
                AppCommand::CopyPathOf(id),
            ),
            (
                icons::RESET,
                "Use these settings",
                "Put its prompt, seed and settings back into the form",
                AppCommand::UseSettingsOf(id),
            ),
        ];
        for (icon, name, explanation, command) in buttons {
            let button = Button::new(crate::ui::widgets::with_icon(icon, name));
            if ui
                .add(button)
                .on_hover_text(explanation)
                .accessible_name(name)
                .clicked()
            {
                view.push(command);
            }
        }
        continue_button(ui, view, item);
        live_button(ui, view);
    });
    let shown = view.session.shown_of_batch();
    let path = item.path_of(shown);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("{}  ·  {file}", facts(item, shown));
    ui.add(egui::Label::new(RichText::new(text).small().color(palette.weak)).truncate())
        .on_hover_text(format!("{}\n{}", item.request.prompt, path.display()));
}

/// The clip's last frame begins the next part; a picture begins a clip or is made anew.
fn continue_button(ui: &mut Ui, view: &mut View<'_>, item: &ResultItem) {
    let spec = view.session.model(&view.state.form);
    let makes_pictures = spec.is_some_and(|spec| spec.family.makes_pictures());
    let (name, explanation) = if !item.is_pictures() && item.output.clip.frames.len() > 1 {
        (
            "Continue from last frame",
            "Go on from this clip: its last frame begins the next part, and both are written as one",
        )
    } else if makes_pictures {
        (
            "Use as start picture",
            "Make the next picture from this one",
        )
    } else {
        (
            "Use as start picture",
            "Make a clip that begins with this picture",
        )
    };
    let can_start = spec.is_some_and(|spec| spec.start_image.is_possible());
    let button = Button::new(crate::ui::widgets::with_icon(icons::ARROW_RIGHT, name));
    let response = ui
        .add_enabled(can_start, button)
        .on_hover_text(explanation)
        .on_disabled_hover_text("The chosen model cannot start from a picture")
        .accessible_name(name);
    if response.clicked() {
        view.push(AppCommand::ContinueFrom(item.id));
    }
}

/// Back to the running job, while an older clip is looked at.
fn live_button(ui: &mut Ui, view: &mut View<'_>) {
    if view.queue.running.is_none() {
        return;
    }
    let accent = palette(ui).accent;
    let button = Button::new(RichText::new("Back to the live preview").color(accent));
    if ui
        .add(button)
        .on_hover_text("Another one is being made right now")
        .clicked()
    {
        view.push(AppCommand::ShowLive);
    }
}

/// In a batch, of the picture that is looked at.
fn facts(item: &ResultItem, shown: usize) -> String {
    let request = item.request.of_one(shown);
    let length = if item.is_batch() {
        format!("picture {} of {}", shown + 1, item.request.batch_size)
    } else if request.num_frames == 1 {
        "picture".to_owned()
    } else {
        format!("{} frames", request.num_frames)
    };
    format!(
        "{} × {}  ·  {length}  ·  seed {}  ·  {}",
        request.width,
        request.height,
        request.seed,
        duration_text(item.output.secs)
    )
}

/// Whether this result is the one in the middle.
pub(super) fn is_shown(view: &View<'_>, id: JobId) -> bool {
    view.session.viewing == Viewing::Result(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_with_its_shape_kept() {
        let area = Rect::from_min_size(pos2(10.0, 20.0), vec2(800.0, 400.0));
        for aspect in [0.25, 1.0, 16.0 / 9.0, 4.0] {
            let shown = fit(area, aspect);
            assert!(area.expand(0.01).contains_rect(shown));
            assert!((shown.width() / shown.height() - aspect).abs() < 1e-3);
        }
    }
}
