//! The plan before anything loads: what each stage needs against the budget, and what is done so that it fits.
//!
//! Plain arithmetic on what headers, formulas, drivers and earlier jobs said; the same answers give the same plan. Reads
//! no file and asks no device.

use serde::{Deserialize, Serialize};

use super::activations::{Job, Need};
use super::corrections::{Corrections, Measured};
use super::device::{Budget, DeviceFacts};
use super::network::{ModelWeights, Network};
use super::parts::PartName;
use super::verdict::{self, Verdict};
use super::{DeviceClass, StageMemory};
use crate::job::{GenerateRequest, Recipe, Stage};

/// Tiles that are tried where whole frames do not fit, the largest first: fewer seams, and less that is computed twice.
pub const TILES: [u32; 4] = [1024, 768, 512, 256];
/// What may be on the device of weights that stream, or two matrices where those are larger: the engine's buffer.
const WINDOW_BYTES: u64 = 512 << 20;
/// What no formula knows: pieces of memory that the allocator cannot use, sizes that it rounds up.
pub(super) const MARGIN: Margin = Margin {
    share: 0.03,
    bytes: 64 << 20,
};
/// Where weights stream they fill what is left to the last byte, and there a call needs room in one piece, which can be
/// most of what it makes. On an H200, capped so, Flux lacked 54 MB, Wan 281 MB and FramePack 258 MB beyond the margin
/// above; with 0.35 of the activations FramePack and Flux at 2048×2048 still ran out.
const STREAMING_MARGIN: Margin = Margin {
    share: 1.0,
    bytes: 128 << 20,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Margin {
    /// Of the activations.
    share: f64,
    bytes: u64,
}

impl Margin {
    pub(super) fn of(self, activation: f64) -> f64 {
        activation * self.share + self.bytes as f64
    }
}

/// One stage of a plan, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    pub stage: Stage,
    /// The network that needs most; absent in stages that have none.
    pub part: Option<PartName>,
    /// All its weights as the engine holds them.
    pub weights_bytes: u64,
    /// What is alive beside them at the worst moment, as corrected.
    pub activation_bytes: u64,
    /// What the allocator will show at the worst moment.
    pub peak_bytes: u64,
    /// Kept free beyond that for fragments.
    pub margin_bytes: u64,
    /// The peak with all weights resident and without tiles that nobody asked for.
    pub whole_bytes: u64,
    /// Of the weights, those that stay.
    pub resident_bytes: u64,
    /// The others, in each step.
    pub streamed_bytes_per_step: u64,
    /// What copying them takes at most, where nothing is hidden behind the computation.
    pub copy_secs_per_step: f64,
    /// Tiles that the plan sets.
    pub tile: Option<u32>,
    pub fits: bool,
    /// What the formula said before it was corrected.
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
            tile: None,
            fits: true,
            formula_bytes: 0,
        }
    }

    pub fn is_streamed(&self) -> bool {
        self.resident_bytes < self.weights_bytes
    }

    /// What there must be for it.
    pub fn required_bytes(&self) -> u64 {
        self.peak_bytes.saturating_add(self.margin_bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub device: DeviceFacts,
    pub budget: Budget,
    pub stages: Vec<StagePlan>,
    /// Networks stay from stage to stage.
    pub keeps_loaded: bool,
    /// The most of all stages.
    pub peak_bytes: u64,
    /// What the user should keep free for activations, where nothing else is said.
    pub suggested_preserved_bytes: u64,
    pub verdict: Verdict,
}

impl Plan {
    pub fn of_stage(&self, stage: Stage) -> Option<&StagePlan> {
        self.stages.iter().find(|plan| plan.stage == stage)
    }

    pub fn fits(&self) -> bool {
        self.verdict.fits
    }

    /// Not even half of what a stage needs at least is there.
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

    /// What the engine is told of a stage.
    pub fn stage_memory(&self, stage: Stage) -> StageMemory {
        let budget = &self.budget;
        let held = budget.cap_bytes.saturating_sub(budget.used_by_others_bytes);
        let held = held.saturating_sub(budget.overhead_bytes);
        let plan = self.of_stage(stage).filter(|plan| plan.is_streamed());
        StageMemory {
            resident_bytes: plan.map(|plan| plan.resident_bytes),
            // A cap that leaves nothing is one all the same.
            cap_bytes: (self.device.class != DeviceClass::Cpu).then_some(held.max(1)),
            keep_loaded: self.keeps_loaded,
            ..StageMemory::default()
        }
    }
}

/// What plans are made from.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    pub weights: &'a ModelWeights,
    pub facts: DeviceFacts,
    /// The device's own name; empty where it is not known.
    pub device: &'a str,
    pub corrections: &'a Corrections,
}

impl Planner<'_> {
    pub fn plan(&self, request: &GenerateRequest) -> Plan {
        let budget = self.facts.budget(&request.memory);
        let stages: Vec<StagePlan> = stages_of(request)
            .map(|stage| self.stage(request, &budget, stage))
            .collect();
        let keeps_loaded = request.memory.keep_loaded && fit_together(&stages, &budget);
        let kept = if keeps_loaded { kept_bytes(&stages) } else { 0 };
        let peak = stages.iter().map(|stage| {
            if keeps_loaded {
                kept.saturating_add(stage.peak_bytes.saturating_sub(stage.weights_bytes))
            } else {
                stage.peak_bytes
            }
        });
        let peak_bytes = peak.max().unwrap_or(0);
        let verdict = verdict::of(&self.facts, &budget, &stages, peak_bytes);
        Plan {
            device: self.facts,
            budget,
            keeps_loaded,
            peak_bytes,
            suggested_preserved_bytes: self.suggested_preserved(request, &budget),
            stages,
            verdict,
        }
    }

    /// What the largest transformer stage makes, with room for blocks that stream and a margin.
    fn suggested_preserved(&self, request: &GenerateRequest, budget: &Budget) -> u64 {
        let job = self.job(request, budget);
        let of_stage = |stage: Stage| {
            let needs = job.needs(stage);
            let streamed = needs.into_iter().filter(|need| need.is_transformer());
            streamed
                .map(|need| {
                    let activation = need.activation_bytes * self.factor(request, stage);
                    let network = self.weights.with_part(need.part);
                    let window = network.map(|network| self.windows(&network, &need));
                    let room = (activation + STREAMING_MARGIN.of(activation)) as u64;
                    room.saturating_add(window.unwrap_or(0))
                })
                .max()
        };
        stages_of(request).filter_map(of_stage).max().unwrap_or(0)
    }

    /// About how many floating-point operations the steps of a job take; what else is in it takes little.
    pub fn operations(&self, request: &GenerateRequest) -> f64 {
        let budget = self.facts.budget(&request.memory);
        let job = self.job(request, &budget);
        let recipe = Recipe::of(request).stages;
        let of_stage = |stage: &Stage| {
            let needs = job.needs(*stage).into_iter();
            needs
                .map(|need| need.operations * f64::from(need.calls))
                .sum::<f64>()
        };
        let denoising = recipe.iter().filter(|stage| stage.is_denoising());
        let all: f64 = denoising.map(of_stage).sum();
        // Each of two experts makes a part of the steps that both are counted for.
        let experts = if recipe.contains(&Stage::DenoiseLow) {
            2.0
        } else {
            1.0
        };
        all / experts
    }

    fn job<'a>(&'a self, request: &'a GenerateRequest, budget: &Budget) -> Job<'a> {
        Job {
            request,
            weights: self.weights,
            class: self.facts.class,
            available_bytes: budget.available_bytes,
        }
    }

    /// The buffers that weights stream through: of the part itself, which `network` has with all that is beside it, and of
    /// each network beside it.
    fn windows(&self, network: &Network, need: &Need) -> u64 {
        let others = self.weights.beside(need.part).iter();
        let others = others.map(|network| window(network, need));
        others.fold(window(network, need), u64::saturating_add)
    }

    fn factor(&self, request: &GenerateRequest, stage: Stage) -> f64 {
        self.corrections.factor(&Measured {
            device: self.device,
            class: self.facts.class,
            family: request.family,
            stage,
        })
    }

    /// A stage as asked for, else in the largest tiles that fit.
    fn stage(&self, request: &GenerateRequest, budget: &Budget, stage: Stage) -> StagePlan {
        let (whole, tiles) = self.stage_as_asked(request, budget, stage);
        if whole.fits || !tiles {
            return whole;
        }
        let smaller = |tile: &u32| request.vae_tile.is_none_or(|asked| *tile < asked);
        let mut last = whole;
        for tile in TILES.into_iter().filter(smaller) {
            let tiled = GenerateRequest {
                vae_tile: Some(tile),
                ..request.clone()
            };
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

    /// The network of the stage that needs most, and whether it can work in tiles.
    fn stage_as_asked(
        &self,
        request: &GenerateRequest,
        budget: &Budget,
        stage: Stage,
    ) -> (StagePlan, bool) {
        let job = self.job(request, budget);
        let factor = self.factor(request, stage);
        let planned = job.needs(stage).into_iter().filter_map(|need| {
            let network = self.weights.with_part(need.part)?;
            Some((
                self.network(&job, budget, stage, &network, &need, factor),
                need.tiles,
            ))
        });
        let worst = planned.max_by_key(|(plan, _)| plan.peak_bytes);
        worst.unwrap_or_else(|| (StagePlan::empty(stage), false))
    }

    fn network(
        &self,
        job: &Job<'_>,
        budget: &Budget,
        stage: Stage,
        network: &Network,
        need: &Need,
        factor: f64,
    ) -> StagePlan {
        let size = need.number_bytes;
        let is_transformer = need.is_transformer();
        let lora = if is_transformer {
            self.weights.lora_numbers.saturating_mul(size)
        } else {
            0
        };
        let weights = network.bytes(size).saturating_add(lora);
        let activation = (need.activation_bytes * factor) as u64;
        let margin_of = |margin: Margin| margin.of(need.activation_bytes * factor) as u64;
        let whole = weights.saturating_add(activation);
        let available = budget.available_bytes;
        // Tables are read a row at a time where not all may stay.
        let least = network.fixed.bytes(size).saturating_add(lora);
        let often = network.often.bytes(size);
        let most = least
            .saturating_add(often)
            .saturating_add(network.seldom.bytes(size));
        let window = self.windows(network, need);
        let beside = activation
            .saturating_add(margin_of(STREAMING_MARGIN))
            .saturating_add(window);
        let preserved = job
            .request
            .memory
            .preserved_bytes
            .filter(|_| is_transformer && need.streams);
        let resident = match preserved {
            Some(preserved) if preserved >= available.saturating_sub(weights) => {
                available.saturating_sub(preserved).clamp(least, most)
            }
            Some(_) => weights,
            None if whole.saturating_add(margin_of(MARGIN)) <= available || !need.streams => {
                weights
            }
            None => available.saturating_sub(beside).clamp(least, most),
        };
        let peak = if resident == weights {
            whole
        } else {
            let window = window.min(most - resident);
            resident.saturating_add(activation).saturating_add(window)
        };
        let passes = need.calls.div_ceil(job.steps());
        let margin = margin_of(if resident == weights {
            MARGIN
        } else {
            STREAMING_MARGIN
        });
        // What is used once for many calls streams first.
        let streamed = least.saturating_add(often).saturating_sub(resident);
        let per_step = streamed.saturating_mul(u64::from(passes));
        StagePlan {
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
            tile: None,
            fits: peak.saturating_add(margin) <= available,
            formula_bytes: need.activation_bytes as u64,
        }
    }
}

/// The stages of the engine, each once: sections need what the first one does.
fn stages_of(request: &GenerateRequest) -> impl Iterator<Item = Stage> {
    let recipe = Recipe::of(request).stages;
    Stage::ALL
        .into_iter()
        .filter(move |stage| *stage != Stage::Save && recipe.contains(stage))
}

/// Whether all networks and the worst stage's activations have room beside each other.
fn fit_together(stages: &[StagePlan], budget: &Budget) -> bool {
    let beside = stages
        .iter()
        .map(|stage| stage.required_bytes().saturating_sub(stage.weights_bytes));
    let beside = beside.max().unwrap_or(0);
    let is_whole = |stage: &StagePlan| stage.fits && !stage.is_streamed();
    stages.iter().all(is_whole)
        && kept_bytes(stages).saturating_add(beside) <= budget.available_bytes
}

/// All networks of a job beside each other, each once.
fn kept_bytes(stages: &[StagePlan]) -> u64 {
    let mut parts: Vec<(PartName, u64)> = Vec::new();
    for stage in stages {
        if let Some(part) = stage.part
            && !parts.iter().any(|(known, _)| *known == part)
        {
            parts.push((part, stage.weights_bytes));
        }
    }
    parts
        .iter()
        .map(|(_, bytes)| *bytes)
        .fold(0, u64::saturating_add)
}

/// The buffer that weights stream through.
fn window(network: &Network, need: &Need) -> u64 {
    let size = need.number_bytes;
    let all = network
        .often
        .bytes(size)
        .saturating_add(network.seldom.bytes(size));
    let two = network.largest.bytes(size).saturating_mul(2);
    WINDOW_BYTES.max(two).min(all)
}
