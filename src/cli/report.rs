//! `safelight report`: a page and a file on this machine, or two of them side by side.
//!
//! [`crate::report`] measures.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use safelight_core::files::write_atomically;
use safelight_core::job::{CancelToken, DeviceChoice, JobError, JobErrorKind};
use serde_json::json;

use super::generate::{CANCELLED, progress_bar, stop_on_signal};
use super::{CliEnvironment, out};
use crate::report::compare::{self, CompareVerdict, FigurePair, ReportFigures, num_worse};
use crate::report::page;
use crate::report::{LIMIT, MachineReport, ReportOptions, ReportPath, ReportProgress, make};

/// Measure this computer for at most ten minutes and write an HTML page and a JSON file; nothing is sent
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Folder for page and file, or with --compare the page's file [default: the app's own folder for reports]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Time limit in minutes
    #[arg(long, default_value_t = LIMIT.as_secs() / 60, value_parser = clap::value_parser!(u64).range(1..=60))]
    minutes: u64,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Open the page when it is done
    #[arg(long, conflicts_with = "json")]
    open: bool,
    /// Print JSON: paths of page and file, or the figures of two reports
    #[arg(long)]
    json: bool,
    /// Compare two reports instead of measuring
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"], conflicts_with_all = ["minutes", "device", "open"])]
    compare: Option<Vec<PathBuf>>,
}

/// Runs the command: 0, also where something that was measured is bad; 5 when it was stopped.
pub fn run(args: &ReportArgs, environment: &CliEnvironment) -> ExitCode {
    let done = match args.compare.as_deref() {
        Some([first, second]) => side_by_side(first, second, args),
        _ => measure(args, environment),
    };
    done.unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn measure(args: &ReportArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    let folder = args.out.clone();
    let path = ReportPath::new_in(&folder.unwrap_or_else(|| environment.paths.reports()));
    let settings = environment.settings().clone();
    let options = ReportOptions {
        paths: environment.paths.clone(),
        device: args
            .device
            .unwrap_or_else(|| settings.runtime.first_device()),
        settings,
        limit: Duration::from_mins(args.minutes),
    };
    let cancel = CancelToken::default();
    stop_on_signal(&cancel)?;
    // Before minutes of work: a folder that cannot be written to is known now.
    MachineReport::default().write(&path)?;
    let bar = bar();
    let tell = |progress: ReportProgress| {
        bar.set_position((progress.part * 1000.0) as u64);
        if bar.is_hidden() && bar.message() != progress.what {
            // If standard error is closed, the files are still written.
            writeln!(std::io::stderr(), "{}", progress.what).ok();
        }
        bar.set_message(progress.what);
    };
    let mut failed = None;
    let report = make(&options, &cancel, &tell, &mut |so_far| {
        failed = so_far.write(&path).err().or_else(|| failed.take());
    });
    bar.finish_and_clear();
    report.write(&path)?;
    let code = if cancel.is_cancelled() { CANCELLED } else { 0 };
    let object = json!({"page": path.page, "file": path.file, "incomplete": report.incomplete});
    let printed = out::print_either(args.json, &object, &summary(&report, &path), code);
    if args.open {
        open(&path.page)?;
    }
    Ok(printed)
}

/// A bar on a terminal; elsewhere it is hidden and only keeps what is measured.
fn bar() -> ProgressBar {
    let is_seen = std::io::stderr().is_terminal();
    let bar = progress_bar(is_seen, "{elapsed_precise} [{bar:32}] {msg}");
    bar.set_length(1000);
    if is_seen {
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    bar
}

/// Text for people; the page has the rest.
fn summary(report: &MachineReport, path: &ReportPath) -> String {
    let mut text = format!("{}\n", report.device);
    if let Some(why) = &report.incomplete {
        writeln!(text, "Incomplete: {why}").ok();
    }
    for section in &report.sections {
        writeln!(text, "\n{}", section.title).ok();
        for problem in &section.problems {
            writeln!(text, "  ! {problem}").ok();
        }
        let rows = section.rows.iter().map(|row| {
            let mark = if row.is_bad { "!" } else { "" };
            vec![
                mark.to_owned(),
                row.label.clone(),
                row.figures_text(),
                row.note.clone(),
            ]
        });
        text.push_str(&out::table(&rows.collect::<Vec<_>>()));
        for left_out in &section.left_out {
            writeln!(text, "  left out: {left_out}").ok();
        }
    }
    // Writing to a string cannot fail.
    writeln!(
        text,
        "\nPage: {}\nFile: {}\nNothing was sent anywhere. Names, folders and serial numbers are not in them: read them before you give them to anybody.",
        path.page.display(),
        path.file.display()
    )
    .ok();
    text
}

/// In the user's own program for pages.
fn open(page: &Path) -> Result<(), JobError> {
    let started = Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.map(drop).map_err(|err| {
        let what = format!("the page cannot be opened: xdg-open: {err}");
        JobError::new(JobErrorKind::Internal, what)
    })
}

fn side_by_side(first: &Path, second: &Path, args: &ReportArgs) -> Result<ExitCode, JobError> {
    let (before, after) = (ReportFigures::read(first)?, ReportFigures::read(second)?);
    let pairs = compare::compare(&before, &after);
    if let Some(path) = &args.out {
        let page = page::comparison(&before, &after, &pairs);
        write_atomically(path, page.as_bytes()).map_err(|err| {
            let what = format!("the page cannot be written: {err}: {}", path.display());
            JobError::new(JobErrorKind::Disk, what)
        })?;
    }
    Ok(print_comparison((&before, &after), &pairs, args.json, 0))
}

/// Two measurements as a table for people, or as one JSON object. `code`: of the process.
pub fn print_comparison(
    (before, after): (&ReportFigures, &ReportFigures),
    pairs: &[FigurePair],
    is_json: bool,
    code: u8,
) -> ExitCode {
    let rows = pairs.iter().map(|pair| {
        json!({
            "what": pair.label, "unit": pair.unit, "first": pair.before, "second": pair.after,
            "ratio": pair.ratio(), "is_worse": pair.verdict == CompareVerdict::Worse,
        })
    });
    let object = json!({"worse": num_worse(pairs), "figures": rows.collect::<Vec<_>>()});
    let heading = ["", "first", "second", "ratio", ""].map(str::to_owned);
    let rows = std::iter::once(heading).chain(pairs.iter().map(FigurePair::cells));
    let rows: Vec<_> = rows.map(|cells| cells.to_vec()).collect();
    let text = format!(
        "First:  {}\nSecond: {}\n{}{}\n",
        before.device,
        after.device,
        out::table(&rows),
        compare::summary(pairs)
    );
    out::print_either(is_json, &object, &text, code)
}
