//! Blocks and calls that one evaluation of a network skips, with the caches of one text.

use safelight_core::job::{BlockSet, StepCache};
use tch::Tensor;

use super::{CacheCalibration, CallCache, ContextCache, SkipSignals};

/// One call of a network. Without a cache that leaves out blocks it does nothing, and copies nothing.
pub struct BlockSkipper<'a> {
    cache: CallCache<'a>,
    without: BlockSet,
    /// Input of the blocks that may be skipped.
    before: Option<Tensor>,
}

impl<'a> BlockSkipper<'a> {
    pub fn of(shortcut: SkipOptions<'a>) -> Self {
        let SkipOptions { cache, without } = shortcut;
        Self {
            cache: cache.filter(|(cache, _)| cache.skips_blocks()),
            without,
            before: None,
        }
    }

    /// Returns whether a block, counted through all lists, is skipped.
    pub fn skips_block(&self, block: usize) -> bool {
        self.without.holds(block)
    }

    /// `xs`: input of the first block, `modulated`: that input after its norm and modulation, in models with a
    /// calibration for TeaCache. Returns the output of all blocks if it is known without running any.
    pub fn start(&mut self, xs: &Tensor, modulated: &Tensor) -> Option<Tensor> {
        self.cache?;
        self.before = Some(xs.copy());
        self.cached_hidden(modulated, xs, false)
    }

    /// `xs`: what comes of the first block -> what comes of all of them, where that is known without running others
    pub fn first(&mut self, xs: &Tensor) -> Option<Tensor> {
        self.cache.filter(|(cache, _)| cache.runs_first_block())?;
        let hidden = self.cached_hidden(xs, xs, true);
        if hidden.is_none() {
            self.before = Some(xs.copy());
        }
        hidden
    }

    /// `xs`: what comes of the last block, where all ran.
    pub fn end(&self, xs: &Tensor) {
        if let (Some((cache, _)), Some(before)) = (self.cache, &self.before) {
            cache.keep(before, xs);
        }
    }

    fn cached_hidden(&self, modulated: &Tensor, now: &Tensor, is_first: bool) -> Option<Tensor> {
        let runs_first = |(cache, _): &(&ContextCache, usize)| cache.runs_first_block() == is_first;
        let (cache, call) = self.cache.filter(runs_first)?;
        let signals = BlockSignals {
            modulated,
            before: self.before.as_ref()?,
            now,
        };
        let residual = cache.stand_in(call, &signals)?;
        Some(now + residual)
    }
}

/// Inputs that a step cache may use.
struct BlockSignals<'a> {
    modulated: &'a Tensor,
    before: &'a Tensor,
    now: &'a Tensor,
}

impl SkipSignals for BlockSignals<'_> {
    fn modulated(&self) -> Tensor {
        self.modulated.copy()
    }

    fn first_residual(&self) -> Tensor {
        self.now - self.before
    }
}

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
    /// `calibration`: of `num_calls` calls, computed only if a cache was chosen
    pub fn new(
        choice: Option<StepCache>,
        num_calls: usize,
        calibration: impl Fn() -> CacheCalibration,
    ) -> Self {
        let make = || ContextCache::new(choice?, num_calls, calibration());
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
