//! A clip that is read from any of its frames on, for players: nothing before a seek's entrance is decoded, and nothing
//! is kept.
//!
//! How much is held in memory is its caller's.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{ClipInfo, Source};
use crate::media::{MediaError, Picture};

/// Takes one decoded frame and its number; breaks off when it wants no more.
pub type TakeFrame<'a> = dyn FnMut(u32, Picture) -> ControlFlow<()> + 'a;

/// An opened clip.
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

    pub fn info(&self) -> ClipInfo {
        self.source.info()
    }

    /// Gives the frames from number `first` on, in order, until there are no more or `take` breaks off. Formats without
    /// an entrance near it decode what comes before and do not give it.
    pub fn read(&mut self, first: u32, take: &mut TakeFrame<'_>) -> Result<(), MediaError> {
        let mut has_broken_off = false;
        let path = self.path.clone();
        let read = self.source.read_from(first, &mut |number, picture| {
            if take(number, picture).is_break() {
                has_broken_off = true;
                // Ends the reading, and is told to nobody.
                return Err(MediaError::NoFrames { path: path.clone() });
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
        for name in ["a.mp4", "a.webm", "a.gif", "a.png"] {
            let mut path = clip(folder.path(), name);
            if name == "a.png" {
                path = crate::media::numbered_path(&path, 1);
            }
            let whole = open_clip(&path).unwrap();
            let mut reader = ClipReader::open(&path).unwrap();
            assert_eq!(reader.info().num_frames, 110);
            for first in [0, 1, 47, 48, 49, 97, 109] {
                let mut given = Vec::new();
                let read = reader.read(first, &mut |number, picture| {
                    assert_eq!(picture, *whole.frames[number as usize], "{name} {number}");
                    given.push(number);
                    if given.len() == 3 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                read.unwrap();
                let expected: Vec<u32> = (first..110).take(3).collect();
                assert_eq!(given, expected, "{name}");
            }
        }
    }

    #[test]
    fn behind_the_last_frame_there_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.mp4", "a.webm", "a.gif"] {
            let mut reader = ClipReader::open(&clip(folder.path(), name)).unwrap();
            let read = reader.read(500, &mut |_, _| unreachable!("there is no such frame"));
            read.unwrap();
        }
    }
}
