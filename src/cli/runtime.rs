//! `safelight runtime`: installed libtorch runtimes, their self-tests, and the choice for jobs.
//!
//! [`crate::runtimes`] examines them.

mod install;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use safelight_core::job::{CancelToken, JobError};
use safelight_core::units::size_text;
use serde_json::{Value, json};

use super::{CliEnvironment, out};
use crate::runtimes::{
    self, InstalledRuntime, RuntimeAdvice, RuntimeOverview, choose, named, remove,
};

/// List, check, choose and remove libtorch runtimes
#[derive(Args, Debug)]
pub struct RuntimeArgs {
    #[command(subcommand)]
    what: RuntimeAction,
}

#[derive(Subcommand, Debug)]
enum RuntimeAction {
    /// List libtorch runtimes, GPUs, and the runtimes that fit them
    List(ListArgs),
    /// Download a libtorch for this computer's GPU, check it and use it; the previous one is kept
    Install(install::InstallArgs),
    /// Run the self-test of a libtorch in a separate process
    Check(CheckArgs),
    /// Use this libtorch for jobs from now on, after its self-test
    Use(UseArgs),
    /// Delete a libtorch from Safelight's own folder
    Remove(ChangeArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct CheckArgs {
    /// Runtime id from `safelight runtime list`, or a folder [default: the one in use]
    id: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct UseArgs {
    /// Runtime id from `safelight runtime list`, or a folder
    #[arg(required_unless_present = "previous")]
    id: Option<String>,
    /// Use the previous runtime again
    #[arg(long, conflicts_with = "id")]
    previous: bool,
    /// Use it even if its self-test fails
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ChangeArgs {
    /// Runtime id from `safelight runtime list`, or a folder
    id: String,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Behind what was changed.
const GO_BACK: &str = "; `safelight runtime use --previous` goes back";

pub fn run(args: &RuntimeArgs, environment: &CliEnvironment) -> ExitCode {
    let (result, is_json) = match &args.what {
        RuntimeAction::List(args) => return list(args, environment),
        RuntimeAction::Install(args) => return install::run(args, environment),
        RuntimeAction::Check(args) => (check(args, environment), args.json),
        RuntimeAction::Use(args) => (use_one(args, environment), args.json),
        RuntimeAction::Remove(args) => (remove_one(args, environment), args.json),
    };
    result.unwrap_or_else(|err| out::print_job_error(&err, is_json))
}

fn here(environment: &CliEnvironment) -> Vec<InstalledRuntime> {
    let around = runtimes::RuntimeSearch::of_this_user();
    runtimes::all(&environment.paths, environment.settings(), &around)
}

fn list(args: &ListArgs, environment: &CliEnvironment) -> ExitCode {
    let overview = RuntimeOverview::of_this_user(&environment.paths, environment.settings());
    out::print_either(args.json, &as_json(&overview), &as_text(&overview), 0)
}

fn check(args: &CheckArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    let here = here(environment);
    let found = match &args.id {
        Some(id) => named(id, &here)?,
        None => match here.into_iter().find(|it| it.is_used) {
            Some(used) => used,
            None => named("", &[])?,
        },
    };
    let device = tried(&found, environment)?;
    let text = format!("{} computes right: {device}\n", found.id);
    let object = json!({"id": found.id, "device": device});
    Ok(out::print_either(args.json, &object, &text, 0))
}

/// The engine's words on its device.
fn tried(found: &InstalledRuntime, environment: &CliEnvironment) -> Result<String, JobError> {
    let settings = &environment.settings().runtime;
    // An interrupt ends this program, and the process that tries with it.
    let cancel = CancelToken::default();
    let checked = runtimes::tried(found, &environment.paths, settings, &cancel)?;
    Ok(checked.map_or_else(String::new, |checked| checked.device))
}

fn use_one(args: &UseArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    let here = here(environment);
    let found = match &args.id {
        Some(id) => named(id, &here)?,
        None => runtimes::previous(&here)?,
    };
    if let Err(err) = tried(&found, environment)
        && !args.yes
    {
        let advice = "Add --yes to use it all the same";
        return Err(JobError::new(err.kind, err.summary).advise(advice));
    }
    choose(&found, &environment.paths)?;
    let before = here.iter().find(|it| it.is_used && it.id != found.id);
    let before = before.map(|it| it.id.as_str());
    let back = if before.is_some() { GO_BACK } else { "" };
    let text = format!("jobs use {} from now on{back}\n", found.id);
    let object = json!({"id": found.id, "before": before});
    Ok(out::print_either(args.json, &object, &text, 0))
}

fn remove_one(args: &ChangeArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    let found = named(&args.id, &here(environment))?;
    let bytes = found.bytes();
    let question = format!("Delete {} ({})?", found.id, size_text(bytes));
    // A refused removal needs no confirmation.
    let is_asked = found.can_be_removed() && !args.yes;
    if is_asked && !out::ask(&question, "delete", args.json)? {
        return Ok(out::print("not deleted\n", 0));
    }
    remove(&found)?;
    let text = format!("{} is deleted, {} freed\n", found.id, size_text(bytes));
    let object = json!({"id": found.id, "removed_bytes": bytes});
    Ok(out::print_either(args.json, &object, &text, 0))
}

fn as_json(overview: &RuntimeOverview) -> Value {
    let runtimes = overview.here.iter().map(|row| {
        let runtime = &row.found.runtime;
        json!({
            "id": row.found.id,
            "kind": row.kind.name(),
            "version": row.version,
            "targets": row.targets,
            "bytes": row.bytes,
            "device": row.device,
            "folder": runtime.folder,
            "library_folders": runtime.folders().collect::<Vec<_>>(),
            "source": runtime.source,
            "is_used": row.found.is_used,
            "is_previous": row.found.is_previous(),
            "can_be_removed": row.found.can_be_removed(),
            "concerns": row.concerns,
        })
    });
    let advice = match &overview.advice {
        RuntimeAdvice::NoGpu => json!({"what": "no_gpu"}),
        RuntimeAdvice::CpuChosen => json!({"what": "cpu_chosen"}),
        RuntimeAdvice::Served { gpu } => json!({"what": "served", "gpu": gpu}),
        RuntimeAdvice::Use { gpu, id } => json!({"what": "use", "gpu": gpu, "id": id}),
        RuntimeAdvice::Get { gpu, build } => json!({
            "what": "get",
            "gpu": gpu,
            "id": build.id,
            "name": build.name,
            "version": build.version,
            "download_bytes": build.download_mb * 1_000_000,
            "licences": build.licences,
            "command": format!("safelight runtime install {}", build.id),
        }),
        RuntimeAdvice::Repair { gpu, refusal } => {
            json!({"what": "repair", "gpu": gpu, "refusal": refusal})
        }
    };
    json!({
        "gpus": overview.machine.gpus,
        "runtimes": runtimes.collect::<Vec<_>>(),
        "advice": advice,
        "table_error": overview.table_error.as_ref().map(ToString::to_string),
    })
}

fn as_text(overview: &RuntimeOverview) -> String {
    let mut text = String::from("GPUs\n");
    let rows = overview.machine.gpus.iter().map(|gpu| {
        let note = if gpu.is_display_only {
            "draws the desktop; jobs use the other one"
        } else {
            ""
        };
        vec![gpu.name.clone(), gpu.pci.clone(), note.to_owned()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    text.push_str(if rows.is_empty() { "  none\n" } else { "" });
    text.push_str(&out::table(&rows));
    text.push_str("\nlibtorch on this machine (* in use)\n");
    let rows = overview.here.iter().map(|row| {
        let mark = if row.found.is_used { "* " } else { "  " };
        let version = row.version.as_deref().unwrap_or("version unknown");
        vec![
            format!("{mark}{}", row.found.id),
            row.kind.name().to_owned(),
            version.to_owned(),
            row.targets.join(" "),
            size_text(row.bytes),
            row.found.runtime.folder.display().to_string(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    text.push_str(if rows.is_empty() { "  none\n" } else { "" });
    text.push_str(&out::table(&rows));
    for row in &overview.here {
        let device = row.device.as_ref().map(|it| format!("computed on {it}"));
        let before = row.found.is_previous();
        let before = before.then(|| "used before".to_owned());
        for note in row.concerns.iter().chain(&device).chain(&before) {
            // Writing to a string cannot fail.
            writeln!(text, "  {}: {note}", row.found.id).ok();
        }
    }
    let advice = match &overview.advice {
        RuntimeAdvice::NoGpu => "No GPU was found: jobs run on the CPU".to_owned(),
        RuntimeAdvice::CpuChosen => {
            "Jobs run on the CPU, as the setting runtime.device says".to_owned()
        }
        RuntimeAdvice::Served { gpu } => format!(
            "The libtorch in use is for {}; `safelight runtime check` tries it",
            gpu.name
        ),
        RuntimeAdvice::Use { gpu, id } => {
            let name = &gpu.name;
            format!("{id} serves {name}: `safelight runtime use {id}`")
        }
        RuntimeAdvice::Get { gpu, build } => format!(
            "{} serves {} (about {} to download): `safelight runtime install {}`",
            build.name,
            gpu.name,
            size_text(build.download_mb * 1_000_000),
            build.id
        ),
        RuntimeAdvice::Repair { refusal, .. } => {
            let mut lines = format!(
                "Jobs run on the CPU: {}\n  -> {}",
                refusal.what, refusal.advice
            );
            if !refusal.command.is_empty() {
                write!(lines, "\n   $ {}", refusal.command).ok();
            }
            lines
        }
    };
    write!(text, "\n{advice}\n").ok();
    if let Some(err) = &overview.table_error {
        writeln!(text, "{err}").ok();
    }
    text
}
