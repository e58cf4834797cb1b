//! Which tier of convolutions a stage gets: what the settings say, what is known of the device, or what a probe finds.
//!
//! A probe runs in processes of its own, one a tier, because a vendor's library may hang in it or take its process
//! along. What it finds is remembered on disk. Computes nothing and starts no engine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use safelight_core::families::{Family, TimeConvolutions};
use safelight_core::job::{DeviceChoice, DtypeChoice, GenerateRequest, Stage};
use safelight_core::memory::tiers::{
    ConvolutionChoice, ConvolutionTier, ProbeLine, ShapeClass, TierEnd, TierFile, TierKey, Verdict,
};
use safelight_core::memory::{Fault, Rung};
use safelight_core::protocol::EngineReport;

use super::link::ProbeOrder;
use crate::child::{self, Ended};

/// How long one tier may take: loading libtorch from a cold disk, and the search of a library for its algorithms.
const PROBE_LIMIT: Duration = Duration::from_mins(1);

pub(super) struct Tiers {
    file: Option<PathBuf>,
    known: TierFile,
    limit: Duration,
}

impl Tiers {
    /// `file`: where verdicts are kept, if anywhere.
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        Self {
            known: file.as_deref().map(TierFile::load).unwrap_or_default(),
            file,
            limit: PROBE_LIMIT,
        }
    }

    /// What is known to be the best for a family; `None` where nothing is known.
    pub(super) fn tier(&mut self, key: &TierKey, family: Family) -> Option<ConvolutionTier> {
        let verdict = self.known.find(key)?;
        let by_frames = family.time_convolutions == TimeConvolutions::FrameByFrame
            && verdict.is_right(ConvolutionTier::Frames);
        Some(if by_frames {
            ConvolutionTier::Frames
        } else {
            verdict.tier
        })
    }

    /// Probes every tier and remembers what came of it; `None` when the job was cancelled meanwhile.
    pub(super) fn probe(
        &mut self,
        key: &TierKey,
        device: DeviceChoice,
        order: &mut dyn FnMut() -> Option<ProbeOrder>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<()> {
        let mut ends = Vec::new();
        for tier in ConvolutionTier::ON_DEVICE {
            let end = match order() {
                Some(ProbeOrder { command, .. }) => {
                    run(command, key, device, tier, self.limit, is_cancelled)?
                }
                None => failed("it could not be started"),
            };
            tracing::info!("convolutions {}: {end:?}", tier.label());
            ends.push((tier, end));
        }
        self.known.put(Verdict::of_probe(key.clone(), ends));
        self.save();
        Some(())
    }

    /// A stage ran with a tier that is known for `key`; `lost`: why its engine ended, if it did. A tier that may be the
    /// reason is not used again.
    pub(super) fn count(
        &mut self,
        key: &TierKey,
        tier: ConvolutionTier,
        has_worked: bool,
        lost: Option<&str>,
    ) {
        let Some(verdict) = self.known.find(key) else {
            return;
        };
        verdict.count(tier, has_worked);
        // Want of memory is the ladder's.
        let is_memory = |reason| Fault::of_last_words(reason).is_some_and(Fault::is_memory);
        if let Some(reason) = lost.filter(|reason| !is_memory(reason)) {
            verdict.give_up(tier, reason.lines().next().unwrap_or_default());
            tracing::warn!(
                "convolutions are computed {} from here on",
                verdict.tier.label()
            );
        }
        self.save();
    }

    fn save(&self) {
        if let Some(file) = &self.file
            && let Err(err) = self.known.save(file)
        {
            // It costs another probe, not the job.
            tracing::warn!("what a probe found could not be kept: {err}");
        }
    }
}

pub(super) fn has_convolutions(stage: Stage, family: Family) -> bool {
    family.time_convolutions != TimeConvolutions::None
        && matches!(stage, Stage::Decode | Stage::EncodeImage)
}

/// What a stage gets where nothing has to be found out.
pub(super) fn chosen(
    choice: ConvolutionChoice,
    stage: Stage,
    is_probed: bool,
) -> Option<ConvolutionTier> {
    if !matches!(stage, Stage::Decode | Stage::EncodeImage) {
        return Some(ConvolutionTier::Direct);
    }
    choice
        .tier()
        .or_else(|| (!is_probed).then_some(ConvolutionTier::Direct))
}

/// What a verdict for this job would be kept under.
pub(super) fn key(
    report: &EngineReport,
    order: &ProbeOrder,
    request: &GenerateRequest,
    rung: Rung,
) -> TierKey {
    let tiles = [request.vae_tile, rung.tile()];
    let edge = |pixels: u32| tiles.iter().flatten().copied().fold(pixels, u32::min);
    let dtype = match request.dtype {
        DtypeChoice::Auto => DtypeChoice::Bf16,
        dtype => dtype,
    };
    TierKey {
        device: report.device_name.clone(),
        driver: order.driver.clone(),
        libtorch: order.libtorch.clone(),
        dtype: dtype.name().to_owned(),
        shape: ShapeClass::of_pixels(edge(request.width), edge(request.height)),
    }
}

fn failed(reason: &str) -> TierEnd {
    TierEnd::Failed {
        reason: reason.to_owned(),
    }
}

/// Probes one tier in a process of its own; `None` when the job was cancelled meanwhile.
fn run(
    mut command: Command,
    key: &TierKey,
    device: DeviceChoice,
    tier: ConvolutionTier,
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<TierEnd> {
    command
        .args(["probe", "--json", "--device", &device.to_string()])
        .args(["--tier", tier.name()])
        .args(["--shape", key.shape.name()])
        .args(["--dtype", &key.dtype]);
    let mut found = None;
    let ended = child::run(command, limit, is_cancelled, &mut |line| {
        let line = serde_json::from_str::<ProbeLine>(line).ok();
        let own = line.filter(|line| (line.tier, line.shape) == (tier, key.shape));
        found = own.map(|line| line.end).or_else(|| found.take());
    });
    match (ended, found) {
        (Ended::Cancelled, _) => None,
        // What it said counts, whatever its destructors do behind it.
        (_, Some(end)) => Some(end),
        (Ended::TooLate { .. }, None) => Some(TierEnd::TimedOut {
            secs: limit.as_secs_f64(),
        }),
        (Ended::Well, None) => Some(failed("it ended without an answer")),
        (Ended::Badly { how, .. }, None) => Some(failed(&format!("without an answer: {how}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::Instant;

    use safelight_core::families::{flux, framepack, wan};

    use super::*;

    fn key() -> TierKey {
        TierKey {
            device: "Radeon 8060S".to_owned(),
            driver: "6.18.4".to_owned(),
            libtorch: "2.11.0+rocm7.1".to_owned(),
            dtype: "bf16".to_owned(),
            shape: ShapeClass::Large,
        }
    }

    /// An engine that answers to each tier as `cases` say: the branches of a shell's `case`.
    fn fake(folder: &Path, cases: &str) -> PathBuf {
        let path = folder.join("engine");
        // probe --json --device D --tier T --shape S --dtype K
        let script = format!(
            "#!/bin/sh\nanswer() {{ echo \"{{\\\"tier\\\":\\\"$1\\\",\\\"shape\\\":\\\"$2\\\",\\\"dtype\\\":\\\"bf16\\\",$3}}\"; }}\n\
             echo \"$@\" >> \"$(dirname \"$0\")/calls\"\ncase \"$6\" in\n{cases}\nesac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn order(engine: &Path) -> ProbeOrder {
        ProbeOrder {
            command: Command::new(engine),
            driver: String::new(),
            libtorch: String::new(),
        }
    }

    /// Probes with such an engine: what it chose, what is remembered, and how long it took.
    fn probe(cases: &str) -> (Option<ConvolutionTier>, Vec<TierEnd>, Duration) {
        let folder = tempfile::tempdir().unwrap();
        let engine = fake(folder.path(), cases);
        let file = folder.path().join("tiers.json");
        let mut tiers = Tiers::load(Some(file.clone()));
        tiers.limit = Duration::from_millis(700);
        let began = Instant::now();
        let device = DeviceChoice::Cuda(0);
        tiers
            .probe(&key(), device, &mut || Some(order(&engine)), &|| false)
            .unwrap();
        let took = began.elapsed();
        let tier = tiers.tier(&key(), wan::FAMILY);
        let mut again = Tiers::load(Some(file));
        assert_eq!(again.tier(&key(), wan::FAMILY), tier);
        let records = &again.known.find(&key()).unwrap().records;
        let ends = records.iter().map(|record| record.probe.clone()).collect();
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        let first = calls.lines().next().unwrap();
        assert_eq!(
            first,
            "probe --json --device cuda:0 --tier direct --shape large --dtype bf16"
        );
        (tier, ends, took)
    }

    const RIGHT: &str = r#"'"end":"right","secs":0.2,"error":0.001'"#;
    const FASTER: &str = r#"'"end":"right","secs":0.1,"error":0.001'"#;
    const WRONG: &str = r#"'"end":"wrong","error":0.9'"#;

    #[test]
    fn a_tier_that_hangs_is_ended_and_the_fastest_of_the_others_is_taken() {
        let (tier, ends, took) = probe(&format!(
            "direct) sleep 60;;\nno_miopen) answer $6 $8 {RIGHT};;\nframes) answer $6 $8 {FASTER};;"
        ));
        assert_eq!(tier, Some(ConvolutionTier::Frames));
        assert_eq!(ends[0], TierEnd::TimedOut { secs: 0.7 });
        assert!(took < Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn a_tier_that_crashes_or_is_wrong_is_passed_over() {
        let (tier, ends, _) = probe(&format!(
            "direct) kill -SEGV $$;;\nno_miopen) answer $6 $8 {WRONG};;\nframes) answer $6 $8 {RIGHT};;"
        ));
        assert_eq!(tier, Some(ConvolutionTier::Frames));
        let TierEnd::Failed { reason } = &ends[0] else {
            panic!("{ends:?}");
        };
        assert!(reason.contains("signal 11"), "{reason}");
        assert_eq!(ends[1], TierEnd::Wrong { error: 0.9 });
    }

    #[test]
    fn an_answer_counts_though_its_process_hangs_or_crashes_behind_it() {
        let (tier, ends, _) = probe(&format!(
            "direct) answer $6 $8 {FASTER}; sleep 60;;\nno_miopen) answer $6 $8 {RIGHT}; kill -SEGV $$;;\n\
             frames) echo noise; answer frames small {FASTER};;"
        ));
        assert_eq!(tier, Some(ConvolutionTier::Direct));
        assert!(matches!(ends[1], TierEnd::Right { .. }));
        // Noise, and an answer to another question.
        assert!(matches!(ends[2], TierEnd::Failed { .. }));
    }

    #[test]
    fn where_nothing_works_the_cpu_is_left_and_a_missing_engine_is_no_panic() {
        let (tier, ..) = probe("*) exit 1;;");
        assert_eq!(tier, Some(ConvolutionTier::Cpu));
        let mut tiers = Tiers::load(None);
        let missing = &mut || Some(order(Path::new("/nowhere/engine")));
        let done = tiers.probe(&key(), DeviceChoice::Auto, missing, &|| false);
        let tier = tiers.tier(&key(), wan::FAMILY);
        assert_eq!((done, tier), (Some(()), Some(ConvolutionTier::Cpu)));
    }

    #[test]
    fn a_cancelled_probe_ends_at_once_and_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let engine = fake(folder.path(), "*) sleep 60;;");
        let mut tiers = Tiers::load(None);
        let began = Instant::now();
        let is_cancelled = || began.elapsed() > Duration::from_millis(100);
        let device = DeviceChoice::Cuda(0);
        let done = tiers.probe(&key(), device, &mut || Some(order(&engine)), &is_cancelled);
        assert_eq!((done, tiers.tier(&key(), wan::FAMILY)), (None, None));
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn stages_are_counted_for_the_tier_that_they_ran_with() {
        let mut tiers = Tiers::load(None);
        let [direct, _, frames] = ConvolutionTier::ON_DEVICE;
        tiers.count(&key(), frames, true, None);
        let right = |secs| TierEnd::Right { secs, error: 0.0 };
        let ends = vec![(direct, right(0.1)), (frames, right(0.2))];
        tiers.known.put(Verdict::of_probe(key(), ends));
        assert_eq!(tiers.tier(&key(), wan::FAMILY), Some(direct));
        assert_eq!(tiers.tier(&key(), framepack::FAMILY), Some(frames));
        tiers.count(&key(), frames, true, None);
        tiers.count(&key(), frames, false, None);
        let records = &tiers.known.find(&key()).unwrap().records;
        let counts = records
            .iter()
            .map(|record| (record.attempts, record.successes));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 1), (3, 2)]);
        // The ladder deals with want of memory, a hang is the tier's.
        tiers.count(&key(), direct, false, Some("CUDA out of memory"));
        assert_eq!(tiers.tier(&key(), wan::FAMILY), Some(direct));
        tiers.count(&key(), direct, false, Some("no progress for 600 s"));
        assert_eq!(tiers.tier(&key(), wan::FAMILY), Some(frames));
    }

    #[test]
    fn a_choice_of_the_user_is_never_probed_and_only_amd_is() {
        use ConvolutionChoice::{Auto, Frames};
        for (choice, stage, is_probed, expected) in [
            (Frames, Stage::Decode, true, Some(ConvolutionTier::Frames)),
            (Frames, Stage::Denoise, true, Some(ConvolutionTier::Direct)),
            (Auto, Stage::Decode, true, None),
            (Auto, Stage::Decode, false, Some(ConvolutionTier::Direct)),
            (Auto, Stage::Denoise, true, Some(ConvolutionTier::Direct)),
        ] {
            assert_eq!(chosen(choice, stage, is_probed), expected, "{choice:?}");
        }
        assert!(has_convolutions(Stage::Decode, wan::FAMILY));
        assert!(!has_convolutions(Stage::Denoise, wan::FAMILY));
        assert!(!has_convolutions(Stage::Decode, flux::FAMILY));
    }
}
