//! What the middle of the window shows: the running job, a result, a file, or two of them.
//!
//! The running job has it by itself; what its user chose to look at stays until they go back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::media::Picture;
use serde_json::json;

use crate::app::background::guard::survived;
use crate::app::cx::Cx;
use crate::app::notices::Severity;
use crate::app::player::compare::{Compare, CompareMode, Side};
use crate::app::player::frames::Frames;
use crate::app::player::opening::{self, OpenedFile};
use crate::app::player::reading::Wake;
use crate::app::player::screen::Screen;
use crate::app::player::{Opening, PlayedFile, Player, Playhead, SPEEDS, Viewing, Watch};
use crate::app::queue::{JobQueue, ResultItem, RunningJob};
use crate::app::state::Page;

/// Pictures a second of an animated latent preview.
const PREVIEW_FPS: f64 = 4.0;
/// A new clip is shown at least and at most so long, while the next job runs.
const MIN_SHOWING_SECS: f64 = 3.0;
const MAX_SHOWING_SECS: f64 = 20.0;

/// Whether it is a clip, of more than one frame.
fn is_playable(item: &ResultItem) -> bool {
    !item.is_pictures() && item.output.num_frames > 1
}

impl Watch {
    /// Nothing is shown in the middle of the window, and nothing is made.
    pub fn is_empty(&self, queue: &JobQueue) -> bool {
        self.viewing == Viewing::Live
            && queue.running.is_none()
            && self.opening.is_none()
            && self.screen.texture().is_none()
    }

    /// Goes along with the queue: looks at a job that begins, unless something else was chosen, and then at what came of
    /// it. A new clip plays through before the next job is looked at.
    pub(in crate::app) fn follow(&mut self, queue: &JobQueue, cx: &Cx) {
        let running = queue.running.as_ref().map(|job| job.id);
        if self.running != running {
            let before = std::mem::replace(&mut self.running, running);
            self.turn_to(running, before, queue, cx);
        }
        if running.is_some() && self.live_at.is_some_and(|at| cx.is_due(at)) {
            self.live_at = None;
            self.show_live(queue, cx);
            self.screen.clear();
        }
        // Nobody sees the way out of an empty one.
        self.is_full &= !self.is_empty(queue);
        self.is_full = self.full.follow(self.is_full, cx);
    }

    /// Another job runs now, or none.
    fn turn_to(
        &mut self,
        running: Option<JobId>,
        before: Option<JobId>,
        queue: &JobQueue,
        cx: &Cx,
    ) {
        let last = queue.results.last();
        let made = last.filter(|item| Some(item.id) == before);
        let is_free = !self.is_chosen && self.viewing != Viewing::Live;
        if running.is_some() {
            // It makes room for the job, as it does once it is shown.
            self.opening.take_if(|opening| opening.is_input);
        }
        if running.is_none() && self.viewing == Viewing::Live {
            // Its last preview stays until its result is ready to be shown.
            if made.is_none() {
                self.screen.clear();
            }
            // What was made may be a file that is being opened.
            if let Some(last) = last.filter(|_| self.opening.is_none()) {
                self.show_made(last, queue, cx);
            }
        } else if let Some(made) = made.filter(|_| running.is_none() && is_free) {
            self.show_made(made, queue, cx);
        } else if running.is_some() && !self.is_chosen {
            let plays_on = made.is_none() && self.live_at.is_some_and(|at| !cx.is_due(at));
            match made.filter(|item| is_playable(item)) {
                // The last job's clip: this one began some frames behind that job's end.
                _ if plays_on => {}
                Some(clip) if clip.is_in_memory() => self.show_made(clip, queue, cx),
                file => {
                    self.live_at = None;
                    self.show_live(queue, cx);
                    self.screen.clear();
                    if let Some(file) = file {
                        // It plays once it is open.
                        self.show_result(file.id, queue, cx);
                    }
                }
            }
        }
    }

    /// Shows what a job has just made; the next job is looked at once its clip has played.
    fn show_made(&mut self, item: &ResultItem, queue: &JobQueue, cx: &Cx) {
        self.show_result(item.id, queue, cx);
        let plays = item.is_in_memory() && is_playable(item);
        self.live_at = plays.then(|| cx.now_secs + self.showing_secs());
    }

    /// How long a new clip plays before the next job is looked at: once through.
    fn showing_secs(&self) -> f64 {
        let player = self.player.as_ref();
        let secs = player.map_or(0.0, |player| player.len() as f64 / player.fps());
        let secs = secs / self.playback.speed.max(SPEEDS[0]);
        secs.clamp(MIN_SHOWING_SECS, MAX_SHOWING_SECS)
    }

    /// The place in whatever is shown.
    pub(super) fn playhead(&mut self, queue: &mut JobQueue, act: impl FnOnce(&mut Playhead)) {
        let playhead = match self.viewing {
            Viewing::Live => {
                let job = queue.running.as_mut();
                let growing = job.and_then(|job| job.growing.as_mut());
                growing.map(|player| &mut player.playhead)
            }
            Viewing::Result(_) | Viewing::File => {
                self.player.as_mut().map(|player| &mut player.playhead)
            }
            Viewing::Compare => self.compare.as_mut().map(|it| &mut it.playhead),
        };
        if let Some(playhead) = playhead {
            act(playhead);
        }
    }

    /// Pictures are shown, which do not play.
    pub(super) fn is_still(&self) -> bool {
        let is_played = matches!(self.viewing, Viewing::Result(_) | Viewing::File);
        is_played && self.player.as_ref().is_some_and(|player| !player.is_clip())
    }

    /// Goes back to the running job.
    pub(super) fn show_live(&mut self, queue: &JobQueue, cx: &Cx) {
        self.let_go(cx);
        self.viewing = Viewing::Live;
        if queue.running.is_none() {
            self.screen.clear();
        }
    }

    /// Whether this is what the middle of the window shows.
    pub fn shows(&self, item: &ResultItem) -> bool {
        match self.viewing {
            Viewing::Result(id) => id == item.id,
            Viewing::File => {
                let file = self.file.as_ref();
                let is_it = |file: &PlayedFile| file.path_of(0) == item.output.path();
                !item.is_in_memory() && file.is_some_and(is_it)
            }
            Viewing::Live | Viewing::Compare => false,
        }
    }

    /// The user wants to look at this result.
    pub(super) fn choose_result(&mut self, id: JobId, queue: &JobQueue, cx: &mut Cx) {
        if queue.result(id).is_some_and(|item| !item.is_in_memory()) {
            self.choose(cx);
            self.show_result(id, queue, cx);
            self.made = None;
        } else {
            self.show_result(id, queue, cx);
            self.choose(cx);
        }
    }

    /// What is not in memory is shown as soon as its file is open.
    pub(super) fn show_result(&mut self, id: JobId, queue: &JobQueue, cx: &Cx) {
        let Some(item) = queue.result(id) else {
            return;
        };
        if !item.is_in_memory() {
            let path = item.output.path().to_owned();
            self.made = Some(path.clone());
            self.begin_opening(vec![path], cx);
            return;
        }
        let clip = Arc::clone(&item.output.clip);
        let player = if item.is_pictures() {
            Player::of_pictures(clip)
        } else {
            Player::new(clip)
        };
        self.let_go(cx);
        self.player = Some(player);
        self.viewing = Viewing::Result(id);
    }

    /// Drops what was shown; the threads of files end with it.
    fn let_go(&mut self, cx: &Cx) {
        self.file = None;
        self.zoom = Default::default();
        self.screen.stop();
        cx.background
            .free((self.compare.take(), self.player.take()));
    }

    /// The user looks at something else: what is still on its way from disk is not wanted any more.
    pub(super) fn choose(&mut self, cx: &mut Cx) {
        self.opening = None;
        self.live_at = None;
        cx.is_queue_over = false;
        self.is_chosen = self.viewing != Viewing::Live;
    }

    /// Opens a picture, a batch or a clip and plays it; or two of them, beside each other.
    pub(super) fn open(&mut self, paths: Vec<PathBuf>, cx: &mut Cx) {
        cx.page = Page::Watch;
        cx.is_queue_over = false;
        self.begin_opening(paths, cx);
    }

    fn begin_opening(&mut self, paths: Vec<PathBuf>, cx: &Cx) {
        let name = paths.first().and_then(|path| path.file_name());
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        let max_side = cx.ctx.input(|input| input.max_texture_side) as u32;
        let ctx = cx.ctx.clone();
        let wake: Wake = Arc::new(move || ctx.request_repaint());
        let files = cx.background.run("open", move || {
            let open = |path: &PathBuf| opening::open(path, max_side, &wake);
            survived(|| paths.iter().map(open).collect())
        });
        self.opening = Some(Opening {
            name,
            files,
            is_input: false,
        });
    }

    pub(super) fn take_opened(&mut self, cx: &mut Cx) {
        let Some(Opening { files, .. }) = &mut self.opening else {
            return;
        };
        let Some(opened) = files.take() else {
            if !files.is_busy() {
                self.opening = None;
            }
            return;
        };
        self.opening = None;
        let mut opened = match opened {
            Ok(opened) => opened.into_iter(),
            Err(err) => return cx.tell(Severity::Error, err),
        };
        match (opened.next(), opened.next()) {
            (Some(a), Some(b)) => {
                self.begin_compare(a.into_side(), b.into_side(), self.compare_mode());
            }
            (Some(file), None) => self.show_file(file, cx),
            (None, _) => {}
        }
    }

    fn show_file(&mut self, opened: OpenedFile, cx: &Cx) {
        let OpenedFile {
            file,
            frames,
            index,
        } = opened;
        let mut player = Player::of_frames(frames, file.fps, file.is_clip);
        if index > 0 {
            player.show(index);
        }
        self.let_go(cx);
        self.player = Some(player);
        // A picture of the form makes room for the job that starts from it, and what was made for the next job.
        let is_it = |path: &Option<PathBuf>| path.as_deref() == Some(file.path_of(0));
        let is_made = is_it(&self.made);
        self.is_chosen = !is_it(&self.input) && !is_made;
        self.file = Some(file);
        self.live_at = is_made.then(|| cx.now_secs + self.showing_secs());
        self.viewing = Viewing::File;
    }

    /// A picture has left the form: where it is looked at for that alone, what was made last is looked at again.
    pub(super) fn leave_input(&mut self, path: &Path, queue: &JobQueue, cx: &Cx) {
        if self.input.take_if(|input| input == path).is_none() {
            return;
        }
        self.opening = None;
        let is_shown = self
            .file
            .as_ref()
            .is_some_and(|file| file.path_of(0) == path);
        if self.viewing != Viewing::File || !is_shown {
            return;
        }
        match queue.results.last().map(|item| item.id) {
            Some(id) if queue.running.is_none() => self.show_result(id, queue, cx),
            _ => self.show_live(queue, cx),
        }
        self.is_chosen = false;
    }

    fn compare_mode(&self) -> CompareMode {
        self.compare
            .as_ref()
            .map_or_else(CompareMode::default, |compare| compare.mode)
    }

    /// Puts a result beside what is shown.
    pub(super) fn compare_with(&mut self, id: JobId, queue: &JobQueue, cx: &Cx) {
        let mode = self.compare_mode();
        let shown = match (self.viewing, self.compare.take()) {
            (Viewing::Compare, Some(compare)) => {
                let [a, _] = compare.sides;
                Some(a)
            }
            (Viewing::Result(shown), _) if shown != id => self.side_of_result(shown, queue),
            (Viewing::File, _) => self.side_of_file(),
            _ => None,
        };
        match (shown, self.side_of_result(id, queue)) {
            (Some(a), Some(b)) => self.begin_compare(a, b, mode),
            _ => self.show_result(id, queue, cx),
        }
    }

    fn begin_compare(&mut self, a: Side, b: Side, mode: CompareMode) {
        let mut compare = Compare::new(a, b);
        compare.mode = mode;
        self.compare = Some(compare);
        self.zoom = Default::default();
        self.is_chosen = true;
        self.live_at = None;
        if self.viewing != Viewing::Compare {
            self.before_compare = self.viewing;
        }
        self.viewing = Viewing::Compare;
    }

    /// Goes back to what was looked at before.
    pub(super) fn leave_compare(&mut self, queue: &JobQueue, cx: &mut Cx) {
        cx.background.free(self.compare.take());
        self.zoom = Default::default();
        match self.before_compare {
            Viewing::Result(id) if queue.result(id).is_some() => {
                if self.player.is_none() {
                    self.show_result(id, queue, cx);
                }
                self.viewing = Viewing::Result(id);
            }
            Viewing::File if self.file.is_some() => self.viewing = Viewing::File,
            _ => match queue.results.last().map(|item| item.id) {
                Some(id) if queue.running.is_none() => self.show_result(id, queue, cx),
                _ => self.show_live(queue, cx),
            },
        }
        self.choose(cx);
    }

    fn side_of_result(&self, id: JobId, queue: &JobQueue) -> Option<Side> {
        let item = queue.result(id).filter(|item| item.is_in_memory())?;
        let first = if self.viewing == Viewing::Result(id) {
            self.shown_of_batch()
        } else {
            0
        };
        let title = item.path_of(first).file_name().unwrap_or_default();
        Some(Side {
            title: title.to_string_lossy().into_owned(),
            request: item.generated(first).map(|request| json!(request)),
            frames: Frames::Memory(Arc::clone(&item.output.clip)),
            fps: item.output.clip.fps,
            is_clip: !item.is_pictures(),
            first,
            screen: Screen::default(),
        })
    }

    fn side_of_file(&self) -> Option<Side> {
        let file = self.file.as_ref()?;
        let player = self.player.as_ref()?;
        let opened = OpenedFile {
            file: file.clone(),
            frames: player.frames.clone(),
            index: if file.is_clip { 0 } else { player.index() },
        };
        Some(opened.into_side())
    }

    /// Puts the picture of this moment on the screen, and asks to be woken for the next one.
    pub(in crate::app) fn show(&mut self, queue: &mut JobQueue, cx: &mut Cx) {
        let (now, is_visible) = cx.ctx.input(|input| {
            let viewport = input.viewport();
            let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
            (input.time, !is_hidden)
        });
        if !is_visible || cx.page != Page::Watch {
            return;
        }
        let wait = match self.viewing {
            Viewing::Live => self.show_growing(queue, now, cx),
            Viewing::Result(_) | Viewing::File => self.show_played(now, cx),
            Viewing::Compare => self.compare.as_mut().and_then(|compare| {
                let wait = compare.tick(now, self.playback);
                compare.show(&cx.ctx);
                wait
            }),
        };
        self.tell_failure(cx);
        if let Some(secs) = wait {
            cx.wake_in(secs);
        }
    }

    fn show_played(&mut self, now: f64, cx: &Cx) -> Option<f64> {
        let player = self.player.as_mut()?;
        player.set_playback(self.playback);
        let wait = player.tick(now);
        match player.picture() {
            Some(picture) => self.screen.show_picture(&cx.ctx, &picture),
            // The picture of something else must not stand there.
            None => self.screen.clear(),
        }
        wait
    }

    /// The clip so far, with what is in the making beside it; else that alone.
    fn show_growing(&mut self, queue: &mut JobQueue, now: f64, cx: &Cx) -> Option<f64> {
        let job = queue.running.as_mut()?;
        let Some(clip) = &mut job.growing else {
            let (picture, wait) = live_picture(job, now);
            if let Some(picture) = picture {
                self.screen.show_picture(&cx.ctx, picture);
            }
            self.inset.clear();
            return wait;
        };
        clip.set_playback(self.playback);
        let wait = clip.tick(now);
        if let Some(picture) = clip.picture() {
            self.screen.show_picture(&cx.ctx, &picture);
        }
        let is_making = job.stage.is_some_and(|stage| stage.is_denoising());
        let preview = job.preview((now * PREVIEW_FPS) as usize);
        match preview.filter(|_| is_making) {
            Some(picture) => self.inset.show_picture(&cx.ctx, picture),
            None => self.inset.clear(),
        }
        wait
    }

    fn tell_failure(&self, cx: &mut Cx) {
        let of_compare = self.compare.as_ref().and_then(Compare::take_failure);
        let of_player = self.player.as_ref().and_then(Player::take_failure);
        if let Some(err) = of_compare.or(of_player) {
            let err = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("The part before the damage can be played");
            cx.tell(Severity::Warning, err);
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
