//! What a stage makes on its way besides the weights: a formula for each network that several families have.
//!
//! Those of transformers, and which networks a stage has, are in the families' folders.
//!
//! Each formula counts the tensors that are alive at the worst moment of the engine's forward pass and says which
//! moment that is. They are in f64, so that no size is too large to be answered. What was measured corrects them
//! (see `corrections`).

pub(crate) mod autoencoder;
mod preview;
pub(crate) mod streams;
pub(crate) mod text;

use super::DeviceClass;
use super::network::{ModelWeights, Network};
use super::parts::PartName;
use crate::job::{DtypeChoice, GenerateRequest, GuiderKind, Stage, StepCacheKind};

/// What the libraries keep for products of matrices, in the allocator's count: 32 MiB on an H200.
pub(super) const WORKSPACE_BYTES: f64 = 34.0 * 1048576.0;

/// A job as the formulas see it.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub request: &'a GenerateRequest,
    pub weights: &'a ModelWeights,
    pub class: DeviceClass,
    /// What tensors may take.
    pub available_bytes: u64,
}

/// A network that a stage has on the device at one time, and what it makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    pub part: PartName,
    /// Bytes of a number that is computed with.
    pub number_bytes: u64,
    /// Alive at the worst moment, the libraries' own included.
    pub activation_bytes: f64,
    /// How often the stage goes through the network.
    pub calls: u32,
    /// About how many floating-point operations one call of a transformer takes; 0 of others, which take little.
    pub operations: f64,
    /// Whether matrices can stream.
    pub streams: bool,
    /// Whether it can work in tiles.
    pub tiles: bool,
}

impl Need {
    pub fn is_transformer(&self) -> bool {
        self.part.is_transformer()
    }
}

impl<'a> Job<'a> {
    /// The networks of a stage, one after the other.
    pub fn needs(&self, stage: Stage) -> Vec<Need> {
        let needs = (self.request.family.needs)(self, stage);
        let is_there = |need: &Need| self.weights.part(need.part).is_some();
        let needs = needs.into_iter().filter(is_there);
        needs.map(|need| preview::watched(self, need)).collect()
    }

    pub(crate) fn is_on_gpu(&self) -> bool {
        self.class != DeviceClass::Cpu
    }

    /// Bytes of a number of the large networks.
    pub fn number_bytes(&self) -> u64 {
        match (self.request.dtype, self.is_on_gpu()) {
            (DtypeChoice::F32, _) | (DtypeChoice::Auto, false) => 4,
            _ => 2,
        }
    }

    /// What a step cache keeps of hidden states of so many bytes, those of all pictures, for each of `texts`: what blocks
    /// added and what the next call is compared with; and what goes in while a call is made.
    pub(crate) fn step_cache_bytes(&self, hidden: f64, texts: f64) -> f64 {
        let guider = self.request.sampling.guider.kind();
        // The pass without some blocks has its own.
        let texts = texts + f64::from(u8::from(guider == GuiderKind::SkipLayers));
        match self.request.step_cache.map(|cache| cache.kind) {
            Some(StepCacheKind::FirstBlock | StepCacheKind::TeaCache) => {
                hidden * (2.0 * texts + 1.0)
            }
            Some(StepCacheKind::MagCache) => hidden * (texts + 1.0),
            // It keeps answers, which are small.
            Some(StepCacheKind::TaylorSeer) | None => 0.0,
        }
    }

    /// Whether both passes of the guidance may go together: what a step cache keeps is of one text.
    pub(crate) fn joins_passes(&self) -> bool {
        self.is_on_gpu() && self.request.step_cache.is_none()
    }

    pub(crate) fn network(&self, part: PartName) -> Option<&'a Network> {
        self.weights.part(part)
    }

    /// A network with its config, if the model has one with such a config.
    pub(crate) fn configured<C: 'static>(&self, part: PartName) -> Option<(&'a Network, &'a C)> {
        let network = self.network(part)?;
        Some((network, network.config()?))
    }

    /// The products' own memory.
    fn workspace(&self) -> f64 {
        if self.is_on_gpu() {
            WORKSPACE_BYTES
        } else {
            0.0
        }
    }

    /// One need of a network with blocks or without, for which `numbers` are alive.
    pub(crate) fn need(&self, part: PartName, activation_bytes: f64) -> Need {
        Need {
            part,
            number_bytes: self.number_bytes(),
            activation_bytes: activation_bytes + self.workspace(),
            calls: 1,
            operations: 0.0,
            // On the CPU weights are pages of their files, which the system drops by itself.
            streams: self.is_on_gpu()
                && !matches!(part, PartName::VaeEncoder | PartName::VaeDecoder),
            tiles: false,
        }
    }

    /// The need of one half of an autoencoder.
    pub(crate) fn vae_need(&self, part: PartName, activation_bytes: f64) -> Need {
        Need {
            tiles: true,
            ..self.need(part, activation_bytes)
        }
    }

    /// Steps that are made, of both experts where there are two.
    pub fn steps(&self) -> u32 {
        let sampling = &self.request.sampling;
        let end = sampling.end_step.unwrap_or(sampling.num_steps);
        end.saturating_sub(sampling.start_step).max(1)
    }

    /// What one call of a transformer takes: each number of its matrices meets each token, and each token all others.
    pub(crate) fn operations(
        &self,
        part: PartName,
        tokens: f64,
        (width, blocks): (f64, f64),
    ) -> f64 {
        let numbers = self.network(part).map_or(0.0, Network::numbers);
        2.0 * numbers * tokens + 4.0 * tokens * tokens * width * blocks
    }

    /// Calls of a transformer in the stage's steps. `passes` a step.
    pub(crate) fn calls(&self, passes: u32) -> u32 {
        self.steps().saturating_mul(passes)
    }
}
