//! The engine as a child process: found, started with its runtime's library path and environment, and connected by
//! three threads to its standard streams.
//!
//! Knows nothing of stages or jobs.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::protocol::{EngineCommand, read_frame, write_frame};
use safelight_core::settings::{
    AppPaths, ENGINES, EngineBuild, InstallationKind, LIBTORCH_VERSION, LibtorchRuntime,
    RuntimeMissing, RuntimeProblem, RuntimeSettings, Settings, own_runtime,
};
use tracing::Level;

use super::amd::{driver_versions, other_modes};
use super::environment::{self, EngineTarget};
use super::link::{
    EngineControl, EngineLauncher, EngineLink, ExitReport, IncomingMessage, ProbeOrder,
};
use crate::child::{StderrLines, keep_lines, kept_text};
use crate::telemetry::{SystemRoots, amdgpu};

/// Last lines of the engine that are kept for a report.
const KEPT_LINES: usize = 40;
/// Time limit for the exit of an engine whose streams are closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time limit for the exit of an engine that is no longer needed.
const GOODBYE: Duration = Duration::from_millis(300);
const SIGKILL: i32 = 9;

/// Finds the runtime and its settings anew for each start, so that a changed one counts for the next job.
pub type FindRuntime =
    Box<dyn FnMut() -> (RuntimeSettings, Result<LibtorchRuntime, RuntimeMissing>) + Send>;

/// Starts `safelight-engine` processes.
pub struct ProcessLauncher {
    /// In place of the one for the runtime's version.
    executable: Option<PathBuf>,
    find_runtime: FindRuntime,
    /// Additional environment variables.
    variables: Vec<(&'static str, String)>,
    /// Fastest mode in a probe.
    miopen: MiopenMode,
}

impl ProcessLauncher {
    /// Launches the engines next to this executable, or the one that `SAFELIGHT_ENGINE` names.
    pub fn new(find_runtime: FindRuntime) -> Self {
        Self {
            executable: None,
            find_runtime,
            variables: Vec::new(),
            miopen: MiopenMode::default(),
        }
    }

    /// On the runtime that the settings file names at the moment of each start.
    pub fn of_user(paths: &AppPaths) -> Self {
        let file = paths.settings_file();
        Self::with_settings(move || Settings::load(&file).settings, paths)
    }

    /// On the runtime that these settings name at the moment of each start.
    pub fn with_settings(
        settings: impl Fn() -> Settings + Send + 'static,
        paths: &AppPaths,
    ) -> Self {
        let cache = paths.cache.clone();
        Self::new(Box::new(move || {
            let settings = settings();
            let found = own_runtime(&settings, &cache);
            (settings.runtime, found)
        }))
    }

    /// Starts this executable as the engine.
    pub fn set_executable(&mut self, executable: PathBuf) {
        self.executable = Some(executable);
    }

    /// For every engine from here on.
    pub fn set_variable(&mut self, name: &'static str, value: String) {
        self.variables.push((name, value));
    }

    /// The engine for its runtime with the library path and the environment that its runtime and device need, without any argument.
    pub fn command(&mut self, device: DeviceChoice) -> Result<Command, JobError> {
        let (settings, runtime) = (self.find_runtime)();
        let runtime = runtime.map_err(|err| {
            let or_get = InstallationKind::of_this_program().or_get_libtorch();
            JobError::from_error(JobErrorKind::Device, &err)
                .advise(format!("Choose a libtorch {LIBTORCH_VERSION} folder in the setting runtime.libtorch, {or_get}"))
        })?;
        let executable = match &self.executable {
            Some(executable) => executable.clone(),
            None => engine_for(&runtime)?,
        };
        let mut command = Command::new(executable);
        command.env(
            "LD_LIBRARY_PATH",
            runtime.library_path(std::env::var_os("LD_LIBRARY_PATH")),
        );
        let target = EngineTarget {
            miopen: self.miopen,
            ..EngineTarget::find(&SystemRoots::of_this_machine(), &runtime, device)
        };
        let variables = environment::variables(&target, &settings, &environment::inherited());
        environment::apply(&variables, &mut command);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// Why [`ProcessLauncher::command`] could not be started.
pub fn not_started(command: &Command, err: &io::Error) -> JobError {
    let executable = command.get_program().display();
    JobError::new(
        JobErrorKind::Internal,
        format!("the engine could not be started: {err}: {executable}"),
    )
    .advise(InstallationKind::of_this_program().engine_advice())
}

/// The executable of the engine for a libtorch, or why there is none. Whether the first engine, which every installation
/// has, is really there is left to whoever starts it.
pub fn engine_for(runtime: &LibtorchRuntime) -> Result<PathBuf, JobError> {
    if let Some(named) = named_engine() {
        return Ok(named);
    }
    let Some(engine) = runtime.engine() else {
        let concern = runtime.concerns(&[]).into_iter().next();
        let (what, advice) = concern.map(|it| (it.what, it.advice)).unwrap_or_default();
        return Err(JobError::new(JobErrorKind::Device, what).advise(advice));
    };
    if has_engine(engine) {
        return Ok(engine_executable(engine));
    }
    let EngineBuild {
        libtorch,
        executable,
    } = engine;
    let what = format!("the engine for libtorch {libtorch} ({executable}) is not installed");
    let get = InstallationKind::of_this_program().second_engine_advice();
    Err(JobError::new(JobErrorKind::Device, what).advise(format!(
        "{get}, or choose a libtorch {LIBTORCH_VERSION} in the setting runtime.libtorch"
    )))
}

/// The versions of libtorch for which an engine is here.
pub fn served_versions() -> Vec<&'static str> {
    let here = ENGINES.iter().filter(|engine| has_engine(engine));
    here.map(|engine| engine.libtorch).collect()
}

fn has_engine(engine: &EngineBuild) -> bool {
    *engine == ENGINES[0] || engine_executable(engine).is_file()
}

/// The one that a variable names serves every libtorch.
fn named_engine() -> Option<PathBuf> {
    std::env::var_os("SAFELIGHT_ENGINE").map(PathBuf::from)
}

/// Expected path of an engine's executable.
pub fn engine_executable(engine: &EngineBuild) -> PathBuf {
    if let Some(named) = named_engine() {
        return named;
    }
    let beside = std::env::current_exe()
        .unwrap_or_default()
        .with_file_name(engine.executable);
    // A test's executable is one folder deeper.
    let above = beside
        .parent()
        .and_then(Path::parent)
        .map(|dir| dir.join(engine.executable));
    match above {
        Some(above) if !beside.exists() && above.exists() => above,
        _ => beside,
    }
}

impl EngineLauncher for ProcessLauncher {
    fn runtime(&mut self) -> Option<PathBuf> {
        (self.find_runtime)().1.ok().map(|runtime| runtime.lib)
    }

    fn environment(&mut self) -> String {
        let RuntimeSettings {
            allocator,
            verbose_miopen,
            environment,
            ..
        } = (self.find_runtime)().0;
        format!("{allocator:?} {verbose_miopen} {environment:?}")
    }

    fn concerns(&mut self) -> Vec<RuntimeProblem> {
        let Ok(runtime) = (self.find_runtime)().1 else {
            return Vec::new();
        };
        runtime.concerns(&amdgpu::targets(&SystemRoots::of_this_machine().sysfs))
    }

    fn probe(&mut self, mode: MiopenMode) -> Option<ProbeOrder> {
        let (settings, runtime) = (self.find_runtime)();
        let runtime = runtime.ok()?;
        // Elsewhere it is known which convolutions work.
        if runtime.kind() != "rocm" {
            return None;
        }
        let before = std::mem::replace(&mut self.miopen, mode);
        let command = self.command(DeviceChoice::Auto);
        self.miopen = before;
        Some(ProbeOrder {
            command: command.ok()?,
            driver: driver_versions(&runtime),
            libtorch: runtime.version().unwrap_or_default(),
            others: other_modes(&settings, &environment::inherited(), runtime.rocm()),
        })
    }

    fn set_miopen(&mut self, mode: MiopenMode) -> bool {
        std::mem::replace(&mut self.miopen, mode) != mode
    }

    fn launch(&mut self, device: DeviceChoice) -> Result<EngineLink, JobError> {
        let mut command = self.command(device)?;
        command
            .args(["--device", &device.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the app, which tells the engine in its own way.
            .process_group(0);
        let oom_kills = oom_kills();
        let mut child = command.spawn().map_err(|err| not_started(&command, &err))?;
        connect(&mut child)
            .map_err(|err| {
                child.kill().ok();
                JobError::from_error(JobErrorKind::Internal, &err)
            })
            .map(|(commands, messages, lines, recorder)| EngineLink {
                commands,
                messages,
                control: Box::new(ProcessControl {
                    child: Some(child),
                    lines,
                    recorder: Some(recorder),
                    oom_kills,
                }),
            })
    }
}

type EngineConnection = (
    Sender<EngineCommand>,
    Receiver<IncomingMessage>,
    Arc<StderrLines>,
    JoinHandle<()>,
);

fn connect(child: &mut Child) -> io::Result<EngineConnection> {
    let missing = || io::Error::other("a stream of the engine is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let (commands, command_receiver) = bounded(4);
    let (message_sender, messages) = bounded(64);
    let lines = Arc::<StderrLines>::default();
    let kept = Arc::clone(&lines);
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        thread::Builder::new().name(name.to_owned()).spawn(body)
    };
    spawn(
        "engine-stdin",
        Box::new(move || write_commands(stdin, &command_receiver)),
    )?;
    spawn(
        "engine-stdout",
        Box::new(move || read_messages(stdout, &message_sender)),
    )?;
    let recorder = spawn(
        "engine-stderr",
        Box::new(move || keep_lines(stderr, &kept, KEPT_LINES, log_engine_line)),
    )?;
    Ok((commands, messages, lines, recorder))
}

/// Repeats a line of the engine's standard error in the log.
fn log_engine_line(line: &str) {
    match level_and_text(line) {
        (Level::ERROR, text) => tracing::error!(target: "engine", "{text}"),
        (Level::WARN, text) => tracing::warn!(target: "engine", "{text}"),
        (Level::INFO, text) => tracing::info!(target: "engine", "{text}"),
        (Level::DEBUG, text) => tracing::debug!(target: "engine", "{text}"),
        (Level::TRACE, text) => tracing::trace!(target: "engine", "{text}"),
    }
}

/// The level that follows the time in a line of the engine's log, and the text after it. Lines of libraries have
/// neither; they are information.
fn level_and_text(line: &str) -> (Level, &str) {
    let parts = || {
        let (_time, rest) = line.split_once(' ')?;
        let (level, text) = rest.trim_start().split_once(' ')?;
        Some((level.parse().ok()?, text))
    };
    parts().unwrap_or((Level::INFO, line))
}

fn write_commands(stdin: ChildStdin, commands: &Receiver<EngineCommand>) {
    let mut stdin = BufWriter::new(stdin);
    for command in commands {
        if write_frame(&mut stdin, &command, &[]).is_err() {
            break; // The engine is gone; its closed messages say so.
        }
    }
}

fn read_messages(stdout: ChildStdout, messages: &Sender<IncomingMessage>) {
    let mut stdout = BufReader::with_capacity(1 << 20, stdout);
    loop {
        match read_frame(&mut stdout) {
            Ok(Some(incoming)) => {
                if messages.send(incoming).is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(err) => {
                tracing::debug!("the connection to the engine broke: {err}");
                break;
            }
        }
    }
}

struct ProcessControl {
    /// Gone once it was waited for, or left to a reaper.
    child: Option<Child>,
    lines: Arc<StderrLines>,
    /// Ends when the engine's standard error does.
    recorder: Option<JoinHandle<()>>,
    /// Out-of-memory kills of the system before this process started.
    oom_kills: u64,
}

impl ProcessControl {
    /// Waits until the process is gone, `limit` at most.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.as_mut()?.try_wait() {
                Ok(Some(status)) => {
                    self.child = None;
                    return Some(status);
                }
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl EngineControl for ProcessControl {
    fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            crate::child::end(child);
        }
    }

    fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn last_words(&mut self) -> ExitReport {
        let status = self.wait(EXIT_GRACE);
        if status.is_none() {
            self.kill();
        }
        if let Some(recorder) = self.recorder.take().filter(|_| status.is_some()) {
            recorder.join().ok();
        }
        let signal = status.and_then(|status| status.signal());
        let how = match (signal, status.and_then(|status| status.code())) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "it closed its connection but kept running".to_owned(),
        };
        let said = kept_text(&self.lines);
        ExitReport {
            text: format!("the engine process ended: {how}\n{said}"),
            is_out_of_memory: signal == Some(SIGKILL) && oom_kills() > self.oom_kills,
        }
    }
}

impl Drop for ProcessControl {
    /// A healthy engine exits at the end of its standard input; others are killed.
    fn drop(&mut self) {
        if self.wait(GOODBYE).is_none() {
            self.kill();
        }
    }
}

/// Out-of-memory kills of the system since it started.
fn oom_kills() -> u64 {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    vmstat
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_engine_is_logged_at_its_own_level() {
        let line = "2026-01-01T00:00:00.000000Z  WARN safelight_engine::memory: no memory";
        let expected = (Level::WARN, "safelight_engine::memory: no memory");
        assert_eq!(level_and_text(line), expected);
        let plain = "MIOpen(HIP): Warning: no 12 kernels";
        assert_eq!(level_and_text(plain), (Level::INFO, plain));
        assert_eq!(level_and_text(""), (Level::INFO, ""));
    }
}
