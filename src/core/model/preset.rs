//! Form values of a preset.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{PartialSampling, StepCache};
use crate::enum_macros::as_text;

/// Values of a preset. Missing ones do not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PresetValues {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<PresetSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Of a video that is made in sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// 0 as an end or a shift means the default of the model.
    #[serde(flatten)]
    pub sampling: PartialSampling,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_cache: Option<CacheChoice>,
    /// Pixels; 0: whole frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_tile: Option<u32>,
}

/// A size as a preset names it: `auto`, `16:9` or `832x480`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PresetSize {
    /// The model's own, or like the image.
    Auto,
    Aspect(u32, u32),
    /// Pixels.
    Exact(u32, u32),
    /// About two thirds of the edges that the model makes in the form's aspect. Never in a file.
    Smaller,
    /// The model's own in the form's aspect, where it was a draft's. Never in a file.
    Full,
}

impl FromStr for PresetSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size: use auto, 16:9 or 832x480");
        let pair = |mark: char| {
            let (left, right) = text.split_once(mark)?;
            let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
            Some((number(left)?, number(right)?))
        };
        if text.trim().eq_ignore_ascii_case("auto") {
            Ok(Self::Auto)
        } else if let Some((across, down)) = pair(':') {
            Ok(Self::Aspect(across, down))
        } else {
            let (width, height) = pair('x').ok_or_else(wrong)?;
            Ok(Self::Exact(width, height))
        }
    }
}

impl fmt::Display for PresetSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto | Self::Smaller | Self::Full => f.write_str("auto"),
            Self::Aspect(across, down) => write!(f, "{across}:{down}"),
            Self::Exact(width, height) => write!(f, "{width}x{height}"),
        }
    }
}

as_text!(PresetSize CacheChoice);

/// A step cache or none: `off`, `teacache:0.15`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CacheChoice(pub Option<StepCache>);

impl FromStr for CacheChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("off") {
            return Ok(Self(None));
        }
        text.trim().parse().map(|cache| Self(Some(cache)))
    }
}

impl fmt::Display for CacheChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cache) => write!(f, "{}:{}", cache.kind, cache.threshold),
            None => f.write_str("off"),
        }
    }
}

impl PresetValues {
    /// Text of the values for people: `12 steps, guidance 3.5, sampler Euler`.
    pub fn described(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.size.map(|size| match size {
            PresetSize::Auto => "the model's own size".to_owned(),
            PresetSize::Smaller => "two thirds of the size".to_owned(),
            PresetSize::Full => "full size".to_owned(),
            PresetSize::Aspect(across, down) => format!("size {across}:{down}"),
            PresetSize::Exact(width, height) => format!("{width} × {height} pixels"),
        }));
        parts.extend(self.frames.map(|frames| format!("{frames} frames")));
        parts.extend(self.seconds.map(|seconds| format!("{seconds} seconds")));
        parts.extend(self.fps.map(|fps| format!("{fps} frames a second")));
        parts.extend(Some(self.sampling.described()).filter(|it| !it.is_empty()));
        parts.extend(self.step_cache.map(|cache| match cache.0 {
            Some(cache) => format!("step cache {}", cache.kind.label()),
            None => "no step cache".to_owned(),
        }));
        parts.extend(self.vae_tile.map(|tile| match tile {
            0 => "no VAE tiles".to_owned(),
            tile => format!("VAE tiles of {tile} pixels"),
        }));
        parts.join(", ")
    }
}
