//! How convolutions over time and attention are computed, as plain data: what a user may choose, and what a probe of
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
    /// How the convolutions over time of an autoencoder are computed, in the order in which tiers give way to each
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
        /// Each as convolutions of pictures, by the vendor's library.
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

/// What a verdict holds for: where one of these is another, the device is probed again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierKey {
    /// The device's own name.
    pub device: String,
    /// The driver's and runtime's versions, as far as they are known.
    pub driver: String,
    pub libtorch: String,
    /// `bf16`, `f16` or `f32`.
    pub dtype: String,
    pub shape: ShapeClass,
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
    pub dtype: String,
    #[serde(flatten)]
    pub end: TierEnd,
}

/// How often a tier was tried, by the probe and by stages, how often it worked, and how its probe ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierRecord {
    pub tier: ConvolutionTier,
    pub attempts: u64,
    pub successes: u64,
    pub probe: TierEnd,
}

/// What is known of one device, type and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    #[serde(flatten)]
    pub key: TierKey,
    pub tier: ConvolutionTier,
    /// Of every tier that was probed.
    pub records: Vec<TierRecord>,
}

impl Verdict {
    /// The fastest tier that is right, of what a probe found.
    pub fn of_probe(key: TierKey, ends: Vec<(ConvolutionTier, TierEnd)>) -> Self {
        let records = ends.into_iter().map(|(tier, probe)| TierRecord {
            tier,
            attempts: 1,
            successes: u64::from(matches!(probe, TierEnd::Right { .. })),
            probe,
        });
        let mut verdict = Self {
            key,
            tier: ConvolutionTier::Cpu,
            records: records.collect(),
        };
        verdict.choose();
        verdict
    }

    fn choose(&mut self) {
        let right = self.records.iter().filter_map(|record| match record.probe {
            TierEnd::Right { secs, .. } => Some((record.tier, secs)),
            _ => None,
        });
        let fastest = right.min_by(|a, b| a.1.total_cmp(&b.1));
        self.tier = fastest.map_or(ConvolutionTier::Cpu, |(tier, _)| tier);
    }

    /// A stage hung or crashed with a tier that its probe found right: the next best from here on.
    pub fn give_up(&mut self, tier: ConvolutionTier, reason: &str) {
        let mut records = self.records.iter_mut();
        if let Some(record) = records.find(|record| record.tier == tier) {
            record.probe = TierEnd::Failed {
                reason: reason.to_owned(),
            };
        }
        self.choose();
    }

    pub fn is_right(&self, tier: ConvolutionTier) -> bool {
        let mut records = self.records.iter();
        records.any(|record| record.tier == tier && matches!(record.probe, TierEnd::Right { .. }))
    }

    /// A stage ran with one of the tiers.
    pub fn count(&mut self, tier: ConvolutionTier, has_worked: bool) {
        let mut records = self.records.iter_mut();
        if let Some(record) = records.find(|record| record.tier == tier) {
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
mod tests {
    use std::fs;

    use super::*;

    fn key(shape: ShapeClass) -> TierKey {
        TierKey {
            device: "Radeon 8060S".to_owned(),
            driver: "6.18.4".to_owned(),
            libtorch: "2.11.0+rocm7.1".to_owned(),
            dtype: "bf16".to_owned(),
            shape,
        }
    }

    fn right(secs: f64) -> TierEnd {
        TierEnd::Right { secs, error: 1e-3 }
    }

    #[test]
    fn the_fastest_tier_that_is_right_wins_and_the_cpu_where_none_is() {
        let verdict = |ends: Vec<(ConvolutionTier, TierEnd)>| {
            Verdict::of_probe(key(ShapeClass::Large), ends).tier
        };
        let [direct, no_miopen, frames] = ConvolutionTier::ON_DEVICE;
        assert_eq!(
            verdict(vec![
                (direct, TierEnd::TimedOut { secs: 60.0 }),
                (no_miopen, right(0.5)),
                (frames, right(0.02)),
            ]),
            frames
        );
        let wrong = TierEnd::Wrong { error: 0.7 };
        assert_eq!(
            verdict(vec![(direct, wrong), (frames, right(f64::NAN))]),
            frames
        );
        let failed = TierEnd::Failed {
            reason: "no suitable algorithm".to_owned(),
        };
        assert_eq!(verdict(vec![(direct, failed)]), ConvolutionTier::Cpu);
    }

    #[test]
    fn a_verdict_comes_back_from_disk_with_its_counts_and_only_for_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/tiers.json");
        let mut file = TierFile::load(&path);
        assert_eq!(file, TierFile::default());
        let ends = vec![(ConvolutionTier::Frames, right(0.02))];
        file.put(Verdict::of_probe(key(ShapeClass::Small), ends.clone()));
        file.put(Verdict::of_probe(key(ShapeClass::Small), ends));
        let known = file.find(&key(ShapeClass::Small)).unwrap();
        known.count(ConvolutionTier::Frames, true);
        known.count(ConvolutionTier::Frames, false);
        // Nobody probed it.
        known.count(ConvolutionTier::Direct, true);
        file.save(&path).unwrap();
        let mut again = TierFile::load(&path);
        assert_eq!(again, file);
        assert_eq!(again.verdicts.len(), 1);
        assert!(again.find(&key(ShapeClass::Large)).is_none());
        let newer = TierKey {
            driver: "6.19".to_owned(),
            ..key(ShapeClass::Small)
        };
        assert!(again.find(&newer).is_none());
        let record = &again.find(&key(ShapeClass::Small)).unwrap().records[0];
        assert_eq!((record.attempts, record.successes), (3, 2));
    }

    #[test]
    fn a_tier_that_a_stage_was_lost_with_gives_way_to_the_next_best() {
        let [direct, no_miopen, frames] = ConvolutionTier::ON_DEVICE;
        let ends = vec![
            (direct, right(0.1)),
            (no_miopen, right(0.3)),
            (frames, right(0.2)),
        ];
        let mut verdict = Verdict::of_probe(key(ShapeClass::Large), ends);
        let order = [direct, frames, no_miopen].map(|tier| {
            assert!(verdict.is_right(tier));
            let chosen = verdict.tier;
            verdict.give_up(tier, "no progress for 600 s");
            (chosen, tier)
        });
        assert!(order.iter().all(|(chosen, tier)| chosen == tier));
        assert_eq!(verdict.tier, ConvolutionTier::Cpu);
    }

    #[test]
    fn a_broken_file_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiers.json");
        for text in ["", "{", "[]", r#"{"verdicts": [{"tier": "magic"}]}"#] {
            fs::write(&path, text).unwrap();
            assert_eq!(TierFile::load(&path), TierFile::default(), "{text}");
        }
    }

    #[test]
    fn a_line_of_the_probe_is_flat_json() {
        let line = ProbeLine {
            tier: ConvolutionTier::NoMiopen,
            shape: ShapeClass::Small,
            dtype: "bf16".to_owned(),
            end: right(0.25),
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"tier":"no_miopen","shape":"small","dtype":"bf16","end":"right","secs":0.25,"error":0.001}"#
        );
        assert_eq!(serde_json::from_str::<ProbeLine>(&text).unwrap(), line);
    }

    #[test]
    fn what_fits_into_a_tile_of_512_pixels_is_small() {
        assert_eq!(ShapeClass::of_pixels(512, 512), ShapeClass::Small);
        assert_eq!(ShapeClass::of_pixels(832, 480), ShapeClass::Large);
        assert_eq!(ShapeClass::of_pixels(u32::MAX, u32::MAX), ShapeClass::Large);
    }
}
