//! The memory plan before anything loads: needs of each stage against the budget, and streaming or tiles if it does not fit.
//!
//! Pure arithmetic on headers, formulas, device facts and corrections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::corrections::{MeasuredPeak, PeakCorrections};
use super::verdict::{self, PlanSummary};
use crate::families::stage_needs;
use crate::footprint::{
    ModelFootprint, NetworkFootprint, PlannedJob, PlannedNetwork, StageFootprint,
};
use crate::job::{GenerateRequest, Recipe, Stage};
use crate::memory::{DeviceClass, DeviceFacts, MemoryBudget, StageMemory};
use crate::units::total;

/// Tiles that are tried where whole frames do not fit, the largest first: fewer seams, and less that is computed twice.
pub const TILES: [u32; 4] = [1024, 768, 512, 256];
/// Buffer of streamed weights on the device; larger if two matrices are.
const WINDOW_BYTES: u64 = 512 << 20;
/// Margin for fragmentation and rounding in the allocator.
const MARGIN: MemoryMargin = MemoryMargin {
    share: 0.03,
    bytes: 64 << 20,
};
/// Streamed weights fill the device, where a call still needs contiguous memory, at most all of its activations. On an H200
/// with a cap, Flux lacked 54 MB, Wan 281 MB and FramePack 258 MB beyond [`MARGIN`]; with 0.35 of the activations FramePack
/// and Flux at 2048×2048 still ran out.
const STREAMING_MARGIN: MemoryMargin = MemoryMargin {
    share: 1.0,
    bytes: 128 << 20,
};

#[derive(Clone, Copy, Debug)]
struct MemoryMargin {
    /// Of the activations.
    share: f64,
    bytes: u64,
}

impl MemoryMargin {
    fn of(self, activation: f64) -> f64 {
        activation * self.share + self.bytes as f64
    }
}

/// One stage of a plan, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    pub stage: Stage,
    /// Network with the largest peak; `None` in stages without networks.
    pub part: Option<PlannedNetwork>,
    /// Weights of the network in the engine.
    pub weights_bytes: u64,
    /// Peak of the activations, with corrections.
    pub activation_bytes: u64,
    /// Peak of the allocator.
    pub peak_bytes: u64,
    /// Free memory beyond the peak, for fragmentation.
    pub margin_bytes: u64,
    /// Peak with all weights resident and without the plan's tiles.
    pub whole_bytes: u64,
    /// Weights that stay on the device.
    pub resident_bytes: u64,
    /// Weights that stream in each step.
    pub streamed_bytes_per_step: u64,
    /// Time of copying them without overlap.
    pub copy_secs_per_step: f64,
    /// Devices that share the stage.
    pub devices: u32,
    /// Tiles that the plan sets.
    pub tile: Option<u32>,
    pub fits: bool,
    /// Activations by the formula, without corrections.
    pub formula_bytes: u64,
}

impl StagePlan {
    pub(super) fn empty(stage: Stage) -> Self {
        Self {
            stage,
            part: None,
            weights_bytes: 0,
            activation_bytes: 0,
            peak_bytes: 0,
            margin_bytes: 0,
            whole_bytes: 0,
            resident_bytes: 0,
            streamed_bytes_per_step: 0,
            copy_secs_per_step: 0.0,
            devices: 1,
            tile: None,
            fits: true,
            formula_bytes: 0,
        }
    }

    pub fn is_streamed(&self) -> bool {
        self.resident_bytes < self.weights_bytes
    }

    /// Returns whether each of several devices keeps a part of the weights and sends it to the others.
    pub fn is_in_parts(&self) -> bool {
        self.is_streamed()
            && self.devices > 1
            && self.weights_bytes.div_ceil(u64::from(self.devices)) <= self.resident_bytes
    }

    /// Peak and margin.
    pub fn required_bytes(&self) -> u64 {
        self.peak_bytes.saturating_add(self.margin_bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPlan {
    pub device: DeviceFacts,
    pub budget: MemoryBudget,
    pub stages: Vec<StagePlan>,
    /// Networks stay loaded between stages.
    pub keeps_loaded: bool,
    /// Largest peak of all stages.
    pub peak_bytes: u64,
    /// Default of the memory that is reserved for activations.
    pub suggested_preserved_bytes: u64,
    pub verdict: PlanSummary,
}

impl MemoryPlan {
    pub fn of_stage(&self, stage: Stage) -> Option<&StagePlan> {
        self.stages.iter().find(|plan| plan.stage == stage)
    }

    pub fn fits(&self) -> bool {
        self.verdict.fits
    }

    /// Not even half of what some stage needs is available.
    pub fn is_hopeless(&self) -> bool {
        let half = |stage: &StagePlan| stage.required_bytes() / 2;
        self.stages
            .iter()
            .any(|stage| !stage.fits && half(stage) > self.budget.available_bytes)
    }

    /// 0 for a job that runs as it is, 1 for one that the plan makes fit, 2 for one that does not fit.
    pub fn rank(&self) -> u8 {
        let is_changed = |stage: &StagePlan| stage.is_streamed() || stage.tile.is_some();
        match (self.fits(), self.stages.iter().any(is_changed)) {
            (false, _) => 2,
            (true, true) => 1,
            (true, false) => 0,
        }
    }

    /// Memory limits of a stage for the engine.
    pub fn stage_memory(&self, stage: Stage) -> StageMemory {
        let plan = self.of_stage(stage).filter(|plan| plan.is_streamed());
        StageMemory {
            resident_bytes: plan.map(|plan| plan.resident_bytes),
            // A cap that leaves nothing is one all the same.
            cap_bytes: (self.device.class != DeviceClass::Cpu)
                .then_some(self.budget.available_bytes.max(1)),
            keep_loaded: self.keeps_loaded,
            ..StageMemory::default()
        }
    }
}

/// Basis of plans.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPlanner<'a> {
    pub weights: &'a ModelFootprint,
    pub facts: DeviceFacts,
    /// Name of the device; empty if unknown.
    pub device: &'a str,
    pub corrections: &'a PeakCorrections,
}

impl MemoryPlanner<'_> {
    pub fn plan(&self, request: &GenerateRequest) -> MemoryPlan {
        let budget = self.facts.budget(&request.options.memory);
        let stages: Vec<StagePlan> = stages_of(request)
            .map(|stage| self.stage(request, &budget, stage))
            .collect();
        let keeps_loaded = request.options.memory.keep_loaded && fit_together(&stages, &budget);
        let suggested = self.suggested_preserved(request, &budget);
        self.plan_of(budget, stages, keeps_loaded, suggested)
    }

    /// Assembles a plan from its stages.
    pub(super) fn plan_of(
        &self,
        budget: MemoryBudget,
        stages: Vec<StagePlan>,
        keeps_loaded: bool,
        suggested_preserved_bytes: u64,
    ) -> MemoryPlan {
        let kept = if keeps_loaded { kept_bytes(&stages) } else { 0 };
        let peak = stages.iter().map(|stage| {
            let own = if keeps_loaded { stage.weights_bytes } else { 0 };
            total([kept, stage.peak_bytes.saturating_sub(own)])
        });
        let peak_bytes = peak.max().unwrap_or(0);
        let verdict = verdict::plan_summary(&self.facts, &budget, &stages, peak_bytes);
        MemoryPlan {
            device: self.facts,
            budget,
            keeps_loaded,
            peak_bytes,
            suggested_preserved_bytes,
            stages,
            verdict,
        }
    }

    /// Activations of the largest transformer stage, with the streaming buffer and margin.
    fn suggested_preserved(&self, request: &GenerateRequest, budget: &MemoryBudget) -> u64 {
        let job = self.job(request, budget);
        let of_stage = |stage: Stage| {
            let needs = stage_needs(&job, stage);
            let streamed = needs.into_iter().filter(|need| need.is_transformer());
            let room = streamed.map(|need| {
                let activation = need.activation_bytes * self.factor(request, stage);
                let network = self.weights.with_part(need.part);
                let window = network.map_or(0, |network| self.windows(&network, &need));
                let room = (activation + STREAMING_MARGIN.of(activation)) as u64;
                total([room, window])
            });
            room.max()
        };
        stages_of(request).filter_map(of_stage).max().unwrap_or(0)
    }

    /// Approximate floating-point operations of all denoising steps; other stages need few.
    pub fn operations(&self, request: &GenerateRequest) -> f64 {
        let budget = self.facts.budget(&request.options.memory);
        let job = self.job(request, &budget);
        let recipe = Recipe::from_request(request).stages;
        let of_stage = |stage: &Stage| {
            let needs = stage_needs(&job, *stage).into_iter();
            let all = needs.map(|need| need.operations * f64::from(need.calls));
            all.sum::<f64>()
        };
        let denoising = recipe.iter().filter(|stage| stage.is_denoising());
        let all: f64 = denoising.map(of_stage).sum();
        // Each of two experts makes a part of the steps that both are counted for.
        all / (1.0 + f64::from(u8::from(recipe.contains(&Stage::DenoiseLow))))
    }

    /// Bytes that each device sends to the others in a step, about: queries, keys, values and results of its tokens.
    pub fn exchanged_bytes(&self, request: &GenerateRequest) -> f64 {
        let budget = self.facts.budget(&request.options.memory);
        let job = self.job(request, &budget);
        let needs = stage_needs(&job, Stage::Denoise).into_iter();
        let of_need = |need: StageFootprint| {
            let passes = f64::from(need.calls) / f64::from(job.steps());
            need.attended * 4.0 * need.number_bytes as f64 * passes
        };
        let devices = f64::from(request.num_devices());
        needs.map(of_need).sum::<f64>() * (devices - 1.0) / (devices * devices)
    }

    fn job<'a>(&'a self, request: &'a GenerateRequest, budget: &MemoryBudget) -> PlannedJob<'a> {
        PlannedJob {
            request,
            weights: self.weights,
            class: self.facts.class,
            available_bytes: budget.available_bytes,
        }
    }

    /// Streaming buffers of a network and of those that run with it.
    fn windows(&self, network: &NetworkFootprint, need: &StageFootprint) -> u64 {
        let others = self.weights.beside(need.part).iter().chain([network]);
        total(others.map(|network| window(network, need)))
    }

    fn factor(&self, request: &GenerateRequest, stage: Stage) -> f64 {
        self.corrections.factor(&MeasuredPeak {
            device: self.device,
            class: self.facts.class,
            family: request.family,
            stage,
        })
    }

    /// Plan of a stage as requested, or in the largest tiles that fit.
    fn stage(&self, request: &GenerateRequest, budget: &MemoryBudget, stage: Stage) -> StagePlan {
        let (whole, tiles) = self.stage_as_asked(request, budget, stage);
        if whole.fits || !tiles {
            return whole;
        }
        let smaller = |tile: &u32| request.options.vae_tile.is_none_or(|asked| *tile < asked);
        let mut last = whole;
        for tile in TILES.into_iter().filter(smaller) {
            let mut tiled = request.clone();
            tiled.options.vae_tile = Some(tile);
            let (plan, _) = self.stage_as_asked(&tiled, budget, stage);
            // Small frames are one tile.
            if plan.peak_bytes < last.peak_bytes {
                last = StagePlan {
                    tile: Some(tile),
                    whole_bytes: whole.whole_bytes,
                    ..plan
                };
            }
            if last.fits {
                break;
            }
        }
        last
    }

    /// Plan of the stage's largest network, and whether it supports tiles.
    fn stage_as_asked(
        &self,
        request: &GenerateRequest,
        budget: &MemoryBudget,
        stage: Stage,
    ) -> (StagePlan, bool) {
        let job = self.job(request, budget);
        let factor = self.factor(request, stage);
        let planned = stage_needs(&job, stage).into_iter().filter_map(|need| {
            let network = self.weights.with_part(need.part)?;
            Some((
                self.network(
                    (
                        request.options.memory.preserved_bytes,
                        request.num_devices(),
                    ),
                    job.steps(),
                    budget,
                    stage,
                    &network,
                    &need,
                    factor,
                ),
                need.tiles,
            ))
        });
        let worst = planned.max_by_key(|(plan, _)| plan.peak_bytes);
        worst.unwrap_or_else(|| (StagePlan::empty(stage), false))
    }

    /// Plan of one network of a stage; `devices` and `steps`: of the denoising loop.
    pub(super) fn network(
        &self,
        (preserved, devices): (Option<u64>, u32),
        steps: u32,
        budget: &MemoryBudget,
        stage: Stage,
        network: &NetworkFootprint,
        need: &StageFootprint,
        factor: f64,
    ) -> StagePlan {
        let size = need.number_bytes;
        let is_transformer = need.is_transformer();
        let loras = self.weights.lora_numbers.saturating_mul(size);
        let lora = if is_transformer { loras } else { 0 };
        let weights = total([network.bytes(size), lora]);
        let activation = need.activation_bytes * factor;
        let margin_of = |margin: MemoryMargin| margin.of(activation) as u64;
        let activation = activation as u64;
        let whole = total([weights, activation]);
        let available = budget.available_bytes;
        // Embedding tables are read by row if they do not fit.
        let least = total([network.fixed.bytes(size), lora]);
        let often = total([least, network.often.bytes(size)]);
        let most = total([often, network.seldom.bytes(size)]);
        let window = self.windows(network, need);
        let preserved = preserved.filter(|_| is_transformer);
        let kept_free = match preserved {
            _ if !need.streams => None,
            Some(bytes) => Some(bytes).filter(|_| total([weights, bytes]) >= available),
            None if total([whole, margin_of(MARGIN)]) <= available => None,
            None => Some(total([activation, margin_of(STREAMING_MARGIN), window])),
        };
        let resident = kept_free.map_or(weights, |bytes| {
            available.saturating_sub(bytes).clamp(least, most)
        });
        let (peak, margin) = if resident == weights {
            (whole, margin_of(MARGIN))
        } else {
            let window = window.min(most - resident);
            let peak = total([resident, activation, window]);
            (peak, margin_of(STREAMING_MARGIN))
        };
        let passes = need.calls.div_ceil(steps);
        // Weights of modulations, used once for many calls, stream first.
        let streamed = often.saturating_sub(resident);
        let per_step = streamed.saturating_mul(u64::from(passes));
        let plan = StagePlan {
            stage,
            part: Some(need.part),
            weights_bytes: weights,
            activation_bytes: activation,
            peak_bytes: peak,
            margin_bytes: margin,
            whole_bytes: whole,
            resident_bytes: resident,
            streamed_bytes_per_step: per_step,
            copy_secs_per_step: per_step as f64 / self.facts.copy_rate(),
            devices: if stage.is_denoising() { devices } else { 1 },
            tile: None,
            fits: total([peak, margin]) <= available,
            formula_bytes: need.activation_bytes as u64,
        };
        if !plan.is_in_parts() {
            return plan;
        }
        StagePlan {
            streamed_bytes_per_step: 0,
            copy_secs_per_step: 0.0,
            ..plan
        }
    }
}

/// Stages of the engine, each once: all sections need the same.
fn stages_of(request: &GenerateRequest) -> impl Iterator<Item = Stage> {
    let recipe = Recipe::from_request(request).stages;
    Stage::ALL
        .into_iter()
        .filter(move |stage| *stage != Stage::Save && recipe.contains(stage))
}

/// Returns whether all networks and the largest activations fit together.
fn fit_together(stages: &[StagePlan], budget: &MemoryBudget) -> bool {
    let beside = stages
        .iter()
        .map(|stage| stage.required_bytes().saturating_sub(stage.weights_bytes));
    let beside = beside.max().unwrap_or(0);
    let is_whole = |stage: &StagePlan| stage.fits && !stage.is_streamed();
    stages.iter().all(is_whole)
        && kept_bytes(stages).saturating_add(beside) <= budget.available_bytes
}

/// Bytes of all networks of a job, each once.
fn kept_bytes(stages: &[StagePlan]) -> u64 {
    let of_stage = |stage: &StagePlan| Some((stage.part?, stage.weights_bytes));
    // The first stage of each counts.
    let parts: BTreeMap<_, _> = stages.iter().rev().filter_map(of_stage).collect();
    total(parts.into_values())
}

/// Streaming buffer of a network.
fn window(network: &NetworkFootprint, need: &StageFootprint) -> u64 {
    let size = need.number_bytes;
    let all = total([network.often.bytes(size), network.seldom.bytes(size)]);
    let two = network.largest.bytes(size).saturating_mul(2);
    WINDOW_BYTES.max(two).min(all)
}
