//! From a request and a model's scheduler to a sampler with its schedule.
//!
//! The arithmetic is `sampling`'s.

use safelight_core::job::{GenerateRequest, Sampler};

use super::config::SchedulerConfig;
use crate::error::EngineError;
use crate::sampling::{Algorithm, Euler, Solver};

/// The sampler and schedule that the request asks for, along the model's own sigmas for a picture of so many tokens.
/// `first`: the first step that the request's strength leaves.
pub fn new_solver(
    scheduler: &SchedulerConfig,
    request: &GenerateRequest,
    tokens: i64,
    first: usize,
) -> Result<Solver, EngineError> {
    let num_steps = request.num_steps as usize;
    let shift = request.shift;
    if num_steps == 0 || !shift.is_none_or(|shift| shift.is_finite() && shift > 0.0) {
        return Err(EngineError::Request {
            reason: format!(
                "cannot make a schedule of {num_steps} steps with a shift of {}",
                shift.unwrap_or(1.0)
            ),
        });
    }
    if first >= num_steps {
        return Err(EngineError::Request {
            reason: format!(
                "a strength of {} leaves none of {num_steps} steps to make",
                request.strength.unwrap_or_default()
            ),
        });
    }
    let schedule = scheduler.schedule(num_steps, tokens, shift);
    if request.sampler != Sampler::Euler {
        return Err(EngineError::Request {
            reason: format!("no sampler '{}' for this model", request.sampler.name()),
        });
    }
    let algorithm = Algorithm::Euler(Euler::along(schedule));
    let start = first.max(request.start_step as usize);
    let end = request.end_step.map_or(num_steps, |end| end as usize);
    Solver::new(algorithm, start..end).ok_or_else(|| EngineError::Request {
        reason: format!("cannot make the steps from {start} to {end} of {num_steps}"),
    })
}
