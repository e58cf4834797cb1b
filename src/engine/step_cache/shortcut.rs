//! What one call of a network may leave out, and what is kept for the calls of one text.

use safelight_core::job::BlockSet;
use tch::Tensor;

use super::{CallCache, StepCache};

/// What one call may leave out.
#[derive(Clone, Copy, Default)]
pub struct SkipOptions<'a> {
    pub cache: CallCache<'a>,
    /// Blocks that change nothing, for guidance by a worse answer.
    pub without: BlockSet,
}

/// The caches of one text: answers without some blocks are not those of the whole network.
#[derive(Default)]
pub struct ContextCaches {
    whole: Option<StepCache>,
    without: Option<StepCache>,
}

impl ContextCaches {
    /// `make`: a new cache, where the walk has one.
    pub fn new(make: impl Fn() -> Option<StepCache>) -> Self {
        Self {
            whole: make(),
            without: make(),
        }
    }

    /// What `make` answers to `call` when it leaves out the blocks of `without`, or what follows of earlier answers;
    /// `None` when cancelled.
    pub fn answer(
        &self,
        call: usize,
        without: BlockSet,
        make: impl FnOnce(SkipOptions<'_>) -> Option<Tensor>,
    ) -> Option<Tensor> {
        let cache = if without.is_empty() {
            &self.whole
        } else {
            &self.without
        };
        match cache {
            Some(cache) => cache.answer(call, || {
                let cache = Some((cache, call));
                make(SkipOptions { cache, without })
            }),
            None => make(SkipOptions {
                cache: None,
                without,
            }),
        }
    }

    /// How many calls of the whole network were skipped; `None` where there is no cache.
    pub fn num_skipped(&self) -> Option<usize> {
        self.whole.as_ref().map(StepCache::num_skipped)
    }
}
