//! Output of `safelight generate` while it works: a progress bar for people, JSON lines for programs.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use safelight_core::job::{FormNotice, GenerateRequest, JobError, Recipe, Stage};
use safelight_core::job_update::{JobOutcome, JobOutput, JobUpdate, MemorySample};
use safelight_core::lora::CheckedLora;
use safelight_core::sanitize::printable;
use safelight_core::units::{measured_text, size_text};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::out;

/// Hears a job's updates.
pub trait JobListener {
    /// One of several jobs begins, counted from 1; comes before everything else.
    fn job(&mut self, number: usize, count: usize, request: &GenerateRequest);
    /// Difference from the arguments; comes before all updates.
    fn notice(&mut self, notice: &FormNotice);
    fn update(&mut self, update: &JobUpdate);
    /// `folder`: the job's, which may still exist.
    fn end(&mut self, outcome: &JobOutcome, folder: &Path);
    /// The contact sheet of a grid is written; comes after all jobs.
    fn sheet(&mut self, path: &Path);
}

/// JSON lines on standard output.
#[derive(Debug, Default)]
pub struct JsonReport {
    device: String,
}

/// The exit code of a command that ended so, which tells of its failure.
pub fn ended(result: Result<u8, JobError>, is_json: bool) -> ExitCode {
    let code = result.unwrap_or_else(|err| {
        if is_json {
            print_failed(&err);
        }
        explain(&err);
        err.kind.exit_code()
    });
    ExitCode::from(code)
}

/// The event of a failure before any job began.
pub fn print_failed(err: &JobError) {
    print_event(&failed_event(err));
}

/// One JSON line.
pub fn print_event(event: &Value) {
    // A reader that went away must not end the job: the file is still wanted.
    out::write_json_line(event).ok();
}

/// The event of this name with the members of an object, and more of them.
fn event(name: &str, object: &impl Serialize, more: &[(&str, &str)]) -> Value {
    let mut event = json!(object);
    for (key, value) in more.iter().chain(&[("event", name)]) {
        event[*key] = json!(value);
    }
    event
}

fn failed_event(err: &JobError) -> Value {
    json!({
        "event": "failed",
        "kind": err.kind,
        "message": err.summary,
        "advice": advice(err),
        "details": err.details,
        "exit_code": err.kind.exit_code(),
    })
}

fn lora_event(checked: &CheckedLora) -> Value {
    let CheckedLora { lora, coverage } = checked;
    json!({
        "event": "lora",
        "path": lora.path,
        "strength": lora.strength,
        "strength_2": lora.strength_2,
        "keys": coverage.total,
        "applied": coverage.applied,
        "layers": coverage.changed_layers,
        "for_images": coverage.images,
        "for_text_encoder": coverage.text_encoder,
        "unknown": coverage.unknown,
        "misfits": coverage.misfits,
        "notices": coverage.notices,
        "message": checked.line(),
    })
}

impl JobListener for JsonReport {
    fn job(&mut self, number: usize, count: usize, request: &GenerateRequest) {
        print_event(&json!({
            "event": "job", "number": number, "count": count,
            "prompt": request.prompt, "seed": request.seed, "out": request.out,
        }));
    }

    fn sheet(&mut self, path: &Path) {
        print_event(&json!({"event": "sheet", "path": path}));
    }

    fn notice(&mut self, notice: &FormNotice) {
        let (field, message) = (notice.field, &notice.message);
        print_event(&json!({"event": "notice", "field": field, "message": message}));
    }

    fn update(&mut self, update: &JobUpdate) {
        let event = match update {
            JobUpdate::Device(line) => {
                self.device.clone_from(line);
                return;
            }
            JobUpdate::Stage {
                stage,
                section,
                resumed,
            } => json!({
                "event": "stage", "stage": stage, "section": section, "state": "started", "resumed": resumed,
            }),
            JobUpdate::StageEnded(time) => event("stage", time, &[("state", "ended")]),
            JobUpdate::Section(made) => json!({
                "event": "section", "section": made.section, "count": made.count,
                "frames": made.video.frames.len(), "path": made.path,
            }),
            JobUpdate::Step {
                stage,
                step,
                num_steps,
                secs_left,
            } => json!({
                "event": "step", "stage": stage, "step": step, "num_steps": num_steps, "secs_left": secs_left,
            }),
            JobUpdate::Memory(memory) => event("memory", memory, &[("device", &self.device)]),
            JobUpdate::Reclaimed(reclaim) => event("reclaimed", reclaim, &[]),
            JobUpdate::Waiting(crowded) => {
                event("waiting", crowded, &[("message", &crowded.to_string())])
            }
            JobUpdate::Plan(plan) => json!({"event": "plan", "plan": plan}),
            JobUpdate::Lora(checked) => lora_event(checked),
            JobUpdate::Warning(text) => json!({"event": "warning", "message": text}),
            JobUpdate::Settled { .. }
            | JobUpdate::Started(_)
            | JobUpdate::Preview(_)
            | JobUpdate::Frame(_)
            | JobUpdate::Ended(_) => return,
        };
        print_event(&event);
    }

    fn end(&mut self, outcome: &JobOutcome, folder: &Path) {
        print_event(&match outcome {
            JobOutcome::Finished(output) => json!({
                "event": "finished",
                "path": output.path(),
                "paths": output.paths,
                "frames": output.num_frames,
                "fps": output.video.fps,
                "seed": output.seed,
                "secs": output.secs,
                "stages": output.stages,
                "peak_bytes": output.peak_bytes,
                "warnings": output.warnings,
                "plan": output.plan,
                "rungs": output.rungs,
                "device": self.device,
            }),
            JobOutcome::Cancelled => json!({"event": "cancelled"}),
            JobOutcome::Paused => json!({"event": "cancelled", "kept": folder}),
            JobOutcome::Kept(output) => json!({
                "event": "cancelled",
                "path": output.path(),
                "paths": output.paths,
                "frames": output.video.frames.len(),
            }),
            JobOutcome::Failed(err) => failed_event(err),
        });
    }
}

/// A progress bar on a terminal, a line a stage elsewhere; all on standard error but the files' names.
#[derive(Debug)]
pub struct HumanReport {
    bar: ProgressBar,
    is_terminal: bool,
    recipe: Option<Recipe>,
    memory: MemorySample,
    /// The job waits, and that was said.
    is_waiting: bool,
}

/// On standard error if it is a terminal; elsewhere it draws nothing.
pub fn progress_bar(is_seen: bool, template: &str) -> ProgressBar {
    let target = if is_seen {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

impl HumanReport {
    pub fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            bar: progress_bar(is_terminal, "{prefix:28} {bar:30.red} {pos}/{len}  {msg}"),
            is_terminal,
            recipe: None,
            memory: MemorySample::default(),
            is_waiting: false,
        }
    }

    fn begin(&self, stage: Stage, section: u32, resumed: bool) {
        let (mut place, mut part) = (String::new(), String::new());
        if let Some(recipe) = &self.recipe {
            let position = recipe.position(stage, section).unwrap_or(0) + 1;
            place = format!("{position}/{} ", recipe.stages.len());
            let count = recipe.num_sections();
            if count > 1 && recipe.position(stage, 1).is_some() {
                part = format!(", section {} of {count}", section + 1);
            }
        }
        let again = if resumed { " again" } else { "" };
        let text = format!("{place}{}{part}{again}", stage.label());
        if self.is_terminal {
            self.bar.set_length(1);
            self.bar.set_position(0);
            self.bar.set_message(self.memory_text());
            self.bar.set_prefix(text);
        } else {
            say(&text);
        }
    }

    fn memory_text(&self) -> String {
        if self.memory.total_bytes == 0 {
            return String::new();
        }
        format!(
            "{} of {}",
            size_text(self.memory.used_bytes),
            size_text(self.memory.total_bytes)
        )
    }
}

impl JobListener for HumanReport {
    fn job(&mut self, number: usize, count: usize, request: &GenerateRequest) {
        let text = format!("{number} of {count}: {}", request.prompt);
        self.bar.reset();
        self.bar.suspend(|| say(&text));
    }

    fn sheet(&mut self, path: &Path) {
        let text = format!("Contact sheet: {}", path.display());
        self.bar.suspend(|| say(&text));
    }

    fn notice(&mut self, notice: &FormNotice) {
        self.bar.suspend(|| say(&notice.message));
    }

    fn update(&mut self, update: &JobUpdate) {
        match update {
            JobUpdate::Started(recipe) => self.recipe = Some(recipe.clone()),
            JobUpdate::Device(line) => self.bar.suspend(|| say(line)),
            // If it changes something, a warning is shown instead.
            JobUpdate::Plan(plan) if plan.fits() => self.bar.suspend(|| say(&plan.verdict.text)),
            JobUpdate::Stage {
                stage,
                section,
                resumed,
            } => {
                self.is_waiting = false;
                self.begin(*stage, *section, *resumed);
            }
            JobUpdate::Waiting(crowded) => {
                if !self.is_waiting {
                    self.bar.suspend(|| say(&crowded.to_string()));
                }
                self.is_waiting = true;
            }
            JobUpdate::Section(made) => {
                let secs = made.video.frames.len() as f64 / made.video.fps.max(f64::EPSILON);
                let text = format!(
                    "Section {} of {}: {} of the video, in {}",
                    made.section + 1,
                    made.count,
                    measured_text(secs),
                    made.path.display()
                );
                self.bar.suspend(|| say(&text));
            }
            JobUpdate::Step {
                step,
                num_steps,
                secs_left,
                ..
            } => {
                self.bar.set_length(u64::from(*num_steps));
                self.bar.set_position(u64::from(*step));
                self.bar.set_message(format!(
                    "{} left  {}",
                    measured_text(*secs_left),
                    self.memory_text()
                ));
            }
            JobUpdate::Memory(memory) => {
                self.memory = *memory;
            }
            // If little of it is used, a warning is shown instead.
            JobUpdate::Lora(checked) if !checked.coverage.is_poor() => {
                self.bar.suspend(|| say(&checked.line()));
            }
            JobUpdate::Warning(text) => self.bar.suspend(|| say(&format!("Warning: {text}"))),
            JobUpdate::Settled { .. }
            | JobUpdate::Plan(_)
            | JobUpdate::Lora(_)
            | JobUpdate::StageEnded(_)
            | JobUpdate::Reclaimed(_)
            | JobUpdate::Preview(_)
            | JobUpdate::Frame(_)
            | JobUpdate::Ended(_) => {}
        }
    }

    fn end(&mut self, outcome: &JobOutcome, folder: &Path) {
        self.bar.finish_and_clear();
        match outcome {
            JobOutcome::Finished(output) => {
                say(&summary(output));
                print_paths(output);
            }
            JobOutcome::Cancelled => say("Cancelled"),
            JobOutcome::Paused => {
                say("Stopped. What was finished is kept for a week.");
                let job = folder.file_name().unwrap_or_default().display();
                say(&format!("To continue: safelight resume {job}"));
                say(&format!("To discard it: safelight resume {job} --discard"));
            }
            JobOutcome::Kept(output) => {
                say("Cancelled; what was made is kept");
                print_paths(output);
            }
            JobOutcome::Failed(err) => explain(err),
        }
    }
}

/// The files' names, on standard output.
fn print_paths(output: &JobOutput) {
    let mut out = std::io::stdout().lock();
    let is_terminal = out.is_terminal();
    // The files are there whether or not their names are read.
    for path in &output.paths {
        writeln!(out, "{}", path_line(path, is_terminal)).ok();
    }
}

/// A name for a program that opens the file, or for a person at a terminal.
fn path_line(path: &Path, is_terminal: bool) -> String {
    let name = path.display().to_string();
    if is_terminal {
        printable(&name).into_owned()
    } else {
        name
    }
}

/// A failure, for people.
fn explain(err: &JobError) {
    say(&format!("Error: {}", err.summary));
    let advice = advice(err);
    if !advice.is_empty() {
        say(&advice);
    }
    tracing::debug!("{}", err.details);
}

/// Advice about a failure; the window has a button where this names a command.
fn advice(err: &JobError) -> String {
    let kept = err.kept.as_ref().map(|folder| {
        format!(
            "What was finished is kept for a week in {}; `safelight resume {}` continues from there",
            folder.display(),
            folder.file_name().unwrap_or_default().display()
        )
    });
    let own = Some(err.advice.trim().to_owned()).filter(|own| !own.is_empty());
    let parts: Vec<String> = own.into_iter().chain(kept).collect();
    parts.join(". ")
}

fn summary(output: &JobOutput) -> String {
    // Sections have stages again and again.
    let mut times: Vec<(Stage, f64)> = Vec::new();
    for time in &output.stages {
        match times.iter_mut().find(|(stage, _)| *stage == time.stage) {
            Some((_, secs)) => *secs += time.secs,
            None => times.push((time.stage, time.secs)),
        }
    }
    let stages: Vec<String> = times
        .iter()
        .map(|(stage, secs)| format!("{} {secs:.1} s", stage.name()))
        .collect();
    let plan = output.plan.as_ref();
    let plan = plan.map_or_else(String::new, |plan| format!("; plan: {}", plan.line()));
    let seed = output.seed.map(|seed| format!("seed {seed}, "));
    format!(
        "Finished in {} ({}peak memory {}): {}{plan}",
        measured_text(output.secs),
        seed.unwrap_or_default(),
        size_text(output.peak_bytes),
        stages.join(", ")
    )
}

/// A line for people.
pub fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    // Nobody is left to tell when standard error is closed.
    writeln!(err, "{}", printable(text)).ok();
}

#[cfg(test)]
mod tests {
    use safelight_core::job::JobErrorKind;

    use super::*;

    #[test]
    fn the_name_of_a_result_steers_no_terminal_and_is_whole_for_a_program() {
        let name = "a\u{1b}]0;b\u{7}.png";
        assert_eq!(path_line(Path::new(name), true), r"a\u{1b}]0;b\u{7}.png");
        assert_eq!(path_line(Path::new(name), false), name);
    }

    #[test]
    fn failed_job_error_names_the_command_that_resumes_it() {
        let err = JobError::new(JobErrorKind::EngineLost, "the engine ended").advise("Try again");
        assert_eq!(advice(&err), "Try again");
        let kept = err.keeping("/data/jobs/17");
        assert_eq!(
            advice(&kept),
            "Try again. What was finished is kept for a week in /data/jobs/17; `safelight resume 17` continues from there"
        );
        assert_eq!(failed_event(&kept)["advice"], advice(&kept));
        let bare = kept.advise("");
        assert!(advice(&bare).starts_with("What was finished"));
    }
}
