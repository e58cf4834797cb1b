//! What the panels of the player may ask for, and what comes back from disk.
//!
//! Carried out by the modules beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::JobId;

use crate::app::commands::{GalleryCommand, InputsCommand, PlayerCommand};
use crate::app::cx::Cx;
use crate::app::gallery::wishes::TrashWish;
use crate::app::inputs::slots::Continued;
use crate::app::player::compare::Compare;
use crate::app::player::zoom::Zoom;
use crate::app::player::{Playhead, Viewing, Watch, saving};
use crate::app::queue::{JobQueue, ResultItem};
use crate::app::state::Page;

impl Watch {
    pub fn update(&mut self, command: PlayerCommand, queue: &mut JobQueue, cx: &mut Cx) {
        let goes_on = self.running.is_some() || queue.will_go_on();
        if is_of_frame(&command) && goes_on && self.live_at.take().is_some() {
            // Whoever does something with a clip while jobs run, or between two, wants to go on looking at it.
            self.is_chosen = true;
        }
        match command {
            PlayerCommand::ShowResult(id) => {
                self.choose_result(id, queue, cx);
            }
            PlayerCommand::ShowLive => {
                self.show_live(queue, cx);
                self.choose(cx);
            }
            PlayerCommand::FollowJobs => self.is_chosen = false,
            PlayerCommand::PlayFile(path) => self.open(vec![path], cx),
            PlayerCommand::ShowSheet(path) => {
                if queue.running.is_none() && !self.is_chosen && !self.is_full {
                    self.open(vec![path], cx);
                }
            }
            PlayerCommand::ShowInput(path) => {
                if queue.running.is_none() {
                    self.input = Some(path.clone());
                    self.open(vec![path], cx);
                    if let Some(opening) = &mut self.opening {
                        opening.is_input = true;
                    }
                }
            }
            PlayerCommand::LeaveInput(path) => self.leave_input(&path, queue, cx),
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
                let request = queue.result(id).and_then(|item| {
                    if self.viewing == Viewing::Result(id) {
                        item.generated(self.shown_of_batch())
                    } else {
                        item.request.generate().cloned()
                    }
                });
                if let Some(request) = request {
                    cx.push(InputsCommand::TakeOver(Box::new(request)));
                }
            }
            PlayerCommand::ContinueFrom(id) => self.continue_from(id, queue, cx),
            PlayerCommand::CopyPathOf(id) => {
                if let Some(item) = queue.result(id) {
                    copy_path(item.path_of(self.shown_of(id)), cx);
                }
            }
            PlayerCommand::CopyPath => match self.viewing {
                Viewing::Result(id) => cx.push(PlayerCommand::CopyPathOf(id)),
                Viewing::File => {
                    if let Some(file) = &self.file {
                        copy_path(file.path_of(self.shown_of_batch()), cx);
                    }
                }
                Viewing::Live | Viewing::Compare => {}
            },
            PlayerCommand::SetPlayback(playback) => self.playback = playback,
            PlayerCommand::NextRepeat => self.playback.repeat = self.playback.repeat.next(),
            PlayerCommand::ToggleFull => {
                // On another page nothing of it is seen.
                self.is_full = !self.is_full || cx.page != Page::Watch;
                cx.page = Page::Watch;
            }
            PlayerCommand::LeaveFull => self.is_full = false,
            PlayerCommand::Zoom(zoom) => self.zoom = zoom,
            PlayerCommand::OwnSize => self.zoom = Zoom::own_size(cx.ctx.pixels_per_point()),
            PlayerCommand::CompareWith(id) => {
                let file = queue.result(id).filter(|item| !item.is_in_memory());
                if let Some(item) = file {
                    let path = item.output.path().to_owned();
                    let shown = self.shown_path(queue).filter(|shown| *shown != path);
                    self.open(shown.into_iter().chain([path]).collect(), cx);
                } else {
                    self.compare_with(id, queue, cx);
                    self.choose(cx);
                }
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
            PlayerCommand::Delete => {
                let wishes = self.trash_wishes(queue);
                if !wishes.is_empty() {
                    cx.push(GalleryCommand::Trash(wishes));
                }
            }
            PlayerCommand::Gone(gone, next) => self.follow_files(&gone, next, queue, cx),
        }
    }

    /// Which picture of this result is meant: the one that is looked at.
    fn shown_of(&self, id: JobId) -> usize {
        if self.viewing == Viewing::Result(id) {
            self.shown_of_batch()
        } else {
            0
        }
    }

    /// The file of what is shown, where that is one.
    fn shown_path(&self, queue: &JobQueue) -> Option<PathBuf> {
        let shown = self.shown_of_batch();
        let path = match self.viewing {
            Viewing::Result(id) => queue.result(id)?.path_of(shown),
            Viewing::File => self.file.as_ref()?.path_of(shown),
            Viewing::Live | Viewing::Compare => return None,
        };
        Some(path.to_path_buf())
    }

    /// What is thrown away with what is shown. Of a comparison nothing is: there are two.
    fn trash_wishes(&self, queue: &JobQueue) -> Vec<TrashWish> {
        match self.viewing {
            Viewing::Result(id) => {
                let item = queue.result(id);
                item.map_or_else(Vec::new, ResultItem::trash_wishes)
            }
            Viewing::File => {
                let file = self.file.iter();
                let shown = self.shown_of_batch();
                file.map(|file| file.trash_wish(shown)).collect()
            }
            Viewing::Live | Viewing::Compare => Vec::new(),
        }
    }

    /// Takes results away whose files are in the trash and brings those back whose files are there again; what is shown
    /// goes with its file, and its neighbour takes its place.
    fn follow_files(
        &mut self,
        gone: &[PathBuf],
        next: Option<PathBuf>,
        queue: &mut JobQueue,
        cx: &mut Cx,
    ) {
        let (taken, back) = queue.follow_files(gone, cx);
        if let Some(id) = back {
            self.choose_result(id, queue, cx);
            return;
        }
        if let Some(path) = self.thrown.take_if(|path| !gone.contains(path)) {
            if cx.page == Page::Watch {
                self.open(vec![path], cx);
            }
            return;
        }
        let has_gone = match self.viewing {
            Viewing::Result(id) => queue.result(id).is_none(),
            Viewing::File => {
                let shown = self.shown_of_batch();
                let file = self.file.as_ref();
                file.is_some_and(|file| gone.iter().any(|path| path == file.path_of(shown)))
            }
            Viewing::Live | Viewing::Compare => false,
        };
        if !has_gone {
            return;
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.viewing == Viewing::File) {
            self.thrown = Some(file.path_of(self.shown_of_batch()).to_path_buf());
        }
        if self.viewing == Viewing::File
            && cx.page == Page::Watch
            && let Some(next) = next
        {
            return self.open(vec![next], cx);
        }
        let at = taken.unwrap_or(usize::MAX).min(queue.results.len());
        let neighbour = queue.results.get(at).or_else(|| queue.results.last());
        if let Some(id) = neighbour.map(|item| item.id) {
            self.choose_result(id, queue, cx);
        } else {
            self.show_live(queue, cx);
            self.screen.clear();
            self.choose(cx);
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
            self.shown_of(id)
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

    /// Leaves the full screen, or a comparison; whether there was one to leave.
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

/// Whether it does something with the frame that is shown.
fn is_of_frame(command: &PlayerCommand) -> bool {
    matches!(
        command,
        PlayerCommand::Toggle
            | PlayerCommand::Step(_)
            | PlayerCommand::ShowFrame(_)
            | PlayerCommand::SaveFrame
            | PlayerCommand::CopyFrame
            | PlayerCommand::UseFrame(_)
            | PlayerCommand::Zoom(_)
            | PlayerCommand::OwnSize
    )
}

fn copy_path(path: &Path, cx: &mut Cx) {
    cx.ctx.copy_text(path.display().to_string());
    cx.say("Path copied");
}
