//! What the window keeps on disk: its queue, results, trash and settings. How often each of them changed while somebody
//! clicked, and what of them is lost behind a kill.
//!
//! Looks at files alone and touches none: nothing is asked of the window.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobId, QueueFile, QueuedJob, QueuedState};
use safelight_loops::hash::{OFFSET, hashed};

pub(super) const QUEUE: &str = "data/safelight/queue.json";
pub(super) const SETTINGS: &str = "config/safelight/settings.toml";
const RESULTS: [&str; 3] = ["out", "videos", "pictures"];
const TRASH: [&str; 1] = ["data/Trash/files"];
const NOTES: &str = "data/Trash/info";
/// In the names of files that are being written.
const PARTIAL: [&str; 4] = [".tmp", ".part", ".partial", ".new"];

/// A file's length, and a short number for its bytes.
type Sum = (usize, u64);

pub(super) fn is_partial(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    PARTIAL.iter().any(|sign| name.contains(sign)) && !name.contains(".partial.safetensors")
}

/// The jobs in the queue's file; none where it is not there or not whole.
pub(super) fn jobs_in(home: &Path) -> Option<Vec<QueuedJob>> {
    let path = home.join(QUEUE);
    // To the program no file is an empty queue.
    let is_there = path.exists();
    let file = is_there.then(|| QueueFile::load(&path).ok()).flatten();
    file.map(|file| file.jobs)
}

/// The whole files below some folders of the home, by their paths in it.
fn files_in(home: &Path, folders: &[&str]) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| home.join(folder)).collect();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(path);
            } else if !is_partial(&path)
                && let Ok(name) = path.strip_prefix(home)
            {
                files.insert(name.to_owned());
            }
        }
    }
    files
}

fn sums(home: &Path, folders: &[&str]) -> BTreeMap<PathBuf, Sum> {
    let files = files_in(home, folders).into_iter();
    let sums = files.filter_map(|name| {
        // One may go while it is read.
        let bytes = fs::read(home.join(&name)).ok()?;
        Some((name, (bytes.len(), hashed(OFFSET, &bytes))))
    });
    sums.collect()
}

/// Files in the trash that no desktop can bring back, since no note says where they were; a sentence for each.
pub(super) fn without_note(home: &Path) -> Vec<String> {
    let files = files_in(home, &TRASH).into_iter();
    let odd = files.filter(|file| {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".trashinfo");
        let note = fs::read_to_string(home.join(NOTES).join(name)).unwrap_or_default();
        !(note.contains("\nPath=/") && note.contains("\nDeletionDate=") && note.ends_with('\n'))
    });
    odd.map(|file| format!("in the trash without a note: {}", file.display()))
        .collect()
}

/// The finished results, and those in the trash, with what tells their bytes apart.
pub(super) struct Results(BTreeMap<PathBuf, Sum>);

impl Results {
    pub(super) fn of(home: &Path) -> Self {
        let mut all = sums(home, &RESULTS);
        all.extend(sums(home, &TRASH));
        Self(all)
    }

    /// Which of them are gone or changed by now, in sentences. One that lies in the trash, or under another name, is
    /// not lost: the last click may have been carried out only now.
    pub(super) fn lost(&self, home: &Path) -> Vec<String> {
        let now = sums(home, &RESULTS);
        let trash = sums(home, &TRASH);
        let kept: BTreeSet<Sum> = now.values().chain(trash.values()).copied().collect();
        let lost = self.0.iter().filter(|(_, sum)| !kept.contains(*sum));
        let told = lost.map(|(name, _)| {
            let what = if now.contains_key(name) {
                "a result has other bytes"
            } else {
                "a result is gone"
            };
            format!("{what}: {}", name.display())
        });
        told.collect()
    }
}

/// How often something on disk changed while the window was open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    queued: u32,
    left: u32,
    moved: u32,
    edited: u32,
    made: u32,
    thrown_away: u32,
    brought_back: u32,
    settings: u32,
}

impl Changes {
    /// For the table: what changed, and how often.
    pub(super) fn rows(&self) -> [(&'static str, u32); 8] {
        [
            ("jobs that came into the queue", self.queued),
            ("jobs that left the queue", self.left),
            ("times that waiting jobs changed places", self.moved),
            ("waiting jobs that were edited", self.edited),
            ("files that came among the results", self.made),
            ("files that came into the trash", self.thrown_away),
            ("files that left the trash", self.brought_back),
            ("times that the settings changed", self.settings),
        ]
    }

    fn count_jobs(&mut self, before: &[QueuedJob], after: &[QueuedJob]) {
        let (old, new) = (ids(before), ids(after));
        self.queued += new.difference(&old).count() as u32;
        self.left += old.difference(&new).count() as u32;
        // A job that begins or ends moves by itself.
        let is_moved = ids_of_both(before, after).ne(ids_of_both(after, before));
        self.moved += u32::from(is_moved);
        // An edited job is a new one in the place of the old one.
        let places = waiting(before).zip(waiting(after));
        let others: Vec<_> = places.filter(|(one, other)| one.id != other.id).collect();
        let is_edited = matches!(others[..], [(one, other)] if !new.contains(&one.id) && !old.contains(&other.id))
            && waiting(before).count() == waiting(after).count();
        self.edited += u32::from(is_edited);
    }
}

fn ids(jobs: &[QueuedJob]) -> BTreeSet<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// The jobs that wait, in their order.
pub(super) fn waiting(jobs: &[QueuedJob]) -> impl Iterator<Item = &QueuedJob> {
    jobs.iter().filter(|job| job.state == QueuedState::Waiting)
}

/// The jobs that wait here and among the others, in their order here.
fn ids_of_both(jobs: &[QueuedJob], others: &[QueuedJob]) -> impl Iterator<Item = JobId> {
    let there: BTreeSet<JobId> = waiting(others).map(|job| job.id).collect();
    let ids = waiting(jobs).map(|job| job.id);
    ids.filter(move |id| there.contains(id))
}

/// What is compared from one look to the next.
struct Seen {
    jobs: Option<Vec<QueuedJob>>,
    results: BTreeSet<PathBuf>,
    trash: BTreeSet<PathBuf>,
    settings: Vec<u8>,
}

impl Seen {
    fn of(home: &Path) -> Self {
        Self {
            jobs: jobs_in(home),
            results: files_in(home, &RESULTS),
            trash: files_in(home, &TRASH),
            // None are as good as empty ones.
            settings: fs::read(home.join(SETTINGS)).unwrap_or_default(),
        }
    }
}

/// Looks again and again while the window is open.
pub(super) struct Watch {
    home: PathBuf,
    last: Seen,
    /// Every job that was on disk at some look, as it was last seen.
    known: BTreeMap<JobId, QueuedJob>,
    results_at_first: BTreeSet<PathBuf>,
    /// The queue's file was there, and then it was not, or not whole.
    pub(super) is_torn: bool,
}

impl Watch {
    pub(super) fn begin(home: &Path) -> Self {
        let last = Seen::of(home);
        let mut watch = Self {
            home: home.to_owned(),
            known: BTreeMap::new(),
            results_at_first: last.results.clone(),
            last,
            is_torn: false,
        };
        watch.note_jobs();
        watch
    }

    /// Whether the queue's file was there and whole.
    pub(super) fn has_queue(&self) -> bool {
        self.last.jobs.is_some()
    }

    fn note_jobs(&mut self) {
        let jobs = self.last.jobs.iter().flatten();
        self.known.extend(jobs.map(|job| (job.id, job.clone())));
    }

    pub(super) fn look(&mut self, changes: &mut Changes) {
        let mut now = Seen::of(&self.home);
        if now.jobs.is_none() && self.last.jobs.is_some() {
            self.is_torn = true;
            now.jobs.clone_from(&self.last.jobs);
        }
        let before = self.last.jobs.as_deref().unwrap_or_default();
        let after = now.jobs.as_deref().unwrap_or_default();
        changes.count_jobs(before, after);
        let more = |new: &BTreeSet<PathBuf>, old: &BTreeSet<PathBuf>| -> u32 {
            new.difference(old).count() as u32
        };
        changes.made += more(&now.results, &self.last.results);
        changes.thrown_away += more(&now.trash, &self.last.trash);
        changes.brought_back += more(&self.last.trash, &now.trash);
        changes.settings += u32::from(now.settings != self.last.settings);
        self.last = now;
        self.note_jobs();
    }

    /// The jobs that were on disk and are not among these, though nothing was made of them. Only where nobody takes
    /// jobs out of the queue.
    pub(super) fn lost(&self, jobs: &[QueuedJob]) -> Vec<JobId> {
        let there = ids(jobs);
        let results = files_in(&self.home, &RESULTS);
        // Of a job that was last seen without a name nobody knows which result is its own.
        let has_new = results.difference(&self.results_at_first).next().is_some();
        let lost = self.known.values().filter(|job| {
            let is_made = if job.has_output {
                has_result(job.request.out())
            } else {
                has_new
            };
            !there.contains(&job.id) && !is_made
        });
        lost.map(|job| job.id).collect()
    }

    /// Of jobs with prompts of their own, which were there at first: those whose prompts stand in none of these, where
    /// there are more than could be taken out or have become results.
    pub(super) fn lost_of(
        &self,
        laid: &[QueuedJob],
        jobs: &[QueuedJob],
        taken_out: usize,
    ) -> Vec<JobId> {
        let is_there = |job: &&QueuedJob| {
            let mut others = jobs.iter();
            others.any(|other| other.request.title() == job.request.title())
        };
        let lost: Vec<JobId> = laid
            .iter()
            .filter(|job| !is_there(job))
            .map(|job| job.id)
            .collect();
        let results = files_in(&self.home, &RESULTS);
        let made = results.difference(&self.results_at_first).count();
        if lost.len() > taken_out + made {
            lost
        } else {
            Vec::new()
        }
    }
}

/// Whether a file of this name is there, perhaps with a number behind it.
fn has_result(out: &Path) -> bool {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    let folder = out.parent().unwrap_or(out);
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(stem.as_ref()) && !is_partial(&entry.path())
    })
}
