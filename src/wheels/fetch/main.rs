//! `fetch-libtorch LOCK CACHE NAME`: downloads the files that a lock file names from the package index of this user's pip,
//! checks every byte, and renames the whole folder to `CACHE/NAME`.
//!
//! Only the bytes of the wanted members of a wheel are downloaded. They are appended to one file in their order, so an
//! interrupted download continues where that file ends. `cargo xtask` calls it.
#![expect(
    clippy::print_stderr,
    reason = "it tells of its progress on a terminal"
)]

mod network;
mod pip;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use safelight_wheels::{
    LibtorchLock, LockedWheel, WheelDirectory, WheelError, WheelLocation, WheelRecord, directory_of,
};

use network::{ATTEMPTS, WheelClient};
use pip::PipConfig;

/// In the folder: the lock file, then size, SHA-256 and path of each file. Written last; `packaging/xtask/libtorch.rs`
/// reads it.
const STAMP: &str = "safelight-stamp.txt";
const PAUSE: Duration = Duration::from_millis(500);

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let made = match &arguments[..] {
        [lock, cache, name] => run(lock, cache, name),
        _ => Err("expected LOCK CACHE NAME".to_owned()),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("error: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(lock: &Path, cache: &Path, name: &Path) -> Result<()> {
    let lock = at(lock, fs::read_to_string(lock))?;
    let net = WheelClient::new(PipConfig::of_this_user(), PAUSE);
    let net = net.map_err(|err| format!("pip's proxy cannot be used: {err}"))?;
    let folder = cache.join(name);
    make(&lock, &folder, &beside(&folder, "downloads"), &net)
}

/// Puts a path in front of an I/O error.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|err| format!("{}: {err}", path.display()))
}

/// Makes `folder` of the wheels that a lock file names. `downloads` keeps the bytes of an attempt that failed.
fn make(lock_text: &str, folder: &Path, downloads: &Path, net: &WheelClient) -> Result<()> {
    let lock = LibtorchLock::parse(lock_text);
    let partial = beside(folder, "partial");
    remove(&partial)?;
    for folder in [downloads, &partial] {
        at(folder, fs::create_dir_all(folder))?;
    }
    let mut parts = Vec::new();
    for wheel in &lock.wheels {
        let mut part = WheelDownload::new(wheel);
        part.open(net, downloads)
            .map_err(|err| part.failure(&err))?;
        parts.push(part);
    }
    let missing: u64 = parts.iter().map(WheelDownload::missing).sum();
    let mut progress = FetchProgress::new(missing);
    for part in &parts {
        let downloaded = part.download(net, &mut progress);
        downloaded.map_err(|err| part.failure(&err))?;
    }
    let mut files = Vec::new();
    for part in &parts {
        let unpacked = part.unpack(&partial);
        files.extend(unpacked.map_err(|err| part.failure(&err))?);
    }
    let write = |path: &str, text: &str| {
        let path = partial.join(path);
        at(&path, fs::write(&path, text))
    };
    for (path, line) in lock.texts {
        let text = format!("{line}\n");
        write(path, &text)?;
        let sum = safelight_wheels::sha256(text.as_bytes());
        files.push((path.to_owned(), text.len() as u64, sum));
    }
    files.sort();
    let mut stamp = format!("{lock_text}files\n");
    for (path, bytes, sum) in files {
        writeln!(stamp, "{bytes} {sum} {path}").ok(); // Writing to a string cannot fail.
    }
    write(STAMP, &stamp)?;
    // A folder with a stamp is whole, also after a power failure.
    Command::new("sync").status().ok();
    let old = beside(folder, "old");
    remove(&old)?;
    if folder.symlink_metadata().is_ok() {
        at(folder, fs::rename(folder, &old))?;
    }
    at(folder, fs::rename(&partial, folder))?;
    remove(&old)?;
    remove(downloads)
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{ending}"))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => at(folder, removed),
    }
}

/// A wheel with its wanted members.
struct WheelDownload<'a> {
    wheel: &'a LockedWheel<'a>,
    /// Empty for a wheel on this machine.
    url: String,
    /// The wheel itself, or the file that the spans are appended to.
    path: PathBuf,
    /// Bytes of the wheel to download, from start to end, in the order in which they are kept.
    spans: Vec<(u64, u64)>,
    /// The wanted members and the list of checksums, by their place in `path`.
    directory: WheelDirectory,
}

impl<'a> WheelDownload<'a> {
    fn new(wheel: &'a LockedWheel<'a>) -> Self {
        Self {
            wheel,
            url: String::new(),
            path: PathBuf::new(),
            spans: Vec::new(),
            directory: WheelDirectory::default(),
        }
    }

    /// Finds the wheel and reads its table of contents.
    fn open(&mut self, net: &WheelClient, downloads: &Path) -> std::result::Result<(), WheelError> {
        let listed = net.find(self.wheel)?;
        match listed.at {
            WheelLocation::File(path) => self.path = path,
            WheelLocation::Url(url) => {
                let (bytes, has_ranges) = net.retried(|| net.size(&url))?;
                self.path = downloads.join(format!("{}.{bytes}.part", listed.name));
                self.url = url;
                if has_ranges {
                    let directory = directory_of(bytes, |start, end| {
                        let read = net.retried(|| net.read(&self.url, start, end));
                        read.map_err(WheelError::Io)
                    })?;
                    return self.choose(directory, true);
                }
                self.spans.push((0, bytes));
                self.download(net, &mut FetchProgress::new(self.missing()))?;
            }
        }
        let file = File::open(&self.path)?;
        let directory = directory_of(file.metadata()?.len(), |start, end| {
            let mut read = vec![0; (end - start) as usize];
            file.read_exact_at(&mut read, start)?;
            Ok::<_, WheelError>(read)
        })?;
        self.choose(directory, false)
    }

    /// Keeps the wanted members of a table of contents. `in_spans`: only their bytes are downloaded.
    fn choose(
        &mut self,
        directory: WheelDirectory,
        in_spans: bool,
    ) -> std::result::Result<(), WheelError> {
        for (name, _) in &self.wheel.files {
            if directory.members.iter().all(|member| member.name != *name) {
                let name = (*name).to_owned();
                return Err(WheelError::NotListed { name });
            }
        }
        let record = directory.record().cloned();
        let mut members = directory.members;
        members.retain(|member| self.wheel.target_of(&member.name).is_some());
        members.extend(record);
        members.sort_by_key(|member| member.start);
        let mut kept = 0;
        for member in members.iter_mut().filter(|_| in_spans) {
            let (start, end) = (member.start, member.end);
            match self.spans.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => self.spans.push((start, end)),
            }
            (member.start, member.end) = (kept, kept + (end - start));
            kept = member.end;
        }
        self.directory = WheelDirectory { members };
        Ok(())
    }

    fn here(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    fn missing(&self) -> u64 {
        let all: u64 = self.spans.iter().map(|(start, end)| end - start).sum();
        all.saturating_sub(self.here())
    }

    /// Downloads the rest of the spans.
    fn download(
        &self,
        net: &WheelClient,
        progress: &mut FetchProgress,
    ) -> std::result::Result<(), WheelError> {
        let mut failures = 0;
        while let (here, Some((start, end))) = (self.here(), self.rest()) {
            let rest = (&*self.url, start, end);
            let came = net.append(rest, &self.path, |bytes| progress.add(bytes));
            if let Err(err) = came {
                failures = if self.here() > here { 1 } else { failures + 1 };
                if failures == ATTEMPTS {
                    return Err(err.into());
                }
                net.wait_after(failures);
            }
        }
        Ok(())
    }

    /// The bytes of the wheel to download next.
    fn rest(&self) -> Option<(u64, u64)> {
        let mut here = self.here();
        self.spans.iter().find_map(|&(start, end)| {
            if here < end - start {
                return Some((start + here, end));
            }
            here -= end - start;
            None
        })
    }

    /// Unpacks the members below `folder`: path, bytes and SHA-256 of each.
    fn unpack(&self, folder: &Path) -> std::result::Result<Vec<(String, u64, String)>, WheelError> {
        let mut wheel = BufReader::new(File::open(&self.path)?);
        let known = Some(self.wheel.record_sha256);
        let record = WheelRecord::read(&mut wheel, &self.directory, known)?;
        let mut files = Vec::new();
        for member in &self.directory.members {
            let Some(target) = self.wheel.target_of(&member.name) else {
                continue;
            };
            let path = folder.join(&target);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            let digest = record.extract(&mut wheel, member, &mut File::create(&path)?)?;
            files.push((target, member.bytes, safelight_wheels::hex(&digest)));
        }
        Ok(files)
    }

    /// Tells of an error; nothing is kept of a broken wheel.
    fn failure(&self, err: &WheelError) -> String {
        let LockedWheel { name, version, .. } = self.wheel;
        let place = self.path.display();
        match err {
            WheelError::Io(err) => format!(
                "{name} {version} could not be downloaded ({err}): check the network, the disk, and \
                 what pip is configured for (index-url, proxy, cert), then run the same command again; what was \
                 downloaded is kept"
            ),
            err if self.url.is_empty() => format!(
                "The wheel {place} is broken ({err}): put a good one there, then run the same command again"
            ),
            err => {
                fs::remove_file(&self.path).ok(); // It may not be there.
                format!(
                    "The wheel at {} is broken ({err}): run the same command again to download it anew; if it stays \
                     broken, use another index",
                    self.url
                )
            }
        }
    }
}

/// Prints a line for every tenth of a download.
struct FetchProgress {
    total: u64,
    done: u64,
    start: Instant,
}

impl FetchProgress {
    fn new(total: u64) -> Self {
        if total > 0 {
            eprintln!("Downloading {} MB of libtorch", total / 1_000_000);
        }
        Self {
            total: total.max(1),
            done: 0,
            start: Instant::now(),
        }
    }

    fn add(&mut self, bytes: u64) {
        let tenths = self.done * 10 / self.total;
        self.done += bytes;
        if self.done * 10 / self.total > tenths {
            let megabytes = self.done as f64 / 1e6;
            let rate = megabytes / self.start.elapsed().as_secs_f64().max(0.001);
            let total = self.total / 1_000_000;
            eprintln!("  {megabytes:.0} of {total} MB of libtorch, {rate:.1} MB/s");
        }
    }
}
