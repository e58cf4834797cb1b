//! Batching of the conditional and unconditional pass: together if the device has room for both and gains by it,
//! otherwise one after the other.

use safelight_core::job::StepCache as Choice;
use tch::{Device, Tensor};

use super::denoise::{WanCachedContext, WanConditioning};
use super::transformer::WanTransformer;
use crate::error::EngineError;
use crate::guidance::{GuidanceParams, GuidedPasses};
use crate::runtime::free_bytes;
use crate::step_cache::{CacheCalibration, ContextCache, ContextCaches};

/// Memory of one pass above which batching does not pay: it fills a GPU alone.
const LARGEST_JOINED_PASS: u64 = 1 << 30;

/// Batching of the guidance passes.
pub(super) struct CfgBatching {
    pub cache: Option<Choice>,
    /// Of the whole schedule.
    pub num_calls: usize,
    /// Step cache calibration of the model.
    pub measured: CacheCalibration,
    /// Memory of one pass in addition to the weights.
    pub bytes: u64,
    pub device: Device,
}

/// Text contexts of `conditions`.
pub(super) fn guidance(
    transformer: &WanTransformer,
    conditions: &WanConditioning<'_>,
    guiding: GuidanceParams,
    passes: &CfgBatching,
) -> Result<GuidedPasses<WanCachedContext>, EngineError> {
    let asked = |embeds: &Tensor| WanCachedContext {
        context: transformer.context(embeds, conditions.image_embeds),
        caches: ContextCaches::new(|| {
            ContextCache::new(passes.cache?, passes.num_calls, passes.measured.clone())
        }),
    };
    let (prompt, negative) = (&conditions.embeds.prompt, &conditions.embeds.negative);
    match negative {
        None if guiding.scale > 1.0 => Err(EngineError::internal(
            "the negative prompt has not been read",
        )),
        Some(negative) if guiding.scale > 1.0 && passes.join() => {
            let both = Tensor::cat(&[&prompt.prompt, &negative.prompt], 0);
            let alone = asked(&prompt.prompt);
            Ok(GuidedPasses::joined(asked(&both), alone, guiding))
        }
        _ => GuidedPasses::new(prompt, negative.as_ref(), guiding, |text| {
            Ok(asked(&text.prompt))
        }),
    }
}

impl CfgBatching {
    /// A CPU gains nothing by larger products, and a GPU nothing where one pass fills it already. What is kept from step
    /// to step is of one text.
    fn join(&self) -> bool {
        let (Device::Cuda(_), None) = (self.device, self.cache) else {
            return false;
        };
        let free = free_bytes(self.device);
        // Twice the room, as the estimate is one.
        self.bytes <= LARGEST_JOINED_PASS && free / 4 >= self.bytes
    }
}
