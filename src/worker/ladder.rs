//! The ladder that a job climbs when memory runs out: what its stage tries next, what is told of it, and the count of
//! what helped.
//!
//! Decides and counts only; the walk runs the stage again, and the engine does what its rung says.

use std::path::PathBuf;

use safelight_core::finish::FinishRequest;
use safelight_core::job::{Climb, GenerateRequest, JobError, JobErrorKind, Stage};
use safelight_core::memory::counters::{Counters, DeviceCounters};
use safelight_core::memory::{Fault, Rung, StageMemory};

/// Megapixels that a core of a CPU takes through a VAE in a second, for a first guess: 1.2 of the Wan VAE's
/// multiplications a nanosecond.
const CPU_MEGAPIXELS: f64 = 0.005;

/// The same for an upscaler of the usual size, whose every pixel takes seventeen million multiplications and more.
const CPU_MEGAPIXELS_UPSCALED: f64 = 0.002;

/// The request of a job of either kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Generate(&'a GenerateRequest),
    Finish(&'a FinishRequest),
}

impl Asked<'_> {
    fn num_frames(self) -> usize {
        match self {
            Self::Generate(request) => request.num_decoded(),
            Self::Finish(request) => request.before.num_frames as usize,
        }
    }

    /// Of one frame.
    fn megapixels(self) -> f64 {
        let (width, height) = match self {
            Self::Generate(request) => (request.width, request.height),
            Self::Finish(request) => (request.before.width, request.before.height),
        };
        f64::from(width) * f64::from(height) / 1e6
    }
}

/// Where a stage stands that did not end well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) stage: Stage,
    /// Which time this is that the recipe has the stage, counted from 0.
    pub(super) section: u32,
    pub(super) asked: Asked<'a>,
    /// Tiles that the plan chose, where nobody asked for any.
    pub(super) planned_tile: Option<u32>,
    pub(super) device_name: &'a str,
    /// The device is the CPU already.
    pub(super) is_cpu: bool,
}

/// How far the stages of one job have climbed.
pub(super) struct Ladder {
    counters: Option<PathBuf>,
    /// Stages that are off the ground.
    standing: Vec<(Stage, Rung)>,
    climbs: Vec<Climb>,
}

impl Ladder {
    /// `counters`: the file in which rungs are counted, if anywhere.
    pub(super) fn new(counters: Option<PathBuf>) -> Self {
        Self {
            counters,
            standing: Vec::new(),
            climbs: Vec::new(),
        }
    }

    pub(super) fn climbs(&self) -> &[Climb] {
        &self.climbs
    }

    pub(super) fn rung(&self, stage: Stage) -> Rung {
        let found = self.standing.iter().find(|(other, _)| *other == stage);
        found.map_or(Rung::Ground, |(_, rung)| *rung)
    }

    /// What the stage may do with memory on its rung, of what was planned for it.
    pub(super) fn memory(&self, stage: Stage, planned: StageMemory) -> StageMemory {
        let rung = self.rung(stage);
        StageMemory {
            rung,
            keep_loaded: planned.keep_loaded && rung == Rung::Ground,
            resident_bytes: if rung >= Rung::StreamMore {
                Some(0)
            } else {
                planned.resident_bytes
            },
            ..planned
        }
    }

    /// The next rung for a stage that failed so; `None` when there is none. `is_engine_new`: the next try has an engine
    /// of its own whatever the rung, in which nothing has to be given back.
    pub(super) fn climb(
        &mut self,
        place: Place<'_>,
        fault: Fault,
        is_engine_new: bool,
    ) -> Option<Rung> {
        let current = self.rung(place.stage);
        let next = rungs(place).find(|&rung| {
            let is_useful = match fault {
                // Other sizes reach other code of the autoencoder's convolutions; nothing else is changed by a rung.
                Fault::Device => rung >= Rung::Tiles512 && tile_of(place).is_some(),
                _ => rung > Rung::FreeAndRetry || !is_engine_new,
            };
            rung > current && is_useful
        });
        let Some(rung) = next else {
            if fault.is_memory() {
                self.count(place.device_name, |device| device.given_up += 1);
            }
            return None;
        };
        self.standing.retain(|(stage, _)| *stage != place.stage);
        self.standing.push((place.stage, rung));
        self.climbs.push(Climb {
            stage: place.stage,
            section: place.section,
            rung,
            helped: false,
        });
        self.count(place.device_name, |device| {
            device.rungs.entry(rung).or_default().attempts += 1;
        });
        Some(rung)
    }

    /// A stage ended well. That of a later section begins where this one ended, but not on the CPU, which takes hours:
    /// what did not fit once may fit the next time.
    pub(super) fn finished(&mut self, place: Place<'_>) {
        let rung = self.rung(place.stage);
        if rung == Rung::OnCpu {
            let below = rungs(place).filter(|rung| *rung < Rung::OnCpu).last();
            self.standing.retain(|(stage, _)| *stage != place.stage);
            self.standing
                .extend(below.map(|below| (place.stage, below)));
        }
        let last = self.climbs.last_mut().filter(|climb| {
            (climb.stage, climb.section, climb.rung) == (place.stage, place.section, rung)
        });
        if let Some(climb) = last {
            climb.helped = true;
            self.count(place.device_name, |device| {
                device.rungs.entry(rung).or_default().successes += 1;
            });
        }
    }

    /// An engine died or was given up.
    pub(super) fn count_restart(&self, device_name: &str) {
        self.count(device_name, |device| device.engine_restarts += 1);
    }

    fn count(&self, device_name: &str, change: impl FnOnce(&mut DeviceCounters)) {
        let Some(file) = &self.counters else { return };
        // Read anew: another worker may have counted.
        let mut counters = Counters::load(file);
        change(counters.device_mut(device_name));
        if let Err(err) = counters.save(file) {
            tracing::debug!("the counters of the ladder could not be written: {err}");
        }
    }
}

/// The rungs that a stage has, from below.
fn rungs(place: Place<'_>) -> impl Iterator<Item = Rung> {
    let tile = tile_of(place);
    Rung::ALL.into_iter().filter(move |rung| match rung {
        Rung::Ground => false,
        Rung::FreeAndRetry => true,
        // On the CPU weights are pages of their files, which the system drops by itself.
        Rung::StreamMore => streams(place.stage) && !place.is_cpu,
        Rung::Tiles512 | Rung::Tiles256 => rung.tile() < tile,
        Rung::OnCpu => !place.is_cpu && can_leave_the_device(place.stage),
    })
}

/// The edge of what the VAE takes at once when nothing says otherwise, in pixels; `None` in stages without it.
fn tile_of(place: Place<'_>) -> Option<u32> {
    let (edge, asked) = match (place.asked, place.stage) {
        (Asked::Finish(request), Stage::Upscale) => (
            request.before.width.max(request.before.height),
            request.tile,
        ),
        // A picture that is seen comes in a size of its own.
        (Asked::Generate(request), Stage::EncodeImage) if !request.references.is_empty() => {
            (u32::MAX, request.vae_tile)
        }
        (Asked::Generate(request), Stage::EncodeImage | Stage::Decode) => {
            (request.width.max(request.height), request.vae_tile)
        }
        _ => return None,
    };
    let tiles = asked.into_iter().chain(place.planned_tile);
    Some(tiles.fold(edge, u32::min))
}

/// Stages whose network is large and made of blocks.
fn streams(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::EncodeText | Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow
    )
}

/// Stages that a CPU ends within the time that a person waits.
fn can_leave_the_device(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::EncodeText
            | Stage::EncodeImage
            | Stage::EncodeVision
            | Stage::Decode
            | Stage::Upscale
            | Stage::Interpolate
    )
}

/// A first guess of the seconds that the stage takes on this machine's CPU.
pub(super) fn guess_cpu_secs(place: Place<'_>) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let all = place.asked.megapixels() * place.asked.num_frames() as f64;
    let (megapixels, pace) = match place.stage {
        Stage::Decode | Stage::EncodeImage => (all, CPU_MEGAPIXELS),
        Stage::Upscale | Stage::Interpolate => (all, CPU_MEGAPIXELS_UPSCALED),
        _ => (0.5, CPU_MEGAPIXELS),
    };
    megapixels / (pace * cores)
}

/// What people are told of a climb.
pub(super) fn announce(place: Place<'_>, fault: Fault, rung: Rung, cpu_secs: f64) -> String {
    let doing = doing(place.stage);
    let what = match fault {
        Fault::DeviceMemory => "Memory ran out",
        Fault::HostMemory => "The computer ran out of memory",
        Fault::RuntimeMemory => "The GPU's driver ran out of memory",
        Fault::Device => "The GPU failed",
    };
    let next = match rung {
        Rung::Ground | Rung::FreeAndRetry => "trying again with all memory freed".to_owned(),
        Rung::StreamMore => "trying again with streamed weights, which is slower".to_owned(),
        Rung::Tiles512 | Rung::Tiles256 => {
            let edge = rung.tile().unwrap_or_default();
            format!("trying again in tiles of {edge} pixels")
        }
        Rung::OnCpu => format!(
            "trying again on the CPU, which is slow: {}",
            about(cpu_secs)
        ),
    };
    format!("{what} while {doing}; {next}")
}

fn about(secs: f64) -> String {
    let minutes = (secs / 60.0).ceil();
    match minutes {
        ..=1.0 => "about a minute".to_owned(),
        ..=90.0 => format!("about {minutes:.0} minutes"),
        _ => format!("about {:.0} hours", (minutes / 60.0).ceil()),
    }
}

/// The stage's label inside a sentence.
fn doing(stage: Stage) -> String {
    let label = stage.label();
    format!("{}{}", label[..1].to_lowercase(), &label[1..])
}

/// The one error of a job for whose stage no rung is left. `why`: how the last try failed.
///
/// `planned`: what the plan says would make it fit, one phrase each.
pub(super) fn exhausted(
    place: Place<'_>,
    why: JobError,
    climbs: &[Climb],
    planned: &[String],
) -> JobError {
    let tried: Vec<&str> = climbs
        .iter()
        .filter(|climb| (climb.stage, climb.section) == (place.stage, place.section))
        .map(|climb| climb.rung.name())
        .collect();
    let mut details = why.details;
    if !tried.is_empty() {
        details.push_str("\ntried: ");
        details.push_str(&tried.join(", "));
    }
    let summary = if tried.is_empty() {
        format!("while {}, {}", doing(place.stage), why.summary)
    } else {
        format!(
            "there is not enough memory for {}, and nothing smaller is left to try: {}",
            doing(place.stage),
            why.summary
        )
    };
    JobError::new(JobErrorKind::OutOfMemory, summary)
        .advise(suggestions(place, planned).join(". "))
        .detail(details)
        .with_fault(why.fault)
}

/// What would make the job fit, one sentence each without its full stop; most useful first.
fn suggestions(place: Place<'_>, planned: &[String]) -> Vec<String> {
    if !planned.is_empty() {
        return vec![planned.join(", or ")];
    }
    let what = if place.asked.num_frames() > 1 {
        "a smaller size or fewer frames"
    } else {
        "a smaller size"
    };
    let mut found = vec![format!("Try {what}")];
    if matches!(place.stage, Stage::EncodeText | Stage::EncodeVision) || streams(place.stage) {
        found.push("A model in fp8 or GGUF needs less".to_owned());
    }
    found.push("Close other programs that use this device".to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(width: u32, tile: Option<u32>) -> GenerateRequest {
        let request = serde_json::json!({
            "model": "m", "family": "wan", "files": {}, "prompt": "", "negative_prompt": "", "width": width,
            "height": 64, "num_frames": 81, "fps": 16.0, "num_steps": 4, "guidance_scale": 1.0, "sampler": "unipc",
            "seed": 0, "vae_tile": tile,
        });
        serde_json::from_value(request).unwrap()
    }

    fn place(stage: Stage, request: &GenerateRequest) -> Place<'_> {
        Place {
            stage,
            section: 0,
            asked: Asked::Generate(request),
            planned_tile: None,
            device_name: "a GPU",
            is_cpu: false,
        }
    }

    /// Every rung of a stage that always fails so.
    fn all(place: Place<'_>, fault: Fault, is_engine_new: bool) -> Vec<Rung> {
        let mut ladder = Ladder::new(None);
        std::iter::from_fn(|| ladder.climb(place, fault, is_engine_new)).collect()
    }

    #[test]
    fn a_stage_has_the_rungs_that_change_something_for_it() {
        use Rung::{FreeAndRetry, OnCpu, StreamMore, Tiles256, Tiles512};
        let large = request(832, None);
        let full = Fault::DeviceMemory;
        for stage in [Stage::Decode, Stage::EncodeImage] {
            let expected = [FreeAndRetry, Tiles512, Tiles256, OnCpu];
            assert_eq!(all(place(stage, &large), full, false), expected);
        }
        assert_eq!(
            all(place(Stage::EncodeText, &large), full, false),
            [FreeAndRetry, StreamMore, OnCpu]
        );
        for stage in [Stage::Denoise, Stage::DenoiseHigh, Stage::DenoiseLow] {
            let expected = [FreeAndRetry, StreamMore];
            assert_eq!(all(place(stage, &large), full, false), expected);
        }
        for (width, tile, expected) in [
            (512, None, &[FreeAndRetry, Tiles256, OnCpu][..]),
            (256, None, &[FreeAndRetry, OnCpu]),
            (832, Some(384), &[FreeAndRetry, Tiles256, OnCpu]),
            (832, Some(256), &[FreeAndRetry, OnCpu]),
            (320, Some(2048), &[FreeAndRetry, Tiles256, OnCpu]),
        ] {
            let request = request(width, tile);
            let found = all(place(Stage::Decode, &request), full, false);
            assert_eq!(found, expected, "{width} {tile:?}");
        }
        let planned = Place {
            planned_tile: Some(512),
            ..place(Stage::Decode, &large)
        };
        let found = all(planned, full, false);
        assert_eq!(found, [FreeAndRetry, Tiles256, OnCpu]);
        let on_cpu = Place {
            is_cpu: true,
            ..place(Stage::Decode, &large)
        };
        assert_eq!(all(on_cpu, full, false), [FreeAndRetry, Tiles512, Tiles256]);
    }

    #[test]
    fn behind_a_dead_engine_the_first_rung_is_one_that_takes_less() {
        use Rung::{OnCpu, StreamMore, Tiles256, Tiles512};
        let large = request(704, None);
        let tiles = [Tiles512, Tiles256, OnCpu];
        let decode = place(Stage::Decode, &large);
        assert_eq!(all(decode, Fault::RuntimeMemory, true), tiles);
        assert_eq!(all(decode, Fault::Device, true), tiles);
        let denoise = place(Stage::Denoise, &large);
        assert_eq!(all(denoise, Fault::RuntimeMemory, true), [StreamMore]);
        assert_eq!(all(denoise, Fault::Device, true), []);
    }

    #[test]
    fn the_same_stage_of_the_next_section_begins_on_the_rung_that_worked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ladder.json");
        let request = request(832, None);
        let mut ladder = Ladder::new(Some(file.clone()));
        let denoise = place(Stage::Denoise, &request);
        for _ in 0..2 {
            ladder.climb(denoise, Fault::DeviceMemory, false);
        }
        let planned = StageMemory {
            cap_bytes: Some(7),
            keep_loaded: true,
            resident_bytes: Some(5),
            ..StageMemory::default()
        };
        let found = ladder.memory(Stage::Denoise, planned);
        assert_eq!(found.rung, Rung::StreamMore);
        assert_eq!((found.resident_bytes, found.cap_bytes), (Some(0), Some(7)));
        assert!(!found.keep_loaded);
        ladder.finished(denoise);
        assert_eq!(ladder.rung(Stage::Denoise), Rung::StreamMore);
        assert_eq!(ladder.memory(Stage::EncodeText, planned), planned);

        let decode = place(Stage::Decode, &request);
        ladder.climb(decode, Fault::DeviceMemory, false);
        ladder.climb(decode, Fault::DeviceMemory, false);
        ladder.finished(decode);
        let next = Place {
            section: 1,
            ..decode
        };
        assert_eq!(ladder.rung(Stage::Decode), Rung::Tiles512);
        ladder.finished(next);
        ladder.count_restart("a GPU");
        let helped: Vec<_> = ladder.climbs().iter().map(|climb| climb.helped).collect();
        assert_eq!(helped, [false, true, false, true]);

        let counters = Counters::load(&file);
        let device = counters.device("a GPU").unwrap();
        let tally = |rung| (device.rungs[&rung].attempts, device.rungs[&rung].successes);
        assert_eq!(tally(Rung::FreeAndRetry), (2, 0));
        assert_eq!(tally(Rung::StreamMore), (1, 1));
        assert_eq!(tally(Rung::Tiles512), (1, 1));
        assert_eq!((device.engine_restarts, device.given_up), (1, 0));
    }

    #[test]
    fn people_are_told_in_plain_words_and_how_long_the_cpu_will_take() {
        let request = request(832, None);
        let decode = place(Stage::Decode, &request);
        assert_eq!(
            announce(decode, Fault::DeviceMemory, Rung::Tiles512, 0.0),
            "Memory ran out while decoding; trying again in tiles of 512 pixels"
        );
        let slow = announce(decode, Fault::Device, Rung::OnCpu, 700.0);
        assert_eq!(
            slow,
            "The GPU failed while decoding; trying again on the CPU, which is slow: about 12 minutes"
        );
        assert!(guess_cpu_secs(decode) > 0.0);
        assert_eq!(about(7300.0), "about 3 hours");
    }
}
