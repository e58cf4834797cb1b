//! Bytes of networks on a device: weights from headers, and peak activations by a formula for each network that several
//! families share.
//!
//! Transformers and the networks of each stage: `families`.
//!
//! Each formula counts the tensors that are alive at the worst moment of the engine's forward pass and says which
//! moment that is. They are in f64, so that no size is too large to be answered. What was measured corrects them
//! (`plan`).

pub(crate) mod autoencoder;
mod network;
mod parts;
mod preview;
pub(crate) mod streams;
pub(crate) mod text;
mod tiles;

pub(crate) use network::NetworkReader;
pub use network::{ModelFootprint, NetworkFootprint, WeightBytes};
pub use parts::PlannedNetwork;
pub use tiles::{CPU_TILE_BYTES, MAX_HALO, TileSize, room_for_tiles};

use crate::job::{DtypeChoice, GenerateRequest, GuiderKind, StepCacheKind};
use crate::memory::DeviceClass;

/// Workspace of matrix products in the allocator: 32 MiB on an H200.
pub(crate) const WORKSPACE_BYTES: f64 = 34.0 * 1048576.0;

/// Pixels of one token of an image: two by two latents of eight by eight.
const TOKEN_PIXELS: f64 = 256.0;

/// Pixels of a reference image, about.
pub(crate) const REFERENCE_PIXELS: f64 = 1048576.0;

/// Input of the formulas.
#[derive(Clone, Copy, Debug)]
pub struct PlannedJob<'a> {
    pub request: &'a GenerateRequest,
    pub weights: &'a ModelFootprint,
    pub class: DeviceClass,
    /// Bytes available for tensors.
    pub available_bytes: u64,
}

/// A network of a stage, and its activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageFootprint {
    pub part: PlannedNetwork,
    /// Bytes of an element of the compute dtype.
    pub number_bytes: u64,
    /// Peak activations, with the libraries' workspace.
    pub activation_bytes: f64,
    /// Calls of the network in the stage.
    pub calls: u32,
    /// Approximate floating-point operations of one call of a transformer; 0 of other networks.
    pub operations: f64,
    /// Numbers of the results of all its attentions in one call of a transformer; 0 of other networks.
    pub attended: f64,
    /// Matrices can stream.
    pub streams: bool,
    /// Supports tiles.
    pub tiles: bool,
}

impl StageFootprint {
    pub fn is_transformer(&self) -> bool {
        self.part.is_transformer()
    }
}

impl<'a> PlannedJob<'a> {
    /// Needs of the networks that the model has, with those of previews.
    pub(crate) fn with_previews(&self, needs: Vec<StageFootprint>) -> Vec<StageFootprint> {
        let is_there = |need: &StageFootprint| self.weights.part(need.part).is_some();
        let needs = needs.into_iter().filter(is_there);
        needs.map(|need| preview::watched(self, need)).collect()
    }

    pub(crate) fn is_on_gpu(&self) -> bool {
        self.class != DeviceClass::Cpu
    }

    /// Tokens of an image of the job's size, and of references with so many pixels.
    pub(crate) fn image_tokens(&self, reference_pixels: f64) -> f64 {
        let pixels = f64::from(self.request.width) * f64::from(self.request.height);
        (pixels + reference_pixels) / TOKEN_PIXELS
    }

    /// Images that are made at once.
    pub(crate) fn images(&self) -> f64 {
        f64::from(self.request.batch_size.max(1))
    }

    /// Passes of the transformer in a step.
    pub(crate) fn passes(&self) -> u32 {
        1 + u32::from(self.request.is_guided())
    }

    /// Bytes of a number of the large networks.
    pub fn number_bytes(&self) -> u64 {
        match (self.request.options.dtype, self.is_on_gpu()) {
            (DtypeChoice::F32, _) | (DtypeChoice::Auto, false) => 4,
            _ => 2,
        }
    }

    /// Bytes of a step cache. `hidden`: bytes of the hidden states of all images; `texts`: passes with their own cache.
    pub(crate) fn step_cache_bytes(&self, hidden: f64, texts: f64) -> f64 {
        let guider = self.request.sampling.guider.kind();
        // The pass without some blocks has its own.
        let texts = texts + f64::from(u8::from(guider == GuiderKind::SkipLayers));
        match self.request.options.step_cache.map(|cache| cache.kind) {
            Some(StepCacheKind::FirstBlock | StepCacheKind::TeaCache) => {
                hidden * (2.0 * texts + 1.0)
            }
            Some(StepCacheKind::MagCache) => hidden * (texts + 1.0),
            // It keeps answers, which are small.
            Some(StepCacheKind::TaylorSeer) | None => 0.0,
        }
    }

    /// Returns whether both CFG passes may be batched: a step cache belongs to one text.
    pub(crate) fn joins_passes(&self) -> bool {
        self.is_on_gpu() && self.request.options.step_cache.is_none()
    }

    pub(crate) fn network(&self, part: PlannedNetwork) -> Option<&'a NetworkFootprint> {
        self.weights.part(part)
    }

    /// A network with its config, if the model has one with such a config.
    pub(crate) fn configured<C: 'static>(
        &self,
        part: PlannedNetwork,
    ) -> Option<(&'a NetworkFootprint, &'a C)> {
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
    pub(crate) fn need(&self, part: PlannedNetwork, activation_bytes: f64) -> StageFootprint {
        StageFootprint {
            part,
            number_bytes: self.number_bytes(),
            activation_bytes: activation_bytes + self.workspace(),
            calls: 1,
            operations: 0.0,
            attended: 0.0,
            // On the CPU weights are pages of their files, which the system drops.
            streams: self.is_on_gpu()
                && !matches!(
                    part,
                    PlannedNetwork::VaeEncoder | PlannedNetwork::VaeDecoder
                ),
            tiles: false,
        }
    }

    /// The need of a network whose numbers have `number_bytes`, with its largest quantized matrix while that is dequantized.
    pub(crate) fn need_of(
        &self,
        (part, network): (PlannedNetwork, &NetworkFootprint),
        activation_bytes: f64,
        number_bytes: u64,
    ) -> StageFootprint {
        let expanded = network.expansion_bytes(number_bytes) as f64;
        StageFootprint {
            number_bytes,
            ..self.need(part, activation_bytes + expanded)
        }
    }

    /// The need of one half of an autoencoder.
    pub(crate) fn vae_need(&self, part: PlannedNetwork, activation_bytes: f64) -> StageFootprint {
        StageFootprint {
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

    /// Floating-point operations of one call of a transformer: matrix products and attention.
    pub(crate) fn operations(
        &self,
        part: PlannedNetwork,
        tokens: f64,
        (width, blocks): (f64, f64),
    ) -> f64 {
        let numbers = self.network(part).map_or(0.0, NetworkFootprint::numbers);
        2.0 * numbers * tokens + 4.0 * tokens * tokens * width * blocks
    }

    /// Calls of a transformer in the stage's steps. `passes` a step.
    pub(crate) fn calls(&self, passes: u32) -> u32 {
        self.steps().saturating_mul(passes)
    }
}
