//! What the panels of the player may ask for, and what comes back from disk.
//!
//! Carried out by the modules beside it.

use std::path::Path;
use std::sync::Arc;

use safelight_core::job::JobId;

use crate::app::commands::{InputsCommand, PlayerCommand};
use crate::app::cx::Cx;
use crate::app::inputs::slots::Continued;
use crate::app::player::compare::Compare;
use crate::app::player::zoom::Zoom;
use crate::app::player::{Playhead, Viewing, Watch, saving};
use crate::app::queue::JobQueue;
use crate::app::state::Page;

impl Watch {
    pub fn update(&mut self, command: PlayerCommand, queue: &mut JobQueue, cx: &mut Cx) {
        match command {
            PlayerCommand::ShowResult(id) => {
                self.show_result(id, queue, cx);
                self.choose(cx);
            }
            PlayerCommand::ShowLive => {
                self.show_live(queue, cx);
                self.choose(cx);
            }
            PlayerCommand::FollowJobs => self.is_chosen = false,
            PlayerCommand::PlayFile(path) => self.open(vec![path], cx),
            PlayerCommand::CompareFiles(a, b) => self.open(vec![a, b], cx),
            PlayerCommand::Toggle => {
                if !self.is_still() {
                    self.playhead(queue, Playhead::toggle);
                }
            }
            PlayerCommand::Step(by) => self.playhead(queue, |playhead| playhead.step(by)),
            PlayerCommand::ShowFrame(index) => {
                self.playhead(queue, |playhead| playhead.show(index));
            }
            PlayerCommand::UseSettingsOf(id) => {
                if let Some(item) = queue.result(id) {
                    let request = item.request.of_one(self.shown_of_batch());
                    cx.push(InputsCommand::TakeOver(Box::new(request)));
                }
            }
            PlayerCommand::ContinueFrom(id) => self.continue_from(id, queue, cx),
            PlayerCommand::OpenFolderOf(id) => {
                let item = queue.result(id);
                if let Some(folder) = item.and_then(|item| item.output.path().parent()) {
                    cx.background.open_folder(folder.to_path_buf());
                }
            }
            PlayerCommand::CopyPathOf(id) => {
                if let Some(item) = queue.result(id) {
                    copy_path(item.path_of(self.shown_of_batch()), cx);
                }
            }
            PlayerCommand::SetPlayback(playback) => self.playback = playback,
            PlayerCommand::NextRepeat => self.playback.repeat = self.playback.repeat.next(),
            PlayerCommand::ToggleFull => self.is_full ^= true,
            PlayerCommand::LeaveFull => self.is_full = false,
            PlayerCommand::Zoom(zoom) => self.zoom = zoom,
            PlayerCommand::OwnSize => self.zoom = Zoom::own_size(cx.ctx.pixels_per_point()),
            PlayerCommand::CompareWith(id) => {
                self.compare_with(id, queue, cx);
                self.choose(cx);
            }
            PlayerCommand::LeaveCompare => self.leave_compare(queue, cx),
            PlayerCommand::CompareAs(mode) => self.compared(|compare| compare.mode = mode),
            PlayerCommand::MoveDivider(by) => self.compared(|compare| {
                compare.divider = (compare.divider + by).clamp(0.0, 1.0);
            }),
            PlayerCommand::Amplify(gain) => self.compared(|compare| compare.gain = gain),
            PlayerCommand::SwapSides => self.compared(Compare::swap),
            PlayerCommand::SaveFrame => self.save_frame(queue, cx),
            PlayerCommand::CopyFrame => self.copy_frame(queue, cx),
            PlayerCommand::UseFrame(slot) => self.use_frame(slot, queue, cx),
            PlayerCommand::OpenFolderOfFile => {
                let file = self.file.as_ref();
                if let Some(folder) = file.and_then(|file| file.path_of(0).parent()) {
                    cx.background.open_folder(folder.to_path_buf());
                }
            }
            PlayerCommand::CopyPathOfFile => {
                if let Some(file) = &self.file {
                    copy_path(file.path_of(self.shown_of_batch()), cx);
                }
            }
        }
    }

    pub fn poll(&mut self, cx: &mut Cx) {
        self.take_opened(cx);
        while let Some(saved) = self.saving.take() {
            saving::tell(saved, cx);
        }
    }

    fn compared(&mut self, act: impl FnOnce(&mut Compare)) {
        if let Some(compare) = &mut self.compare {
            act(compare);
        }
    }

    /// The finished clip becomes the one to go on from, the picture that is looked at the start picture.
    fn continue_from(&self, id: JobId, queue: &JobQueue, cx: &mut Cx) {
        let Some(item) = queue.result(id) else {
            return;
        };
        let frames = &item.output.clip.frames;
        let is_clip = !item.is_pictures() && frames.len() > 1;
        let shown = if is_clip {
            frames.len() - 1
        } else {
            self.shown_of_batch()
        };
        if let Some(frame) = frames.get(shown) {
            let path = item.path_of(shown).to_path_buf();
            cx.push(InputsCommand::Continue(Continued {
                folder: saving::folder_for(&path, cx),
                path,
                frame: Arc::clone(frame),
                is_clip,
            }));
        }
    }

    /// Leaves the full view, or a comparison; whether there was one to leave.
    pub(in crate::app) fn leave(&mut self, queue: &JobQueue, cx: &mut Cx) -> bool {
        if cx.page != Page::Watch {
            return false;
        }
        if std::mem::take(&mut self.is_full) {
            return true;
        }
        let is_compared = self.viewing == Viewing::Compare;
        if is_compared {
            self.leave_compare(queue, cx);
        }
        is_compared
    }
}

fn copy_path(path: &Path, cx: &mut Cx) {
    cx.ctx.copy_text(path.display().to_string());
    cx.say("Path copied");
}
