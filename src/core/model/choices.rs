//! Choices of a job: samplers and sigma schedules, LoRAs, devices, dtypes, fit of images.
//!
//! Each has one name everywhere: in settings, arguments, requests and files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::InputUse;
use crate::enum_macros::{as_text, named, parsed};

named! {
    /// Sampler. Names are ComfyUI's, and so is the arithmetic where diffusers' differs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SamplerKind {
        /// UniPC, order 2, `bh2`, on flow sigmas: Wan's own.
        #[default]
        UniPc = "unipc", "UniPC";
        /// UniPC with `B(h) = h`.
        UniPcBh1 = "unipc_bh1", "UniPC bh1";
        Euler = "euler", "Euler";
        /// Euler to a lower sigma than the step's, and new noise up to it.
        EulerAncestral = "euler_ancestral", "Euler ancestral";
        /// Flow-match Heun: second order, two calls of the model a step.
        Heun = "heun", "Heun";
        /// DPM-Solver++, second order, multistep, in the logarithm of sigma.
        DpmPp2m = "dpmpp_2m", "DPM++ 2M";
        /// As `DpmPp2m`, in the ratio of image to noise: diffusers' `DPMSolverMultistepScheduler` on flow sigmas.
        DpmPp2mDiffusers = "dpmpp_2m_diffusers", "DPM++ 2M (diffusers)";
        /// DPM-Solver++ with new noise, second order, multistep.
        DpmPp2mSde = "dpmpp_2m_sde", "DPM++ 2M SDE";
        /// DPM-Solver++ with new noise, two calls of the model a step.
        DpmPpSde = "dpmpp_sde", "DPM++ SDE";
        /// Exponential integrator, second order, multistep.
        ResMultistep = "res_multistep", "RES multistep";
        /// Exponential integrator, second order, two calls of the model a step.
        Res2s = "res_2s", "RES 2S";
        /// Extended reverse-time SDE, up to third order, multistep.
        ErSde = "er_sde", "ER SDE";
        /// Euler that exaggerates the change of the slope.
        GradientEstimation = "gradient_estimation", "Gradient estimation";
        /// For models distilled to a few steps: new noise between steps.
        Lcm = "lcm", "LCM";
    }
}

parsed!(SamplerKind, "a sampler");

impl SamplerKind {
    /// Returns whether a step calls the model twice, except for the last.
    pub fn has_two_calls(self) -> bool {
        matches!(self, Self::Heun | Self::DpmPpSde | Self::Res2s)
    }

    /// Sampler of the same name as diffusers computes it.
    pub fn of_diffusers(self) -> Self {
        match self {
            Self::DpmPp2m => Self::DpmPp2mDiffusers,
            sampler => sampler,
        }
    }
}

named! {
    /// Spacing of the sigmas. Names are ComfyUI's, and so is the arithmetic where diffusers' differs: diffusers lays its
    /// sigmas between the ends of the model's own.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SigmaSchedule {
        /// The model's own in diffusers: timesteps as far from each other, shifted.
        #[default]
        Model = "model", "Model default";
        /// Every so many entries of the table of all sigmas, from 1 on.
        Simple = "simple", "Simple";
        /// Equal distances down to the smallest sigma.
        Normal = "normal", "Normal";
        /// As `Normal` with one step more, which is left out.
        SgmUniform = "sgm_uniform", "SGM uniform";
        /// Close together at both ends, by a beta distribution's quantiles (alpha and beta 0.6).
        Beta = "beta", "Beta";
        /// As `Beta`, with an alpha of 0.5 and a beta of 0.7.
        Beta57 = "beta57", "Beta57";
        /// Karras and others 2022, with a rho of 7.
        Karras = "karras", "Karras";
        /// As far from each other in the logarithm of sigma.
        Exponential = "exponential", "Exponential";
        /// As far from each other in the arctangent of sigma.
        KlOptimal = "kl_optimal", "KL optimal";
        /// Two arctangents, from 1 to 0.5 and from 0.5 to 0, whatever the shift.
        BongTangent = "bong_tangent", "Bong tangent";
        BetaDiffusers = "beta_diffusers", "Beta (diffusers)";
        KarrasDiffusers = "karras_diffusers", "Karras (diffusers)";
        ExponentialDiffusers = "exponential_diffusers", "Exponential (diffusers)";
    }
}

parsed!(SigmaSchedule, "a sigma schedule");

impl SigmaSchedule {
    /// Returns whether its sigmas lie between the ends of the model's own, as in diffusers.
    pub fn is_diffusers(self) -> bool {
        self == Self::Model || self.name().ends_with("_diffusers")
    }

    /// Schedule of the same name as diffusers computes it.
    pub fn of_diffusers(self) -> Self {
        match self {
            Self::Simple => Self::Model,
            Self::Beta => Self::BetaDiffusers,
            Self::Karras => Self::KarrasDiffusers,
            Self::Exponential => Self::ExponentialDiffusers,
            schedule => schedule,
        }
    }
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum SectionOrder {
        /// The last section first, each next one before it, so that the start image holds all together
        /// ("inverted anti-drifting": the first FramePack).
        #[default]
        Original = "original", "Back to front";
        /// The first section first, each next one after it ("vanilla": FramePack-F1).
        F1 = "f1", "Front to back (F1)";
    }
}

impl SectionOrder {
    /// Support of an end image: only if the end is made first.
    pub fn end_image(self) -> InputUse {
        match self {
            Self::Original => InputUse::Optional,
            Self::F1 => InputUse::No,
        }
    }
}

impl FromStr for SectionOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_lowercase().as_str() {
            "original" | "inverted_anti_drifting" => Ok(Self::Original),
            "f1" | "vanilla" => Ok(Self::F1),
            _ => Err(format!(
                "{text:?} is not an order of sections: choose original or f1"
            )),
        }
    }
}

/// A file of low-rank updates, and how strongly they act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoraChoice {
    pub path: PathBuf,
    /// 1 as trained; 0 not at all; may be negative.
    pub strength: f64,
    /// On the low-noise expert of models with two; as `strength` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength_2: Option<f64>,
}

impl LoraChoice {
    /// The name of its file's fingerprint among those of a job, in which it has this number.
    pub fn fingerprint_name(&self, index: usize) -> String {
        format!("loras.{index}")
    }
}

impl FromStr for LoraChoice {
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
        if let Some((_, end)) = rest.rsplit_once(':')
            && end.trim().parse::<f64>().is_ok_and(|it| !it.is_finite())
        {
            return Err(format!("{end:?} is not a strength: give a number"));
        }
        if rest.is_empty() {
            return Err(format!(
                "{text:?} is not a LoRA: give its file, optionally followed by :STRENGTH or :STRENGTH:STRENGTH_LOW"
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
                .ok_or_else(|| format!("{text:?} is not a device: choose auto, cpu or cuda:N")),
        }
    }
}

as_text!(DeviceChoice);

named! {
    /// The type that the transformer computes in.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum DtypeChoice {
        /// bf16 on a GPU, f32 on the CPU.
        #[default]
        Auto = "auto", "Automatic";
        F32 = "f32", "f32";
        Bf16 = "bf16", "bf16";
        F16 = "f16", "f16";
    }
}

parsed!(DtypeChoice, "a dtype");

named! {
    /// Fit of a start image with another aspect ratio to the video's size.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ResizeMode {
        /// Stretched to the size, as diffusers does.
        #[default]
        Stretch = "stretch",
        /// Cropped around its middle to the video's aspect, then resized.
        Crop = "crop",
    }
}

parsed!(ResizeMode, "a fit");
