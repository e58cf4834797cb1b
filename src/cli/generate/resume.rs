//! `safelight resume`: resumes jobs that failed, or whose program died, after their last finished stage.
//!
//! Lists resumable jobs, and runs one of them like `generate`. The worker removes old folders.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use safelight_core::job::{DeviceChoice, JobError, JobFolder, JobRequest};
use safelight_core::media::VideoFormat;
use serde_json::{Value, json};

use super::jobs::settle_paths;
use super::report::{ended, print_event, say};
use super::{CliJobs, work};
use crate::cli::{CliEnvironment, out};
use crate::worker::{UnfinishedJob, left_in, not_held};

/// Resume a failed or interrupted job, or list those jobs
#[derive(Args, Debug)]
pub struct ResumeArgs {
    /// Job number or folder [default: list the jobs that can be resumed]
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    /// auto, cpu or cuda:N (also for ROCm) [default: the setting]
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// Save the result here instead of the job's own path
    #[arg(long, value_name = "FILE", requires = "job")]
    pub out: Option<PathBuf>,
    /// Discard the job and delete its files
    #[arg(long, requires = "job", conflicts_with_all = ["out", "device"])]
    pub discard: bool,
    /// Print JSON lines only; a single object for the list
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &ResumeArgs, environment: &CliEnvironment) -> ExitCode {
    let jobs = environment.paths.jobs();
    let Some(job) = &args.job else {
        let left = left_in(&jobs);
        let all: Vec<Value> = left.iter().map(as_json).collect();
        return out::print_either(args.json, &json!({"jobs": all}), &as_text(&left), 0);
    };
    ended(resume(job, args, &jobs, environment), args.json)
}

fn resume(
    job: &str,
    args: &ResumeArgs,
    jobs: &Path,
    environment: &CliEnvironment,
) -> Result<u8, JobError> {
    let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
    let folder = if is_number {
        jobs.join(job)
    } else {
        absolute(Path::new(job))
    };
    let here = JobFolder::open(&folder);
    let request = request_in(&here)?;
    if args.discard {
        return discard(&here, args.json);
    }
    let request = match &args.out {
        Some(out) => moved(request, out, &here)?,
        None => request,
    };
    let orders = CliJobs::single(request, Some(folder));
    work(orders, args.device, args.json, environment)
}

fn request_in(folder: &JobFolder) -> Result<JobRequest, JobError> {
    let unread = |err: io::Error| {
        let what = format!(
            "this job cannot be resumed ({err}): {}",
            folder.path().display()
        );
        JobError::invalid(what).advise("`safelight resume` lists the jobs that can be resumed")
    };
    folder.request().map_err(unread)
}

/// The job in a folder with another file for its result, in the folder too.
fn moved(mut request: JobRequest, out: &Path, folder: &JobFolder) -> Result<JobRequest, JobError> {
    let _held = folder.hold().map_err(|err| not_held(folder, &err))?;
    match &mut request {
        JobRequest::Generate(request) => {
            request.out = out.to_owned();
            request.is_out_automatic = false;
            settle_paths(request)?;
        }
        JobRequest::Finish(request) => {
            // The finished frames are encoded for a file of that kind.
            if VideoFormat::from_path(out).ok() != VideoFormat::from_path(&request.out).ok() {
                let what = format!("this job can only be saved as .{}", ending(&request.out));
                return Err(JobError::invalid(what));
            }
            request.out = absolute(out);
            request.is_out_automatic = false;
        }
    }
    folder
        .keep_request(&request)
        .map_err(|err| JobError::disk("the job's folder cannot be written to".to_owned(), &err))?;
    Ok(request)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn ending(path: &Path) -> String {
    path.extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Removes what was kept of a job that no process works on.
fn discard(folder: &JobFolder, is_json: bool) -> Result<u8, JobError> {
    let path = folder.path().display();
    let _held = folder.hold().map_err(|err| not_held(folder, &err))?;
    folder
        .remove()
        .map_err(|err| JobError::disk(format!("the job could not be removed ({path})"), &err))?;
    if is_json {
        print_event(&json!({"event": "discarded", "folder": folder.path()}));
    } else {
        say(&format!("Discarded: {path}"));
    }
    Ok(0)
}

fn as_json(left: &UnfinishedJob) -> Value {
    let mut fields = json!({
        "job": left.id.to_string(),
        "folder": left.folder,
        "out": left.request.out(),
    });
    match &left.request {
        JobRequest::Generate(request) => {
            fields["model"] = json!(request.model);
            fields["prompt"] = json!(request.prompt);
            fields["finished"] = json!(left.num_done);
            fields["stages"] = json!(left.num_all);
        }
        JobRequest::Finish(request) => {
            fields["source"] = json!(request.source);
            fields["frames"] = json!(left.num_done);
            fields["all_frames"] = json!(left.num_all);
        }
    }
    fields
}

fn as_text(left: &[UnfinishedJob]) -> String {
    if left.is_empty() {
        return "There is no job to resume\n".to_owned();
    }
    let mut text = String::from("Jobs that `safelight resume NUMBER` can continue\n");
    let rows = left.iter().map(|left| {
        let title = match &left.request {
            JobRequest::Generate(request) => request.prompt.chars().take(40).collect(),
            JobRequest::Finish(request) => request.title(),
        };
        vec![
            left.id.to_string(),
            left.progress(),
            left.request.out().display().to_string(),
            title.replace('\n', " "),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    // Writing to a string cannot fail.
    write!(text, "{}", out::table(&rows)).ok();
    text
}
