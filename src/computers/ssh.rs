//! A connection by the user's own ssh, and a sentence for each way in which it fails.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::protocol::{read_frame, write_frame};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::relay::WORKER_ENDED;
use super::{ClientMessage, ComputerInfo, HostMessage, PROTOCOL, VERSION, spawn};
use crate::child::{StderrLines, end, keep_lines, kept_text};

/// Programs of the user go before those of the system; the same text for each kind of shell.
const REMOTE_PATH: &str = r#"env PATH="$HOME/.local/bin:$PATH""#;
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
];
/// Time until the other computer has found its models.
const HELLO_WITHIN: Duration = Duration::from_mins(2);
/// Time for ssh to exit after its output has ended.
const EXIT_WITHIN: Duration = Duration::from_millis(500);
const KEPT_LINES: usize = 40;
const POLL: Duration = Duration::from_millis(50);

/// `ssh HOST COMMAND`; `SAFELIGHT_SSH` names another program with the same arguments.
pub(super) fn command(host: &str, remote: &str) -> Command {
    let program = std::env::var_os("SAFELIGHT_SSH").filter(|name| !name.is_empty());
    let mut command = Command::new(program.unwrap_or_else(|| "ssh".into()));
    command.args(OPTIONS).arg("--").arg(host);
    command.arg(format!("{REMOTE_PATH} {remote}"));
    command
}

/// Why there is no connection, or no longer one.
#[derive(Clone, Debug)]
pub(super) struct ConnectionError {
    pub(super) error: JobError,
    /// Another attempt cannot succeed before the user changes something.
    pub(super) is_permanent: bool,
}

/// Words of ssh or of the shell there, with the sentence after the computer's name, advice, and whether it stays so.
/// `HOST` in the advice is the computer. The first that fits counts.
const FAILURES: &[(&str, &str, &str, bool)] = &[
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED|has changed and you have requested",
        "has another host key than before",
        "If it was reinstalled, remove the old key with `ssh-keygen -R` and the name that ssh uses for it; otherwise another computer may be answering in its place",
        true,
    ),
    (
        "Host key verification failed",
        "has a host key that this computer does not know yet",
        "Run `ssh HOST` once in a terminal, compare the key and accept it",
        true,
    ),
    (
        "Permission denied",
        "accepts none of your ssh keys",
        "Copy a key there with `ssh-copy-id HOST`, or add its key to the ssh agent; passwords are not asked for",
        true,
    ),
    (
        "Could not resolve hostname",
        "is not known by this name",
        "Check the name, or add it to ~/.ssh/config",
        true,
    ),
    (
        "Connection refused",
        "refuses ssh connections",
        "Start an ssh server there, or check the port in ~/.ssh/config",
        false,
    ),
    (
        "timed out|No route to host|Network is unreachable",
        "does not answer",
        "Check that it is on, and that both computers are connected to the network",
        false,
    ),
];

/// Explains how ssh ended. `said`: its standard error.
fn explain(host: &str, status: Option<ExitStatus>, said: &str) -> ConnectionError {
    let code = status.and_then(|status| status.code());
    let failure = |what: &str, advice: &str, is_permanent| {
        let error = JobError::new(JobErrorKind::Network, format!("{host} {what}"));
        ConnectionError {
            error: error.advise(advice.replace("HOST", host)).detail(said),
            is_permanent,
        }
    };
    let known = FAILURES
        .iter()
        .find(|(words, ..)| words.split('|').any(|words| said.contains(words)));
    match (code, known) {
        (Some(code), _) if code == i32::from(WORKER_ENDED) => failure(
            "has lost its worker: it was killed, or the computer is shutting down",
            "Run the job again: it continues from what is finished there",
            false,
        ),
        (Some(127), _) => failure(
            "has no Safelight",
            "Run `safelight computers install HOST`, or install it there by hand",
            true,
        ),
        (_, Some((_, what, advice, is_permanent))) => failure(what, advice, *is_permanent),
        (Some(2), None) => failure(
            "has another version of Safelight, without `safelight worker`",
            "Install the same version on both: `safelight computers install HOST`",
            true,
        ),
        _ => failure(
            "is no longer connected",
            "A job that runs there continues. If this does not change, check the network, and try `ssh HOST` in a terminal",
            false,
        ),
    }
}

/// Runs a command there, with the bytes of `input`, and returns what it printed.
pub fn run_there(host: &str, remote: &str, input: Stdio) -> Result<String, JobError> {
    let mut command = command(host, remote);
    let output = command.stdin(input).output().map_err(|err| no_ssh(&err))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(explain(host, Some(output.status), &said).error)
}

pub(super) fn no_ssh(err: &io::Error) -> JobError {
    let text = match err.kind() {
        io::ErrorKind::NotFound => "there is no ssh program on this computer".to_owned(),
        _ => format!("ssh cannot be started: {err}"),
    };
    JobError::new(JobErrorKind::Network, text).advise("Install the OpenSSH client")
}

type Received<T> = (T, Vec<u8>);

/// A running ssh, which ends when it is dropped.
pub(super) struct SshProcess {
    host: String,
    child: Option<Child>,
    said: Arc<StderrLines>,
}

impl SshProcess {
    /// Runs a command there, and returns its streams too.
    pub(super) fn start(
        host: &str,
        remote: &str,
    ) -> Result<(Self, ChildStdin, ChildStdout), ConnectionError> {
        let mut command = command(host, remote);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A key press that stops this program does not end the connection before it.
        command.stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|err| permanent(no_ssh(&err)))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = streams else {
            return Err(explain(host, None, ""));
        };
        let said = Arc::<StderrLines>::default();
        let kept = Arc::clone(&said);
        spawn("ssh-errors", move || {
            keep_lines(errors, &kept, KEPT_LINES, |line| {
                tracing::info!("ssh: {line}");
            });
        });
        let process = Self {
            host: host.to_owned(),
            child: Some(child),
            said,
        };
        Ok((process, input, output))
    }

    /// Explains the end of the connection.
    pub(super) fn failure(mut self) -> ConnectionError {
        let deadline = Instant::now() + EXIT_WITHIN;
        let mut status = None;
        while let Some(child) = &mut self.child
            && status.is_none()
            && Instant::now() < deadline
        {
            status = child.try_wait().ok().flatten();
            thread::sleep(POLL / 5);
        }
        explain(&self.host, status, &kept_text(&self.said))
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}

fn permanent(error: JobError) -> ConnectionError {
    ConnectionError {
        error,
        is_permanent: true,
    }
}

/// A connection with the worker of another computer.
pub(super) struct SshConnection {
    process: SshProcess,
    input: BufWriter<ChildStdin>,
    pub(super) messages: Receiver<Received<HostMessage>>,
}

impl SshConnection {
    /// Connects and takes the first message. `is_given_up` is polled.
    pub(super) fn open(
        host: &str,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<(Self, ComputerInfo), ConnectionError> {
        let (process, input, output) = SshProcess::start(host, "safelight worker --stdio")?;
        // Read as any JSON: another version may say something else.
        let (hellos, hello) = bounded(1);
        let (sender, messages) = bounded(64);
        spawn("ssh-output", move || {
            let mut output = BufReader::new(output);
            if pass::<Value>(&mut output, &hellos, true) {
                pass::<HostMessage>(&mut output, &sender, false);
            }
        });
        let connection = Self {
            process,
            input: BufWriter::new(input),
            messages,
        };
        let began = Instant::now();
        loop {
            match hello.recv_timeout(POLL) {
                Ok((value, _)) => {
                    let info = checked(host, value).map_err(permanent)?;
                    return Ok((connection, info));
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > HELLO_WITHIN => {
                    return Err(explain(host, None, "timed out"));
                }
                Err(RecvTimeoutError::Timeout) if !is_given_up() => {}
                Err(_) => return Err(connection.failure()),
            }
        }
    }

    pub(super) fn send(&mut self, message: &ClientMessage, bytes: &[u8]) -> io::Result<()> {
        write_frame(&mut self.input, message, bytes)
    }

    /// Explains the end of the connection.
    pub(super) fn failure(self) -> ConnectionError {
        self.process.failure()
    }
}

/// Passes on messages, or one, until the stream ends or no one receives them. Returns whether more can come.
fn pass<T: DeserializeOwned>(
    stream: &mut BufReader<impl io::Read>,
    sender: &Sender<Received<T>>,
    is_one: bool,
) -> bool {
    loop {
        match read_frame(stream) {
            Ok(Some(message)) => {
                if sender.send(message).is_err() {
                    return false;
                }
            }
            Ok(None) => return false,
            Err(err) => {
                tracing::warn!("the other computer said something that is no message: {err}");
                return false;
            }
        }
        if is_one {
            return true;
        }
    }
}

/// The first message, of a computer that speaks the same protocol.
fn checked(host: &str, value: Value) -> Result<ComputerInfo, JobError> {
    let hello = &value["Hello"];
    if hello.is_object() && (hello["protocol"] != PROTOCOL || hello["version"] != VERSION) {
        let version = hello["version"].as_str().unwrap_or("unknown");
        let protocol = &hello["protocol"];
        let what = format!(
            "{host} has Safelight {version} (protocol {protocol}), and this computer has {VERSION} (protocol {PROTOCOL})"
        );
        let advice = format!(
            "Install the same version on both: `safelight computers install {host}`. A job of the old version there ends first"
        );
        return Err(JobError::new(JobErrorKind::Network, what).advise(advice));
    }
    match serde_json::from_value(value) {
        Ok(HostMessage::Hello(info)) => Ok(*info),
        Ok(HostMessage::Refused(err)) => Err(named(host, err, None)),
        _ => {
            let what = format!("{host} does not answer as Safelight does");
            let advice = "Check that its shell prints nothing when it starts without a terminal";
            Err(JobError::new(JobErrorKind::Network, what).advise(advice))
        }
    }
}

/// An error of another computer. `folder`: the job's folder here, in the place of that there.
pub(super) fn named(host: &str, err: JobError, folder: Option<&Path>) -> JobError {
    JobError {
        summary: format!("on {host}: {}", err.summary),
        kept: folder.filter(|_| err.kept.is_some()).map(Path::to_owned),
        ..err
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn each_way_in_which_ssh_fails_has_its_sentence() {
        for (code, said, expected, is_permanent) in [
            (
                255,
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "me@box has another host key than before",
                true,
            ),
            (
                255,
                "Host key verification failed.",
                "me@box has a host key that this computer does not know yet",
                true,
            ),
            (
                255,
                "me@box: Permission denied (publickey).",
                "me@box accepts none of your ssh keys",
                true,
            ),
            (
                255,
                "ssh: Could not resolve hostname box: Name or service not known",
                "me@box is not known by this name",
                true,
            ),
            (
                255,
                "ssh: connect to host box port 22: Connection refused",
                "me@box refuses ssh connections",
                false,
            ),
            (
                255,
                "ssh: connect to host box port 22: Connection timed out",
                "me@box does not answer",
                false,
            ),
            (
                127,
                "env: 'safelight': No such file or directory",
                "me@box has no Safelight",
                true,
            ),
            (
                2,
                "error: unrecognized subcommand 'worker'",
                "me@box has another version of Safelight, without `safelight worker`",
                true,
            ),
            (
                i32::from(WORKER_ENDED),
                "",
                "me@box has lost its worker: it was killed, or the computer is shutting down",
                false,
            ),
            (
                255,
                "client_loop: send disconnect: Broken pipe",
                "me@box is no longer connected",
                false,
            ),
        ] {
            let status = ExitStatus::from_raw(code << 8);
            let found = explain("me@box", Some(status), said);
            assert_eq!(found.error.summary, expected);
            assert_eq!(found.is_permanent, is_permanent, "{expected}");
            assert!(!found.error.advice.is_empty(), "{expected}");
            assert!(!found.error.advice.contains("HOST"), "{expected}");
        }
    }

    #[test]
    fn another_version_is_refused_by_its_number_whatever_else_it_says() {
        let hello = serde_json::json!({"Hello": {"protocol": 99, "version": "9.9", "moons": 2}});
        let err = checked("me@box", hello).unwrap_err();
        assert!(
            err.summary
                .starts_with("me@box has Safelight 9.9 (protocol 99)"),
            "{err}"
        );
        let err = checked("me@box", serde_json::json!("Welcome!")).unwrap_err();
        assert!(
            err.summary.contains("does not answer as Safelight"),
            "{err}"
        );
    }
}
