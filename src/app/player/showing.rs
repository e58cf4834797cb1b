//! What the middle of the window shows: the running job, a result, a file, or two of them.
//!
//! The running job has it by itself; what its user chose to look at stays until they go back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egui::Context;
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::media::Picture;
use serde_json::json;

use crate::app::App;
use crate::app::background::Answer;
use crate::app::background::guard::survived;
use crate::app::player::commands::PlayerAnswer;
use crate::app::player::compare::{Compare, CompareMode, Side};
use crate::app::player::frames::Frames;
use crate::app::player::opening::{self, OpenedFile};
use crate::app::player::reading::Wake;
use crate::app::player::screen::Screen;
use crate::app::player::{Player, Playhead};
use crate::app::queue::RunningJob;
use crate::app::state::{Page, Severity, Viewing};

/// Pictures a second of an animated latent preview.
const PREVIEW_FPS: f64 = 4.0;

impl App {
    /// The place in whatever is shown.
    pub(in crate::app) fn playhead(&mut self, act: impl FnOnce(&mut Playhead)) {
        match self.session.viewing {
            Viewing::Live => {
                let growing = self.queue.running.as_mut();
                if let Some(player) = growing.and_then(|job| job.growing.as_mut()) {
                    act(&mut player.playhead);
                }
            }
            Viewing::Result(_) | Viewing::File => {
                if let Some(player) = &mut self.session.player {
                    act(&mut player.playhead);
                }
            }
            Viewing::Compare => {
                if let Some(compare) = &mut self.session.watch.compare {
                    act(&mut compare.playhead);
                }
            }
        }
    }

    /// Plays or pauses what can play.
    pub(in crate::app) fn toggle_play(&mut self) {
        let is_still = match self.session.viewing {
            Viewing::Result(_) | Viewing::File => {
                let player = self.session.player.as_ref();
                player.is_some_and(|player| !player.is_clip())
            }
            Viewing::Live | Viewing::Compare => false,
        };
        if !is_still {
            self.playhead(Playhead::toggle);
        }
    }

    /// Goes back to the running job.
    pub(in crate::app) fn show_live(&mut self) {
        self.let_go();
        self.session.viewing = Viewing::Live;
        if self.queue.running.is_none() {
            self.session.screen.clear();
        }
    }

    pub(in crate::app) fn show_result(&mut self, id: JobId) {
        let Some(item) = self.queue.result(id) else {
            return;
        };
        let clip = Arc::clone(&item.output.clip);
        let player = if item.is_pictures() {
            Player::of_pictures(clip)
        } else {
            Player::new(clip)
        };
        self.let_go();
        self.session.player = Some(player);
        self.session.viewing = Viewing::Result(id);
    }

    /// Drops what was shown; the threads of files end with it.
    fn let_go(&mut self) {
        let watch = &mut self.session.watch;
        watch.file = None;
        watch.zoom = Default::default();
        let shown = (watch.compare.take(), self.session.player.take());
        self.session.screen.stop();
        self.background.free(shown);
    }

    /// The user looks at something else: what is still on its way from disk is not wanted any more.
    pub(in crate::app) fn choose(&mut self, act: impl FnOnce(&mut Self)) {
        let watch = &mut self.session.watch;
        watch.wish += 1;
        watch.opening = None;
        act(self);
        self.session.queue.is_over = false;
        self.session.watch.is_chosen = self.session.viewing != Viewing::Live;
    }

    /// Opens a picture, a batch or a clip, and plays it.
    pub(in crate::app) fn play_file(&mut self, ctx: &Context, path: PathBuf) {
        let (wish, max_side, wake) = self.begin_opening(ctx, &path);
        self.background.spawn("open", move |postbox| {
            let opened = survived(|| opening::open(&path, max_side, &wake).map(Box::new));
            postbox.post(Answer::Player(PlayerAnswer::Opened(wish, opened)));
        });
    }

    /// Opens two files beside each other.
    pub(in crate::app) fn compare_files(&mut self, ctx: &Context, a: PathBuf, b: PathBuf) {
        let (wish, max_side, wake) = self.begin_opening(ctx, &a);
        self.background.spawn("open", move |postbox| {
            let opened = survived(|| {
                let a = opening::open(&a, max_side, &wake)?;
                Ok(Box::new([a, opening::open(&b, max_side, &wake)?]))
            });
            postbox.post(Answer::Player(PlayerAnswer::Compared(wish, opened)));
        });
    }

    fn begin_opening(&mut self, ctx: &Context, path: &Path) -> (u64, u32, Wake) {
        self.session.page = Page::Watch;
        self.session.queue.is_over = false;
        let watch = &mut self.session.watch;
        watch.wish += 1;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        watch.opening = Some(name.into_owned());
        let max_side = ctx.input(|input| input.max_texture_side) as u32;
        let ctx = ctx.clone();
        (
            watch.wish,
            max_side,
            Arc::new(move || ctx.request_repaint()),
        )
    }

    pub(super) fn take_opened_file(
        &mut self,
        wish: u64,
        opened: Result<Box<OpenedFile>, JobError>,
    ) {
        if let Some(opened) = self.of_wish(wish, opened) {
            let OpenedFile {
                file,
                frames,
                index,
            } = *opened;
            let mut player = Player::of_frames(frames, file.fps, file.is_clip);
            if index > 0 {
                player.show(index);
            }
            self.let_go();
            self.session.player = Some(player);
            self.session.watch.file = Some(file);
            self.session.watch.is_chosen = true;
            self.session.viewing = Viewing::File;
        }
    }

    pub(super) fn take_compared(
        &mut self,
        wish: u64,
        opened: Result<Box<[OpenedFile; 2]>, JobError>,
    ) {
        if let Some(opened) = self.of_wish(wish, opened) {
            let [a, b] = (*opened).map(OpenedFile::into_side);
            self.begin_compare(a, b, self.compare_mode());
        }
    }

    fn compare_mode(&self) -> CompareMode {
        let compare = self.session.watch.compare.as_ref();
        compare.map_or_else(CompareMode::default, |compare| compare.mode)
    }

    /// What was opened, unless something else was wished for since.
    fn of_wish<T>(&mut self, wish: u64, opened: Result<T, JobError>) -> Option<T> {
        if wish != self.session.watch.wish {
            return None;
        }
        self.session.watch.opening = None;
        opened
            .map_err(|err| self.session.notify(Severity::Error, err))
            .ok()
    }

    /// Puts a result beside what is shown.
    pub(super) fn compare_with(&mut self, id: JobId) {
        let mode = self.compare_mode();
        let shown = match (self.session.viewing, self.session.watch.compare.take()) {
            (Viewing::Compare, Some(compare)) => {
                let [a, _] = compare.sides;
                Some(a)
            }
            (Viewing::Result(shown), _) if shown != id => self.side_of_result(shown),
            (Viewing::File, _) => self.side_of_file(),
            _ => None,
        };
        match (shown, self.side_of_result(id)) {
            (Some(a), Some(b)) => self.begin_compare(a, b, mode),
            _ => self.show_result(id),
        }
    }

    fn begin_compare(&mut self, a: Side, b: Side, mode: CompareMode) {
        let watch = &mut self.session.watch;
        let mut compare = Compare::new(a, b);
        compare.mode = mode;
        watch.compare = Some(compare);
        watch.zoom = Default::default();
        watch.is_chosen = true;
        if self.session.viewing != Viewing::Compare {
            watch.before_compare = self.session.viewing;
        }
        self.session.viewing = Viewing::Compare;
    }

    /// Goes back to what was looked at before.
    pub(super) fn leave_compare(&mut self) {
        self.background.free(self.session.watch.compare.take());
        self.session.watch.zoom = Default::default();
        match self.session.watch.before_compare {
            Viewing::Result(id) if self.queue.result(id).is_some() => {
                if self.session.player.is_none() {
                    self.show_result(id);
                }
                self.session.viewing = Viewing::Result(id);
            }
            Viewing::File if self.session.watch.file.is_some() => {
                self.session.viewing = Viewing::File;
            }
            _ => match self.queue.results.last().map(|item| item.id) {
                Some(id) if self.queue.running.is_none() => self.show_result(id),
                _ => self.show_live(),
            },
        }
    }

    fn side_of_result(&self, id: JobId) -> Option<Side> {
        let item = self.queue.result(id)?;
        let first = if self.session.viewing == Viewing::Result(id) {
            self.session.shown_of_batch()
        } else {
            0
        };
        let path = item.path_of(first);
        Some(Side {
            title: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            request: Some(json!(item.request.of_one(first))),
            frames: Frames::Memory(Arc::clone(&item.output.clip)),
            fps: item.output.clip.fps,
            is_clip: !item.is_pictures(),
            first,
            screen: Screen::default(),
        })
    }

    fn side_of_file(&self) -> Option<Side> {
        let file = self.session.watch.file.as_ref()?;
        let player = self.session.player.as_ref()?;
        let opened = OpenedFile {
            file: file.clone(),
            frames: player.frames.clone(),
            index: if file.is_clip { 0 } else { player.index() },
        };
        Some(opened.into_side())
    }

    /// Puts the picture of this moment on the screen, and asks to be woken for the next one.
    pub(in crate::app) fn choose_picture(&mut self, ctx: &Context) {
        let (now, is_visible) = ctx.input(|input| {
            let viewport = input.viewport();
            let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
            (input.time, !is_hidden)
        });
        if !is_visible || self.session.page != Page::Watch {
            return;
        }
        let wait = match self.session.viewing {
            Viewing::Live => self.choose_live(ctx, now),
            Viewing::Result(_) | Viewing::File => self.choose_played(ctx, now),
            Viewing::Compare => self.session.watch.compare.as_mut().and_then(|compare| {
                let wait = compare.tick(now, self.state.playback);
                compare.show(ctx);
                wait
            }),
        };
        self.tell_failure();
        if let Some(secs) = wait {
            ctx.request_repaint_after(
                Duration::try_from_secs_f64(secs).unwrap_or(Duration::from_secs(1)),
            );
        }
    }

    fn choose_played(&mut self, ctx: &Context, now: f64) -> Option<f64> {
        let player = self.session.player.as_mut()?;
        player.set_playback(self.state.playback);
        let wait = player.tick(now);
        match player.picture() {
            Some(picture) => self.session.screen.show_picture(ctx, &picture),
            // The picture of something else must not stand there.
            None => self.session.screen.clear(),
        }
        wait
    }

    /// The clip so far, with what is in the making beside it; else that alone.
    fn choose_live(&mut self, ctx: &Context, now: f64) -> Option<f64> {
        let job = self.queue.running.as_mut()?;
        let Some(clip) = &mut job.growing else {
            let (picture, wait) = live_picture(job, now);
            if let Some(picture) = picture {
                self.session.screen.show_picture(ctx, picture);
            }
            self.session.watch.inset.clear();
            return wait;
        };
        clip.set_playback(self.state.playback);
        let wait = clip.tick(now);
        if let Some(picture) = clip.picture() {
            self.session.screen.show_picture(ctx, &picture);
        }
        let is_making = job.stage.is_some_and(|stage| stage.is_denoising());
        match job
            .preview((now * PREVIEW_FPS) as usize)
            .filter(|_| is_making)
        {
            Some(picture) => self.session.watch.inset.show_picture(ctx, picture),
            None => self.session.watch.inset.clear(),
        }
        wait
    }

    fn tell_failure(&mut self) {
        let watch = &self.session.watch;
        let of_compare = watch.compare.as_ref().and_then(Compare::take_failure);
        let of_player = self.session.player.as_ref().and_then(Player::take_failure);
        if let Some(err) = of_compare.or(of_player) {
            let err = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("What comes before the damage can be watched");
            self.session.notify(Severity::Warning, err);
        }
    }
}

/// The newest real frame, else the latents in a slow loop.
fn live_picture(job: &RunningJob, now_secs: f64) -> (Option<&Arc<Picture>>, Option<f64>) {
    if let Some(frame) = &job.frame {
        return (Some(&frame.picture), None);
    }
    let turn = now_secs * PREVIEW_FPS;
    let wait = (job.num_previews() > 1).then(|| (1.0 - turn.fract()) / PREVIEW_FPS + 0.02);
    (job.preview(turn as usize), wait)
}
