//! From the arguments to jobs that can begin: checked, with settled prompts, names and absolute paths. All of them are
//! before the first begins.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use safelight_core::catalog::{EMBEDDED_MODEL, ModelCatalog};
use safelight_core::fitting::{LoraIndex, control_named};
use safelight_core::job::{
    ChosenLora, DeviceChoice, FieldError, FormNotice, GenerateRequest, GridRecord, JobError,
    JobErrorKind, LoraChoice, ValidatedForm, jobs_of,
};
use safelight_core::model::{ComponentOverrides, ModelSpec, advice_for};
use safelight_core::naming::numbered_path;
use safelight_core::settings::ComputerSettings;
use safelight_core::{fitting, naming};

use super::GenerateArgs;
use super::outpaint;
use crate::cli::CliEnvironment;
use crate::computers::ComputerInfo;
use crate::computers::client::{ATTEMPTS, check};

/// Jobs that the arguments describe.
#[derive(Default)]
pub(in crate::cli) struct RequestedJobs {
    pub jobs: Vec<ValidatedForm>,
    /// Each with the file that its contact sheet is to be.
    pub(super) grids: Vec<(GridRecord, PathBuf)>,
}

/// The jobs that these arguments ask for, or all that is wrong with the first wrong one.
pub(super) fn jobs_from_args(
    args: &GenerateArgs,
    environment: &CliEnvironment,
) -> Result<RequestedJobs, JobError> {
    let settings = environment.settings();
    let catalog = ModelCatalog::load(&environment.paths, settings);
    let wanted = args.model.as_deref().unwrap_or(EMBEDDED_MODEL);
    let there = args.on.as_deref().map(ModelsThere::find).transpose()?;
    let spec = match &there {
        Some(there) => there.open(wanted)?,
        None => catalog.open_with(wanted, &args.companions())?,
    };
    let mut form = args.form(&spec, settings)?;
    if there.is_none() && args.memory.shares_automatically(&settings.memory) {
        let mut devices = environment.job_devices();
        devices.retain(|device| matches!(device, DeviceChoice::Cuda(_)));
        form.options.memory.devices = NonZeroU32::new(devices.len() as u32);
    }
    let lora_index = match &there {
        Some(there) => LoraIndex::from(there.info.loras.clone()),
        None => LoraIndex::new(&environment.paths, settings),
    };
    for lora in &mut form.loras {
        find_named(lora, &lora_index, &spec)?;
    }
    let loras: Vec<LoraChoice> = form.acting_loras().map(LoraChoice::from).collect();
    let spec = match &there {
        Some(_) => spec,
        None => fitting::model_with(&spec, &loras)?,
    };
    for settings in form.inputs.controls.iter_mut().map(|it| &mut it.settings) {
        if let Some(network) = &mut settings.network {
            let found = control_named(
                &network.to_string_lossy(),
                &environment.paths,
                environment.settings(),
            );
            *network = found.map_err(|err| {
                JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(advice_for(&err))
            })?;
        }
    }
    let masks = environment.paths.data.join("masks");
    let enlarged = args
        .outpaint
        .map(|wanted| outpaint::extend(&mut form, wanted, &spec, &masks));
    let enlarged = enlarged.transpose()?.flatten();
    // Components chosen for the one model do not apply to the others.
    let others = |name: &str| {
        if name == wanted {
            return Ok(spec.clone());
        }
        if let Some(there) = &there {
            return there.open(name).map_err(|err| err.summary);
        }
        let opened = catalog.open_with(name, &ComponentOverrides::default());
        opened.map_err(|err| err.to_string())
    };
    let made = jobs_of(&form, &spec, &others).map_err(|errors| invalid(&errors))?;
    let wildcards = settings.wildcard_folders(&environment.paths);
    let (companions, unused) = args.companions().of_model(&spec.files);
    let notices: Vec<FormNotice> = unused
        .into_iter()
        .map(|field| FormNotice {
            field,
            message: format!("--{field} is not used: {} has no such component", spec.name),
        })
        .chain(enlarged)
        .collect();
    let grids = made.grids.into_iter();
    let grids = grids
        .filter_map(|grid| GridRecord::begin(grid, made.jobs.iter().map(|job| &job.request)))
        .map(|mut record| {
            if record.request.model == spec.id {
                record.request.companions = companions.clone();
            }
            settle_paths(&mut record.request)?;
            let sheet = sheet_path(args.out.as_deref(), &record)?;
            Ok((record, sheet))
        })
        .collect::<Result<Vec<_>, JobError>>()?;
    let is_single = made.jobs.len() == 1;
    let jobs = made.jobs.into_iter().enumerate().map(|(index, mut job)| {
        let request = &mut job.request;
        let expanded = match &there {
            Some(_) => request.expand_prompts(&wildcards),
            None => request.settle_prompts(&wildcards, &lora_index),
        };
        let expanded = expanded.map_err(|errors| invalid(&errors))?;
        // As requested, numbered if there are several; otherwise named by the prompt, and numbered by the worker.
        if args.out.is_none() {
            let slug = naming::slug(&request.prompt);
            let extension = settings.extension(form.makes_image(&spec));
            request.out = format!("{slug}_{}.{extension}", request.seed).into();
            request.is_out_automatic = true;
        } else if !is_single {
            request.out = numbered_path(&form.out, index + 1);
        }
        if request.model == spec.id {
            request.companions = companions.clone();
        }
        settle_paths(request)?;
        let said = notices.iter().cloned().chain(expanded);
        job.notices.splice(0..0, said);
        Ok(job)
    });
    let jobs = jobs.collect::<Result<_, JobError>>()?;
    Ok(RequestedJobs { jobs, grids })
}

/// Models of another computer.
struct ModelsThere<'a> {
    host: &'a str,
    info: ComputerInfo,
}

impl<'a> ModelsThere<'a> {
    fn find(host: &'a str) -> Result<Self, JobError> {
        if let Some(problem) = ComputerSettings::host_problem(host) {
            return Err(JobError::invalid(format!("--on: {problem}")));
        }
        let info = check(host, ATTEMPTS)?;
        Ok(Self { host, info })
    }

    /// The model of this id or name there.
    fn open(&self, wanted: &str) -> Result<ModelSpec, JobError> {
        let mut models = self.info.models.iter();
        let found = models.find(|spec| spec.id == wanted || spec.name == wanted);
        let spec = found.map(|spec| spec.clone().on(self.host));
        spec.ok_or_else(|| {
            let ids = self.info.models.iter().map(|spec| spec.id.as_str());
            let ids: Vec<&str> = ids.collect();
            let what = format!("there is no model {wanted:?} on {}", self.host);
            let err = JobError::new(JobErrorKind::BadModel, what);
            err.advise(format!("It has: {}", ids.join(", ")))
        })
    }
}

/// Gives a LoRA that is no file here the file of that name in the folders of LoRAs.
fn find_named(lora: &mut ChosenLora, index: &LoraIndex, spec: &ModelSpec) -> Result<(), JobError> {
    if lora.path.is_absolute() || lora.path.exists() {
        return Ok(());
    }
    let name = lora.path.to_string_lossy();
    let fits = fitting::fitting_test(spec.family, &spec.files);
    let found = index.file_named(name.trim_start_matches("./"), &fits);
    lora.path = found
        .map_err(|reason| JobError::new(JobErrorKind::BadModel, format!("--lora: {reason}")))?;
    Ok(())
}

/// Beside the results, and named as they are.
fn sheet_path(out: Option<&Path>, record: &GridRecord) -> Result<PathBuf, JobError> {
    let name = match out {
        Some(out) => {
            let stem = out.file_stem().unwrap_or_default().to_string_lossy();
            out.with_file_name(format!("{stem}_grid.png"))
        }
        None => PathBuf::from(format!("{}.png", record.stem())),
    };
    std::path::absolute(&name)
        .map_err(|err| JobError::disk("the current folder is not known".to_owned(), &err))
}

/// The job continues when its caller's folder is gone, and its metadata names files from anywhere.
pub(super) fn settle_paths(request: &mut GenerateRequest) -> Result<(), JobError> {
    for path in request.paths_mut() {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
        if path.to_str().is_none() {
            // Requests travel as JSON, which has no other texts.
            let what = format!("the path is not valid UTF-8: {}", path.display());
            return Err(JobError::invalid(what));
        }
    }
    Ok(())
}

/// All that is wrong, in one sentence each.
pub(super) fn invalid(errors: &[FieldError]) -> JobError {
    let sentences: Vec<String> = errors
        .iter()
        .map(|err| format!("--{}: {}", err.field, err.message))
        .collect();
    JobError::invalid(sentences.join("; "))
}
