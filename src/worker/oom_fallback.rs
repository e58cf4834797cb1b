//! Out-of-memory fallbacks of a job: the level that a stage tries next, its memory limits, and counts of what helped.
//!
//! Decides and counts only: [`JobRun`](super::job_run::JobRun) runs the stage again, the engine does what the level says.

use std::path::PathBuf;

use safelight_core::files::write_optional_json;
use safelight_core::job::{JobError, JobErrorKind, JobRequest, Stage};
use safelight_core::job_update::FallbackAttempt;
use safelight_core::memory::counters::{DeviceCounters, FallbackCounters};
use safelight_core::memory::{FallbackLevel, ResourceFault, StageMemory};
use safelight_core::units::about_rough_text;

/// Megapixels a second that one CPU core decodes with a VAE, as a first guess: 1.2 multiplications of the Wan VAE a
/// nanosecond.
const CPU_MEGAPIXELS: f64 = 0.005;

/// Megapixels a second of an upscaler of the usual size, with seventeen million multiplications a pixel.
const CPU_MEGAPIXELS_UPSCALED: f64 = 0.002;

/// A stage that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedStage<'a> {
    pub(super) stage: Stage,
    /// Occurrence of the stage in the recipe, counted from 0.
    pub(super) section: u32,
    pub(super) request: &'a JobRequest,
    /// Tiles that the plan chose.
    pub(super) planned_tile: Option<u32>,
    pub(super) device_name: &'a str,
    pub(super) is_cpu: bool,
}

impl FailedStage<'_> {
    fn num_frames(self) -> usize {
        match self.request {
            JobRequest::Generate(request) => request.num_decoded(),
            JobRequest::Finish(request) => request.before.num_frames as usize,
        }
    }

    /// Megapixels of one frame that the stage computes with.
    fn megapixels(self) -> f64 {
        let (width, height) = match self.request {
            JobRequest::Generate(request) => (request.width, request.height),
            JobRequest::Finish(request) => (request.before.width, request.before.height),
        };
        f64::from(width) * f64::from(height) / 1e6
    }
}

/// Fallback levels of a job's stages.
pub(super) struct OomFallbacks {
    /// File with the counts of levels.
    counters: PathBuf,
    /// Stages above the lowest level.
    levels: Vec<(Stage, FallbackLevel)>,
    attempts: Vec<FallbackAttempt>,
}

impl OomFallbacks {
    pub(super) fn new(counters: PathBuf) -> Self {
        Self {
            counters,
            levels: Vec::new(),
            attempts: Vec::new(),
        }
    }

    pub(super) fn attempts(&self) -> &[FallbackAttempt] {
        &self.attempts
    }

    pub(super) fn level(&self, stage: Stage) -> FallbackLevel {
        let found = self.levels.iter().find(|(other, _)| *other == stage);
        found.map_or(FallbackLevel::Ground, |(_, level)| *level)
    }

    /// Memory limits of the stage on its level.
    pub(super) fn memory(&self, stage: Stage, planned: StageMemory) -> StageMemory {
        let level = self.level(stage);
        StageMemory {
            rung: level,
            keep_loaded: planned.keep_loaded && level == FallbackLevel::Ground,
            resident_bytes: if level >= FallbackLevel::StreamMore {
                Some(0)
            } else {
                planned.resident_bytes
            },
            ..planned
        }
    }

    /// Moves a stage to its next level; `None` when there is none. `is_engine_new`: the next attempt starts an engine,
    /// which has nothing to free.
    pub(super) fn next(
        &mut self,
        failed: FailedStage<'_>,
        fault: ResourceFault,
        is_engine_new: bool,
    ) -> Option<FallbackLevel> {
        let current = self.level(failed.stage);
        let next = levels(failed).find(|&level| {
            let is_useful = match fault {
                // Other sizes reach other code of the autoencoder's convolutions; nothing else changes.
                ResourceFault::Device => {
                    level >= FallbackLevel::Tiles512 && tile_of(failed).is_some()
                }
                _ => level > FallbackLevel::FreeAndRetry || !is_engine_new,
            };
            level > current && is_useful
        });
        let Some(level) = next else {
            if fault.is_memory() {
                self.count(failed.device_name, |device| device.given_up += 1);
            }
            return None;
        };
        self.levels.retain(|(stage, _)| *stage != failed.stage);
        self.levels.push((failed.stage, level));
        self.attempts.push(FallbackAttempt {
            stage: failed.stage,
            section: failed.section,
            rung: level,
            helped: false,
        });
        self.count(failed.device_name, |device| {
            device.rungs.entry(level).or_default().attempts += 1;
        });
        Some(level)
    }

    /// Counts a stage that finished. The next section starts on its level, but not on the CPU, which takes hours: the
    /// device may have room by then.
    pub(super) fn finished(&mut self, failed: FailedStage<'_>) {
        let level = self.level(failed.stage);
        if level == FallbackLevel::OnCpu {
            let below = levels(failed)
                .filter(|level| *level < FallbackLevel::OnCpu)
                .last();
            self.levels.retain(|(stage, _)| *stage != failed.stage);
            self.levels.extend(below.map(|below| (failed.stage, below)));
        }
        let last = self.attempts.last_mut().filter(|climb| {
            (climb.stage, climb.section, climb.rung) == (failed.stage, failed.section, level)
        });
        if let Some(climb) = last {
            climb.helped = true;
            self.count(failed.device_name, |device| {
                device.rungs.entry(level).or_default().successes += 1;
            });
        }
    }

    /// Counts an engine that died or was ended.
    pub(super) fn count_restart(&self, device_name: &str) {
        self.count(device_name, |device| device.engine_restarts += 1);
    }

    fn count(&self, device_name: &str, change: impl FnOnce(&mut DeviceCounters)) {
        // Read anew: another worker may have counted.
        let mut counters = FallbackCounters::load(&self.counters);
        change(counters.device_mut(device_name));
        write_optional_json(&self.counters, &counters, "the counts of fallbacks");
    }
}

/// Levels that a stage has, lowest first.
fn levels(failed: FailedStage<'_>) -> impl Iterator<Item = FallbackLevel> {
    let tile = tile_of(failed);
    FallbackLevel::ALL
        .into_iter()
        .filter(move |level| match level {
            FallbackLevel::Ground => false,
            FallbackLevel::FreeAndRetry => true,
            // On the CPU weights are pages of their files, which the system drops.
            FallbackLevel::StreamMore => streams(failed.stage) && !failed.is_cpu,
            FallbackLevel::Tiles512 | FallbackLevel::Tiles256 => level.tile() < tile,
            FallbackLevel::OnCpu => !failed.is_cpu && can_leave_the_device(failed.stage),
        })
}

/// Edge of what the VAE or upscaler takes at once below the levels with tiles, in pixels; `None` in other stages.
fn tile_of(failed: FailedStage<'_>) -> Option<u32> {
    let (edge, requested) = match (failed.request, failed.stage) {
        (JobRequest::Finish(request), Stage::Upscale) => (
            request.before.width.max(request.before.height),
            request.tile,
        ),
        // References have their own sizes.
        (JobRequest::Generate(request), Stage::EncodeImage) if !request.references.is_empty() => {
            (u32::MAX, request.options.vae_tile)
        }
        (JobRequest::Generate(request), Stage::EncodeImage | Stage::Decode) => {
            (request.width.max(request.height), request.options.vae_tile)
        }
        _ => return None,
    };
    let tiles = requested.into_iter().chain(failed.planned_tile);
    Some(tiles.fold(edge, u32::min))
}

/// Stages whose network is large and made of blocks, which can stream.
fn streams(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::EncodeText | Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow
    )
}

/// Stages that a CPU computes in tolerable time.
fn can_leave_the_device(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::EncodeText
            | Stage::EncodeImage
            | Stage::EncodeVision
            | Stage::Decode
            | Stage::Upscale
            | Stage::Interpolate
            | Stage::Depth
    )
}

/// Estimated seconds of the stage on this machine's CPU.
pub(super) fn guess_cpu_secs(failed: FailedStage<'_>) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let all = failed.megapixels() * failed.num_frames() as f64;
    let (megapixels, pace) = match failed.stage {
        Stage::Decode | Stage::EncodeImage => (all, CPU_MEGAPIXELS),
        Stage::Upscale | Stage::Interpolate | Stage::Depth => (all, CPU_MEGAPIXELS_UPSCALED),
        _ => (0.5, CPU_MEGAPIXELS),
    };
    megapixels / (pace * cores)
}

/// Warning about the next level.
pub(super) fn announce(
    failed: FailedStage<'_>,
    fault: ResourceFault,
    level: FallbackLevel,
    cpu_secs: f64,
) -> String {
    let doing = doing(failed.stage);
    let what = match fault {
        ResourceFault::DeviceMemory => "Memory ran out",
        ResourceFault::HostMemory => "The computer ran out of memory",
        ResourceFault::RuntimeMemory => "The GPU's driver ran out of memory",
        ResourceFault::Device => "The GPU failed",
    };
    let next = match level {
        FallbackLevel::Ground | FallbackLevel::FreeAndRetry => {
            "trying again with all memory freed".to_owned()
        }
        FallbackLevel::StreamMore => {
            "trying again with streamed weights, which is slower".to_owned()
        }
        FallbackLevel::Tiles512 | FallbackLevel::Tiles256 => {
            let edge = level.tile().unwrap_or_default();
            format!("trying again in tiles of {edge} pixels")
        }
        FallbackLevel::OnCpu => format!(
            "trying again on the CPU, which is slow: {}",
            about_rough_text(cpu_secs.max(1.0) as u64)
        ),
    };
    format!("{what} while {doing}; {next}")
}

/// The stage's label inside a sentence.
fn doing(stage: Stage) -> String {
    let label = stage.label();
    format!("{}{}", label[..1].to_lowercase(), &label[1..])
}

/// The error of a job whose stage has no level left. `why`: the last failure; `planned`: suggestions of the plan, one
/// phrase each.
pub(super) fn exhausted(
    failed: FailedStage<'_>,
    why: JobError,
    attempts: &[FallbackAttempt],
    planned: &[String],
) -> JobError {
    let tried: Vec<&str> = attempts
        .iter()
        .filter(|climb| (climb.stage, climb.section) == (failed.stage, failed.section))
        .map(|climb| climb.rung.name())
        .collect();
    let mut details = why.details;
    if !tried.is_empty() {
        details.push_str("\ntried: ");
        details.push_str(&tried.join(", "));
    }
    let summary = if tried.is_empty() {
        format!("while {}, {}", doing(failed.stage), why.summary)
    } else {
        format!(
            "there is not enough memory for {}, and nothing smaller is left to try: {}",
            doing(failed.stage),
            why.summary
        )
    };
    JobError::new(JobErrorKind::OutOfMemory, summary)
        .advise(suggestions(failed, planned).join(". "))
        .detail(details)
        .with_fault(why.fault)
}

/// Changes that would make the job fit, one sentence each without its full stop; most useful first.
fn suggestions(failed: FailedStage<'_>, planned: &[String]) -> Vec<String> {
    if !planned.is_empty() {
        return vec![planned.join(", or ")];
    }
    let what = if failed.num_frames() > 1 {
        "a smaller size or fewer frames"
    } else {
        "a smaller size"
    };
    let mut found = vec![format!("Try {what}")];
    if matches!(failed.stage, Stage::EncodeText | Stage::EncodeVision) || streams(failed.stage) {
        found.push("A model in fp8 or GGUF needs less".to_owned());
    }
    found.push("Close other programs that use this device".to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(width: u32, tile: Option<u32>) -> JobRequest {
        let request = serde_json::json!({
            "model": "m", "family": "wan", "files": {}, "prompt": "", "negative_prompt": "", "width": width,
            "height": 64, "num_frames": 81, "fps": 16.0, "num_steps": 4, "guidance_scale": 1.0, "sampler": "unipc",
            "seed": 0, "vae_tile": tile,
        });
        serde_json::from_value(request).unwrap()
    }

    fn failed(stage: Stage, request: &JobRequest) -> FailedStage<'_> {
        FailedStage {
            stage,
            section: 0,
            request,
            planned_tile: None,
            device_name: "a GPU",
            is_cpu: false,
        }
    }

    /// Every level of a stage that always fails so.
    fn all(failed: FailedStage<'_>, fault: ResourceFault, is_new: bool) -> Vec<FallbackLevel> {
        let mut fallbacks = OomFallbacks::new(PathBuf::from("/dev/null/none"));
        std::iter::from_fn(|| fallbacks.next(failed, fault, is_new)).collect()
    }

    #[test]
    fn a_stage_has_the_levels_that_change_something_for_it() {
        use FallbackLevel::{FreeAndRetry, OnCpu, StreamMore, Tiles256, Tiles512};
        let large = request(832, None);
        let full = ResourceFault::DeviceMemory;
        for stage in [Stage::Decode, Stage::EncodeImage] {
            let expected = [FreeAndRetry, Tiles512, Tiles256, OnCpu];
            assert_eq!(all(failed(stage, &large), full, false), expected);
        }
        let found = all(failed(Stage::EncodeText, &large), full, false);
        assert_eq!(found, [FreeAndRetry, StreamMore, OnCpu]);
        for stage in [Stage::Denoise, Stage::DenoiseHigh, Stage::DenoiseLow] {
            let expected = [FreeAndRetry, StreamMore];
            assert_eq!(all(failed(stage, &large), full, false), expected);
        }
        for (width, tile, expected) in [
            (512, None, &[FreeAndRetry, Tiles256, OnCpu][..]),
            (256, None, &[FreeAndRetry, OnCpu]),
            (832, Some(384), &[FreeAndRetry, Tiles256, OnCpu]),
            (832, Some(256), &[FreeAndRetry, OnCpu]),
            (320, Some(2048), &[FreeAndRetry, Tiles256, OnCpu]),
        ] {
            let request = request(width, tile);
            let found = all(failed(Stage::Decode, &request), full, false);
            assert_eq!(found, expected, "{width} {tile:?}");
        }
        let planned = FailedStage {
            planned_tile: Some(512),
            ..failed(Stage::Decode, &large)
        };
        let found = all(planned, full, false);
        assert_eq!(found, [FreeAndRetry, Tiles256, OnCpu]);
        let on_cpu = FailedStage {
            is_cpu: true,
            ..failed(Stage::Decode, &large)
        };
        assert_eq!(all(on_cpu, full, false), [FreeAndRetry, Tiles512, Tiles256]);
    }

    #[test]
    fn after_a_dead_engine_the_first_level_is_one_that_needs_less() {
        use FallbackLevel::{OnCpu, StreamMore, Tiles256, Tiles512};
        let large = request(704, None);
        let tiles = [Tiles512, Tiles256, OnCpu];
        let decode = failed(Stage::Decode, &large);
        assert_eq!(all(decode, ResourceFault::RuntimeMemory, true), tiles);
        assert_eq!(all(decode, ResourceFault::Device, true), tiles);
        let denoise = failed(Stage::Denoise, &large);
        let expected = [StreamMore];
        assert_eq!(all(denoise, ResourceFault::RuntimeMemory, true), expected);
        assert_eq!(all(denoise, ResourceFault::Device, true), []);
    }

    #[test]
    fn a_stage_of_the_next_section_starts_on_the_level_that_worked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ladder.json");
        let request = request(832, None);
        let mut fallbacks = OomFallbacks::new(file.clone());
        let denoise = failed(Stage::Denoise, &request);
        for _ in 0..2 {
            fallbacks.next(denoise, ResourceFault::DeviceMemory, false);
        }
        let planned = StageMemory {
            cap_bytes: Some(7),
            keep_loaded: true,
            resident_bytes: Some(5),
            ..StageMemory::default()
        };
        let found = fallbacks.memory(Stage::Denoise, planned);
        assert_eq!(found.rung, FallbackLevel::StreamMore);
        assert_eq!((found.resident_bytes, found.cap_bytes), (Some(0), Some(7)));
        assert!(!found.keep_loaded);
        fallbacks.finished(denoise);
        assert_eq!(fallbacks.level(Stage::Denoise), FallbackLevel::StreamMore);
        assert_eq!(fallbacks.memory(Stage::EncodeText, planned), planned);

        let decode = failed(Stage::Decode, &request);
        fallbacks.next(decode, ResourceFault::DeviceMemory, false);
        fallbacks.next(decode, ResourceFault::DeviceMemory, false);
        fallbacks.finished(decode);
        let next = FailedStage {
            section: 1,
            ..decode
        };
        assert_eq!(fallbacks.level(Stage::Decode), FallbackLevel::Tiles512);
        fallbacks.finished(next);
        fallbacks.count_restart("a GPU");
        let helped = fallbacks.attempts().iter().map(|attempt| attempt.helped);
        assert_eq!(helped.collect::<Vec<_>>(), [false, true, false, true]);

        let counters = FallbackCounters::load(&file);
        let device = counters.device("a GPU").unwrap();
        for (level, expected) in [
            (FallbackLevel::FreeAndRetry, (2, 0)),
            (FallbackLevel::StreamMore, (1, 1)),
            (FallbackLevel::Tiles512, (1, 1)),
        ] {
            let tally = &device.rungs[&level];
            assert_eq!((tally.attempts, tally.successes), expected, "{level:?}");
        }
        assert_eq!((device.engine_restarts, device.given_up), (1, 0));
    }

    #[test]
    fn fallback_warning_names_the_next_attempt_and_the_expected_cpu_time() {
        let request = request(832, None);
        let decode = failed(Stage::Decode, &request);
        let full = ResourceFault::DeviceMemory;
        let tiled = announce(decode, full, FallbackLevel::Tiles512, 0.0);
        let expected = "Memory ran out while decoding; trying again in tiles of 512 pixels";
        assert_eq!(tiled, expected);
        let slow = announce(decode, ResourceFault::Device, FallbackLevel::OnCpu, 700.0);
        let expected =
            "The GPU failed while decoding; trying again on the CPU, which is slow: about 12 min";
        assert_eq!(slow, expected);
        assert!(guess_cpu_secs(decode) > 0.0);
    }
}
