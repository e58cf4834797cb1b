//! Tests of `fetch.py` against a small wheel: from a folder, and from an index on this machine that can stall.
//!
//! No network: pip is told of nothing else.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::libtorch::python_with_pip;

const WHEEL: &str = "tiny-1.0-py3-none-any.whl";
const MIB: u64 = 1 << 20;
/// The first member and a little reach into seven blocks; the table of contents takes the last five.
const NEEDED_BLOCKS: usize = 12;
/// Six needed, nine not, then the small files and the table of contents.
const MAKE_WHEEL: &str = r#"
import base64, hashlib, random, sys, zipfile
noise = random.Random(7)
members = {
    "tiny/lib/big.so": noise.randbytes(6 << 20),
    "tiny/unneeded.bin": noise.randbytes(9 << 20),
    "tiny/include/a/b.h": b"// b\n",
}
digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
rows = ["%s,sha256=%s,%d\n" % (name, digest(data), len(data)) for name, data in members.items()]
record = "".join(rows + ["tiny-1.0.dist-info/RECORD,,\n"]).encode()
members["tiny-1.0.dist-info/RECORD"] = record
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, data in members.items():
        archive.writestr(name, data)
print(hashlib.sha256(record).hexdigest(), end="")
"#;

/// A wheel in a folder of its own, the lock file that names it, and where to put what it holds.
struct Trial {
    folder: PathBuf,
}

impl Trial {
    fn new(name: &str) -> Self {
        let here = std::env::current_exe().expect("a test has an executable");
        let folder = here.with_file_name(format!("xtask-{name}"));
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("an earlier trial can be removed");
        }
        fs::create_dir_all(folder.join("wheels")).expect("a folder can be made beside the test");
        let trial = Self { folder };
        let made = Command::new(python())
            .args(["-c", MAKE_WHEEL])
            .arg(trial.wheel())
            .output()
            .expect("Python starts");
        let record = String::from_utf8(made.stdout).expect("a checksum is text");
        assert_eq!(
            record.len(),
            64,
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        trial.lock(&format!(
            "# A comment.\nwheel tiny===1.0 {record}\nfile tiny/lib/big.so lib/big.so\n\
             tree tiny/include/ include/\ntext build-version 1.0\n"
        ));
        trial
    }

    fn lock(&self, text: &str) {
        fs::write(self.folder.join("lock"), text).expect("the lock file can be written");
    }

    fn wheel(&self) -> PathBuf {
        self.folder.join("wheels").join(WHEEL)
    }

    fn made(&self) -> PathBuf {
        self.folder.join("cache/made")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(python());
        // What this user told pip must not decide a test.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PIP_") {
                command.env_remove(&variable);
            }
        }
        command
            .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/fetch.py")])
            .args([self.folder.join("lock"), self.folder.join("cache")])
            .arg("made")
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1");
        command
    }

    fn fetch_from_folder(&self) -> Output {
        self.command()
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.folder.join("wheels"))
            .output()
            .expect("Python starts")
    }

    fn overwrite(&self, at: u64, bytes: &[u8]) {
        let mut wheel = fs::File::options()
            .write(true)
            .open(self.wheel())
            .expect("the wheel is there");
        wheel
            .seek(SeekFrom::Start(at))
            .expect("the wheel is long enough");
        wheel.write_all(bytes).expect("the wheel can be written");
    }
}

fn python() -> &'static str {
    static PYTHON: OnceLock<&str> = OnceLock::new();
    PYTHON.get_or_init(|| {
        python_with_pip().expect("the tests of the set-up need what the set-up needs")
    })
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wheel_is_checked_unpacked_and_stamped() {
    let trial = Trial::new("whole");
    let output = trial.fetch_from_folder();
    assert!(output.status.success(), "{}", words(&output));
    let size = |path: &str| {
        fs::metadata(trial.made().join(path))
            .map(|found| found.len())
            .ok()
    };
    assert_eq!(size("lib/big.so"), Some(6 * MIB));
    assert_eq!(size("include/a/b.h"), Some(5));
    assert_eq!(size("build-version"), Some(4));
    assert_eq!(size("unneeded.bin"), None);
    let stamp =
        fs::read_to_string(trial.made().join("safelight-stamp.txt")).expect("there is a stamp");
    let lock = fs::read_to_string(trial.folder.join("lock")).expect("there is a lock file");
    let files = crate::libtorch::files_of_stamp(&stamp, &lock).expect("the stamp is readable");
    assert_eq!(
        files,
        [
            ("build-version", 4),
            ("include/a/b.h", 5),
            ("lib/big.so", 6 * MIB)
        ]
    );
}

#[test]
fn a_wheel_with_other_bytes_is_refused_in_one_sentence() {
    for (name, at, bytes) in [("member", 3 * MIB, &b"other"[..]), ("start", 0, b"no zip")] {
        let trial = Trial::new(name);
        trial.overwrite(at, bytes);
        let output = trial.fetch_from_folder();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        let errors: Vec<_> = said
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert!(
            matches!(errors[..], [line] if line.contains(WHEEL) && line.contains("broken")),
            "{name}: {said}"
        );
        assert!(!said.contains("Traceback"), "{name}: {said}");
        assert!(
            !trial.made().exists(),
            "{name}: nothing half-made may stand there"
        );
    }
}

#[test]
fn a_whole_wheel_that_is_not_the_known_one_is_refused() {
    let trial = Trial::new("unknown");
    let lock = fs::read_to_string(trial.folder.join("lock")).expect("there is a lock file");
    let (start, rest) = lock.split_once("1.0 ").expect("the lock names a version");
    trial.lock(&format!("{start}1.0 {}{}", "0".repeat(64), &rest[64..]));
    let output = trial.fetch_from_folder();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(
        words(&output).contains("not the known one"),
        "{}",
        words(&output)
    );
}

#[test]
fn an_absent_wheel_is_named() {
    let trial = Trial::new("absent");
    fs::remove_file(trial.wheel()).expect("the wheel is there");
    let output = trial.fetch_from_folder();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(
        words(&output).starts_with("error: tiny 1.0 could not be fetched"),
        "{}",
        words(&output)
    );
}

#[test]
fn only_needed_bytes_are_fetched_and_after_a_kill_only_the_rest() {
    let trial = Trial::new("stalled");
    let index = Index::start(trial.wheel(), 8 * MIB + MIB / 2);
    let mut command = trial.command();
    command.env(
        "PIP_INDEX_URL",
        format!("http://127.0.0.1:{}/simple", index.port),
    );
    let mut first = command
        .stderr(Stdio::null())
        .spawn()
        .expect("Python starts");
    // What was sent before the stall arrives, so this ends.
    while blocks_kept(&trial.folder.join("cache/wheels")) < 7 {
        assert!(
            first.try_wait().expect("it can be asked").is_none(),
            "it ended before it stalled"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    first
        .kill()
        .and_then(|()| first.wait())
        .expect("it can be killed");
    let kept = blocks_kept(&trial.folder.join("cache/wheels"));
    index.is_free.store(true, Ordering::Relaxed);
    let before = index.sent.load(Ordering::Relaxed);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", words(&output));
    let after = index.sent.load(Ordering::Relaxed) - before;
    // The stalled answer is let go too, and counts until it finds that nobody listens.
    assert!(
        after <= (NEEDED_BLOCKS - kept) as u64 * MIB + MIB / 2,
        "{after} bytes came after {kept} blocks were kept"
    );
    let made = fs::read(trial.made().join("lib/big.so")).expect("it is unpacked");
    let wheel = fs::read(trial.wheel()).expect("the wheel is there");
    assert!(
        wheel
            .windows(made.len())
            .take(4096)
            .any(|window| window == made),
        "the bytes are the wheel's"
    );
}

/// How many blocks the maps beside unfinished wheels say are there.
fn blocks_kept(folder: &Path) -> usize {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "blocks")
        })
        .filter_map(|entry| fs::read(entry.path()).ok())
        .map(|map| map.into_iter().map(usize::from).sum::<usize>())
        .sum()
}

/// A package index with one wheel, that stops in the middle of an answer until it is set free.
struct Index {
    port: u16,
    sent: Arc<AtomicU64>,
    is_free: Arc<AtomicBool>,
}

impl Index {
    fn start(wheel: PathBuf, stall_at: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let (sent, is_free) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counter, flag) = (Arc::clone(&sent), Arc::clone(&is_free));
        let serve = move || {
            let bytes = fs::read(wheel).expect("the wheel is there");
            for stream in listener.incoming().flatten() {
                // A client that was killed leaves a broken connection: the next one matters.
                answer(stream, &bytes, |count| {
                    let sent = counter.fetch_add(count, Ordering::Relaxed) + count;
                    while sent > stall_at && !flag.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                })
                .ok();
            }
        };
        std::thread::Builder::new()
            .name("index".to_owned())
            .spawn(serve)
            .expect("a thread starts");
        Self {
            port,
            sent,
            is_free,
        }
    }
}

fn answer(
    mut stream: TcpStream,
    wheel: &[u8],
    mut before_sending: impl FnMut(u64),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut request, mut range) = (String::new(), None);
    reader.read_line(&mut request)?;
    for line in reader.by_ref().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("range: bytes=") {
            range = value
                .split_once('-')
                .and_then(|(from, to)| Some((from.parse().ok()?, to.parse::<usize>().ok()?)));
        }
    }
    if request.starts_with("GET /simple/tiny/") {
        let page = format!("<a href=\"/{WHEEL}\">{WHEEL}</a>");
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n",
            page.len()
        )?;
        return write!(stream, "Connection: close\r\n\r\n{page}");
    }
    let (from, to): (usize, usize) = range.unwrap_or((0, wheel.len() - 1));
    let part = &wheel[from..=to.min(wheel.len() - 1)];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{to}/{}\r\n",
        wheel.len()
    )?;
    write!(
        stream,
        "Content-Length: {}\r\nConnection: close\r\n\r\n",
        part.len()
    )?;
    for chunk in part.chunks(1 << 16) {
        before_sending(chunk.len() as u64);
        stream.write_all(chunk)?;
    }
    Ok(())
}
