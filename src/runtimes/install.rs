//! Installation of a libtorch build: the members of its wheels that a native program needs, each verified, self-tested
//! in a separate process, and installed as a whole or not at all.
//!
//! Downloads stay for the next attempt until the runtime is installed. The caller chooses the build.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use safelight_core::files::{write_atomically, write_json};
use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::locks::FileLock;
use safelight_core::settings::{AppPaths, LibtorchRuntime};
use safelight_wheels::{
    ListedWheel, WheelDirectory, WheelLocation, WheelRecord, WheelRequirement, directory_of,
    of_folder, of_page, record_letters, record_sum, tail_bytes,
};
use serde_json::{Value, json};

use super::folders::{empty, exchange, share};
use super::local;
use super::members::is_needed;
use super::table::{RuntimeBuild, RuntimeKind};
use super::wheel::{DirectoryError, OpenedWheel, RuntimeWheel, cannot_write, job_error};
use super::wheel_source::WheelSource;
use super::{files, installed};
use crate::download::{self, DownloadItem, DownloadOptions, RemoteParts};

/// In an installed runtime: what it was made of, from which a lock could be made.
pub const NOTE: &str = "installed.json";

/// File of a torch wheel with its version.
const BUILD_VERSION: &str = "torch/build-version";

/// Current step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallProgress {
    Asking {
        name: String,
    },
    Fetching {
        done_bytes: u64,
        total_bytes: u64,
    },
    Unpacking {
        name: String,
    },
    /// Of an installed one: reading its files, for what need not come again.
    Comparing {
        name: String,
    },
    Trying,
}

/// Installed runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallResult {
    pub folder: PathBuf,
    /// Of what came over the network, pieces of an earlier attempt included.
    pub fetched_bytes: u64,
    /// Of the wheels as wholes; of a libtorch that was here, what was copied.
    pub wheel_bytes: u64,
    /// Number of files that were repaired in an existing installation; `None` for a new one.
    pub repaired: Option<usize>,
}

/// Tries a runtime before it is put in place; `false` when cancelled.
pub type RuntimeTest<'a> = dyn Fn(&LibtorchRuntime) -> Result<bool, JobError> + 'a;

/// Installs a build into Safelight's own folder; `None` when cancelled. Of one that is installed from wheels already only
/// the files that are missing or damaged come again; it stays as it is until that was tried.
pub fn install(
    build: &RuntimeBuild,
    place: &WheelSource,
    paths: &AppPaths,
    options: &DownloadOptions,
    cancel: &CancelToken,
    attempt: &RuntimeTest<'_>,
    report: &mut dyn FnMut(&InstallProgress),
) -> Result<Option<InstallResult>, JobError> {
    let runtimes = installed::folder(paths);
    let to = runtimes.join(&build.id);
    let staging = runtimes.join(format!(".{}.part", build.id));
    let disk = |err: io::Error| cannot_write(&err, &staging);
    fs::create_dir_all(&staging).map_err(disk)?;
    let lock = FileLock::take(&runtimes.join(format!(".{}.lock", build.id)));
    let _lock = match lock {
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
            let what = format!("another window or program is installing {}", build.id);
            return Err(JobError::new(JobErrorKind::Disk, what));
        }
        taken => taken.map_err(disk)?,
    };
    let old = runtimes.join(format!(".{}.old", build.id));
    if old.exists() && !to.exists() {
        // An earlier repair was interrupted between its two last steps.
        fs::rename(&old, &to).map_err(|err| cannot_write(&err, &to))?;
    }
    let before = to.exists().then_some(to.as_path());
    if before.is_some() && matches!(place, WheelSource::Torch(_)) {
        fs::remove_dir_all(&staging).ok();
        let what = format!("{} is installed already: {}", build.id, to.display());
        let advice = format!("Use it with `safelight runtime use {}`", build.id);
        return Err(JobError::invalid(what).advise(advice));
    }
    let job = RuntimeInstall {
        build,
        place,
        staging: &staging,
        before,
        options,
        cancel,
    };
    let Some((tree, mut installed)) = job.run(attempt, report)? else {
        return Ok(None);
    };
    exchange(&tree, &to, &old).map_err(|err| cannot_write(&err, &to))?;
    // Of no use any more; what cannot be deleted is passed over when runtimes are listed.
    fs::remove_dir_all(&staging).ok();
    installed.folder = to;
    Ok(Some(installed))
}

struct RuntimeInstall<'a> {
    build: &'a RuntimeBuild,
    place: &'a WheelSource,
    staging: &'a Path,
    /// Existing installation.
    before: Option<&'a Path>,
    options: &'a DownloadOptions,
    cancel: &'a CancelToken,
}

impl RuntimeInstall<'_> {
    /// Everything up to the last step: a whole runtime that was tried, in a temporary folder.
    fn run(
        &self,
        attempt: &RuntimeTest<'_>,
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<(PathBuf, InstallResult)>, JobError> {
        let tree = self.staging.join("tree");
        let filled = match self.place {
            WheelSource::Torch(from) => self.copied(from, &tree, report)?,
            _ => self.fetched(&tree, report)?,
        };
        let Some((installed, note)) = filled else {
            return Ok(None);
        };
        let disk = |err: io::Error| cannot_write(&err, &tree);
        write_json(&tree.join(NOTE), &note).map_err(disk)?;
        if self.build.kind == RuntimeKind::Cpu {
            // Its wheel's own word would name the GPU half that is not here.
            let file = tree.join(BUILD_VERSION);
            let version = format!("{}\n", self.build.version);
            write_atomically(&file, version.as_bytes()).map_err(disk)?;
        }
        let Some(runtime) = LibtorchRuntime::in_folder(&tree, "Safelight's own") else {
            let what = format!("there is no libtorch in what {} is made of", self.build.id);
            return Err(JobError::new(JobErrorKind::Network, what));
        };
        report(&InstallProgress::Trying);
        Ok(attempt(&runtime)?.then_some((tree, installed)))
    }

    /// From wheels.
    fn fetched(
        &self,
        tree: &Path,
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<(InstallResult, Value)>, JobError> {
        let mut wheels = Vec::new();
        for package in &self.build.packages {
            report(&InstallProgress::Asking {
                name: package.clone(),
            });
            let Some(wheel) = self.open(package)? else {
                return Ok(None);
            };
            let Some(wheel) = self.without_sound(wheel, report)? else {
                return Ok(None);
            };
            wheels.push(wheel);
        }
        self.ensure_room(&wheels)?;
        if self.fetch(&wheels, report)?.is_none() {
            return Ok(None);
        }
        empty(tree).map_err(|err| cannot_write(&err, tree))?;
        let mut notes = Vec::new();
        for wheel in &wheels {
            report(&InstallProgress::Unpacking {
                name: wheel.listed.name.clone(),
            });
            let Some(note) = self.unpack(wheel, tree)? else {
                return Ok(None);
            };
            notes.push(note);
        }
        let here = wheels.iter().filter_map(RuntimeWheel::parts);
        let installed = InstallResult {
            folder: PathBuf::new(),
            fetched_bytes: here.map(RemoteParts::here_bytes).sum(),
            wheel_bytes: wheels.iter().map(RuntimeWheel::bytes).sum(),
            repaired: self
                .before
                .map(|_| wheels.iter().map(|it| it.wanted.len()).sum()),
        };
        let note = json!({"id": self.build.id, "version": self.build.version, "wheels": notes});
        Ok(Some((installed, note)))
    }

    /// From a libtorch that is here.
    fn copied(
        &self,
        from: &LibtorchRuntime,
        tree: &Path,
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<(InstallResult, Value)>, JobError> {
        let unreadable = |err: io::Error| {
            let what = format!(
                "cannot read the libtorch ({err}): {}",
                from.folder.display()
            );
            JobError::new(JobErrorKind::Disk, what)
        };
        let files = local::files(from, self.build.kind).map_err(unreadable)?;
        let total_bytes = files.iter().map(|file| file.bytes).sum();
        let room = download::ensure_room(self.staging, total_bytes);
        room.map_err(|err| job_error(&err))?;
        let disk = |err: io::Error| cannot_write(&err, tree);
        empty(tree).map_err(disk)?;
        let copied = local::copy(&files, tree, self.cancel, &mut |done_bytes| {
            report(&InstallProgress::Fetching {
                done_bytes,
                total_bytes,
            });
        });
        let installed = InstallResult {
            folder: PathBuf::new(),
            fetched_bytes: 0,
            wheel_bytes: total_bytes,
            repaired: None,
        };
        let note = json!({
            "id": self.build.id, "version": self.build.version, "from": from.folder,
            "members": files.len(),
        });
        Ok(copied.map_err(disk)?.then_some((installed, note)))
    }

    /// Finds the wheel of a package, and reads its table of contents.
    fn open(&self, package: &str) -> Result<Option<RuntimeWheel>, JobError> {
        let requirement = WheelRequirement::parse(package);
        let (listed, place) = match self.place {
            WheelSource::Folder(folder) => (of_folder(folder), folder.display().to_string()),
            WheelSource::Mirror(_) | WheelSource::Index | WheelSource::Torch(_) => {
                let own = self.build.address().unwrap_or_default();
                let index = match self.place {
                    WheelSource::Mirror(index) => index,
                    _ => own,
                };
                match self.page(&requirement.page(index))? {
                    Some(found) => found,
                    None => return Ok(None),
                }
            }
        };
        let listed = requirement.choose(listed, &self.build.version, |name| {
            record_sum(name).is_some()
        });
        let listed = listed
            .ok_or_else(|| JobError::new(JobErrorKind::Network, requirement.missing(&place)))?;
        let opened = match &listed.at {
            WheelLocation::File(path) => {
                let file = File::open(path).and_then(|file| {
                    let bytes = file.metadata()?.len();
                    Ok(OpenedWheel::File(file, bytes))
                });
                file.map_err(|err| {
                    let what = format!("cannot read the wheel ({err}): {}", path.display());
                    JobError::new(JobErrorKind::Disk, what)
                })?
            }
            WheelLocation::Url(url) => {
                let order = DownloadItem {
                    url: url.clone(),
                    to: self.staging.join("wheels").join(&listed.name),
                    bytes: None,
                };
                let parts = RemoteParts::open(&order, self.options, self.cancel);
                match parts.map_err(|err| job_error(&err))? {
                    Some(parts) => OpenedWheel::Remote(parts),
                    None => return Ok(None),
                }
            }
        };
        let mut wheel = RuntimeWheel {
            listed,
            opened,
            directory: WheelDirectory::default(),
            wanted: Vec::new(),
            sound: Vec::new(),
        };
        let directory = match self.directory(&wheel) {
            Ok(directory) => directory,
            Err(DirectoryError::Cancelled) => return Ok(None),
            Err(DirectoryError::Wheel(err)) => return Err(wheel.broken(&err)),
            Err(DirectoryError::Download(err)) => return Err(job_error(&err)),
        };
        let members = directory.members.iter();
        wheel.wanted = members
            .filter(|member| is_needed(self.build.kind, &member.name))
            .cloned()
            .collect();
        wheel.directory = directory;
        Ok(Some(wheel))
    }

    /// Leaves out what an earlier installation has as the wheel's list names it.
    fn without_sound(
        &self,
        mut wheel: RuntimeWheel,
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<RuntimeWheel>, JobError> {
        let Some(before) = self.before else {
            return Ok(Some(wheel));
        };
        report(&InstallProgress::Comparing {
            name: wheel.listed.name.clone(),
        });
        if let (Some(parts), Some(list)) = (wheel.parts(), wheel.directory.record()) {
            let brought = parts.bring(&[(list.start, list.end)], self.cancel, &mut |_| {});
            if brought.map_err(|err| job_error(&err))?.is_none() {
                return Ok(None);
            }
        }
        let record = self.record(&wheel)?;
        for member in std::mem::take(&mut wheel.wanted) {
            if self.cancel.is_cancelled() {
                return Ok(None);
            }
            match record.sum(&member.name) {
                Some(sum) if files::is_as(&before.join(&member.name), sum) => {
                    wheel.sound.push((member.name, sum.to_owned()));
                }
                _ => wheel.wanted.push(member),
            }
        }
        Ok(Some(wheel))
    }

    /// The list of a wheel's files, which must be here.
    fn record(&self, wheel: &RuntimeWheel) -> Result<WheelRecord, JobError> {
        let file = wheel
            .file()
            .map_err(|err| cannot_write(&err, self.staging))?;
        let known = record_sum(&wheel.listed.name);
        let record = WheelRecord::read(&mut BufReader::new(file), &wheel.directory, known);
        record.map_err(|err| wheel.broken(&err))
    }

    fn page(&self, url: &str) -> Result<Option<(Vec<ListedWheel>, String)>, JobError> {
        let html = download::page(url, self.options, self.cancel).map_err(|err| job_error(&err))?;
        Ok(html.map(|html| (of_page(url, &html, self.build.hosts()), url.to_owned())))
    }

    fn directory(&self, wheel: &RuntimeWheel) -> Result<WheelDirectory, DirectoryError> {
        use std::os::unix::fs::FileExt as _;
        let bytes = wheel.bytes();
        directory_of(bytes, |start, end| match &wheel.opened {
            OpenedWheel::File(file, _) => {
                let mut read = vec![0; (end - start) as usize];
                file.read_exact_at(&mut read, start)
                    .map_err(|err| DirectoryError::Wheel(err.into()))?;
                Ok(read)
            }
            OpenedWheel::Remote(parts) => {
                // The directory precedes the end record: if it is short, one request covers both.
                let ahead = self.options.piece_bytes.min(bytes - tail_bytes(bytes));
                let from = if end == bytes {
                    start - ahead.min(start)
                } else {
                    start
                };
                match parts.bring(&[(from, end)], self.cancel, &mut |_| {}) {
                    Ok(Some(())) => parts.read(start, end).map_err(DirectoryError::Download),
                    Ok(None) => Err(DirectoryError::Cancelled),
                    Err(err) => Err(DirectoryError::Download(err)),
                }
            }
        })
    }

    /// Checks that there is room for both the download and the unpacked files.
    fn ensure_room(&self, wheels: &[RuntimeWheel]) -> Result<(), JobError> {
        let unpacked = wheels.iter().flat_map(|wheel| &wheel.wanted);
        let unpacked: u64 = unpacked.map(|member| member.bytes).sum();
        let missing = wheels.iter().filter_map(|wheel| {
            let parts = wheel.parts()?;
            Some(parts.missing_bytes(&wheel.spans()))
        });
        let bytes = unpacked.saturating_add(missing.sum());
        download::ensure_room(self.staging, bytes).map_err(|err| job_error(&err))
    }

    fn fetch(
        &self,
        wheels: &[RuntimeWheel],
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<()>, JobError> {
        let remote = || {
            wheels
                .iter()
                .filter_map(|wheel| Some((wheel, wheel.parts()?)))
        };
        let missing =
            |(wheel, parts): (&RuntimeWheel, &RemoteParts)| parts.missing_bytes(&wheel.spans());
        let total_bytes = remote().map(missing).sum();
        let mut before = 0;
        for (wheel, parts) in remote() {
            let (spans, here) = (wheel.spans(), parts.here_bytes());
            let brought = parts.bring(&spans, self.cancel, &mut |bytes| {
                report(&InstallProgress::Fetching {
                    done_bytes: before + bytes.saturating_sub(here),
                    total_bytes,
                });
            });
            if brought.map_err(|err| job_error(&err))?.is_none() {
                return Ok(None);
            }
            before += parts.here_bytes().saturating_sub(here);
            if let Some(sum) = &wheel.listed.sha256
                && parts
                    .compare(sum, self.cancel)
                    .map_err(|err| job_error(&err))?
                    .is_none()
            {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Writes what is wanted of a wheel, and gives the note on it.
    fn unpack(&self, wheel: &RuntimeWheel, tree: &Path) -> Result<Option<Value>, JobError> {
        let record = self.record(wheel)?;
        let file = wheel.file().map_err(|err| cannot_write(&err, tree))?;
        let mut file = BufReader::new(file);
        let place = |name: &str| {
            let path = tree.join(name);
            let made = fs::create_dir_all(path.parent().unwrap_or(tree));
            made.map(|()| path).map_err(|err| cannot_write(&err, tree))
        };
        let mut sums = serde_json::Map::new();
        for (name, sum) in &wheel.sound {
            let path = place(name)?;
            let from = self.before.unwrap_or(tree).join(name);
            share(&from, &path).map_err(|err| cannot_write(&err, &path))?;
            sums.insert(name.clone(), json!(sum));
        }
        for member in &wheel.wanted {
            if self.cancel.is_cancelled() {
                return Ok(None);
            }
            let path = place(&member.name)?;
            let disk = |err: io::Error| cannot_write(&err, &path);
            let mut out = BufWriter::new(File::create(&path).map_err(disk)?);
            let digest = record.extract(&mut file, member, &mut out);
            let digest = digest.map_err(|err| wheel.broken(&err))?;
            out.flush().map_err(disk)?;
            sums.insert(member.name.clone(), json!(record_letters(&digest)));
        }
        if self.build.kind == RuntimeKind::Cpu {
            // It is written anew.
            sums.remove(BUILD_VERSION);
        }
        let url = match &wheel.listed.at {
            WheelLocation::Url(url) => url.clone(),
            WheelLocation::File(path) => path.display().to_string(),
        };
        Ok(Some(json!({
            "file": wheel.listed.name,
            "from": url,
            "record_sha256": record.sha256,
            "is_record_known": record_sum(&wheel.listed.name).is_some(),
            "index_sha256": wheel.listed.sha256,
            "members": sums,
        })))
    }
}
