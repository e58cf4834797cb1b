//! The memory plan of the form's job, updated whenever the form changes.
//!
//! Headers and drivers are read in the background, once a model; the plan itself is arithmetic.

use safelight_core::families::read_footprint;
use safelight_core::footprint::ModelFootprint;
use safelight_core::job::{ControlInput, DeviceChoice, LoraChoice};
use safelight_core::model::{ModelFamily, ModelFiles};
use safelight_core::plan::{
    MemoryPlan, MemoryPlanner, ModelAlternative, PeakCorrections, PlanChange, PlanSuggestion,
    suggestions,
};
use safelight_core::settings::{MemorySettings, RuntimeSettings, own_runtime};
use safelight_core::units::{from_gib, in_gib};

use crate::telemetry::record::TelemetryRecord;
use crate::telemetry::{self, DeviceQuery, SystemRoots, TelemetryDevice};
use crate::window::create::form::FormJobs;
use crate::window::memory::ExpectedTimeline;
use crate::window::memory::MemoryHistory;
use crate::window::prelude::*;
use crate::worker::TimeEstimates;

const MAX_ALTERNATIVES: usize = 8;

/// Reads the basis of plans, on a background thread, and smaller models for the same job; `None` if a model's headers
/// cannot be read.
pub type ReadPlan =
    Arc<dyn Fn(&Settings, &PlanRequest, &[ModelSpec]) -> Option<PlanBasis> + Send + Sync>;

#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    pub family: ModelFamily,
    pub files: ModelFiles,
    pub loras: Vec<LoraChoice>,
    pub controls: Vec<ControlInput>,
    pub device: DeviceChoice,
}

impl PlanRequest {
    pub fn new(request: &GenerateRequest, device: DeviceChoice) -> Self {
        Self {
            family: request.family,
            files: request.files.clone(),
            loras: request.loras.clone(),
            controls: request.controls.clone(),
            device,
        }
    }
}

#[derive(Clone, Debug)]
pub struct PlanBasis {
    pub weights: ModelFootprint,
    pub machine: TelemetryDevice,
    pub corrections: PeakCorrections,
    pub times: TimeEstimates,
    pub alternatives: Vec<ModelAlternative>,
}

#[derive(Clone, Debug)]
pub struct FormPlan {
    request: GenerateRequest,
    pub plan: MemoryPlan,
    pub course: ExpectedTimeline,
    pub expected: MemoryHistory,
    pub suggestions: Vec<PlanSuggestion>,
    /// Number of jobs that Generate submits, and the time of all, if known.
    pub num_jobs: usize,
    pub all_secs: f64,
    jobs_revision: u64,
}

pub struct MemoryPlanning {
    read: ReadPlan,
    plan_request: Option<PlanRequest>,
    reading: BackgroundTask<Option<PlanBasis>>,
    /// Models and settings of that request.
    asked_with: (u64, RuntimeSettings),
    exporting: BackgroundTask<Option<Result<PathBuf, JobError>>>,
    basis: Option<(PlanRequest, PlanBasis)>,
    planned: Option<FormPlan>,
    /// Settings while one of them is dragged.
    pub draft: Option<MemorySettings>,

    /// True if the graph shows the form's job, not the last one.
    pub is_shown: bool,
}

impl MemoryPlanning {
    pub fn planned(&self) -> Option<&FormPlan> {
        self.planned.as_ref()
    }

    /// Reads everything again: another program may use memory now, and a job may have stored times.
    pub(crate) fn forget(&mut self) {
        self.plan_request = None;
    }

    pub(crate) fn course_of(
        &self,
        request: &GenerateRequest,
        plan: &MemoryPlan,
    ) -> ExpectedTimeline {
        let basis = self.basis.as_ref().map(|(_, basis)| basis);
        ExpectedTimeline::of(plan, request, |stage| {
            let basis = basis?;
            basis.times.secs_of(request, &basis.machine.name, stage)
        })
    }

    fn settle(&mut self, request: &GenerateRequest, jobs: &FormJobs) {
        let Some((_, basis)) = &self.basis else {
            self.planned = None;
            return;
        };
        let is_of = |it: &FormPlan| it.request == *request && it.jobs_revision == jobs.revision;
        if self.planned.as_ref().is_some_and(is_of) {
            return;
        }
        let planner = MemoryPlanner {
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
        self.planned = Some(FormPlan {
            suggestions: suggestions(&planner, request, &plan, &basis.alternatives),
            num_jobs: jobs.number,
            all_secs,
            jobs_revision: jobs.revision,
            expected: MemoryHistory::expected(&plan, &course),
            course,
            request: request.clone(),
            plan,
        });
    }

    pub fn new(read: ReadPlan) -> Self {
        Self {
            read,
            plan_request: None,
            reading: BackgroundTask::default(),
            asked_with: Default::default(),
            exporting: BackgroundTask::default(),
            basis: None,
            planned: None,
            draft: None,
            is_shown: false,
        }
    }

    /// Asks for a file and writes the telemetry of a job to it.
    pub fn export(&mut self, job: JobId, cx: &AppContext) {
        let Some(records) = cx.paths.as_ref().map(AppPaths::telemetry) else {
            return;
        };
        let instead = format!("Copy the record itself from {}", records.display());
        self.exporting = cx.background.ask_or(instead, move || {
            let path = rfd::FileDialog::new()
                .set_title("Export the telemetry of this job")
                .set_file_name(format!("safelight-{job}.csv"))
                .add_filter("Tables", &["csv"])
                .add_filter("JSON", &["json"])
                .save_file()?;
            let record = TelemetryRecord::load(&records, job);
            let written = record.and_then(|record| record.export(&path));
            Some(written.map(|()| path.clone()).map_err(|err| {
                let place = path.display();
                let text = format!("the telemetry could not be exported ({err}): {place}");
                JobError::new(JobErrorKind::Disk, text)
            }))
        });
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        if let Some(basis) = self.reading.take() {
            self.basis = self.plan_request.clone().zip(basis);
            self.planned = None;
        }
        match self.exporting.take().flatten() {
            Some(Ok(path)) => cx.say(format!("Telemetry exported: {}", path.display())),
            Some(Err(err)) => cx.notify(NoticeSeverity::Warning, err),
            None => {}
        }
    }

    pub(crate) fn plan(
        &mut self,
        request: Option<&GenerateRequest>,
        jobs: &FormJobs,
        cx: &AppContext,
    ) {
        // Another computer plans its jobs itself.
        let request = request.filter(|request| request.computer.is_none());
        let Some(request) = request else {
            // The plan of an incomplete form stays, but never that of another model.
            let planned = self.planned.as_ref();
            if planned.is_some_and(|planned| Some(&planned.request.model) != cx.form.model.as_ref())
            {
                self.planned = None;
            }
            return;
        };
        let mut request = request.clone();
        if let Some(draft) = self.draft {
            request.options.memory.preserved_bytes = draft.preserved_gib.map(from_gib);
            request.options.memory.cap_bytes = draft.cap_gib.map(from_gib);
        }

        let runtime = &cx.settings.runtime;
        if self.asked_with.0 != cx.models.number || self.asked_with.1 != *runtime {
            self.asked_with = (cx.models.number, runtime.clone());
            self.forget();
        }
        let device = match cx.job_device {
            DeviceChoice::Auto => runtime.first_device(),
            device => device,
        };
        let wanted = PlanRequest::new(&request, device);
        self.basis = self.basis.take().filter(|(known, _)| *known == wanted);
        if self.plan_request.as_ref() != Some(&wanted) {
            let local: Vec<ModelSpec> = cx.models.local().cloned().collect();
            let others = ModelAlternative::specs(&local, &request.model);
            let others: Vec<ModelSpec> = others.take(MAX_ALTERNATIVES).cloned().collect();
            let (read, settings) = (Arc::clone(&self.read), cx.settings.clone());
            let asked = wanted.clone();
            let read = move || read(&settings, &asked, &others);
            // Tried again with the next frame if the thread is busy.
            let reading = cx.background.search(read);
            if reading.is_busy() {
                (self.reading, self.plan_request) = (reading, Some(wanted));
            }
        }
        self.settle(&request, jobs);
    }
}

/// Changes the form, or the settings, as a plan suggests.
pub fn apply(change: &PlanChange, cx: &mut AppContext) {
    let form = &mut cx.form;
    let mut settings = cx.settings.clone();
    match change {
        PlanChange::DefaultCap => settings.memory.cap_gib = None,
        PlanChange::Preserved { bytes } => {
            // Rounded up to one decimal.
            settings.memory.preserved_gib = Some((in_gib(*bytes) * 10.0).ceil() / 10.0);
        }
        PlanChange::UnloadBetween => settings.memory.keep_loaded = false,
        PlanChange::Batch { batch_size } => form.batch_size = Some(*batch_size),
        PlanChange::Tile { pixels } => form.options.vae_tile = Some(*pixels),
        PlanChange::Frames { num_frames } => form.num_frames = Some(*num_frames),
        PlanChange::Size { width, height } => form.set_size((*width, *height)),
        PlanChange::Model { id, .. } => form.model = Some(id.clone()),
    }
    cx.push(SettingsCommand::Change(Box::new(settings)));
}

/// A device as the drivers and this user's runtime say. Blocks.
pub fn telemetry_device(
    settings: &Settings,
    paths: &AppPaths,
    device: DeviceChoice,
) -> TelemetryDevice {
    let runtime = own_runtime(settings, &paths.cache);
    let query = DeviceQuery {
        kind: runtime.map_or("cpu", |runtime| runtime.kind()),
        device,
        ..DeviceQuery::default()
    };
    telemetry::device(&SystemRoots::of_this_machine(), &query)
}

pub fn read_plan(paths: AppPaths) -> ReadPlan {
    Arc::new(move |settings, plan_request, others| {
        let (files, loras) = (&plan_request.files, &plan_request.loras);
        let controls = &plan_request.controls;
        let weights = read_footprint(plan_request.family, files, loras, controls).ok()?;
        let alternatives = others.iter();
        let alternatives =
            alternatives.filter_map(|spec| ModelAlternative::read(spec, loras, controls));
        Some(PlanBasis {
            machine: telemetry_device(settings, &paths, plan_request.device),
            corrections: PeakCorrections::load(&paths.corrections_file()),
            times: TimeEstimates::load(Some(paths.times_file())),
            alternatives: alternatives.collect(),
            weights,
        })
    })
}
