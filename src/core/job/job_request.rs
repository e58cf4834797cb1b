//! Request of a job of either kind: generating or post-processing.
//!
//! Accessors here cover what lists, file names and inputs need of both kinds.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{GenerateRequest, GridId, Recipe, cell_of};
use crate::job::PostprocessRequest;
use crate::media::VideoInfo;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum JobRequest {
    Generate(Box<GenerateRequest>),
    Finish(Box<PostprocessRequest>),
}

impl<'de> Deserialize<'de> for JobRequest {
    /// As each of them is read: only one that finishes says what its work is.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = if value.get("work").is_some() {
            serde_json::from_value(value).map(Self::Finish)
        } else {
            serde_json::from_value(value).map(Self::Generate)
        };
        read.map_err(D::Error::custom)
    }
}

impl From<GenerateRequest> for JobRequest {
    fn from(request: GenerateRequest) -> Self {
        Self::Generate(Box::new(request))
    }
}

impl From<PostprocessRequest> for JobRequest {
    fn from(request: PostprocessRequest) -> Self {
        Self::Finish(Box::new(request))
    }
}

impl JobRequest {
    /// `None` for post-processing.
    pub fn generate(&self) -> Option<&GenerateRequest> {
        match self {
            Self::Generate(request) => Some(request),
            Self::Finish(_) => None,
        }
    }

    pub fn generate_mut(&mut self) -> Option<&mut GenerateRequest> {
        match self {
            Self::Generate(request) => Some(request),
            Self::Finish(_) => None,
        }
    }

    /// The computer that runs it, as ssh knows it; `None` for this one.
    pub fn computer(&self) -> Option<&str> {
        self.generate()?.computer.as_deref()
    }

    /// Number of devices that share its steps.
    pub fn num_devices(&self) -> u32 {
        let generate = self.generate();
        generate.map_or(1, GenerateRequest::num_devices)
    }

    /// The grid that it belongs to, and the cell's number from 0.
    pub fn cell(&self) -> Option<(GridId, usize)> {
        self.generate().and_then(cell_of)
    }

    pub fn recipe(&self) -> Recipe {
        match self {
            Self::Generate(request) => Recipe::from_request(request),
            Self::Finish(request) => request.recipe(),
        }
    }

    /// Title of the job: its prompt, or the post-processing and its source.
    pub fn title(&self) -> Cow<'_, str> {
        match self {
            Self::Generate(request) if request.prompt.trim().is_empty() => "Untitled job".into(),
            Self::Generate(request) => Cow::Borrowed(&request.prompt),
            Self::Finish(request) => Cow::Owned(request.title()),
        }
    }

    pub fn out(&self) -> &Path {
        match self {
            Self::Generate(request) => &request.out,
            Self::Finish(request) => &request.out,
        }
    }

    /// Width and height of the result, in pixels.
    pub fn size(&self) -> (u32, u32) {
        let info = self.info();
        (info.width, info.height)
    }

    /// Frames of the result; 1 for an image.
    pub fn num_frames(&self) -> u32 {
        self.info().num_frames
    }

    /// Size, length and rate of the result.
    fn info(&self) -> VideoInfo {
        match self {
            Self::Generate(request) => VideoInfo {
                width: request.width,
                height: request.height,
                num_frames: request.num_frames,
                fps: request.fps,
                is_uneven: false,
            },
            Self::Finish(request) => request.after,
        }
    }

    /// Number of frames of the result, over all images of a batch.
    pub fn num_decoded(&self) -> usize {
        match self {
            Self::Generate(request) => request.num_decoded(),
            Self::Finish(request) => request.after.num_frames as usize,
        }
    }

    pub fn fps(&self) -> f64 {
        self.info().fps
    }

    pub fn batch_size(&self) -> u32 {
        self.generate().map_or(1, |request| request.batch_size)
    }

    /// Returns whether the result is images rather than a video.
    pub fn makes_images(&self) -> bool {
        match self {
            Self::Generate(request) => request.makes_images(),
            Self::Finish(request) => request.is_image,
        }
    }

    /// The image or video that it starts from.
    pub fn image(&self) -> Option<&PathBuf> {
        match self {
            Self::Generate(request) => {
                let videos = [&request.extend, &request.source_video];
                let given = [&request.image].into_iter().chain(videos);
                let given = given.chain([&request.last_image]);
                let given = given.flatten().chain(&request.references);
                let given = given.chain(request.controls.iter().map(|it| &it.file));
                let prompts = request.prompt_images.iter();
                let mut given = given.chain(prompts.map(|image| &image.path));
                given.next()
            }
            Self::Finish(request) => Some(&request.source),
        }
    }

    /// Input files, without the model's.
    pub fn inputs(&self) -> Vec<&PathBuf> {
        match self {
            Self::Generate(request) => request.inputs().collect(),
            Self::Finish(request) => vec![&request.source],
        }
    }

    /// The model's id, or the path that the user gave; the name of a network that finishes.
    pub fn model(&self) -> Cow<'_, str> {
        match self {
            Self::Generate(request) => Cow::Borrowed(&request.model),
            Self::Finish(request) => Cow::Owned(request.network_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_request_kind_round_trips_and_names_missing_fields() {
        let generate = serde_json::json!({
            "model": "m", "family": "wan", "prompt": "a boat", "negative_prompt": "", "width": 8, "height": 8,
            "num_frames": 5, "fps": 8.0, "num_steps": 1, "guidance_scale": 1.0, "sampler": "euler", "seed": 1,
        });
        let info = |width: u32| serde_json::json!({"width": width, "height": 6, "fps": 8.0, "num_frames": 5});
        let finish = serde_json::json!({
            "source": "/a/boat.mp4", "fingerprint": "x", "is_image": false, "before": info(8), "after": info(12),
            "work": "upscale", "network": "/n/4x.safetensors", "passes": 1, "crf": 16, "out": "/b/large.mp4",
        });
        for (json, title, out) in [
            (&generate, "a boat", ""),
            (&finish, "Upscale ×1.5: boat.mp4", "/b/large.mp4"),
        ] {
            let read: JobRequest = serde_json::from_value(json.clone()).unwrap();
            assert_eq!((&*read.title(), read.out()), (title, Path::new(out)));
            let again = serde_json::to_value(&read).unwrap();
            assert_eq!(serde_json::from_value::<JobRequest>(again).unwrap(), read);
            assert_eq!((read.num_frames(), read.makes_images()), (5, false));
            let mut lacking = json.clone();
            lacking
                .as_object_mut()
                .unwrap()
                .remove(if out.is_empty() { "seed" } else { "crf" });
            let err = serde_json::from_value::<JobRequest>(lacking).unwrap_err();
            assert!(err.to_string().starts_with("missing field"), "{err}");
        }
    }
}
