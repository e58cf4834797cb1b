//! Results and files as the viewer shows and plays them, and opening of files.
//!
//! Opening runs on separate threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{SheetCells, Video};
use safelight_core::media::{self, VideoFormat, VideoReader};
use safelight_core::naming::numbered_path;
use serde_json::{Value, json};

use crate::window::create::choices::TrashRequest;
use crate::window::inputs::opening::may_move;
use crate::window::prelude::*;
use crate::window::queue::jobs::ResultItem;
use crate::window::viewer::playhead::{PlaybackOptions, PlaybackPosition};
use crate::window::viewer::reading::{FileFrames, ViewerFrames, ViewerWake, within};

const MAX_BATCH: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewedMedia {
    /// The job of this session that made it, where its frames are in memory.
    pub job: Option<JobId>,
    /// Several for the images of a batch.
    pub paths: Vec<PathBuf>,
    pub width: u32,
    pub height: u32,
    pub num_frames: usize,
    pub fps: f64,
    /// It plays; else it is one image, or several.
    pub is_video: bool,
    /// Seconds that its job took; `None` for results of earlier sessions.
    pub secs: Option<f64>,
    /// Settings that Safelight embedded in each file, if any.
    pub settings: Vec<Option<Value>>,
}

impl ViewedMedia {
    pub fn of_result(item: &ResultItem) -> Self {
        let (width, height) = item.request.size();
        let output = &item.output;
        let paths = if item.is_batch() {
            output.paths.clone()
        } else {
            vec![output.path().to_path_buf()]
        };
        let settings = (0..paths.len()).map(|index| {
            let request = item.generated(index)?;
            Some(json!({ "request": request }))
        });
        Self {
            job: item.is_in_memory.then_some(item.id),
            width,
            height,
            num_frames: output.num_frames as usize,
            fps: output.video.fps,
            is_video: !item.is_images(),
            secs: Some(output.secs),
            settings: settings.collect(),
            paths,
        }
    }

    /// File of one image of a batch; the only file of others.
    pub fn path_of(&self, index: usize) -> &Path {
        let path = self.paths.get(index).or_else(|| self.paths.first());
        path.map_or_else(|| Path::new(""), PathBuf::as_path)
    }

    pub fn name_of(&self, index: usize) -> String {
        file_name(self.path_of(index))
    }

    pub fn request_of(&self, index: usize) -> Option<&Value> {
        let settings = self.settings.get(index).or_else(|| self.settings.first())?;
        settings.as_ref()?.get("request")
    }

    /// The files to delete: the video, also one that was written as numbered images, all images of a batch of this
    /// session, or the image at `shown`.
    pub fn trash_requests(&self, shown: usize) -> Vec<TrashRequest> {
        let request = |path: &Path| TrashRequest {
            path: path.to_owned(),
            is_frame: self.is_video
                && VideoFormat::from_path(path).is_ok_and(VideoFormat::is_still),
        };
        if self.job.is_some() && !self.is_video {
            self.paths.iter().map(|path| request(path)).collect()
        } else {
            vec![request(self.path_of(shown))]
        }
    }

    /// The result at this pixel of a contact sheet; `None` of other images.
    pub fn cell_at(&self, shown: usize, x: u32, y: u32) -> Option<PathBuf> {
        let settings = self.settings.get(shown).or_else(|| self.settings.first())?;
        let cells = SheetCells::of_settings(settings.as_ref()?)?;
        cells.file_at(self.path_of(shown), x, y)
    }

    pub fn prompt(&self, shown: usize) -> Option<&str> {
        self.request_of(shown)?["prompt"].as_str()
    }
}

#[derive(Clone, Debug)]
pub struct FramePlayer {
    pub media: ViewedMedia,
    pub playhead: PlaybackPosition,
    pub(super) frames: ViewerFrames,
}

impl FramePlayer {
    /// Plays from the first frame. Images do not play: the one at `first` is shown.
    pub(super) fn new(media: ViewedMedia, frames: ViewerFrames, first: usize) -> Self {
        let mut playhead =
            PlaybackPosition::new(frames.len(), media.fps).with_starts(frames.starts().cloned());
        if !media.is_video {
            playhead.show(first);
        }
        Self {
            media,
            playhead,
            frames,
        }
    }

    /// Of a result whose frames are in memory.
    pub fn of_result(item: &ResultItem) -> Self {
        let frames = ViewerFrames::Memory(Arc::clone(&item.output.video));
        Self::new(ViewedMedia::of_result(item), frames, 0)
    }

    /// Plays a video of which more is to come.
    pub fn of_video(video: Arc<Video>) -> Self {
        let media = ViewedMedia {
            fps: video.fps,
            is_video: true,
            ..ViewedMedia::default()
        };
        Self::new(media, ViewerFrames::Memory(video), 0)
    }

    /// True for a video of more than one frame.
    pub fn can_play(&self) -> bool {
        self.media.is_video && self.num_frames() > 1
    }

    pub fn num_frames(&self) -> usize {
        self.playhead.len()
    }

    pub fn index(&self) -> usize {
        self.playhead.index()
    }

    pub(super) fn path(&self) -> &Path {
        self.media.path_of(self.index())
    }

    /// The current frame; of a file the nearest one while it is being read.
    pub fn image(&self) -> Option<Arc<RgbPixels>> {
        self.frames.image(self.index())
    }

    /// The current frame; `None` while it is being read.
    pub fn exact(&self) -> Option<Arc<RgbPixels>> {
        self.frames.exact(self.index())
    }

    /// Replaces the video by a longer one, with the new frames before or after those there were.
    pub fn grow(&mut self, video: Arc<Video>, is_at_front: bool) {
        let more = video.frames.len().saturating_sub(self.num_frames());
        let at_front = if is_at_front { more } else { 0 };
        self.playhead.grow(video.frames.len(), at_front);
        self.frames = ViewerFrames::Memory(video);
    }

    /// Advances to the frame of this moment, or of the time of its sound that is `heard`, in seconds. Returns the seconds
    /// until the next one; `None` while paused, and while no frame is there.
    pub fn tick(
        &mut self,
        now_secs: f64,
        playback: PlaybackOptions,
        heard: Option<f64>,
    ) -> Option<f64> {
        self.playhead.set_playback(playback);
        let len = self.frames.len();
        if len < self.playhead.len() {
            self.playhead.grow(len, 0);
        }
        if self.image().is_none() {
            // The thread that reads them wakes the window.
            self.playhead.hold();
            self.frames.look_at(self.index(), false);
            return None;
        }
        let wait = match heard {
            Some(secs) => self.playhead.follow(secs),
            None => self.playhead.tick(now_secs),
        };
        self.frames
            .look_at(self.index(), self.playhead.is_backward());
        wait
    }
}

/// Opens whatever the file is; `max_side` is that of the largest texture.
pub(super) fn open(path: &Path, max_side: u32, wake: &ViewerWake) -> Result<FramePlayer, JobError> {
    open_media(path, max_side, wake).map_err(|err| {
        let (images, videos) = (media::image_formats(), media::video_formats());
        JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(format!(
            "Safelight shows {images} images and {videos} videos"
        ))
    })
}

fn open_media(path: &Path, max_side: u32, wake: &ViewerWake) -> Result<FramePlayer, MediaError> {
    let settings = settings_of(path);
    let moving = match VideoReader::open_moving(path) {
        // A damaged animation may still begin with an image.
        Err(err) if !may_move(path) => return Err(err),
        moving => moving.ok().flatten(),
    };
    if let Some(reader) = moving {
        return open_video(path, reader, settings, max_side, wake);
    }
    let image = media::open_rgba(path)?;
    if is_frame_of_video(settings.as_ref())
        && let Ok(reader) = VideoReader::open(path)
        && reader.info().num_frames > 1
    {
        return open_video(path, reader, settings, max_side, wake);
    }
    Ok(open_images(path, image, settings.as_ref(), max_side))
}

/// Embedded settings; `None` for files of other programs and damaged ones, which are shown anyway.
fn settings_of(path: &Path) -> Option<Value> {
    let text = media::read_settings(path).ok()??;
    serde_json::from_str(&text).ok()
}

/// One of the numbered images that a video was written as, and no frame that was saved from one.
fn is_frame_of_video(settings: Option<&Value>) -> bool {
    settings.is_some_and(|settings| {
        let num_frames = settings["request"]["num_frames"].as_u64();
        num_frames.unwrap_or(1) > 1 && settings.get("frame").is_none()
    })
}

fn open_video(
    path: &Path,
    reader: VideoReader,
    settings: Option<Value>,
    max_side: u32,
    wake: &ViewerWake,
) -> Result<FramePlayer, MediaError> {
    let info = reader.info();
    let media = ViewedMedia {
        paths: vec![path.to_path_buf()],
        width: info.width,
        height: info.height,
        num_frames: info.num_frames as usize,
        fps: info.fps,
        is_video: info.num_frames > 1,
        settings: vec![settings],
        ..ViewedMedia::default()
    };
    let frames = FileFrames::start(reader, max_side, Arc::clone(wake));
    let frames = frames.map_err(|err| MediaError::from_io("start reading", &err, path))?;
    Ok(FramePlayer::new(
        media,
        ViewerFrames::File(Arc::new(frames)),
        0,
    ))
}

fn open_images(
    path: &Path,
    image: RgbPixels,
    settings: Option<&Value>,
    max_side: u32,
) -> FramePlayer {
    let (width, height) = (image.width, image.height);
    let mut first = Some((image, settings.cloned()));
    let mut media = ViewedMedia {
        width,
        height,
        num_frames: 1,
        fps: 1.0,
        ..ViewedMedia::default()
    };
    let mut frames = Vec::new();
    let mut index = 0;
    for other in batch_of(path, settings) {
        let opened = if other == path {
            index = frames.len();
            first.take()
        } else {
            media::open_rgba(&other)
                .ok()
                .map(|image| (image, settings_of(&other)))
        };
        let Some((image, settings)) = opened else {
            continue;
        };
        frames.push(Arc::new(within(image, max_side)));
        media.paths.push(other);
        media.settings.push(settings);
    }
    let frames = ViewerFrames::Memory(Arc::new(Video { frames, fps: 1.0 }));
    FramePlayer::new(media, frames, index)
}

/// The files of the batch that an image is of, in order: those numbered alike with the same prompt. The file alone
/// where it is none of ours.
fn batch_of(path: &Path, settings: Option<&Value>) -> Vec<PathBuf> {
    let alone = vec![path.to_path_buf()];
    let Some(request) = settings.and_then(|settings| settings.get("request")) else {
        return alone;
    };
    let Some(base) = unnumbered(path) else {
        return alone;
    };
    let is_alike = |other: &PathBuf| {
        other == path
            || settings_of(other).is_some_and(|settings| {
                let theirs = &settings["request"];
                theirs["prompt"] == request["prompt"] && theirs["model"] == request["model"]
            })
    };
    let numbered = (1..=MAX_BATCH).map(|number| numbered_path(&base, number));
    let batch: Vec<PathBuf> = numbered
        .take_while(|other| other.is_file())
        .filter(is_alike)
        .collect();
    if batch.iter().any(|other| other == path) {
        batch
    } else {
        alone
    }
}

/// The name before [`numbered_path`] gave it a number.
fn unnumbered(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let (base, number) = stem.rsplit_once('_')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let extension = path.extension()?.to_str()?;
    is_number.then(|| path.with_file_name(format!("{base}.{extension}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use safelight_core::media::{VideoOptions, write_video};

    fn image(bright: u8) -> RgbPixels {
        RgbPixels::from_fn(24, 16, |_, _| [bright, 9, 9]).unwrap()
    }

    fn write(path: &Path, frames: &[RgbPixels], request: Option<Value>) {
        let options = VideoOptions {
            fps: 8.0,
            settings: request.map(|request| json!({ "request": request }).to_string()),
            ..VideoOptions::default()
        };
        write_video(path, frames, options).unwrap();
    }

    fn open_at(path: &Path) -> FramePlayer {
        open(path, 4096, &(Arc::new(|| {}) as ViewerWake)).unwrap()
    }

    #[test]
    fn file_type_is_read_from_the_content_and_not_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<RgbPixels> = (0..6).map(|index| image(index * 20)).collect();
        for name in ["a.mp4", "a.gif", "a.webp"] {
            let path = folder.path().join(name);
            write(&path, &frames, Some(json!({"seed": 3, "num_frames": 6})));
            let misnamed = folder.path().join("what.txt");
            std::fs::rename(&path, &misnamed).unwrap();
            let media = open_at(&misnamed).media;
            assert_eq!((media.num_frames, media.is_video), (6, true), "{name}");
            assert_eq!(media.request_of(0).unwrap()["seed"], 3, "{name}");
        }
        let still = folder.path().join("still.webp");
        write(&still, &frames[..1], None);
        assert!(!open_at(&still).media.is_video);
    }

    #[test]
    fn images_of_one_batch_open_together_without_unrelated_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number| numbered_path(&folder.path().join("cat.png"), number);
        for number in 1..=4_usize {
            let prompt = if number == 4 { "a dog" } else { "a cat" };
            let request = json!({"seed": number, "prompt": prompt, "num_frames": 1});
            write(&path(number), &[image(number as u8)], Some(request));
        }
        let opened = open_at(&path(2));
        assert_eq!(opened.media.paths, [path(1), path(2), path(3)]);
        assert_eq!(opened.index(), 1);
        assert_eq!(opened.media.request_of(2).unwrap()["seed"], 3);
        // Files of other programs are separate images.
        let other = folder.path().join("photo_0001.png");
        write(&other, &[image(1)], None);
        write(&folder.path().join("photo_0002.png"), &[image(2)], None);
        assert_eq!(open_at(&other).media.paths.len(), 1);
    }

    #[test]
    fn numbered_frames_are_a_video_and_a_frame_that_was_saved_is_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<RgbPixels> = (0..5).map(|index| image(index * 20)).collect();
        let path = folder.path().join("walk.png");
        write(&path, &frames, Some(json!({"num_frames": 5, "fps": 8.0})));
        let opened = open_at(&numbered_path(&path, 3));
        assert_eq!((opened.media.num_frames, opened.media.fps), (5, 8.0));
        let saved = folder.path().join("video_frame_0042.png");
        let settings = json!({"request": {"num_frames": 81}, "frame": 42});
        let options = VideoOptions {
            settings: Some(settings.to_string()),
            ..VideoOptions::default()
        };
        write_video(&saved, &frames[..1], options).unwrap();
        assert!(!open_at(&saved).media.is_video);
    }

    #[test]
    fn images_larger_than_a_texture_are_scaled_down_and_report_their_true_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.png");
        let wide = RgbPixels::from_fn(600, 20, |_, _| [1; 3]).unwrap();
        write(&path, &[wide], None);
        let opened = open(&path, 256, &(Arc::new(|| {}) as ViewerWake)).unwrap();
        assert_eq!(opened.media.width, 600);
        assert_eq!(opened.frames.image(0).unwrap().width, 256);
    }
}
