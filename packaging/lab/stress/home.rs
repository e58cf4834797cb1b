//! Home folder of a test user: starts Safelight in it, lists its files and its processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Result;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// `cgroup.procs` of the cgroup in which programs start.
    pub(crate) cgroup: Option<PathBuf>,
    program: PathBuf,
    server: String,
}

/// Child process whose output is redirected to files next to the home folder.
pub(crate) struct Running {
    pub(crate) child: Child,
    output: PathBuf,
}

pub(crate) struct Ended {
    /// `None` after a signal.
    pub(crate) code: Option<i32>,
    /// JSON lines of standard output.
    pub(crate) events: Vec<Value>,
    pub(crate) errors: String,
}

impl Home {
    /// `server`: the address of downloads.
    pub(crate) fn at(path: PathBuf, server: &str) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("safelight");
        if !program.exists() {
            return Err(format!(
                "there is no {}; `cargo xtask run -- --version` builds it",
                program.display()
            )
            .into());
        }
        let server = server.to_owned();
        let home = Self {
            path,
            variables: Vec::new(),
            cgroup: None,
            program,
            server,
        };
        home.write("out/finished long ago.png", b"this stays as it is")?;
        Ok(home)
    }

    /// Empties the home but for an old result.
    pub(crate) fn clean(&self) -> Result<()> {
        fs::remove_dir_all(&self.path)?;
        self.write("out/finished long ago.png", b"this stays as it is")
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(fs::write(path, bytes)?)
    }

    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(group) = &self.cgroup {
            command = Command::new("sh");
            command
                .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
                .arg(group)
                .arg(&self.program);
        }
        for (name, folder) in [
            ("HOME", ""),
            ("XDG_RUNTIME_DIR", ""),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_VIDEOS_DIR", "videos"),
            ("XDG_PICTURES_DIR", "images"),
        ] {
            command.env(name, self.path.join(folder).components().as_path());
        }
        for name in [
            "HF_HOME",
            "HF_HUB_CACHE",
            "WAYLAND_DISPLAY",
            "SAFELIGHT_ENGINE_FAULT",
        ] {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .envs(self.variables.iter().cloned())
            .env("HF_ENDPOINT", &self.server)
            // Opening a folder would start a session bus that stays.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            // Results are compared byte for byte.
            .env("OMP_NUM_THREADS", "1")
            .current_dir(self.path.join("out"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    pub(crate) fn start(&self, mut command: Command) -> Result<Running> {
        let output = self.path.with_extension("output");
        let errors = File::create(output.with_extension("errors"))?;
        let child = command
            .stdout(File::create(&output)?)
            .stderr(errors)
            .spawn()?;
        Ok(Running { child, output })
    }

    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Result<Ended> {
        self.start(self.command(arguments))?.end()
    }

    /// Processes with this home in their environment.
    fn processes(&self) -> Vec<Pid> {
        let wanted = [b"HOME=", self.path.as_os_str().as_bytes()].concat();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has_home = |pid: &i32| {
            // A process that ended has no environment.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted)
        };
        pids.filter(has_home).filter_map(Pid::from_raw).collect()
    }

    pub(crate) fn engine(&self) -> Option<Pid> {
        self.processes()
            .into_iter()
            .find(|pid| process_name(*pid).starts_with("safelight-engin"))
    }

    /// Reports and ends processes that are still there after 20 s.
    pub(crate) fn orphans(&self, faults: &mut Vec<String>) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) && !self.processes().is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        for pid in self.processes() {
            faults.push(format!("orphan process: {}", process_name(pid)));
            kill_process(pid, Signal::KILL).ok();
        }
    }

    /// All files by their paths in the home; numbers of jobs in names are `N`.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(&self.path) {
                    // A socket has no bytes, and a file may go.
                    files.insert(unnumbered(name), fs::read(&path).unwrap_or_default());
                }
            }
        }
        files
    }
}

fn process_name(pid: Pid) -> String {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
    name.unwrap_or_default().trim().to_owned()
}

fn unnumbered(name: &Path) -> PathBuf {
    let parts = name.iter().map(|part| {
        let text = part.to_string_lossy();
        let (stem, end) = text.split_at(text.find('.').unwrap_or(text.len()));
        let is_number = stem.len() > 12 && stem.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            format!("N{end}")
        } else {
            text.into_owned()
        }
    });
    parts.collect()
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let output = fs::read(&self.output).unwrap_or_default();
        // The last line of a killed program may be incomplete.
        output
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    /// Waits for the end; a program that hangs is an error.
    pub(crate) fn end(mut self) -> Result<Ended> {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                self.child.kill()?;
                self.child.wait()?;
                return Err("the program hangs".into());
            }
            thread::sleep(Duration::from_millis(5));
        };
        let errors = fs::read(self.output.with_extension("errors"))?;
        Ok(Ended {
            code: status.code(),
            events: self.events(),
            errors: String::from_utf8_lossy(&errors).trim().to_owned(),
        })
    }
}

impl Ended {
    pub(crate) fn count(&self, event: &str) -> usize {
        self.events.iter().filter(|it| it["event"] == event).count()
    }
}
