//! The threads that open results: for their small pictures, those on the screen first, and for what they say.
//!
//! Results come from anywhere, so what a decoder does with one must harm no other.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use egui::ColorImage;
use safelight_core::gallery::{Found, ThumbFolder, ThumbKey, read_facts};
use safelight_core::media::{self, Picture};

use crate::app::background::guard::{NOT_SURVIVED, guarded};
use crate::app::gallery::librarian::Errand;
use crate::app::gallery::wishes::ThumbWish;
use crate::app::pending::Postbox;
use crate::app::state::color_image;

/// Two, so that one large file does not hold up the screen.
pub(super) const NUM_READERS: usize = 2;
/// After so many new small pictures the oldest are looked at.
const PRUNE_EVERY: usize = 1000;

/// A small picture, or why there is none.
pub(super) type MadeThumb = (ThumbWish, Result<ColorImage, String>);

/// What is to be read, for several threads.
#[derive(Default)]
pub(super) struct Desk {
    lists: Mutex<Lists>,
    more: Condvar,
}

#[derive(Default)]
struct Lists {
    /// In the order of their need.
    thumbs: VecDeque<ThumbWish>,
    unread: VecDeque<Found>,
    /// Of which file, and how large.
    in_work: HashSet<(ThumbKey, u32)>,
    num_made: usize,
    is_closed: bool,
}

enum Job {
    Thumb(ThumbWish),
    Facts(Found),
}

impl Desk {
    /// Held for moments only: nobody opens a file meanwhile.
    fn lists(&self) -> MutexGuard<'_, Lists> {
        // A panic elsewhere leaves whole lists.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on the screen now; earlier wishes do not count any more.
    pub fn want(&self, wishes: Vec<ThumbWish>) {
        let mut lists = self.lists();
        let in_work = &lists.in_work;
        lists.thumbs = wishes
            .into_iter()
            .filter(|wish| !in_work.contains(&(wish.key, wish.side)))
            .collect();
        drop(lists);
        self.more.notify_all();
    }

    pub fn read(&self, found: Vec<Found>) {
        let mut lists = self.lists();
        // What came last is what somebody waits for.
        for one in found.into_iter().rev() {
            lists.unread.push_front(one);
        }
        drop(lists);
        self.more.notify_all();
    }

    /// Lets the threads end.
    pub fn close(&self) {
        self.lists().is_closed = true;
        self.more.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut lists = self.lists();
        loop {
            if lists.is_closed {
                return None;
            }
            if let Some(wish) = lists.thumbs.pop_front() {
                lists.in_work.insert((wish.key, wish.side));
                return Some(Job::Thumb(wish));
            }
            if let Some(found) = lists.unread.pop_front() {
                return Some(Job::Facts(found));
            }
            lists = self
                .more
                .wait(lists)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether old small pictures are to be looked for now.
    fn end(&self, wish: &ThumbWish) -> bool {
        let mut lists = self.lists();
        lists.in_work.remove(&(wish.key, wish.side));
        lists.num_made += 1;
        lists.num_made.is_multiple_of(PRUNE_EVERY)
    }
}

/// Reads until the desk is closed.
pub(super) fn read(
    desk: &Arc<Desk>,
    thumbs: &ThumbFolder,
    librarian: &Sender<Errand>,
    postbox: &Postbox<MadeThumb>,
) {
    while let Some(job) = desk.next() {
        match job {
            Job::Thumb(wish) => {
                let made = readable(|| {
                    let picture = thumbs.get(&wish.path, wish.key)?;
                    Ok(as_image(picture, wish.side))
                });
                let is_pruning_due = desk.end(&wish);
                postbox.post((wish, made));
                if is_pruning_due {
                    thumbs.prune();
                }
            }
            Job::Facts(found) => {
                let read = readable(|| read_facts(&found.path));
                if librarian.send(Errand::Read(found, read)).is_err() {
                    return;
                }
            }
        }
    }
}

fn as_image(picture: Picture, side: u32) -> ColorImage {
    if picture.width.max(picture.height) <= side {
        return color_image(&picture);
    }
    let small = media::thumbnail(&picture, side, side);
    color_image(&small.unwrap_or(picture))
}

/// Runs a decoder; what it dies of is the file's fault alone.
fn readable<T>(work: impl FnOnce() -> Result<T, media::MediaError>) -> Result<T, String> {
    match guarded(work) {
        Some(done) => done.map_err(|err| err.to_string()),
        None => Err(NOT_SURVIVED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use safelight_core::gallery::Stamp;

    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_larger_picture_is_made_though_the_small_one_is_in_work() {
        let wish = |side| ThumbWish {
            path: PathBuf::from("/a"),
            key: ThumbKey::of(Path::new("/a"), Stamp::default()),
            side,
        };
        let desk = Desk::default();
        desk.want(vec![wish(160)]);
        assert!(matches!(desk.next(), Some(Job::Thumb(begun)) if begun.side == 160));
        desk.want(vec![wish(160), wish(320)]);
        assert_eq!(desk.lists().thumbs, [wish(320)]);
        desk.end(&wish(160));
        desk.want(vec![wish(160)]);
        assert_eq!(desk.lists().thumbs, [wish(160)]);
    }
}
