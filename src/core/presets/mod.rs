//! Presets: values of the form that go together. Three that every model has (draft, balanced, final), and those that
//! the user keeps in `presets.toml`.
//!
//! The presets of distilled models are in the catalogue. What the form does with a preset is the app's.

mod apply;
mod file;
mod quality;

use std::fmt::Write as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::job::{PartialSampling, StepCache};

pub use file::{LoadedPresets, OwnPreset, PresetEdit, PresetsError, edit, load};
pub use quality::{Quality, draft_size};

/// What a preset sets. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PresetValues {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<PresetSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Of a clip that is made in sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// An end or a shift of 0 is the model's own.
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
    /// The model's own, or like the picture.
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
        let wrong = || format!("expected a size (auto, 16:9, 832x480), found {text:?}");
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

impl TryFrom<String> for PresetSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PresetSize> for String {
    fn from(size: PresetSize) -> Self {
        match size {
            PresetSize::Auto | PresetSize::Smaller | PresetSize::Full => "auto".to_owned(),
            PresetSize::Aspect(across, down) => format!("{across}:{down}"),
            PresetSize::Exact(width, height) => format!("{width}x{height}"),
        }
    }
}

/// A step cache or none: `off`, `teacache:0.15`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CacheChoice(pub Option<StepCache>);

impl TryFrom<String> for CacheChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("off") {
            return Ok(Self(None));
        }
        text.trim().parse().map(|cache| Self(Some(cache)))
    }
}

impl From<CacheChoice> for String {
    fn from(choice: CacheChoice) -> Self {
        choice.0.map_or_else(
            || "off".to_owned(),
            |cache| format!("{}:{}", cache.kind.name(), cache.threshold),
        )
    }
}

impl PresetValues {
    /// What it sets, for people: `12 steps, guidance 3.5, sampler Euler`.
    pub fn described(&self) -> String {
        let mut text = String::new();
        let mut say = |part: String| {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            write!(text, "{comma}{part}").ok();
        };
        match self.size {
            Some(PresetSize::Auto) => say("the model's own size".to_owned()),
            Some(PresetSize::Smaller) => say("two thirds of the size".to_owned()),
            Some(PresetSize::Full) => say("full size".to_owned()),
            Some(PresetSize::Aspect(across, down)) => say(format!("size {across}:{down}")),
            Some(PresetSize::Exact(width, height)) => say(format!("{width} × {height} pixels")),
            None => {}
        }
        if let Some(frames) = self.frames {
            say(format!("{frames} frames"));
        }
        if let Some(seconds) = self.seconds {
            say(format!("{seconds} seconds"));
        }
        if let Some(fps) = self.fps {
            say(format!("{fps} frames a second"));
        }
        let sampling = self.sampling.described();
        if !sampling.is_empty() {
            say(sampling);
        }
        match self.step_cache {
            Some(CacheChoice(Some(cache))) => say(format!("step cache {}", cache.kind.label())),
            Some(CacheChoice(None)) => say("no step cache".to_owned()),
            None => {}
        }
        match self.vae_tile {
            Some(0) => say("no VAE tiles".to_owned()),
            Some(tile) => say(format!("VAE tiles of {tile} pixels")),
            None => {}
        }
        text
    }
}

#[cfg(test)]
mod tests;
