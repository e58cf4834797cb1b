//! Sampler and schedule for a request and a model's scheduler.
//!
//! `sampling` does the arithmetic.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::SchedulerConfig;

use crate::error::EngineError;
use crate::sampling::{
    SamplerAlgorithm, ScheduleEnd, SigmaSpacing, Solver, UniPcOptions, check_schedule,
    steps_from_picture, wanted_steps,
};

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
