//! The ControlNets of a job on its way, of transformers of two streams: what each call is given of them, and what they gave
//! for a step.
//!
//! They see the prompt alone: what they add serves the pass of the negative prompt, too, as in diffusers.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use safelight_core::job::{Control, ControlSettings};
use tch::Tensor;

use super::{ControlNetworks, unfit};
use crate::denoise::Call;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::stages::stills::LatentShape;
use crate::streams::{Residuals, Samples};

/// Latents of a token.
const PATCH_AREA: i64 = 4;

/// A ControlNet that runs before the blocks of the transformer.
pub trait ControlNet: 'static {
    /// A prompt as it reads it beside as many pictures as are asked for at once.
    type Text;

    /// Width of its hidden states, which is the transformer's.
    fn dim(&self) -> i64;

    /// Numbers of a control picture's token.
    fn control_channels(&self) -> i64;

    /// Whether a mask of what is made anew is among them.
    fn takes_mask(&self) -> bool {
        false
    }

    /// Control pictures as they join the noise in every call: `(B, I, control channels)` -> `(B, I, C)`
    fn embedded(&self, control: &Tensor) -> Tensor;

    /// What its blocks are told of each of `timesteps`, as the scheduler has them, 1000 for noise alone: of each block as
    /// in [`Modulations::blocks`](crate::streams::Modulations::blocks).
    fn told(&self, timesteps: &[f32], text: &Self::Text) -> Vec<Vec<Tensor>>;

    /// `img`: `(B, I, in_channels)`; `control`: of [`embedded`](Self::embedded), of so many pictures or of one for all ->
    /// what is added in the transformer, `strength` times; `None` when cancelled
    fn samples(
        &self,
        img: &Tensor,
        control: (&Tensor, f64),
        told: &[Tensor],
        text: &Self::Text,
        hooks: &dyn Hooks,
    ) -> Option<Samples>;
}

/// What a call tells the ControlNets of a job: of each of them, of each of its blocks.
pub type ToldControls = Vec<Vec<Tensor>>;

pub struct Controls<'a, T: ControlNet> {
    each: Vec<Each<'a, T>>,
    /// The prompt as each network reads it.
    texts: OnceCell<Vec<T::Text>>,
    now: RefCell<Now>,
}

struct Each<'a, T> {
    network: &'a T,
    /// As it joins the noise: one for all pictures, or one for each, `(1 or B, I, C)`
    picture: Tensor,
    settings: &'a ControlSettings,
}

/// The call that is made.
#[derive(Default)]
struct Now {
    call: Option<usize>,
    acting: Vec<bool>,
    /// The first picture that is asked for.
    first: i64,
    /// By the first picture of those that are asked for at once.
    made: BTreeMap<i64, Rc<Residuals>>,
}

impl<T: ControlNet> Default for Controls<'_, T> {
    fn default() -> Self {
        Self {
            each: Vec::new(),
            texts: OnceCell::new(),
            now: RefCell::default(),
        }
    }
}

impl<'a, T: ControlNet> Controls<'a, T> {
    /// `latents`: of each control, with a mask behind them where there is one, `(1 or B, C or C + 1, h, w)`; `dim`: the
    /// width of the transformer
    pub fn new(
        controls: &'a [Control],
        networks: &'a ControlNetworks<T>,
        latents: &[Tensor],
        (dim, shape): (i64, LatentShape),
    ) -> Result<Self, EngineError> {
        if latents.len() != controls.len() {
            let reason = "the control pictures of the job are not all there";
            return Err(EngineError::internal(reason));
        }
        let each = controls.iter().zip(networks.each()).zip(latents);
        let each = each.map(|((control, network), latents)| {
            let found = latents.size();
            if network.dim() != dim {
                let problem = format!(
                    "this ControlNet is for transformers of width {}, and the model's has {dim}",
                    network.dim()
                );
                return Err(unfit(&problem, control));
            }
            if found[2..] != shape.size()[2..] {
                return Err(EngineError::internal(
                    "a control picture is of another size",
                ));
            }
            if found[1] * PATCH_AREA != network.control_channels() {
                let reason = if network.takes_mask() {
                    "this ControlNet needs a mask of what is made anew with its control picture"
                } else {
                    "this ControlNet takes no mask with its control picture: leave it out"
                };
                return Err(EngineError::request(reason));
            }
            Ok(Each {
                picture: network.embedded(&shape.pack(latents)),
                network,
                settings: &control.settings,
            })
        });
        Ok(Self {
            each: each.collect::<Result<_, EngineError>>()?,
            ..Self::default()
        })
    }

    /// Reads the prompt, which is the first text that comes, as `read` has each network read it.
    pub fn read(
        &self,
        read: impl Fn(&T, &ControlSettings) -> Result<T::Text, EngineError>,
    ) -> Result<(), EngineError> {
        if self.texts.get().is_none() {
            let texts = self.each.iter().map(|it| read(it.network, it.settings));
            // Nothing is there yet.
            drop(self.texts.set(texts.collect::<Result<_, _>>()?));
        }
        Ok(())
    }

    /// Said before each answer: for which call it is, and for which pictures, `first` being the first of them.
    pub fn begins(&self, call: &Call, first: i64) {
        let mut now = self.now.borrow_mut();
        if now.call != Some(call.index) {
            now.made.clear();
            let acts = |it: &Each<'_, T>| it.settings.acts_in(call.step, call.num_steps);
            now.acting = self.each.iter().map(acts).collect();
            now.call = Some(call.index);
        }
        now.first = first;
    }

    /// Whether there is anything to add in this call.
    pub fn act(&self) -> bool {
        self.now.borrow().acting.contains(&true)
    }

    /// For each of `timesteps`, of each network.
    pub fn told(&self, timesteps: &[f32]) -> Vec<ToldControls> {
        let mut told: Vec<ToldControls> = Vec::new();
        told.resize_with(timesteps.len(), Vec::new);
        for (it, text) in self.each.iter().zip(self.texts.get().into_iter().flatten()) {
            let own = it.network.told(timesteps, text);
            for (all, own) in told.iter_mut().zip(own) {
                all.push(own);
            }
        }
        told
    }

    /// What those that act add in this call to the pictures that are asked for; made once for all its texts. `None` when
    /// cancelled
    pub fn residuals(
        &self,
        input: &Tensor,
        told: &[Vec<Tensor>],
        hooks: &dyn Hooks,
    ) -> Option<Rc<Residuals>> {
        let first = self.now.borrow().first;
        if let Some(made) = self.now.borrow().made.get(&first) {
            return Some(Rc::clone(made));
        }
        let acting = self.now.borrow().acting.clone();
        let mut residuals = Residuals::default();
        let texts = self.texts.get().into_iter().flatten();
        let each = self.each.iter().zip(told).zip(texts).zip(acting);
        for (((it, told), text), _) in each.filter(|(_, acts)| *acts) {
            let picture = match it.picture.size()[0] {
                1 => it.picture.shallow_clone(),
                _ => it.picture.narrow(0, first, input.size()[0]),
            };
            let control = (&picture, it.settings.strength);
            residuals.push(it.network.samples(input, control, told, text, hooks)?);
        }
        let made = Rc::new(residuals);
        self.now.borrow_mut().made.insert(first, Rc::clone(&made));
        Some(made)
    }
}
