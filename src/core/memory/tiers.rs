//! How the convolutions of autoencoders and attention are computed, as plain data: what a user may choose, and what a probe of
//! a device found and is remembered on disk.
//!
//! Probes nothing: the worker starts the probe, the engine runs it. Where the file lies says
//! [`Paths::tiers_file`](crate::settings::Paths::tiers_file).

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{read_json_or_default, write_json};
use crate::named::named;

named! {
    // The label stands in a sentence: "convolutions …".
    /// How the convolutions of an autoencoder are computed, in the order in which tiers give way to each
    /// other.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum ConvolutionTier {
        /// By the vendor's library, cuDNN or MIOpen.
        #[default]
        Direct = "direct", "directly by cuDNN or MIOpen";
        /// By libtorch's own kernels: the vendor's library is off, for pictures too.
        NoMiopen = "no_miopen", "without cuDNN or MIOpen";
        /// Those over time each as convolutions of pictures, by the vendor's library.
        Frames = "frames", "frame by frame";
        /// Where the device can do none of them.
        Cpu = "cpu", "on the CPU";
    }
}

impl ConvolutionTier {
    /// Those that a device can be probed for.
    pub const ON_DEVICE: [Self; 3] = [Self::Direct, Self::NoMiopen, Self::Frames];
}

named! {
    /// What a user wants of [`ConvolutionTier`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ConvolutionChoice {
        /// The fastest that works: found by a probe on AMD GPUs, known elsewhere.
        #[default]
        Auto = "auto", "Automatic";
        Direct = "direct", "By cuDNN or MIOpen";
        NoMiopen = "no_miopen", "Without cuDNN or MIOpen";
        Frames = "frames", "Frame by frame";
        Cpu = "cpu", "On the CPU";
    }
}

impl ConvolutionChoice {
    /// `None`: whatever is best.
    pub fn tier(self) -> Option<ConvolutionTier> {
        match self {
            Self::Auto => None,
            Self::Direct => Some(ConvolutionTier::Direct),
            Self::NoMiopen => Some(ConvolutionTier::NoMiopen),
            Self::Frames => Some(ConvolutionTier::Frames),
            Self::Cpu => Some(ConvolutionTier::Cpu),
        }
    }
}

named! {
    /// How attention is computed on a GPU. Never by the scores of all tokens at once, whatever is chosen.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AttentionChoice {
        /// The fastest fused kernel that libtorch has for it, else slices.
        #[default]
        Auto = "auto", "Automatic";
        /// Flash attention alone, else slices.
        Flash = "flash", "Flash";
        /// Memory-efficient attention alone, else slices.
        Efficient = "efficient", "Memory-efficient";
        /// A few rows of the scores at a time, without any fused kernel; on the CPU too.
        Sliced = "sliced", "In slices";
    }
}

named! {
    /// Sizes of frames for which one tier is taken to be the best.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ShapeClass {
        /// Up to 512 × 512 pixels, or tiles of that size.
        Small = "small",
        Large = "large",
    }
}

impl ShapeClass {
    /// `width`, `height`: pixels of what the autoencoder works on at a time.
    pub fn of_pixels(width: u32, height: u32) -> Self {
        if u64::from(width) * u64::from(height) <= 512 * 512 {
            Self::Small
        } else {
            Self::Large
        }
    }
}

named! {
    /// Which convolutions an autoencoder has.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Convolutions {
        Pictures = "pictures",
        /// Over time too.
        #[default]
        Clips = "clips",
    }
}

impl Convolutions {
    /// The tiers that compute them in different ways.
    pub fn tiers(self) -> &'static [ConvolutionTier] {
        match self {
            Self::Pictures => &[ConvolutionTier::Direct, ConvolutionTier::NoMiopen],
            Self::Clips => &ConvolutionTier::ON_DEVICE,
        }
    }
}

named! {
    // The label stands in a list of ways, behind a tier.
    /// How MIOpen works in a process, which its environment says.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MiopenWay {
        /// It takes what it knows or guesses, and gets pictures by planes of a channel.
        #[default]
        Quick = "quick", "without a search";
        /// It searches as it does by itself.
        Searching = "searching", "with a search";
        /// It gets channels innermost.
        Innermost = "innermost", "with channels innermost";
        SearchingInnermost = "searching_innermost", "with a search and channels innermost";
    }
}

impl MiopenWay {
    pub fn searches(self) -> bool {
        matches!(self, Self::Searching | Self::SearchingInnermost)
    }

    pub fn is_innermost(self) -> bool {
        matches!(self, Self::Innermost | Self::SearchingInnermost)
    }
}

/// The line that the probe of a tier writes when all is compiled and searched for that this takes on first use: what
/// comes then has no reason to take long.
pub const WARM_LINE: &str = r#"{"warm":true}"#;

/// By so much must another way of MIOpen be faster than the first.
const WORTH_IT: f64 = 1.1;
/// What failed is tried again after a week: a library, a driver or the machine around them may be another.
pub(super) const PATIENCE_SECS: u64 = 7 * 24 * 60 * 60;

/// What a verdict holds for: where one of these is another, the device is probed again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierKey {
    /// The device's own name.
    pub device: String,
    /// The driver's and runtime's versions, as far as they are known.
    pub driver: String,
    pub libtorch: String,
    /// What the autoencoder computes in: `bf16`, `f16` or `f32`.
    pub dtype: String,
    pub shape: ShapeClass,
    /// Earlier versions knew those of clips alone.
    #[serde(default)]
    pub convolutions: Convolutions,
}

/// How a probe of one tier ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TierEnd {
    /// `error`: relative, of the worst layer.
    Right { secs: f64, error: f64 },
    /// It gave other numbers than the definition.
    Wrong { error: f64 },
    /// An error, or the end of the process.
    Failed { reason: String },
    /// It was ended after so many seconds.
    TimedOut { secs: f64 },
}

/// One line of the probe: `safelight-engine probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeLine {
    pub tier: ConvolutionTier,
    pub shape: ShapeClass,
    pub convolutions: Convolutions,
    pub dtype: String,
    #[serde(flatten)]
    pub end: TierEnd,
}

/// How often a tier was tried, by the probe and by stages, how often it worked, and how its probe ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierRecord {
    pub tier: ConvolutionTier,
    #[serde(default)]
    pub way: MiopenWay,
    pub attempts: u64,
    pub successes: u64,
    pub probe: TierEnd,
}

impl TierRecord {
    /// What a probe found.
    pub fn probed(tier: ConvolutionTier, way: MiopenWay, probe: TierEnd) -> Self {
        Self {
            tier,
            way,
            attempts: 1,
            successes: u64::from(matches!(probe, TierEnd::Right { .. })),
            probe,
        }
    }

    /// Seconds, more of them for what must be worth it; `None` where it is not right.
    fn cost(&self) -> Option<f64> {
        let TierEnd::Right { secs, .. } = self.probe else {
            return None;
        };
        let is_first = self.way == MiopenWay::default();
        Some(if is_first { secs } else { secs * WORTH_IT })
    }
}

/// The cheapest of them that is right.
pub fn best<'a>(records: impl IntoIterator<Item = &'a TierRecord>) -> Option<&'a TierRecord> {
    let costs = records.into_iter().filter_map(|it| Some((it, it.cost()?)));
    let cheapest = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    cheapest.map(|(record, _)| record)
}

/// What is known of one device, type and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    #[serde(flatten)]
    pub key: TierKey,
    pub tier: ConvolutionTier,
    #[serde(default)]
    pub way: MiopenWay,
    /// When it was found or last changed, in seconds of the Unix epoch; earlier versions did not say.
    #[serde(default)]
    pub since_secs: u64,
    /// Of every tier that was probed.
    pub records: Vec<TierRecord>,
}

impl Verdict {
    /// The fastest tier that is right, of what a probe found at `since_secs`.
    pub fn of_probe(key: TierKey, records: Vec<TierRecord>, since_secs: u64) -> Self {
        let mut verdict = Self {
            key,
            tier: ConvolutionTier::Cpu,
            way: MiopenWay::default(),
            since_secs,
            records,
        };
        verdict.choose();
        verdict
    }

    fn choose(&mut self) {
        let chosen = best(&self.records).map(|record| (record.tier, record.way));
        (self.tier, self.way) =
            chosen.unwrap_or_else(|| (ConvolutionTier::Cpu, MiopenWay::default()));
    }

    /// The best way of one tier; `None` where it is not right in any.
    pub fn way_of(&self, tier: ConvolutionTier) -> Option<MiopenWay> {
        let records = self.records.iter().filter(|record| record.tier == tier);
        best(records).map(|record| record.way)
    }

    /// Whether something failed, or took too long, so long ago that it is worth another try.
    pub fn is_due(&self, now_secs: u64) -> bool {
        // The other ways are a gain that can wait for other versions.
        let is_first = |record: &TierRecord| record.way == MiopenWay::default();
        let has_failed = |record: &TierRecord| {
            let has = matches!(
                record.probe,
                TierEnd::Failed { .. } | TierEnd::TimedOut { .. }
            );
            has && is_first(record)
        };
        // A clock that was set back tells nothing.
        let is_old = now_secs.abs_diff(self.since_secs) >= PATIENCE_SECS;
        is_old && self.records.iter().any(has_failed)
    }

    fn record(&mut self, tier: ConvolutionTier, way: MiopenWay) -> Option<&mut TierRecord> {
        let mut records = self.records.iter_mut();
        records.find(|record| (record.tier, record.way) == (tier, way))
    }

    /// A stage hung or crashed with a tier that its probe found right: the next best from here on.
    pub fn give_up(&mut self, tier: ConvolutionTier, way: MiopenWay, reason: &str, now_secs: u64) {
        if let Some(record) = self.record(tier, way) {
            record.probe = TierEnd::Failed {
                reason: reason.to_owned(),
            };
        }
        self.since_secs = now_secs;
        self.choose();
    }

    /// A stage ran with one of the tiers.
    pub fn count(&mut self, tier: ConvolutionTier, way: MiopenWay, has_worked: bool) {
        if let Some(record) = self.record(tier, way) {
            record.attempts += 1;
            record.successes += u64::from(has_worked);
        }
    }
}

/// All verdicts, as they are remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierFile {
    pub verdicts: Vec<Verdict>,
}

impl TierFile {
    /// What is remembered; nothing where there is no file or a broken one, which costs a probe.
    pub fn load(path: &Path) -> Self {
        read_json_or_default(path)
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        write_json(path, self)
    }

    pub fn find(&mut self, key: &TierKey) -> Option<&mut Verdict> {
        self.verdicts.iter_mut().find(|verdict| verdict.key == *key)
    }

    pub fn put(&mut self, verdict: Verdict) {
        self.verdicts.retain(|known| known.key != verdict.key);
        self.verdicts.push(verdict);
    }
}

#[cfg(test)]
mod tests;
