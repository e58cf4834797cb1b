//! `safelight generate`: one job from the command line, on the same path as the window's.

mod args;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use safelight_core::catalog::{Catalog, EMBEDDED_MODEL};
use safelight_core::job::{
    CancelToken, FieldError, JobError, JobErrorKind, JobId, JobOutcome, JobUpdate, Validated,
};

pub use args::GenerateArgs;
pub(super) use report::explain;
use report::{HumanReport, JsonReport, Report};

use super::Surroundings;
use crate::worker::{self, WorkerCommand};

/// Exit code of a cancelled job.
const CANCELLED: u8 = 5;
/// How long after the first interrupt others belong to it.
const ONE_PRESS: Duration = Duration::from_millis(200);

/// Runs one job to its end.
pub fn run(args: GenerateArgs, surroundings: &Surroundings) -> ExitCode {
    let json = args.json;
    match generate(args, surroundings) {
        Ok(code) => ExitCode::from(code),
        Err(err) => {
            if json {
                JsonReport::failed(&err);
            }
            explain(&err);
            ExitCode::from(err.kind.exit_code())
        }
    }
}

/// The error event, as the other commands have an error object.
pub(super) fn report_misunderstood(err: &JobError) {
    JsonReport::failed(err);
}

/// The exit code of a job that began; the error of one that could not.
fn generate(args: GenerateArgs, surroundings: &Surroundings) -> Result<u8, JobError> {
    let (args, warnings) = args.with_carried()?;
    let device = args
        .device
        .unwrap_or_else(|| surroundings.settings().runtime.device);
    let Validated { request, notices } = request_of(&args, surroundings)?;
    let cancel = CancelToken::default();
    cancel_on_interrupt(&cancel)?;

    let (handle, thread) = worker::spawn(
        surroundings.worker_options(),
        surroundings.launcher(),
        Box::new(|| {}),
    )
    .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    let command = WorkerCommand::Generate {
        id: JobId::next(),
        request: Box::new(request),
        device,
        cancel,
    };
    if handle.try_send(command).is_err() {
        return Err(JobError::new(
            JobErrorKind::Internal,
            "the worker does not take jobs",
        ));
    }

    let mut report: Box<dyn Report> = if args.json {
        Box::<JsonReport>::default()
    } else {
        Box::new(HumanReport::new())
    };
    for notice in &notices {
        report.notice(notice);
    }
    for text in surroundings.oddities().into_iter().chain(warnings) {
        report.update(&JobUpdate::Warning(text));
    }
    let outcome = loop {
        let Some(event) = handle.wait() else {
            return Err(JobError::new(
                JobErrorKind::Internal,
                "the worker ended without a word",
            ));
        };
        match event.update {
            JobUpdate::Ended(outcome) => break outcome,
            update => report.update(&update),
        }
    };
    report.end(&outcome);
    drop(handle);
    thread.join().ok();
    Ok(match outcome {
        JobOutcome::Finished(_) => 0,
        JobOutcome::Cancelled => CANCELLED,
        JobOutcome::Failed(err) => err.kind.exit_code(),
    })
}

fn request_of(args: &GenerateArgs, surroundings: &Surroundings) -> Result<Validated, JobError> {
    let catalog = Catalog::load(&surroundings.paths, surroundings.settings());
    let wanted = args.model.as_deref().unwrap_or(EMBEDDED_MODEL);
    let spec = catalog
        .open_with(wanted, &args.companions())
        .map_err(|err| JobError::from_error(JobErrorKind::BadModel, &err).advise(err.advice()))?;
    let seed = args.seed.unwrap_or_else(super::random_seed);
    let form = args.form(seed, surroundings.settings())?;
    let mut checked = form.validate(&spec).map_err(|errors| invalid(&errors))?;
    let request = &mut checked.request;
    request.companions = args.companions();
    // The job goes on when its caller's folder is gone, and its metadata names files from anywhere.
    for path in [
        Some(&mut request.out),
        request.image.as_mut(),
        request.last_image.as_mut(),
        request.extend.as_mut(),
        request.capture.as_mut(),
        request.companions.vae.as_mut(),
        request.companions.text_encoder.as_mut(),
        request.companions.image_encoder.as_mut(),
        request.companions.tokenizer.as_mut(),
    ]
    .into_iter()
    .flatten()
    {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
        if path.to_str().is_none() {
            // Requests travel as JSON, which has no other texts.
            let what = format!("expected a path in UTF-8, found {}", path.display());
            return Err(JobError::new(JobErrorKind::InvalidRequest, what));
        }
    }
    Ok(checked)
}

/// All that is wrong, in one sentence each.
fn invalid(errors: &[FieldError]) -> JobError {
    let sentences: Vec<String> = errors
        .iter()
        .map(|err| format!("--{}: {}", err.field, err.message))
        .collect();
    JobError::new(JobErrorKind::InvalidRequest, sentences.join("; "))
}

/// The first interrupt cancels; a second one does not wait for anything.
fn cancel_on_interrupt(cancel: &CancelToken) -> Result<(), JobError> {
    let cancel = cancel.clone();
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || match first {
        None => {
            first = Some(Instant::now());
            cancel.cancel();
        }
        // Two signals of one key press (to the group and to the process) count once.
        Some(first) if first.elapsed() < ONE_PRESS => {}
        Some(_) => {
            #[expect(
                clippy::exit,
                reason = "the user insists; the engine ends with its input"
            )]
            std::process::exit(i32::from(CANCELLED));
        }
    })
    .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))
}
