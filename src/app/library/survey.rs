//! What this machine can run: its device, its libtorch, its free disk, and for each model whether it fits.
//!
//! Drivers and headers are asked on a thread of its own, and only once somebody looks at models. A model that is here
//! is planned as a job with its own defaults would be; one that is not is judged by the size of its largest part.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};
use safelight_core::catalog::CatalogEntry;
use safelight_core::job::{GenerateForm, StartPicture};
use safelight_core::memory::{Corrections, DeviceClass, ModelWeights, Plan, Planner};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{Paths, Settings, own_runtime};
use safelight_core::units::{gib_text, size_text};

use crate::app::form::whole_form;
use crate::app::inputs::Sources;
use crate::telemetry::{self, Device, DeviceQuery, Roots, host};

/// Beside the weights of a model that nobody has planned.
const BESIDE_WEIGHTS_BYTES: u64 = 3 << 30;
/// With less, weights that stream would leave nothing for what is computed.
const LEAST_STREAMING_BYTES: u64 = 6 << 30;

/// Whether a model fits, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitWord {
    Fits,
    /// With weights that stream, or in tiles.
    Squeezed,
    TooLarge,
    Unknown,
}

impl FitWord {
    pub fn label(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Squeezed => "fits, streamed",
            Self::TooLarge => "too large",
            Self::Unknown => "",
        }
    }
}

/// A word and the sentence behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    pub word: FitWord,
    pub text: String,
}

/// The machine, as far as it matters to models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub device: Device,
    /// `cpu`, `cuda` or `rocm`.
    pub kind: &'static str,
    /// Where libtorch is, or why there is none.
    pub libtorch: Result<PathBuf, String>,
    /// The folder into which models are fetched.
    pub models: PathBuf,
    pub free_bytes: Option<u64>,
    pub is_writable: bool,
}

pub struct SurveyWish {
    pub settings: Settings,
    pub specs: Vec<ModelSpec>,
    pub known: Vec<CatalogEntry>,
}

/// What it finds, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurveyNews {
    Machine(Box<Machine>),
    /// Of the model with this id.
    Fit(String, Fit),
}

/// Looks at the machine; runs on a thread of its own.
pub type Examine = Arc<dyn Fn(&SurveyWish, &mut dyn FnMut(SurveyNews)) + Send + Sync>;

/// All that surveys have found so far.
#[derive(Debug, Default)]
pub struct Survey {
    pub machine: Option<Machine>,
    pub fits: HashMap<String, Fit>,
    /// Models or settings have changed since.
    pub(super) is_stale: bool,
}

impl Survey {
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

/// Looks at the machine of this user.
pub fn examine(paths: Paths) -> Examine {
    Arc::new(move |wish, tell| {
        let settings = &wish.settings;
        let runtime = own_runtime(settings, &paths.cache);
        let kind = runtime.as_ref().map_or("cpu", |runtime| runtime.kind());
        let query = DeviceQuery {
            kind,
            device: settings.runtime.device,
            ..DeviceQuery::default()
        };
        let device = telemetry::device(&Roots::of_this_machine(), &query);
        let models = paths.models();
        let machine = Machine {
            kind,
            libtorch: runtime
                .map(|runtime| runtime.folder)
                .map_err(|err| err.to_string()),
            free_bytes: host::free_bytes(&models),
            is_writable: can_write(&models),
            models,
            device: device.clone(),
        };
        tell(SurveyNews::Machine(Box::new(machine)));
        // From the sizes alone first: reading headers takes longer.
        for entry in &wish.known {
            tell(SurveyNews::Fit(
                entry.id.clone(),
                of_known(entry, &device, settings),
            ));
        }
        let corrections = Corrections::load(&paths.corrections_file());
        for spec in &wish.specs {
            let fit = of_spec(spec, &device, &corrections, settings);
            if let Some(fit) = fit {
                tell(SurveyNews::Fit(spec.id.clone(), fit));
            }
        }
    })
}

/// Whether a folder, or the one that it would be made in, takes files.
fn can_write(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.is_dir());
    there.is_some_and(|there| access(there, Access::WRITE_OK).is_ok())
}

/// The plan of a job with the model's own defaults, in a word.
pub fn of_plan(plan: &Plan) -> Fit {
    Fit {
        word: match plan.rank() {
            0 => FitWord::Fits,
            1 => FitWord::Squeezed,
            _ => FitWord::TooLarge,
        },
        text: plan.verdict.text.clone(),
    }
}

fn of_spec(
    spec: &ModelSpec,
    device: &Device,
    corrections: &Corrections,
    settings: &Settings,
) -> Option<Fit> {
    // What a model cannot do without: its size is all that counts.
    let picture = StartPicture {
        path: PathBuf::new(),
        width: spec.defaults.width,
        height: spec.defaults.height,
    };
    let needed = |is_needed| is_needed == safelight_core::model::InputUse::Required;
    let sources = Sources {
        image: needed(spec.start_image).then_some(&picture),
        last_image: needed(spec.end_image).then_some(&picture),
        mask: needed(spec.mask).then_some(&picture),
        extend: None,
    };
    let form = GenerateForm {
        prompt: "a plan".to_owned(),
        ..GenerateForm::default()
    };
    let form = whole_form(&form, spec, sources, settings);
    let request = form.validate(spec).ok()?.request;
    let weights = ModelWeights::read(spec.family, &spec.files, &[]).ok()?;
    let planner = Planner {
        weights: &weights,
        facts: device.facts,
        device: &device.name,
        corrections,
    };
    Some(of_plan(&planner.plan(&request)))
}

/// By the size of the largest part.
pub fn of_known(entry: &CatalogEntry, device: &Device, settings: &Settings) -> Fit {
    // The CPU computes in f32 from weights that lie in memory whole.
    let is_cpu = device.facts.class == DeviceClass::Cpu;
    let largest = entry.largest_part_bytes(is_cpu);
    let free = device
        .facts
        .budget(&settings.memory.choice())
        .available_bytes;
    if largest == 0 {
        return Fit {
            word: FitWord::Unknown,
            text: "Its size is not known before it is here".to_owned(),
        };
    }
    let word = if largest + BESIDE_WEIGHTS_BYTES <= free {
        FitWord::Fits
    } else if !is_cpu && free >= LEAST_STREAMING_BYTES {
        FitWord::Squeezed
    } else {
        FitWord::TooLarge
    };
    let then = match word {
        FitWord::Fits => "so it stays in memory whole",
        FitWord::Squeezed => "so a part of it is read anew in each step, which takes longer",
        FitWord::TooLarge if is_cpu => "which is too little",
        FitWord::TooLarge | FitWord::Unknown => {
            "which is too little even for a part of it at a time"
        }
    };
    Fit {
        word,
        text: format!(
            "Its largest part is about {}, and {} GiB are free, {then}",
            size_text(largest),
            gib_text(free)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::pending::Stream;
    use safelight_core::catalog::known_models;
    use safelight_core::memory::DeviceFacts;

    fn card(gib: u64) -> Device {
        Device {
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

    #[test]
    fn models_that_are_not_here_are_judged_by_their_largest_part() {
        let (known, _) = known_models(Path::new("/nowhere/models.toml"));
        let word = |id: &str, gib| {
            let entry = known.iter().find(|entry| entry.id == id).expect("it ships");
            of_known(entry, &card(gib), &Settings::default()).word
        };
        assert_eq!(word("wan2.1-t2v-1.3b", 24), FitWord::Fits);
        assert_eq!(word("wan2.2-t2v-a14b", 24), FitWord::Fits);
        assert_eq!(word("wan2.2-t2v-a14b", 12), FitWord::Squeezed);
        assert_eq!(word("flux1-dev", 24), FitWord::Squeezed);
        assert_eq!(word("flux1-dev", 48), FitWord::Fits);
        assert_eq!(word("flux1-dev", 4), FitWord::TooLarge);
        let mut machine = card(0);
        machine.facts.class = DeviceClass::Cpu;
        machine.facts.host_available_bytes = 40 << 30;
        machine.facts.total_bytes = 48 << 30;
        let entry = known.iter().find(|entry| entry.id == "flux1-dev");
        let fit = of_known(entry.expect("it ships"), &machine, &Settings::default());
        assert_eq!(
            fit.word,
            FitWord::TooLarge,
            "in f32 it takes twice its file"
        );
    }

    #[test]
    fn what_an_earlier_survey_still_says_is_not_heard() {
        let ctx = egui::Context::default();
        let (earlier, mut surveying) = Stream::new(&ctx);
        let fit = Fit {
            word: FitWord::Fits,
            text: "Fits".into(),
        };
        let (later, other) = Stream::new(&ctx);
        drop(std::mem::replace(&mut surveying, other));
        earlier.post(SurveyNews::Fit("a".into(), fit.clone()));
        later.post(SurveyNews::Fit("b".into(), fit));
        let mut survey = Survey::default();
        while let Some(news) = surveying.take() {
            survey.take(news);
        }
        assert_eq!(survey.word("a"), FitWord::Unknown);
        assert_eq!(survey.word("b"), FitWord::Fits);
    }
}
