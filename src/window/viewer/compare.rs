//! Two results in step in time: side by side, one over the other, or their difference; and the differences of their
//! settings, as embedded in files, in the words of the interface.
//!
//! Lengths, rates and sizes may differ.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::window::create::choices::CompareMode;
use crate::window::prelude::*;
use crate::window::viewer::media::FramePlayer;
use crate::window::viewer::playhead::{PlaybackOptions, PlaybackPosition, playable_fps};
use crate::window::viewer::texture::{ViewerContent, ViewerTexture, show_together};

pub const GAINS: [u8; 4] = [1, 4, 8, 16];

pub struct ComparedSide {
    pub player: FramePlayer,
    pub texture: ViewerTexture,
}

impl ComparedSide {
    pub fn title(&self) -> String {
        self.player.media.name_of(self.player.index())
    }

    fn request(&self) -> Option<&Value> {
        self.player.media.request_of(self.player.index())
    }

    /// Frames and rate on the common time line; an image fills all of it.
    fn length(&self) -> (usize, f64) {
        let len = self.player.frames.len();
        match self.player.frames.starts() {
            _ if !self.player.media.is_video => (1, 0.0),
            Some(starts) => {
                // Fine enough for its shortest frame.
                let fps = playable_fps(starts.peak_fps());
                ((starts.secs(len) * fps - 1e-6).ceil() as usize, fps)
            }
            None => (len, self.player.playhead.fps()),
        }
    }

    /// The frame at a moment; after the end of a video its last one.
    fn index(&self, secs: f64) -> usize {
        let due = match self.player.frames.starts() {
            _ if !self.player.media.is_video => return self.player.index(),
            Some(starts) => starts.frame_at(secs),
            // A hundredth of a frame, because times are rounded.
            None => (secs * self.player.playhead.fps() + 0.01) as usize,
        };
        due.min(self.player.frames.len().saturating_sub(1))
    }

    /// The frame of a moment, when it is there.
    fn exact(&self, secs: f64) -> Option<Arc<RgbPixels>> {
        self.player.frames.exact(self.index(secs))
    }

    /// The frame of a moment will come. Of a file without frames it never does.
    fn is_awaited(&self, secs: f64) -> bool {
        self.player.frames.len() > 0 && self.exact(secs).is_none()
    }
}

pub struct ResultComparison {
    pub sides: [ComparedSide; 2],
    pub mode: CompareMode,
    /// Position of the line between A and B, from 0 to 1.
    pub divider: f32,
    pub gain: u8,
    pub difference: ViewerTexture,
    /// Of the settings, in a line a side.
    pub differences: [String; 2],
    pub playhead: PlaybackPosition,
}

impl ResultComparison {
    pub fn new(a: FramePlayer, b: FramePlayer) -> Self {
        let sides = [a, b].map(|player| ComparedSide {
            player,
            texture: ViewerTexture::default(),
        });
        let (len, fps) = timeline(sides[0].length(), sides[1].length());
        Self {
            differences: differences(sides[0].request(), sides[1].request()),
            playhead: PlaybackPosition::new(len, fps),
            sides,
            mode: CompareMode::SideBySide,
            divider: 0.5,
            gain: GAINS[1],
            difference: ViewerTexture::default(),
        }
    }

    pub fn swap(&mut self) {
        self.differences.swap(0, 1);
        self.sides.swap(0, 1);
    }

    /// Advances to this moment, both sides in step. Returns the seconds until the next frame.
    pub fn tick(&mut self, now_secs: f64, playback: PlaybackOptions) -> Option<f64> {
        self.playhead.set_playback(playback);
        let (len, _) = timeline(self.sides[0].length(), self.sides[1].length());
        if len < self.playhead.len() {
            self.playhead.grow(len, 0);
        }
        let secs = self.playhead.secs();
        // Before it is needed: the thread that reads it wakes the window only for the current frame.
        self.look_at(secs);
        let wait = if self.sides.iter().any(|side| side.is_awaited(secs)) {
            self.playhead.hold();
            None
        } else {
            self.playhead.tick(now_secs)
        };
        self.look_at(self.playhead.secs());
        wait
    }

    fn look_at(&self, secs: f64) {
        for side in &self.sides {
            let index = side.index(secs);
            let is_backward = self.playhead.is_backward();
            side.player.frames.look_at(index, is_backward);
        }
    }

    /// Shows both frames of this moment, or their difference: what is not seen is not converted.
    pub fn show(&mut self, cx: &AppContext) {
        let secs = self.playhead.secs();
        if self.mode == CompareMode::Difference {
            let [a, b] = &self.sides;
            if let (Some(a), Some(b)) = (a.exact(secs), b.exact(secs)) {
                let gain = self.gain;
                let content = ViewerContent::Difference { a, b, gain };
                self.difference.show(cx, content);
            }
            return;
        }
        let wanted = self.sides.iter_mut().filter_map(|side| {
            let image = side.player.frames.image(side.index(secs))?;
            Some((&mut side.texture, ViewerContent::Image(image)))
        });
        show_together(cx, &mut wanted.collect::<Vec<_>>());
    }
}

/// Frames and rate of a time line for both: the longer duration at the faster rate.
fn timeline(a: (usize, f64), b: (usize, f64)) -> (usize, f64) {
    let fps = a.1.max(b.1);
    let frames = [a, b].map(|(len, own)| {
        if own > 0.0 && len > 1 {
            (len as f64 / own * fps - 1e-6).ceil() as usize
        } else {
            1
        }
    });
    (frames[0].max(frames[1]).max(1), fps)
}

/// Longer values are cut; the whole ones are in the files.
const MAX_CHARS: usize = 80;

/// Setting: its key in files, its name, and its text if a result does not contain it.
type ComparedSetting = (&'static str, &'static str, &'static str);

const SETTINGS: [ComparedSetting; 28] = [
    ("model", "model", "unknown model"),
    ("seed", "seed", "unknown seed"),
    ("num_steps", "steps", "default steps"),
    ("guidance_scale", "guidance", "default guidance"),
    ("true_cfg_scale", "CFG scale", "CFG off"),
    ("guider", "guider", "plain guidance"),
    ("guidance_range", "guidance range", "guided in all steps"),
    ("guidance_scale_2", "low-noise guidance", "one guidance"),
    ("sampler", "sampler", "default sampler"),
    ("sigma_schedule", "schedule", "default schedule"),
    ("shift", "shift", "automatic shift"),
    ("strength", "strength", "default strength"),
    ("start_step", "from step", "from the first step"),
    ("end_step", "to step", "to the last step"),
    ("step_cache", "step cache", "no step cache"),
    ("loras", "LoRAs", "no LoRAs"),
    ("num_frames", "frames", "default length"),
    ("fps", "fps", "default fps"),
    ("image", "start image", "no start image"),
    ("last_image", "end image", "no end image"),
    ("mask", "mask", "no mask"),
    ("references", "reference images", "no reference images"),
    ("controls", "control images", "no control images"),
    ("extend", "extends", "extends no video"),
    ("vae_tile", "decoded in tiles of", "decoded without tiles"),
    ("prompt_weights", "prompt weights", "prompt weights off"),
    ("negative_prompt", "negative prompt", "no negative prompt"),
    ("prompt", "prompt", "no prompt"),
];

/// Compares two requests, a line each; `None` is a file without settings.
fn differences(a: Option<&Value>, b: Option<&Value>) -> [String; 2] {
    let words = match (a, b) {
        (Some(a), Some(b)) => {
            let sizes = [size(a), size(b)];
            let sizes = (sizes[0] != sizes[1]).then_some(sizes);
            let differing = SETTINGS.iter().filter(|(key, ..)| a[key] != b[key]);
            let settings = differing.map(|setting| [a, b].map(|it| described(setting, it)));
            let all: Vec<[String; 2]> = sizes.into_iter().chain(settings).collect();
            if all.is_empty() {
                return ["same settings", "same settings"].map(str::to_owned);
            }
            [0, 1].map(|side| all.iter().map(|words| words[side].clone()).collect())
        }
        _ => [a, b].map(|request| match request {
            Some(request) => summary(request),
            None => vec!["settings unknown".to_owned()],
        }),
    };
    words.map(|words| words.join("  ·  "))
}

fn summary(request: &Value) -> Vec<String> {
    let main = ["model", "seed", "num_steps", "prompt"];
    SETTINGS
        .iter()
        .filter(|(key, ..)| main.contains(key) && !request[key].is_null())
        .map(|setting| described(setting, request))
        .collect()
}

fn size(request: &Value) -> String {
    match (request["width"].as_u64(), request["height"].as_u64()) {
        (Some(width), Some(height)) => format!("{width} × {height}"),
        _ => "unknown size".to_owned(),
    }
}

/// `seed 12`, `no mask`, `start image boat.png`.
fn described((key, name, none): &ComparedSetting, request: &Value) -> String {
    match &request[key] {
        Value::Null => (*none).to_owned(),
        Value::String(text) if text.trim().is_empty() => (*none).to_owned(),
        Value::Array(items) if items.is_empty() => (*none).to_owned(),
        other => {
            let text = short(&value_text(other));
            if matches!(*key, "prompt" | "negative_prompt") {
                format!("{name} “{text}”")
            } else {
                format!("{name} {text}")
            }
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        // Of a path its end is what people know.
        Value::String(text) => text.rsplit(['/', '\\']).next().unwrap_or(text).to_owned(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            ((number * 1000.0).round() / 1000.0).to_string()
        }
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(value_text).collect();
            texts.join(", ")
        }
        Value::Object(fields) => object_text(fields),
        other => other.to_string(),
    }
}

fn object_text(fields: &Map<String, Value>) -> String {
    if let (Some(path), Some(strength)) = (fields.get("path"), fields.get("strength")) {
        // A LoRA.
        return format!("{} at {}", value_text(path), value_text(strength));
    }
    let texts = fields
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), value_text(value)));
    texts.collect::<Vec<_>>().join(", ")
}

fn short(text: &str) -> String {
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(MAX_CHARS).collect();
    format!("{}…", begin.trim_end())
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Video;
    use safelight_core::media::{FrameStarts, VideoOptions, VideoReader, write_video};
    use serde_json::json;

    use super::*;
    use crate::window::viewer::media::ViewedMedia;
    use crate::window::viewer::reading::{FileFrames, ViewerFrames};

    fn video(num_frames: usize, fps: f64) -> FramePlayer {
        let image = |index| Arc::new(RgbPixels::from_fn(2, 2, |_, _| [index as u8, 0, 0]).unwrap());
        let frames = ViewerFrames::Memory(Arc::new(Video {
            frames: (0..num_frames).map(image).collect(),
            fps,
        }));
        let media = ViewedMedia {
            is_video: num_frames > 1,
            fps,
            ..ViewedMedia::default()
        };
        FramePlayer::new(media, frames, 0)
    }

    fn indices(compare: &ResultComparison) -> [usize; 2] {
        let secs = compare.playhead.secs();
        [compare.sides[0].index(secs), compare.sides[1].index(secs)]
    }

    fn assert_shows(
        compare: &mut ResultComparison,
        rows: impl IntoIterator<Item = (usize, [usize; 2])>,
    ) {
        for (at, expected) in rows {
            compare.playhead.show(at);
            assert_eq!(indices(compare), expected, "{at}");
        }
    }

    #[test]
    fn videos_of_other_rates_are_in_step_in_time() {
        let mut compare = ResultComparison::new(video(16, 8.0), video(48, 24.0));
        assert_eq!((compare.playhead.len(), compare.playhead.fps()), (48, 24.0));
        assert_shows(
            &mut compare,
            [(0, [0, 0]), (2, [0, 2]), (3, [1, 3]), (47, [15, 47])],
        );
    }

    #[test]
    fn a_video_of_uneven_frame_times_is_in_step_with_an_even_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.webp");
        let frames = [40, 90, 140].map(|grey| RgbPixels::from_fn(8, 8, |_, _| [grey; 3]).unwrap());
        let options = VideoOptions {
            starts: Some(FrameStarts::from_micros([0, 100_000, 150_000, 1_000_000])),
            ..VideoOptions::default()
        };
        write_video(&path, &frames, options).unwrap();
        let reader = VideoReader::open(&path).unwrap();
        let file = FileFrames::start(reader, 4096, Arc::new(|| {})).unwrap();
        let uneven = FramePlayer {
            frames: ViewerFrames::File(Arc::new(file)),
            ..video(3, 3.0)
        };
        let mut compare = ResultComparison::new(uneven, video(10, 10.0));
        assert_eq!((compare.playhead.len(), compare.playhead.fps()), (20, 20.0));
        assert_shows(
            &mut compare,
            [(0, [0, 0]), (2, [1, 1]), (3, [2, 1]), (19, [2, 9])],
        );
    }

    #[test]
    fn rates_that_no_video_is_played_at_leave_no_frame_out() {
        for fps in [0.25, 600.0] {
            let mut compare = ResultComparison::new(video(10, fps), video(10, fps));
            assert_eq!(compare.playhead.len(), 10, "{fps}");
            assert_shows(&mut compare, (0..10).map(|at| (at, [at, at])));
        }
    }

    #[test]
    fn both_wait_for_the_frame_that_one_has_not_read_yet() {
        let image = Arc::new(RgbPixels::from_fn(2, 2, |_, _| [9; 3]).unwrap());
        let file = |held: usize, len: usize| FramePlayer {
            frames: ViewerFrames::File(Arc::new(FileFrames::unread(len, held, &image))),
            ..video(len, 10.0)
        };
        let mut compare = ResultComparison::new(video(10, 10.0), file(3, 10));
        for step in 0..20 {
            compare.tick(f64::from(step) * 0.1, PlaybackOptions::default());
        }
        assert_eq!(indices(&compare), [3, 3]);
        // A damaged file has fewer frames, or none: the other one goes on.
        let mut compare = ResultComparison::new(video(10, 10.0), file(0, 0));
        for step in 0..6 {
            compare.tick(f64::from(step) * 0.1, PlaybackOptions::default());
        }
        assert!(compare.playhead.index() > 3);
    }

    #[test]
    fn image_stays_at_its_frame_next_to_a_video_and_two_images_do_not_play() {
        let mut compare = ResultComparison::new(video(1, 8.0), video(10, 8.0));
        assert_eq!(compare.playhead.len(), 10);
        assert_shows(&mut compare, [(9, [0, 9])]);
        compare.swap();
        assert_eq!(indices(&compare), [9, 0]);
        let mut still = ResultComparison::new(video(1, 8.0), video(1, 24.0));
        assert_eq!(still.playhead.len(), 1);
        assert_eq!(still.tick(1.0, PlaybackOptions::default()), None);
    }

    #[test]
    fn only_differing_settings_are_listed() {
        let a = json!({"model": "m", "seed": 12, "num_steps": 25, "width": 832, "height": 480,
            "guidance_scale": 3.5, "prompt": "a boat", "mask": "/x/y/sky.png"});
        let b = json!({"model": "m", "seed": 13, "num_steps": 25, "width": 480, "height": 832,
            "guidance_scale": 3.5, "prompt": "a ship"});
        let lines = differences(Some(&a), Some(&b));
        let expected = "832 × 480  ·  seed 12  ·  mask sky.png  ·  prompt “a boat”";
        assert_eq!(lines[0], expected);
        let expected = "480 × 832  ·  seed 13  ·  no mask  ·  prompt “a ship”";
        assert_eq!(lines[1], expected);
    }

    #[test]
    fn loras_numbers_and_long_prompts_read_well() {
        let lora = json!([{"path": "/l/film.safetensors", "strength": 0.800_000_01}]);
        let a = json!({"loras": lora, "prompt": "x".repeat(500)});
        let b = json!({"loras": [], "prompt": ""});
        let [a, b] = differences(Some(&a), Some(&b));
        assert!(a.starts_with("LoRAs film.safetensors at 0.8  ·  prompt “xxx"));
        assert_eq!(b, "no LoRAs  ·  no prompt");
        assert!(a.chars().count() < 140);
    }

    #[test]
    fn equal_and_unknown_settings_are_labelled_as_such() {
        let a = json!({"seed": 1});
        let same = differences(Some(&a), Some(&a));
        assert_eq!(same[0], "same settings");
        let unknown = differences(Some(&a), None);
        let expected = ["seed 1".to_owned(), "settings unknown".to_owned()];
        assert_eq!(unknown, expected);
        // Whatever a file holds.
        differences(Some(&json!([1, 2])), Some(&json!("text")));
    }
}
