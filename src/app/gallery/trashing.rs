//! Throwing results away, and bringing them back: one thing at a time, in the order of the wishes.
//!
//! Files only go to the desktop's trash. What a job writes or begins with stays.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use safelight_core::gallery::files_of;
use safelight_core::job::{GenerateRequest, JobError, JobErrorKind};
use safelight_core::trash::{Trash, TrashError, Trashed};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::gallery::librarian::{Errand, Order};
use crate::app::gallery::{GalleryAnswer, problem_severity, tell};

/// So many deletions can be taken back; older ones only with the desktop's own trash.
const MAX_BATCHES: usize = 100;

/// A result that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashWish {
    pub path: PathBuf,
    /// It stands for all numbered pictures of a clip.
    pub is_frame: bool,
}

/// A result in the trash, with all its files.
#[derive(Debug)]
pub struct TrashedResult {
    /// The name by which it was listed.
    path: PathBuf,
    files: Vec<Trashed>,
}

/// What came of a wish to delete.
#[derive(Default)]
pub struct TrashedResults {
    trashed: Vec<TrashedResult>,
    /// Files that are not there any more, under the names by which they are listed.
    gone: Vec<PathBuf>,
    /// Why others stayed, a sentence each.
    problems: Vec<String>,
}

/// What came of a wish to bring something back.
#[derive(Default)]
pub struct RestoredResults {
    /// Under the names by which they are listed.
    restored: Vec<PathBuf>,
    /// They are still in the trash.
    failed: Vec<TrashedResult>,
    /// Why, a sentence each.
    problems: Vec<String>,
}

/// What is done with the trash.
enum TrashErrand {
    Put(Vec<TrashWish>),
    Undo,
}

/// What can be taken back, and what is still to be done.
#[derive(Default)]
pub struct Bin {
    /// What went together comes back together, the last one first.
    batches: Vec<Vec<TrashedResult>>,
    waiting: VecDeque<TrashErrand>,
    is_busy: bool,
    /// What can be taken back is told.
    pub is_told: bool,
}

impl Bin {
    /// There is something to take back, or will be.
    pub fn can_undo(&self) -> bool {
        self.is_busy || !self.batches.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// What would come back, in words.
    pub fn words(&self) -> Option<String> {
        let last = self.batches.last().filter(|_| self.is_told)?;
        Some(match last.len() {
            1 => "1 result is in the trash".to_owned(),
            more => format!("{more} results are in the trash"),
        })
    }

    fn keep(&mut self, batch: Vec<TrashedResult>) {
        self.batches.push(batch);
        if self.batches.len() > MAX_BATCHES {
            self.batches.remove(0);
        }
    }
}

impl App {
    pub(super) fn trash(&mut self, wishes: Vec<TrashWish>) {
        self.do_with_trash(TrashErrand::Put(wishes));
    }

    pub(super) fn undo_trash(&mut self) {
        self.do_with_trash(TrashErrand::Undo);
    }

    fn do_with_trash(&mut self, errand: TrashErrand) {
        self.session.gallery.bin.waiting.push_back(errand);
        self.go_on_with_trash();
    }

    /// Begins with what is wished next, unless something is under way.
    fn go_on_with_trash(&mut self) {
        while !self.session.gallery.bin.is_busy {
            let Some(errand) = self.session.gallery.bin.waiting.pop_front() else {
                return;
            };
            match errand {
                TrashErrand::Put(wishes) => self.begin_to_trash(wishes),
                TrashErrand::Undo => self.begin_to_restore(),
            }
        }
    }

    fn begin_to_trash(&mut self, wishes: Vec<TrashWish>) {
        let Some(paths) = &self.paths else {
            return;
        };
        let mut results = TrashedResults::default();
        let free: Vec<TrashWish> = wishes
            .into_iter()
            .filter(|wish| {
                let is_written = self.is_being_written(&wish.path);
                if is_written {
                    let path = wish.path.display();
                    let why = format!("the running job writes this file: {path}");
                    results.problems.push(why);
                }
                !is_written
            })
            .collect();
        let trash = Trash::new(paths.trash());
        let needed = self.needed_files();
        self.session.gallery.moves_on = true;
        self.session.gallery.bin.is_busy = true;
        self.background.spawn("trash", move |postbox| {
            for wish in free {
                results.put(&trash, wish, &needed);
            }
            let answer = GalleryAnswer::Trashed(results);
            postbox.post(Answer::Gallery(Box::new(answer)));
        });
    }

    fn begin_to_restore(&mut self) {
        let Some(batch) = self.session.gallery.bin.batches.pop() else {
            return;
        };
        self.session.gallery.bin.is_busy = true;
        self.background.spawn("trash", move |postbox| {
            let mut results = RestoredResults::default();
            for result in batch {
                results.bring_back(result);
            }
            let answer = GalleryAnswer::Restored(results);
            postbox.post(Answer::Gallery(Box::new(answer)));
        });
    }

    fn is_being_written(&self, path: &Path) -> bool {
        let running = self.queue.running.as_ref();
        running.is_some_and(|job| is_written(&job.request, path))
    }

    /// The files that jobs begin with.
    fn needed_files(&self) -> HashSet<PathBuf> {
        let running = self.queue.running.as_ref().map(|job| &job.request);
        let waiting = self.queue.waiting.iter();
        let stopped = self.queue.stopped.iter().map(|stopped| &stopped.job);
        let waiting = waiting.chain(stopped).map(|job| &job.request);
        let inputs = |request: &GenerateRequest| {
            let GenerateRequest {
                image,
                last_image,
                mask,
                extend,
                ..
            } = request;
            [image, last_image, mask, extend].map(Option::clone)
        };
        let inputs = waiting.chain(running).flat_map(inputs);
        inputs.flatten().collect()
    }

    pub(super) fn take_trashed(&mut self, results: TrashedResults) {
        let TrashedResults {
            trashed,
            gone,
            problems,
        } = results;
        let num_results = trashed.len();
        let page = &mut self.session.gallery;
        page.bin.is_busy = false;
        if num_results > 0 {
            page.bin.keep(trashed);
            page.bin.is_told = true;
        }
        if !gone.is_empty()
            && let Some(threads) = &page.threads
        {
            page.moves_on = true;
            tell(&threads.librarian, Errand::Gone(gone));
            tell(&threads.scanner, Order::Look);
        }
        let what = match problems.as_slice() {
            [] => None,
            [one] => Some(format!("not deleted: {one}")),
            [first, ..] => Some(format!(
                "{} files were not deleted: {first}",
                problems.len()
            )),
        };
        if let Some(what) = what {
            let err = JobError::new(JobErrorKind::Disk, what)
                .advise("They are where they were")
                .detail(problems.join("\n"));
            self.session.notify(problem_severity(num_results), err);
        }
        self.go_on_with_trash();
    }

    pub(super) fn take_restored(&mut self, results: RestoredResults) {
        let RestoredResults {
            restored,
            failed,
            problems,
        } = results;
        let num_results = restored.len();
        let page = &mut self.session.gallery;
        page.bin.is_busy = false;
        if !failed.is_empty() {
            // They can be tried again, and do not stand in the way of what went before them.
            page.bin.batches.insert(0, failed);
        }
        if num_results > 0 {
            page.selection.expect(restored);
            "Back from the trash".clone_into(&mut self.session.last_word);
            if let Some(threads) = &page.threads {
                tell(&threads.scanner, Order::Look);
            }
        }
        if let Some(first) = problems.first() {
            let err = JobError::new(JobErrorKind::Disk, format!("not brought back: {first}"))
                .advise("The desktop's trash still has it")
                .detail(problems.join("\n"));
            self.session.notify(problem_severity(num_results), err);
        }
        self.go_on_with_trash();
    }
}

impl TrashedResults {
    /// Throws away the result itself, then what belongs to it.
    fn put(&mut self, trash: &Trash, wish: TrashWish, needed: &HashSet<PathBuf>) {
        let files = files_of(&wish.path, wish.is_frame);
        if let Some(file) = files.iter().find(|file| needed.contains(*file)) {
            let path = file.display();
            let why = format!("a job in the queue begins with this file: {path}");
            self.problems.push(why);
            return;
        }
        let mut trashed = Vec::new();
        for file in files {
            match trash.put(&file) {
                Ok(one) => trashed.push(one),
                // Deleted twice, or by another program: that is what was wished.
                Err(TrashError::Gone { .. }) => {}
                Err(err) => {
                    self.problems.push(err.to_string());
                    break;
                }
            }
            self.gone.push(file);
        }
        if !trashed.is_empty() {
            let (path, files) = (wish.path, trashed);
            self.trashed.push(TrashedResult { path, files });
        }
    }
}

impl RestoredResults {
    fn bring_back(&mut self, result: TrashedResult) {
        let TrashedResult { path, mut files } = result;
        let mut is_whole = true;
        files.retain(|file| {
            let Err(err) = file.restore() else {
                return false;
            };
            is_whole = false;
            self.problems.push(err.to_string());
            // Where the trash was emptied there is nothing to try again.
            file.file.exists()
        });
        if is_whole {
            self.restored.push(path);
        } else if !files.is_empty() {
            self.failed.push(TrashedResult { path, files });
        }
    }
}

/// Whether a job writes this file: its own, or a numbered one of it.
fn is_written(request: &GenerateRequest, path: &Path) -> bool {
    let out = &request.out;
    let (Some(stem), Some(name)) = (out.file_stem(), path.file_stem()) else {
        return false;
    };
    let (stem, name) = (stem.to_string_lossy(), name.to_string_lossy());
    let rest = name.strip_prefix(stem.as_ref());
    let is_number = |rest: &str| {
        let digits = rest.strip_prefix('_').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    out.parent() == path.parent()
        && out.extension() == path.extension()
        && rest.is_some_and(|rest| rest.is_empty() || is_number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_running_job_and_its_numbered_ones_are_told_from_others() {
        let mut job: GenerateRequest = serde_json::from_value(serde_json::json!({
            "model": "m", "family": "wan", "prompt": "", "negative_prompt": "", "width": 8, "height": 8,
            "num_frames": 1, "fps": 8.0, "num_steps": 1, "guidance_scale": 1.0, "sampler": "euler", "seed": 1,
        }))
        .unwrap();
        job.out = PathBuf::from("/r/boat.png");
        for (path, expected) in [
            ("/r/boat.png", true),
            ("/r/boat_0003.png", true),
            ("/r/boat_x.png", false),
            ("/r/boat.mp4", false),
            ("/r/boats.png", false),
            ("/s/boat.png", false),
        ] {
            assert_eq!(is_written(&job, Path::new(path)), expected, "{path}");
        }
    }
}
