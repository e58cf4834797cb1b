//! Control: an image or a video that says where edges, depths or limbs of the result are to be, and how much it says.
//!
//! Plain data; files are opened by whoever copies them into the job's folder.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::model::{ControlBy, ControlKind, ControlUse};

/// The thresholds of Canny's edges, as OpenCV counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CannyThresholds {
    /// Gradient above which a pixel continues an edge.
    pub low: u16,
    /// Gradient above which a pixel begins an edge.
    pub high: u16,
}

impl CannyThresholds {
    pub const THRESHOLDS: RangeInclusive<u16> = 1..=1000;

    /// `None` if both are valid, else a sentence.
    #[must_use]
    pub fn problem(self) -> Option<String> {
        let (least, most) = Self::THRESHOLDS.into_inner();
        let is_right = (least..=most).contains(&self.low)
            && (least..=most).contains(&self.high)
            && self.low <= self.high;
        (!is_right).then(|| {
            format!(
                "the thresholds of the edges must be two whole numbers from {least} to {most}, the lower one first, not {}..{}",
                self.low, self.high
            )
        })
    }
}

impl Default for CannyThresholds {
    fn default() -> Self {
        Self {
            low: 100,
            high: 200,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControlSettings {
    /// Control type, for networks that require it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ControlKind>,
    /// 0 for nothing, 1 as trained.
    #[serde(skip_serializing_if = "is_one")]
    pub strength: f64,
    /// From which step on it acts, as a part of all steps: a step acts that begins at or after it.
    #[serde(skip_serializing_if = "is_zero")]
    pub from: f64,
    /// Until which step it acts, as `from`: a step acts that ends at or before it.
    #[serde(skip_serializing_if = "is_one")]
    pub until: f64,
    /// The file or folder of the network that brings it in; absent for models that take it themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<PathBuf>,
    /// The edges of the image are what the model is shown, drawn with these thresholds; absent where the image is
    /// shown as it is.
    #[serde(rename = "edges", skip_serializing_if = "Option::is_none")]
    pub made: Option<CannyThresholds>,
}

impl Default for ControlSettings {
    fn default() -> Self {
        Self {
            kind: None,
            strength: 1.0,
            from: 0.0,
            until: 1.0,
            network: None,
            made: None,
        }
    }
}

impl ControlSettings {
    pub const STRENGTHS: RangeInclusive<f64> = 0.0..=2.0;

    /// Returns whether it acts in a step, counted from 0 among `num_steps`, as in diffusers' pipelines.
    #[must_use]
    pub fn acts_in(&self, step: usize, num_steps: usize) -> bool {
        let at = |step: usize| step as f64 / num_steps as f64;
        self.strength != 0.0 && at(step) >= self.from && at(step + 1) <= self.until
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlInput {
    /// The image or video, as the user named it. The job's folder has its own copy.
    pub file: PathBuf,
    /// Mask of the regenerated part of `file`: white is regenerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<PathBuf>,
    #[serde(flatten)]
    pub settings: ControlSettings,
}

impl ControlInput {
    /// The image or video, and its mask, each with the name that it has among the fingerprints of what a job is made
    /// from; `index` counts the request's controls from 0.
    pub fn files(&self, index: usize) -> impl Iterator<Item = (String, &Path)> {
        let number = index + 1;
        let mask = self.mask.as_deref();
        let mask = mask.map(|mask| (format!("control_{number}_mask"), mask));
        std::iter::once((format!("control_{number}"), self.file.as_path())).chain(mask)
    }

    #[must_use]
    pub fn network_name(index: usize) -> String {
        format!("control_{}_network", index + 1)
    }

    /// Its files, and that of its network.
    pub fn inputs(&self) -> impl Iterator<Item = &PathBuf> {
        let others = [&self.mask, &self.settings.network];
        std::iter::once(&self.file).chain(others.into_iter().flatten())
    }

    pub fn inputs_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let others = [&mut self.mask, &mut self.settings.network];
        std::iter::once(&mut self.file).chain(others.into_iter().flatten())
    }

    /// One `KEY=VALUE` after the file.
    fn take(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let settings = &mut self.settings;
        match key {
            "kind" => settings.kind = Some(value.parse()?),
            "strength" => {
                let number = value.parse().ok();
                let number = number.filter(|it: &f64| it.is_finite());
                settings.strength = number
                    .ok_or_else(|| format!("the strength of a control is no number: {value:?}"))?;
            }
            "steps" => {
                (settings.from, settings.until) = range(value).ok_or_else(|| {
                    format!("{value:?} is no part of the steps: give two numbers between 0 and 1, such as 0..0.8")
                })?;
            }
            "net" => settings.network = Some(value.into()),
            "mask" => self.mask = Some(value.into()),
            _ if value.is_empty() => settings.made = Some(CannyThresholds::default()),
            _ => {
                let (low, high) = range(value).ok_or_else(|| {
                    format!("{value:?} are no thresholds of edges: give two whole numbers, such as 100..200")
                })?;
                settings.made = Some(CannyThresholds { low, high });
            }
        }
        Ok(())
    }
}

impl FromStr for ControlInput {
    type Err = String;

    /// `FILE[,KEY=VALUE…]`; a comma without a key belongs to the text before it.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let key = part.split('=').next().unwrap_or_default();
            let is_alone = part == "edges";
            let is_known = is_alone || (part.contains('=') && KEYS.contains(&key));
            match parts.last_mut() {
                Some(last) if !is_known => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or_default();
        let file = first.strip_prefix("file=").unwrap_or(&first);
        if file.is_empty() || KEYS.iter().any(|key| file.starts_with(&format!("{key}="))) {
            return Err(format!(
                "{text:?} begins with no file: write FILE[,kind=KIND][,strength=X][,steps=FROM..UNTIL][,net=FILE][,mask=FILE][,edges=LOW..HIGH]"
            ));
        }
        let mut control = Self {
            file: file.into(),
            mask: None,
            settings: ControlSettings::default(),
        };
        for part in parts {
            control.take(&part)?;
        }
        Ok(control)
    }
}

const KEYS: [&str; 6] = ["kind", "strength", "steps", "net", "mask", "edges"];

/// `A..B`
fn range<T: FromStr>(text: &str) -> Option<(T, T)> {
    let (from, until) = text.split_once("..")?;
    Some((from.trim().parse().ok()?, until.trim().parse().ok()?))
}

fn is_one<T: PartialEq<f64>>(number: &T) -> bool {
    *number == 1.0
}

fn is_zero<T: PartialEq<f64>>(number: &T) -> bool {
    *number == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_acts_in_the_steps_that_lie_within_its_part_of_them() {
        let acting = |from, until, num_steps| {
            let settings = ControlSettings {
                from,
                until,
                ..ControlSettings::default()
            };
            (0..num_steps)
                .filter(|&step| settings.acts_in(step, num_steps))
                .collect::<Vec<_>>()
        };
        assert_eq!(acting(0.0, 1.0, 3), [0, 1, 2]);
        assert_eq!(acting(0.0, 0.5, 4), [0, 1]);
        assert_eq!(acting(0.3, 1.0, 4), [2, 3]);
        assert_eq!(acting(0.25, 0.7, 4), [1]);
        let off = ControlSettings {
            strength: 0.0,
            ..ControlSettings::default()
        };
        assert!(!off.acts_in(0, 4));
    }

    #[test]
    fn control_input_is_parsed_from_a_file_and_key_value_settings() {
        let read = |text: &str| text.parse::<ControlInput>();
        let plain = read("my, first=pose.png").unwrap();
        assert_eq!(plain.file, Path::new("my, first=pose.png"));
        assert_eq!(plain.settings, ControlSettings::default());
        let all = "file=a,b.mp4,kind=soft_edges,strength=0.5,steps=0.1..0.8,net=x, y.safetensors,mask=m.png,edges=50..150";
        let expected = ControlInput {
            file: "a,b.mp4".into(),
            mask: Some("m.png".into()),
            settings: ControlSettings {
                kind: Some(ControlKind::SoftEdges),
                strength: 0.5,
                from: 0.1,
                until: 0.8,
                network: Some("x, y.safetensors".into()),
                made: Some(CannyThresholds { low: 50, high: 150 }),
            },
        };
        assert_eq!(read(all), Ok(expected));
        let made = |text: &str| read(text).unwrap().settings.made;
        assert_eq!(made("a.png,edges"), Some(CannyThresholds::default()));
        for (wrong, message) in [
            ("", "begins with no file"),
            ("kind=depth", "begins with no file"),
            ("a.png,kind=colours", "expected a kind of control (edges,"),
            ("a.png,strength=nan", "no number"),
            ("a.png,steps=0.8", "such as 0..0.8"),
            ("a.png,edges=1.5..3", "such as 100..200"),
        ] {
            let err = read(wrong).unwrap_err();
            assert!(err.contains(message), "{wrong}: {err}");
        }
    }

    #[test]
    fn default_control_settings_are_omitted_from_json() {
        let plain = ControlInput {
            file: "a.png".into(),
            mask: None,
            settings: ControlSettings::default(),
        };
        let json = serde_json::to_string(&plain).unwrap();
        assert_eq!(json, r#"{"file":"a.png"}"#);
        let full = ControlInput {
            mask: Some("m.png".into()),
            settings: ControlSettings {
                kind: Some(ControlKind::SoftEdges),
                strength: 0.8,
                from: 0.1,
                until: 0.6,
                network: Some("n.safetensors".into()),
                made: Some(CannyThresholds::default()),
            },
            ..plain.clone()
        };
        for control in [plain, full] {
            let json = serde_json::to_string(&control).unwrap();
            let again: ControlInput = serde_json::from_str(&json).unwrap();
            assert_eq!(again, control, "{json}");
        }
        for kind in ControlKind::ALL {
            let written = serde_json::to_value(kind).unwrap();
            assert_eq!(written, kind.name());
        }
    }
}
