//! The menu of the viewer: actions on the result, the frame and the file; and sound in the bar.

use egui::Rangef;
use safelight_core::media::{EXPORT_FORMATS, VideoFormat};

use crate::window::layout::prelude::*;
use crate::window::results::panel::{
    self, ResultAction, ResultSubject, file_actions, main_actions, network_actions,
};
use crate::window::viewer::panel::bar::{self, BarRoom, SPEED_MORE, at_the_end_hover, speed_text};
use crate::window::viewer::panel::playhead;
use crate::window::viewer::{SPEEDS, ViewerMode};

/// Most results that are offered for a comparison.
const MAX_OFFERED: usize = 30;
const PROMPT_CHARS: usize = 40;
const MORE: &str = "More";
const COMPARE_WITH: &str = "Compare with";

pub(super) fn is_possible(view: &UiContext<'_>) -> bool {
    match view.app.watch.mode {
        ViewerMode::Live => playhead(view).is_some(),
        ViewerMode::Result(_) | ViewerMode::File => true,
        ViewerMode::Compare => false,
    }
}

pub(super) fn button_ui(ui: &mut Ui, view: &mut UiContext<'_>, room: BarRoom) {
    if !is_possible(view) {
        return;
    }
    let label = match room {
        BarRoom::All => RichText::new(with_icon(icons::DOTS, MORE)),
        _ => RichText::new(icons::DOTS).size(theme::ICON),
    };
    let has_pace = matches!(room, BarRoom::Narrow | BarRoom::Tiny);
    let menu = ui.menu_button(label, |ui| menu_ui(ui, view, has_pace));
    menu.response
        .on_hover_text("More actions for this result")
        .accessible_name(MORE);
}

pub(super) fn menu_ui(ui: &mut Ui, view: &mut UiContext<'_>, has_pace: bool) {
    panel::menu_ui(ui, |ui| {
        if has_pace && playhead(view).is_some() {
            pace_ui(ui, view);
            ui.separator();
        }
        let Some(subject) = ResultSubject::from_view(view) else {
            return panel::entries_ui(ui, view, vec![frame_actions(view)]);
        };
        compare_ui(ui, view);
        let groups = vec![
            main_actions(view, &subject),
            network_actions(view, subject.is_video),
            frame_actions(view),
            file_actions(&subject),
        ];
        panel::entries_ui(ui, view, groups);
    });
}

fn frame_actions(view: &UiContext<'_>) -> Vec<ResultAction> {
    if playhead(view).is_none() {
        return Vec::new();
    }
    let spec = view.model();
    let can_start = spec.is_some_and(|spec| spec.start_image.is_possible());
    let can_end = spec.is_some_and(|spec| spec.end_image.is_possible());
    let unless = |is_possible: bool| {
        (!is_possible).then_some("The selected model does not support this input")
    };
    let playhead = view.app.watch.trimmed();
    let use_frame = |icon, name, slot| ResultAction::new(icon, name, PlayerCommand::UseFrame(slot));
    let mut actions = vec![
        export_action(playhead.is_some()),
        use_frame(
            icons::ARROW_RIGHT,
            "Use frame as start image",
            InputSlot::Start,
        )
        .explained("The next result starts from this frame")
        .unless(unless(can_start)),
        use_frame(icons::FLAG, "Use frame as end image", InputSlot::End)
            .explained("The next video ends on this frame")
            .unless(unless(can_end)),
    ];
    if let Some(playhead) = playhead {
        let (start, end) = (InputSlot::Start, InputSlot::End);
        let ends = [
            ("First frame as start image", start, false, can_start),
            ("Last frame as start image", start, true, can_start),
            ("First frame as end image", end, false, can_end),
            ("Last frame as end image", end, true, can_end),
        ];
        let ends = ends.map(|(name, slot, is_last, can)| {
            ResultAction::new(icons::IMAGE, name, PlayerCommand::UseEnd(slot, is_last))
                .explained("Of the frames that play")
                .unless(unless(can))
        });
        let explanation = "Use the first or the last frame as start or end image";
        let ends = ResultAction::of_several(icons::IMAGE, "First or last frame", ends.into());
        actions.push(ends.explained(explanation));
        if playhead.is_trimmed() {
            let reset = ResultAction::new(icons::RESET, "Reset trim", PlayerCommand::ResetTrim);
            actions.push(reset.explained("Play all frames again"));
        }
    }
    if spec.is_some_and(|spec| spec.limits.max_references > 0) {
        let frame = use_frame(
            icons::IMAGES,
            "Use frame as reference",
            InputSlot::Reference,
        );
        actions.push(frame.explained("The model sees this frame beside the next prompt"));
    }
    actions
}

/// Writing of this frame, or of the frames that play.
fn export_action(can_trim: bool) -> ResultAction {
    let mut choices = vec![
        ResultAction::new(icons::CAMERA, "Save this frame", PlayerCommand::SaveFrame)
            .explained("Write it as a PNG beside the video, with the video's settings inside (S)"),
        ResultAction::new(icons::COPY, "Copy this frame", PlayerCommand::CopyFrame)
            .explained("Put the image on the clipboard (C)"),
    ];
    let formats = EXPORT_FORMATS.iter().filter(|_| can_trim);
    choices.extend(formats.map(|&(format, _)| {
        let hover = "Write the frames that play beside the result";
        let (name, hover) = match format {
            VideoFormat::Png => ("PNG images", "A folder beside the result, a file a frame"),
            VideoFormat::WebP => ("Animated WebP", hover),
            _ => (format.name(), hover),
        };
        let command = PlayerCommand::Export(Some(format));
        ResultAction::new(icons::FILM, name, command).explained(hover)
    }));
    if can_trim {
        let command = PlayerCommand::Export(None);
        let place = ResultAction::new(icons::FOLDER_OPEN, "Choose place…", command);
        choices.push(place.explained("Choose folder, name and format for the frames that play"));
    }
    ResultAction::of_several(icons::SAVE, "Export", choices)
        .explained("Write this frame, or the frames that play, to another file")
}

/// Speed, repeat, zoom and volume, where the bar has no room for them.
fn pace_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal(|ui| {
        bar::zoom_ui(ui, view);
        volume_ui(ui, view, true);
    });
    ui.horizontal(|ui| {
        for speed in SPEEDS {
            let name = speed_text(speed);
            let button = Button::selectable(speed == view.app.watch.playback.speed, &name);
            if ui.add(button).on_hover_text(SPEED_MORE).clicked() {
                view.set(move |app| app.watch.playback.speed = speed);
            }
        }
    });
    let repeat = view.app.watch.playback.repeat;
    let name = format!("At the end: {}", repeat.label());
    let button = ui.add(Button::new(with_icon(icons::REPEAT, &name)));
    let button = button.on_hover_text(at_the_end_hover(repeat));
    view.on_click(&button.accessible_name(&name), PlayerCommand::NextRepeat);
}

/// Submenu of the other results of this session to compare with what is shown.
fn compare_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let shown = match view.app.watch.mode {
        ViewerMode::Result(id) => Some(id),
        _ => None,
    };
    let results = view.app.queue.results.iter().enumerate().rev();
    let others: Vec<(JobId, String)> = results
        .filter(|(_, item)| Some(item.id) != shown)
        .take(MAX_OFFERED)
        .map(|(index, item)| {
            let title: String = item.request.title().chars().take(PROMPT_CHARS).collect();
            let seed = item
                .seed()
                .map_or(String::new(), |seed| format!(", seed {seed}"));
            (item.id, format!("{}: {title}{seed}", index + 1))
        })
        .collect();
    let label = with_icon(icons::COLUMNS, COMPARE_WITH);
    if others.is_empty() {
        ui.add_enabled(false, Button::new(label))
            .on_disabled_hover_text("There is no other result yet")
            .accessible_name(COMPARE_WITH);
        return;
    }
    let menu = ui.menu_button(label, |ui| {
        for (id, text) in &others {
            if ui.button(text).clicked() {
                view.push(PlayerCommand::CompareWith(*id));
                ui.close();
            }
        }
    });
    menu.response.accessible_name(COMPARE_WITH);
}

pub(super) fn full_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let button = if view.app.watch.is_full {
        let explanation = "Show the whole window again (F, F11 or Escape)";
        icon_button(ui, icons::CORNERS_IN, "Leave full screen", explanation)
    } else {
        let explanation = "Show only the image (F or F11)";
        icon_button(ui, icons::CORNERS_OUT, "Full screen", explanation)
    };
    view.on_click(&button, PlayerCommand::ToggleFull);
}

/// Mute button, and the volume where there is room.
pub(super) fn volume_ui(ui: &mut Ui, view: &mut UiContext<'_>, has_room: bool) {
    let sound = &view.app.watch.sound;
    if sound.peaks().is_none() {
        return;
    }
    let is_muted = sound.volume.is_muted;
    let mut volume = sound.volume.volume;
    if has_room {
        ui.spacing_mut().slider_width = theme::VOLUME_WIDTH;
        let slider = Slider::new(&mut volume, 0.0..=1.0).show_value(false);
        let response = ui
            .add_enabled(!is_muted, slider)
            .on_hover_text(format!("Volume: {:.0} %", volume * 100.0))
            .accessible_name("Volume");
        if response.changed() {
            view.set(move |app| app.watch.sound.volume.volume = volume);
        }
    }
    let (icon, name, explanation) = if is_muted {
        (icons::SPEAKER_OFF, "Unmute", "Play with sound (M)")
    } else {
        (icons::SPEAKER, "Mute", "Play without sound (M)")
    };
    let button = icon_button(ui, icon, name, explanation);
    view.on_click(&button, PlayerCommand::ToggleMute);
}

/// Waveform in the band of the trim handles, as long as the track of the position.
pub(super) fn wave_ui(ui: &Ui, view: &UiContext<'_>, track: Rangef, slider: Rect) {
    let Some(peaks) = view.app.watch.sound.peaks() else {
        return;
    };
    let colour = palette(ui).weak.gamma_multiply(0.5);
    let middle = slider.bottom() - theme::TRIM_HEIGHT / 2.0;
    let stroke = Stroke::new(1.0, colour);
    let count = (track.span() as usize).clamp(1, peaks.len());
    for column in 0..count {
        let part = column * peaks.len() / count..(column + 1) * peaks.len() / count;
        let peak = peaks[part].iter().copied().fold(0.0, f32::max);
        let x = track.min + track.span() * (column as f32 + 0.5) / count as f32;
        // Quiet sound is seen too.
        let half = theme::TRIM_HEIGHT / 2.0 * peak.sqrt();
        ui.painter().vline(x, middle - half..=middle + half, stroke);
    }
}
