//! Step cache of a job: reuse of earlier steps, and the change from which a step is computed.
//!
//! Only the choice; the engine decides for each step.

use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::enum_macros::{labelled, named, parsed};
use crate::units::range_problem;

labelled! {
    /// Methods of reusing an earlier step. Files have other names of them than arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum StepCacheKind {
        /// By how far the modulated input of the first block moved (TeaCache).
        TeaCache = "TeaCache",
        /// By how much the residual of the whole stack is known to grow from step to step (MagCache).
        MagCache = "MagCache",
        /// By how far the residual of the first block moved.
        FirstBlock = "First block",
        /// No residual is reused: predictions are extrapolated linearly from earlier steps (TaylorSeer).
        TaylorSeer = "TaylorSeer",
    }
}

named!(names of StepCacheKind {
    TeaCache: "teacache",
    MagCache: "magcache",
    FirstBlock: "first_block",
    TaylorSeer: "taylorseer"
});

parsed!(StepCacheKind, "a step cache");

impl StepCacheKind {
    /// Those that need nothing that was measured of a model.
    pub const OF_ANY_MODEL: &[Self] = &[Self::FirstBlock, Self::TaylorSeer];

    /// All methods for any model, and the one that needs a model's magnitude ratios.
    pub const WITH_MAGNITUDES: &[Self] = &[Self::MagCache, Self::FirstBlock, Self::TaylorSeer];

    /// The threshold that its authors, or those who brought it to FramePack, recommend.
    pub fn usual_threshold(self) -> f64 {
        match self {
            Self::TeaCache => 0.15,
            Self::MagCache => 0.1,
            Self::FirstBlock => 0.08,
            Self::TaylorSeer => 5.0,
        }
    }

    /// Thresholds that make sense: with the largest nearly every step is skipped.
    pub fn thresholds(self) -> RangeInclusive<f64> {
        match self {
            Self::TeaCache | Self::MagCache | Self::FirstBlock => 0.0..=1.0,
            Self::TaylorSeer => 1.0..=10.0,
        }
    }
}

/// Skips steps that would change little. The first and the last step are always computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCache {
    pub kind: StepCacheKind,
    /// Relative change, summed over skipped steps, from which a step is computed; with TaylorSeer a whole number N: one
    /// step of N is computed.
    pub threshold: f64,
}

impl StepCache {
    /// One step of how many TaylorSeer computes.
    pub fn interval(self) -> usize {
        self.threshold.round() as usize
    }

    /// Sentence on an invalid value.
    pub fn problem(self) -> Option<String> {
        let what = format!("the threshold of {}", self.kind.label());
        range_problem(&what, &self.kind.thresholds(), "", self.threshold)
    }
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
        let usual = name.parse::<StepCacheKind>().ok().map(Self::from);
        let read = match threshold {
            None => usual,
            Some(text) => usual.and_then(|usual| {
                let threshold = text.parse().ok()?;
                let read = Self { threshold, ..usual };
                read.problem().is_none().then_some(read)
            }),
        };
        read.ok_or_else(|| {
            let names = StepCacheKind::ALL.map(StepCacheKind::name).join(", ");
            format!(
                "{text:?} is not a step cache: choose {names}, optionally with a threshold of 0 to 1, such as teacache:0.15, or for taylorseer the interval, 1 to 10, such as taylorseer:5"
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
            let is_interval = kind == StepCacheKind::TaylorSeer;
            let threshold = if is_interval { 3.0 } else { 0.03 };
            let named = format!("{}:{threshold}", kind.name().to_uppercase());
            assert_eq!(read(&named), Ok(StepCache { kind, threshold }));
        }
        let wrong =
            "tea teacache: teacache:nan magcache:1.5 first_block:-0.1 taylorseer:0.5 taylorseer:11";
        for wrong in wrong.split(' ').chain([""]) {
            let message = read(wrong).unwrap_err();
            let known = "teacache, magcache, first_block";
            assert!(message.contains(known), "{message}");
        }
    }
}
