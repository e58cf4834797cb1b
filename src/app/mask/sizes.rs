//! The picture with its mask as both were before and after each extension, so that undo and redo change its size too.
//!
//! Steps within one size are the mask's own. The oldest sizes go when all of them together are too large.

use std::collections::VecDeque;
use std::rc::Rc;

use safelight_core::media::{Mask, Outpaint, Picture};

use super::tiles::Levels;

/// What all sizes that can come back may take.
const MAX_BYTES: usize = 512 << 20;

/// What is painted on, at one size.
pub(super) struct Canvas {
    pub mask: Mask,
    pub levels: Levels,
    /// The picture as it was opened, and what was painted on it, where it has room at its sides.
    pub own: Option<(Rc<Picture>, Mask)>,
    pub outpaint: Outpaint,
    /// Something was painted since it got its room.
    pub is_painted: bool,
}

impl Canvas {
    /// Without the picture as it was opened, which all of them share.
    fn bytes(&self) -> usize {
        self.mask.values().len() + self.levels.bytes()
    }
}

/// Those that came before and after the one that is painted on.
#[derive(Default)]
pub(super) struct Sizes {
    done: VecDeque<Canvas>,
    undone: Vec<Canvas>,
}

impl Sizes {
    pub(super) fn can_undo(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn can_redo(&self) -> bool {
        !self.undone.is_empty()
    }

    /// Something was changed: what was taken back does not come again.
    pub(super) fn forget_undone(&mut self) {
        self.undone.clear();
    }

    /// This was extended.
    pub(super) fn push(&mut self, before: Canvas) {
        self.undone.clear();
        self.done.push_back(before);
        let mut bytes: usize = self.done.iter().map(Canvas::bytes).sum();
        while bytes > MAX_BYTES
            && self.done.len() > 1
            && let Some(oldest) = self.done.pop_front()
        {
            bytes -= oldest.bytes();
        }
    }

    /// The one before, after which comes what `swap` gives for it; whether there is one.
    pub(super) fn undo(&mut self, swap: impl FnOnce(Canvas) -> Canvas) -> bool {
        let before = self.done.pop_back().map(swap);
        let is_any = before.is_some();
        self.undone.extend(before);
        is_any
    }

    /// The same of the one after.
    pub(super) fn redo(&mut self, swap: impl FnOnce(Canvas) -> Canvas) -> bool {
        let after = self.undone.pop().map(swap);
        let is_any = after.is_some();
        self.done.extend(after);
        is_any
    }
}
