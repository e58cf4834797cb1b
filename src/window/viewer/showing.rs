//! Choice of what the viewer shows: the running job, a result, a file, or two of them.
//!
//! The running job is shown unless the user chose something else; that stays until they go back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::window::background::survived;
use crate::window::prelude::*;
use crate::window::queue::{JobQueue, ResultItem, RunningJob};
use crate::window::viewer::compare::ResultComparison;
use crate::window::viewer::media;
use crate::window::viewer::reading::ViewerWake;
use crate::window::viewer::{
    FramePlayer, OpeningMedia, PlaybackPosition, ResultViewer, SPEEDS, ViewerMode,
};

const PREVIEW_FPS: f64 = 4.0;
/// Least and most time that a new video is shown while the next job runs.
const MIN_SHOWING_SECS: f64 = 3.0;
const MAX_SHOWING_SECS: f64 = 20.0;

fn is_playable(item: &ResultItem) -> bool {
    !item.is_images() && item.output.num_frames > 1
}

impl ResultViewer {
    pub fn is_empty(&self, queue: &JobQueue) -> bool {
        self.mode == ViewerMode::Live
            && queue.running.is_empty()
            && self.opening.is_none()
            && self.texture.handle().is_none()
    }

    /// Follows the queue: shows a job that begins, unless something else was chosen, and then its result. A new video
    /// plays through before the next job is shown.
    pub(in crate::window) fn follow(&mut self, queue: &JobQueue, cx: &AppContext) {
        let running = queue.live().map(|job| job.id);
        if self.running != running {
            let before = std::mem::replace(&mut self.running, running);
            self.turn_to(running, before, queue, cx);
        }
        if running.is_some() && self.live_at.is_some_and(|at| cx.is_due(at)) {
            self.live_at = None;
            self.show_live(queue, cx);
            self.texture.clear();
        }
        // An empty one has no button that leaves it.
        self.is_full &= !self.is_empty(queue);
        self.is_full = self.full.follow(self.is_full, cx);
    }

    fn turn_to(
        &mut self,
        running: Option<JobId>,
        before: Option<JobId>,
        queue: &JobQueue,
        cx: &AppContext,
    ) {
        let last = queue.results.last();
        let made = last.filter(|item| Some(item.id) == before);
        let is_free = !self.is_chosen && self.mode != ViewerMode::Live;
        if running.is_some() {
            // An input image makes room for the job.
            let input = self.input.as_ref();
            self.opening.take_if(|it| Some(&it.path) == input);
        }
        if running.is_none() && self.mode == ViewerMode::Live {
            // The last preview stays until the result is ready to be shown.
            if made.is_none() {
                self.texture.clear();
            }
            // The result may be a file that is being opened.
            if let Some(last) = last.filter(|_| self.opening.is_none()) {
                self.show_made(last, queue, cx);
            }
        } else if let Some(made) = made.filter(|_| running.is_none() && is_free) {
            self.show_made(made, queue, cx);
        } else if running.is_some() && !self.is_chosen {
            let plays_on = made.is_none() && self.live_at.is_some_and(|at| !cx.is_due(at));
            match made.filter(|item| is_playable(item)) {
                // The last job's video: this job began some frames after that one's end.
                _ if plays_on => {}
                Some(video) if video.is_in_memory => self.show_made(video, queue, cx),
                file => {
                    self.live_at = None;
                    self.show_live(queue, cx);
                    self.texture.clear();
                    if let Some(file) = file {
                        // It plays once it is open.
                        self.show_result(file.id, queue, cx);
                    }
                }
            }
        }
    }

    /// Shows a new result; the next job is shown once its video has played.
    fn show_made(&mut self, item: &ResultItem, queue: &JobQueue, cx: &AppContext) {
        self.show_result(item.id, queue, cx);
        let plays = item.is_in_memory && is_playable(item);
        self.live_at = plays.then(|| cx.now_secs + self.showing_secs());
    }

    /// Seconds that a new video plays before the next job is shown: once through.
    fn showing_secs(&self) -> f64 {
        let player = self.player.as_ref();
        let secs = player.map_or(0.0, |player| {
            player.num_frames() as f64 / player.playhead.fps()
        });
        let secs = secs / self.playback.speed.max(SPEEDS[0]);
        secs.clamp(MIN_SHOWING_SECS, MAX_SHOWING_SECS)
    }

    /// Of the running job so far, a result or a file; `None` for a comparison.
    pub fn shown_player<'a>(&'a self, queue: &'a JobQueue) -> Option<&'a FramePlayer> {
        match self.mode {
            ViewerMode::Live => queue.live()?.growing.as_ref(),
            ViewerMode::Result(_) | ViewerMode::File => self.player.as_ref(),
            ViewerMode::Compare => None,
        }
    }

    pub(super) fn playhead_mut<'a>(
        &'a mut self,
        queue: &'a mut JobQueue,
    ) -> Option<&'a mut PlaybackPosition> {
        Some(match self.mode {
            ViewerMode::Live => &mut queue.live_mut()?.growing.as_mut()?.playhead,
            ViewerMode::Result(_) | ViewerMode::File => &mut self.player.as_mut()?.playhead,
            ViewerMode::Compare => &mut self.compare.as_mut()?.playhead,
        })
    }

    /// Shows the job of a device.
    pub(super) fn watch(&mut self, device_name: String, queue: &mut JobQueue, cx: &mut AppContext) {
        queue.watched = device_name;
        self.show_live(queue, cx);
        self.choose(cx);
        self.texture.clear();
    }

    pub(super) fn show_live(&mut self, queue: &JobQueue, cx: &AppContext) {
        self.let_go(cx);
        self.mode = ViewerMode::Live;
        if queue.running.is_empty() {
            self.texture.clear();
        }
    }

    pub fn shows(&self, item: &ResultItem) -> bool {
        self.media().is_some_and(|media| {
            let is_its_file = !item.is_in_memory && media.path_of(0) == item.output.path();
            media.job == Some(item.id) || is_its_file
        })
    }

    pub(super) fn choose_result(&mut self, id: JobId, queue: &JobQueue, cx: &mut AppContext) {
        if queue.result(id).is_some_and(|item| !item.is_in_memory) {
            self.choose(cx);
            self.show_result(id, queue, cx);
            self.made = None;
        } else {
            self.show_result(id, queue, cx);
            self.choose(cx);
        }
    }

    /// Shows a result; one that is not in memory as soon as its file is open.
    pub(super) fn show_result(&mut self, id: JobId, queue: &JobQueue, cx: &AppContext) {
        let Some(item) = queue.result(id) else {
            return;
        };
        if !item.is_in_memory {
            let path = item.output.path().to_owned();
            self.made = Some(path.clone());
            self.begin_opening(vec![path], cx);
            return;
        }
        self.let_go(cx);
        self.player = Some(FramePlayer::of_result(item));
        self.mode = ViewerMode::Result(id);
    }

    /// Drops what is shown; the threads of files end with it.
    fn let_go(&mut self, cx: &AppContext) {
        self.zoom = Default::default();
        self.texture.stop();
        cx.background
            .free((self.compare.take(), self.player.take()));
    }

    /// Keeps what is shown, as the user chose it, and abandons the file that is being opened.
    pub(super) fn choose(&mut self, cx: &mut AppContext) {
        self.opening = None;
        self.live_at = None;
        cx.is_queue_over = false;
        self.is_chosen = self.mode != ViewerMode::Live;
    }

    /// Opens an image, batch or video and plays it; two of them are compared.
    pub(super) fn open(&mut self, paths: Vec<PathBuf>, cx: &mut AppContext) {
        cx.page = MainPage::Watch;
        cx.is_queue_over = false;
        self.begin_opening(paths, cx);
    }

    fn begin_opening(&mut self, paths: Vec<PathBuf>, cx: &AppContext) {
        let path = paths.first().cloned().unwrap_or_default();
        let max_side = cx.ctx.input(|input| input.max_texture_side) as u32;
        let ctx = cx.ctx.clone();
        let wake: ViewerWake = Arc::new(move || ctx.request_repaint());
        let files = cx.background.run("open", move || {
            let open = |path: &PathBuf| media::open(path, max_side, &wake);
            survived(|| paths.iter().map(open).collect())
        });
        self.opening = Some(OpeningMedia { path, files });
    }

    pub(super) fn take_opened(&mut self, cx: &mut AppContext) {
        let Some(OpeningMedia { files, .. }) = &mut self.opening else {
            return;
        };
        let opened = files.take();
        if opened.is_none() && files.is_busy() {
            return;
        }
        self.opening = None;
        let mut opened = match opened.unwrap_or(Ok(Vec::new())) {
            Ok(opened) => opened.into_iter(),
            Err(err) => return cx.notify(NoticeSeverity::Error, err),
        };
        match (opened.next(), opened.next()) {
            (Some(a), Some(b)) => self.begin_compare(a, b),
            (Some(file), None) => self.show_file(file, cx),
            (None, _) => {}
        }
    }

    fn show_file(&mut self, player: FramePlayer, cx: &AppContext) {
        self.let_go(cx);
        // An input image makes room for the job that starts from it, and a result for the next job.
        let is_it = |path: &Option<PathBuf>| path.as_deref() == Some(player.media.path_of(0));
        let is_made = is_it(&self.made);
        self.is_chosen = !is_it(&self.input) && !is_made;
        self.player = Some(player);
        self.live_at = is_made.then(|| cx.now_secs + self.showing_secs());
        self.mode = ViewerMode::File;
    }

    /// Shows the last result again where an input image is shown that has left the form.
    pub(super) fn leave_input(&mut self, path: &Path, queue: &JobQueue, cx: &AppContext) {
        if self.input.take_if(|input| input == path).is_none() {
            return;
        }
        self.opening = None;
        let is_shown = self.media().is_some_and(|media| media.path_of(0) == path);
        if self.mode != ViewerMode::File || !is_shown {
            return;
        }
        self.show_newest(queue, cx);
        self.is_chosen = false;
    }

    /// Shows the running job, else the last result.
    fn show_newest(&mut self, queue: &JobQueue, cx: &AppContext) {
        match queue.results.last() {
            Some(item) if queue.running.is_empty() => self.show_result(item.id, queue, cx),
            _ => self.show_live(queue, cx),
        }
    }

    pub(super) fn compare_with(&mut self, id: JobId, queue: &JobQueue, cx: &AppContext) {
        let shown = match (self.mode, &self.compare) {
            (ViewerMode::Compare, Some(compare)) => Some(&compare.sides[0].player),
            (ViewerMode::Result(shown), _) if shown == id => None,
            _ => self.media().and(self.player.as_ref()),
        };
        let other = queue.result(id).filter(|item| item.is_in_memory);
        match (shown.cloned(), other) {
            (Some(a), Some(b)) => self.begin_compare(a, FramePlayer::of_result(b)),
            _ => self.show_result(id, queue, cx),
        }
    }

    fn begin_compare(&mut self, a: FramePlayer, b: FramePlayer) {
        let mut compare = ResultComparison::new(a, b);
        if let Some(before) = &self.compare {
            compare.mode = before.mode;
        }
        self.compare = Some(compare);
        self.zoom = Default::default();
        self.is_chosen = true;
        self.live_at = None;
        if self.mode != ViewerMode::Compare {
            self.before_compare = self.mode;
        }
        self.mode = ViewerMode::Compare;
    }

    pub(super) fn leave_compare(&mut self, queue: &JobQueue, cx: &mut AppContext) {
        cx.background.free(self.compare.take());
        self.zoom = Default::default();
        match self.before_compare {
            ViewerMode::Result(id) if queue.result(id).is_some() => {
                if self.player.is_none() {
                    self.show_result(id, queue, cx);
                }
                self.mode = ViewerMode::Result(id);
            }
            ViewerMode::File if self.player.is_some() => self.mode = ViewerMode::File,
            _ => self.show_newest(queue, cx),
        }
        self.choose(cx);
    }

    /// Shows the frame of this moment, and has the window woken for the next one.
    pub(in crate::window) fn show(&mut self, queue: &mut JobQueue, cx: &mut AppContext) {
        let (now, is_visible) = cx.ctx.input(|input| {
            let viewport = input.viewport();
            let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
            (input.time, !is_hidden)
        });
        let plays = matches!(self.mode, ViewerMode::Result(_) | ViewerMode::File);
        if !is_visible || cx.page != MainPage::Watch || !plays {
            self.sound.stop();
        }
        if !is_visible || cx.page != MainPage::Watch {
            return;
        }
        let wait = match self.mode {
            ViewerMode::Live => self.show_growing(queue, now, cx),
            ViewerMode::Result(_) | ViewerMode::File => self.show_played(now, cx),
            ViewerMode::Compare => self.compare.as_mut().and_then(|compare| {
                let wait = compare.tick(now, self.playback);
                compare.show(cx);
                wait
            }),
        };
        self.tell_failure(cx);
        if let Some(secs) = wait {
            cx.wake_in(secs);
        }
    }

    fn show_played(&mut self, now: f64, cx: &mut AppContext) -> Option<f64> {
        let player = self.player.as_mut()?;
        let heard = self.sound.follow(player, self.playback, cx);
        let wait = player.tick(now, self.playback, heard);
        match player.image() {
            Some(image) => self.texture.show_image(cx, &image),
            // An image of something else must not stay.
            None => self.texture.clear(),
        }
        wait
    }

    /// Shows the video so far with the newest preview in the inset, else the preview alone.
    fn show_growing(&mut self, queue: &mut JobQueue, now: f64, cx: &AppContext) -> Option<f64> {
        let job = queue.live_mut()?;
        let Some(video) = &mut job.growing else {
            let (image, wait) = live_image(job, now);
            if let Some(image) = image {
                self.texture.show_image(cx, image);
            }
            self.inset.clear();
            return wait;
        };
        let wait = video.tick(now, self.playback, None);
        if let Some(image) = video.image() {
            self.texture.show_image(cx, &image);
        }
        let is_making = job.stage.is_some_and(|stage| stage.is_denoising());
        let preview = job.preview((now * PREVIEW_FPS) as usize);
        match preview.filter(|_| is_making) {
            Some(image) => self.inset.show_image(cx, image),
            None => self.inset.clear(),
        }
        wait
    }

    fn tell_failure(&self, cx: &mut AppContext) {
        let compared = self.compare.iter().flat_map(|it| &it.sides);
        let mut players = compared.map(|side| &side.player).chain(&self.player);
        if let Some(err) = players.find_map(|player| player.frames.take_failure()) {
            let err = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("The part before the damage can be played");
            cx.notify(NoticeSeverity::Warning, err);
        }
    }
}

/// The newest real frame, else the latents in a slow loop.
fn live_image(job: &RunningJob, now_secs: f64) -> (Option<&Arc<RgbPixels>>, Option<f64>) {
    if let Some(frame) = &job.frame {
        return (Some(&frame.image), None);
    }
    let turn = now_secs * PREVIEW_FPS;
    let wait = (job.num_previews() > 1).then(|| (1.0 - turn.fract()) / PREVIEW_FPS + 0.02);
    (job.preview(turn as usize), wait)
}
