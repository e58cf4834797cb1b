//! Batching of the guidance passes of Wan, and the sampler of a request.

use safelight_core::job::{GenerateRequest, StepCache as Choice};
use safelight_core::networks::SchedulerConfig;
use tch::{Device, Tensor};

use super::denoise::{WanCachedContext, WanConditioning};
use super::transformer::WanTransformer;
use crate::error::EngineError;
use crate::guidance::{GuidanceParams, GuidedPasses};
use crate::runtime::free_bytes;
use crate::sampling::{
    SamplerAlgorithm, ScheduleEnd, SigmaSpacing, Solver, UniPcOptions, check_schedule,
    steps_from_picture, wanted_steps,
};
use crate::step_cache::{CacheCalibration, ContextCache, ContextCaches};

/// Memory of one pass above which batching does not pay: it fills a GPU alone.
const LARGEST_JOINED_PASS: u64 = 1 << 30;

/// Batching of the guidance passes.
pub(super) struct CfgBatching {
    pub cache: Option<Choice>,
    /// Of the whole schedule.
    pub num_calls: usize,
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

/// The sampler and schedule that the request asks for, with the model's own settings.
pub fn new_solver(
    scheduler: &SchedulerConfig,
    request: &GenerateRequest,
) -> Result<Solver, EngineError> {
    let num_steps = request.sampling.num_steps as usize;
    let shift = request
        .sampling
        .shift
        .or_else(|| scheduler.stated_shift())
        .unwrap_or(1.0);
    check_schedule(num_steps, shift)?;
    let spacing = SigmaSpacing {
        schedule: request.sampling.sigma_schedule,
        num_steps,
        shift,
        num_train_timesteps: scheduler.num_train_timesteps,
    };
    let unipc = UniPcOptions {
        order: scheduler.solver_order,
        is_bh1: scheduler.solver_type == "bh1",
        is_of_sigma: false,
        lower_order_final: scheduler.lower_order_final,
        end: match scheduler.final_sigmas_type.as_str() {
            "sigma_min" => ScheduleEnd::SigmaMin,
            _ => ScheduleEnd::Zero,
        },
        disable_corrector: scheduler.disable_corrector.clone(),
    };
    let algorithm =
        SamplerAlgorithm::spaced(request.sampling.sampler, &spacing, unipc, request.seed);
    let strength = request.sampling.strength;
    let steps = match strength.filter(|_| request.begins_from_clip()) {
        Some(strength) => steps_from_picture(request, strength)?,
        None => wanted_steps(request),
    };
    Solver::of_steps(algorithm, steps, num_steps)
}
