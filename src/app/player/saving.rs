//! What is done with the frame that is shown: a file of its own, the clipboard, the start or end of the next one.
//!
//! Files are written on the file thread, beside what the frame is of.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{self, ClipOptions, ClipWriter, MediaError, Picture};
use safelight_core::naming;
use serde_json::Value;

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::inputs::opening::{keep_picture, opened_one};
use crate::app::inputs::{Placing, Slot};
use crate::app::player::commands::PlayerAnswer;
use crate::app::state::{Severity, Viewing, color_image};

/// The frame that is shown, and where it is from.
struct ShownFrame {
    picture: Arc<Picture>,
    /// Counted from 0.
    index: usize,
    path: PathBuf,
}

impl App {
    /// What is shown: of a comparison there is none, because there are two.
    fn shown_frame(&self) -> Option<ShownFrame> {
        let session = &self.session;
        let (player, path) = match session.viewing {
            Viewing::Live => {
                let job = self.queue.running.as_ref()?;
                (job.growing.as_ref()?, job.request.out.clone())
            }
            Viewing::Result(id) => {
                let player = session.player.as_ref()?;
                let item = self.queue.result(id)?;
                (player, item.path_of(player.index()).to_path_buf())
            }
            Viewing::File => {
                let player = session.player.as_ref()?;
                let file = session.watch.file.as_ref()?;
                (player, file.path_of(player.index()).to_path_buf())
            }
            Viewing::Compare => return None,
        };
        Some(ShownFrame {
            picture: player.exact()?,
            index: player.index(),
            path,
        })
    }

    pub(super) fn save_frame(&mut self) {
        let Some(frame) = self.shown_frame() else {
            return;
        };
        let number = frame.index + 1;
        let is_taken = self.background.run(Task::Work(Box::new(move || {
            Some(match save(&frame) {
                Ok(path) => Answer::Player(PlayerAnswer::Saved(number, path)),
                Err(err) => Answer::Problem(save_error(&err)),
            })
        })));
        if !is_taken {
            let err = JobError::new(
                JobErrorKind::Disk,
                "the frame was not saved: files are busy",
            );
            let err = err.advise("Try again in a moment");
            self.session.notify(Severity::Warning, err);
        }
    }

    pub(super) fn take_saved(&mut self, number: usize, path: &Path) {
        let folder = path.parent().unwrap_or_else(|| Path::new("")).display();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.session.last_word = format!("Frame {number} saved: {}", path.display());
        let told = JobError::new(
            JobErrorKind::Internal,
            format!("frame {number} is saved as {name}"),
        );
        let told = told.advise(format!("In the folder {folder}"));
        self.session.notify(Severity::Info, told);
    }

    pub(super) fn copy_frame(&mut self, ctx: &egui::Context) {
        if let Some(frame) = self.shown_frame() {
            ctx.copy_image(color_image(&frame.picture));
            self.session.last_word = format!("Frame {} copied", frame.index + 1);
        }
    }

    /// Makes the frame the start or end picture of the next one.
    pub(super) fn use_frame(&self, slot: Slot) {
        let Some(frame) = self.shown_frame() else {
            return;
        };
        let folder = match &self.paths {
            Some(paths) => paths.data.join("pasted"),
            None => frame.path.with_file_name(""),
        };
        let placing = Placing {
            slot: Some(slot),
            ..Placing::default()
        };
        let ticket = self.session.inputs.ticket();
        self.background.run(Task::Work(Box::new(move || {
            let kept = keep_picture(&frame.picture, &folder, "frame");
            Some(Answer::Inputs(opened_one(kept, placing, ticket)))
        })));
    }
}

/// Writes the frame beside its clip, with the clip's settings and its own number.
fn save(frame: &ShownFrame) -> Result<PathBuf, MediaError> {
    let folder = frame.path.parent().unwrap_or_else(|| Path::new(""));
    let stem = frame.path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = format!("{stem}_frame_{:04}", frame.index + 1);
    let path = naming::free_path(folder, &stem, "png", &mut HashSet::new());
    let options = ClipOptions {
        settings: settings_of_frame(&frame.path, frame.index + 1),
        ..ClipOptions::default()
    };
    let mut writer = ClipWriter::create(&path, options)?;
    writer.push(&frame.picture)?;
    writer.finish()?;
    Ok(path)
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
        "Free some space and save it again"
    } else {
        "Copy the frame instead, and paste it where it can be kept"
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
