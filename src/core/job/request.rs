//! A validated request: everything that a job needs to know, and that repeats it exactly.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::prompt::SectionPrompts;
use super::{PreviewChoice, Sections, StepCache};
use crate::catalog::{Companions, Family, ImageRole, LatentRgb, ModelFiles};
use crate::memory::MemoryChoice;

/// How the latents walk from noise to picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampler {
    /// UniPC, order 2, `bh2`, on flow sigmas: Wan's own.
    #[default]
    UniPc,
    /// UniPC with `B(h) = h`.
    #[serde(rename = "unipc_bh1")]
    UniPcBh1,
    /// Flow-match Euler.
    Euler,
    /// Flow-match Heun: second order, two calls of the model a step.
    Heun,
    /// DPM-Solver++, second order, multistep.
    #[serde(rename = "dpmpp_2m")]
    DpmPp2m,
    /// For models distilled to a few steps: new noise between steps.
    Lcm,
}

impl Sampler {
    pub const ALL: [Self; 6] = [
        Self::UniPc,
        Self::UniPcBh1,
        Self::Euler,
        Self::Heun,
        Self::DpmPp2m,
        Self::Lcm,
    ];

    /// The name on the command line, in settings and in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::UniPc => "unipc",
            Self::UniPcBh1 => "unipc_bh1",
            Self::Euler => "euler",
            Self::Heun => "heun",
            Self::DpmPp2m => "dpmpp_2m",
            Self::Lcm => "lcm",
        }
    }

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::UniPc => "UniPC",
            Self::UniPcBh1 => "UniPC bh1",
            Self::Euler => "Euler",
            Self::Heun => "Heun",
            Self::DpmPp2m => "DPM++ 2M",
            Self::Lcm => "LCM",
        }
    }
}

impl FromStr for Sampler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|sampler| sampler.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("expected a sampler ({names}), found {text:?}")
            })
    }
}

/// How the sigmas of a walk are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SigmaSchedule {
    /// The model's own: timesteps as far from each other, shifted.
    #[default]
    Simple,
    /// Close together at both ends, by a beta distribution's quantiles (alpha and beta 0.6).
    Beta,
    /// Karras and others 2022, with a rho of 7.
    Karras,
    /// As far from each other in the logarithm of sigma.
    Exponential,
}

impl SigmaSchedule {
    pub const ALL: [Self; 4] = [Self::Simple, Self::Beta, Self::Karras, Self::Exponential];

    /// The name on the command line, in settings and in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Beta => "beta",
            Self::Karras => "karras",
            Self::Exponential => "exponential",
        }
    }

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::Simple => "Simple",
            Self::Beta => "Beta",
            Self::Karras => "Karras",
            Self::Exponential => "Exponential",
        }
    }
}

impl FromStr for SigmaSchedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|schedule| schedule.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("expected a sigma schedule ({names}), found {text:?}")
            })
    }
}

/// A file of low-rank updates, and how strongly they act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lora {
    pub path: PathBuf,
    /// 1 as trained; 0 not at all; may be negative.
    pub strength: f64,
    /// On the low-noise expert of models with two; as `strength` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength_2: Option<f64>,
}

impl Lora {
    /// The name of its file's fingerprint among those of a job, in which it has this number.
    pub fn fingerprint_name(&self, index: usize) -> String {
        format!("loras.{index}")
    }
}

impl FromStr for Lora {
    type Err = String;

    /// `FILE`, `FILE:STRENGTH` or `FILE:STRENGTH:STRENGTH_LOW`; what is no number belongs to the file's name.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let mut rest = text;
        let mut numbers = Vec::new();
        while numbers.len() < 2
            && let Some((before, end)) = rest.rsplit_once(':')
            && let Some(value) = number(end)
        {
            numbers.push(value);
            rest = before;
        }
        if rest.is_empty() {
            return Err(format!(
                "expected the file of a LoRA, perhaps with :STRENGTH or :STRENGTH:STRENGTH_LOW behind it, found {text:?}"
            ));
        }
        numbers.reverse();
        Ok(Self {
            path: PathBuf::from(rest),
            strength: numbers.first().copied().unwrap_or(1.0),
            strength_2: numbers.get(1).copied(),
        })
    }
}

/// Which device computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The GPU of the chosen runtime where there is one, the CPU otherwise.
    #[default]
    Auto,
    Cpu,
    /// The GPU with this number. ROCm's GPUs present themselves as `cuda` too.
    Cuda(usize),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|index| index.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("expected a device (auto, cpu, cuda:N), found {text:?}")),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

/// The type that the transformer computes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DtypeChoice {
    /// bf16 on a GPU, f32 on the CPU.
    #[default]
    Auto,
    F32,
    Bf16,
    F16,
}

impl DtypeChoice {
    pub const ALL: [Self; 4] = [Self::Auto, Self::F32, Self::Bf16, Self::F16];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

impl FromStr for DtypeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| format!("expected a dtype (auto, f32, bf16, f16), found {text:?}"))
    }
}

/// How a start picture of another aspect comes to the clip's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Stretched to the size, as diffusers does.
    #[default]
    Stretch,
    /// Cropped around its middle to the clip's aspect, then resized.
    Crop,
}

impl FromStr for Fit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stretch" => Ok(Self::Stretch),
            "crop" => Ok(Self::Crop),
            _ => Err(format!("expected a fit (stretch, crop), found {text:?}")),
        }
    }
}

fn one() -> u32 {
    1
}

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
    /// Which part of `image` is made anew, as the user named it: white is, black stays. The job's folder has
    /// its own copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<PathBuf>,
    /// How much of `image` is made anew, 0 to 1, for models that begin on the way to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<f64>,
    #[serde(default)]
    pub fit: Fit,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// 4n + 1; 1 is a picture. With sections those of all of them, see [`Sections::num_frames`].
    pub num_frames: u32,
    /// How the clip is made section by section; absent for families that make it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Sections>,
    /// Frames a second of the written clip.
    pub fps: f64,
    /// Pictures made at once, with the seeds `seed`, `seed + 1` and so on. Always 1 for clips.
    #[serde(default = "one")]
    pub batch_size: u32,
    pub num_steps: u32,
    /// What the family calls guidance: classifier-free in Wan (two passes a step when above 1), the number that
    /// a distilled model is told in Flux and FramePack.
    pub guidance_scale: f64,
    /// Classifier-free guidance of models whose `guidance_scale` is another thing; two passes a step when above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub true_cfg_scale: Option<f64>,
    /// The low-noise expert's guidance; that of the high-noise one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale_2: Option<f64>,
    /// The first step of the schedule that is made, counted from 0.
    #[serde(default)]
    pub start_step: u32,
    /// The step before which the schedule is left; what noise is left then stays. The end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_step: Option<u32>,
    /// The schedule's shift; the model's own when absent, which in families that shift by the number of tokens is
    /// that (Flux dev, FramePack).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// The shift goes with the number of tokens though the model's scheduler has a fixed one. Not beside `shift`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dynamic_shift: bool,
    pub sampler: Sampler,
    #[serde(default)]
    pub sigma_schedule: SigmaSchedule,
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
    pub memory: MemoryChoice,
    /// Where `capture.safetensors` goes, for comparisons with the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// The file to write; its extension is its kind. Not carried in files.
    #[serde(default)]
    pub out: PathBuf,
    /// Also write the settings beside the file, as `.json`.
    #[serde(default)]
    pub sidecar: bool,
}

/// The first step that is made of a given picture, from 0: the less `strength`, 0 to 1, the later. `num_steps`,
/// which is no step at all, where the strength is too small for one.
pub fn first_step(num_steps: u32, strength: f64) -> u32 {
    let all = f64::from(num_steps);
    let made = (all * strength).min(all);
    (all - made).max(0.0) as u32
}

impl GenerateRequest {
    /// Whether single pictures come of it, one or a batch, and no clip.
    pub fn makes_pictures(&self) -> bool {
        self.num_frames == 1 && self.extend.is_none()
    }

    /// Whether any step needs a second pass for the negative prompt.
    pub fn is_guided(&self) -> bool {
        match self.family {
            Family::Wan => {
                let has_low = self.files.transformer_2.is_some();
                self.guidance_scale > 1.0 || (has_low && self.low_guidance_scale() > 1.0)
            }
            Family::Flux | Family::FramePack => {
                self.true_cfg_scale.is_some_and(|scale| scale > 1.0)
            }
        }
    }

    /// How many frames the decoder gives: those of the clip, or one for each picture of the batch.
    pub fn num_decoded(&self) -> usize {
        self.batch_size as usize * self.num_frames as usize
    }

    /// How many of those stand at the end of a clip that is gone on from already.
    pub fn lead_frames(&self) -> usize {
        self.sections.map_or(1, |it| it.lead_frames()) as usize
    }

    /// The request that makes one picture of the batch again, alone; `index` counts from 0.
    pub fn of_one(&self, index: usize) -> Self {
        Self {
            seed: self.seed.wrapping_add(index as u64),
            batch_size: 1,
            ..self.clone()
        }
    }

    /// The guidance of the low-noise expert.
    pub fn low_guidance_scale(&self) -> f64 {
        self.guidance_scale_2.unwrap_or(self.guidance_scale)
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
        let given = [&self.image, &self.last_image, &self.extend, &self.mask];
        let loras = self.loras.iter().map(|lora| &lora.path);
        given.into_iter().flatten().chain(loras)
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
