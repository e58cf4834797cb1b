//! The engine's process: frames in over standard input, frames out over standard output. With `probe` as its first
//! argument it tries what may hang, with `probe-speed` it measures the device, with `try` it tries whether that computes
//! right, with `bench` it measures networks and loading, and with `compile-kernels` it compiles where
//! AMD's compiler may end it.
//!
//! Only plumbing: what is done with a message is in `serve.rs`. The end of standard input ends the process, so it never
//! outlives the app, whatever its stage or its device's driver does.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::Mode;
use rustix::process::{Signal, getpid, getppid, kill_process};
use safelight_core::job::DeviceChoice;
use safelight_core::protocol::{EngineCommand, OutgoingMessage, read_frame, write_frame};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::bench;
use crate::error::ProcessError;
use crate::kernels::{self, child_compiler};
use crate::probe;
use crate::self_test;
use crate::serve::serve;
use crate::speed;

/// Time that a stage has to notice that the app is gone.
const GRACE: Duration = Duration::from_secs(2);

/// Interval at which work without a protocol checks that its parent is alive.
const PARENT_WATCH: Duration = Duration::from_millis(500);

pub fn main() -> ExitCode {
    // Files in a job's folder may contain its prompt.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("probe") => answer(|out| probe::run(&bench::read(arguments.skip(1))?, out)),
        Some("probe-speed") => {
            answer(|out| speed::run(device_of(arguments.skip(1))?, out).map(|()| true))
        }
        Some("bench") => answer(|out| bench::run(arguments.skip(1), out)),
        Some(child_compiler::COMMAND) => answer(|out| child_compiler::run(arguments.skip(1), out)),
        Some("try") => answer(|out| self_test::run(device_of(arguments.skip(1))?, out)),
        _ => serve_the_app(arguments),
    }
}

/// Runs one piece of work that writes its results to standard output and uses no protocol. The work returns whether all
/// succeeded. It ends together with its parent.
pub fn answer<E: Into<ProcessError>>(work: impl FnOnce(&mut File) -> Result<bool, E>) -> ExitCode {
    end_with_the_parent();
    let result = private_stdout().and_then(|mut output| work(&mut output).map_err(Into::into));
    match result {
        Ok(all_well) => ExitCode::from(u8::from(!all_well)),
        Err(err) => {
            // If standard error is closed, the exit code still reports it.
            writeln!(io::stderr(), "error: {err}").ok();
            ExitCode::from(err.exit_code())
        }
    }
}

/// Ends this process when its parent is gone: no standard input reports that, and long measurements must not continue
/// without a reader.
fn end_with_the_parent() {
    let parent = getppid();
    let watch = move || {
        while getppid() == parent {
            thread::sleep(PARENT_WATCH);
        }
        kill_this_process();
    };
    let started = thread::Builder::new()
        .name("engine-parent".to_owned())
        .spawn(watch);
    // Without it the work is done all the same.
    drop(started);
}

/// `--device auto|cpu|cuda:N` and nothing else.
pub fn device_of(
    mut arguments: impl Iterator<Item = String>,
) -> Result<DeviceChoice, ProcessError> {
    let mut device = DeviceChoice::default();
    while let Some(argument) = arguments.next() {
        let value = if argument == "--device" {
            arguments.next()
        } else {
            None
        };
        let Some(value) = value else {
            let text =
                format!("expected --device DEVICE, found {argument}; start safelight instead");
            return Err(ProcessError::Arguments(text));
        };
        device = value.parse().map_err(ProcessError::Arguments)?;
    }
    Ok(device)
}

fn serve_the_app(arguments: impl Iterator<Item = String>) -> ExitCode {
    let levels = std::env::var("SAFELIGHT_LOG").ok();
    let levels = levels.filter(|levels| !levels.is_empty());
    let levels: Option<Targets> = levels.and_then(|levels| levels.parse().ok());
    tracing_subscriber::registry()
        .with(levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)))
        .with(fmt::layer().with_writer(io::stderr).with_ansi(false))
        .init();
    match device_of(arguments).and_then(serve_over_standard_streams) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            tracing::error!("{err}");
            ExitCode::FAILURE
        }
    }
}

fn serve_over_standard_streams(device: DeviceChoice) -> Result<(), ProcessError> {
    let output = private_stdout()?;
    let (command_sender, commands) = bounded(4);
    let (messages, message_receiver) = bounded::<OutgoingMessage>(64);
    let no_thread = |err: io::Error| ProcessError::Failed(format!("a thread cannot start: {err}"));
    let writer = thread::Builder::new()
        .name("engine-writer".to_owned())
        .spawn(move || write_messages(output, message_receiver))
        .map_err(no_thread)?;
    thread::Builder::new()
        .name("engine-reader".to_owned())
        .spawn(move || {
            read_commands(&command_sender);
            drop(command_sender); // `serve` cancels what runs and returns.
            end_at_the_latest();
        })
        .map_err(no_thread)?;

    let is_refused = !serve(device, &commands, messages);
    if is_refused {
        // The refusal is the last message; it must be out before the process ends.
        writer.join().ok();
    }
    Ok(())
}

fn write_messages(output: File, messages: Receiver<OutgoingMessage>) {
    let mut output = BufWriter::new(output);
    for (message, payload) in messages {
        if write_frame(&mut output, &message, &payload).is_err() {
            break; // The app is gone; the end of standard input says so too.
        }
    }
}

fn read_commands(commands: &Sender<EngineCommand>) {
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        match read_frame::<EngineCommand>(&mut input) {
            Ok(Some((command, _))) => {
                if commands.send(command).is_err() {
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
}

/// Ends the process unless `main` has returned and ended it in time.
///
/// A stage, or the opening of a device, can hang in a driver for ever. Returning from `main` meanwhile would run
/// libtorch's destructors against threads that still use what they destroy: a crash, or one more place to hang. A
/// killed process runs none, and nothing in it is worth keeping.
fn end_at_the_latest() {
    thread::sleep(GRACE);
    kernels::forget_tries();
    kill_this_process();
}

/// Ends this process at once: no destructor runs and nothing can hold it back.
pub(crate) fn kill_this_process() {
    let _gone = kill_process(getpid(), Signal::KILL);
}

/// Duplicate of standard output; anything that a library prints goes to standard error, never between two frames.
fn private_stdout() -> Result<File, ProcessError> {
    let set_aside = || {
        let own = rustix::io::dup(rustix::stdio::stdout())?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(File::from(own))
    };
    set_aside().map_err(|err: io::Error| {
        ProcessError::Failed(format!("the standard output cannot be set aside: {err}"))
    })
}
