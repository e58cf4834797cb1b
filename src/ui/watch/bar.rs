//! The player's bar, one row: play, step, scrub, what comes behind the end, speed, size, and the menu with all the rest.
//!
//! The same for results, files, comparisons and a clip that grows.

use egui::{Align, Button, ComboBox, Label, Layout, RichText, Slider, TextStyle, Ui, vec2};

use safelight_core::units::clock_text;

use crate::app::commands::PlayerCommand;
use crate::app::player::zoom::Zoom;
use crate::app::player::{Playback, Playhead, Repeat, SPEEDS, Viewing};
use crate::ui::watch::caption::Told;
use crate::ui::watch::more::MoreButton;
use crate::ui::watch::{compare, more, playhead};
use crate::ui::widgets::{icon_button, icon_toggle, list_icon, palette};
use crate::ui::{View, icons, theme};

pub(super) const SPEED_MORE: &str = "Playback speed";

/// How much of the bar its row has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    All,
    /// The menu's button is its icon alone.
    Snug,
    /// Speed, repeat and size stand in the menu.
    Narrow,
    /// The slider has a row of its own, too.
    Tiny,
}

impl Room {
    fn of(ui: &Ui, view: &View<'_>) -> Self {
        let Some(playhead) = playhead(view) else {
            return Self::All;
        };
        let numbers = numbers_width(ui, playhead);
        let room = ui.available_width() - numbers - theme::POSITION_MIN_WIDTH;
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

/// The bar; where there is nothing to play, the line that is told stands in its room.
pub(super) fn bar_ui(ui: &mut Ui, view: &mut View<'_>, told: Option<&Told>) {
    let can_play = playhead(view).is_some();
    let room = Room::of(ui, view);
    if room == Room::Tiny {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                position_ui(ui, view);
            });
        });
    }
    let is_all = matches!(room, Room::All | Room::Snug) || !more::is_possible(view);
    ui.horizontal(|ui| {
        if can_play {
            play_ui(ui, view);
        } else if view.app.watch.viewing == Viewing::File && num_pictures(view) > 1 {
            turn_ui(ui, view);
        } else if view.app.watch.viewing == Viewing::Compare {
            compare::modes_ui(ui, view);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = match room {
                Room::All => MoreButton::Named,
                Room::Snug => MoreButton::Small,
                Room::Narrow | Room::Tiny => MoreButton::WithPace,
            };
            more::button_ui(ui, view, button);
            more::full_button(ui, view);
            if is_all {
                zoom_ui(ui, view);
            }
            if can_play {
                if is_all {
                    pace_ui(ui, view);
                }
                if room != Room::Tiny {
                    position_ui(ui, view);
                }
            } else if let Some(told) = told {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    told_ui(ui, told);
                });
            }
        });
    });
}

/// The line below the bar, where that has no room for it, and the way back to the running job.
pub(super) fn below_ui(ui: &mut Ui, view: &mut View<'_>, told: Option<&Told>) {
    let told = told.filter(|_| playhead(view).is_some());
    let is_elsewhere = view.app.watch.viewing != Viewing::Live;
    if is_elsewhere && view.app.queue.running.is_some() {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                more::live_button(ui, view);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    if let Some(told) = told {
                        told_ui(ui, told);
                    }
                });
            });
        });
    } else if let Some(told) = told {
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
        (icon, name, "Play or pause (Space)", PlayerCommand::Toggle),
        (
            icons::CARET_LEFT,
            "Previous frame",
            "One frame back (Left; Home goes to the first)",
            PlayerCommand::Step(-1),
        ),
        (
            icons::CARET_RIGHT,
            "Next frame",
            "One frame forward (Right; End goes to the last)",
            PlayerCommand::Step(1),
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
        if icon_button(ui, icon, name, "Of the same batch (Left and Right)").clicked() {
            view.push(PlayerCommand::Step(by));
        }
    }
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
        .on_hover_text("Drag to go to a frame")
        .accessible_name("Position");
    if response.changed() {
        view.push(PlayerCommand::ShowFrame(index));
    }
}

fn pace_ui(ui: &mut Ui, view: &mut View<'_>) {
    let playback = view.app.watch.playback;
    let mut speed = playback.speed;
    ComboBox::from_id_salt("speed")
        .icon(list_icon)
        .selected_text(speed_text(speed))
        .width(theme::SPEED_WIDTH)
        .show_ui(ui, |ui| {
            for choice in SPEEDS {
                ui.selectable_value(&mut speed, choice, speed_text(choice));
            }
        })
        .response
        .on_hover_text(SPEED_MORE)
        .accessible_name(format!("Speed {}×", playback.speed));
    if speed != playback.speed {
        let playback = Playback { speed, ..playback };
        view.push(PlayerCommand::SetPlayback(playback));
    }
    let repeat = playback.repeat;
    let icon = match repeat {
        Repeat::Off | Repeat::Loop => icons::REPEAT,
        Repeat::PingPong => icons::SWAP,
    };
    let (name, explanation) = (
        format!("At the end: {}", repeat.label()),
        at_the_end_hover(repeat),
    );
    if icon_toggle(ui, repeat != Repeat::Off, icon, &name, &explanation).clicked() {
        view.push(PlayerCommand::NextRepeat);
    }
}

pub(super) fn speed_text(speed: f64) -> String {
    format!("{speed}×")
}

pub(super) fn at_the_end_hover(repeat: Repeat) -> String {
    let (now, next) = (repeat.label(), repeat.next().label());
    format!("At the end: {now}. Press for “{next}” (L)")
}

/// How large the picture is.
pub(super) fn zoom_ui(ui: &mut Ui, view: &mut View<'_>) {
    let palette = palette(ui);
    let own_size = Zoom::own_size(ui.ctx().pixels_per_point());
    let choices = [
        (
            own_size,
            "100 %",
            "One pixel of the picture for each of the screen (1). The wheel zooms, dragging moves",
        ),
        (Zoom::Fit, "Fit", "Show the whole picture (0)"),
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
