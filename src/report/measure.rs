//! Sections of a report. Processes of `safelight` and `safelight-engine` measure under time limits; a fault is a
//! sentence in its section, and the next section begins.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use safelight_core::catalog::EMBEDDED_MODEL;
use safelight_core::files::make_private_folder;
use safelight_core::job::{CancelToken, DeviceChoice};
use safelight_core::measured::{CaseKind, CaseLine};
use safelight_core::protocol::EngineReport;
use safelight_core::sanitize::sentence;
use safelight_core::units::{in_gib, rough_text};
use serde::Deserialize as _;
use serde_json::Value;

use super::machine;
use super::rows::{self, fact};
use super::{MachineReport, ReportFigure, ReportOptions, ReportProgress, ReportRow, ReportSection};
use crate::child::{self, ChildExit};
use crate::doctor;
use crate::telemetry::time_limit::within;
use crate::telemetry::{SystemRoots, host};
use crate::worker::{ProcessLauncher, probe_engine};

/// Kept for writing the report.
const MARGIN: Duration = Duration::from_secs(5);
/// The doctor and an engine's start take this long where a driver hangs.
const MACHINE_LIMIT: Duration = Duration::from_secs(90);
const SECTION_LIMIT: Duration = Duration::from_mins(2);
const BATCH: usize = 25;

/// Sections: id, title, explanation, commands of the engine whose lines are the rows.
pub(super) const STEPS: [[&str; 4]; 5] = [
    ["speed", "Single operations", "", "probe-speed"],
    [
        "loading",
        "Loading weights",
        "From files of 512 MiB in the cache folder, compared byte for byte. The CPU maps them.",
        "bench load --runs 3 --mib 512",
    ],
    [
        "parity",
        "Correctness",
        "Small networks of every family with random weights: the CPU against shipped values, the device against the CPU. Distances are relative (L2).",
        "try; bench parity",
    ],
    ["jobs", "Fifty small jobs", "Of the bundled model.", ""],
    [
        "networks",
        "Networks of full size",
        "Random weights, each network in a separate process. Streaming is under a cap of 4 GiB, half of it kept free.",
        "",
    ],
];
/// Share of the progress of each section but the last and longest.
const SHARE: f32 = 0.1;

/// A report that is being made.
pub(super) struct ReportRun<'a> {
    pub(super) report: MachineReport,
    options: &'a ReportOptions,
    cancel: &'a CancelToken,
    on_progress: &'a dyn Fn(ReportProgress),
    launcher: ProcessLauncher,
    engine: Option<EngineReport>,
    /// Temporary folder in the cache.
    scratch: PathBuf,
    deadline: Instant,
}

impl Drop for ReportRun<'_> {
    fn drop(&mut self) {
        // Anything left is in the cache, which may be deleted at any time.
        std::fs::remove_dir_all(&self.scratch).ok();
    }
}

impl<'a> ReportRun<'a> {
    pub(super) fn begin(
        options: &'a ReportOptions,
        cancel: &'a CancelToken,
        on_progress: &'a dyn Fn(ReportProgress),
    ) -> Self {
        let name = format!("report-{}", std::process::id());
        let scratch = options.paths.cache.join(name);
        make_private_folder(&scratch).ok(); // A section that needs it reports its absence.
        Self {
            report: MachineReport::default(),
            options,
            cancel,
            on_progress,
            launcher: ProcessLauncher::of_user(&options.paths),
            engine: None,
            scratch,
            deadline: Instant::now() + options.limit.saturating_sub(MARGIN),
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn progress(&self, part: f32, what: &str) {
        let what = what.to_owned();
        (self.on_progress)(ReportProgress { part, what });
    }

    fn gpu(&self) -> Option<&EngineReport> {
        let engine = self.engine.as_ref();
        engine.filter(|engine| engine.device != DeviceChoice::Cpu)
    }

    /// Adds the facts of the machine and the doctor's checks, and starts an engine once.
    pub(super) fn machine(&mut self) {
        self.progress(0.0, "Looking at this machine");
        let (paths, device) = (self.options.paths.clone(), self.options.device);
        let look = move || {
            let mut launcher = ProcessLauncher::of_user(&paths);
            let engine = probe_engine(&mut launcher, device, MACHINE_LIMIT);
            let mut checks = Vec::new();
            doctor::examine_this_machine(paths, launcher, false, &mut |check| {
                checks.push(rows::check(&check));
            });
            (engine.ok(), checks)
        };
        let facts = machine::facts(&SystemRoots::of_this_machine());
        let facts = ReportSection::new("machine", "This machine", facts);
        let mut doctor = ReportSection::new("doctor", "Doctor", Vec::new());
        if let Some((engine, checks)) =
            within(MACHINE_LIMIT.min(self.left()), "report-machine", look)
        {
            doctor.rows = checks;
            let line = engine.as_ref().map(|engine| engine.line.clone());
            self.report.device = line.unwrap_or_default();
            self.engine = engine;
        } else {
            let problem = "The drivers did not answer in time.";
            doctor.problems.push(problem.to_owned());
        }
        self.report.sections.extend([facts, doctor]);
    }

    /// Adds one section, empty but for a problem where there is no time or no engine for it.
    pub(super) fn step(&mut self, index: usize) {
        let [id, title, about, commands] = STEPS[index];
        self.progress(SHARE * (index + 1) as f32, title);
        let began = Instant::now();
        let mut section = ReportSection::new(id, title, Vec::new());
        section.about = about.to_owned();
        let measured = if self.engine.is_none() {
            Err("No engine could be started, so nothing is measured: see the doctor.".to_owned())
        } else if self.left() < Duration::from_secs(3) {
            Err("There was no time left for it.".to_owned())
        } else {
            match id {
                "jobs" => self.jobs(&mut section.rows),
                "networks" if self.gpu().is_none() => {
                    section.left_out.push("They need a GPU.".to_owned());
                    Ok(())
                }
                "networks" => self.networks(&mut section),
                _ => self.lines(commands, &mut section.rows),
            }
        };
        section.problems.extend(measured.err());
        section.secs = began.elapsed().as_secs_f64();
        self.report.sections.push(section);
    }

    /// Runs an engine with these arguments on the device, and passes on its JSON lines.
    fn engine(
        &mut self,
        arguments: &[&str],
        limit: Duration,
        on_line: &mut dyn FnMut(&Value),
    ) -> Result<(), String> {
        let command = self.launcher.command(self.options.device);
        let mut command = command.map_err(|err| format!("{}.", err.summary))?;
        command.args(arguments).env("TMPDIR", &self.scratch);
        self.child(command, limit, on_line)
    }

    fn child(
        &self,
        command: Command,
        limit: Duration,
        on_line: &mut dyn FnMut(&Value),
    ) -> Result<(), String> {
        let (mut has_lines, mut running) = (false, None);
        let mut on_text = |line: &str| {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                return;
            };
            has_lines = true;
            let name = line["probe"].as_str().or_else(|| line["trial"].as_str());
            running = name
                .filter(|_| rows::is_announcement(&line))
                .map(|name| name.replace('_', " "));
            on_line(&line);
        };
        let is_cancelled = || self.cancel.is_cancelled();
        let limit = limit.min(self.left());
        let ended = child::run(command, limit, &is_cancelled, &mut on_text);
        outcome(ended, has_lines).map_err(|problem| match running {
            Some(name) => format!("{name}: {problem}"),
            None => problem,
        })
    }

    fn lines(&mut self, commands: &str, rows: &mut Vec<ReportRow>) -> Result<(), String> {
        let device = self.options.device.to_string();
        let is_gpu = self.gpu().is_some();
        for command in commands.split("; ") {
            let arguments: Vec<&str> = command.split(' ').chain(["--device", &device]).collect();
            self.engine(&arguments, SECTION_LIMIT, &mut |line| {
                rows.extend(rows::from_line(line).map(|mut row| {
                    row.label = sentence(&row.label.replace('_', " "));
                    // Rates of mapping a file say nothing.
                    row.figures
                        .retain(|figure| is_gpu || figure.unit != "GiB/s");
                    row
                }));
            })?;
        }
        Ok(())
    }

    /// Two batches through `safelight generate`. Its data folder is a temporary one: statistics are about users' jobs.
    fn jobs(&self, rows: &mut Vec<ReportRow>) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|err| format!("{err}."))?;
        let device = self.options.device;
        for (label, frames, out) in [
            ("An image", "1", "job.png"),
            ("A video of 5 frames", "5", "job.webp"),
        ] {
            let line = format!(
                "generate --json --model {EMBEDDED_MODEL} --steps 2 --width 96 --height 64 --seed 1 --frames {frames} --batch {BATCH} --device {device} --prompt boat --out"
            );
            let mut command = Command::new(&program);
            command
                .args(line.split(' '))
                .arg(self.scratch.join(out))
                .env("XDG_DATA_HOME", self.scratch.join("data"));
            let (mut secs, mut faults) = (Vec::new(), Vec::new());
            let measured = self.child(command, SECTION_LIMIT, &mut |line| match line["event"]
                .as_str()
            {
                Some("finished") => secs.extend(line["secs"].as_f64()),
                Some("failed") => faults.extend(line["message"].as_str().map(str::to_owned)),
                Some("stage") if line["resumed"] == true => {
                    faults.push("an engine crashed".to_owned());
                }
                _ => {}
            });
            let first = secs.first().copied().unwrap_or_default();
            secs.sort_by(f64::total_cmp);
            let median = secs.get(secs.len() / 2).copied().unwrap_or_default();
            let num_missing = BATCH - secs.len().min(BATCH);
            rows.push(ReportRow {
                figures: vec![
                    ReportFigure::new("median", median, "s"),
                    ReportFigure::new("first", first, "s"),
                    ReportFigure::new("not finished", num_missing as f64, "jobs"),
                ],
                is_bad: !faults.is_empty() || num_missing > 0,
                ..fact(label, faults.join(", "))
            });
            measured?;
        }
        Ok(())
    }

    fn networks(&mut self, section: &mut ReportSection) -> Result<(), String> {
        let mut cases: Vec<CaseLine> = Vec::new();
        self.engine(&["bench", "list"], SECTION_LIMIT, &mut |line| {
            cases.extend(CaseLine::deserialize(line));
        })?;
        // Quick ones first.
        cases.sort_by(|a, b| a.tflop.total_cmp(&b.tflop));
        let device = self.options.device.to_string();
        for (index, case) in cases.iter().enumerate() {
            let before = SHARE * STEPS.len() as f32;
            let part = before + (1.0 - before) * index as f32 / cases.len() as f32;
            self.progress(part, &case.label);
            let (runs, limit) = match self.plan(case) {
                Ok(planned) => planned,
                Err(why) => {
                    section.left_out.push(format!("{}: {why}", case.label));
                    continue;
                }
            };
            let runs = runs.to_string();
            let mut arguments = vec!["bench", &case.family, &case.case];
            arguments.extend(["--device", &device, "--runs", &runs]);
            if case.kind == CaseKind::Streaming {
                arguments.extend(["--preserved", "2", "--cap", "4"]);
            }
            let rows = &mut section.rows;
            let measured = self.engine(&arguments, limit, &mut |line| {
                rows.extend(rows::from_line(line).map(|row| ReportRow {
                    label: row.label.replacen(&case.case, &case.label, 1),
                    ..row
                }));
            });
            if self.cancel.is_cancelled() {
                return measured;
            }
            let problem = measured.err();
            let problem = problem.map(|problem| format!("{}: {problem}", case.label));
            section.problems.extend(problem);
        }
        Ok(())
    }

    fn plan(&self, case: &CaseLine) -> Result<(u32, Duration), String> {
        let free = self.gpu().map_or(0, |engine| {
            engine.total_bytes.saturating_sub(engine.used_bytes)
        });
        let cap = self.options.settings.memory.cap_gib;
        plan(
            case,
            in_gib(free).min(cap.unwrap_or(f64::MAX)),
            in_gib(host::free_bytes(&self.scratch).unwrap_or(0)),
            self.report.figure("speed", "matrix_bf16", "rate"),
            self.left(),
        )
    }
}

/// Timed runs and time limit of a network of full size, or the reason to leave it out. `free_gib`: of the device;
/// `tflops`: of matrix products in bf16.
fn plan(
    case: &CaseLine,
    free_gib: f64,
    disk_gib: f64,
    tflops: Option<f64>,
    left: Duration,
) -> Result<(u32, Duration), String> {
    let needed = case.gib + 0.7; // With the driver's own memory.
    if needed > free_gib {
        return Err(format!(
            "It needs {needed:.1} GiB of the device, and {free_gib:.1} GiB are free."
        ));
    }
    // A streaming case reads a file, and is measured with resident weights as well.
    let is_streaming = case.kind == CaseKind::Streaming;
    if is_streaming && case.gib * 1.2 > disk_gib {
        return Err(format!(
            "It needs a temporary file of {:.1} GiB, and the disk has {disk_gib:.1} GiB free.",
            case.gib
        ));
    }
    // Share of the speed of matrix products: convolutions are slower.
    let share = if case.kind == CaseKind::Decode {
        0.15
    } else {
        0.5
    };
    let call = case.tflop / (tflops.unwrap_or(10.0) * share);
    let runs = (8.0 / call).clamp(1.0, 5.0) as u32;
    // Start, random weights, two warm-up calls; twice where weights stream, and their file.
    let once = 6.0 + case.gib / 10.0 + call * f64::from(runs + 2);
    let secs = if is_streaming {
        2.0 * (once + case.gib)
    } else {
        once
    };
    if secs > left.as_secs_f64() {
        let [needed, left] = [secs.ceil() as u64, left.as_secs()].map(rough_text);
        return Err(format!(
            "It would take about {needed}, and the report has {left} left."
        ));
    }
    let limit = Duration::try_from_secs_f64(secs * 5.0).unwrap_or(left);
    Ok((runs, limit.clamp(Duration::from_secs(45).min(left), left)))
}

/// Success, or one sentence. `has_lines`: lines came, which name what failed in them.
fn outcome(ended: ChildExit, has_lines: bool) -> Result<(), String> {
    let (how, complaint) = match ended {
        ChildExit::Well => return Ok(()),
        ChildExit::Cancelled => return Err("It was stopped.".to_owned()),
        ChildExit::TooLate { secs } => {
            return Err(format!(
                "It was ended after {secs} s: the driver may hang, or this machine is too slow for it."
            ));
        }
        ChildExit::Badly { how, complaint } => (how, complaint),
    };
    let mut last_first = complaint.lines().rev();
    let last = last_first.clone().next();
    if let Some(refusal) = last_first.find_map(|line| line.strip_prefix("error: ")) {
        Err(format!("The engine refused: {refusal}."))
    } else if has_lines && how == "exit code 1" {
        Ok(())
    } else {
        let last = last.map_or_else(String::new, |last| format!(": {last}"));
        Err(format!("The engine ended while it measured ({how}){last}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_measurements_report_their_cause_in_one_sentence() {
        let badly = |how: &str, complaint: &str| ChildExit::Badly {
            how: how.to_owned(),
            complaint: complaint.to_owned(),
        };
        assert_eq!(outcome(ChildExit::Well, false), Ok(()));
        assert_eq!(outcome(badly("exit code 1", ""), true), Ok(()));
        let refused = outcome(badly("exit code 2", "noise\nerror: no GPU"), true);
        assert_eq!(refused.unwrap_err(), "The engine refused: no GPU.");
        let died = outcome(badly("signal 11", "HSA fault"), true).unwrap_err();
        let expected = "The engine ended while it measured (signal 11): HSA fault.";
        assert_eq!(died, expected);
        let late = outcome(ChildExit::TooLate { secs: 30 }, true).unwrap_err();
        assert!(late.contains("after 30 s"), "{late}");
    }

    #[test]
    fn cases_that_fit_are_measured_and_others_are_skipped_with_a_reason() {
        let case = |kind, tflop| CaseLine {
            family: "a".to_owned(),
            case: "b".to_owned(),
            label: "A step".to_owned(),
            kind,
            gib: 24.0,
            tflop,
        };
        const LEFT: Duration = Duration::from_mins(8);
        let step = case(CaseKind::Step, 74.0);
        let (runs, limit) = plan(&step, 130.0, 100.0, Some(700.0), LEFT).unwrap();
        assert_eq!(runs, 5);
        assert!((45..100).contains(&limit.as_secs()), "{limit:?}");
        let why = plan(&step, 12.0, 100.0, Some(700.0), LEFT).unwrap_err();
        let expected = "It needs 24.7 GiB of the device, and 12.0 GiB are free.";
        assert_eq!(why, expected);
        let slow = case(CaseKind::Step, 500.0);
        let why = plan(&slow, 130.0, 100.0, Some(4.0), LEFT).unwrap_err();
        assert!(why.contains("the report has"), "{why}");
        let streaming = case(CaseKind::Streaming, 6.0);
        let why = plan(&streaming, 130.0, 1.0, Some(700.0), LEFT).unwrap_err();
        assert!(why.contains("disk"), "{why}");
    }
}
