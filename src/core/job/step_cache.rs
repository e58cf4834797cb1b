//! Which step cache a job uses: what a step may take over of an earlier one, and from which change on it may not.
//!
//! Only the choice; the engine decides step by step.

use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::named::{named, parsed};

named! {
    /// How a step may take over what an earlier one computed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum StepCacheKind {
        /// By how far the modulated input of the first block moved (TeaCache).
        TeaCache = "teacache", "TeaCache";
        /// By how much the residual of the whole stack is known to grow from step to step (MagCache).
        MagCache = "magcache", "MagCache";
        /// By how far the residual of the first block moved.
        FirstBlock = "first_block", "First block";
    }
}

parsed!(StepCacheKind, "a step cache");

impl StepCacheKind {
    /// The threshold that its authors, or those who brought it to FramePack, recommend.
    pub fn usual_threshold(self) -> f64 {
        match self {
            Self::TeaCache => 0.15,
            Self::MagCache => 0.1,
            Self::FirstBlock => 0.08,
        }
    }
}

/// Skips steps that would change little. The first and the last step are always computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCache {
    pub kind: StepCacheKind,
    /// The relative change, summed over skipped steps, from which a step is computed.
    pub threshold: f64,
}

impl StepCache {
    /// Thresholds that make sense: with the largest nearly every step is skipped.
    pub const THRESHOLDS: RangeInclusive<f64> = 0.0..=1.0;
}

impl From<StepCacheKind> for StepCache {
    fn from(kind: StepCacheKind) -> Self {
        let threshold = kind.usual_threshold();
        Self { kind, threshold }
    }
}

impl FromStr for StepCache {
    type Err = String;

    /// `KIND` or `KIND:THRESHOLD`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, threshold) = text
            .split_once(':')
            .map_or((text, None), |(name, threshold)| (name, Some(threshold)));
        let kind = name.parse::<StepCacheKind>();
        let usual = kind.ok().map(Self::from);
        let read = match threshold {
            None => usual,
            Some(text) => usual.and_then(|usual| {
                let threshold = text.parse().ok()?;
                let fits = Self::THRESHOLDS.contains(&threshold);
                fits.then_some(Self { threshold, ..usual })
            }),
        };
        read.ok_or_else(|| {
            let names = StepCacheKind::ALL.map(StepCacheKind::name).join(", ");
            format!(
                "{text:?} is not a step cache: choose {names}, optionally with a threshold of {} to {}, such as teacache:0.15",
                Self::THRESHOLDS.start(),
                Self::THRESHOLDS.end()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_cache_is_named_with_its_threshold_or_without() {
        let read = |text: &str| text.parse::<StepCache>();
        for kind in StepCacheKind::ALL {
            assert_eq!(read(kind.name()), Ok(StepCache::from(kind)));
            let threshold = 0.03;
            let named = format!("{}:0.03", kind.name().to_uppercase());
            assert_eq!(read(&named), Ok(StepCache { kind, threshold }));
        }
        for wrong in [
            "",
            "tea",
            "teacache:",
            "teacache:nan",
            "magcache:1.5",
            "first_block:-0.1",
        ] {
            let message = read(wrong).unwrap_err();
            assert!(
                message.contains("teacache, magcache, first_block"),
                "{message}"
            );
        }
    }
}
