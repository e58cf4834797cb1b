//! ControlNets of Z-Image: blocks of the transformer's kind that begin with a control picture and go along with its
//! own, from their hidden states on; behind some of its blocks they add what a layer makes of theirs.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_z_image.py`), where what is added in the refiner
//! of noise is seen by the ControlNet alone, and not by the transformer. Fields have the authors' names. A block of theirs
//! runs right before what it gives is added, so that nothing waits in memory.
//!
//! Shapes: as in [`transformer`](super::transformer).

use safelight_core::networks::{
    ControlRefiner, ZImageControlConfig, ZImageControlKeys, ZImageTransformerConfig,
};
use tch::Tensor;

use super::transformer::{Block, ZImageTransformer, padded};
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{Linear, Rope, gated_add};
use crate::weights::{Weights, WeightsError};

/// What version 2.0 has as zeros, and all that came behind it do not.
const TRAINED_IN_21: &str = "control_noise_refiner.0.before_proj.weight";

pub struct ZImageControl {
    x_embedder: Linear,
    layers: Vec<ControlBlock>,
    refiner: Refiner,
    config: ZImageControlConfig,
}

/// What goes along with the transformer's refiner of noise.
enum Refiner {
    /// Blocks that see the control picture alone.
    Alone(Vec<Block>),
    Along(Vec<ControlBlock>),
    /// The same blocks as behind it.
    Layers,
}

/// Whether all numbers are zeros; what cannot be asked is something.
fn is_nothing(stored: &Tensor) -> bool {
    let any = stored.f_any().and_then(bool::try_from);
    any.is_ok_and(|any| !any)
}

struct ControlBlock {
    block: Block,
    /// Of the first of a list: what comes in.
    before: Option<Linear>,
    /// What is added in the transformer.
    after: Linear,
}

impl ControlBlock {
    fn new(config: &ZImageControlConfig, number: i64, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim;
        let before = || Linear::new(dim, dim, &(w / "before_proj"));
        Ok(Self {
            block: Block::new(&config.blocks(), true, w)?,
            before: (number == 0).then(before).transpose()?,
            after: Linear::new(dim, dim, &(w / "after_proj"))?,
        })
    }

    /// The hidden states of a list's beginning: of the control picture and of the transformer, `(B, l, C)` both.
    fn begun(&self, control: &Tensor, xs: &Tensor) -> Tensor {
        let Some(before) = &self.before else {
            return control.shallow_clone();
        };
        let mut cs = before.forward(control);
        gated_add(&mut cs, xs, None);
        cs
    }

    /// What is added for hidden states, `strength` times.
    fn added(&self, cs: &Tensor, strength: f64) -> Tensor {
        let added = self.after.forward(cs);
        if strength == 1.0 {
            added
        } else {
            added * strength
        }
    }
}

/// What the blocks are told of one timestep, `(4, C)` each.
pub struct ControlModulations {
    refiner: Vec<Tensor>,
    layers: Vec<Tensor>,
}

/// A ControlNet with what a call gives it.
pub struct Acting<'a> {
    pub network: &'a ZImageControl,
    /// Of [`ZImageControl::embedded`].
    pub picture: &'a Tensor,
    pub told: &'a ControlModulations,
    pub strength: f64,
}

/// What its blocks see of the transformer before the common blocks.
pub(super) struct Seen<'a> {
    pub transformer: &'a ZImageTransformer,
    pub cap: &'a Tensor,
    /// The picture's tokens before the refiner of noise, where [`ZImageControl::is_along`].
    pub first: Option<&'a Tensor>,
    /// What the refiner of noise is told.
    pub factors: &'a [Tensor],
    /// All tokens before the common blocks.
    pub xs: &'a Tensor,
}

/// A ControlNet on its way along the common blocks.
pub(super) struct Walk<'a> {
    acting: &'a Acting<'a>,
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
            let blocks = (0..count).map(|i| ControlBlock::new(config, i, &(w / list / i)));
            blocks.collect::<Result<Vec<_>, _>>()
        };
        let own = "control_noise_refiner";
        let refiner = match config.add_control_noise_refiner {
            None => {
                let blocks = (0..config.n_refiner_layers)
                    .map(|i| Block::new(&config.blocks(), true, &(w / own / i)));
                Refiner::Alone(blocks.collect::<Result<_, _>>()?)
            }
            Some(ControlRefiner::ControlNoiseRefiner) if !is_untrained() => {
                Refiner::Along(along(own, config.n_refiner_layers)?)
            }
            Some(_) => {
                let keys: Vec<String> = w.keys().map(str::to_owned).collect();
                for key in keys.iter().filter(|key| key.starts_with(own)) {
                    w.ignore(key);
                }
                Refiner::Layers
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

    /// The file's tensors that nobody has asked for.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish()
    }

    pub fn config(&self) -> &ZImageControlConfig {
        &self.config
    }

    /// Why it cannot act on a transformer, a sentence without its path.
    pub(super) fn problem(&self, transformer: &ZImageTransformerConfig) -> Option<String> {
        let (own, theirs) = (self.config.dim, transformer.dim);
        let layers = transformer.n_layers;
        let behind = self.config.control_layers_places.last();
        if own != theirs {
            return Some(format!(
                "this ControlNet is for transformers of width {own}, and the model's has {theirs}"
            ));
        }
        let is_short = behind.is_some_and(|place| *place >= layers);
        is_short.then(|| {
            format!("this ControlNet is for transformers of more blocks than the model's {layers}")
        })
    }

    /// Whether its blocks see the picture before the refiner of noise, too.
    pub(super) fn is_along(&self) -> bool {
        !matches!(self.refiner, Refiner::Alone(_))
    }

    /// Control pictures' latents, `(B, 16, h, w)`, as tokens: `(B, I, C)`. What a mask would say beside them is nothing.
    pub fn embedded(&self, transformer: &ZImageTransformer, latents: &Tensor) -> Tensor {
        let latents = latents
            .to_device(transformer.device())
            .to_kind(transformer.kind());
        let (pictures, channels, height, width) =
            latents.size4().expect("latents have four dimensions");
        let missing = self.config.control_in_dim - channels;
        let nothing = [pictures, missing.max(0), height, width];
        let nothing = Tensor::zeros(nothing, (latents.kind(), latents.device()));
        let whole = Tensor::cat(&[latents, nothing], 1);
        let tokens = ZImageTransformer::patches(&whole);
        padded(
            &self.x_embedder.forward(&tokens.contiguous()),
            transformer.picture_pad(),
        )
    }

    /// `told`: what the transformer made of some timesteps, see [`ZImageTransformer::told`].
    pub fn modulations(&self, told: &Tensor) -> Vec<ControlModulations> {
        let of = |block: &Block| block.factors(told);
        let refiner: Vec<Tensor> = match &self.refiner {
            Refiner::Alone(blocks) => blocks.iter().map(of).collect(),
            Refiner::Along(blocks) => blocks.iter().map(|it| of(&it.block)).collect(),
            Refiner::Layers => Vec::new(),
        };
        let layers: Vec<Tensor> = self.layers.iter().map(|it| of(&it.block)).collect();
        let each = |all: &[Tensor], i: i64| all.iter().map(|all| all.get(i)).collect();
        (0..told.size()[0])
            .map(|i| ControlModulations {
                refiner: each(&refiner, i),
                layers: each(&layers, i),
            })
            .collect()
    }
}

impl<'a> Acting<'a> {
    /// Up to the common blocks, `rope`: of all tokens; `None` when cancelled.
    pub(super) fn begin(
        &'a self,
        seen: &Seen<'_>,
        rope: &'a Rope,
        hooks: &dyn Hooks,
    ) -> Option<Walk<'a>> {
        let pictures = seen.xs.size()[0];
        let cs = self.picture.expand([pictures, -1, -1], false).contiguous();
        let own = rope.narrow(0, cs.size()[1]);
        let (cs, refined) = self.refined(cs, seen, &own, hooks)?;
        let cap = seen.cap.expand([pictures, -1, -1], false);
        let whole = Tensor::cat(&[&cs, &cap], 1);
        let first = self.network.layers.first()?;
        let cs = match refined {
            Some(refined) => first.begun(&whole, &Tensor::cat(&[&refined, &cap], 1)),
            None => first.begun(&whole, seen.xs),
        };
        Some(Walk {
            acting: self,
            rope,
            cs,
            next: 0,
        })
    }

    /// `cs`: `(B, I, C)` -> the same behind what goes along with the refiner of noise, and the transformer's as its blocks
    /// see them, where they are others.
    fn refined(
        &self,
        mut cs: Tensor,
        seen: &Seen<'_>,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<(Tensor, Option<Tensor>)> {
        let (blocks, factors) = match &self.network.refiner {
            Refiner::Alone(blocks) => {
                // The picture's own tokens serve the next call, too.
                cs = cs.copy();
                for (block, factors) in blocks.iter().zip(&self.told.refiner) {
                    hooks.go_on(Site::Block)?;
                    block.forward(&mut cs, factors, rope);
                }
                return Some((cs, None));
            }
            Refiner::Along(blocks) => (blocks, &self.told.refiner),
            Refiner::Layers => (&self.network.layers, &self.told.layers),
        };
        let mut xs = seen.first?.copy();
        let places = self.network.config.refiner_places();
        let mut added = Vec::with_capacity(places.len());
        for (number, (block, factors)) in blocks.iter().zip(factors).enumerate() {
            hooks.go_on(Site::Block)?;
            if number == 0 {
                cs = block.begun(&cs, &xs);
            }
            block.block.forward(&mut cs, factors, rope);
            if number < places.len() {
                added.push(block.added(&cs, self.strength));
            }
        }
        let own = seen.transformer.noise_refiner().iter();
        for (i, (block, factors)) in own.zip(seen.factors).enumerate() {
            hooks.go_on(Site::Block)?;
            block.forward(&mut xs, factors, rope);
            let here = places.iter().zip(&added);
            for (_, ys) in here.filter(|(place, _)| **place == i as i64) {
                gated_add(&mut xs, ys, None);
            }
        }
        Some((cs, Some(xs)))
    }
}

impl Walk<'_> {
    /// Adds to `xs`, all tokens behind common block `index`, what belongs there; `None` when cancelled.
    pub(super) fn behind(
        &mut self,
        index: usize,
        xs: &mut Tensor,
        hooks: &dyn Hooks,
    ) -> Option<()> {
        let Acting { network, told, .. } = self.acting;
        let places = &network.config.control_layers_places;
        if places.get(self.next) != Some(&(index as i64)) {
            return Some(());
        }
        hooks.go_on(Site::Block)?;
        let block = &network.layers[self.next];
        block
            .block
            .forward(&mut self.cs, &told.layers[self.next], self.rope);
        gated_add(xs, &block.added(&self.cs, self.acting.strength), None);
        self.next += 1;
        Some(())
    }
}
