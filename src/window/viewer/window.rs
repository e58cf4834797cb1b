//! Frame cache of a long video: the frames around the current position, up to a memory limit.
//!
//! Plain bookkeeping; `reading` reads frames.

use std::collections::BTreeMap;
use std::sync::Arc;

use safelight_core::media::RgbPixels;

/// Cached bytes of one video. At 1280 × 720 these are 194 frames.
pub const BUDGET_BYTES: usize = 512 << 20;
/// Held however large they are.
const MIN_ROOM: usize = 4;
/// A gap that is sooner decoded through than entered anew.
const MAX_GAP: usize = 24;

/// Evicted frames, to be dropped where nothing waits for it.
pub type EvictedFrames = Vec<Arc<RgbPixels>>;

#[derive(Debug)]
pub struct FrameWindow {
    len: usize,
    at: usize,
    is_backward: bool,
    budget_bytes: usize,
    /// The largest that was seen, or that the headers promise.
    frame_bytes: usize,
    frames: BTreeMap<usize, Arc<RgbPixels>>,
}

impl FrameWindow {
    pub fn new(len: usize, frame_bytes: usize, budget_bytes: usize) -> Self {
        Self {
            len,
            at: 0,
            is_backward: false,
            budget_bytes,
            frame_bytes: frame_bytes.max(1),
            frames: BTreeMap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Sets another position or direction; returns whether it changed. Distant frames stay until the next frame
    /// arrives: freeing hundreds of them would delay the display.
    pub fn look_at(&mut self, at: usize, is_backward: bool) -> bool {
        let at = at.min(self.len.saturating_sub(1));
        let is_news = (self.at, self.is_backward) != (at, is_backward);
        (self.at, self.is_backward) = (at, is_backward);
        is_news
    }

    /// There are fewer frames than was thought. Gives those that are not wanted any more.
    #[must_use]
    pub fn end_at(&mut self, len: usize) -> EvictedFrames {
        self.len = self.len.min(len);
        self.at = self.at.min(self.len.saturating_sub(1));
        self.evict()
    }

    pub fn exact(&self, index: usize) -> Option<&Arc<RgbPixels>> {
        self.frames.get(&index)
    }

    /// The frame, else the nearest one before it, else the nearest after it.
    pub fn nearest(&self, index: usize) -> Option<&Arc<RgbPixels>> {
        let before = self.frames.range(..=index).next_back();
        before
            .or_else(|| self.frames.range(index..).next())
            .map(|(_, image)| image)
    }

    /// Takes a frame in. Gives those that are not wanted any more.
    #[must_use]
    pub fn insert(&mut self, index: usize, image: Arc<RgbPixels>) -> EvictedFrames {
        self.frame_bytes = self.frame_bytes.max(image.rgb.len());
        self.frames.insert(index, image);
        self.evict()
    }

    /// The most urgent frame that is not there.
    pub fn next_missing(&self) -> Option<usize> {
        let (ahead, behind) = self.reach();
        let later = (0..=ahead).map(|by| self.frame_at_offset(by, self.is_backward));
        let mut wanted =
            later.chain((1..=behind).map(|by| self.frame_at_offset(by, !self.is_backward)));
        wanted.find(|index| *index < self.len && !self.frames.contains_key(index))
    }

    /// Start of reading for a missing frame: with those before it if the video runs backwards.
    pub fn begin_for(&self, missing: usize) -> usize {
        let mut begin = missing;
        let is_missing = |index: usize| self.is_wanted(index) && !self.frames.contains_key(&index);
        while self.is_backward && begin > 0 && is_missing(begin - 1) {
            begin -= 1;
        }
        begin
    }

    /// Returns whether reading should continue after this frame; `None` to wait until something changes.
    pub fn goes_on(&self, next: usize) -> Option<bool> {
        let missing = self.next_missing()?;
        let begin = self.begin_for(missing);
        Some((next <= missing && missing - next <= MAX_GAP) || (begin..=missing).contains(&next))
    }

    fn is_wanted(&self, index: usize) -> bool {
        let (ahead, behind) = self.reach();
        if index >= self.len {
            return false;
        }
        let forward = (index + self.len - self.at) % self.len;
        let backward = (self.len - forward) % self.len;
        let (later, earlier) = if self.is_backward {
            (backward, forward)
        } else {
            (forward, backward)
        };
        later <= ahead || earlier <= behind
    }

    /// Numbers of frames cached before and after the position, in the direction of playback.
    fn reach(&self) -> (usize, usize) {
        let room = (self.budget_bytes / self.frame_bytes).max(MIN_ROOM);
        let others = room.min(self.len).saturating_sub(1);
        let behind = others / 4;
        (others - behind, behind)
    }

    /// So many frames on, around the loop.
    fn frame_at_offset(&self, by: usize, is_backward: bool) -> usize {
        let len = self.len.max(1);
        let by = by % len;
        let step = if is_backward { len - by } else { by };
        (self.at + step) % len
    }

    fn evict(&mut self) -> EvictedFrames {
        let mut frames = std::mem::take(&mut self.frames);
        let unwanted = frames.extract_if(.., |index, _| !self.is_wanted(*index));
        let unwanted = unwanted.map(|(_, image)| image).collect();
        self.frames = frames;
        unwanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Arc<RgbPixels> {
        Arc::new(RgbPixels::from_fn(10, 10, |_, _| [1, 2, 3]).unwrap())
    }

    /// Fills what is missing and says in which order; at most so many.
    fn fill(window: &mut FrameWindow) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some(missing) = window.next_missing() {
            drop(window.insert(missing, image()));
            order.push(missing);
            assert!(order.len() <= 1000, "it never ends");
        }
        order
    }

    #[test]
    fn only_frames_near_the_playhead_of_a_long_video_are_cached() {
        let mut window = FrameWindow::new(10_000, 300, 300 * 20);
        for at in [0, 50, 9_999, 4_000] {
            window.look_at(at, false);
            fill(&mut window);
            assert!(window.frames.len() <= 20, "{}", window.frames.len());
            assert!(window.exact(at).is_some());
            assert!(window.exact((at + 10) % 10_000).is_some());
            assert!(window.exact((at + 9_997) % 10_000).is_some());
        }
    }

    #[test]
    fn seeking_frees_no_frames_until_the_next_frame_arrives() {
        let mut window = FrameWindow::new(1000, 300, 300 * 20);
        fill(&mut window);
        window.look_at(500, false);
        assert_eq!(window.frames.len(), 20);
        let unwanted = window.insert(500, image());
        assert_eq!((unwanted.len(), window.frames.len()), (20, 1));
        // What came too late goes as well.
        assert_eq!(window.insert(7, image()).len(), 1);
    }

    #[test]
    fn reverse_playback_reads_chunks_that_end_at_the_current_frame() {
        let mut window = FrameWindow::new(1000, 300, 300 * 21);
        window.look_at(500, true);
        let missing = window.next_missing().unwrap();
        assert_eq!((missing, window.begin_for(missing)), (500, 485));
        for index in 485..=500 {
            assert_eq!(window.goes_on(index), Some(true), "{index}");
            drop(window.insert(index, image()));
        }
        // What is left lies behind the place.
        assert_eq!(window.next_missing(), Some(501));
    }

    #[test]
    fn reading_continues_across_a_small_gap_and_seeks_across_a_large_one() {
        let mut window = FrameWindow::new(1000, 300, 300 * 100);
        window.look_at(10, false);
        assert_eq!(window.goes_on(0), Some(true));
        window.look_at(500, false);
        assert_eq!(window.goes_on(11), Some(false));
        assert_eq!(window.goes_on(501), Some(false), "it has gone by");
        let mut whole = FrameWindow::new(3, 300, 1 << 20);
        fill(&mut whole);
        assert_eq!(whole.goes_on(3), None);
    }

    #[test]
    fn a_file_that_ends_early_has_fewer_frames() {
        let mut window = FrameWindow::new(100, 300, 1 << 20);
        window.look_at(90, false);
        drop(window.end_at(10));
        assert_eq!((window.len(), window.at()), (10, 9));
        assert_eq!(fill(&mut window).len(), 10);
        drop(window.end_at(0));
        assert_eq!(window.next_missing(), None);
        assert!(window.nearest(5).is_none());
    }
}
