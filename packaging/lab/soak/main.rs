//! Runs many small jobs of all kinds in one engine, with cancels and failures, and reports whether memory grows.
//!
//! The jobs go through the worker, as those of the window do, and are chosen in [`deck`].

mod deck;
#[path = "../random.rs"]
mod random;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use deck::{Card, Deck, Mode};
use safelight::cli::{Surroundings, log, out};
use safelight::report::jobs::SmallJobs;
use safelight::report::levels::{Level, table as levels_table};
use safelight::worker::WorkerOptions;
use safelight_core::catalog::{Catalog, EMBEDDED_MODEL};
use safelight_core::job::{
    CancelToken, DeviceChoice, GenerateForm, GenerateRequest, JobError, JobErrorKind, JobOutcome,
    Sampling, StartPicture,
};
use safelight_core::library::Companions;
use safelight_core::media::{ClipOptions, ClipWriter, Picture};
use safelight_core::model::ModelSpec;
use serde_json::json;

/// The sum of what may stay behind, as a part of what was there before.
const TOLERANCE: f64 = 0.01;

/// Run many small jobs in one engine, with cancels and failures, and tell whether memory comes back
#[derive(Parser, Debug)]
#[command(name = "soak")]
struct SoakArgs {
    /// How many jobs
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// The order of the jobs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A model of Wan's architecture; the one that ships with Safelight by default
    #[arg(long, value_name = "ID|PATH")]
    model: Option<String>,
    /// Small sizes alone, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Exit code 1 when memory grew, or a job ended unexpectedly.
fn main() -> ExitCode {
    let args = SoakArgs::parse();
    log::start();
    run(&args, &Surroundings::of_this_user())
        .unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn run(args: &SoakArgs, surroundings: &Surroundings) -> Result<ExitCode, JobError> {
    let catalog = Catalog::load(&surroundings.paths, surroundings.settings());
    let wanted = args.model.as_deref().unwrap_or(EMBEDDED_MODEL);
    let spec = catalog
        .open_with(wanted, &Companions::default())
        .map_err(|err| JobError::from(&err))?;
    let folder = Folder::make(&surroundings.paths.cache)?;
    let mut soak = Soak::begin(args, surroundings, &spec, &folder.0)?;
    let mut deck = Deck::new(args.seed, args.jobs, args.small);
    while let Some(card) = deck.draw() {
        soak.play(&card)?;
        if !args.json {
            soak.jobs.levels.tell_progress(args.jobs);
        }
    }
    Ok(soak.report(args))
}

/// A folder of this run alone, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn make(cache: &Path) -> Result<Self, JobError> {
        let path = cache.join(format!("soak-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|err| disk_error(&err, &path))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it lies among what may be deleted at any time.
        fs::remove_dir_all(&self.0).ok();
    }
}

fn disk_error(err: &std::io::Error, path: &Path) -> JobError {
    JobError::new(JobErrorKind::Disk, format!("{err}: {}", path.display()))
}

/// How many jobs ended how.
#[derive(Debug, Default)]
struct Tally {
    finished: u32,
    cancelled: u32,
    failed: u32,
    climbs: usize,
    /// Ends that the card did not ask for.
    odd: Vec<String>,
}

struct Soak<'a> {
    jobs: SmallJobs,
    folder: &'a Path,
    request: GenerateRequest,
    tally: Tally,
}

impl<'a> Soak<'a> {
    fn begin(
        args: &SoakArgs,
        surroundings: &Surroundings,
        spec: &ModelSpec,
        folder: &'a Path,
    ) -> Result<Self, JobError> {
        let picture = folder.join("start.png");
        let form = GenerateForm {
            prompt: "a red boat on the sea".to_owned(),
            image: Some(StartPicture {
                path: write_picture(&picture)?,
                width: 96,
                height: 64,
            }),
            ..GenerateForm::default()
        };
        let checked = form.validate(spec).map_err(|errors| {
            let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
            JobError::new(JobErrorKind::InvalidRequest, text.join("; "))
        })?;
        let mut launcher = surroundings.process_launcher();
        launcher.set_variable(
            "SAFELIGHT_ENGINE_FAULT",
            format!("@{}", folder.join("fault").display()),
        );
        let options = WorkerOptions {
            jobs: folder.join("jobs"),
            // A soak is no measure of anything that people do.
            estimates: None,
            counters: None,
            telemetry: None,
            ..surroundings.worker_options()
        };
        let device = args.device;
        let device = device.unwrap_or_else(|| surroundings.settings().runtime.device);
        Ok(Self {
            jobs: SmallJobs::begin(options, launcher, device)?,
            folder,
            request: checked.request,
            tally: Tally::default(),
        })
    }

    /// Runs one job as its card says, and measures what is there behind it.
    fn play(&mut self, card: &Card) -> Result<(), JobError> {
        let fault = self.folder.join("fault");
        let marker = self.folder.join(format!("struck-{}", card.number));
        let text = card
            .fault
            .map(|fault| format!("{fault}:{}", marker.display()));
        fs::write(&fault, text.unwrap_or_default()).map_err(|err| disk_error(&err, &fault))?;
        let (request, cancel) = (self.request_of(card), CancelToken::default());
        let outcome = self
            .jobs
            .play(request, &cancel, card.cancel_after, card.is_warm_up)?;
        self.count(card, &outcome);
        Ok(())
    }

    fn request_of(&self, card: &Card) -> GenerateRequest {
        let request = &self.request;
        GenerateRequest {
            width: card.width,
            height: card.height,
            num_frames: if card.mode == Mode::Picture {
                1
            } else {
                card.num_frames
            },
            sampling: Sampling {
                num_steps: card.num_steps,
                ..request.sampling
            },
            image: request
                .image
                .clone()
                .filter(|_| card.mode == Mode::FromPicture),
            seed: u64::from(card.number),
            out: self.folder.join(format!("out.{}", card.extension())),
            vae_tile: card.vae_tile,
            ..request.clone()
        }
    }

    fn count(&mut self, card: &Card, outcome: &JobOutcome) {
        let tally = &mut self.tally;
        let is_expected = match outcome {
            JobOutcome::Finished(output) => {
                tally.finished += 1;
                tally.climbs += output.rungs.len();
                // A cancel, or a fault behind the job's last stage, may come too late.
                true
            }
            JobOutcome::Cancelled | JobOutcome::Kept(_) | JobOutcome::Paused => {
                tally.cancelled += 1;
                card.cancel_after.is_some()
            }
            JobOutcome::Failed(_) => {
                tally.failed += 1;
                card.may_fail()
            }
        };
        if !is_expected {
            self.tally.odd.push(format!("{card:?}: {outcome:?}"));
        }
    }

    fn report(self, args: &SoakArgs) -> ExitCode {
        let Self { jobs, tally, .. } = self;
        let levels = &jobs.levels;
        let Some((before, after)) = levels.ends() else {
            let text = "too few jobs to tell anything; expected at least 8";
            return out::print(&format!("{text}\n"), 2);
        };
        let growth = after.growth(&before);
        let is_well = tally.odd.is_empty() && growth <= TOLERANCE && levels.num_engines() == 1;
        let code = u8::from(!is_well);
        if args.json {
            let level = |level: &Level| {
                json!({
                    "engine_rss_bytes": level.engine_rss, "app_rss_bytes": level.app_rss,
                    "device_allocated_bytes": level.allocated, "device_reserved_bytes": level.reserved,
                })
            };
            let object = json!({
                "jobs": args.jobs, "seed": args.seed, "finished": tally.finished,
                "cancelled": tally.cancelled, "failed": tally.failed, "climbs": tally.climbs,
                "engines": levels.num_engines(), "before": level(&before), "after": level(&after),
                "growth": growth, "tolerance": TOLERANCE, "odd": tally.odd, "is_well": is_well,
            });
            return out::print_json(&object, code);
        }
        let mut text = format!(
            "{} jobs: {} finished, {} cancelled, {} failed on purpose, {} rungs climbed, {} engine(s)\n",
            args.jobs,
            tally.finished,
            tally.cancelled,
            tally.failed,
            tally.climbs,
            levels.num_engines()
        );
        text.push_str(&levels_table(&before, &after));
        for odd in &tally.odd {
            // Writing to a string cannot fail.
            writeln!(text, "not as it should be: {odd}").ok();
        }
        text.push_str(if is_well {
            "memory came back\n"
        } else {
            "memory did NOT come back, or a job ended as it should not\n"
        });
        out::print(&text, code)
    }
}

/// A picture to start from.
fn write_picture(path: &Path) -> Result<PathBuf, JobError> {
    let write = || {
        let picture = Picture::from_fn(96, 64, |x, y| [x as u8, y as u8, 90])?;
        let mut writer = ClipWriter::create(path, ClipOptions::default())?;
        writer.push(&picture)?;
        writer.finish()
    };
    let written = write().map_err(|err| JobError::from_error(JobErrorKind::Disk, &err))?;
    Ok(written.into_iter().next().unwrap_or_default())
}
