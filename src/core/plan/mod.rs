//! Memory plan of a job: bytes of its stages against the budget, what would make it fit, and what was measured.

mod corrections;
mod outcome;
mod planner;
mod postprocess;
mod report;
mod suggest;
#[cfg(test)]
mod tests;
mod verdict;

pub use corrections::{MeasuredPeak, PeakCorrections};
pub use outcome::{PlanOutcome, StageOutcome};
pub use planner::{MemoryPlan, MemoryPlanner, StagePlan};
pub use report::{HostMemory, explain_shortage};
pub use suggest::{
    LargestFit, ModelAlternative, PlanChange, PlanSuggestion, PreservedRow, largest,
    preserved_table, suggestions,
};
pub use verdict::PlanSummary;
