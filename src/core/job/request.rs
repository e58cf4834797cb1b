//! A validated request: everything that a job needs to know, and that repeats it exactly.

use std::convert::Infallible;
use std::ops::Not;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::prompt::SectionPrompts;
use super::{Control, EnlargedPass, OfGrid, PreviewChoice, Sampling, Sections, StepCache};
use crate::families::Family;
use crate::library::Companions;
use crate::memory::MemoryOptions;
use crate::model::choices::{DtypeChoice, Fit, Lora};
use crate::model::{ImageRole, LatentRgb, ModelFiles};

/// Who says so of itself in what results carry.
pub const CARRIED_APP: &str = "Safelight";

/// A validated request. The engine need not check it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// The catalogue's id, or the path that the user gave.
    pub model: String,
    pub family: Family,
    /// Where the model's components lie. Not carried in files.
    #[serde(default)]
    pub files: ModelFiles,
    /// The components that the user named, as they stand in `files` too. Carried, to be named again.
    #[serde(default, skip_serializing_if = "Companions::is_empty")]
    pub companions: Companions,
    /// The model's colours of latents, for live previews. Not carried in files.
    #[serde(default)]
    pub latent_rgb: Option<LatentRgb>,
    /// How it is watched; changes no result. Not carried in files.
    #[serde(default)]
    pub preview: PreviewChoice,
    /// What the model does with `image`. Not carried in files.
    #[serde(default)]
    pub image_role: ImageRole,
    /// What the text encoders read.
    pub prompt: String,
    /// What the user wrote, where `prompt` was made of it: with choices, wildcards and comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    pub negative_prompt: String,
    /// As `prompt_template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt_template: Option<String>,
    /// The start picture, as the user named it. The job's folder has its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// The end picture, as the user named it. The job's folder has its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_image: Option<PathBuf>,
    /// The clip that this one goes on from: its last frame is the start picture, F1 sees more of them, and its frames
    /// stand before the new ones in the written clip. Never together with `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<PathBuf>,
    /// The clip, or for one frame the picture, that this one is made of, as far as the strength says, as the user named
    /// it. The job's folder has its own copy. Never together with `image` or `extend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_clip: Option<PathBuf>,
    /// Which part of `image` or `source_clip` is made anew, as the user named it: white is, black stays. That of a clip may
    /// be a clip. The job's folder has its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<PathBuf>,
    /// What the mask keeps of `image` stays to the byte, also in models that were trained to answer for all of it.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub keeps_unmasked: bool,
    /// Pictures that the model sees beside what it makes, as the user named them, in the order in which a prompt counts
    /// them. The job's folder has its own copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<PathBuf>,
    /// What says where things are to be. The job's folder has its own copies of the pictures and clips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
    /// Pictures that are read as parts of the prompt, behind its text. The job's folder has its own copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_pictures: Vec<PromptPicture>,
    #[serde(default)]
    pub fit: Fit,
    /// Of the result.
    pub width: u32,
    /// As `width`.
    pub height: u32,
    /// Made at another size first; absent where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_pass: Option<EnlargedPass>,
    /// 4n + 1; 1 is a picture. With sections those of all of them, see [`Sections::num_frames`].
    pub num_frames: u32,
    /// How the clip is made section by section; absent for families that make it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Sections>,
    /// Frames a second of the written clip.
    pub fps: f64,
    /// Pictures made at once, with the seeds `seed`, `seed + 1` and so on. Always 1 for clips.
    #[serde(default = "crate::model::one")]
    pub batch_size: u32,
    #[serde(flatten)]
    pub sampling: Sampling,
    pub seed: u64,
    /// Tokens that the longest text encoder reads; the model's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sequence_length: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
    /// Every step is computed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_cache: Option<StepCache>,
    #[serde(default)]
    pub dtype: DtypeChoice,
    /// Edge of the tiles, in pixels, in which the VAE works; whole frames when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vae_tile: Option<u32>,
    /// How much memory the job may use. Where that is little the autoencoder works in tiles, which changes the result a
    /// little, and both passes of real guidance go one by one, which rounds otherwise. Not carried in files.
    #[serde(default)]
    pub memory: MemoryOptions,
    /// Where `capture.safetensors` goes, for comparisons with the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// The file to write; its extension is its kind. Not carried in files.
    #[serde(default)]
    pub out: PathBuf,
    /// `out` was made up by the program: it never replaces another file, and takes the next free name instead. Not
    /// carried in files.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_out_automatic: bool,
    /// Also write the settings beside the file, as `.json`.
    #[serde(default)]
    pub sidecar: bool,
    /// It is a cell of a grid, or carried by a grid's contact sheet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<OfGrid>,
}

/// A picture that is read as a part of the prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptPicture {
    /// As the user named it.
    pub path: PathBuf,
    /// What its tokens are multiplied with: 1 as the model was trained.
    pub strength: f64,
}

/// `FILE` or `FILE,STRENGTH`.
impl FromStr for PromptPicture {
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

/// How many of the last frames of a clip that is gone on from a model with layers for a control clip is shown: enough to
/// see how things move, whole latents, and some left to make.
fn shown_frames(num_frames: u32) -> u32 {
    const MOST: u32 = 13;
    let most = num_frames.saturating_sub(4).clamp(1, MOST);
    most - (most - 1) % 4
}

/// The first step that is made of a given picture, see `FamilyDef::first_step`.
pub fn first_step(num_steps: u32, strength: f64) -> u32 {
    let all = f64::from(num_steps);
    let made = (all * strength).min(all);
    (all - made).max(0.0) as u32
}

impl GenerateRequest {
    /// What a result carries of it, to make the same again: a JSON object with the program's name and version, to which
    /// more may be added.
    pub fn carried(&self) -> Value {
        let mut request = json!(self);
        if let Some(fields) = request.as_object_mut() {
            // Where this machine keeps things repeats nothing. What the user named does, and stays.
            for local in [
                "out",
                "is_out_automatic",
                "capture",
                "files",
                "latent_rgb",
                "preview",
                "image_role",
                "sidecar",
            ] {
                fields.remove(local);
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

    /// Whether single pictures come of it, one or a batch, and no clip.
    pub fn makes_pictures(&self) -> bool {
        self.num_frames == 1 && self.extend.is_none()
    }

    /// Whether any step needs a second pass for the negative prompt.
    pub fn is_guided(&self) -> bool {
        self.sampling
            .is_guided(self.family.guidance_is_cfg, &self.files)
    }

    /// Whether steps take over numbers of earlier ones that no checkpoint has, so that a walk that was left is made from
    /// its beginning.
    pub fn starts_over(&self) -> bool {
        self.step_cache.is_some() || (self.is_guided() && self.sampling.guider.remembers())
    }

    /// How many frames the decoder gives: those of the clip, or one for each picture of the batch.
    pub fn num_decoded(&self) -> usize {
        self.batch_size as usize * self.num_frames as usize
    }

    /// How many of those stand at the end of a clip that is gone on from already.
    pub fn lead_frames(&self) -> usize {
        let lead = match self.sections {
            Some(sections) => sections.lead_frames(),
            None if self.files.takes_control => shown_frames(self.num_frames),
            None => 1,
        };
        lead as usize
    }

    /// The request that makes one picture of the batch again, alone; `index` counts from 0.
    pub fn of_one(&self, index: usize) -> Self {
        Self {
            seed: self.seed.wrapping_add(index as u64),
            batch_size: 1,
            ..self.clone()
        }
    }

    /// What each section is told, by the times in the prompt; `None` for families without sections. The error is a
    /// sentence, which a form has told before.
    pub fn section_prompts(&self) -> Result<Option<SectionPrompts>, String> {
        self.sections
            .map(|sections| SectionPrompts::of(&self.prompt, &sections, self.fps))
            .transpose()
    }

    /// The files that the job is made from, as the user named them, beside the model itself.
    pub fn inputs(&self) -> impl Iterator<Item = &PathBuf> {
        let given = [
            &self.image,
            &self.last_image,
            &self.extend,
            &self.source_clip,
            &self.mask,
        ];
        let loras = self.loras.iter().map(|lora| &lora.path);
        given
            .into_iter()
            .flatten()
            .chain(&self.references)
            .chain(self.controls.iter().flat_map(Control::inputs))
            .chain(self.prompt_pictures.iter().map(|picture| &picture.path))
            .chain(loras)
    }

    /// The name that a reference picture, counted from 0, has among the fingerprints of what a job is made from.
    pub fn reference_name(index: usize) -> String {
        format!("reference_{}", index + 1)
    }

    /// The same of a picture that is a part of the prompt.
    pub fn prompt_picture_name(index: usize) -> String {
        format!("prompt_picture_{}", index + 1)
    }

    /// Whether a clip begins on the way to another: one that is given, or that a first pass made.
    pub fn begins_from_clip(&self) -> bool {
        self.source_clip.is_some() || self.image_role == ImageRole::Base
    }

    /// Whether the clip starts from a given frame, of a picture or of another clip.
    pub fn has_start(&self) -> bool {
        self.image.is_some() || self.extend.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_is_gone_on_from_with_whole_latents_of_its_end() {
        for (num_frames, expected) in [(1, 1), (5, 1), (9, 5), (13, 9), (17, 13), (81, 13)] {
            assert_eq!(shown_frames(num_frames), expected, "{num_frames}");
        }
    }

    #[test]
    fn strength_says_how_many_of_the_last_steps_are_made() {
        for (num_steps, strength, expected) in [
            (5, 0.7, 1),
            (4, 0.6, 1),
            (28, 0.6, 11),
            (28, 1.0, 0),
            (10, 0.05, 9),
            (10, 2.0, 0),
            (10, 0.0, 10),
        ] {
            assert_eq!(
                first_step(num_steps, strength),
                expected,
                "{num_steps} {strength}"
            );
        }
    }
}
