//! What is remembered of choices and of convolutions, in words and figures: for the doctor, the command line and reports.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Choice, ChoiceFile, Choices, Measured};
use crate::memory::tiers::{TierEnd, TierFile, TierRecord, Verdict};
use crate::settings::Paths;

/// One choice on one device, as it is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredChoice {
    /// `attention`, `matrices`, `chunk`, `copies` or `convolutions`.
    pub choice: String,
    /// The same for people.
    pub label: String,
    pub device: String,
    pub driver: String,
    pub libtorch: String,
    /// `bf16`, `f16` or `f32`; empty of copies.
    pub dtype: String,
    /// The sizes that it was measured at, in words.
    pub shape: String,
    /// When, in seconds of the Unix epoch.
    pub since_secs: u64,
    /// Every way that was measured; the first is what is done by itself.
    pub figures: Vec<StoredFigure>,
    /// The way that jobs take where nobody chose another, in words.
    pub chosen: String,
    /// Whether that is what is done by itself.
    pub is_default: bool,
}

/// One way and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredFigure {
    pub way: String,
    /// Of one run; absent where it is not right.
    pub secs: Option<f64>,
    /// Against f32 on the CPU, relative; absent where it gave nothing.
    pub error: Option<f64>,
    /// Why it cannot be taken.
    pub problem: Option<String>,
}

impl StoredFigure {
    fn of(way: String, end: &TierEnd) -> Self {
        let (secs, error, problem) = match end {
            TierEnd::Right { secs, error } => (Some(*secs), Some(*error), None),
            TierEnd::Wrong { error } => (None, Some(*error), Some("wrong numbers".to_owned())),
            TierEnd::Failed { reason } => (None, None, Some(reason.clone())),
            TierEnd::TimedOut { secs } => (None, None, Some(format!("hung for {secs:.0} s"))),
        };
        Self {
            way,
            secs,
            error,
            problem,
        }
    }

    /// `flash 0.70 ms`, `flash not (wrong numbers)`
    pub fn words(&self) -> String {
        let way = &self.way;
        match (self.secs, &self.problem) {
            (Some(secs), _) => format!("{way} {}", millis(secs)),
            (None, problem) => format!("{way} not ({})", problem.as_deref().unwrap_or("?")),
        }
    }
}

impl StoredChoice {
    fn of(measured: &Measured) -> Self {
        let key = &measured.key;
        let what = key.choice;
        let best = measured.best(Choices::default());
        let figures = measured.alternatives.iter();
        Self {
            choice: what.name().to_owned(),
            label: what.label().to_owned(),
            device: key.device.clone(),
            driver: key.driver.clone(),
            libtorch: key.libtorch.clone(),
            dtype: key.dtype.clone(),
            shape: key.shape.clone(),
            since_secs: measured.since_secs,
            figures: figures
                .map(|it| StoredFigure::of(it.choices.words(what), &it.end))
                .collect(),
            chosen: best.words(what),
            is_default: best == Choices::default(),
        }
    }

    fn of_tiers(verdict: &Verdict) -> Self {
        let key = &verdict.key;
        let way = |record: &TierRecord| format!("{}, {}", record.tier.label(), record.way.label());
        let records = verdict.records.iter();
        let chosen = format!("{}, {}", verdict.tier.label(), verdict.way.label());
        let figures: Vec<StoredFigure> = records
            .map(|record| StoredFigure::of(way(record), &record.probe))
            .collect();
        Self {
            choice: "convolutions".to_owned(),
            label: "Convolutions".to_owned(),
            device: key.device.clone(),
            driver: key.driver.clone(),
            libtorch: key.libtorch.clone(),
            dtype: key.dtype.clone(),
            shape: format!("{} {}", key.shape.name(), key.convolutions.name()),
            since_secs: verdict.since_secs,
            is_default: figures.first().is_some_and(|first| first.way == chosen),
            figures,
            chosen,
        }
    }

    /// `Attention (bf16, 4096 tokens, 24 heads of 128): libtorch's choice 1.90 ms, in slices 7.00 ms -> libtorch's choice`
    pub fn line(&self) -> String {
        let mut text = format!("{} (", self.label);
        if !self.dtype.is_empty() {
            write!(text, "{}, ", self.dtype).ok();
        }
        write!(text, "{}): ", self.shape).ok();
        let figures: Vec<String> = self.figures.iter().map(StoredFigure::words).collect();
        write!(text, "{} -> {}", figures.join(", "), self.chosen).ok();
        text
    }

    /// Seconds of what is done by itself.
    fn own_secs(&self) -> Option<f64> {
        self.figures.first()?.secs
    }
}

/// Three digits.
fn millis(secs: f64) -> String {
    let ms = secs * 1e3;
    let decimals = match ms {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$} ms")
}

/// Everything that is remembered of the ways of this machine's devices.
pub fn stored(paths: &Paths) -> Vec<StoredChoice> {
    let choices = ChoiceFile::load(&paths.choices_file());
    let tiers = TierFile::load(&paths.tiers_file());
    let measured = choices.measured.iter().map(StoredChoice::of);
    let verdicts = tiers.verdicts.iter().map(StoredChoice::of_tiers);
    measured.chain(verdicts).collect()
}

/// How bf16 and f16 compare where both were measured: told and never chosen, because no product shows whether a model's
/// numbers stay within the narrow range of f16.
pub fn halves(stored: &[StoredChoice]) -> Vec<String> {
    let of = |dtype: &'static str| {
        let of_matrices = |it: &&StoredChoice| it.choice == Choice::Matrices.name();
        let all = stored.iter().filter(of_matrices);
        all.filter(move |it| it.dtype == dtype)
    };
    let pairs = of("bf16").filter_map(|bf16| {
        let same = |it: &&StoredChoice| {
            let key = |it: &StoredChoice| {
                let StoredChoice {
                    device,
                    driver,
                    libtorch,
                    shape,
                    ..
                } = it;
                [device, driver, libtorch, shape].map(Clone::clone)
            };
            key(it) == key(bf16)
        };
        let f16 = of("f16").find(same)?;
        let (bf16_secs, f16_secs) = (bf16.own_secs()?, f16.own_secs()?);
        let times = bf16_secs / f16_secs;
        Some(format!(
            "Matrix products take {} in bf16 and {} in f16 ({}): f16 is {times:.2} times as fast; the setting runtime.dtype chooses",
            millis(bf16_secs),
            millis(f16_secs),
            bf16.shape
        ))
    });
    pairs.collect()
}
