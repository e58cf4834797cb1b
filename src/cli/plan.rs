//! `safelight plan`: what a job would need, stage by stage, and what would make it fit, without running it.
//!
//! Takes the arguments of `generate`. Starts no engine: numbers come from headers, drivers and earlier jobs. Only with other
//! computers the exchanges are measured, by the engines of all devices.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use safelight_core::catalog::{DefaultJob, ModelCatalog};
use safelight_core::families::read_footprint;
use safelight_core::fitting;
use safelight_core::footprint::ModelFootprint;
use safelight_core::job::{
    DeviceChoice, GenerateRequest, JobError, PartialSampling, PostprocessRequest, ValidatedForm,
};
use safelight_core::lora::CheckedLora;
use safelight_core::memory::{DeviceClass, DeviceFacts};
use safelight_core::model::{ControlUse, SizeLimits};
use safelight_core::plan::{
    LargestFit, MemoryPlan, MemoryPlanner, ModelAlternative, PeakCorrections, PlanSuggestion,
    PreservedRow, largest, preserved_table, suggestions,
};
use safelight_core::units::{from_gib, gib_text};
use serde_json::json;

use super::generate::{self, GenerateArgs};
use super::rank_exchange::RankExchange;
use super::{CliEnvironment, out};
use crate::telemetry::{self, DeviceQuery, SystemRoots, TelemetryDevice};

/// Exit code of a job that does not fit.
const DOES_NOT_FIT: u8 = 4;
/// GiB that the table of preserved values goes up to.
const TABLE_GIB: u32 = 18;
/// Other models that are looked at.
const MAX_ALTERNATIVES: usize = 16;
/// Of a model that is gone since.
const ANY_LIMITS: SizeLimits = SizeLimits {
    size_multiple: 32,
    max_edge: 8192,
    max_pixels: 1 << 26,
    frame_stride: 4,
    max_frames: 257,
    fixed_size: false,
    max_batch: 1,
    max_references: 0,
    controls: ControlUse::NONE,
};

/// Show how much memory a job needs and whether it fits, without running it; takes the arguments of generate
#[derive(Args, Debug)]
pub struct PlanArgs {
    #[command(flatten)]
    generate: GenerateArgs,
    /// Plan for a device with this much memory instead of this computer's
    #[arg(long, value_name = "GIB", value_parser = generate::gib_value)]
    total: Option<f64>,
    /// Kind of that device: discrete, unified or cpu [default: discrete with --total]
    #[arg(long, value_name = "CLASS")]
    class: Option<DeviceClass>,
    /// Memory used by other programs
    #[arg(long, value_name = "GIB", value_parser = generate::gib_value)]
    used: Option<f64>,
    /// Also print the plan for each preserved value from 0 to 18 GiB
    #[arg(long)]
    preserved_table: bool,
    /// Also find the largest size and the most frames that fit
    #[arg(long)]
    largest: bool,
}

/// Runs the command: 0 where the job fits, 4 where it does not.
pub fn run(args: PlanArgs, environment: &CliEnvironment) -> ExitCode {
    let is_json = args.generate.json;
    match planned(args, environment) {
        Ok(planned) => {
            if !is_json {
                planned.notices.iter().for_each(|text| generate::say(text));
            }
            let code = exit_code(&planned.plan);
            out::print_either(is_json, &planned.as_json(), &planned.as_text(), code)
        }
        Err(err) => out::print_job_error(&err, is_json),
    }
}

fn exit_code(plan: &MemoryPlan) -> u8 {
    if plan.fits() { 0 } else { DOES_NOT_FIT }
}

struct PlannedForm {
    request: GenerateRequest,
    device: String,
    plan: MemoryPlan,
    /// Plans for the other devices that run jobs, with their names.
    other_devices: Vec<(String, MemoryPlan)>,
    suggestions: Vec<PlanSuggestion>,
    table: Vec<PreservedRow>,
    largest: Option<LargestFit>,
    /// With other computers.
    exchange: Option<RankExchange>,
    /// The model is not downloaded.
    is_estimate: bool,
    notices: Vec<String>,
}

/// The first job that the arguments of `generate` describe, of a workflow with several results that of the first, with
/// the weights in the headers of its files, and what it does differently, in sentences. It needs no prompt.
fn job_of(
    args: GenerateArgs,
    environment: &CliEnvironment,
) -> Result<(DefaultJob, Vec<String>), JobError> {
    let none = || JobError::invalid("there is nothing to plan");
    let mut all = args.with_carried(environment)?.into_iter();
    let (mut generate, warnings) = all.next().ok_or_else(none)??;
    // The content of a prompt does not change the plan.
    if generate.prompts_file.is_none() && generate.base.prompt.is_empty() {
        generate.prompt = generate.prompt.or_else(|| Some("a plan".to_owned()));
    }
    let jobs = generate::jobs_of(&generate, environment)?;
    let ValidatedForm { request, notices } = jobs.into_iter().next().ok_or_else(none)?;
    let loras = fitting::check(&request.loras, request.family, &request.files)?;
    let weights = read_footprint(
        request.family,
        &request.files,
        &request.loras,
        &request.controls,
    )?;
    let notices = notices.into_iter().map(|notice| notice.message);
    let loras = loras.iter().map(CheckedLora::line);
    let notices = notices.chain(warnings).chain(loras).collect();
    Ok((DefaultJob { weights, request }, notices))
}

/// A job of a model that is not downloaded, from the sizes of its published files; `None` for every other model.
/// LoRAs and input files are left out.
fn sketch_of(
    args: &GenerateArgs,
    environment: &CliEnvironment,
) -> Result<Option<DefaultJob>, JobError> {
    let Some(id) = &args.model else {
        return Ok(None);
    };
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    let entry = catalog.missing.iter().find(|entry| entry.id == *id);
    let Some(mut sketch) = entry.and_then(|entry| entry.sketch(false)) else {
        return Ok(None);
    };
    let request = &mut sketch.request;
    request.width = args.width.unwrap_or(request.width);
    request.height = args.height.unwrap_or(request.height);
    request.num_frames = args.frames.unwrap_or(request.num_frames);
    if request.family.makes_images {
        request.batch_size = args.batch.unwrap_or(request.batch_size);
    }
    request.options.dtype = args
        .dtype
        .unwrap_or_else(|| environment.settings().runtime.dtype);
    request.options.vae_tile = args.vae_tile;
    request.options.memory = args.memory.choice(&environment.settings().memory);
    request.sampling = PartialSampling::from(args.sampling).over(request.sampling);
    let in_limits = |size: u32| (64..=ANY_LIMITS.max_edge).contains(&size);
    let has_frames = (1..=ANY_LIMITS.max_frames).contains(&request.num_frames);
    if in_limits(request.width) && in_limits(request.height) && has_frames {
        return Ok(Some(sketch));
    }
    let (edge, frames) = (ANY_LIMITS.max_edge, ANY_LIMITS.max_frames);
    let what = format!("expected a size from 64 to {edge} and at most {frames} frames");
    Err(JobError::invalid(what))
}

fn planned(args: PlanArgs, environment: &CliEnvironment) -> Result<PlannedForm, JobError> {
    let mut devices = match (args.generate.device, args.total, args.class) {
        (Some(device), ..) => vec![device],
        // The first is the one that is planned for.
        (None, None, None) => environment.job_devices(),
        (None, ..) => vec![environment.settings().runtime.first_device()],
    };
    let device = devices.remove(0);
    let TelemetryDevice { name, facts, .. } = device_of(environment, device);
    let facts = DeviceFacts {
        used_bytes: args.used.map_or(facts.used_bytes, from_gib),
        ..facts
    };
    let facts = match (args.total, args.class) {
        (None, None) => facts,
        (total, class) => other_device(facts, total.map(from_gib), class, args.used.map(from_gib)),
    };
    let sketch = sketch_of(&args.generate, environment)?;
    let is_estimate = sketch.is_some();
    let (DefaultJob { request, weights }, mut notices) = match sketch {
        Some(sketch) => {
            let has_file = args.generate.from.is_some();
            let unused = "--from is not used: the model is not downloaded".to_owned();
            (sketch, has_file.then_some(unused).into_iter().collect())
        }
        None => job_of(args.generate, environment)?,
    };
    notices.extend(environment.oddities());
    let corrections = PeakCorrections::load(&environment.paths.corrections_file());
    let first = device;
    let planner = MemoryPlanner {
        weights: &weights,
        facts,
        device: &name,
        corrections: &corrections,
    };
    let plan = planner.plan(&request);
    let others = match plan.rank() {
        0 => Vec::new(),
        _ => alternatives(&request, environment),
    };
    let other_devices = devices.into_iter().map(|choice| {
        let TelemetryDevice { name, facts, .. } = device_of(environment, choice);
        let device = name.as_str();
        let planner = MemoryPlanner {
            facts,
            device,
            ..planner
        };
        let plan = planner.plan(&request);
        (format!("{choice}, {name}"), plan)
    });
    Ok(PlannedForm {
        other_devices: other_devices.collect(),
        device: name.clone(),
        suggestions: suggestions(&planner, &request, &plan, &others),
        table: if args.preserved_table {
            preserved_table(&planner, &request, TABLE_GIB)
        } else {
            Vec::new()
        },
        largest: args
            .largest
            .then(|| largest(&planner, &request, &limits_of(&request, environment))),
        exchange: (!request.options.hosts.is_empty())
            .then(|| {
                let bytes = planner.exchanged_bytes(&request);
                RankExchange::measure(bytes, &request, first, environment)
            })
            .transpose()?,
        plan,
        request,
        is_estimate,
        notices,
    })
}

/// Prints what a job that finishes something needs; the exit code as [`run`] has it.
pub(super) fn finish_plan(
    request: &PostprocessRequest,
    device: Option<DeviceChoice>,
    is_json: bool,
    environment: &CliEnvironment,
) -> Result<ExitCode, JobError> {
    let device = device.unwrap_or_else(|| environment.settings().runtime.first_device());
    let TelemetryDevice { name, facts, .. } = device_of(environment, device);
    let weights = ModelFootprint::of_postprocess(request)?;
    let planner = MemoryPlanner {
        weights: &weights,
        facts,
        device: &name,
        corrections: &PeakCorrections::default(),
    };
    let plan = planner.plan_postprocess(request);
    let code = exit_code(&plan);
    let json = json!({"device": name, "fits": plan.fits(), "exit_code": code, "plan": plan});
    let budget = budget_line(&plan, &name);
    let (rows, verdict) = (out::table(&stage_rows(&plan)), &plan.verdict.text);
    let text = format!("{}\n{budget}\n\n{rows}\n{verdict}\n", request.title());
    Ok(out::print_either(is_json, &json, &text, code))
}

/// The device, what it has, and what is free of it.
fn budget_line(plan: &MemoryPlan, device: &str) -> String {
    let budget = &plan.budget;
    let class = plan.device.class;
    let [total, cap] = [budget.total_bytes, budget.cap_bytes].map(gib_text);
    let [others, free] = [budget.used_by_others_bytes, budget.available_bytes].map(gib_text);
    format!("{class} {device}: {total} GiB, limit {cap}, other programs {others}, free {free}")
}

/// The device that the settings and arguments mean on this machine.
fn device_of(environment: &CliEnvironment, device: DeviceChoice) -> TelemetryDevice {
    let query = DeviceQuery {
        kind: environment.runtime_kind(),
        device,
        ..DeviceQuery::default()
    };
    telemetry::device(&SystemRoots::of_this_machine(), &query)
}

/// A hypothetical device, used only as stated.
fn other_device(
    here: DeviceFacts,
    total: Option<u64>,
    class: Option<DeviceClass>,
    used: Option<u64>,
) -> DeviceFacts {
    let class = class.unwrap_or(match total {
        Some(_) => DeviceClass::Discrete,
        None => here.class,
    });
    let total_bytes = total.unwrap_or(here.total_bytes);
    let used_bytes = used.unwrap_or(0);
    DeviceFacts {
        class,
        total_bytes,
        used_bytes,
        host_available_bytes: match class {
            DeviceClass::Discrete => here.host_available_bytes,
            DeviceClass::Unified | DeviceClass::Cpu => total_bytes.saturating_sub(used_bytes),
        },
    }
}

/// Limits of the job's model.
fn limits_of(request: &GenerateRequest, environment: &CliEnvironment) -> SizeLimits {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    let opened = catalog.open_with(&request.model, &request.companions);
    opened.map_or(ANY_LIMITS, |spec| spec.limits)
}

fn alternatives(request: &GenerateRequest, environment: &CliEnvironment) -> Vec<ModelAlternative> {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    let specs = ModelAlternative::specs(&catalog.available, &request.model).take(MAX_ALTERNATIVES);
    specs
        .filter_map(|spec| ModelAlternative::read(spec, &request.loras, &request.controls))
        .collect()
}

impl PlannedForm {
    fn as_json(&self) -> serde_json::Value {
        let request = &self.request;
        json!({
            "model": request.model,
            "width": request.width,
            "height": request.height,
            "num_frames": request.num_frames,
            "batch_size": request.batch_size,
            "device": self.device,
            "fits": self.plan.fits(),
            "exit_code": exit_code(&self.plan),
            "plan": self.plan,
            "other_devices": self.other_devices,
            "suggestions": self.suggestions,
            "preserved_table": self.table,
            "largest": self.largest,
            "exchange": self.exchange,
            "is_estimate": self.is_estimate,
            "notices": self.notices,
        })
    }

    fn as_text(&self) -> String {
        let (plan, request) = (&self.plan, &self.request);
        let mut text = String::new();
        let frames = if request.family.makes_images {
            format!("{} at a time", request.batch_size)
        } else {
            format!("{} frames", request.num_frames)
        };
        let (width, height) = (request.width, request.height);
        // Writing to a string cannot fail.
        writeln!(text, "{}, {width}×{height}, {frames}", request.model).ok();
        writeln!(text, "{}", budget_line(plan, &self.device)).ok();
        if self.is_estimate {
            let note = "The model is not downloaded: this is an estimate by the sizes of its files, without LoRAs and input files";
            writeln!(text, "{note}").ok();
        }
        text.push('\n');
        text.push_str(&out::table(&stage_rows(plan)));
        writeln!(text, "\n{}", plan.verdict.text).ok();
        if let Some(exchange) = &self.exchange {
            writeln!(text, "{}", exchange.line(request.num_devices())).ok();
        }
        for (device, plan) in &self.other_devices {
            writeln!(text, "On {device}: {}", plan.verdict.text).ok();
        }
        let suggested = gib_text(plan.suggested_preserved_bytes);
        writeln!(text, "Suggested preserved memory: {suggested} GiB").ok();
        for suggestion in &self.suggestions {
            writeln!(text, "- {} ({})", suggestion.text, suggestion.verdict).ok();
        }
        text.push_str(&self.largest_lines());
        if !self.table.is_empty() {
            text.push('\n');
            text.push_str(&out::table(&self.preserved_rows()));
        }
        text
    }

    fn largest_lines(&self) -> String {
        let Some(LargestFit { size, num_frames }) = self.largest else {
            return String::new();
        };
        let request = &self.request;
        let mut text = match size {
            None => "No size fits\n".to_owned(),
            Some((width, height)) if request.family.makes_images => {
                format!("Largest size that fits: {width}×{height}\n")
            }
            Some((width, height)) => {
                let frames = request.num_frames;
                format!("Largest size that fits with {frames} frames: {width}×{height}\n")
            }
        };
        if let Some(num_frames) = num_frames {
            let (width, height) = (request.width, request.height);
            // Writing to a string cannot fail.
            writeln!(
                text,
                "Most frames that fit at {width}×{height}: {num_frames}"
            )
            .ok();
        }
        text
    }

    fn preserved_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![heading(
            "preserved,resident,streamed/step,extra s/step,peak,",
        )];
        for row in &self.table {
            rows.push(vec![
                row.preserved_gib.to_string(),
                gib_text(row.resident_bytes),
                gib_text(row.streamed_bytes_per_step),
                format!("{:.2}", row.copy_secs_per_step),
                gib_text(row.peak_bytes),
                (if row.fits { "" } else { "does not fit" }).to_owned(),
            ]);
        }
        rows
    }
}

fn heading(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}

fn stage_rows(plan: &MemoryPlan) -> Vec<Vec<String>> {
    let mut rows = vec![heading(
        "stage,network,weights,activations,peak,resident,streamed/step,",
    )];
    for stage in &plan.stages {
        let Some(part) = stage.part else { continue };
        let tile = stage.tile.map(|tile| format!("in tiles of {tile}"));
        let wrong = (!stage.fits).then(|| "does not fit".to_owned());
        let note = wrong.or(tile).unwrap_or_default();
        rows.push(vec![
            stage.stage.name().to_owned(),
            part.label().to_owned(),
            gib_text(stage.weights_bytes),
            gib_text(stage.activation_bytes),
            gib_text(stage.peak_bytes),
            gib_text(stage.resident_bytes),
            gib_text(stage.streamed_bytes_per_step),
            note,
        ]);
    }
    rows
}
