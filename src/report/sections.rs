//! The sections of a report, in their order: each asks the machine or an engine and writes down what came of it.
//!
//! What goes wrong in one is a sentence in it, and the next begins.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use safelight_core::files::make_private_folder;
use safelight_core::job::{CancelToken, DeviceChoice};
use safelight_core::measured::{CaseKind, CaseLine, ParityLine};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::own_runtime;
use safelight_core::speed::{SpeedLine, SpeedProbe, SpeedState};
use safelight_core::units::in_gib;
use serde_json::Value;

use super::course::{Course, Watch};
use super::engine::{Engines, STOPPED};
use super::plan::{Means, Planned, plan};
use super::rows::{finding, loading_row, network_row, parity_row, speed_row, trial_row, way_row};
use super::{Finding, LeftOut, Order, Progress, Report, Section, facts};
use crate::doctor;
use crate::telemetry::{DeviceQuery, Roots, host};
use crate::worker::{ProcessLauncher, probe_engine};

/// In their order; each with the part of the bar that it takes.
pub(super) const ALL: [fn(&mut Run<'_>); 7] = [
    |run| run.machine(),
    |run| run.speed(),
    |run| run.loading(),
    |run| run.parity(),
    |run| run.jobs(),
    |run| run.networks(),
    |run| run.ways(),
];

/// What is left of a report's time for writing it down.
const MARGIN: Duration = Duration::from_secs(5);
/// The slowest of the doctor's questions and an engine's start take so long together where a driver hangs.
const MACHINE_LIMIT: Duration = Duration::from_secs(90);
const SPEED_LIMIT: Duration = Duration::from_secs(90);
const LOADING_LIMIT: Duration = Duration::from_mins(1);
const PARITY_LIMIT: Duration = Duration::from_mins(2);
const WAYS_LIMIT: Duration = Duration::from_mins(1);
const LIST_LIMIT: Duration = Duration::from_mins(1);

/// One report that is being made.
pub(super) struct Run<'a> {
    pub(super) order: &'a Order,
    pub(super) report: Report,
    pub(super) engines: Engines,
    pub(super) engine: Option<EngineReport>,
    pub(super) scratch: Scratch,
    pub(super) cancel: &'a CancelToken,
    tell: &'a dyn Fn(Progress),
    deadline: Instant,
    began: Instant,
    watch: Option<Watch>,
    part: f32,
}

/// A folder of this report alone, gone at its end.
pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it lies among what may be deleted at any time.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl<'a> Run<'a> {
    pub(super) fn begin(
        order: &'a Order,
        cancel: &'a CancelToken,
        tell: &'a dyn Fn(Progress),
        began: Instant,
    ) -> Self {
        let name = format!("report-{}", std::process::id());
        Self {
            order,
            report: Report::default(),
            engines: Engines {
                launcher: ProcessLauncher::of_user(&order.paths),
                device: order.device,
                cancel: cancel.clone(),
            },
            engine: None,
            scratch: Scratch(order.paths.cache.join(name)),
            cancel,
            tell,
            deadline: began + order.limit.saturating_sub(MARGIN),
            began,
            watch: None,
            part: 0.0,
        }
    }

    pub(super) fn course(&self) -> Course {
        self.watch.as_ref().map(Watch::course).unwrap_or_default()
    }

    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn is_gpu(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.device != DeviceChoice::Cpu)
    }

    /// Tells what is done now, at a part of the bar between 0 and 1.
    pub(super) fn progress(&mut self, part: f32, what: &str) {
        self.part = self.part.max(part);
        (self.tell)(Progress {
            part: self.part,
            what: what.to_owned(),
        });
    }

    /// Measures one section, unless there is no time or no engine for it.
    fn section(
        &mut self,
        (id, title): (&str, &str),
        part: f32,
        measure: impl FnOnce(&mut Self, &mut Section) -> Result<(), String>,
    ) {
        self.progress(part, title);
        if let Some(watch) = &self.watch {
            watch.mark(title);
        }
        let began = Instant::now();
        let mut section = Section {
            id: id.to_owned(),
            title: title.to_owned(),
            ..Section::default()
        };
        let measured = if self.engine.is_none() {
            Err(
                "No engine could be started, so nothing is measured: the doctor says why."
                    .to_owned(),
            )
        } else if self.left() < Duration::from_secs(3) {
            Err("There was no time left for it.".to_owned())
        } else {
            measure(self, &mut section)
        };
        section.problems.extend(measured.err());
        section.secs = began.elapsed().as_secs_f64();
        self.report.sections.push(section);
    }

    fn ask(
        &mut self,
        subject: &[&str],
        limit: Duration,
        tell: &mut dyn FnMut(Value),
    ) -> Result<(), String> {
        let limit = limit.min(self.left());
        self.engines.ask(subject, limit, &self.scratch.0, tell)
    }

    fn machine(&mut self) {
        self.progress(0.0, "Looking at this machine");
        make_private_folder(&self.scratch.0).ok(); // What needs it says so itself.
        let (paths, settings) = (self.order.paths.clone(), self.order.settings.clone());
        let device = self.order.device;
        let looked = {
            let paths = paths.clone();
            patiently(self.cancel, MACHINE_LIMIT.min(self.left()), move || {
                let mut launcher = ProcessLauncher::of_user(&paths);
                let engine = probe_engine(&mut launcher, device, MACHINE_LIMIT);
                let roots = Roots::of_this_machine();
                let facts = facts::all(&roots, &paths, &settings, engine.as_ref().ok());
                let mut checks = Vec::new();
                doctor::examine_this_machine(paths, launcher, false, &mut |check| {
                    checks.push(check);
                });
                (engine, facts, checks)
            })
        };
        let Some((engine, facts, checks)) = looked else {
            if !self.cancel.is_cancelled() {
                self.report.facts = vec![super::Fact {
                    name: "This machine".to_owned(),
                    value: "the drivers did not answer in time".to_owned(),
                }];
            }
            return;
        };
        self.report.facts = facts;
        self.report.findings = checks.into_iter().map(finding).collect();
        match engine {
            Ok(engine) => {
                self.report.device = engine.line.clone();
                self.watch = Some(self.watching(&engine));
                self.engine = Some(engine);
            }
            Err(err) => self.report.findings.push(Finding {
                status: "fail".to_owned(),
                name: "engine".to_owned(),
                message: err.summary,
                advice: err.advice,
            }),
        }
    }

    fn watching(&self, engine: &EngineReport) -> Watch {
        let runtime = own_runtime(&self.order.settings, &self.order.paths.cache);
        let query = DeviceQuery {
            kind: runtime.as_ref().map_or("cpu", |runtime| runtime.kind()),
            device: engine.device,
            pci: engine.pci.clone(),
            driver_total_bytes: 0,
        };
        let host = host::memory(&Roots::of_this_machine().proc);
        let total = host.map_or(0, |host| host.total_bytes);
        Watch::start(query, total, self.began)
    }

    /// Rates of single operations.
    fn speed(&mut self) {
        self.section(
            ("speed", "Speed of single operations"),
            0.05,
            |run, section| {
                let device = run.engines.device_argument();
                let mut begun: Option<SpeedProbe> = None;
                let asked = run.ask(
                    &["probe-speed", "--device", &device],
                    SPEED_LIMIT,
                    &mut |value| {
                        let Ok(line) = serde_json::from_value::<SpeedLine>(value.clone()) else {
                            return;
                        };
                        let id = value["probe"].as_str().unwrap_or_default();
                        begun = (line.state == SpeedState::Begin).then_some(line.probe);
                        section.rows.extend(speed_row(&line, id));
                    },
                );
                asked.map_err(|problem| match begun {
                    Some(probe) => format!("At {}: {problem}", probe.label()),
                    None => problem,
                })
            },
        );
    }

    /// From a file to the device.
    fn loading(&mut self) {
        self.section(("loading", "Loading weights"), 0.12, |run, section| {
            let device = run.engines.device_argument();
            let mib: u64 = if run.is_gpu() { 1024 } else { 256 };
            let free = host::free_bytes(&run.scratch.0).unwrap_or(0) >> 20;
            if free < 4 * mib {
                return Err(format!("The disk has {free} MiB, and files of {mib} MiB are made for it."));
            }
            section.about = format!(
                "Files of {mib} MiB were made in the cache folder, loaded, compared byte for byte, and removed."
            );
            let mib = mib.to_string();
            let arguments = ["bench", "load", "--runs", "3", "--mib", &mib, "--device", &device];
            run.ask(&arguments, LOADING_LIMIT, &mut |line| section.rows.push(loading_row(&line)))
        });
    }

    /// Whether what is computed is right.
    fn parity(&mut self) {
        self.section(("parity", "Right numbers"), 0.18, |run, section| {
            section.about = "Small networks of every family with random weights: on the processor against values that ship with Safelight, on the device against the processor. Distances are relative (L2).".to_owned();
            let device = run.engines.device_argument();
            let tried = run.ask(&["try", "--device", &device], PARITY_LIMIT, &mut |line| {
                section.rows.extend(serde_json::from_value(line).ok().and_then(trial_row));
            });
            let asked = run.ask(&["bench", "parity", "--device", &device], PARITY_LIMIT, &mut |line| {
                if let Ok(line) = serde_json::from_value::<ParityLine>(line) {
                    section.rows.push(parity_row(line));
                }
            });
            tried.and(asked)
        });
    }

    fn jobs(&mut self) {
        self.section(("jobs", "Fifty small jobs"), 0.28, super::jobs::section);
    }

    /// Networks of full size, and then one that streams.
    fn networks(&mut self) {
        let mut cases = Vec::new();
        let listed = self.ask(&["bench", "list"], LIST_LIMIT, &mut |line| {
            cases.extend(serde_json::from_value::<CaseLine>(line).ok());
        });
        cases.sort_by_key(|case| case.rank);
        let (streaming, cases): (Vec<_>, Vec<_>) = cases
            .into_iter()
            .partition(|case| case.kind == CaseKind::Streaming);
        let title = "Networks of full size";
        self.section(("networks", title), 0.4, |run, section| {
            section.about = "Random weights, as times and memory do not depend on them. Each in a process of its own: the first call has all that is compiled and searched for on first use.".to_owned();
            listed?;
            if !run.is_gpu() {
                section.left_out.push(LeftOut {
                    label: format!("All {} of them", cases.len()),
                    why: "Networks of full size need a GPU: on a processor a call takes minutes."
                        .to_owned(),
                });
                return Ok(());
            }
            for (index, case) in cases.iter().enumerate() {
                let part = 0.4 + 0.45 * index as f32 / cases.len() as f32;
                run.progress(part, &case.label);
                run.network(case, section)?;
            }
            Ok(())
        });
        self.section(("streaming", "Weights that stream"), 0.86, |run, section| {
            section.about = "Once with all weights on the device, then under a cap of 4 GiB with half of it kept free: slower, and equal to the last bit.".to_owned();
            for case in &streaming {
                if run.is_gpu() {
                    run.network(case, section)?;
                } else {
                    run.small_streaming(case, section)?;
                }
            }
            Ok(())
        });
    }

    /// One case; the error is for what ends its section.
    fn network(&mut self, case: &CaseLine, section: &mut Section) -> Result<(), String> {
        let planned = match plan(case, &self.means(), self.left()) {
            Ok(planned) => planned,
            Err(why) => {
                section.left_out.push(LeftOut {
                    label: case.label.clone(),
                    why,
                });
                return Ok(());
            }
        };
        let options: Vec<&str> = case.options.iter().map(String::as_str).collect();
        self.measure(case, planned, &options, section)
    }

    /// Without a GPU a small network of the same structure streams.
    fn small_streaming(&mut self, case: &CaseLine, section: &mut Section) -> Result<(), String> {
        let planned = Planned {
            runs: 2,
            secs: 0.0,
            limit: LIST_LIMIT,
        };
        section
            .about
            = "Once with all weights kept, then with few of them: a small network, as this machine has no GPU.".to_owned();
        self.measure(case, planned, &["--small", "--preserved", "1024"], section)
    }

    fn measure(
        &mut self,
        case: &CaseLine,
        planned: Planned,
        options: &[&str],
        section: &mut Section,
    ) -> Result<(), String> {
        let (device, runs) = (self.engines.device_argument(), planned.runs.to_string());
        let fixed = ["bench", &case.family, "--device", &device, "--runs", &runs];
        let arguments = [&fixed[..], options, &["--", &case.case]].concat();
        let rows = &mut section.rows;
        let asked = self.ask(&arguments, planned.limit, &mut |line| {
            rows.push(network_row(case, &line));
        });
        match asked {
            Err(problem) if problem == STOPPED => Err(problem),
            Err(problem) => {
                section.problems.push(format!("{}: {problem}", case.label));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn means(&self) -> Means {
        let engine = self.engine.as_ref();
        let free = engine.map_or(0, |engine| {
            engine.total_bytes.saturating_sub(engine.used_bytes)
        });
        let cap = self.order.settings.memory.cap_gib.unwrap_or(f64::MAX);
        let disk = host::free_bytes(&self.scratch.0).unwrap_or(0);
        Means {
            is_gpu: self.is_gpu(),
            free_gib: in_gib(free).min(cap),
            tflops: self.report.figure("speed", "matrix_bf16", "rate"),
            disk_gib: in_gib(disk),
        }
    }

    /// The alternatives that a GPU has, beside each other.
    fn ways(&mut self) {
        self.section(
            ("ways", "Ways to compute the same"),
            0.92,
            |run, section| {
                section.about =
                    "Time and error of each attention kernel and convolution backend.".to_owned();
                if !run.is_gpu() {
                    section.left_out.push(LeftOut {
                        label: "All of them".to_owned(),
                        why: "A GPU has several ways, a processor has one.".to_owned(),
                    });
                    return Ok(());
                }
                let device = run.engines.device_argument();
                for subject in ["attention", "conv"] {
                    let arguments = ["bench", subject, "--runs", "2", "--device", &device];
                    let rows = &mut section.rows;
                    let asked = run.ask(&arguments, WAYS_LIMIT, &mut |line| {
                        rows.push(way_row(&line));
                    });
                    let asked = asked.map_err(|problem| format!("At {subject}: {problem}"));
                    section.problems.extend(asked.err());
                }
                Ok(())
            },
        );
    }
}

/// Waits for what may hang on a thread of its own, until it is cancelled or takes too long.
fn patiently<T: Send + 'static>(
    cancel: &CancelToken,
    limit: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, answer) = bounded(1);
    let thread = thread::Builder::new().name("report-machine".to_owned());
    let look = move || {
        sender.send(look()).ok(); // Nobody may wait for it any more.
    };
    thread.spawn(look).ok()?;
    let deadline = Instant::now() + limit;
    while !cancel.is_cancelled() && Instant::now() < deadline {
        match answer.recv_timeout(Duration::from_millis(50)) {
            Ok(found) => return Some(found),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    None
}
