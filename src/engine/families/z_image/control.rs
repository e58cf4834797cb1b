//! ControlNets of Z-Image: blocks of the transformer's kind that start from a control image and the transformer's hidden
//! states; the output of a layer is added after some of the transformer's blocks.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_z_image.py`), where additions in the noise refiner
//! affect the ControlNet alone, not the transformer. Fields have the authors' names. Each block runs right before its
//! output is added, so that nothing waits in memory.
//!
//! Shapes: as in [`z_image`](super).

use std::path::Path;

use safelight_core::networks::{ControlRefiner, ZImageControlConfig, ZImageControlKeys};
use tch::Tensor;

use super::block::ZImageBlock;
use super::{ZImageTransformer, padded};
use crate::controls::{LoadedControls, unfit};
use crate::fault::FaultSite;
use crate::nn::{Linear, Rope, gated_add};
use crate::stages::images::{ActiveControlNet, ControlImage, ControlNet};
use crate::{EngineError, Hooks, StageWork, Weights, WeightsError};

/// Zeros in version 2.0, trained in later ones.
const TRAINED_IN_21: &str = "control_noise_refiner.0.before_proj.weight";

pub struct ZImageControl {
    x_embedder: Linear,
    layers: Vec<ZImageControlBlock>,
    refiner: ControlRefinerBlocks,
    config: ZImageControlConfig,
}

/// Blocks that run before the common layers.
enum ControlRefinerBlocks {
    Alone(Vec<ZImageBlock>),
    /// Blocks that read the noise refiner's hidden states, too.
    Along(Vec<ZImageControlBlock>),
    /// The common layers' blocks.
    Layers,
}

/// Returns whether all values are known to be zeros.
fn is_nothing(stored: &Tensor) -> bool {
    let any = stored.f_any().and_then(bool::try_from);
    any.is_ok_and(|any| !any)
}

struct ZImageControlBlock {
    block: ZImageBlock,
    /// Input layer of the first block.
    before: Option<Linear>,
    /// Output layer.
    after: Linear,
}

impl ZImageControlBlock {
    fn new(config: &ZImageControlConfig, number: i64, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim;
        let before = || Linear::new(dim, dim, &(w / "before_proj"));
        Ok(Self {
            block: ZImageBlock::new(&config.blocks(), true, w)?,
            before: (number == 0).then(before).transpose()?,
            after: Linear::new(dim, dim, &(w / "after_proj"))?,
        })
    }

    /// Hidden states of a list's start from those of control image and transformer, `(B, l, C)` both.
    fn begun(&self, control: &Tensor, xs: &Tensor) -> Tensor {
        let Some(before) = &self.before else {
            return control.shallow_clone();
        };
        let mut cs = before.forward(control);
        gated_add(&mut cs, xs, None);
        cs
    }

    /// Residual for hidden states, times `strength`.
    fn added(&self, cs: &Tensor, strength: f64) -> Tensor {
        let added = self.after.forward(cs);
        if strength == 1.0 {
            added
        } else {
            added * strength
        }
    }
}

/// Modulation of the blocks for one timestep, `(4, C)` each.
pub struct ZImageControlModulation {
    refiner: Vec<Tensor>,
    layers: Vec<Tensor>,
}

/// Hidden states of the transformer before the common layers.
pub(super) struct ControlHiddenStates<'a> {
    pub transformer: &'a ZImageTransformer,
    pub cap: &'a Tensor,
    /// Image tokens before the noise refiner, if [`ZImageControl::is_along`].
    pub unrefined: Option<&'a Tensor>,
    /// Modulation of the noise refiner.
    pub factors: &'a [Tensor],
    /// All tokens after the noise refiner.
    pub xs: &'a Tensor,
}

/// A ControlNet that runs along the common layers.
pub(super) struct ControlRun<'a> {
    network: &'a ZImageControl,
    modulation: &'a ZImageControlModulation,
    strength: f64,
    rope: &'a Rope,
    cs: Tensor,
    next: usize,
}

impl ZImageControl {
    /// `w`: the file's own names.
    pub fn new(config: &ZImageControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let is_untrained = || {
            let stored = w.as_stored(TRAINED_IN_21);
            stored.is_ok_and(|stored| is_nothing(&stored))
        };
        let keys = ZImageControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let along = |list: &str, count: i64| {
            let blocks = (0..count).map(|i| ZImageControlBlock::new(config, i, &(w / list / i)));
            blocks.collect::<Result<Vec<_>, _>>()
        };
        let own = "control_noise_refiner";
        let refiner = match config.add_control_noise_refiner {
            None => {
                let blocks = (0..config.n_refiner_layers)
                    .map(|i| ZImageBlock::new(&config.blocks(), true, &(w / own / i)));
                ControlRefinerBlocks::Alone(blocks.collect::<Result<_, _>>()?)
            }
            Some(ControlRefiner::ControlNoiseRefiner) if !is_untrained() => {
                ControlRefinerBlocks::Along(along(own, config.n_refiner_layers)?)
            }
            Some(_) => {
                let keys: Vec<String> = w.keys().map(str::to_owned).collect();
                for key in keys.iter().filter(|key| key.starts_with(own)) {
                    w.ignore(key);
                }
                ControlRefinerBlocks::Layers
            }
        };
        Ok(Self {
            x_embedder: Linear::new(
                config.token_numbers(),
                config.dim,
                &(w / "control_x_embedder"),
            )?,
            layers: along("control_layers", config.control_layers_places.len() as i64)?,
            refiner,
            config: config.clone(),
        })
    }

    /// Returns whether its blocks read image tokens before the noise refiner, too.
    pub(super) fn is_along(&self) -> bool {
        !matches!(self.refiner, ControlRefinerBlocks::Alone(_))
    }
}

impl ControlNet for ZImageControl {
    type Model = ZImageTransformer;
    type Prompt = ();
    type Modulation = ZImageControlModulation;

    fn load(home: &Path, work: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError> {
        work.control_networks(home, Self::new)
    }

    /// Channels for an inpainting mask are zeros.
    fn embed(
        &self,
        model: &ZImageTransformer,
        image: &ControlImage<'_>,
    ) -> Result<Tensor, EngineError> {
        let (own, theirs, layers) = (self.config.dim, model.config.dim, model.config.n_layers);
        if own != theirs {
            let problem = format!(
                "this ControlNet is for transformers of width {own}, and the model's has {theirs}"
            );
            return Err(unfit(&problem, image.input));
        }
        let last = self.config.control_layers_places.last();
        if last.is_some_and(|place| *place >= layers) {
            let problem = format!(
                "this ControlNet is for transformers of more blocks than the model's {layers}"
            );
            return Err(unfit(&problem, image.input));
        }
        let (device, kind) = (model.device, model.kind);
        let latents = image.latents.to_device(device).to_kind(kind);
        let (num_images, channels, height, width) = latents.size4()?;
        let missing = self.config.control_in_dim - channels;
        let zeros = [num_images, missing.max(0), height, width];
        let zeros = Tensor::zeros(zeros, (kind, device));
        let tokens = ZImageTransformer::patches(&Tensor::cat(&[latents, zeros], 1));
        let embedded = self.x_embedder.forward(&tokens.contiguous());
        Ok(padded(&embedded, &model.x_pad_token))
    }

    fn modulations(
        &self,
        model: &ZImageTransformer,
        timesteps: &[f32],
        (): &(),
    ) -> Vec<ZImageControlModulation> {
        let time = &model.time(timesteps);
        let of = |block: &ZImageBlock| block.factors(time);
        let refiner: Vec<Tensor> = match &self.refiner {
            ControlRefinerBlocks::Alone(blocks) => blocks.iter().map(of).collect(),
            ControlRefinerBlocks::Along(blocks) => blocks.iter().map(|it| of(&it.block)).collect(),
            ControlRefinerBlocks::Layers => Vec::new(),
        };
        let layers: Vec<Tensor> = self.layers.iter().map(|it| of(&it.block)).collect();
        let each = |all: &[Tensor], i: i64| all.iter().map(|all| all.get(i)).collect();
        (0..time.size()[0])
            .map(|i| ZImageControlModulation {
                refiner: each(&refiner, i),
                layers: each(&layers, i),
            })
            .collect()
    }
}

impl ActiveControlNet<'_, ZImageControl> {
    /// Runs up to the common layers; `rope`: of all tokens, and of image tokens; `None` when cancelled.
    pub(super) fn start<'b>(
        &'b self,
        modulation: &'b ZImageControlModulation,
        input: &ControlHiddenStates<'_>,
        [rope, own]: [&'b Rope; 2],
        hooks: &dyn Hooks,
    ) -> Option<ControlRun<'b>> {
        let num_images = input.xs.size()[0];
        let cs = own.shards().own(&self.image, 1);
        let cs = cs.expand([num_images, -1, -1], false).contiguous();
        let (cs, refined) = self.refine(cs, modulation, input, own, hooks)?;
        let cap = input.cap.expand([num_images, -1, -1], false);
        let whole = Tensor::cat(&[&cs, &cap], 1);
        let first = self.network.layers.first()?;
        let cs = match refined {
            Some(refined) => first.begun(&whole, &Tensor::cat(&[&refined, &cap], 1)),
            None => first.begun(&whole, input.xs),
        };
        Some(ControlRun {
            network: self.network,
            modulation,
            strength: self.settings.strength,
            rope,
            cs,
            next: 0,
        })
    }

    /// Refines the control image's `cs`, `(B, I, C)` -> the same, and the transformer's hidden states as the blocks read
    /// them, if they differ.
    fn refine(
        &self,
        mut cs: Tensor,
        modulation: &ZImageControlModulation,
        input: &ControlHiddenStates<'_>,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<(Tensor, Option<Tensor>)> {
        let (blocks, factors) = match &self.network.refiner {
            ControlRefinerBlocks::Alone(blocks) => {
                // The embedded image serves the next call, too.
                cs = cs.copy();
                for (block, factors) in blocks.iter().zip(&modulation.refiner) {
                    hooks.check_cancelled(FaultSite::Block)?;
                    block.forward(&mut cs, factors, rope);
                }
                return Some((cs, None));
            }
            ControlRefinerBlocks::Along(blocks) => (blocks, &modulation.refiner),
            ControlRefinerBlocks::Layers => (&self.network.layers, &modulation.layers),
        };
        let mut xs = input.unrefined?.copy();
        let places = self.network.config.refiner_places();
        let mut added = Vec::with_capacity(places.len());
        for (number, (block, factors)) in blocks.iter().zip(factors).enumerate() {
            hooks.check_cancelled(FaultSite::Block)?;
            if number == 0 {
                cs = block.begun(&cs, &xs);
            }
            block.block.forward(&mut cs, factors, rope);
            if number < places.len() {
                added.push(block.added(&cs, self.settings.strength));
            }
        }
        let own = input.transformer.noise_refiner.iter();
        for (i, (block, factors)) in own.zip(input.factors).enumerate() {
            hooks.check_cancelled(FaultSite::Block)?;
            block.forward(&mut xs, factors, rope);
            let here = places.iter().zip(&added);
            for (_, ys) in here.filter(|(place, _)| **place == i as i64) {
                gated_add(&mut xs, ys, None);
            }
        }
        Some((cs, Some(xs)))
    }
}

impl ControlRun<'_> {
    /// Adds to `xs`, all tokens after common layer `index`, the residual for it, if any; `None` when cancelled.
    pub(super) fn add_after(
        &mut self,
        index: usize,
        xs: &mut Tensor,
        hooks: &dyn Hooks,
    ) -> Option<()> {
        let Self {
            network,
            modulation,
            ..
        } = self;
        let places = &network.config.control_layers_places;
        if places.get(self.next) != Some(&(index as i64)) {
            return Some(());
        }
        hooks.check_cancelled(FaultSite::Block)?;
        let block = &network.layers[self.next];
        let factors = &modulation.layers[self.next];
        block.block.forward(&mut self.cs, factors, self.rope);
        gated_add(xs, &block.added(&self.cs, self.strength), None);
        self.next += 1;
        Some(())
    }
}
