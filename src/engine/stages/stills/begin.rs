//! What a walk to a picture begins with, in models that may begin on the way to a given one: which steps are made, of
//! which latents, and what a mask keeps.
//!
//! In which form a transformer has its latents is the family's business.

use std::ops::Range;

use safelight_core::job::GenerateRequest;
use tch::{Device, Kind, Tensor};

use super::latents::{Draws, LatentShape, noised, seeds};
use super::state::GivenImage;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::sampling::{Solver, steps_from_picture, wanted_steps};

/// What is made anew of a given picture where neither request nor family says: as in most pipelines of diffusers.
pub const BASE_STRENGTH: f64 = 0.6;

/// What a request and its picture make of noise.
pub struct Beginning<'a> {
    pub request: &'a GenerateRequest,
    pub image: Option<&'a GivenImage>,
    pub shape: LatentShape,
    /// What is made anew of a given picture where the request does not say.
    pub strength: f64,
    /// Control pictures whose latents were drawn before the noise.
    pub drawn_controls: usize,
}

impl Beginning<'_> {
    /// The steps that the request wants, of those that its strength leaves.
    pub fn steps(&self) -> Result<Range<usize>, EngineError> {
        match self.image {
            Some(_) => {
                let strength = self.request.sampling.strength.unwrap_or(self.strength);
                steps_from_picture(self.request, strength)
            }
            None => Ok(wanted_steps(self.request)),
        }
    }

    pub fn draws_per_seed(&self) -> usize {
        let image = self.image.as_ref();
        1 + image.map_or(0, |image| 1 + usize::from(image.mask.is_some())) + self.drawn_controls
    }

    pub fn draws(&self) -> Result<Draws, EngineError> {
        let (controls, all) = (self.drawn_controls, self.draws_per_seed());
        Draws::behind(controls, self.shape, all - controls, seeds(self.request))
    }

    /// `(B, C, h, w)`
    pub fn latents(&self, draws: &Draws, solver: &Solver) -> Tensor {
        let noise = draws.noise.shallow_clone();
        match self.image {
            Some(image) => {
                let image = image.latents.to_device(Device::Cpu);
                let first = solver.all_calls().start;
                noised(&image, &noise, solver.sigmas()[first])
            }
            None => solver.initial(noise),
        }
    }

    /// Where there is a mask: `(B, C, h, w)`; `at_latents`: the mask's pixels, `(1, 1, H, W)`, at the latents' places,
    /// `(1, 1, h, w)`
    pub fn kept(&self, draws: &Draws, at_latents: impl Fn(&Tensor) -> Tensor) -> Option<Kept> {
        let image = self.image?;
        Some(Kept {
            image: image.latents.to_kind(Kind::Float).expand_as(&draws.noise),
            noise: draws.noise.shallow_clone(),
            mask: at_latents(image.mask.as_ref()?),
        })
    }
}

/// What stays as it is of a given picture, in models that do not fill: each in the form of the latents.
pub struct Kept {
    pub image: Tensor,
    pub noise: Tensor,
    /// 1 for what is made anew; it may be one for all pictures and channels.
    pub mask: Tensor,
}

impl Kept {
    /// The same in another form.
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            image: change(&self.image),
            noise: change(&self.noise),
            mask: change(&self.mask),
        }
    }

    /// Whether it belongs to latents of this size.
    pub fn fits(&self, size: &[i64]) -> bool {
        let mask = self.mask.size();
        let mut edges = mask.iter().zip(size);
        fits(&self.image, size)
            && fits(&self.noise, size)
            && mask.len() == size.len()
            && edges.all(|(found, wanted)| [1, *wanted].contains(found))
    }

    /// Where a transformer is.
    pub fn to_device(&self, device: Device) -> Self {
        self.map(|xs| xs.to_device(device).to_kind(Kind::Float))
    }

    /// `latents` with the picture's own in what the mask keeps; `sigma`: the noise that is in them.
    pub fn settled(&self, latents: &Tensor, sigma: f32) -> Tensor {
        let image = noised(&self.image, &self.noise, sigma);
        (1.0 - &self.mask) * image + &self.mask * latents
    }
}
