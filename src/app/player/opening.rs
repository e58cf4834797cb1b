//! Opening pictures, batches and clips from disk to be watched.
//!
//! FrameSegments on threads of its own; nothing here waits for the window or knows what it shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{Clip, JobError, JobErrorKind};
use safelight_core::media::{self, ClipReader, MediaError, Picture};
use serde_json::Value;

use crate::app::inputs::opening::may_move;
use crate::app::player::compare::Side;
use crate::app::player::facts::PlayedFile;
use crate::app::player::frames::Frames;
use crate::app::player::reading::{FileFrames, Wake};
use crate::app::player::screen::Screen;

/// Pictures of one batch that are opened together.
const MAX_BATCH: usize = 64;

/// A file that can be watched.
pub struct OpenedFile {
    pub file: PlayedFile,
    pub(super) frames: Frames,
    /// The frame or picture that was asked for.
    pub(super) index: usize,
}

impl OpenedFile {
    pub(super) fn into_side(self) -> Side {
        let Self {
            file,
            frames,
            index,
        } = self;
        Side {
            title: file.name_of(index),
            request: file.request_of(index).cloned(),
            fps: file.fps,
            is_clip: file.is_clip,
            first: if file.is_clip { 0 } else { index },
            frames,
            screen: Screen::default(),
        }
    }
}

/// Opens whatever the file is; `max_side` is that of the largest texture.
pub(super) fn open(path: &Path, max_side: u32, wake: &Wake) -> Result<OpenedFile, JobError> {
    open_media(path, max_side, wake).map_err(|err| {
        JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(
            "Safelight plays PNG, JPEG, WebP, GIF, BMP and TIFF pictures, with ffmpeg also AVIF \
            and HEIC, and MP4, MOV and WebM clips",
        )
    })
}

fn open_media(path: &Path, max_side: u32, wake: &Wake) -> Result<OpenedFile, MediaError> {
    let settings = settings_of(path);
    // A picture that moves says so only inside.
    if may_move(path)
        && media::media_info(path).is_ok_and(|info| info.num_frames > 1)
        && let Ok(reader) = ClipReader::open(path)
    {
        return open_clip(path, reader, settings, max_side, wake);
    }
    match media::open_picture(path) {
        Ok(picture) => {
            if is_frame_of_clip(settings.as_ref())
                && let Ok(reader) = ClipReader::open(path)
                && reader.info().num_frames > 1
            {
                return open_clip(path, reader, settings, max_side, wake);
            }
            Ok(open_pictures(path, picture, settings.as_ref(), max_side))
        }
        Err(MediaError::NotAPicture { .. }) => {
            let reader = ClipReader::open(path)?;
            open_clip(path, reader, settings, max_side, wake)
        }
        Err(err) => Err(err),
    }
}

/// What the file carries of its making; nothing where it is another program's or damaged, which is no reason not to
/// show it.
fn settings_of(path: &Path) -> Option<Value> {
    let text = media::read_settings(path).ok()??;
    serde_json::from_str(&text).ok()
}

/// One of the numbered pictures that a clip was written as, and no frame that was saved from one.
fn is_frame_of_clip(settings: Option<&Value>) -> bool {
    let Some(settings) = settings else {
        return false;
    };
    let num_frames = settings["request"]["num_frames"].as_u64().unwrap_or(1);
    num_frames > 1 && settings.get("frame").is_none()
}

fn open_clip(
    path: &Path,
    reader: ClipReader,
    settings: Option<Value>,
    max_side: u32,
    wake: &Wake,
) -> Result<OpenedFile, MediaError> {
    let info = reader.info();
    let file = PlayedFile {
        paths: vec![path.to_path_buf()],
        width: info.width,
        height: info.height,
        num_frames: info.num_frames as usize,
        fps: info.fps,
        is_clip: info.num_frames > 1,
        settings: vec![settings],
    };
    let frames = FileFrames::start(reader, max_side, Arc::clone(wake));
    let frames = frames.map_err(|source| MediaError::Io {
        action: "start reading",
        source,
        path: path.to_path_buf(),
    })?;
    Ok(OpenedFile {
        file,
        frames: Frames::File(Arc::new(frames)),
        index: 0,
    })
}

/// A picture, with the others of its batch.
fn open_pictures(
    path: &Path,
    picture: Picture,
    settings: Option<&Value>,
    max_side: u32,
) -> OpenedFile {
    let (width, height) = (picture.width, picture.height);
    let mut first = Some((picture, settings.cloned()));
    let mut file = PlayedFile {
        paths: Vec::new(),
        width,
        height,
        num_frames: 1,
        fps: 1.0,
        is_clip: false,
        settings: Vec::new(),
    };
    let mut frames = Vec::new();
    let mut index = 0;
    for other in batch_of(path, settings) {
        let opened = if other == path {
            index = frames.len();
            first.take()
        } else {
            media::open_picture(&other)
                .ok()
                .map(|picture| (picture, settings_of(&other)))
        };
        let Some((picture, settings)) = opened else {
            continue;
        };
        frames.push(Arc::new(within(picture, max_side)));
        file.paths.push(other);
        file.settings.push(settings);
    }
    OpenedFile {
        file,
        frames: Frames::Memory(Arc::new(Clip { frames, fps: 1.0 })),
        index,
    }
}

fn within(picture: Picture, max_side: u32) -> Picture {
    if picture.width.max(picture.height) <= max_side {
        return picture;
    }
    media::thumbnail(&picture, max_side, max_side).unwrap_or(picture)
}

/// The files of the batch that a picture is of, in order: those numbered alike with the same prompt. The file alone
/// where it is none of ours.
fn batch_of(path: &Path, settings: Option<&Value>) -> Vec<PathBuf> {
    let alone = vec![path.to_path_buf()];
    let Some(request) = settings.and_then(|settings| settings.get("request")) else {
        return alone;
    };
    let Some(base) = unnumbered(path) else {
        return alone;
    };
    let is_alike = |other: &PathBuf| {
        other == path
            || settings_of(other).is_some_and(|settings| {
                let theirs = &settings["request"];
                theirs["prompt"] == request["prompt"] && theirs["model"] == request["model"]
            })
    };
    let numbered = (1..=MAX_BATCH).map(|number| media::numbered_path(&base, number));
    let batch: Vec<PathBuf> = numbered
        .take_while(|other| other.is_file())
        .filter(is_alike)
        .collect();
    if batch.iter().any(|other| other == path) {
        batch
    } else {
        alone
    }
}

/// The name before [`media::numbered_path`] gave it a number.
fn unnumbered(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let (base, number) = stem.rsplit_once('_')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let extension = path.extension()?.to_str()?;
    is_number.then(|| path.with_file_name(format!("{base}.{extension}")))
}

#[cfg(test)]
mod tests {
    use safelight_core::media::{ClipOptions, write_clip};
    use serde_json::json;

    use super::*;

    fn picture(bright: u8) -> Picture {
        Picture::from_fn(24, 16, |_, _| [bright, 9, 9]).unwrap()
    }

    fn write(path: &Path, frames: &[Picture], request: Option<Value>) {
        let options = ClipOptions {
            fps: 8.0,
            settings: request.map(|request| json!({ "request": request }).to_string()),
            ..ClipOptions::default()
        };
        write_clip(path, frames, options).unwrap();
    }

    fn open_at(path: &Path) -> OpenedFile {
        open(path, 4096, &(Arc::new(|| {}) as Wake)).unwrap()
    }

    #[test]
    fn a_file_is_what_is_inside_and_not_what_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<Picture> = (0..6).map(|index| picture(index * 20)).collect();
        for name in ["a.mp4", "a.gif", "a.webp"] {
            let path = folder.path().join(name);
            write(&path, &frames, Some(json!({"seed": 3, "num_frames": 6})));
            let misnamed = folder.path().join("what.txt");
            std::fs::rename(&path, &misnamed).unwrap();
            let opened = open_at(&misnamed);
            assert_eq!(
                (opened.file.num_frames, opened.file.is_clip),
                (6, true),
                "{name}"
            );
            assert_eq!(opened.file.request_of(0).unwrap()["seed"], 3, "{name}");
        }
        let still = folder.path().join("still.webp");
        write(&still, &frames[..1], None);
        assert!(!open_at(&still).file.is_clip);
    }

    #[test]
    fn the_pictures_of_a_batch_are_opened_together_and_strangers_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number| media::numbered_path(&folder.path().join("cat.png"), number);
        for number in 1..=4_usize {
            let prompt = if number == 4 { "a dog" } else { "a cat" };
            let request = json!({"seed": number, "prompt": prompt, "num_frames": 1});
            write(&path(number), &[picture(number as u8)], Some(request));
        }
        let opened = open_at(&path(2));
        assert_eq!(opened.file.paths, [path(1), path(2), path(3)]);
        assert_eq!(opened.index, 1);
        assert_eq!(opened.file.request_of(2).unwrap()["seed"], 3);
        // Of another program nothing is known, so each is a picture for itself.
        let other = folder.path().join("photo_0001.png");
        write(&other, &[picture(1)], None);
        write(&folder.path().join("photo_0002.png"), &[picture(2)], None);
        assert_eq!(open_at(&other).file.paths.len(), 1);
    }

    #[test]
    fn numbered_frames_are_a_clip_and_a_frame_that_was_saved_is_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<Picture> = (0..5).map(|index| picture(index * 20)).collect();
        let path = folder.path().join("walk.png");
        write(&path, &frames, Some(json!({"num_frames": 5, "fps": 8.0})));
        let opened = open_at(&media::numbered_path(&path, 3));
        assert_eq!((opened.file.num_frames, opened.file.fps), (5, 8.0));
        let saved = folder.path().join("clip_frame_0042.png");
        let settings = json!({"request": {"num_frames": 81}, "frame": 42});
        let options = ClipOptions {
            settings: Some(settings.to_string()),
            ..ClipOptions::default()
        };
        write_clip(&saved, &frames[..1], options).unwrap();
        assert!(!open_at(&saved).file.is_clip);
    }

    #[test]
    fn what_cannot_be_watched_is_an_error_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.mp4");
        let wake: Wake = Arc::new(|| {});
        assert!(open(&path, 4096, &wake).is_err_and(|err| err.summary.contains("does not exist")));
        std::fs::write(&path, "just words").unwrap();
        assert!(open(&path, 4096, &wake).is_err());
        std::fs::write(&path, "").unwrap();
        assert!(open(&path, 4096, &wake).is_err());
        assert!(open(folder.path(), 4096, &wake).is_err());
    }

    #[test]
    fn pictures_larger_than_a_texture_are_shown_smaller_and_told_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.png");
        let wide = Picture::from_fn(600, 20, |_, _| [1; 3]).unwrap();
        write(&path, &[wide], None);
        let opened = open(&path, 256, &(Arc::new(|| {}) as Wake)).unwrap();
        assert_eq!(opened.file.width, 600);
        assert_eq!(opened.frames.picture(0).unwrap().width, 256);
    }
}
