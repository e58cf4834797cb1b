//! The player's bar: play, step, scrub, what comes behind the end, speed, size, and what is done with the frame.
//!
//! The same for results, files, comparisons and a clip that grows.

use egui::{Align, Button, ComboBox, Label, Layout, RichText, Slider, TextStyle, Ui, vec2};

use safelight_core::units::clock_text;

use crate::app::commands::{AppCommand, PlayerCommand};
use crate::app::inputs::Slot;
use crate::app::player::zoom::Zoom;
use crate::app::player::{Playback, Playhead, Repeat, SPEEDS, Viewing};
use crate::ui::watch::playhead;
use crate::ui::widgets::{icon_button, icon_toggle, palette, with_icon};
use crate::ui::{View, icons, theme};

/// What is told of what is shown: a line, and more on hover.
pub(super) struct Told {
    pub line: String,
    pub more: String,
}

/// The bar; where there is nothing to play, the line that is told stands in its room.
pub(super) fn bar_ui(ui: &mut Ui, view: &mut View<'_>, told: Option<&Told>) {
    let can_play = playhead(view).is_some();
    let has_room = slider_room(ui, view) >= theme::POSITION_MIN_WIDTH;
    if can_play && !has_room {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                position_ui(ui, view);
            });
        });
    }
    ui.horizontal(|ui| {
        if can_play {
            play_ui(ui, view);
        } else if view.app.watch.viewing == Viewing::File && num_pictures(view) > 1 {
            turn_ui(ui, view);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            size_ui(ui, view);
            if can_play {
                pace_ui(ui, view);
                if has_room {
                    position_ui(ui, view);
                }
            } else if let Some(told) = told {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    told_ui(ui, told);
                });
            }
        });
    });
    if playhead(view).is_some() && view.app.watch.viewing != Viewing::Compare {
        frame_ui(ui, view);
    }
}

/// The line below the buttons, where the bar has no room for it.
pub(super) fn told_below_ui(ui: &mut Ui, view: &View<'_>, told: Option<&Told>) {
    if playhead(view).is_some()
        && let Some(told) = told
    {
        told_ui(ui, told);
    }
}

fn told_ui(ui: &mut Ui, told: &Told) {
    let text = RichText::new(&told.line).small().color(palette(ui).weak);
    ui.add(Label::new(text).truncate())
        .on_hover_text(&told.more);
}

fn play_ui(ui: &mut Ui, view: &mut View<'_>) {
    let is_playing = playhead(view).is_some_and(|playhead| playhead.is_playing());
    let (icon, name) = if is_playing {
        (icons::PAUSE, "Pause")
    } else {
        (icons::PLAY, "Play")
    };
    let buttons = [
        (
            icon,
            name,
            "Play or pause (space)",
            AppCommand::Player(PlayerCommand::Toggle),
        ),
        (
            icons::CARET_LEFT,
            "Previous frame",
            "One frame back (left arrow; Home goes to the first)",
            AppCommand::Player(PlayerCommand::Step(-1)),
        ),
        (
            icons::CARET_RIGHT,
            "Next frame",
            "One frame on (right arrow; End goes to the last)",
            AppCommand::Player(PlayerCommand::Step(1)),
        ),
    ];
    for (icon, name, explanation, command) in buttons {
        if icon_button(ui, icon, name, explanation).clicked() {
            view.push(command);
        }
    }
}

fn num_pictures(view: &View<'_>) -> usize {
    let player = view.app.watch.player.as_ref();
    player.map_or(0, |player| player.len())
}

/// Through the pictures of a batch from disk.
fn turn_ui(ui: &mut Ui, view: &mut View<'_>) {
    let buttons = [
        (icons::CARET_LEFT, "Previous picture", -1),
        (icons::CARET_RIGHT, "Next picture", 1),
    ];
    for (icon, name, by) in buttons {
        if icon_button(ui, icon, name, "Of the same batch (arrow keys)").clicked() {
            view.push(PlayerCommand::Step(by));
        }
    }
}

/// What a row with all buttons leaves the slider.
fn slider_room(ui: &Ui, view: &View<'_>) -> f32 {
    let numbers = playhead(view).map_or(0.0, |playhead| numbers_width(ui, playhead));
    ui.available_width() - theme::BAR_BUTTONS_WIDTH - numbers
}

fn numbers_width(ui: &Ui, playhead: &Playhead) -> f32 {
    let num_letters = numbers_text(playhead, playhead.len(), 0.0).chars().count();
    let font = TextStyle::Monospace.resolve(ui.style());
    num_letters as f32 * ui.fonts_mut(|fonts| fonts.glyph_width(&font, '0'))
}

/// The frame's number and its time, as long for each frame as for the last one.
fn numbers_text(playhead: &Playhead, number: usize, secs: f64) -> String {
    let len = playhead.len().to_string();
    let (clock, longest) = (clock_text(secs), clock_text(playhead.last_secs()));
    let (of_number, of_clock) = (len.len(), longest.chars().count());
    format!("{number:>of_number$} / {len}   {clock:>of_clock$}")
}

/// The slider, in what room is left, with the frame's number and time before it in reading order.
fn position_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(playhead) = playhead(view) else {
        return;
    };
    let (mut index, len) = (playhead.index(), playhead.len());
    let text = numbers_text(playhead, index + 1, playhead.secs());
    let weak = palette(ui).weak;
    let size = vec2(numbers_width(ui, playhead), ui.spacing().interact_size.y);
    // From the left, because a text that is laid from the right loses the blanks before it.
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.label(RichText::new(text).monospace().color(weak));
    });
    ui.spacing_mut().slider_width = (ui.available_width() - theme::SMALL_GAP).max(0.0);
    let slider = Slider::new(&mut index, 0..=len - 1).show_value(false);
    let response = ui
        .add(slider)
        .on_hover_text("Drag to look at a frame")
        .accessible_name("Position");
    if response.changed() {
        view.push(PlayerCommand::ShowFrame(index));
    }
}

fn pace_ui(ui: &mut Ui, view: &mut View<'_>) {
    let playback = view.app.watch.playback;
    let mut speed = playback.speed;
    ComboBox::from_id_salt("speed")
        .selected_text(speed_text(speed))
        .width(theme::SPEED_WIDTH)
        .show_ui(ui, |ui| {
            for choice in SPEEDS {
                ui.selectable_value(&mut speed, choice, speed_text(choice));
            }
        })
        .response
        .on_hover_text("How fast clips play")
        .accessible_name(format!("Speed {}", speed_text(playback.speed)));
    if speed != playback.speed {
        let playback = Playback { speed, ..playback };
        view.push(PlayerCommand::SetPlayback(playback));
    }
    let repeat = playback.repeat;
    let icon = match repeat {
        Repeat::Off | Repeat::Loop => icons::REPEAT,
        Repeat::PingPong => icons::SWAP,
    };
    let name = format!("At the end: {}", repeat.label());
    let explanation = format!("{name}. Press for “{}” (L)", repeat.next().label());
    if icon_toggle(ui, repeat != Repeat::Off, icon, &name, &explanation).clicked() {
        view.push(PlayerCommand::NextRepeat);
    }
}

fn size_ui(ui: &mut Ui, view: &mut View<'_>) {
    let is_full = view.app.watch.is_full;
    let (icon, name, explanation) = if is_full {
        (
            icons::CORNERS_IN,
            "Leave the full view",
            "Show the rest of the window again (F or Escape)",
        )
    } else {
        (
            icons::CORNERS_OUT,
            "Full view",
            "Give the picture the whole window (F)",
        )
    };
    if icon_button(ui, icon, name, explanation).clicked() {
        view.push(PlayerCommand::ToggleFull);
    }
    let palette = palette(ui);
    let own_size = Zoom::own_size(ui.ctx().pixels_per_point());
    let choices = [
        (
            own_size,
            "100 %",
            "One pixel of the picture for each of the screen (1). The wheel zooms, dragging moves",
        ),
        (Zoom::Fit, "Fit", "All of the picture (0)"),
    ];
    for (choice, name, explanation) in choices {
        let colour = if view.app.watch.zoom == choice {
            palette.amber
        } else {
            palette.weak
        };
        let text = RichText::new(name).small().color(colour);
        let button = Button::new(text).frame_when_inactive(false);
        let response = ui.add(button).on_hover_text(explanation);
        if response.accessible_name(name).clicked() {
            view.push(PlayerCommand::Zoom(choice));
        }
    }
}

/// What is done with the frame that is shown.
fn frame_ui(ui: &mut Ui, view: &mut View<'_>) {
    let spec = view.model();
    let can_start = spec.is_some_and(|spec| spec.start_image.is_possible());
    let can_end = spec.is_some_and(|spec| spec.end_image.is_possible());
    let buttons = [
        (
            icons::CAMERA,
            "Save this frame",
            "Write it as a PNG picture beside the clip, with the clip's settings inside (S)",
            true,
            PlayerCommand::SaveFrame,
        ),
        (
            icons::COPY,
            "Copy this frame",
            "Put the picture on the clipboard (C)",
            true,
            PlayerCommand::CopyFrame,
        ),
        (
            icons::ARROW_RIGHT,
            "Continue from this frame",
            "It becomes the start picture of what is made next",
            can_start,
            PlayerCommand::UseFrame(Slot::Start),
        ),
        (
            icons::FLAG,
            "Use as end picture",
            "What is made next ends on it",
            can_end,
            PlayerCommand::UseFrame(Slot::End),
        ),
    ];
    ui.horizontal_wrapped(|ui| {
        // A quiet row, as low as its words.
        ui.spacing_mut().interact_size.y = 0.0;
        ui.spacing_mut().button_padding.y = 1.0;
        for (icon, name, explanation, is_possible, command) in buttons {
            let text = RichText::new(with_icon(icon, name)).small();
            let response = ui
                .add_enabled(is_possible, Button::new(text).frame_when_inactive(false))
                .on_hover_text(explanation)
                .on_disabled_hover_text("The chosen model takes no such picture")
                .accessible_name(name);
            if response.clicked() {
                view.push(command);
            }
        }
    });
}

fn speed_text(speed: f64) -> String {
    format!("{speed}×")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_s_numbers_are_equally_long_for_every_frame() {
        let playhead = Playhead::new(1000, 10.0);
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
