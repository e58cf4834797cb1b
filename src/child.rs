//! Child process whose lines are read as they come, with a time limit.
//!
//! Never waits for ever: a process stuck in a driver, which no signal reaches, is left to a thread.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

/// Lines of complaint that are kept.
const KEPT_LINES: usize = 10;
/// Far longer than any line of the engine. A longer one comes in parts, which no caller recognises.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Interval of cancellation checks while the program is silent.
const WATCH: Duration = Duration::from_millis(25);
/// Time for a killed program, or one whose output is closed, to exit.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The last lines of a program's standard error.
pub type StderrLines = Mutex<VecDeque<String>>;

/// Exit of a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// By itself, and content.
    Well,
    /// By itself, or by a signal; with what it said on the way.
    Badly { how: String, complaint: String },
    /// Not within its time.
    TooLate { secs: u64 },
    /// Nobody wants to know any more.
    Cancelled,
}

/// Runs it with a closed standard input and tells every line of its standard output.
pub fn run(
    command: Command,
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> ChildExit {
    run_in_parts(command, limit, is_cancelled, &mut |line| {
        tell(line);
        None
    })
}

/// Like `run`, for a program that reports its phase: the result of `tell` is the time limit from that line on.
pub fn run_in_parts(
    mut command: Command,
    mut limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str) -> Option<Duration>,
) -> ChildExit {
    let badly = |how: String| ChildExit::Badly {
        how,
        complaint: String::new(),
    };
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(err) => return badly(format!("it could not be started: {err}")),
    };
    let mut deadline = Instant::now() + limit;
    let (lines, heard) = bounded::<String>(64);
    let complaint = Arc::<StderrLines>::default();
    let kept = Arc::clone(&complaint);
    if let Some(stdout) = child.stdout.take() {
        spawn("probe-stdout", move || send_lines(stdout, &lines));
    }
    let (end_of_complaint, complained) = bounded::<()>(1);
    if let Some(stderr) = child.stderr.take() {
        spawn("probe-stderr", move || {
            keep_lines(stderr, &kept, KEPT_LINES, |_| {});
            drop(end_of_complaint);
        });
    }
    loop {
        if is_cancelled() {
            end(child);
            return ChildExit::Cancelled;
        }
        match heard.recv_deadline(deadline.min(Instant::now() + WATCH)) {
            Ok(line) => {
                if let Some(next) = tell(&line) {
                    limit = next;
                    deadline = Instant::now() + limit;
                }
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(RecvTimeoutError::Timeout) => {
                end(child);
                return ChildExit::TooLate {
                    secs: limit.as_secs(),
                };
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let gone_by = deadline.min(Instant::now() + EXIT_GRACE);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < gone_by => thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                end(child);
                return badly("it closed its output and stayed".to_owned());
            }
        }
    };
    if status.success() {
        return ChildExit::Well;
    }
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or(-1)),
    };
    // Its last words may still be on their way. Who inherited its standard error from it may keep that open.
    complained.recv_timeout(EXIT_GRACE).ok();
    ChildExit::Badly {
        how,
        complaint: kept_text(&complaint),
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    if let Err(err) = thread.spawn(work) {
        // Its end of the channel is gone with it, which counts as the end of the output.
        tracing::warn!("the thread {name} could not start: {err}");
    }
}

fn send_lines(stdout: impl Read, lines: &Sender<String>) {
    each_line(stdout, |line| lines.send(line).is_ok());
}

/// Keeps as many of the last lines as `most`, and tells each.
pub fn keep_lines(stderr: impl Read, kept: &StderrLines, most: usize, tell: impl Fn(&str)) {
    each_line(stderr, |line| {
        tell(&line);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == most {
            kept.pop_front();
        }
        kept.push_back(line);
        true
    });
}

/// Tells one line after the other until the stream ends, or `tell` gives `false`.
fn each_line(stream: impl Read, mut tell: impl FnMut(String) -> bool) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    // Without a bound, a program that writes no line's end would fill the memory.
    while let Ok(1..) = (&mut stream)
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line)
    {
        let line = String::from_utf8_lossy(&std::mem::take(&mut line))
            .trim_end()
            .to_owned();
        if !tell(line) {
            break;
        }
    }
}

/// Last lines of a program's standard error, joined.
pub fn kept_text(kept: &StderrLines) -> String {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().cloned().collect::<Vec<_>>().join("\n")
}

/// Kills it and waits a moment, so that what it held is free again.
pub fn end(mut child: Child) {
    // Fails only when the process is gone already, which is what is wanted.
    child.kill().ok();
    let deadline = Instant::now() + EXIT_GRACE;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            // Stuck in a driver, where no signal reaches it: no caller may wait for it. Without a thread it stays a
            // zombie until the app ends.
            spawn("reaper", move || {
                child.wait().ok();
            });
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn sh(script: &str, limit: Duration) -> (Vec<String>, ChildExit) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let ended = run(command, limit, &|| false, &mut |line| {
            lines.push(line.to_owned());
        });
        (lines, ended)
    }

    #[test]
    fn child_output_lines_and_exit_status_are_reported() {
        let (lines, ended) = sh("echo a; echo b", Duration::from_mins(1));
        assert_eq!(lines, ["a", "b"]);
        assert_eq!(ended, ChildExit::Well);
        let (_, ended) = sh("echo oh >&2; exit 3", Duration::from_mins(1));
        let ChildExit::Badly { how, .. } = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(how, "exit code 3");
        let (_, ended) = sh("kill -6 $$", Duration::from_mins(1));
        assert!(matches!(ended, ChildExit::Badly { how, .. } if how == "signal 6"));
    }

    #[test]
    fn a_line_without_an_end_comes_in_small_parts_from_either_stream() {
        let endless = || io::repeat(b'x').take(64 << 20);
        let (lines, heard) = bounded::<String>(1);
        let longest = thread::scope(|scope| {
            scope.spawn(move || send_lines(endless(), &lines));
            heard.iter().map(|line| line.len()).max()
        });
        assert_eq!(longest, Some(MAX_LINE_BYTES as usize));
        let kept = StderrLines::default();
        keep_lines(endless(), &kept, 3, |_| {});
        let lengths: Vec<usize> = kept.into_inner().unwrap().iter().map(String::len).collect();
        assert_eq!(lengths, [MAX_LINE_BYTES as usize; 3]);
    }

    #[test]
    fn hanging_child_is_killed_and_its_earlier_output_is_kept() {
        let (lines, ended) = sh("echo first; sleep 600", Duration::from_secs(2));
        assert_eq!(lines, ["first"]);
        assert!(matches!(ended, ChildExit::TooLate { .. }));
        let missing = Command::new("/nonexistent/program");
        let ended = run(missing, Duration::from_secs(1), &|| false, &mut |_| {});
        assert!(
            matches!(ended, ChildExit::Badly { how, .. } if how.contains("could not be started"))
        );
    }
}
