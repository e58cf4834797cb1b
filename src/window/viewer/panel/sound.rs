//! Sound in the player's bar: mute, volume, and the waveform below the position.

use egui::Rangef;

use crate::window::layout::prelude::*;

const MUTE_MORE: &str = "Play without sound (M)";
const UNMUTE_MORE: &str = "Play with sound (M)";

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
        (icons::SPEAKER_OFF, "Unmute", UNMUTE_MORE)
    } else {
        (icons::SPEAKER, "Mute", MUTE_MORE)
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
