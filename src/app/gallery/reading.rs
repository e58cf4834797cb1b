//! The threads that open results for what they say of themselves.
//!
//! Results come from anywhere, so what a reader does with one must harm no other.

use crossbeam_channel::{Receiver, Sender};
use safelight_core::gallery::{Found, read_facts};

use crate::app::background::guard::{NOT_SURVIVED, guarded};
use crate::app::gallery::librarian::Errand;

/// Two, so that one large file does not hold up all others.
pub(super) const NUM_READERS: usize = 2;

/// Reads until nobody asks any more.
pub(super) fn read(unread: &Receiver<Found>, librarian: &Sender<Errand>) {
    for found in unread {
        let facts = guarded(|| read_facts(&found.path).map_err(|err| err.to_string()));
        let facts = facts.unwrap_or_else(|| Err(NOT_SURVIVED.to_owned()));
        if librarian.send(Errand::Read(found, facts)).is_err() {
            return;
        }
    }
}
