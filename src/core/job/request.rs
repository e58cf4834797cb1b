//! A validated request: everything that a job needs to know, and that repeats it exactly.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Not;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::prompt::SectionPrompts;
use super::{ControlInput, EnlargedPass, JobOptions, OfGrid, SamplingOptions, VideoSections};
use crate::enum_macros::{named, parsed};
use crate::model::choices::{LoraChoice, ResizeMode};
use crate::model::{ComponentOverrides, ImageRole, LatentRgb, ModelFamily, ModelFiles};

pub const CARRIED_APP: &str = "Safelight";

/// A validated request. The engine need not check it again. The default names no model and makes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// Id in the catalogue, or the path given by the user.
    pub model: String,
    /// Computer that runs the job, as ssh knows it; absent for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer: Option<String>,
    /// On another computer: copies of the input files, and their paths as the user named them. Not carried in files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<PathBuf, PathBuf>,
    pub family: ModelFamily,
    /// Paths of the model's components. Not embedded in files.
    #[serde(default)]
    pub files: ModelFiles,
    /// Components chosen by the user, also contained in `files`. Embedded, to be chosen again.
    #[serde(default, skip_serializing_if = "ComponentOverrides::is_empty")]
    pub companions: ComponentOverrides,
    /// The model's colours of latents, for live previews. Not carried in files.
    pub latent_rgb: Option<LatentRgb>,
    /// Role of `image` for the model. Not embedded in files.
    #[serde(default)]
    pub image_role: ImageRole,
    /// Text for the text encoders.
    pub prompt: String,
    /// Text as the user wrote it, if `prompt` differs: with choices, wildcards and comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    pub negative_prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt_template: Option<String>,
    /// The start image, as the user named it. The job's folder has its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// The end image, as the user named it. The job's folder has its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_image: Option<PathBuf>,
    /// Video to extend: its last frame is the start image, F1 sees more of its frames, and its frames precede the new
    /// ones in the saved video. Never together with `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<PathBuf>,
    /// The video, or for one frame the image, that this one is made of, as far as the strength says, as the user named
    /// it. The job's folder has its own copy. Never together with `image` or `extend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_video: Option<PathBuf>,
    /// Mask of `image` or `source_video`, as the user named it: white is regenerated, black is kept. A video's mask may
    /// be a video. The job's folder has a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<PathBuf>,
    /// Keeps unmasked pixels of `image` exactly, also in models that were trained to predict all of it.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub keeps_unmasked: bool,
    /// Reference images, as the user named them, in the order in which a prompt counts them. The job's folder has
    /// copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<PathBuf>,
    /// Control images and videos. The job's folder has copies of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlInput>,
    /// Image prompts, read after the text. The job's folder has copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_images: Vec<PromptImage>,
    /// Embeddings that the prompts name, once these are settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub embeddings: Vec<PromptEmbedding>,
    #[serde(default)]
    pub fit: ResizeMode,
    /// Of the result, in pixels.
    pub width: u32,
    pub height: u32,
    /// Made at another size first; absent where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_pass: Option<EnlargedPass>,
    /// 4n + 1; 1 is an image. With sections those of all of them, see [`VideoSections::num_frames`].
    pub num_frames: u32,
    /// Sections of the video; absent for families that make it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<VideoSections>,
    pub fps: f64,
    /// Images made at once, with the seeds `seed`, `seed + 1` and so on. Always 1 for videos.
    #[serde(default = "crate::model::one")]
    pub batch_size: u32,
    #[serde(flatten)]
    pub sampling: SamplingOptions,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<LoraChoice>,
    #[serde(flatten)]
    pub options: JobOptions,
    /// The file to write; its extension is its kind. Not carried in files.
    #[serde(default)]
    pub out: PathBuf,
    /// `out` was made up by the program: it never replaces another file, and takes the next free name instead. A bare
    /// file name is replaced by one in the folder for results when the job begins. Not carried in files.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_out_automatic: bool,
    /// It is a cell of a grid, or carried by a grid's contact sheet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<OfGrid>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptImage {
    /// As the user named it.
    pub path: PathBuf,
    /// Factor of its tokens: 1 as the model was trained.
    pub strength: f64,
}

/// Embedding (textual inversion) in place of words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptEmbedding {
    /// As the prompts have it, without `embedding:`.
    pub name: String,
    pub path: PathBuf,
}

/// `FILE` or `FILE,STRENGTH`.
impl FromStr for PromptImage {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let number = |(file, strength): (&str, &str)| {
            let strength = strength.trim().parse().ok()?;
            Some((PathBuf::from(file), strength))
        };
        let (path, strength) = text
            .rsplit_once(',')
            .and_then(number)
            .unwrap_or_else(|| (text.into(), 1.0));
        Ok(Self { path, strength })
    }
}

/// Number of last frames of an extended video that a model with control layers sees: enough to see the motion, whole
/// latents, and some left to generate.
fn shown_frames(num_frames: u32) -> u32 {
    const MOST: u32 = 13;
    let most = num_frames.saturating_sub(4).clamp(1, MOST);
    most - (most - 1) % 4
}

impl GenerateRequest {
    /// Settings embedded in a result, to reproduce it: a JSON object with the program's name and version, which may be
    /// extended.
    pub fn carried(&self) -> Value {
        let mut named = self.clone();
        for path in named.paths_mut() {
            if let Some(as_named) = self.copies.get(&*path) {
                path.clone_from(as_named);
            }
        }
        let mut request = json!(named);
        if let Some(fields) = request.as_object_mut() {
            // Local paths reproduce nothing. Paths that the user named do, and stay.
            for local in [
                "out",
                "is_out_automatic",
                "hosts",
                "capture",
                "files",
                "copies",
                "latent_rgb",
                "preview",
                "image_role",
                "sidecar",
            ] {
                fields.remove(local);
            }
            for prompt in ["prompt", "negative_prompt"] {
                let template = format!("{prompt}_template");
                // A literal prompt, which is literal in a file without it.
                if fields.get(prompt) == fields.get(&template) {
                    fields.remove(&template);
                }
            }
            // Settings of a cell make that cell.
            if !matches!(self.grid, Some(OfGrid::Sheet(_))) {
                fields.remove("grid");
            }
        }
        json!({
            "app": CARRIED_APP,
            "version": env!("CARGO_PKG_VERSION"),
            "request": request,
        })
    }

    /// Returns whether the result is images, one or a batch, rather than a video.
    pub fn makes_images(&self) -> bool {
        self.num_frames == 1 && self.extend.is_none()
    }

    /// Returns whether any step needs a second pass for the negative prompt.
    pub fn is_guided(&self) -> bool {
        self.sampling
            .is_guided(self.family.guidance_is_cfg, &self.files)
    }

    /// Returns whether steps depend on earlier ones beyond the checkpoint, so that an interrupted denoising loop
    /// restarts.
    pub fn starts_over(&self) -> bool {
        self.options.step_cache.is_some() || (self.is_guided() && self.sampling.guider.remembers())
    }

    /// Number of decoded frames: those of the video, or one per image of the batch.
    pub fn num_decoded(&self) -> usize {
        self.batch_size as usize * self.num_frames as usize
    }

    /// Number of decoded frames that are already at the end of an extended video.
    pub fn lead_frames(&self) -> usize {
        let lead = match self.sections {
            Some(sections) => sections.lead_frames(),
            None if self.files.takes_control => shown_frames(self.num_frames),
            None => 1,
        };
        lead as usize
    }

    /// The request that makes one image of the batch again, alone; `index` counts from 0.
    pub fn of_one(&self, index: usize) -> Self {
        Self {
            seed: self.seed.wrapping_add(index as u64),
            batch_size: 1,
            ..self.clone()
        }
    }

    /// Texts of each section, by the times in the prompt; `None` for families without sections. The error is a
    /// sentence, which the form has reported before.
    pub fn section_prompts(&self) -> Result<Option<SectionPrompts>, String> {
        self.sections
            .map(|sections| SectionPrompts::parse(&self.prompt, &sections, self.fps))
            .transpose()
    }

    /// Input files as the user named them, without the model's.
    pub fn inputs(&self) -> impl Iterator<Item = &PathBuf> {
        let given = [
            &self.image,
            &self.last_image,
            &self.extend,
            &self.source_video,
            &self.mask,
        ];
        let loras = self.loras.iter().map(|lora| &lora.path);
        given
            .into_iter()
            .flatten()
            .chain(&self.references)
            .chain(self.controls.iter().flat_map(ControlInput::inputs))
            .chain(self.prompt_images.iter().map(|image| &image.path))
            .chain(loras)
    }

    /// Every path that the user named: the result's, the inputs', those of networks, and of the capture.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let given = [
            &mut self.image,
            &mut self.last_image,
            &mut self.extend,
            &mut self.source_video,
            &mut self.mask,
            &mut self.options.capture,
        ];
        let controls = self.controls.iter_mut().flat_map(ControlInput::inputs_mut);
        std::iter::once(&mut self.out)
            .chain(given.into_iter().flatten())
            .chain(self.companions.each_mut().into_iter().flatten())
            .chain(&mut self.references)
            .chain(controls)
            .chain(self.prompt_images.iter_mut().map(|image| &mut image.path))
            .chain(self.loras.iter_mut().map(|lora| &mut lora.path))
    }

    /// The name that a reference image, counted from 0, has among the fingerprints of what a job is made from.
    pub fn reference_name(index: usize) -> String {
        format!("reference_{}", index + 1)
    }

    pub fn prompt_image_name(index: usize) -> String {
        format!("prompt_image_{}", index + 1)
    }

    /// Number of devices that share its steps, on all computers.
    pub fn num_devices(&self) -> u32 {
        let JobOptions { memory, hosts, .. } = &self.options;
        memory.num_devices() * (1 + hosts.len() as u32)
    }

    /// Returns whether a video starts from another one: a given one, or that of a first pass.
    pub fn begins_from_video(&self) -> bool {
        self.source_video.is_some() || self.image_role == ImageRole::Base
    }

    /// Returns whether the video starts from a given frame, of an image or of another video.
    pub fn has_start(&self) -> bool {
        self.image.is_some() || self.extend.is_some()
    }
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PreviewChoice {
        /// A tiny decoder if one is installed, otherwise linear.
        #[default]
        Auto = "auto", "Sharp where possible";
        /// The model's colours of latents: coarse, and free.
        Linear = "linear", "Coarse";
        /// None, for callers that show no preview.
        Off = "off", "None";
    }
}

parsed!(PreviewChoice, "a preview");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_step;

    #[test]
    fn continued_video_contributes_whole_latents_from_its_end() {
        for (num_frames, expected) in [(1, 1), (5, 1), (9, 5), (13, 9), (17, 13), (81, 13)] {
            assert_eq!(shown_frames(num_frames), expected, "{num_frames}");
        }
    }

    #[test]
    fn strength_sets_the_first_step_to_run() {
        for (num_steps, strength, expected) in [
            (5, 0.7, 1),
            (4, 0.6, 1),
            (28, 0.6, 11),
            (28, 1.0, 0),
            (10, 0.05, 9),
            (10, 2.0, 0),
            (10, 0.0, 10),
        ] {
            let found = first_step(num_steps, strength);
            assert_eq!(found, expected, "{num_steps} {strength}");
        }
    }
}
