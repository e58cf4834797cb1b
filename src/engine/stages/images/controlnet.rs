//! ControlNets of a job while it denoises: which of them act in a call, and their residuals.
//!
//! They see the prompt alone: their residuals serve the unconditional pass, too, as in diffusers.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;

use safelight_core::job::{ControlInput, ControlSettings};
use tch::Tensor;

use super::latents::ImageLatentShape;
use crate::controls::{LoadedControls, unfit};
use crate::denoise::ModelCall;
use crate::streams::{
    ControlNetBlocks, ControlNetResiduals, FluxSequence, SequenceEmbedder, StreamBlocks,
    TokenRanges,
};
use crate::{EngineError, Hooks, StageWork};

/// Latents per token.
const PATCH_AREA: i64 = 4;

/// A family's ControlNet.
pub trait ControlNet: Sized + 'static {
    /// The transformer that it steers.
    type Model;
    /// The prompt, embedded once for all steps.
    type Prompt;
    /// Modulation of its blocks for one timestep.
    type Modulation;

    /// Loads the networks of a job before the transformer at `home`.
    fn load(home: &Path, work: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError>;

    /// Embeds control images for all calls; fails if the network does not fit the transformer or the latents.
    fn embed(&self, model: &Self::Model, image: &ControlImage<'_>) -> Result<Tensor, EngineError>;

    /// Modulation for each timestep of the scheduler; 1000 is pure noise.
    fn modulations(
        &self,
        model: &Self::Model,
        timesteps: &[f32],
        prompt: &Self::Prompt,
    ) -> Vec<Self::Modulation>;
}

/// Form in which a family's ControlNets read control images.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ControlEncoding {
    /// Samples of latents, with the first draws of each seed, as in most pipelines of diffusers.
    Samples,
    /// Means of latents.
    Means,
    /// Pixels in 0..1: `(1, 3, H, W)`
    Pixels,
}

/// Control images of a job.
pub struct ControlImage<'a> {
    /// Shape of the job's latents.
    pub shape: ImageLatentShape,
    /// `(1 or B, C, h, w)`, or pixels: see [`ControlEncoding`]
    pub latents: &'a Tensor,
    pub input: &'a ControlInput,
}

/// The ControlNet of families that have none.
pub struct NoControlNet<M>(Infallible, PhantomData<M>);

impl<M: 'static> ControlNet for NoControlNet<M> {
    type Model = M;
    type Prompt = ();
    type Modulation = ();

    fn load(_: &Path, _: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError> {
        Ok(LoadedControls::default())
    }

    fn embed(&self, _: &M, _: &ControlImage<'_>) -> Result<Tensor, EngineError> {
        match self.0 {}
    }

    fn modulations(&self, _: &M, _: &[f32], (): &()) -> Vec<()> {
        match self.0 {}
    }
}

/// A ControlNet that runs before the transformer's blocks, in dual-stream transformers.
pub trait StreamControlNet: ControlNet<Modulation = Vec<Tensor>> {
    /// Embedders, blocks, and the layers of a ControlNet.
    fn layers(&self) -> (&SequenceEmbedder, &StreamBlocks, &ControlNetBlocks);

    fn sequence(prompt: &Self::Prompt) -> &FluxSequence;
}

/// [`ControlNet::embed`] for a transformer of width `dim`; a mask follows the latents as one more channel.
pub fn embed_tokens(
    network: &impl StreamControlNet,
    dim: i64,
    image: &ControlImage<'_>,
) -> Result<Tensor, EngineError> {
    let (shape, latents) = (image.shape, image.latents);
    let (SequenceEmbedder { device, kind, .. }, _, own) = network.layers();
    let found = latents.size();
    if own.dim != dim {
        let problem = format!(
            "this ControlNet is for transformers of width {}, and the model's has {dim}",
            own.dim
        );
        return Err(unfit(&problem, image.input));
    }
    if found[2..] != shape.size()[2..] {
        let reason = "a control image has another size";
        return Err(EngineError::internal(reason));
    }
    if found[1] * PATCH_AREA != own.channels {
        let reason = if own.channels > shape.folded().channels {
            "this ControlNet needs a mask of what is made anew with its control image"
        } else {
            "this ControlNet takes no mask with its control image: leave it out"
        };
        return Err(EngineError::request(reason));
    }
    let tokens = shape.pack(latents).to_device(*device).to_kind(*kind);
    Ok(own.embedded(&tokens))
}

/// A job's ControlNets with their images, settings and current call.
pub struct ActiveControlNets<'a, C: ControlNet> {
    each: Vec<ActiveControlNet<'a, C>>,
    /// The prompt as each network embeds it.
    prompts: OnceCell<Vec<C::Prompt>>,
    call: RefCell<ControlCall>,
}

/// One of a job's ControlNets.
pub struct ActiveControlNet<'a, C> {
    pub network: &'a C,
    /// Embedded control image: one for all images or one for each.
    pub image: Tensor,
    pub settings: &'a ControlSettings,
}

#[derive(Default)]
struct ControlCall {
    index: Option<usize>,
    /// One flag per network for this call.
    acting: Vec<bool>,
    /// Index of the first image of the batch.
    first: i64,
    /// Residuals by the first image of their batch.
    residuals: BTreeMap<i64, Rc<ControlNetResiduals>>,
}

impl<C: ControlNet> Default for ActiveControlNets<'_, C> {
    fn default() -> Self {
        Self {
            each: Vec::new(),
            prompts: OnceCell::new(),
            call: RefCell::default(),
        }
    }
}

impl<'a, C: ControlNet> ActiveControlNets<'a, C> {
    /// `networks` and `latents`: of each control, see [`ControlNet::embed`].
    pub fn new(
        controls: &'a [ControlInput],
        networks: impl Iterator<Item = &'a C>,
        latents: &[Tensor],
        model: &C::Model,
        shape: ImageLatentShape,
    ) -> Result<Self, EngineError> {
        if latents.len() != controls.len() {
            let reason = "the control images of the job are not all there";
            return Err(EngineError::internal(reason));
        }
        let each = controls.iter().zip(networks).zip(latents);
        let each = each.map(|((control, network), latents)| {
            Ok(ActiveControlNet {
                network,
                image: network.embed(
                    model,
                    &ControlImage {
                        shape,
                        latents,
                        input: control,
                    },
                )?,
                settings: &control.settings,
            })
        });
        Ok(Self {
            each: each.collect::<Result<_, EngineError>>()?,
            ..Self::default()
        })
    }

    /// Embeds the prompt, which is the first text of a job, for each network.
    pub fn read_prompt(
        &self,
        read: impl Fn(&C, &ControlSettings) -> Result<C::Prompt, EngineError>,
    ) -> Result<(), EngineError> {
        if self.prompts.get().is_none() {
            let prompts = self.each.iter().map(|it| read(it.network, it.settings));
            // Empty, as it was just checked.
            drop(self.prompts.set(prompts.collect::<Result<_, _>>()?));
        }
        Ok(())
    }

    /// In the order of the job's controls.
    pub fn each(&self) -> impl Iterator<Item = &ActiveControlNet<'a, C>> {
        self.each.iter()
    }

    /// Notes the next call and the first image of its batch.
    pub fn on_call(&self, call: &ModelCall, first: i64) {
        let mut now = self.call.borrow_mut();
        if now.index != Some(call.index) {
            now.residuals.clear();
            let acts = |it: &ActiveControlNet<'_, C>| {
                let settings = it.settings;
                settings.acts_in(call.step, call.num_steps)
            };
            now.acting = self.each.iter().map(acts).collect();
            now.index = Some(call.index);
        }
        now.first = first;
    }

    /// Modulation of each network for each timestep.
    pub fn modulations(&self, model: &C::Model, timesteps: &[f32]) -> Vec<Vec<C::Modulation>> {
        let mut all: Vec<Vec<C::Modulation>> = Vec::new();
        all.resize_with(timesteps.len(), Vec::new);
        let prompts = self.prompts.get().into_iter().flatten();
        for (it, prompt) in self.each.iter().zip(prompts) {
            let own = it.network.modulations(model, timesteps, prompt);
            for (all, own) in all.iter_mut().zip(own) {
                all.push(own);
            }
        }
        all
    }

    /// Networks that act in this call, with their index.
    pub fn acting(&self) -> Vec<(usize, &ActiveControlNet<'a, C>)> {
        let call = self.call.borrow();
        let each = self.each.iter().enumerate().zip(&call.acting);
        each.filter(|(_, acts)| **acts).map(|(it, _)| it).collect()
    }
}

impl<C: StreamControlNet> ActiveControlNets<'_, C> {
    /// Residuals of this call for the images of `input`, computed once for both passes of CFG; `None` when cancelled.
    pub fn residuals(
        &self,
        input: &Tensor,
        modulations: &[C::Modulation],
        hooks: &dyn Hooks,
    ) -> Option<Rc<ControlNetResiduals>> {
        let first = self.call.borrow().first;
        if let Some(made) = self.call.borrow().residuals.get(&first) {
            return Some(Rc::clone(made));
        }
        let prompts = self.prompts.get().map_or(&[][..], Vec::as_slice);
        let mut residuals = ControlNetResiduals::default();
        for (index, it) in self.acting() {
            let image = match it.image.size()[0] {
                1 => it.image.shallow_clone(),
                _ => it.image.narrow(0, first, input.size()[0]),
            };
            let Some(prompt) = prompts.get(index) else {
                continue;
            };
            let (entry, blocks, layers) = it.network.layers();
            let FluxSequence { txt, rope, .. } = C::sequence(prompt);
            let tokens = TokenRanges::of(input, txt);
            let xs = entry.embed(input, txt, &tokens);
            let control = (&image, it.settings.strength);
            let places = (&tokens, rope);
            let modulation = &modulations[index];
            residuals.push(layers.output(blocks, &xs, control, modulation, places, hooks)?);
        }
        let made = Rc::new(residuals);
        let mut call = self.call.borrow_mut();
        call.residuals.insert(first, Rc::clone(&made));
        Some(made)
    }
}
