//! Results of this session whose files are in the trash: they leave the strip, and come back with their files.
//!
//! The trash itself is the gallery's.

use std::path::PathBuf;

use safelight_core::job::JobId;

use crate::app::cx::Cx;
use crate::app::queue::JobQueue;
use crate::app::queue::jobs::ResultItem;

/// So many can come back into the strip; of older ones the files alone come back.
const MAX_GONE: usize = 20;

impl JobQueue {
    /// Of the results that were thrown away, the files of these are not there now. Gives the place of the first one that
    /// left, and the last one that came back.
    pub fn follow_files(&mut self, gone: &[PathBuf], cx: &Cx) -> (Option<usize>, Option<JobId>) {
        let (back, still) = std::mem::take(&mut self.gone)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, item)| !is_gone(item, gone));
        self.gone = still;
        let last_back = back.last().map(|(_, item)| item.id);
        for (at, item) in back.into_iter().rev() {
            self.results.insert(at.min(self.results.len()), item);
        }
        let mut first = None;
        let mut at = 0;
        while let Some(item) = self.results.get(at) {
            if is_gone(item, gone) {
                first = first.or(Some(at));
                let item = self.results.remove(at);
                self.gone.push((at, item));
            } else {
                at += 1;
            }
        }
        let too_many = self.gone.len().saturating_sub(MAX_GONE);
        let forgotten: Vec<_> = self.gone.drain(..too_many).collect();
        cx.background.free(forgotten);
        (first, last_back)
    }
}

/// A batch is there as long as one of its pictures is.
fn is_gone(item: &ResultItem, gone: &[PathBuf]) -> bool {
    if item.is_batch() {
        let paths = &item.output.paths;
        !paths.is_empty() && paths.iter().all(|path| gone.contains(path))
    } else {
        gone.contains(&item.output.path().to_path_buf())
    }
}
