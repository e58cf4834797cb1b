//! The ControlNets of a job on its way: what each call is given of them, and what they gave for a step.
//!
//! They see the prompt alone: what they add serves the pass of the negative prompt, too, as in diffusers.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use safelight_core::job::{Control, ControlSettings};
use tch::Tensor;

use super::control::{ControlModulations, QwenImageControl};
use super::transformer::QwenImageTransformer;
use crate::controls::ControlNetworks;
use crate::denoise::Call;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::stages::stills::LatentShape;
use crate::streams::Residuals;

/// Latents of a token.
const PATCH_AREA: i64 = 4;

pub(super) struct Controls<'a> {
    each: Vec<Each<'a>>,
    prompt: OnceCell<Prompt>,
    now: RefCell<Now>,
}

struct Each<'a> {
    network: &'a QwenImageControl,
    /// As it joins the noise: one for all pictures, or one for each, `(1 or B, I, C)`
    picture: Tensor,
    settings: &'a ControlSettings,
}

struct Prompt {
    /// As each network reads it.
    texts: Vec<Tensor>,
    rope: Rope,
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

impl<'a> Controls<'a> {
    /// `latents`: of each control, with a mask behind them where there is one, `(1 or B, 16 or 17, h, w)`
    pub(super) fn new(
        controls: &'a [Control],
        networks: &'a ControlNetworks<QwenImageControl>,
        latents: &[Tensor],
        (transformer, shape): (&QwenImageTransformer, LatentShape),
    ) -> Result<Self, EngineError> {
        if latents.len() != controls.len() {
            let reason = "the control pictures of the job are not all there";
            return Err(EngineError::internal(reason));
        }
        let each = controls.iter().zip(networks.each()).zip(latents);
        let each = each.map(|((control, network), latents)| {
            let (found, config) = (latents.size(), network.config());
            let [own, theirs] = [&config.blocks, transformer.config()].map(|it| it.dim());
            if own != theirs {
                let path = control.settings.network.clone().unwrap_or_default();
                let reason = format!(
                    "this ControlNet is for transformers of width {own}, and the model's has {theirs}"
                );
                return Err(EngineError::config(reason, path));
            }
            if found[2..] != shape.size()[2..] {
                return Err(EngineError::internal("a control picture is of another size"));
            }
            if found[1] * PATCH_AREA != config.control_channels() {
                let reason = if config.takes_mask() {
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
            prompt: OnceCell::new(),
            now: RefCell::default(),
        })
    }

    /// Reads the prompt, which is the first text that comes; `grid`: rows and columns of a picture's tokens
    pub(super) fn read(
        &self,
        text: &Tensor,
        transformer: &QwenImageTransformer,
        grid: [i64; 2],
        pictures: i64,
    ) {
        if self.each.is_empty() {
            return;
        }
        self.prompt.get_or_init(|| Prompt {
            texts: self.each.iter().map(|it| it.network.text(text)).collect(),
            rope: transformer.rope(text.size()[1], &[grid], pictures),
        });
    }

    pub(super) fn begins(&self, call: &Call, first: i64) {
        let mut now = self.now.borrow_mut();
        if now.call != Some(call.index) {
            now.made.clear();
            let acts = |it: &Each<'_>| it.settings.acts_in(call.step, call.num_steps);
            now.acting = self.each.iter().map(acts).collect();
            now.call = Some(call.index);
        }
        now.first = first;
    }

    /// Whether there is anything to add in this call.
    pub(super) fn act(&self) -> bool {
        self.now.borrow().acting.contains(&true)
    }

    /// For each of `timesteps`, of each network.
    pub(super) fn told(&self, timesteps: &[f32]) -> Vec<Vec<ControlModulations>> {
        let mut told: Vec<Vec<ControlModulations>> = Vec::new();
        told.resize_with(timesteps.len(), Vec::new);
        for it in &self.each {
            let own = it.network.modulations(timesteps);
            for (all, own) in told.iter_mut().zip(own) {
                all.push(own);
            }
        }
        told
    }

    /// What those that act add in this call to the pictures that are asked for; made once for all its texts. `None` when
    /// cancelled
    pub(super) fn residuals(
        &self,
        input: &Tensor,
        told: &[ControlModulations],
        hooks: &dyn Hooks,
    ) -> Option<Rc<Residuals>> {
        let first = self.now.borrow().first;
        if let Some(made) = self.now.borrow().made.get(&first) {
            return Some(Rc::clone(made));
        }
        let Some(Prompt { texts, rope }) = self.prompt.get() else {
            return Some(Rc::default());
        };
        let acting = self.now.borrow().acting.clone();
        let mut residuals = Residuals::default();
        let each = self.each.iter().zip(told).zip(texts).zip(acting);
        for (((it, told), text), _) in each.filter(|(_, acts)| *acts) {
            let picture = match it.picture.size()[0] {
                1 => it.picture.shallow_clone(),
                _ => it.picture.narrow(0, first, input.size()[0]),
            };
            let how = (told, it.settings.strength);
            let samples = it
                .network
                .residuals(input, &picture, how, (text, rope), hooks)?;
            residuals.push(samples);
        }
        let made = Rc::new(residuals);
        self.now.borrow_mut().made.insert(first, Rc::clone(&made));
        Some(made)
    }
}
