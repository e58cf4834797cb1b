//! What the form's job would need of memory, planned anew whenever the form changes.
//!
//! Headers and drivers are read in the background, once a model; the plan itself is arithmetic. Draws nothing.

use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::families::Family;
use safelight_core::job::{Control, DeviceChoice, GenerateRequest, JobError, Lora};
use safelight_core::memory::{
    Alternative, Change, Corrections, ModelWeights, Plan, Planner, Suggestion, suggestions,
};
use safelight_core::model::{ModelFiles, ModelSpec};
use safelight_core::settings::{Paths, RuntimeSettings, Settings, own_runtime};
use safelight_core::units::{from_gib, in_gib};

use crate::app::commands::{MemoryCommand, SettingsCommand};
use crate::app::cx::Cx;
use crate::app::form::FormJobs;
use crate::app::memory::course::Course;
use crate::app::memory::exporting;
use crate::app::notices::Severity;
use crate::app::pending::Pending;
use crate::telemetry::{self, Device, DeviceQuery, Roots};
use crate::worker::Estimates;

/// Other models that are looked at.
const MAX_ALTERNATIVES: usize = 8;

/// Reads what plans are made from; runs on a thread of its own. `None` where a model's headers cannot be read.
pub type ReadPlan = Arc<dyn Fn(&Settings, &PlanWish) -> Option<PlanBasis> + Send + Sync>;

#[derive(Clone, Debug, PartialEq)]
pub struct PlanWish {
    pub family: Family,
    pub files: ModelFiles,
    pub loras: Vec<Lora>,
    /// Of which the networks count.
    pub controls: Vec<Control>,
    pub device: DeviceChoice,
    /// Models that could make the same in less.
    pub others: Vec<ModelSpec>,
}

#[derive(Clone, Debug)]
pub struct PlanBasis {
    pub weights: ModelWeights,
    pub machine: Device,
    pub corrections: Corrections,
    /// How long earlier jobs took.
    pub times: Estimates,
    pub alternatives: Vec<Alternative>,
}

/// The plan of the form at this moment.
#[derive(Clone, Debug)]
pub struct Planned {
    request: GenerateRequest,
    pub plan: Plan,
    /// What it is expected to look like over time.
    pub course: Course,
    pub suggestions: Vec<Suggestion>,
    /// How many jobs one press makes, and how long all of them take where that is known.
    pub num_jobs: usize,
    pub all_secs: f64,
    /// The revision of those jobs.
    jobs_revision: u64,
}

impl Planned {
    fn is_of(&self, request: &GenerateRequest, jobs: &FormJobs) -> bool {
        self.request == *request && self.jobs_revision == jobs.revision
    }
}

pub struct Planning {
    read: ReadPlan,
    /// What was asked for last.
    wish: Option<PlanWish>,
    reading: Pending<Option<PlanBasis>>,
    /// The models and the settings that it was asked for with.
    asked_with: (u64, RuntimeSettings),
    exporting: Pending<Option<Result<PathBuf, JobError>>>,
    /// What was read, and for which wish.
    basis: Option<(PlanWish, PlanBasis)>,
    planned: Option<Planned>,
    /// The preserved memory in GiB while the slider is dragged.
    pub preserved_draft: Option<f64>,
    /// The cap in GiB while it is dragged.
    pub cap_draft: Option<f64>,
    /// The graph shows what is expected of the form's job, though there is one to look back on.
    pub is_shown: bool,
}

impl Planning {
    pub fn planned(&self) -> Option<&Planned> {
        self.planned.as_ref()
    }

    /// Lets everything be read anew: another program may use memory now, and a job may have taught something.
    pub(in crate::app) fn forget(&mut self) {
        self.wish = None;
    }

    /// The request as the controls stand that are being dragged: what they would do is seen before it is kept.
    fn with_drafts(&self, request: &GenerateRequest) -> GenerateRequest {
        let mut request = request.clone();
        if let Some(gib) = self.preserved_draft {
            request.memory.preserved_bytes = Some(from_gib(gib));
        }
        if let Some(gib) = self.cap_draft {
            request.memory.cap_bytes = Some(from_gib(gib));
        }
        request
    }

    /// Drops what was planned and read for something else.
    fn keep_only(&mut self, is_of: impl Fn(&PlanWish) -> bool) {
        if self.basis.as_ref().is_some_and(|(wish, _)| !is_of(wish)) {
            self.basis = None;
            self.planned = None;
        }
    }

    /// How a plan of a request is expected to look over time.
    pub(in crate::app) fn course_of(&self, request: &GenerateRequest, plan: &Plan) -> Course {
        let basis = self.basis.as_ref().map(|(_, basis)| basis);
        Course::of(plan, request, |stage| {
            let basis = basis?;
            basis.times.secs_of(request, &basis.machine.name, stage)
        })
    }

    /// Plans the request unless it is the planned one.
    fn settle(&mut self, request: &GenerateRequest, jobs: &FormJobs) {
        let Some((_, basis)) = &self.basis else {
            self.planned = None;
            return;
        };
        if self
            .planned
            .as_ref()
            .is_some_and(|planned| planned.is_of(request, jobs))
        {
            return;
        }
        let planner = Planner {
            weights: &basis.weights,
            facts: basis.machine.facts,
            device: &basis.machine.name,
            corrections: &basis.corrections,
        };
        let plan = planner.plan(request);
        let course = self.course_of(request, &plan);
        let secs_of = |job: &GenerateRequest| self.course_of(job, &plan).total_secs();
        let all_secs = if jobs.requests.is_empty() {
            course.total_secs() * jobs.number as f64
        } else {
            jobs.requests.iter().map(secs_of).sum()
        };
        self.planned = Some(Planned {
            suggestions: suggestions(&planner, request, &plan, &basis.alternatives),
            num_jobs: jobs.number,
            all_secs,
            jobs_revision: jobs.revision,
            course,
            request: request.clone(),
            plan,
        });
    }
}

impl Planning {
    pub fn new(read: ReadPlan) -> Self {
        Self {
            read,
            wish: None,
            reading: Pending::default(),
            asked_with: Default::default(),
            exporting: Pending::default(),
            basis: None,
            planned: None,
            preserved_draft: None,
            cap_draft: None,
            is_shown: false,
        }
    }

    pub fn update(&mut self, command: MemoryCommand, cx: &mut Cx) {
        match command {
            MemoryCommand::Apply(change) => apply(&change, cx),
            MemoryCommand::DraftPreserved(gib) => self.preserved_draft = gib,
            MemoryCommand::DraftCap(gib) => self.cap_draft = gib,
            MemoryCommand::ShowPlan(is_shown) => self.is_shown = is_shown,
            MemoryCommand::Export(id) => {
                if let Some(paths) = &cx.paths {
                    self.exporting = exporting::export(&cx.background, paths.telemetry(), id);
                }
            }
        }
    }

    pub fn poll(&mut self, cx: &mut Cx) {
        if let Some(basis) = self.reading.take() {
            self.basis = self.wish.clone().zip(basis);
            self.planned = None;
        }
        match self.exporting.take().flatten() {
            Some(Ok(path)) => cx.say(format!("Telemetry exported: {}", path.display())),
            Some(Err(err)) => cx.tell(Severity::Warning, err),
            None => {}
        }
    }

    /// Plans what the form asks for, or nothing while it asks for nothing that can be.
    pub(in crate::app) fn plan(
        &mut self,
        request: Option<&GenerateRequest>,
        jobs: &FormJobs,
        cx: &Cx,
    ) {
        let Some(request) = request else {
            // What the form asks for may be half written, but never another model's plan.
            let planned = self.planned.as_ref();
            if planned.is_some_and(|planned| Some(&planned.request.model) != cx.form.model.as_ref())
            {
                self.planned = None;
            }
            return;
        };
        let request = &self.with_drafts(request);
        let runtime = &cx.settings.runtime;
        if self.asked_with.0 != cx.models.number || self.asked_with.1 != *runtime {
            self.asked_with = (cx.models.number, runtime.clone());
            self.forget();
        }
        let is_of = |wish: &PlanWish| {
            wish.files == request.files
                && wish.loras == request.loras
                && wish.controls == request.controls
                && wish.device == runtime.device
        };
        self.keep_only(is_of);
        if !self.wish.as_ref().is_some_and(is_of) {
            let wish = PlanWish {
                family: request.family,
                files: request.files.clone(),
                loras: request.loras.clone(),
                controls: request.controls.clone(),
                device: runtime.device,
                others: others(cx.models.all(), request),
            };
            let (read, settings) = (Arc::clone(&self.read), cx.settings.clone());
            let wanted = wish.clone();
            // What was not taken is asked for again with the next frame.
            if let Some(reading) = cx.background.search(move || read(&settings, &wanted)) {
                (self.reading, self.wish) = (reading, Some(wish));
            }
        }
        self.settle(request, jobs);
    }
}

/// Makes a suggested change.
fn apply(change: &Change, cx: &mut Cx) {
    let form = &mut cx.form;
    let mut settings = cx.settings.clone();
    match change {
        Change::DefaultCap => settings.memory.cap_gib = None,
        Change::Preserved { bytes } => settings.memory.preserved_gib = Some(rounded_up(*bytes)),
        Change::UnloadBetween => settings.memory.keep_loaded = false,
        Change::Batch { batch_size } => form.batch_size = Some(*batch_size),
        Change::Tile { pixels } => form.vae_tile = Some(*pixels),
        Change::Frames { num_frames } => form.num_frames = Some(*num_frames),
        Change::Size { width, height } => form.set_size((*width, *height)),
        Change::Model { id, .. } => form.model = Some(id.clone()),
    }
    cx.push(SettingsCommand::Change(Box::new(settings)));
}

/// In GiB with one decimal, never less.
fn rounded_up(bytes: u64) -> f64 {
    (in_gib(bytes) * 10.0).ceil() / 10.0
}

/// Models of the same family and variant that are stored in fewer bytes.
fn others(models: &[ModelSpec], request: &GenerateRequest) -> Vec<ModelSpec> {
    let Some(own) = models.iter().find(|spec| spec.id == request.model) else {
        return Vec::new();
    };
    let same = models.iter().filter(|spec| {
        (spec.family, &spec.variant) == (own.family, &own.variant)
            && spec.id != own.id
            && spec.bytes < own.bytes
    });
    same.take(MAX_ALTERNATIVES).cloned().collect()
}

/// Reads headers, asks drivers for the device that the settings mean, and takes what earlier jobs taught.
pub fn read_plan(paths: Paths) -> ReadPlan {
    Arc::new(move |settings, wish| {
        let weights = ModelWeights::read(wish.family, &wish.files, &wish.loras).ok()?;
        let weights = weights.with_controls(wish.family, &wish.controls);
        let runtime = own_runtime(settings, &paths.cache);
        let kind = runtime.map_or("cpu", |runtime| runtime.kind());
        let alternatives = wish.others.iter().filter_map(|spec| {
            Some(Alternative {
                id: spec.id.clone(),
                name: spec.name.clone(),
                files: spec.files.clone(),
                weights: ModelWeights::read(spec.family, &spec.files, &wish.loras).ok()?,
            })
        });
        Some(PlanBasis {
            machine: telemetry::device(
                &Roots::of_this_machine(),
                &DeviceQuery {
                    kind,
                    device: wish.device,
                    ..DeviceQuery::default()
                },
            ),
            corrections: Corrections::load(&paths.corrections_file()),
            times: Estimates::load(Some(paths.times_file())),
            alternatives: alternatives.collect(),
            weights,
        })
    })
}
