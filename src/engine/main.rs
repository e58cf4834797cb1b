//! The engine process: frames in over standard input, frames out over standard output. With `bench` as its first
//! argument it measures networks, loading or single layers instead, with `probe` it tries what may hang, with
//! `probe-speed` it measures the device.
//!
//! Only plumbing: what is done with a message is in `serve.rs`. The end of standard input ends the
//! process, so it never outlives the app, whatever its stage or its device's driver does.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use crossbeam_channel::bounded;
use safelight_core::job::DeviceChoice;
use safelight_core::protocol::{EngineCommand, read_frame, write_frame};
use safelight_engine::bench::load::{self, LoadArguments};
use safelight_engine::bench::step_cache::{self, StepCacheArguments};
use safelight_engine::bench::ways::{self, Ways, WaysArguments};
use safelight_engine::bench::{self, BenchArguments, BenchError};
use safelight_engine::fault::kill_this_process;
use safelight_engine::kernels;
use safelight_engine::probe::{self, ProbeArguments};
use safelight_engine::runtime::Runtime;
use safelight_engine::serve::{Outgoing, serve};
use safelight_engine::speed;

/// How long a stage has to notice that the app is gone.
const GRACE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    if let Some(code) = other_work() {
        return code;
    }
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("SAFELIGHT_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .with_ansi(false)
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            tracing::error!("{err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures or probes where the first argument asks for it.
fn other_work() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next()?.as_str() {
        "probe" => Some(measured(|out| {
            probe::run(&ProbeArguments::parse(arguments)?, out)
        })),
        "probe-speed" => Some(measured(|out| {
            let device = device(arguments);
            let device = device.map_err(|err| BenchError::Arguments(format!("{err:#}")))?;
            speed::run(device, out).map(|()| true)
        })),
        "bench" => {
            let mut arguments = arguments.peekable();
            let family = arguments.peek().cloned().unwrap_or_default();
            Some(if let Some(ways) = Ways::from_name(&family) {
                let arguments = arguments.skip(1);
                measured(|out| ways::run(ways, &WaysArguments::parse(ways, arguments)?, out))
            } else if family == "step-cache" {
                let arguments = arguments.skip(1);
                measured(|out| step_cache::run(&StepCacheArguments::parse(arguments)?, out))
            } else if family == "load" {
                measured(|out| load::run(&LoadArguments::parse(arguments.skip(1))?, out))
            } else {
                measured(|out| bench::run(&BenchArguments::parse(arguments)?, out))
            })
        }
        _ => None,
    }
}

/// Measures, speaks no protocol and serves nobody.
fn measured(measure: impl FnOnce(&mut File) -> Result<bool, BenchError>) -> ExitCode {
    let result = private_stdout().map_err(BenchError::from);
    match result.and_then(|mut output| measure(&mut output)) {
        Ok(all_well) => ExitCode::from(u8::from(!all_well)),
        Err(err) => {
            // Where standard error is closed, the code still says it.
            writeln!(std::io::stderr(), "error: {err}").ok();
            ExitCode::from(err.exit_code())
        }
    }
}

fn run() -> anyhow::Result<()> {
    let Arguments {
        device,
        check_kernels,
    } = parse(std::env::args().skip(1))?;
    if check_kernels {
        return report_kernels(device);
    }
    let output = private_stdout().context("the standard output cannot be set aside")?;
    let (command_sender, commands) = bounded(4);
    let (messages, message_receiver) = bounded::<Outgoing>(64);

    let writer = thread::Builder::new()
        .name("engine-writer".to_owned())
        .spawn(move || {
            let mut output = BufWriter::new(output);
            for (message, payload) in message_receiver {
                if write_frame(&mut output, &message, &payload).is_err() {
                    break; // The app is gone; the end of standard input says so too.
                }
            }
        })?;
    thread::Builder::new()
        .name("engine-reader".to_owned())
        .spawn(move || {
            let mut input = BufReader::new(std::io::stdin().lock());
            loop {
                match read_frame::<EngineCommand>(&mut input) {
                    Ok(Some((command, _))) => {
                        if command_sender.send(command).is_err() {
                            break;
                        }
                    }
                    Ok(None) => break,
                    Err(err) => {
                        tracing::error!("the app's message cannot be read: {err}");
                        break;
                    }
                }
            }
            drop(command_sender); // `serve` cancels what runs and returns.
            end_at_the_latest();
        })?;

    let is_refused = !serve(device, &commands, messages);
    if is_refused {
        // The refusal is the last message; it must be out before the process ends.
        writer.join().ok();
    }
    Ok(())
}

/// Ends the process unless `main` returned and ended it in time.
///
/// A stage, or the opening of a device, can hang in a driver for ever. Returning from `main` beside it
/// would run libtorch's destructors against threads that still use what they destroy: a crash, or
/// one more place to hang. A process that is killed runs none, and nothing in it is worth keeping.
fn end_at_the_latest() {
    thread::sleep(GRACE);
    kill_this_process();
}

/// `--device auto|cpu|cuda:N`, and for developers `--check-kernels`.
#[derive(Default)]
struct Arguments {
    device: DeviceChoice,
    check_kernels: bool,
}

/// `--device` alone.
fn device(arguments: impl Iterator<Item = String>) -> anyhow::Result<DeviceChoice> {
    let parsed = parse(arguments)?;
    anyhow::ensure!(
        !parsed.check_kernels,
        "expected --device DEVICE, found --check-kernels"
    );
    Ok(parsed.device)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let mut parsed = Arguments::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check-kernels" => parsed.check_kernels = true,
            "--device" if let Some(value) = arguments.next() => {
                parsed.device = value.parse().map_err(anyhow::Error::msg)?;
            }
            _ => {
                anyhow::bail!("expected --device DEVICE, found {argument}; start safelight instead")
            }
        }
    }
    Ok(parsed)
}

/// Prints whether our own kernels work on the device and what they gain, and serves nobody.
fn report_kernels(device: DeviceChoice) -> anyhow::Result<()> {
    let runtime = Runtime::open(device)?;
    let report = kernels::report(runtime.device);
    let text = serde_json::to_string_pretty(&report)?;
    writeln!(std::io::stdout(), "{text}").context("the report cannot be written")
}

/// Standard output under a descriptor of its own; whatever a library prints goes to standard error,
/// never between two frames.
fn private_stdout() -> std::io::Result<File> {
    let own = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(File::from(own))
}
