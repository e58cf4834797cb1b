//! A clip that is read from any of its frames on, for players: nothing before a seek's entrance is decoded, and nothing
//! is kept.
//!
//! How much is held in memory is its caller's.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{ClipInfo, NumberedSink, Source};
use crate::media::{FrameStarts, MediaError, Picture};

/// Takes one decoded frame and its number; breaks off when it wants no more.
pub type TakeFrame<'a> = dyn FnMut(u32, Picture) -> ControlFlow<()> + 'a;

pub struct ClipReader {
    source: Source,
    path: PathBuf,
}

impl ClipReader {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the clip at `path`, whatever its extension says; decodes at most its first frame.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        Ok(Self {
            source: Source::open(path)?,
            path: path.to_path_buf(),
        })
    }

    /// Sentences on what the file declares and its frames do not keep, such as HDR or transparency.
    pub fn notices(&self) -> Vec<String> {
        self.source.notices()
    }

    pub fn info(&self) -> ClipInfo {
        self.source.info()
    }

    /// Starts of the frames; `None` where they have an even rate.
    pub fn starts(&self) -> Option<&FrameStarts> {
        self.source.starts()
    }

    /// Gives the frames from number `first` on, in order, until there are no more or `take` breaks off. Formats without
    /// an entrance near it decode what comes before and do not give it.
    pub fn read(&mut self, first: u32, take: &mut TakeFrame<'_>) -> Result<(), MediaError> {
        self.read_by(take, |source, sink| source.read_from(first, sink))
    }

    /// Gives all frames like [`read`](Self::read), for a model of `fps` frames per second: if their times are uneven, the
    /// frames that are shown in the middle of each of the model's frames.
    pub fn read_even(&mut self, fps: f64, take: &mut TakeFrame<'_>) -> Result<(), MediaError> {
        self.read_by(take, |source, sink| source.read_even(fps, sink))
    }

    fn read_by(
        &mut self,
        take: &mut TakeFrame<'_>,
        read: impl FnOnce(&mut Source, &mut NumberedSink<'_>) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let mut has_broken_off = false;
        let path = self.path.clone();
        let read = read(&mut self.source, &mut |number, picture| {
            if take(number, picture).is_break() {
                has_broken_off = true;
                // Ends the reading, and is told to nobody.
                return Err(MediaError::no_frames(&path));
            }
            Ok(())
        });
        if has_broken_off { Ok(()) } else { read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{ClipOptions, open_clip, write_clip};

    /// A clip of 110 frames, each of its own brightness, with keyframes in the middle.
    fn clip(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let frames: Vec<Picture> = (0..110_u8)
            .map(|index| Picture::from_fn(32, 32, |_, _| [index * 2, 80, 60]).unwrap())
            .collect();
        write_clip(&path, &frames, ClipOptions::default()).unwrap();
        path
    }

    #[test]
    fn reading_from_any_frame_gives_the_same_pixels_as_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let first_png = crate::media::numbered_path(&clip(folder.path(), "a.png"), 1);
        for (path, num_frames) in [
            #[cfg(feature = "h264")]
            (clip(folder.path(), "a.mp4"), 110),
            (clip(folder.path(), "a.gif"), 110),
            (first_png, 110),
        ] {
            let whole = open_clip(&path).unwrap();
            let mut reader = ClipReader::open(&path).unwrap();
            assert_eq!(reader.info().num_frames, num_frames);
            let firsts = [0, 1, 47, 48, 49, 97, num_frames - 1];
            for first in firsts.into_iter().filter(|first| *first < num_frames) {
                let mut given = Vec::new();
                let read = reader.read(first, &mut |number, picture| {
                    assert_eq!(picture, *whole.frames[number as usize], "{number}");
                    given.push(number);
                    if given.len() == 3 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                read.unwrap();
                let expected: Vec<u32> = (first..num_frames).take(3).collect();
                assert_eq!(given, expected, "{}", path.display());
            }
        }
    }

    #[test]
    fn behind_the_last_frame_there_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            #[cfg(feature = "h264")]
            clip(folder.path(), "a.mp4"),
            clip(folder.path(), "a.gif"),
        ] {
            let mut reader = ClipReader::open(&path).unwrap();
            let read = reader.read(500, &mut |_, _| unreachable!("there is no such frame"));
            read.unwrap();
        }
    }
}
