//! Guiders: the combination of conditional, unconditional and skip-layer predictions, and the steps in which they act.
//!
//! Only the choice; the engine computes.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::BlockSet;
use crate::enum_macros::{as_text, named, parsed};
use crate::units::range_problem;

named! {
    /// Kinds of guiders.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GuiderKind {
        /// By their difference alone.
        Cfg = "cfg", "Plain";
        /// The answer to the negative prompt is scaled to fit, and the first steps are left out (CFG-Zero*).
        CfgZero = "cfg_zero", "CFG-Zero*";
        /// Removes the parallel component of the difference, which oversaturates (adaptive projected guidance).
        Apg = "apg", "APG";
        /// Brought back to the standard deviation of the conditional answer, which high scales exceed (rescaled CFG).
        Rescale = "rescale", "Rescaled CFG";
        /// Away from the answer of the transformer without some blocks, too, which is one more pass (skip-layer guidance).
        SkipLayers = "slg", "Skip layers";
    }
}

parsed!(GuiderKind, "a guider");

/// Default skipped block.
const USUAL_BLOCK: u32 = 9;

/// Guider with its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Guider {
    #[default]
    Cfg,
    CfgZero {
        /// The first steps of those that are made, which change nothing.
        zero_steps: u32,
    },
    Apg {
        /// Share of the parallel component that is kept: 0 none, 1 all.
        eta: f64,
        /// The longest difference, in the Euclidean norm over a whole image or video; 0 for any.
        longest: f64,
        /// Factor of earlier differences that are added; negative values subtract.
        momentum: f64,
    },
    Rescale {
        /// Share of the rescaled prediction: 0 none, 1 all.
        share: f64,
    },
    SkipLayers {
        /// Blocks that the further pass leaves out.
        blocks: BlockSet,
        /// Distance by which predictions are pushed away from those of the skip-layer pass.
        scale: f64,
        /// The part of the steps with such a pass; its first step has none.
        part: GuidanceRange,
    },
}

impl Guider {
    pub const MOST_ZERO_STEPS: u32 = 100;
    pub const ETA: RangeInclusive<f64> = 0.0..=1.0;
    pub const LONGEST: RangeInclusive<f64> = 0.0..=10_000.0;
    pub const MOMENTUM: RangeInclusive<f64> = -0.95..=0.95;
    pub const SHARE: RangeInclusive<f64> = 0.0..=1.0;
    pub const SKIP_SCALE: RangeInclusive<f64> = 0.0..=20.0;

    pub fn kind(self) -> GuiderKind {
        match self {
            Self::Cfg => GuiderKind::Cfg,
            Self::CfgZero { .. } => GuiderKind::CfgZero,
            Self::Apg { .. } => GuiderKind::Apg,
            Self::Rescale { .. } => GuiderKind::Rescale,
            Self::SkipLayers { .. } => GuiderKind::SkipLayers,
        }
    }

    /// Returns whether it has no effect without a negative prediction.
    pub fn needs_negative(self) -> bool {
        !matches!(self, Self::SkipLayers { .. })
    }

    /// The blocks that a further pass of a step leaves out, where the step has one; counted from 0 among `num_steps`.
    pub fn skipped_blocks(self, step: usize, num_steps: usize) -> Option<BlockSet> {
        match self {
            Self::SkipLayers {
                blocks,
                scale,
                part,
            } if scale != 0.0 && part.holds(step, num_steps) => {
                // diffusers counts from after the first.
                let is_first = step == 0 || !part.holds(step - 1, num_steps);
                (!is_first).then_some(blocks)
            }
            _ => None,
        }
    }

    /// Returns whether a step depends on earlier ones.
    pub fn remembers(self) -> bool {
        matches!(self, Self::Apg { momentum, .. } if momentum != 0.0)
    }

    /// Sentence on invalid values.
    pub fn problem(self) -> Option<String> {
        match self {
            Self::Cfg => None,
            Self::CfgZero { zero_steps } => {
                let what = "the number of steps that CFG-Zero* leaves out";
                range_problem(what, &(0..=Self::MOST_ZERO_STEPS), "", zero_steps)
            }
            Self::Apg {
                eta,
                longest,
                momentum,
            } => [
                ("the parallel part of APG", Self::ETA, eta),
                ("the largest change of APG", Self::LONGEST, longest),
                ("the momentum of APG", Self::MOMENTUM, momentum),
            ]
            .into_iter()
            .find_map(|(what, range, number)| range_problem(what, &range, "", number)),
            Self::Rescale { share } => {
                range_problem("the share of rescaled CFG", &Self::SHARE, "", share)
            }
            Self::SkipLayers {
                blocks,
                scale,
                part,
            } => {
                let what = "the scale of skip-layer guidance";
                let no_block = "skip-layer guidance needs a block to skip, such as 9";
                range_problem(what, &Self::SKIP_SCALE, "", scale)
                    .or_else(|| blocks.is_empty().then(|| no_block.to_owned()))
                    .or_else(|| part.problem())
            }
        }
    }
}

impl From<GuiderKind> for Guider {
    /// With the numbers that its authors recommend; those of APG are its paper's for the largest model there, those of
    /// skip-layer guidance diffusers', with the one block that most skip.
    fn from(kind: GuiderKind) -> Self {
        match kind {
            GuiderKind::Cfg => Self::Cfg,
            GuiderKind::CfgZero => Self::CfgZero { zero_steps: 1 },
            GuiderKind::Apg => Self::Apg {
                eta: 0.0,
                longest: 15.0,
                momentum: -0.5,
            },
            GuiderKind::Rescale => Self::Rescale { share: 0.7 },
            GuiderKind::SkipLayers => Self::SkipLayers {
                blocks: BlockSet::single(USUAL_BLOCK),
                scale: 2.8,
                part: GuidanceRange {
                    start: 0.01,
                    end: 0.2,
                },
            },
        }
    }
}

impl fmt::Display for Guider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind().name();
        match self {
            Self::Cfg => f.write_str(name),
            Self::CfgZero { zero_steps } => write!(f, "{name}:{zero_steps}"),
            Self::Apg {
                eta,
                longest,
                momentum,
            } => write!(f, "{name}:{eta}:{longest}:{momentum}"),
            Self::Rescale { share } => write!(f, "{name}:{share}"),
            Self::SkipLayers {
                blocks,
                scale,
                part,
            } => write!(f, "{name}:{blocks}:{scale}:{part}"),
        }
    }
}

impl FromStr for Guider {
    type Err = String;

    /// `cfg`, `cfg_zero`, `cfg_zero:STEPS`, `apg`, `apg:ETA:LONGEST:MOMENTUM`, `rescale`, `rescale:SHARE`, `slg` or `slg:BLOCKS:SCALE:PART`.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = || -> Option<Self> {
            let mut parts = text.trim().split(':');
            let kind = parts.next()?.parse::<GuiderKind>().ok()?;
            let numbers: Vec<&str> = parts.collect();
            Some(match (kind, &numbers[..]) {
                (kind, []) => kind.into(),
                (GuiderKind::CfgZero, [zero_steps]) => Self::CfgZero {
                    zero_steps: zero_steps.parse().ok()?,
                },
                (GuiderKind::Apg, [eta, longest, momentum]) => Self::Apg {
                    eta: eta.parse().ok()?,
                    longest: longest.parse().ok()?,
                    momentum: momentum.parse().ok()?,
                },
                (GuiderKind::Rescale, [share]) => Self::Rescale {
                    share: share.parse().ok()?,
                },
                (GuiderKind::SkipLayers, [blocks, scale, part]) => Self::SkipLayers {
                    blocks: blocks.parse().ok()?,
                    scale: scale.parse().ok()?,
                    part: part.parse().ok()?,
                },
                _ => return None,
            })
        };
        let read = read().ok_or_else(|| {
            format!(
                "{text:?} is not a guider: choose {}, such as cfg_zero:1, apg:0:15:-0.5 or slg:9,10:2.8:0.01-0.2",
                GuiderKind::ALL.map(GuiderKind::name).join(", ")
            )
        })?;
        read.problem().map_or(Ok(read), Err)
    }
}

/// Range of guided steps: outside only the conditional prediction is computed, which takes half the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuidanceRange {
    /// Fractions of the steps that are made, 0 to 1.
    pub start: f64,
    pub end: f64,
}

impl Default for GuidanceRange {
    fn default() -> Self {
        Self {
            start: 0.0,
            end: 1.0,
        }
    }
}

impl GuidanceRange {
    /// Returns whether a step, counted from 0 among `num_steps`, is guided.
    pub fn holds(self, step: usize, num_steps: usize) -> bool {
        let at = |fraction: f64| (fraction * num_steps as f64) as usize;
        (at(self.start)..at(self.end)).contains(&step)
    }

    /// Sentence on an invalid range.
    pub fn problem(self) -> Option<String> {
        let is_right = self.start >= 0.0 && self.start < self.end && self.end <= 1.0;
        (!is_right).then(|| {
            format!("the guided part of the steps must be two numbers between 0 and 1, the first below the second, not {self}")
        })
    }
}

impl fmt::Display for GuidanceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

impl FromStr for GuidanceRange {
    type Err = String;

    /// `START-END`, fractions of the steps.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.trim().split_once('-');
        let read = numbers.and_then(|(start, end)| {
            Some(Self {
                start: start.parse().ok()?,
                end: end.parse().ok()?,
            })
        });
        let read = read.ok_or_else(|| {
            format!("{text:?} is no part of the steps: give two numbers between 0 and 1, such as 0.1-0.8")
        })?;
        read.problem().map_or(Ok(read), Err)
    }
}

as_text!(Guider GuidanceRange);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guider_is_named_with_its_numbers_or_without() {
        for kind in GuiderKind::ALL {
            let usual = Guider::from(kind);
            assert_eq!(kind.name().parse(), Ok(usual));
            assert_eq!(usual.to_string().parse(), Ok(usual));
            assert_eq!(usual.kind(), kind);
        }
        let zero = Guider::CfgZero { zero_steps: 2 };
        assert_eq!("CFG_ZERO:2".parse(), Ok(zero));
        let apg = Guider::Apg {
            eta: 1.0,
            longest: 0.0,
            momentum: 0.25,
        };
        assert_eq!("apg:1:0:0.25".parse(), Ok(apg));
        let written = serde_json::to_string(&apg).unwrap();
        assert_eq!(written, "\"apg:1:0:0.25\"");
        assert_eq!(serde_json::from_str::<Guider>(&written).unwrap(), apg);
        let skip = Guider::SkipLayers {
            blocks: "7,9".parse().unwrap(),
            scale: 1.5,
            part: "0.1-0.9".parse().unwrap(),
        };
        assert_eq!("slg:9, 7:1.5:0.1-0.9".parse(), Ok(skip));
        assert_eq!(skip.to_string(), "slg:7,9:1.5:0.1-0.9");
        for wrong in [
            "",
            "slg:9",
            "slg::2.8:0.01-0.2",
            "slg:64:2.8:0.01-0.2",
            "slg:9:-1:0.01-0.2",
            "slg:9:2.8:0.5-0.2",
            "zero",
            "cfg:1",
            "cfg_zero:-1",
            "cfg_zero:101",
            "apg:0",
            "apg:2:15:0",
            "apg:0:nan:0",
            "apg:0:15:-1",
            "rescale:1.5",
        ] {
            assert!(wrong.parse::<Guider>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn skip_layer_guidance_starts_after_the_first_step_of_its_range() {
        let steps = |text: &str, num_steps: usize| -> Vec<usize> {
            let guider: Guider = text.parse().unwrap();
            let all = 0..num_steps;
            all.filter(|step| guider.skipped_blocks(*step, num_steps).is_some())
                .collect()
        };
        assert_eq!(steps("slg", 50), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(steps("slg:9:2.8:0.1-0.5", 20), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(steps("slg:9:0:0-1", 20), [0_usize; 0]);
        assert_eq!(steps("apg", 20), [0_usize; 0]);
    }

    #[test]
    fn a_part_of_the_steps_is_two_fractions_and_holds_whole_steps() {
        let part: GuidanceRange = "0.1-0.8".parse().unwrap();
        let held = |num_steps: usize| -> Vec<usize> {
            let all = 0..num_steps;
            all.filter(|step| part.holds(*step, num_steps)).collect()
        };
        assert_eq!(held(10), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(held(4), [0, 1, 2]);
        let whole = GuidanceRange::default();
        assert!((0..7).all(|step| whole.holds(step, 7)));
        assert_eq!(whole.to_string().parse(), Ok(whole));
        for wrong in ["", "0.5", "0.8-0.2", "0-1.5", "-0.1-1", "nan-1", "0.5-0.5"] {
            assert!(wrong.parse::<GuidanceRange>().is_err(), "{wrong}");
        }
    }
}
