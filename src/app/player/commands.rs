//! What the panels of the player may ask for, and what comes back from disk.
//!
//! Carried out by the modules beside it.

use std::path::PathBuf;

use safelight_core::job::{JobError, JobId};

use crate::app::App;
use crate::app::inputs::Slot;
use crate::app::player::zoom::Zoom;
use crate::app::player::{OpenedFile, Playback};
use crate::app::state::{Page, Viewing};

/// One wish about what is watched.
#[derive(Clone, Debug)]
pub enum PlayerCommand {
    /// Play so from now on.
    SetPlayback(Playback),
    /// The other things that can happen at a clip's end, one after the other.
    NextRepeat,
    /// Give the picture the whole window, or not any more.
    ToggleFull,
    /// All of the picture.
    Fit,
    /// One of its pixels for each of the screen.
    OwnSize,
    /// Show more of A, or of B, by a share of the picture.
    MoveDivider(f32),
    /// Put another result beside what is shown.
    CompareWith(JobId),
    /// Let A and B change places.
    SwapSides,
    LeaveCompare,
    /// Write the frame that is shown to a file of its own.
    SaveFrame,
    CopyFrame,
    /// Make the next one from the frame that is shown.
    UseFrame(Slot),
    OpenFolderOfFile,
    CopyPathOfFile,
}

/// What came of them.
pub enum PlayerAnswer {
    /// Of the wish with this number.
    Opened(u64, Result<Box<OpenedFile>, JobError>),
    Compared(u64, Result<Box<[OpenedFile; 2]>, JobError>),
    /// The frame with this number, counted from 1, is in this file.
    Saved(usize, PathBuf),
}

impl App {
    pub(in crate::app) fn run_player_command(
        &mut self,
        ctx: &egui::Context,
        command: &PlayerCommand,
    ) {
        match *command {
            PlayerCommand::SetPlayback(playback) => self.state.playback = playback,
            PlayerCommand::NextRepeat => {
                self.state.playback.repeat = self.state.playback.repeat.next();
            }
            PlayerCommand::ToggleFull => self.session.watch.is_full ^= true,
            PlayerCommand::Fit => self.session.watch.zoom = Zoom::Fit,
            PlayerCommand::OwnSize => {
                self.session.watch.zoom = Zoom::own_size(ctx.pixels_per_point());
            }
            PlayerCommand::MoveDivider(by) => {
                if let Some(compare) = &mut self.session.watch.compare {
                    compare.divider = (compare.divider + by).clamp(0.0, 1.0);
                }
            }
            PlayerCommand::CompareWith(id) => self.choose(|app| app.compare_with(id)),
            PlayerCommand::SwapSides => {
                if let Some(compare) = &mut self.session.watch.compare {
                    compare.swap();
                }
            }
            PlayerCommand::LeaveCompare => self.choose(Self::leave_compare),
            PlayerCommand::SaveFrame => self.save_frame(),
            PlayerCommand::CopyFrame => self.copy_frame(ctx),
            PlayerCommand::UseFrame(slot) => self.use_frame(slot),
            PlayerCommand::OpenFolderOfFile => {
                let file = self.session.watch.file.as_ref();
                let folder = file.and_then(|file| file.path_of(0).parent());
                if let Some(folder) = folder {
                    self.background.open_folder(folder.to_path_buf());
                }
            }
            PlayerCommand::CopyPathOfFile => {
                let shown = self.session.shown_of_batch();
                if let Some(file) = &self.session.watch.file {
                    ctx.copy_text(file.path_of(shown).display().to_string());
                    "Path copied".clone_into(&mut self.session.last_word);
                }
            }
        }
    }

    /// Leaves the full view, or a comparison; whether there was one to leave.
    pub(in crate::app) fn leave_watched(&mut self) -> bool {
        if self.session.page != Page::Watch {
            return false;
        }
        if std::mem::take(&mut self.session.watch.is_full) {
            return true;
        }
        let is_compared = self.session.viewing == Viewing::Compare;
        if is_compared {
            self.choose(Self::leave_compare);
        }
        is_compared
    }

    pub(in crate::app) fn take_player_answer(&mut self, answer: PlayerAnswer) {
        match answer {
            PlayerAnswer::Opened(wish, opened) => self.take_opened_file(wish, opened),
            PlayerAnswer::Compared(wish, opened) => self.take_compared(wish, opened),
            PlayerAnswer::Saved(number, path) => self.take_saved(number, &path),
        }
    }
}
