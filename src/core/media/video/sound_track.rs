//! The boxes of an MP4's track of sound, whose packets are another file's.

use super::mp4::{MATRIX, TrackMedia, be16, be32, boxed, full_box, media, runs_of};
use crate::media::sound::SoundTrack;

/// The second track of a movie.
const TRACK: u32 = 2;

/// Track whose packets are contiguous from `position` on in the file. `movie_timescale`: units per second of the
/// movie's clock.
pub(super) fn track(sound: &SoundTrack, position: u32, movie_timescale: u32) -> Vec<u8> {
    let (delay, heard) = times(sound, movie_timescale);
    // Enabled and used in the presentation; of the second group, and as loud as it is.
    let header = full_box(
        *b"tkhd",
        3,
        &[
            &[0; 8],
            &be32(TRACK),
            &[0; 4],
            &be32(delay.saturating_add(heard)),
            &[0; 8],
            &be16(0),
            &be16(1),
            &be16(0x100),
            &[0; 2],
            &MATRIX,
            &[0; 8],
        ],
    );
    let lasts = u32::try_from(sound.num_units()).unwrap_or(u32::MAX);
    let sizes: Vec<u32> = sound.packets.iter().map(|it| it.size).collect();
    let media = media(&TrackMedia {
        handler: *b"soun",
        name: b"Sound\0",
        header: &full_box(*b"smhd", 0, &[&[0; 4]]),
        timescale: sound.timescale,
        lasts,
        description: &sound.description,
        durations: &runs_of(sound.packets.iter().map(|it| it.lasts)),
        keyframes: None,
        sizes: &sizes,
        position,
    });
    let edits = edits(sound, delay, heard);
    boxed(*b"trak", &[&header, &edits, &media])
}

/// Duration of the whole track, in the movie's units.
pub(super) fn lasts(sound: &SoundTrack, movie_timescale: u32) -> u32 {
    let (delay, heard) = times(sound, movie_timescale);
    delay.saturating_add(heard)
}

/// Durations of the initial silence and of the sound, in the movie's units.
fn times(sound: &SoundTrack, movie_timescale: u32) -> (u32, u32) {
    let delay = (sound.delay_secs * f64::from(movie_timescale)).round() as u32;
    let rest = sound.num_units().saturating_sub(sound.skipped);
    let heard = sound.heard.map_or(rest, |heard| heard.min(rest));
    let units = u128::from(heard) * u128::from(movie_timescale) / u128::from(sound.timescale);
    (delay, u32::try_from(units).unwrap_or(u32::MAX))
}

/// The edit list, where the sound is not heard as a whole from the beginning on.
fn edits(sound: &SoundTrack, delay: u32, heard: u32) -> Vec<u8> {
    let is_all = delay == 0 && sound.skipped == 0 && sound.heard.is_none();
    if is_all {
        return Vec::new();
    }
    let skipped = u32::try_from(sound.skipped).unwrap_or(u32::MAX);
    let normal_speed = be32(0x1_0000);
    let silent = [&be32(delay)[..], &be32(u32::MAX), &normal_speed].concat();
    let silent = if delay > 0 { silent } else { Vec::new() };
    let count = be32(1 + u32::from(delay > 0));
    let list = full_box(
        *b"elst",
        0,
        &[&count, &silent, &be32(heard), &be32(skipped), &normal_speed],
    );
    boxed(*b"edts", &[&list])
}
