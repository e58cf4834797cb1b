//! From a request and a model's scheduler to a sampler with its schedule.
//!
//! The arithmetic is `sampling`'s.

use safelight_core::job::{GenerateRequest, Sampler};

use super::config::SchedulerConfig;
use crate::error::EngineError;
use crate::sampling::{Algorithm, DpmPp2m, End, Euler, Heun, Lcm, Solver, UniPc, UniPcOptions};

/// The sampler and schedule that the request asks for, with the model's own settings.
pub fn new_solver(
    scheduler: &SchedulerConfig,
    request: &GenerateRequest,
) -> Result<Solver, EngineError> {
    let num_steps = request.num_steps as usize;
    let shift = request.shift.unwrap_or_else(|| scheduler.shift());
    if num_steps == 0 || !shift.is_finite() || shift <= 0.0 {
        return Err(EngineError::Request {
            reason: format!("cannot make a schedule of {num_steps} steps with a shift of {shift}"),
        });
    }
    let train = scheduler.num_train_timesteps;
    let unipc = |is_bh1| {
        let options = UniPcOptions {
            num_train_timesteps: train,
            order: scheduler.solver_order,
            is_bh1,
            lower_order_final: scheduler.lower_order_final,
            end: match scheduler.final_sigmas_type.as_str() {
                "sigma_min" => End::SigmaMin,
                _ => End::Zero,
            },
            disable_corrector: scheduler.disable_corrector.clone(),
        };
        Algorithm::UniPc(UniPc::new(num_steps, shift, options))
    };
    let algorithm = match request.sampler {
        Sampler::UniPc => unipc(scheduler.solver_type == "bh1"),
        Sampler::UniPcBh1 => unipc(true),
        Sampler::Euler => Algorithm::Euler(Euler::new(num_steps, shift, train)),
        Sampler::Heun => Algorithm::Heun(Heun::new(num_steps, shift, train)),
        Sampler::DpmPp2m => Algorithm::DpmPp2m(DpmPp2m::new(num_steps, shift, train)),
        Sampler::Lcm => Algorithm::Lcm(Lcm::new(num_steps, shift, train, request.seed)),
    };
    let start = request.start_step as usize;
    let end = request.end_step.map_or(num_steps, |end| end as usize);
    Solver::new(algorithm, start..end).ok_or_else(|| EngineError::Request {
        reason: format!("cannot make the steps from {start} to {end} of {num_steps}"),
    })
}
