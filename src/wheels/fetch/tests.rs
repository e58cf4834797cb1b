//! Fetching a small wheel: from a folder, and from an index on this machine whose connections break.

use std::fs;
use std::io::{BufRead as _, BufReader, Cursor, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use safelight_wheels::{WheelDirectory, WheelError, WheelRecord, directory_of, sha256};
use tempfile::TempDir;

use super::network::WheelClient;
use super::pip::PipConfig;
use super::{Result, STAMP, make};

const NAME: &str = "torch-2.11.0-py3-none-any.whl";
/// `torch/lib/libc10.so`, `torch/a,b.txt`, `torch/empty` and its RECORD, in this order.
const WHEEL: &[u8] = include_bytes!("../tests/small.whl");
/// An unfinished download has so many bytes.
const KEPT: u64 = 50;

fn directory() -> WheelDirectory {
    let read = |start: u64, end: u64| Ok(WHEEL[start as usize..end as usize].to_vec());
    directory_of::<WheelError>(WHEEL.len() as u64, read).expect("the wheel is sound")
}

fn lock() -> String {
    let record = WheelRecord::read(&mut Cursor::new(WHEEL), &directory(), None);
    let sum = record.expect("the wheel is sound").sha256;
    format!(
        "# A comment.\nwheel torch===2.11.0 {sum}\nfile torch/lib/libc10.so lib/libc10.so\n\
         tree torch/em include/\ntext build-version 2.11.0\n"
    )
}

struct Trial(TempDir);

impl Trial {
    fn new(wheel: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("wheels")).expect("a folder");
        fs::write(folder.path().join("wheels").join(NAME), wheel).expect("a file");
        Self(folder)
    }

    fn made(&self) -> PathBuf {
        self.0.path().join("cache/made")
    }

    fn downloads(&self) -> PathBuf {
        self.0.path().join("cache/wheels")
    }

    fn make(&self, lock: &str, index: Option<&Index>) -> Result<()> {
        let wheels = self.0.path().join("wheels").display().to_string();
        let pip = PipConfig {
            indexes: index.iter().map(|index| index.address.clone()).collect(),
            links: if index.is_some() {
                vec![]
            } else {
                vec![wheels]
            },
            certificates: None,
            proxy: None,
        };
        let net = WheelClient::new(pip, Duration::ZERO).expect("no proxy");
        make(lock, &self.made(), &self.downloads(), &net)
    }

    fn refused(&self, lock: &str) -> String {
        let sentence = self.make(lock, None).expect_err("it is refused");
        assert!(!self.made().exists(), "nothing half-made may stand there");
        sentence
    }
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("it is there")
}

#[test]
fn a_wheel_is_checked_unpacked_and_stamped() {
    let trial = Trial::new(WHEEL);
    fs::create_dir_all(trial.made()).expect("an earlier one");
    trial.make(&lock(), None).expect("it is made");
    assert!(read(&trial.made(), "lib/libc10.so").ends_with("abcabc"));
    assert_eq!(read(&trial.made(), "include/pty"), "");
    assert_eq!(read(&trial.made(), "build-version"), "2.11.0\n");
    let (stamp, lock) = (read(&trial.made(), STAMP), lock());
    let files = stamp
        .strip_prefix(&lock)
        .expect("it begins with the lock file");
    let lines: Vec<&str> = files.lines().collect();
    let version = format!("7 {} build-version", sha256(b"2.11.0\n"));
    assert_eq!(lines[..2], ["files", &version]);
    for (line, start, end) in [
        (lines[2], "0 ", " include/pty"),
        (lines[3], "9004 ", " lib/libc10.so"),
    ] {
        assert!(line.starts_with(start) && line.ends_with(end), "{lines:?}");
    }
    assert!(!trial.downloads().exists());
}

#[test]
fn a_wheel_with_other_bytes_is_refused_in_one_sentence() {
    for at in [0, 60] {
        let mut wheel = WHEEL.to_vec();
        wheel[at] ^= 0x55;
        let sentence = Trial::new(&wheel).refused(&lock());
        assert!(
            sentence.contains(NAME) && sentence.contains("broken"),
            "{sentence}"
        );
    }
}

#[test]
fn a_whole_wheel_that_is_not_the_known_one_is_refused() {
    let lock = lock();
    let (start, rest) = lock
        .split_once("2.11.0 ")
        .expect("the lock names a version");
    let other = format!("{start}2.11.0 {}{}", "0".repeat(64), &rest[64..]);
    let sentence = Trial::new(WHEEL).refused(&other);
    assert!(sentence.contains("than the known one"), "{sentence}");
    let lacking = lock.replace("libc10.so lib", "libtorch.so lib");
    let sentence = Trial::new(WHEEL).refused(&lacking);
    assert!(sentence.contains("torch/lib/libtorch.so"), "{sentence}");
}

#[test]
fn an_absent_wheel_is_named() {
    let sentence = Trial::new(WHEEL).refused(&lock().replace("2.11.0 ", "2.12.0 "));
    let said = "torch 2.12.0 could not be downloaded";
    assert!(sentence.starts_with(said), "{sentence}");
}

#[test]
fn only_needed_bytes_are_downloaded_and_after_a_broken_connection_only_the_rest() {
    let trial = Trial::new(WHEEL);
    let index = Index::start(true);
    index.is_cut.store(true, Ordering::Relaxed);
    let failure = trial
        .make(&lock(), Some(&index))
        .expect_err("the connection breaks");
    assert!(failure.contains("is kept"), "{failure}");
    index.is_cut.store(false, Ordering::Relaxed);
    index.ranges.lock().expect("no panic").clear();
    trial.make(&lock(), Some(&index)).expect("it is made");
    assert!(read(&trial.made(), "lib/libc10.so").ends_with("abcabc"));
    let members = directory().members;
    let size = WHEEL.len() as u64;
    let expected = [
        (0, 1),
        (0, size),
        (KEPT, members[0].end),
        // The last two lie side by side.
        (members[2].start, members[3].end),
    ];
    assert_eq!(*index.ranges.lock().expect("no panic"), expected);
}

#[test]
fn a_server_that_sends_whole_files_only_will_do() {
    let trial = Trial::new(WHEEL);
    let index = Index::start(false);
    trial.make(&lock(), Some(&index)).expect("it is made");
    assert!(read(&trial.made(), "lib/libc10.so").ends_with("abcabc"));
}

struct Index {
    address: String,
    has_ranges: bool,
    /// Nothing after the first bytes of the wheel is sent but the whole wheel.
    is_cut: AtomicBool,
    /// Those that were requested.
    ranges: Mutex<Vec<(u64, u64)>>,
}

impl Index {
    fn start(has_ranges: bool) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let index = Arc::new(Self {
            address: format!("http://127.0.0.1:{port}/simple"),
            has_ranges,
            is_cut: AtomicBool::new(false),
            ranges: Mutex::default(),
        });
        let served = Arc::clone(&index);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                // A client may be gone: the next one matters.
                served.answer(stream).ok();
            }
        };
        let thread = std::thread::Builder::new().name("index".to_owned());
        thread.spawn(serve).expect("a thread starts");
        index
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let mut range = None;
        for line in lines {
            let line = line?.to_lowercase();
            if line.is_empty() {
                break;
            }
            let numbers = line.strip_prefix("range: bytes=");
            if let Some((from, last)) = numbers.and_then(|it| it.split_once('-')) {
                let number = |text: &str| text.parse::<u64>().expect("a number");
                range = Some((number(from), number(last) + 1));
            }
        }
        let (status, body, more) = if request.starts_with("GET /simple/torch/") {
            let page = format!("<a href=\"/files/{NAME}\">{NAME}</a>");
            ("200 OK", page.into_bytes(), String::new())
        } else if let (true, Some((start, end))) = (self.has_ranges, range) {
            self.ranges.lock().expect("no panic").push((start, end));
            let body = WHEEL[start as usize..end as usize].to_vec();
            let more = format!(
                "Content-Range: bytes {start}-{}/{}\r\n",
                end - 1,
                WHEEL.len()
            );
            ("206 Partial Content", body, more)
        } else {
            ("200 OK", WHEEL.to_vec(), String::new())
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"
        )?;
        let is_whole = length == WHEEL.len();
        let sent = match range {
            Some((start, _)) if self.is_cut.load(Ordering::Relaxed) && !is_whole => {
                length.min(KEPT.saturating_sub(start) as usize)
            }
            _ => length,
        };
        stream.write_all(&body[..sent])
    }
}
