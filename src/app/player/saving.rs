//! What is done with the frame that is shown: a file of its own, the clipboard, the start or end of the next one.
//!
//! Files are written on the file thread, beside what the frame is of.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{self, ClipOptions, MediaError, Picture, VideoWriter};
use safelight_core::naming;
use serde_json::Value;

use crate::app::commands::InputsCommand;
use crate::app::cx::Cx;
use crate::app::inputs::slots::Slot;
use crate::app::notices::Severity;
use crate::app::player::{Viewing, Watch};
use crate::app::queue::JobQueue;
use crate::app::state::color_image;

/// The frame that is shown, and where it is from.
struct ShownFrame {
    picture: Arc<Picture>,
    /// Counted from 0.
    index: usize,
    path: PathBuf,
}

impl Watch {
    /// What is shown: of a comparison there is none, because there are two.
    fn shown_frame(&self, queue: &JobQueue) -> Option<ShownFrame> {
        let (player, path) = match self.viewing {
            Viewing::Live => {
                let job = queue.running.as_ref()?;
                (job.growing.as_ref()?, job.request.out())
            }
            Viewing::Result(id) => {
                let player = self.player.as_ref()?;
                (player, queue.result(id)?.path_of(player.index()))
            }
            Viewing::File => {
                let player = self.player.as_ref()?;
                (player, self.file.as_ref()?.path_of(player.index()))
            }
            Viewing::Compare => return None,
        };
        Some(ShownFrame {
            picture: player.exact()?,
            index: player.index(),
            path: path.to_path_buf(),
        })
    }

    pub(super) fn save_frame(&mut self, queue: &JobQueue, cx: &mut Cx) {
        let Some(frame) = self.shown_frame(queue) else {
            return;
        };
        self.saving
            .add(cx.on_files("the frame was not saved", move || {
                save(&frame).map(|path| (frame.index + 1, path))
            }));
    }

    pub(super) fn copy_frame(&self, queue: &JobQueue, cx: &mut Cx) {
        if let Some(frame) = self.shown_frame(queue) {
            cx.ctx.copy_image(color_image(&frame.picture));
            cx.say(format!("Frame {} copied", frame.index + 1));
        }
    }

    /// Makes the frame the start or end picture of the next one.
    pub(super) fn use_frame(&self, slot: Slot, queue: &JobQueue, cx: &mut Cx) {
        if let Some(frame) = self.shown_frame(queue) {
            let folder = folder_for(&frame.path, cx);
            cx.push(InputsCommand::Take(slot, frame.picture, folder));
        }
    }
}

/// Where a frame of this file is kept that becomes an input.
pub(super) fn folder_for(path: &Path, cx: &Cx) -> PathBuf {
    match &cx.paths {
        Some(paths) => paths.data.join("pasted"),
        None => path.with_file_name(""),
    }
}

/// What came of saving a frame with this number, counted from 1.
pub(super) fn tell(saved: Result<(usize, PathBuf), MediaError>, cx: &mut Cx) {
    let (number, path) = match saved {
        Ok(saved) => saved,
        Err(err) => return cx.tell(Severity::Warning, save_error(&err)),
    };
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let told = JobError::new(
        JobErrorKind::Internal,
        format!("frame {number} is saved as {name}"),
    );
    cx.tell(
        Severity::Info,
        told.advise(format!("In the folder {}", folder.display())),
    );
    cx.say(format!("Frame {number} saved: {}", path.display()));
}

/// Writes the frame beside its clip, with the clip's settings and its own number.
fn save(frame: &ShownFrame) -> Result<PathBuf, MediaError> {
    let folder = frame.path.parent().unwrap_or_else(|| Path::new(""));
    let stem = frame.path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = format!("{stem}_frame_{:04}", frame.index + 1);
    let path = naming::free_path(folder, &stem, "png", &mut HashSet::new());
    let options = ClipOptions {
        settings: settings_of_frame(&frame.path, frame.index + 1),
        keeps_others: true,
        ..ClipOptions::default()
    };
    let mut writer = VideoWriter::create(&path, options)?;
    writer.push(&frame.picture)?;
    Ok(writer.finish()?.pop().unwrap_or(path))
}

/// The clip's settings with the number of the frame; none where the clip has none, or is gone.
fn settings_of_frame(path: &Path, number: usize) -> Option<String> {
    let text = media::read_settings(path).ok()??;
    let mut settings: Value = serde_json::from_str(&text).ok()?;
    settings
        .as_object_mut()?
        .insert("frame".to_owned(), number.into());
    Some(settings.to_string())
}

fn save_error(err: &MediaError) -> JobError {
    let advice = if err.is_disk_full() {
        "Free some space, then save the frame again"
    } else {
        "Copy the frame instead, and paste it into another program"
    };
    JobError::from_error(JobErrorKind::Disk, err).advise(advice)
}

#[cfg(test)]
mod tests {
    use safelight_core::media::{open_picture, read_settings, write_clip};

    use super::*;

    #[test]
    fn a_saved_frame_is_exact_and_carries_the_settings_and_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boat.mp4");
        let picture = Picture::from_fn(32, 16, |x, y| [x as u8 * 7, y as u8, 3]).unwrap();
        let options = ClipOptions {
            settings: Some(r#"{"request": {"seed": 7}}"#.to_owned()),
            ..ClipOptions::default()
        };
        write_clip(&path, &vec![picture.clone(); 3], options).unwrap();
        let frame = ShownFrame {
            picture: Arc::new(picture.clone()),
            index: 1,
            path,
        };
        let saved = save(&frame).unwrap();
        assert!(saved.ends_with("boat_frame_0002.png"));
        assert_eq!(open_picture(&saved).unwrap(), picture);
        let settings: Value =
            serde_json::from_str(&read_settings(&saved).unwrap().unwrap()).unwrap();
        assert_eq!(
            (&settings["frame"], &settings["request"]["seed"]),
            (&2.into(), &7.into())
        );
        // The same again takes nothing away.
        assert!(save(&frame).unwrap().ends_with("boat_frame_0002-2.png"));
    }

    #[test]
    fn a_frame_whose_folder_is_gone_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let frame = ShownFrame {
            picture: Arc::new(Picture::from_fn(4, 4, |_, _| [0; 3]).unwrap()),
            index: 0,
            path: folder.path().join("gone/away/boat.mp4"),
        };
        let err = save(&frame).unwrap_err();
        assert!(!save_error(&err).advice.is_empty());
    }
}
