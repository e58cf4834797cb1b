//! Choices of a job: samplers and sigma schedules, LoRAs, devices, dtypes, fit of images.
//!
//! Each has one name everywhere: in settings, arguments, requests and files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::InputUse;
use crate::enum_macros::{named, parsed};

named! {
    /// Sampler.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SamplerKind {
        /// UniPC, order 2, `bh2`, on flow sigmas: Wan's own.
        #[default]
        UniPc = "unipc", "UniPC";
        /// UniPC with `B(h) = h`.
        #[serde(rename = "unipc_bh1")]
        UniPcBh1 = "unipc_bh1", "UniPC bh1";
        Euler = "euler", "Euler";
        /// Flow-match Heun: second order, two calls of the model a step.
        Heun = "heun", "Heun";
        /// DPM-Solver++, second order, multistep.
        #[serde(rename = "dpmpp_2m")]
        DpmPp2m = "dpmpp_2m", "DPM++ 2M";
        /// For models distilled to a few steps: new noise between steps.
        Lcm = "lcm", "LCM";
    }
}

parsed!(SamplerKind, "a sampler");

named! {
    /// Spacing of the sigmas.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SigmaSchedule {
        /// The model's own: timesteps as far from each other, shifted.
        #[default]
        Simple = "simple", "Simple";
        /// Close together at both ends, by a beta distribution's quantiles (alpha and beta 0.6).
        Beta = "beta", "Beta";
        /// Karras and others 2022, with a rho of 7.
        Karras = "karras", "Karras";
        /// As far from each other in the logarithm of sigma.
        Exponential = "exponential", "Exponential";
    }
}

parsed!(SigmaSchedule, "a sigma schedule");

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
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

named! {
    /// The type that the transformer computes in.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
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
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ResizeMode {
        /// Stretched to the size, as diffusers does.
        #[default]
        Stretch = "stretch",
        /// Cropped around its middle to the video's aspect, then resized.
        Crop = "crop",
    }
}

parsed!(ResizeMode, "a fit");
