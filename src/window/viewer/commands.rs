//! The viewer's commands, and the actions on the frame that is shown: save as a file, copy, use as input image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{SeedMode, random_seed};
use safelight_core::media::{self, MediaErrorKind, VideoOptions, VideoWriter};
use safelight_core::naming;
use safelight_core::presets::QualityPreset;
use serde_json::Value;

use crate::window::create::choices::{ContinuedResult, PresetKey, RemakeKind};

use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::state::color_image;
use crate::window::viewer::zoom::ZoomLevel;
use crate::window::viewer::{PlaybackPosition, ResultViewer, ViewerMode};

impl ResultViewer {
    pub fn update(&mut self, command: PlayerCommand, queue: &mut JobQueue, cx: &mut AppContext) {
        let goes_on = self.running.is_some() || queue.will_go_on();
        if is_of_frame(&command) && goes_on && self.live_at.take().is_some() {
            // Somebody who uses a video while jobs run, or between two, wants to keep it.
            self.is_chosen = true;
        }
        match command {
            PlayerCommand::ShowResult(id) => self.choose_result(id, queue, cx),
            PlayerCommand::ShowLive => {
                self.show_live(queue, cx);
                self.choose(cx);
            }
            PlayerCommand::Watch(device_name) => self.watch(device_name, queue, cx),
            PlayerCommand::FollowJobs => self.is_chosen = false,
            PlayerCommand::PlayFile(path) => self.open(vec![path], cx),
            PlayerCommand::ShowSheet(path) => {
                if queue.running.is_empty() && !self.is_chosen && !self.is_full {
                    self.open(vec![path], cx);
                }
            }
            PlayerCommand::ShowInput(path) => {
                if queue.running.is_empty() {
                    self.input = Some(path.clone());
                    self.open(vec![path], cx);
                }
            }
            PlayerCommand::LeaveInput(path) => self.leave_input(&path, queue, cx),
            PlayerCommand::CompareFiles(a, b) => self.open(vec![a, b], cx),
            PlayerCommand::Toggle => {
                if self.media().is_none_or(|media| media.is_video) {
                    self.play(queue, PlaybackPosition::toggle);
                }
            }
            PlayerCommand::Step(by) => self.play(queue, |playhead| playhead.step(by)),
            PlayerCommand::ShowFrame(index) => self.play(queue, |playhead| playhead.show(index)),
            PlayerCommand::Trim(first, last) => self.trim(|it| it.trim(first, last)),
            PlayerCommand::TrimHere(true) => self.trim(|it| it.trim(Some(it.index()), None)),
            PlayerCommand::TrimHere(false) => self.trim(|it| it.trim(None, Some(it.index()))),
            PlayerCommand::ResetTrim => self.trim(|it| it.trim(Some(0), Some(usize::MAX))),
            PlayerCommand::Export(format) => self.export(format, cx),
            PlayerCommand::UseSettingsOf(id) => {
                if let Some(request) = self.request_of(id, queue) {
                    cx.push(InputsCommand::TakeOver(Box::new(request)));
                }
            }
            PlayerCommand::Remake(id, kind) => {
                if let Some(request) = self.request_of(id, queue) {
                    remake(request, kind, cx);
                }
            }
            PlayerCommand::ContinueFrom(id) => self.continue_from(id, queue, cx),
            PlayerCommand::CopyPath => {
                if let Some(path) = self.shown_path() {
                    cx.push(DesktopCommand::CopyText(path.display().to_string()));
                    cx.say("Path copied");
                }
            }
            PlayerCommand::ToggleMute => self.sound.volume.is_muted ^= true,
            PlayerCommand::NextRepeat => self.playback.repeat = self.playback.repeat.next(),
            PlayerCommand::ToggleFull => {
                // On another page nothing of it is seen.
                self.is_full = !self.is_full || cx.page != MainPage::Watch;
                cx.page = MainPage::Watch;
            }
            PlayerCommand::LeaveFull => self.is_full = false,
            PlayerCommand::Zoom(zoom) => self.zoom = zoom,
            PlayerCommand::OwnSize => self.zoom = ZoomLevel::own_size(cx.ctx.pixels_per_point()),
            PlayerCommand::CompareWith(id) => {
                if let Some(item) = queue.result(id).filter(|item| !item.is_in_memory) {
                    let path = item.output.path().to_owned();
                    let shown = self.shown_path().filter(|shown| *shown != path);
                    let paths = shown.map(Path::to_path_buf).into_iter().chain([path]);
                    self.open(paths.collect(), cx);
                } else {
                    self.compare_with(id, queue, cx);
                    self.choose(cx);
                }
            }
            PlayerCommand::LeaveCompare => self.leave_compare(queue, cx),
            PlayerCommand::MoveDivider(by) => {
                if let Some(compare) = &mut self.compare {
                    compare.divider = (compare.divider + by).clamp(0.0, 1.0);
                }
            }
            PlayerCommand::Finish(action) => {
                if let Some(path) = self.shown_path() {
                    cx.push(FinishCommand::Make(path.to_path_buf(), action));
                }
            }
            PlayerCommand::SaveFrame => {
                if let Some(frame) = self.shown_frame(queue) {
                    let saving = cx.on_files("the frame was not saved", move || {
                        save(&frame).map(|path| (frame.index + 1, path))
                    });
                    self.saving.add(saving);
                }
            }
            PlayerCommand::CopyFrame => {
                if let Some(frame) = self.shown_frame(queue) {
                    cx.ctx.copy_image(color_image(&frame.image));
                    cx.say(format!("Frame {} copied", frame.index + 1));
                }
            }
            PlayerCommand::UseFrame(slot) => {
                if let Some(frame) = self.shown_frame(queue) {
                    let folder = folder_for(&frame.path, cx);
                    cx.push(InputsCommand::Take(slot, frame.image, folder));
                }
            }
            PlayerCommand::UseEnd(slot, is_last) => self.use_end(slot, is_last, cx),
            PlayerCommand::Delete => {
                if let Some(media) = self.media() {
                    cx.push(GalleryCommand::Trash(
                        media.trash_requests(self.batch_index()),
                    ));
                }
            }
            PlayerCommand::Gone(gone, next) => self.follow_files(&gone, next, queue, cx),
        }
    }

    fn play(&mut self, queue: &mut JobQueue, act: impl FnOnce(&mut PlaybackPosition)) {
        if let Some(playhead) = self.playhead_mut(queue) {
            act(playhead);
        }
    }

    fn trim(&mut self, act: impl FnOnce(&mut PlaybackPosition)) {
        if let (true, Some(player)) = (self.trimmed().is_some(), &mut self.player) {
            act(&mut player.playhead);
        }
    }

    /// Request of a result, of a batch that of the image that is shown.
    fn request_of(&self, id: JobId, queue: &JobQueue) -> Option<GenerateRequest> {
        let item = queue.result(id)?;
        match self.shown_of(id) {
            Some(shown) => item.generated(shown),
            None => item.request.generate().cloned(),
        }
    }

    /// Index of the image of this result that is shown; `None` if something else is shown.
    fn shown_of(&self, id: JobId) -> Option<usize> {
        (self.mode == ViewerMode::Result(id)).then(|| self.batch_index())
    }

    /// `None` for a running job and a comparison.
    fn shown_path(&self) -> Option<&Path> {
        let shown = self.batch_index();
        self.media().map(|media| media.path_of(shown))
    }

    /// Removes results whose files are in the trash and restores those whose files are there again; what is shown
    /// goes with its file, and the next result is shown instead.
    fn follow_files(
        &mut self,
        gone: &[PathBuf],
        next: Option<PathBuf>,
        queue: &mut JobQueue,
        cx: &mut AppContext,
    ) {
        let (taken, back) = queue.follow_files(gone, cx);
        if let Some(id) = back {
            self.choose_result(id, queue, cx);
            return;
        }
        if let Some(path) = self.thrown.take_if(|path| !gone.contains(path)) {
            if cx.page == MainPage::Watch {
                self.open(vec![path], cx);
            }
            return;
        }
        match (self.mode, self.shown_path()) {
            (ViewerMode::Result(id), _) if queue.result(id).is_none() => {}
            (ViewerMode::File, Some(shown)) if gone.iter().any(|path| path == shown) => {
                self.thrown = Some(shown.to_path_buf());
                if let Some(next) = next.filter(|_| cx.page == MainPage::Watch) {
                    return self.open(vec![next], cx);
                }
            }
            _ => return,
        }
        let at = taken.unwrap_or(usize::MAX).min(queue.results.len());
        let neighbour = queue.results.get(at).or_else(|| queue.results.last());
        if let Some(id) = neighbour.map(|item| item.id) {
            self.choose_result(id, queue, cx);
        } else {
            self.show_live(queue, cx);
            self.texture.clear();
            self.choose(cx);
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        self.take_opened(cx);
        while let Some(saved) = self.saving.take() {
            tell(saved, cx);
        }
        self.poll_export(cx);
    }

    /// Extends a finished video, or makes the image that is shown the start image.
    fn continue_from(&self, id: JobId, queue: &JobQueue, cx: &mut AppContext) {
        let Some(item) = queue.result(id) else {
            return;
        };
        let frames = &item.output.video.frames;
        let is_video = !item.is_images() && frames.len() > 1;
        let shown = if is_video {
            frames.len() - 1
        } else {
            self.shown_of(id).unwrap_or(0)
        };
        if let Some(frame) = frames.get(shown) {
            let path = item.path_of(shown).to_path_buf();
            cx.push(InputsCommand::Continue(ContinuedResult {
                folder: folder_for(&path, cx),
                path,
                frame: Arc::clone(frame),
                is_video,
            }));
        }
    }

    /// Leaves the full screen, or a comparison. Returns `false` when there was neither.
    pub(in crate::window) fn leave(&mut self, queue: &JobQueue, cx: &mut AppContext) -> bool {
        let is_seen = cx.page == MainPage::Watch;
        if is_seen && std::mem::take(&mut self.is_full) {
            return true;
        }
        let is_compared = is_seen && self.mode == ViewerMode::Compare;
        if is_compared {
            self.leave_compare(queue, cx);
        }
        is_compared
    }

    /// `None` for a comparison, which shows two.
    fn shown_frame(&self, queue: &JobQueue) -> Option<ShownFrame> {
        let player = self.shown_player(queue)?;
        let path = match self.mode {
            ViewerMode::Live => queue.live()?.request.out(),
            _ => player.path(),
        };
        Some(ShownFrame {
            image: player.exact()?,
            index: player.index(),
            path: path.to_path_buf(),
        })
    }
}

fn is_of_frame(command: &PlayerCommand) -> bool {
    matches!(
        command,
        PlayerCommand::Toggle
            | PlayerCommand::Step(_)
            | PlayerCommand::ShowFrame(_)
            | PlayerCommand::SaveFrame
            | PlayerCommand::CopyFrame
            | PlayerCommand::UseFrame(_)
            | PlayerCommand::UseEnd(..)
            | PlayerCommand::Trim(..)
            | PlayerCommand::TrimHere(_)
            | PlayerCommand::Export(_)
            | PlayerCommand::Zoom(_)
            | PlayerCommand::OwnSize
    )
}

struct ShownFrame {
    image: Arc<RgbPixels>,
    index: usize,
    path: PathBuf,
}

/// Folder for a frame of this file that becomes an input.
pub(in crate::window) fn folder_for(path: &Path, cx: &AppContext) -> PathBuf {
    match &cx.paths {
        Some(paths) => paths.data.join("pasted"),
        None => path.with_file_name(""),
    }
}

/// Reports a saved frame by its number, counted from 1, or the error.
pub(super) fn tell(saved: Result<(usize, PathBuf), MediaError>, cx: &mut AppContext) {
    let (number, path) = match saved {
        Ok(saved) => saved,
        Err(err) => return cx.notify(NoticeSeverity::Warning, save_error(&err)),
    };
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let text = format!("frame {number} is saved as {}", file_name(&path));
    let advice = format!("In the folder {}", folder.display());
    cx.notices.show(UserNotice::info(text, advice));
    cx.say(format!("Frame {number} saved: {}", path.display()));
}

/// Writes the frame next to its video, with the video's settings and its own number.
fn save(frame: &ShownFrame) -> Result<PathBuf, MediaError> {
    let folder = frame.path.parent().unwrap_or_else(|| Path::new(""));
    let stem = frame.path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = format!("{stem}_frame_{:04}", frame.index + 1);
    let path = naming::free_path(folder, &stem, "png");
    let options = VideoOptions {
        settings: settings_of_frame(&frame.path, frame.index + 1),
        keeps_others: true,
        ..VideoOptions::default()
    };
    let mut writer = VideoWriter::create(&path, options)?;
    writer.push(&frame.image)?;
    Ok(writer.finish()?.pop().unwrap_or(path))
}

/// The video's settings with the number of the frame; `None` where it has none, or is gone.
fn settings_of_frame(path: &Path, number: usize) -> Option<String> {
    let text = media::read_settings(path).ok()??;
    let mut settings: Value = serde_json::from_str(&text).ok()?;
    settings
        .as_object_mut()?
        .insert("frame".to_owned(), number.into());
    Some(settings.to_string())
}

fn save_error(err: &MediaError) -> JobError {
    let advice = if err.kind == MediaErrorKind::DiskFull {
        "Free some space, then save the frame again"
    } else {
        "Copy the frame instead, and paste it into another program"
    };
    JobError::from_error(JobErrorKind::Disk, err).advise(advice)
}

fn remake(mut request: GenerateRequest, kind: RemakeKind, cx: &mut AppContext) {
    let seed = request.seed;
    match kind {
        RemakeKind::SameSeed => {
            cx.form.set_seed(seed);
            cx.form.seed_mode = SeedMode::Fixed;
            cx.is_seed_used = false;
            cx.say(format!("The seed is locked: {seed}"));
        }
        RemakeKind::Vary => {
            request.seed = random_seed();
            cx.push(InputsCommand::TakeOver(Box::new(request)));
            cx.push(QueueCommand::SubmitOpened);
        }
        RemakeKind::Final => {
            cx.push(InputsCommand::TakeOver(Box::new(request)));
            let preset = PresetKey::Quality(QualityPreset::Final);
            cx.push(PresetsCommand::Apply(preset));
            cx.push(QueueCommand::SubmitOpened);
        }
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::media::{open_rgb, read_settings, write_video};

    use super::*;

    #[test]
    fn a_saved_frame_is_exact_and_carries_the_settings_and_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boat.mp4");
        let image = RgbPixels::from_fn(32, 16, |x, y| [x as u8 * 7, y as u8, 3]).unwrap();
        let options = VideoOptions {
            settings: Some(r#"{"request": {"seed": 7}}"#.to_owned()),
            ..VideoOptions::default()
        };
        write_video(&path, &vec![image.clone(); 3], options).unwrap();
        let frame = ShownFrame {
            image: Arc::new(image.clone()),
            index: 1,
            path,
        };
        let saved = save(&frame).unwrap();
        assert!(saved.ends_with("boat_frame_0002.png"));
        assert_eq!(open_rgb(&saved).unwrap(), image);
        let settings = read_settings(&saved).unwrap().unwrap();
        let settings: Value = serde_json::from_str(&settings).unwrap();
        let expected = (&2.into(), &7.into());
        assert_eq!((&settings["frame"], &settings["request"]["seed"]), expected);
        // Saving it again overwrites nothing.
        assert!(save(&frame).unwrap().ends_with("boat_frame_0002-2.png"));
    }
}
