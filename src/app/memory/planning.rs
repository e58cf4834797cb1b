//! What the form's job would need of memory, planned anew whenever the form changes.
//!
//! Headers and drivers are read on the file thread, once a model; the plan itself is arithmetic. Draws nothing.

use std::sync::Arc;

use safelight_core::families::Family;
use safelight_core::job::{DeviceChoice, GenerateRequest, Lora};
use safelight_core::memory::{
    Alternative, Change, Corrections, ModelWeights, Plan, Planner, Suggestion, suggestions,
};
use safelight_core::model::{ModelFiles, ModelSpec};
use safelight_core::settings::{Paths, Settings, own_runtime};
use safelight_core::units::{from_gib, in_gib};

use crate::app::App;
use crate::app::background::Task;
use crate::app::memory::course::Course;
use crate::telemetry::{self, Device, DeviceQuery, Roots};
use crate::worker::Estimates;

/// Other models that are looked at.
const MAX_ALTERNATIVES: usize = 8;

/// Reads what plans are made from; runs on the file thread. `None` where a model's headers cannot be read.
pub type ReadPlan = Arc<dyn Fn(&Settings, &PlanWish) -> Option<PlanBasis> + Send + Sync>;

/// What a plan is wanted for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanWish {
    pub family: Family,
    pub files: ModelFiles,
    pub loras: Vec<Lora>,
    pub device: DeviceChoice,
    /// Models that could make the same in less.
    pub others: Vec<ModelSpec>,
}

/// What plans are made from.
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
}

/// Planning of one window.
#[derive(Default)]
pub struct Planning {
    /// What was asked for last.
    wish: Option<PlanWish>,
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

    /// What the file thread read for the last wish.
    pub(in crate::app) fn take(&mut self, wish: &PlanWish, basis: Option<PlanBasis>) {
        if self.wish.as_ref() == Some(wish) {
            self.basis = basis.map(|basis| (wish.clone(), basis));
            self.planned = None;
        }
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
    fn settle(&mut self, request: &GenerateRequest) {
        let Some((_, basis)) = &self.basis else {
            self.planned = None;
            return;
        };
        if self
            .planned
            .as_ref()
            .is_some_and(|planned| planned.request == *request)
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
        self.planned = Some(Planned {
            suggestions: suggestions(&planner, request, &plan, &basis.alternatives),
            course: self.course_of(request, &plan),
            request: request.clone(),
            plan,
        });
    }
}

impl App {
    /// Plans what the form asks for, or nothing while it asks for nothing that can be.
    pub(in crate::app) fn plan_form(&mut self, request: Option<&GenerateRequest>) {
        let Some(request) = request else {
            // What the form asks for may be half written, but never another model's plan.
            let model = self.state.form.model.as_ref();
            let planning = &mut self.session.planning;
            let is_stale = planning
                .planned
                .as_ref()
                .is_some_and(|planned| Some(&planned.request.model) != model);
            if is_stale {
                planning.planned = None;
            }
            return;
        };
        let request = &self.session.planning.with_drafts(request);
        let device = self.settings.runtime.device;
        let is_of = |wish: &PlanWish| {
            wish.files == request.files && wish.loras == request.loras && wish.device == device
        };
        self.session.planning.keep_only(is_of);
        let is_known = self.session.planning.wish.as_ref().is_some_and(is_of);
        if !is_known {
            let wish = PlanWish {
                family: request.family,
                files: request.files.clone(),
                loras: request.loras.clone(),
                device: self.settings.runtime.device,
                others: others(self.session.models.all(), request),
            };
            let read = Arc::clone(&self.read_plan);
            let settings = Box::new(self.settings.clone());
            let task = Task::ReadPlan(read, settings, Box::new(wish.clone()));
            // What was not taken is asked for again with the next frame.
            if self.background.run(task) {
                self.session.planning.wish = Some(wish);
            }
        }
        self.session.planning.settle(request);
    }

    /// Makes a suggested change.
    pub(in crate::app) fn apply_change(&mut self, ctx: &egui::Context, change: &Change) {
        let form = &mut self.state.form;
        let mut settings = self.settings.clone();
        match change {
            Change::DefaultCap => settings.memory.cap_gib = None,
            Change::Preserved { bytes } => {
                settings.memory.preserved_gib = Some(rounded_up(*bytes));
            }
            Change::UnloadBetween => settings.memory.keep_loaded = false,
            Change::Batch { batch_size } => form.batch_size = Some(*batch_size),
            Change::Tile { pixels } => form.vae_tile = Some(*pixels),
            Change::Frames { num_frames } => form.num_frames = Some(*num_frames),
            Change::Size { width, height } => form.set_size((*width, *height)),
            Change::Model { id, .. } => form.model = Some(id.clone()),
        }
        self.change_settings(ctx, settings);
    }
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
