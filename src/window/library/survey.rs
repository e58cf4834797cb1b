//! Survey of this machine: its device, its libtorch, its free disk space, and the fit of each model.
//!
//! Drivers and headers are read on a separate thread, and only when models are shown. Each model is planned as a job
//! with its default values, including models that are not installed, whose networks the catalogue knows; without those
//! it is judged by the size of its largest component.

use std::collections::HashMap;

use rustix::fs::{Access, access};
use safelight_core::catalog::CatalogEntry;
use safelight_core::families::read_footprint;
use safelight_core::footprint::ModelFootprint;
use safelight_core::memory::DeviceClass;
use safelight_core::plan::{MemoryPlan, MemoryPlanner, PeakCorrections, suggestions};
use safelight_core::units::gib_text;

use crate::telemetry::{TelemetryDevice, host};
use crate::window::create::form::whole_form;
use crate::window::memory::ExpectedTimeline;
use crate::window::memory::planning::telemetry_device;
use crate::window::prelude::*;
use crate::worker::TimeEstimates;

/// Assumed memory in addition to the weights of a model without a plan.
const BESIDE_WEIGHTS_BYTES: u64 = 3 << 30;
/// With less, weights that stream would leave nothing for what is computed.
const LEAST_STREAMING_BYTES: u64 = 6 << 30;

/// Assumed speed of one CPU core in large products: about half of the best of the last ten years.
const CORE_OPERATIONS: f64 = 40e9;
/// Starting an engine and reading the files, whatever is made.
const START_SECS: f64 = 10.0;
const MAX_WAYS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitWord {
    Fits,
    /// With weights that stream, or in tiles.
    Squeezed,
    TooLarge,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedFit {
    pub word: FitWord,
    pub text: String,
    /// Suggestions of the plan that would make it fit, or fit without fallbacks.
    pub ways: Vec<String>,
    /// About how long a job with the model's own size and length takes here, where that is known.
    pub secs: Option<u64>,
}

/// Seconds of one result from which a model is slow, and too slow: an hour, a day.
pub const SLOW_SECS: u64 = 3600;
pub const TOO_SLOW_SECS: u64 = 86_400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    pub device: TelemetryDevice,
    pub models: PathBuf,
    pub free_bytes: Option<u64>,
    pub is_writable: bool,
}

pub struct SurveyRequest {
    pub settings: Settings,
    pub specs: Vec<ModelSpec>,
    pub known: Vec<CatalogEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurveyNews {
    Machine(Box<MachineInfo>),
    Fit(String, SurveyedFit),
}

/// Examines the machine; runs on a separate thread.
pub type SurveyRun = Arc<dyn Fn(&SurveyRequest, &mut dyn FnMut(SurveyNews)) + Send + Sync>;

#[derive(Debug, Default)]
pub struct ModelSurvey {
    pub machine: Option<MachineInfo>,
    pub fits: HashMap<String, SurveyedFit>,
    pub(super) is_stale: bool,
}

impl ModelSurvey {
    pub(super) fn take(&mut self, news: SurveyNews) {
        match news {
            SurveyNews::Machine(machine) => self.machine = Some(*machine),
            SurveyNews::Fit(id, fit) => {
                self.fits.insert(id, fit);
            }
        }
    }

    pub fn word(&self, id: &str) -> FitWord {
        self.fits.get(id).map_or(FitWord::Unknown, |fit| fit.word)
    }
}

pub fn examine(paths: AppPaths) -> SurveyRun {
    Arc::new(move |request, tell| {
        let settings = &request.settings;
        let device = telemetry_device(settings, &paths, settings.runtime.first_device());
        let models = paths.models();
        let machine = MachineInfo {
            free_bytes: host::free_bytes(&models),
            // The folder, or the one it would be created in.
            is_writable: models
                .ancestors()
                .find(|folder| folder.is_dir())
                .is_some_and(|there| access(there, Access::WRITE_OK).is_ok()),
            models,
            device: device.clone(),
        };
        tell(SurveyNews::Machine(Box::new(machine)));
        let judge = FitChecker {
            device: &device,
            settings,
            corrections: PeakCorrections::load(&paths.corrections_file()),
            times: TimeEstimates::load(Some(paths.times_file())),
        };
        // Reading headers takes longer.
        for entry in &request.known {
            tell(SurveyNews::Fit(entry.id.clone(), judge.known(entry)));
        }
        for spec in &request.specs {
            if let Some(fit) = judge.spec(spec) {
                tell(SurveyNews::Fit(spec.id.clone(), fit));
            }
        }
    })
}

pub struct FitChecker<'a> {
    pub device: &'a TelemetryDevice,
    pub settings: &'a Settings,
    pub corrections: PeakCorrections,
    pub times: TimeEstimates,
}

impl FitChecker<'_> {
    fn spec(&self, spec: &ModelSpec) -> Option<SurveyedFit> {
        let form = GenerateForm {
            prompt: "plan".to_owned(),
            ..GenerateForm::default()
        };
        let form = whole_form(&form, spec, FormInputs::required_by(spec), self.settings);
        let request = form.validate(spec).ok()?.request;
        let weights = read_footprint(spec.family, &spec.files, &[], &[]).ok()?;
        Some(self.planned(&request, &weights))
    }

    /// One that is not here: by the plan of a job of it, else by the size of its largest part.
    pub fn known(&self, entry: &CatalogEntry) -> SurveyedFit {
        let sketch = |in_8_bits| {
            let mut job = entry.sketch(in_8_bits)?;
            job.request.options.memory = self.settings.memory.choice();
            Some(self.planned(&job.request, &job.weights))
        };
        let Some(mut fit) = sketch(false) else {
            return self.largest_part(entry);
        };
        if fit.word == FitWord::TooLarge
            && let Some(narrow) = sketch(true)
            && narrow.word < FitWord::TooLarge
        {
            fit.ways.insert(0, "Use fp8 or GGUF files of it".to_owned());
            fit.ways.truncate(MAX_WAYS);
        }
        fit
    }

    fn planned(&self, request: &GenerateRequest, weights: &ModelFootprint) -> SurveyedFit {
        let planner = MemoryPlanner {
            weights,
            facts: self.device.facts,
            device: &self.device.name,
            corrections: &self.corrections,
        };
        let plan = planner.plan(request);
        let word = match plan.rank() {
            0 => FitWord::Fits,
            1 => FitWord::Squeezed,
            _ => FitWord::TooLarge,
        };
        let found = (word == FitWord::TooLarge).then(|| suggestions(&planner, request, &plan, &[]));
        let ways = found.into_iter().flatten().map(|found| found.text);
        SurveyedFit {
            word,
            text: plan.verdict.text.clone(),
            ways: ways.take(MAX_WAYS).collect(),
            secs: self.secs(&planner, request, &plan),
        }
    }

    /// As such jobs did here; on the CPU also by what its cores can.
    fn secs(
        &self,
        planner: &MemoryPlanner<'_>,
        request: &GenerateRequest,
        plan: &MemoryPlan,
    ) -> Option<u64> {
        let seen = |stage| self.times.secs_of(request, &self.device.name, stage);
        let course = ExpectedTimeline::of(plan, request, seen);
        let secs = if course.is_timed {
            course.total_secs()
        } else if self.device.facts.class == DeviceClass::Cpu {
            let rate = host::num_cores() as f64 * CORE_OPERATIONS;
            START_SECS + planner.operations(request) / rate
        } else {
            return None;
        };
        (secs > 0.0).then_some(secs as u64)
    }

    fn largest_part(&self, entry: &CatalogEntry) -> SurveyedFit {
        let facts = &self.device.facts;
        // The CPU computes in f32 with all weights in memory.
        let is_cpu = facts.class == DeviceClass::Cpu;
        let largest = entry.largest_part_bytes(is_cpu);
        let free = facts.budget(&self.settings.memory.choice()).available_bytes;
        let word = if largest == 0 {
            FitWord::Unknown
        } else if largest + BESIDE_WEIGHTS_BYTES <= free {
            FitWord::Fits
        } else if !is_cpu && free >= LEAST_STREAMING_BYTES {
            FitWord::Squeezed
        } else {
            FitWord::TooLarge
        };
        let [largest, free] = [largest, free].map(gib_text);
        let text = match word {
            FitWord::Unknown => "Its size is known after the download".to_owned(),
            _ => format!("Its largest part is about {largest} GiB, {free} GiB are free"),
        };
        SurveyedFit {
            word,
            text,
            ways: Vec::new(),
            secs: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safelight_core::catalog::known_models;
    use safelight_core::memory::DeviceFacts;

    fn card(gib: u64) -> TelemetryDevice {
        TelemetryDevice {
            name: "card".into(),
            facts: DeviceFacts {
                class: DeviceClass::Discrete,
                total_bytes: gib << 30,
                used_bytes: 0,
                host_available_bytes: 64 << 30,
            },
            physical_bytes: gib << 30,
        }
    }

    fn fit(id: &str, device: &TelemetryDevice) -> SurveyedFit {
        let (known, _) = known_models(Path::new("/nowhere/models.toml"));
        let entry = known.iter().find(|entry| entry.id == id);
        let judge = FitChecker {
            device,
            settings: &Settings::default(),
            corrections: PeakCorrections::default(),
            times: TimeEstimates::default(),
        };
        judge.known(entry.expect("it ships"))
    }

    #[test]
    fn models_that_are_not_here_are_judged_by_the_plan_of_a_job() {
        let word = |id: &str, gib| fit(id, &card(gib)).word;
        assert_eq!(word("wan2.1-t2v-1.3b", 24), FitWord::Fits);
        assert_eq!(word("flux1-dev", 24), FitWord::Squeezed);
        assert_eq!(word("flux1-dev", 48), FitWord::Fits);
        assert_eq!(word("flux1-dev", 2), FitWord::TooLarge);
    }

    #[test]
    fn cpu_fit_lists_remedies_for_a_too_large_model_and_a_duration_for_a_small_one() {
        let mut machine = card(24);
        machine.facts.class = DeviceClass::Cpu;
        machine.facts.host_available_bytes = 23 << 30;
        let large = fit("wan2.2-t2v-a14b", &machine);
        assert_eq!(large.word, FitWord::TooLarge, "{}", large.text);
        assert!(!large.ways.is_empty(), "{large:?}");
        assert!(large.text.contains("GiB") && !large.text.contains("GB"));
        let small = fit("wan2.1-t2v-1.3b", &machine);
        assert_ne!(small.word, FitWord::TooLarge, "{}", small.text);
        assert!(small.secs.is_some_and(|secs| secs > 3600), "{small:?}");
        // In f32 it takes twice its file.
        let whole = fit("flux1-dev", &machine);
        assert_eq!(whole.word, FitWord::TooLarge);
        assert_eq!(whole.ways[0], "Use fp8 or GGUF files of it");
    }
}
