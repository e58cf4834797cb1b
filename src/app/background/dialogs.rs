//! Asking for files and folders in the desktop's own dialogs.
//!
//! Each waits on a thread of its own, because it waits for a person.

use std::time::{Duration, Instant};

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{CLIP_ENDINGS, PICTURE_ENDINGS};

use crate::app::background::{Answer, Background};
use crate::app::commands::FolderSetting;
use crate::app::inputs::Slot;
use crate::app::loras::LorasAnswer;
use crate::app::restore::RestoreAnswer;

/// A dialog that ends sooner was never shown: there is no file chooser on this machine.
pub(in crate::app) const NO_DIALOG_WITHIN: Duration = Duration::from_millis(300);

impl Background {
    /// Asks for a picture, or at the start for a clip as well.
    pub fn pick_input(&self, slot: Slot) {
        self.dialog("pick-input", move || {
            let dialog = match slot {
                Slot::Start => rfd::FileDialog::new()
                    .set_title("Choose a start picture, or a clip to go on from")
                    .add_filter("Pictures and clips", &endings(&[])),
                Slot::End => rfd::FileDialog::new()
                    .set_title("Choose an end picture")
                    .add_filter("Pictures", &PICTURE_ENDINGS),
                Slot::Mask => rfd::FileDialog::new()
                    .set_title("Choose a mask: white is made anew, black stays")
                    .add_filter("Pictures", &PICTURE_ENDINGS),
            };
            Answer::PickedInput(slot, dialog.add_filter("All files", &["*"]).pick_file())
        });
    }

    /// Asks for a file whose settings are taken over.
    pub fn pick_settings_file(&self) {
        self.dialog("pick-settings", move || {
            let kinds = endings(&["json", "txt"]);
            let dialog = rfd::FileDialog::new()
                .set_title("Choose a picture, a clip or a JSON file with settings")
                .add_filter("Files that say how they were made", &kinds)
                .add_filter("All files", &["*"]);
            Answer::Restore(RestoreAnswer::Picked(dialog.pick_file()))
        });
    }

    /// Asks for a folder.
    pub fn pick_folder(&self, purpose: FolderSetting) {
        self.dialog("pick-folder", move || {
            let title = match purpose {
                FolderSetting::Output => "Choose the folder for clips",
                FolderSetting::Pictures => "Choose the folder for pictures",
                FolderSetting::Libtorch => "Choose a libtorch folder",
                FolderSetting::Models => "Choose a folder with models",
                FolderSetting::Wildcards => "Choose a folder with wildcard files",
            };
            Answer::PickedFolder(
                purpose,
                rfd::FileDialog::new().set_title(title).pick_folder(),
            )
        });
    }

    /// Asks for LoRA files.
    pub fn pick_loras(&self) {
        self.dialog("pick-loras", || {
            let dialog = rfd::FileDialog::new()
                .set_title("Choose LoRA files")
                .add_filter("LoRAs", &["safetensors"]);
            Answer::Loras(LorasAnswer::Picked(dialog.pick_files().unwrap_or_default()))
        });
    }

    fn dialog(&self, name: &str, ask: impl FnOnce() -> Answer + Send + 'static) {
        self.spawn(name, move |postbox| {
            let begin = Instant::now();
            let answer = ask();
            let is_empty = match &answer {
                Answer::PickedInput(_, None)
                | Answer::PickedFolder(_, None)
                | Answer::Restore(RestoreAnswer::Picked(None)) => true,
                Answer::Loras(LorasAnswer::Picked(paths)) => paths.is_empty(),
                _ => false,
            };
            postbox.post(answer);
            if is_empty && begin.elapsed() < NO_DIALOG_WITHIN {
                let instead = "Drop a file onto the window or type its path, or install xdg-desktop-portal or zenity";
                postbox.post(Answer::Problem(no_dialog(instead)));
            }
        });
    }
}

/// Those of pictures and clips, and others.
fn endings(others: &[&'static str]) -> Vec<&'static str> {
    [&PICTURE_ENDINGS, &CLIP_ENDINGS[..], others].concat()
}

pub(in crate::app) fn no_dialog(instead: &str) -> JobError {
    JobError::new(
        JobErrorKind::Internal,
        "this desktop offers no file chooser",
    )
    .advise(instead)
}
