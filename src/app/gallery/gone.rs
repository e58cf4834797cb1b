//! Tells the viewer and the strip which results went to the trash, and which came back from it.
//!
//! Throwing away and bringing back are done in `trashing`; what came of it is seen on the disk.

use std::path::PathBuf;

use crate::app::commands::PlayerCommand;
use crate::app::cx::Cx;
use crate::app::gallery::wishes::TrashWish;
use crate::app::pending::Pending;

/// So many deletions are followed; more cannot be taken back anyway.
const MAX_FOLLOWED: usize = 500;

/// The files that somebody wished to throw away.
#[derive(Default)]
pub(super) struct Gone {
    wished: Vec<PathBuf>,
    /// What is looked at when what is shown has gone.
    next: Option<PathBuf>,
    /// The trash has done something since files were looked for.
    pub is_due: bool,
    looking: Pending<Vec<PathBuf>>,
}

impl Gone {
    /// `next`: the neighbour of these in the list.
    pub fn follow(&mut self, wishes: &[TrashWish], next: Option<PathBuf>) {
        for wish in wishes {
            if !self.wished.contains(&wish.path) {
                self.wished.push(wish.path.clone());
            }
        }
        let too_many = self.wished.len().saturating_sub(MAX_FOLLOWED);
        self.wished.drain(..too_many);
        self.next = next;
    }

    /// While the trash does nothing: looks for the files when it has done something.
    pub fn poll(&mut self, cx: &mut Cx) {
        if let Some(gone) = self.looking.take() {
            cx.push(PlayerCommand::Gone(gone, self.next.take()));
        }
        if !self.is_due || self.wished.is_empty() || self.looking.is_busy() {
            return;
        }
        let wished = self.wished.clone();
        let looking = cx.background.on_files(move || {
            let gone = wished.into_iter().filter(|path| !path.exists());
            gone.collect()
        });
        if let Some(looking) = looking {
            (self.looking, self.is_due) = (looking, false);
        }
    }
}
