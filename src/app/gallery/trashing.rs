//! Throwing results away, and bringing them back.
//!
//! Files only go to the desktop's trash. What a job writes or begins with stays.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use safelight_core::gallery::files_of;
use safelight_core::job::{GenerateRequest, JobError, JobErrorKind};
use safelight_core::trash::{Trash, Trashed};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::gallery::librarian::{Errand, Order};
use crate::app::gallery::{GalleryAnswer, problem_severity, tell};

/// A result that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashWish {
    pub path: PathBuf,
    /// It stands for all numbered pictures of a clip.
    pub is_frame: bool,
}

/// What came of it.
pub struct TrashedResults {
    /// Files, more than one of a clip of numbered pictures.
    pub trashed: Vec<Trashed>,
    /// The same under the names by which they are listed.
    pub gone: Vec<PathBuf>,
    pub num_results: usize,
    /// Why others stayed, a sentence each.
    pub problems: Vec<String>,
}

impl App {
    pub(super) fn trash(&mut self, wishes: Vec<TrashWish>) {
        let Some(paths) = &self.paths else {
            return;
        };
        if self.session.gallery.is_trashing {
            return;
        }
        let mut problems = Vec::new();
        let free: Vec<TrashWish> = wishes
            .into_iter()
            .filter(|wish| {
                let is_written = self.is_being_written(&wish.path);
                if is_written {
                    let path = wish.path.display();
                    problems.push(format!("the running job writes this file: {path}"));
                }
                !is_written
            })
            .collect();
        let trash = Trash::new(paths.trash());
        let needed = self.needed_files();
        self.session.gallery.moves_on = true;
        self.session.gallery.is_trashing = true;
        self.background.spawn("trash", move |postbox| {
            let mut results = TrashedResults {
                trashed: Vec::new(),
                gone: Vec::new(),
                num_results: 0,
                problems,
            };
            for wish in free {
                // The result itself, then what belongs to it.
                let files = files_of(&wish.path, wish.is_frame);
                if let Some(file) = files.iter().find(|file| needed.contains(*file)) {
                    let path = file.display();
                    let why = format!("a job in the queue begins with this file: {path}");
                    results.problems.push(why);
                    continue;
                }
                for (index, file) in files.into_iter().enumerate() {
                    match trash.put(&file) {
                        Ok(trashed) => {
                            results.num_results += usize::from(index == 0);
                            results.trashed.push(trashed);
                            results.gone.push(file);
                        }
                        Err(err) => {
                            results.problems.push(err.to_string());
                            break;
                        }
                    }
                }
            }
            let answer = GalleryAnswer::Trashed(results);
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
            num_results,
            problems,
        } = results;
        let page = &mut self.session.gallery;
        page.is_trashing = false;
        if num_results > 0 {
            page.trash_word = match num_results {
                1 => "1 result is in the trash".to_owned(),
                more => format!("{more} results are in the trash"),
            };
            if let Some(threads) = &page.threads {
                tell(&threads.librarian, Errand::Gone(gone));
                tell(&threads.scanner, Order::Look);
            }
            page.trashed = trashed;
        }
        let what = match problems.as_slice() {
            [] => return,
            [one] => format!("not deleted: {one}"),
            [first, ..] => format!("{} files were not deleted: {first}", problems.len()),
        };
        let err = JobError::new(JobErrorKind::Disk, what)
            .advise("They are where they were")
            .detail(problems.join("\n"));
        self.session.notify(problem_severity(num_results), err);
    }

    pub(super) fn undo_trash(&mut self) {
        let trashed = std::mem::take(&mut self.session.gallery.trashed);
        if trashed.is_empty() {
            return;
        }
        self.background.spawn("trash", move |postbox| {
            let mut problems = Vec::new();
            let mut num_files = 0;
            for one in &trashed {
                match one.restore() {
                    Ok(()) => num_files += 1,
                    Err(err) => problems.push(err.to_string()),
                }
            }
            let answer = GalleryAnswer::Restored(num_files, problems);
            postbox.post(Answer::Gallery(Box::new(answer)));
        });
    }

    pub(super) fn take_restored(&mut self, num_files: usize, problems: &[String]) {
        self.session.gallery.trash_word.clear();
        if num_files > 0 {
            "Back from the trash".clone_into(&mut self.session.last_word);
            if let Some(threads) = &self.session.gallery.threads {
                tell(&threads.scanner, Order::Look);
            }
        }
        if let Some(first) = problems.first() {
            let err = JobError::new(JobErrorKind::Disk, format!("not brought back: {first}"))
                .advise("The desktop's trash still has it")
                .detail(problems.join("\n"));
            self.session.notify(problem_severity(num_files), err);
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
