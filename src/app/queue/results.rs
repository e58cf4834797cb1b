//! The finished jobs of this session, and how many are kept.
//!
//! Their files stay, whatever is forgotten here.

use safelight_core::job::JobId;

use crate::app::queue::JobQueue;
use crate::app::queue::jobs::ResultItem;

/// Finished clips beyond this many bytes of pixels are forgotten, oldest first. Their files stay.
const MAX_RESULT_BYTES: usize = 512 << 20;
/// More than anybody looks for in the strip; the gallery has them all.
const MAX_RESULTS: usize = 200;

impl JobQueue {
    pub fn result(&self, id: JobId) -> Option<&ResultItem> {
        self.results.iter().find(|item| item.id == id)
    }

    /// Keeps a result. Gives the oldest ones, which are forgotten, when there are too many or too many pixels.
    #[must_use]
    pub fn keep(&mut self, item: ResultItem) -> Vec<ResultItem> {
        self.results.push(item);
        let bytes_of = |item: &ResultItem| -> usize {
            let frames = &item.output.clip.frames;
            frames.iter().map(|frame| frame.rgb.len()).sum()
        };
        let mut room = MAX_RESULT_BYTES;
        let newest = self.results.iter().rev().take(MAX_RESULTS);
        let kept = newest.take_while(|item| {
            let bytes = bytes_of(item);
            let has_room = bytes <= room;
            room = room.saturating_sub(bytes);
            has_room
        });
        // The newest one stays, whatever its size.
        let num_kept = kept.count().max(1);
        let num_forgotten = self.results.len() - num_kept;
        self.results.drain(..num_forgotten).collect()
    }
}
