//! The player's bar, one row: play, step, position, repeat, speed, zoom, and the menu; over the image in full screen.

use egui::style::HandleShape;
use egui::{Area, Order, Popup, lerp, remap_clamp};
use safelight_core::units::clock_text;

use crate::window::layout::prelude::*;
use crate::window::viewer::panel::{ViewerCaption, caption, image_ui, more, playhead, stage};
use crate::window::viewer::zoom::ZoomLevel;
use crate::window::viewer::{PlaybackPosition, RepeatMode, SPEEDS, ViewerMode};

pub(super) const SPEED_MORE: &str = "Playback speed";
/// Time for which the bar stays visible after the last movement.
const STAYS_SECS: f64 = 2.5;
const FADE_SECS: f32 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarRoom {
    All,
    Snug,
    /// Speed, repeat and size are in the menu.
    Narrow,
    /// The slider has a separate row, too.
    Tiny,
}

impl BarRoom {
    fn for_width(ui: &Ui, view: &UiContext<'_>) -> Self {
        let Some(playhead) = playhead(view) else {
            return Self::All;
        };
        let mut room = ui.available_width() - numbers_width(ui, playhead);
        room -= theme::POSITION_MIN_WIDTH;
        if view.app.watch.sound.peaks().is_some() {
            room -= theme::SOUND_WIDTH;
        }
        if room >= theme::BAR_BUTTONS_WIDTH {
            Self::All
        } else if room >= theme::BAR_SNUG_WIDTH {
            Self::Snug
        } else if room >= theme::BAR_NARROW_WIDTH && more::is_possible(view) {
            Self::Narrow
        } else {
            Self::Tiny
        }
    }
}

/// The bar; where there is nothing to play, with the caption in it.
pub(super) fn bar_ui(ui: &mut Ui, view: &mut UiContext<'_>, caption: Option<&ViewerCaption>) {
    let can_play = playhead(view).is_some();
    let room = BarRoom::for_width(ui, view);
    if room == BarRoom::Tiny {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                position_ui(ui, view);
            });
        });
    }
    let is_all = matches!(room, BarRoom::All | BarRoom::Snug) || !more::is_possible(view);
    let watch = &view.app.watch;
    // A batch from disk; one of this session has a row of thumbnails.
    let has_several = watch
        .player
        .as_ref()
        .is_some_and(|player| player.num_frames() > 1);
    let is_batch_file = watch.mode == ViewerMode::File && has_several;
    ui.horizontal(|ui| {
        if can_play {
            play_ui(ui, view);
        } else if is_batch_file {
            turn_ui(ui, view);
        } else if view.app.watch.mode == ViewerMode::Compare {
            stage::modes_ui(ui, view);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            more::button_ui(ui, view, room);
            more::full_button(ui, view);
            if is_all {
                zoom_ui(ui, view);
            }
            if can_play {
                if is_all {
                    pace_ui(ui, view);
                }
                more::volume_ui(ui, view, is_all);
                if room != BarRoom::Tiny {
                    position_ui(ui, view);
                }
            } else if let Some(caption) = caption {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    caption_ui(ui, caption);
                });
            }
        });
    });
}

/// The caption below the bar where that has no room for it, and the way back to the running job.
pub(super) fn below_ui(ui: &mut Ui, view: &mut UiContext<'_>, caption: Option<&ViewerCaption>) {
    export_ui(ui, view);
    let caption = caption.filter(|_| playhead(view).is_some());
    let is_elsewhere = view.app.watch.mode != ViewerMode::Live;
    if is_elsewhere && view.app.queue.live().is_some() {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let text = RichText::new("Back to the live preview").color(palette(ui).accent);
                let button = ui.add(Button::new(text));
                let button = button.on_hover_text("Another job is running now");
                view.on_click(&button, PlayerCommand::ShowLive);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    if let Some(caption) = caption {
                        caption_ui(ui, caption);
                    }
                });
            });
        });
    } else if let Some(caption) = caption {
        caption_ui(ui, caption);
    }
}

fn caption_ui(ui: &mut Ui, caption: &ViewerCaption) {
    small_line(ui, &caption.line).on_hover_text(&caption.more);
}

fn play_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let (icon, name) = if playhead(view).is_some_and(|playhead| playhead.is_playing()) {
        (icons::PAUSE, "Pause")
    } else {
        (icons::PLAY, "Play")
    };
    let (back, on) = (PlayerCommand::Step(-1), PlayerCommand::Step(1));
    let first = "One frame back (Left; Home goes to the first)";
    let last = "One frame forward (Right; End goes to the last)";
    for (icon, name, explanation, command) in [
        (icon, name, "Play or pause (Space)", PlayerCommand::Toggle),
        (icons::CARET_LEFT, "Previous frame", first, back),
        (icons::CARET_RIGHT, "Next frame", last, on),
    ] {
        view.on_click(&icon_button(ui, icon, name, explanation), command);
    }
}

fn turn_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    for (icon, name, by) in [
        (icons::CARET_LEFT, "Previous image", -1),
        (icons::CARET_RIGHT, "Next image", 1),
    ] {
        let button = icon_button(ui, icon, name, "Of the same batch (Left and Right)");
        view.on_click(&button, PlayerCommand::Step(by));
    }
}

fn numbers_width(ui: &Ui, playhead: &PlaybackPosition) -> f32 {
    let num_letters = numbers_text(playhead, playhead.len(), 0.0).chars().count();
    let font = TextStyle::Monospace.resolve(ui.style());
    num_letters as f32 * ui.fonts_mut(|fonts| fonts.glyph_width(&font, '0'))
}

/// Number and time of the frame, padded to the width of the last one.
fn numbers_text(playhead: &PlaybackPosition, number: usize, secs: f64) -> String {
    let len = playhead.len().to_string();
    let (clock, longest) = (clock_text(secs), clock_text(playhead.last_secs()));
    let (of_number, of_clock) = (len.len(), longest.chars().count());
    format!("{number:>of_number$} / {len}   {clock:>of_clock$}")
}

/// Number and time of the frame, then the slider over the remaining width.
fn position_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(playhead) = playhead(view) else {
        return;
    };
    let (mut index, len) = (playhead.index(), playhead.len());
    let text = numbers_text(playhead, index + 1, playhead.secs());
    let size = vec2(numbers_width(ui, playhead), ui.spacing().interact_size.y);
    // From the left, because a text that is laid from the right loses the blanks before it.
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.label(RichText::new(text).monospace().color(palette(ui).weak));
    });
    ui.spacing_mut().slider_width = (ui.available_width() - theme::SMALL_GAP).max(0.0);
    let slider = Slider::new(&mut index, 0..=len - 1).show_value(false);
    let response = number_ui(ui, slider)
        .on_hover_text("Drag to go to a frame")
        .accessible_name("Position");
    if response.changed() {
        view.push(PlayerCommand::ShowFrame(index));
    }
    trim_ui(ui, view, response.rect);
}

/// Handles of the first and last frame that play, below the position.
fn trim_ui(ui: &Ui, view: &mut UiContext<'_>, slider: Rect) {
    let Some(playhead) = view.app.watch.trimmed() else {
        return;
    };
    let ((first, last), len) = (playhead.range(), playhead.len());
    let is_trimmed = playhead.is_trimmed();
    // Between the first and the last position of the slider.
    let knob = slider.height() / 2.5;
    let knob = match ui.visuals().handle_shape {
        HandleShape::Circle => knob,
        HandleShape::Rect { aspect_ratio } => knob * aspect_ratio,
    };
    let track = slider.x_range().shrink(knob);
    let x_of = |frame: usize| lerp(track.min..=track.max, frame as f32 / (len - 1) as f32);
    more::wave_ui(ui, view, track, slider);
    let (accent, colour) = (palette(ui).accent, alert_ink(ui, is_trimmed));
    let middle = slider.bottom() - theme::TRIM_HEIGHT / 2.0;
    if is_trimmed {
        let line = Stroke::new(2.0, colour);
        ui.painter().hline(x_of(first)..=x_of(last), middle, line);
    }
    for (name, frame, out, key) in [
        ("Trim start", first, -1.0, 'I'),
        ("Trim end", last, 1.0, 'O'),
    ] {
        // Outside of what plays, so that both can be held where they meet.
        let handle = vec2(theme::TRIM_WIDTH, theme::TRIM_HEIGHT);
        let at = pos2(x_of(frame) + out * theme::TRIM_WIDTH / 2.0, middle);
        let handle = Rect::from_center_size(at, handle);
        let (id, number) = (Id::unique(("trim", name)), frame + 1);
        let response = ui
            .interact(handle.expand(2.0), id, Sense::click_and_drag())
            .on_hover_cursor(CursorIcon::ResizeHorizontal)
            .on_hover_text(format!(
                "{name}: frame {number}. Drag it; {key} sets it to the frame that is shown. A \
                double click plays all frames again"
            ));
        response.widget_info(|| egui::WidgetInfo::slider(true, (frame + 1) as f64, name));
        let is_used = response.hovered() || response.dragged();
        let colour = if is_used { accent } else { colour };
        ui.painter().rect_filled(handle, 2, colour);
        if response.double_clicked() {
            view.push(PlayerCommand::ResetTrim);
        } else if let Some(pointer) = response.interact_pointer_pos()
            && response.dragged()
        {
            let part = remap_clamp(pointer.x, track.min..=track.max, 0.0..=1.0);
            let frame = (part * (len - 1) as f32).round() as usize;
            let is_first = out < 0.0;
            let first = is_first.then_some(frame);
            let last = (!is_first).then_some(frame);
            view.push(PlayerCommand::Trim(first, last));
        }
    }
}

/// Progress of an export, which can be cancelled.
fn export_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let exporting = &view.app.watch.exporting;
    if !exporting.is_busy() {
        return;
    }
    let (done, count) = exporting.progress.unwrap_or((0, 1));
    ui.horizontal(|ui| {
        let mut text = format!("Exporting frame {done} of {count}");
        if done >= count {
            text = "Saving the export…".to_owned();
        }
        ui.label(text);
        at_right(ui, "export", |ui| {
            let button = hint_button(ui, "Cancel", "Stop the export; nothing of it is kept");
            if button.accessible_name("Cancel export").clicked() {
                exporting.stop();
            }
        });
    });
    thin_progress(ui, done as f32 / count.max(1) as f32);
}

fn pace_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let playback = view.app.watch.playback;
    let mut speed = playback.speed;
    let list = ComboBox::from_id_salt("speed")
        .icon(list_icon)
        .selected_text(speed_text(speed))
        .width(theme::SPEED_WIDTH);
    let speeds = SPEEDS.map(|choice| (choice, speed_text(choice), ""));
    choose_from(list, ui, &mut speed, speeds)
        .on_hover_text(SPEED_MORE)
        .accessible_name(format!("Speed {}×", playback.speed));
    if speed != playback.speed {
        view.set(move |app| app.watch.playback.speed = speed);
    }
    let repeat = playback.repeat;
    let icon = match repeat {
        RepeatMode::Off | RepeatMode::Loop => icons::REPEAT,
        RepeatMode::PingPong => icons::SWAP,
    };
    let name = format!("At the end: {}", repeat.label());
    let explanation = at_the_end_hover(repeat);
    let button = icon_toggle(ui, repeat != RepeatMode::Off, icon, &name, &explanation);
    view.on_click(&button, PlayerCommand::NextRepeat);
}

pub(super) fn speed_text(speed: f64) -> String {
    format!("{speed}×")
}

pub(super) fn at_the_end_hover(repeat: RepeatMode) -> String {
    let (now, next) = (repeat.label(), repeat.next().label());
    format!("At the end: {now}. Press for “{next}” (L)")
}

pub(super) fn zoom_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let own_size = ZoomLevel::own_size(ui.ctx().pixels_per_point());
    let explanation =
        "One pixel of the image for each of the screen (1). The wheel zooms, dragging moves";
    for (choice, name, explanation) in [
        (own_size, "100 %", explanation),
        (ZoomLevel::Fit, "Fit", "Show the whole image (0)"),
    ] {
        let colour = alert_ink(ui, view.app.watch.zoom == choice);
        let text = RichText::new(name).small().color(colour);
        let button = Button::new(text).frame_when_inactive(false);
        let response = ui.add(button).on_hover_text(explanation);
        view.on_click(&response.accessible_name(name), PlayerCommand::Zoom(choice));
    }
}

/// Gives the place of the image.
pub(super) fn full_ui(ui: &mut Ui, view: &mut UiContext<'_>) -> Rect {
    let area = ui.available_rect_before_wrap();
    if view.app.watch.mode == ViewerMode::Compare {
        stage::images_ui(ui, view, area);
    } else {
        image_ui(ui, view, area);
    }
    let is_shown = is_bar_shown(ui, view);
    let id = Id::unique("bar-over-the-image");
    let strength = ui
        .ctx()
        .animate_bool_with_time(id.with("fade"), is_shown, FADE_SECS);
    if strength <= 0.0 {
        view.panels.watch.full_bar.place = None;
        ui.ctx().set_cursor_icon(CursorIcon::None);
        return area;
    }
    let palette = palette(ui);
    let width = theme::FULL_BAR_WIDTH.min(area.width() - 2.0 * theme::STAGE_MARGIN);
    let shown = Area::new(id)
        .order(Order::Middle)
        .pivot(Align2::CENTER_BOTTOM)
        .fixed_pos(area.center_bottom() - vec2(0.0, theme::STAGE_MARGIN))
        .show(ui.ctx(), |ui| {
            ui.set_opacity(strength);
            let frame = Frame::new()
                .fill(palette.panel.gamma_multiply(0.92))
                .stroke(Stroke::new(1.0, palette.line))
                .corner_radius(theme::CARD_RADIUS)
                .inner_margin(Margin::symmetric(12, 8));
            let margin = frame.total_margin().sum().x;
            frame.show(ui, |ui| {
                ui.set_width(width - margin);
                bar_ui(ui, view, caption(view).as_ref());
                if view.app.watch.mode == ViewerMode::Compare {
                    stage::controls_ui(ui, view);
                }
            });
        });
    view.panels.watch.full_bar.place = Some(shown.response.rect);
    area
}

/// Returns true after recent input, or while the pointer is over the bar. Requests a repaint when that ends.
fn is_bar_shown(ui: &Ui, view: &mut UiContext<'_>) -> bool {
    let bar = &mut view.panels.watch.full_bar;
    let (now, is_active, pointer) = ui.input(|input| {
        let is_active = input.events.iter().any(|event| {
            matches!(
                event,
                Event::PointerMoved(_)
                    | Event::MouseMoved(_)
                    | Event::PointerButton { .. }
                    | Event::Touch { .. }
                    | Event::Key { pressed: true, .. }
            )
        });
        (input.time, is_active, input.pointer.latest_pos())
    });
    let rests = bar
        .place
        .zip(pointer)
        .is_some_and(|(it, at)| it.contains(at));
    let has_keyboard = ui.memory(|memory| memory.focused().is_some());
    let is_held = rests || has_keyboard || Popup::is_any_open(ui.ctx());
    let fades_at = match bar.fades_at {
        Some(fades_at) if !is_active && !is_held => fades_at,
        _ => now + STAYS_SECS,
    };
    bar.fades_at = Some(fades_at);
    let left = fades_at - now;
    if left > 0.0 && !is_held {
        ui.ctx().request_repaint_after_secs(left as f32);
    }
    left > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_s_numbers_are_equally_long_for_every_frame() {
        let playhead = PlaybackPosition::new(1000, 10.0);
        assert_eq!(numbers_text(&playhead, 9, 0.8), "   9 / 1000    0.8 s");
        for (number, secs) in [(1, 0.0), (10, 10.9), (601, 60.0), (1000, 99.9)] {
            assert_eq!(numbers_text(&playhead, number, secs).len(), 20);
        }
    }

    #[test]
    fn speeds_read_like_factors() {
        assert_eq!(speed_text(0.25), "0.25×");
        assert_eq!(speed_text(2.0), "2×");
    }
}
