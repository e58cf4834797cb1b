//! Somebody whose home is a scratch folder: starts Safelight in it, sees what lies there and which processes are theirs.
//!
//! Kills nothing and judges nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use safelight_core::job::{JobError, JobErrorKind};
use serde_json::Value;

/// Nothing that is asked for here takes longer, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

pub(super) type Result<T> = std::result::Result<T, JobError>;

pub(super) fn broken(what: impl Into<String>) -> JobError {
    JobError::new(JobErrorKind::Internal, what)
}

pub(super) fn disk(err: &std::io::Error, path: &Path) -> JobError {
    JobError::new(JobErrorKind::Disk, format!("{err}: {}", path.display()))
}

/// Has a shell enter the group of its first argument and become the program of the others.
pub(super) const INTO_GROUP: &str = r#"echo $$ > "$0" && exec "$@""#;

pub(super) struct User {
    pub(super) home: PathBuf,
    /// The file that takes processes into the group in which the program runs, if any.
    pub(super) group: Option<PathBuf>,
    /// More variables for the program.
    pub(super) variables: Vec<(&'static str, OsString)>,
    program: PathBuf,
    /// Where downloads come from.
    server: String,
}

impl User {
    /// A home in this folder, for the program that lies beside this executable.
    pub(super) fn at(home: PathBuf, server: &str) -> Result<Self> {
        let own = std::env::current_exe().map_err(|err| disk(&err, Path::new("/proc/self/exe")))?;
        let program = own.with_file_name("safelight");
        if !program.exists() {
            let what = format!(
                "there is no {}; `cargo xtask run -- --version` builds it",
                program.display()
            );
            return Err(broken(what));
        }
        let server = server.to_owned();
        let user = Self {
            home,
            group: None,
            variables: Vec::new(),
            program,
            server,
        };
        user.clean()?;
        Ok(user)
    }

    /// Makes the home as it was at first: empty but for a picture that was finished long ago.
    pub(super) fn clean(&self) -> Result<()> {
        match fs::remove_dir_all(&self.home) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(disk(&err, &self.home));
            }
            _ => {}
        }
        self.settle()
    }

    /// Lays what the home has at first.
    pub(super) fn settle(&self) -> Result<()> {
        let out = self.home.join("out");
        fs::create_dir_all(&out).map_err(|err| disk(&err, &out))?;
        self.write("out/finished long ago.png", b"whatever it is, it stays")
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.home.join(name);
        let folder = path.parent().unwrap_or(&self.home);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|err| disk(&err, &path))
    }

    pub(super) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = match &self.group {
            None => Command::new(&self.program),
            Some(group) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", INTO_GROUP]).arg(group).arg(&self.program);
                shell
            }
        };
        command
            .args(arguments)
            .envs(self.variables.iter().cloned())
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("XDG_DATA_HOME", self.home.join("data"))
            .env("XDG_CACHE_HOME", self.home.join("cache"))
            .env("XDG_STATE_HOME", self.home.join("state"))
            .env("XDG_RUNTIME_DIR", &self.home)
            .env("XDG_VIDEOS_DIR", self.home.join("videos"))
            .env("XDG_PICTURES_DIR", self.home.join("pictures"))
            .env("HF_ENDPOINT", &self.server)
            // Where there is no session bus, whatever opens a folder would start one, and that stays.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env_remove("HF_HOME")
            .env_remove("HF_HUB_CACHE")
            // Results are compared byte for byte.
            .env("OMP_NUM_THREADS", "1")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("SAFELIGHT_ENGINE_FAULT")
            .current_dir(self.home.join("out"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the program; what it says goes to a file outside of the home.
    pub(super) fn start(&self, arguments: &[impl AsRef<OsStr>]) -> Result<Running> {
        let said = self.home.with_extension("said");
        let open = || {
            Ok((
                File::create(&said)?,
                File::create(said.with_extension("errors"))?,
            ))
        };
        let (output, errors) = open().map_err(|err: std::io::Error| disk(&err, &said))?;
        let child = self
            .command(arguments)
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = child.map_err(|err| disk(&err, &self.program))?;
        Ok(Running { child, said })
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Result<Ended> {
        self.start(arguments)?.end()
    }

    /// The processes that have this home.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let mut wanted = b"HOME=".to_vec();
        wanted.extend(self.home.as_os_str().as_bytes());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has_home = |pid: &i32| {
            // One that ended has none.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted)
        };
        pids.filter(has_home).filter_map(Pid::from_raw).collect()
    }

    /// The process of the engine, while there is one.
    pub(super) fn engine(&self) -> Option<Pid> {
        let is_engine = |pid: &Pid| {
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
            name.is_ok_and(|name| name.starts_with("safelight-engin"))
        };
        self.processes().into_iter().find(is_engine)
    }

    /// The names of processes of this home that are not gone within some seconds. They are ended, so that they are told
    /// of once.
    pub(super) fn staying(&self) -> Option<String> {
        let begin = Instant::now();
        let mut left = self.processes();
        while !left.is_empty() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
            left = self.processes();
        }
        let names = left.iter().map(|pid| {
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
            kill_process(*pid, Signal::KILL).ok();
            name.unwrap_or_default().trim().to_owned()
        });
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Every file below the home, by its path in it; one stands for all jobs' own files of a name.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(&self.home) {
                    // A socket has no bytes.
                    files.insert(unnumbered(name), fs::read(&path).unwrap_or_default());
                }
            }
        }
        files
    }
}

/// The name with a job's number in it left out: every job has another.
fn unnumbered(name: &Path) -> PathBuf {
    let is_number = |part: &str| part.len() > 12 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.iter().map(|part| {
        let text = part.to_string_lossy();
        match text.split_once('.') {
            Some((stem, end)) if is_number(stem) => format!("N.{end}"),
            None if is_number(&text) => "N".to_owned(),
            _ => text.into_owned(),
        }
    });
    parts.collect()
}

/// A program that was started.
pub(super) struct Running {
    pub(super) child: Child,
    said: PathBuf,
}

/// What a program said, and how it ended.
pub(super) struct Ended {
    /// None where a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) events: Vec<Value>,
    pub(super) errors: String,
}

impl Running {
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has said so far.
    pub(super) fn events(&self) -> Vec<Value> {
        let said = fs::read(&self.said).unwrap_or_default();
        // The last line of a killed program may be half of one.
        let lines = said.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    /// Waits for its end; an error where that does not come.
    pub(super) fn end(mut self) -> Result<Ended> {
        let begin = Instant::now();
        let status = loop {
            let asked = self
                .child
                .try_wait()
                .map_err(|err| disk(&err, &self.said))?;
            if let Some(status) = asked {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                // It may end in this moment.
                self.child.kill().ok();
                self.child.wait().ok();
                return Err(broken("the program hangs"));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let errors = fs::read(self.said.with_extension("errors")).unwrap_or_default();
        Ok(Ended {
            code: status.code(),
            events: self.events(),
            errors: String::from_utf8_lossy(&errors).into_owned(),
        })
    }
}

impl Ended {
    pub(super) fn count(&self, kind: &str) -> usize {
        self.events
            .iter()
            .filter(|event| event["event"] == kind)
            .count()
    }
}
