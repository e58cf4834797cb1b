//! One level of an autoencoder: its blocks, and the step to the next level.

use crate::weights::WeightsError;

#[derive(Debug)]
pub(super) struct ResolutionLevel<B, S> {
    blocks: Vec<B>,
    step: Option<S>,
}

impl<B, S> ResolutionLevel<B, S> {
    /// `count` blocks, the first of which is as wide as what comes `before`, and all the others as the level itself.
    pub(super) fn new(
        count: i64,
        [before, own]: [i64; 2],
        block: impl Fn(i64, [i64; 2]) -> Result<B, WeightsError>,
        step: Option<Result<S, WeightsError>>,
    ) -> Result<Self, WeightsError> {
        let blocks = (0..count).map(|i| block(i, [if i == 0 { before } else { own }, own]));
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            step: step.transpose()?,
        })
    }

    /// `xs` through `block` with each block and `step` with the step; `None` when cancelled.
    pub(super) fn forward<X>(
        &self,
        mut xs: X,
        block: impl Fn(&B, X) -> Option<X>,
        step: impl FnOnce(&S, X) -> Option<X>,
    ) -> Option<X> {
        for own in &self.blocks {
            xs = block(own, xs)?;
        }
        match &self.step {
            Some(own) => step(own, xs),
            None => Some(xs),
        }
    }
}
