//! Options of a written video.

use std::path::Path;

use crate::enum_macros::with_defaults;
use crate::media::error::{MAX_FPS, MAX_SETTINGS_BYTES, MIN_FPS};
use crate::media::metadata::is_json_object;
use crate::media::{FrameStarts, MediaError, MediaErrorKind};
use crate::units::size_text;

with_defaults! {
    #[derive(Clone, Debug, PartialEq)]
    pub struct VideoOptions {
        /// Frames a second.
        pub fps: f64 = 24.0,
        /// Starts of the frames where they are uneven. Numbered files do not keep them.
        pub starts: Option<FrameStarts> = None,
        /// Times that a GIF or WebP plays; 0 for endless.
        pub num_plays: u16 = 0,
        /// Quality of the lossy formats on the scale of x264's constant rate factor: 0 is best, 51 worst,
        /// 16 looks like the original.
        pub crf: u8 = 16,
        /// Settings of the job, as a JSON object that goes into the file.
        pub settings: Option<String> = None,
        /// A file that has the name already stays, and this one takes the next free name ([`names_like`](crate::naming::names_like)).
        pub keeps_others: bool = false,
    }
}

impl VideoOptions {
    pub(super) fn check(&self, path: &Path) -> Result<(), MediaError> {
        if !(MIN_FPS..=MAX_FPS).contains(&self.fps) {
            let sentence = format!(
                "the frame rate must be between {MIN_FPS} and {MAX_FPS}, not {}",
                self.fps
            );
            let kind = MediaErrorKind::FrameRate;
            return Err(MediaError { kind, sentence });
        }
        let wrong = |found: &str| Err(MediaError::settings(found, path));
        match &self.settings {
            Some(settings) if settings.len() as u64 > MAX_SETTINGS_BYTES => {
                wrong(&size_text(settings.len() as u64))
            }
            Some(settings) if !is_json_object(settings) => wrong("something else"),
            _ => Ok(()),
        }
    }
}
