//! Calls and blocks that one evaluation of a network may skip, with the cache of one text.

use safelight_core::job::BlockSet;
use tch::Tensor;

use super::{CallCache, ContextCache};

/// Parts of a call that may be skipped.
#[derive(Clone, Copy, Default)]
pub struct SkipOptions<'a> {
    pub cache: CallCache<'a>,
    /// Blocks that change nothing, for guidance by a worse answer.
    pub without: BlockSet,
}

/// The caches of one text: answers without some blocks are not those of the whole network.
#[derive(Default)]
pub struct ContextCaches {
    whole: Option<ContextCache>,
    without: Option<ContextCache>,
}

impl ContextCaches {
    /// `make`: a new cache, where the walk has one.
    pub fn new(make: impl Fn() -> Option<ContextCache>) -> Self {
        Self {
            whole: make(),
            without: make(),
        }
    }

    /// Prediction of `make` for `call` without the blocks of `without`, or one extrapolated from earlier ones; `None`
    /// when cancelled.
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

    /// Number of skipped calls of the whole network; `None` without a cache.
    pub fn num_skipped(&self) -> Option<usize> {
        self.whole.as_ref().map(ContextCache::num_skipped)
    }
}
