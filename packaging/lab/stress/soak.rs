//! Many small jobs in one engine with cancels and injected faults: each ends as it must, and memory does not grow.

use std::fs;
use std::path::{Path, PathBuf};

use safelight::cli::CliEnvironment;
use safelight::worker::{self, WorkerCommand, WorkerHandle, WorkerOptions};
use safelight_core::catalog::{EMBEDDED_MODEL, ModelCatalog};
use safelight_core::job::{
    CancelToken, DeviceChoice, FormInputs, GenerateForm, GenerateRequest, JobId, JobOptions,
    SamplingOptions, StartImage,
};
use safelight_core::job_update::{JobOutcome, JobUpdate, MemorySample};
use safelight_core::model::ComponentOverrides;
use safelight_core::settings::AppPaths;

use super::{Random, Result};

/// Growth of memory that is noise.
const TOLERANCE: f64 = 0.01;
/// Jobs at either end that are compared, by the least of them: allocators keep and release memory between jobs.
const ENDS: usize = 10;
const SIZES: [(u32, u32); 4] = [(64, 64), (128, 64), (96, 160), (192, 128)];
const FRAMES: [u32; 4] = [1, 5, 9, 17];
/// Jobs before memory is compared: libraries keep what each size and fault needs once.
const WARM_UP: u32 = 32;
/// Faults that a retry repairs, and those that fail the job.
const REPAIRED: [&str; 8] = [
    "encode_text@text:oom*1",
    "encode_text@weights:host_oom*1",
    "denoise@block:oom*1",
    "denoise@sampler:oom_code2*1",
    "denoise@saving:host_oom*1",
    "decode@vae_decode:oom_pressure*1",
    "decode@frames:oom*1",
    "unload:oom*1",
];
const FATAL: [&str; 3] = [
    "encode_text@weights+3:panic*1",
    "denoise@block+2:panic*1",
    "decode@vae_decode:panic*1",
];
const START_IMAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/media/plain.png"
);

pub(crate) fn run(count: u32, random: &mut Random, device: DeviceChoice) -> Result<bool> {
    let environment = CliEnvironment::of_this_user();
    let folder = tempfile::tempdir()?;
    let base = request(&environment)?;
    let fault_file = folder.path().join("fault");
    let mut launcher = environment.process_launcher();
    launcher.set_variable(
        "SAFELIGHT_ENGINE_FAULT",
        format!("@{}", fault_file.display()),
    );
    let options = WorkerOptions {
        paths: AppPaths {
            data: folder.path().to_owned(),
            ..environment.paths.clone()
        },
        ..environment.worker_options()
    };
    let (worker, _thread) = worker::spawn(options, Box::new(launcher), Box::new(|| {}))?;
    let (mut levels, mut engines, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    let mut tally = [0; 3];
    for number in 1..=count {
        let fault = match random.below(6) {
            0 | 1 => random.one_of(&REPAIRED),
            2 => random.one_of(&FATAL),
            _ => "",
        };
        let cancel_after = (random.below(6) == 0).then(|| 2 + random.below(12));
        let mark = folder.path().join(format!("struck-{number}"));
        fs::write(
            &fault_file,
            if fault.is_empty() {
                String::new()
            } else {
                format!("{fault}:{}", mark.display())
            },
        )?;
        let request = job(&base, number, folder.path(), random);
        let what = format!("job {number}, {fault:?}, cancelled at {cancel_after:?}");
        let (outcome, memory) = play(&worker, request, cancel_after, device)?;
        let (index, is_expected) = match &outcome {
            JobOutcome::Finished(_) => (0, true),
            JobOutcome::Failed(_) => (2, FATAL.contains(&fault)),
            _ => (1, cancel_after.is_some()),
        };
        tally[index] += 1;
        if !is_expected {
            faults.push(format!("{what}: {outcome:?}"));
        }
        let engine = engine();
        if !engines.contains(&engine) {
            engines.push(engine);
        }
        if number > WARM_UP {
            let host = engine.map_or(0, resident) + resident(std::process::id());
            levels.push([host, memory.allocated_bytes, memory.reserved_bytes]);
        }
        if number % 10 == 0 {
            println!(
                "{number} of {count}: {:?} bytes",
                levels.last().unwrap_or(&[0; 3])
            );
        }
    }
    let [finished, cancelled, failed] = tally;
    println!(
        "{finished} finished, {cancelled} cancelled, {failed} failed, {} engines",
        engines.len()
    );
    if engines.len() > 1 {
        faults.push("the engine was restarted".to_owned());
    }
    let ends = ENDS.min(levels.len() / 2);
    if ends < 2 {
        return Err("too few jobs to compare memory: at least 40".into());
    }
    for (index, name) in ["host memory", "device tensors", "device memory"]
        .iter()
        .enumerate()
    {
        let least =
            |levels: &[[u64; 3]]| levels.iter().map(|level| level[index]).min().unwrap_or(0);
        let (before, after) = (
            least(&levels[..ends]),
            least(&levels[levels.len() - ends..]),
        );
        // Less than 1 MiB is nothing.
        let growth = (after as f64 - before as f64) / (before as f64).max(f64::from(1 << 20));
        println!("{name}: {before} -> {after} bytes");
        if growth > TOLERANCE {
            faults.push(format!("{name} grew by {:.1} %", growth * 100.0));
        }
    }
    faults.iter().for_each(|fault| println!("{fault}"));
    Ok(faults.is_empty())
}

fn request(environment: &CliEnvironment) -> Result<GenerateRequest> {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    let spec = catalog.open_with(EMBEDDED_MODEL, &ComponentOverrides::default())?;
    let form = GenerateForm {
        prompt: "a red boat on the sea".to_owned(),
        inputs: FormInputs {
            image: Some(StartImage {
                path: PathBuf::from(START_IMAGE),
                width: 66,
                height: 50,
            }),
            ..FormInputs::default()
        },
        ..GenerateForm::default()
    };
    let checked = form
        .validate(&spec)
        .map_err(|errors| format!("{errors:?}"))?;
    Ok(checked.request)
}

fn job(base: &GenerateRequest, number: u32, folder: &Path, random: &mut Random) -> GenerateRequest {
    let (mut size, mut frames) = (random.one_of(&SIZES), random.one_of(&FRAMES));
    if let Some(warm_up) = (WARM_UP as usize).checked_sub(number as usize) {
        // Every combination once, the largest first.
        (size, frames) = (SIZES[warm_up % 4], FRAMES[warm_up / 4 % 4]);
    }
    let extension = if frames == 1 {
        "png"
    } else {
        random.one_of(&["mp4", "gif", "webp"])
    };
    GenerateRequest {
        width: size.0,
        height: size.1,
        num_frames: frames,
        sampling: SamplingOptions {
            num_steps: 1 + random.below(3) as u32,
            ..base.sampling
        },
        image: base
            .image
            .clone()
            .filter(|_| frames > 1 && random.below(2) == 0),
        seed: u64::from(number),
        out: folder.join(format!("out.{extension}")),
        options: JobOptions {
            vae_tile: (random.below(5) == 0).then_some(64),
            ..base.options.clone()
        },
        ..base.clone()
    }
}

/// Runs a job to its end -> the outcome, and the engine's last count of its memory.
fn play(
    worker: &WorkerHandle,
    request: GenerateRequest,
    cancel_after: Option<usize>,
    device: DeviceChoice,
) -> Result<(JobOutcome, MemorySample)> {
    let cancel = CancelToken::default();
    let command = WorkerCommand {
        id: JobId::next(),
        request: request.into(),
        resume: None,
        device,
        cancel: cancel.clone(),
    };
    worker
        .try_send(command)
        .map_err(|_| "the worker does not take jobs")?;
    let mut memory = MemorySample::default();
    for count in 1.. {
        if cancel_after == Some(count) {
            cancel.cancel();
        }
        match worker.wait().ok_or("the worker ended")?.update {
            JobUpdate::Memory(sample) => memory = sample,
            JobUpdate::Ended(outcome) => return Ok((outcome, memory)),
            _ => {}
        }
    }
    Err("the job does not end".into())
}

/// The newest child of this process.
fn engine() -> Option<u32> {
    let own = std::process::id().to_string();
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before the last bracket may contain anything.
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        rest.split_ascii_whitespace()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(pid) == own).max()
}

/// Bytes in RAM that are the process's own, without mapped files.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
