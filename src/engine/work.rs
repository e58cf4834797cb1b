//! Request, placement, capture and hooks of a stage, and the networks that it loads.

use std::cell::RefCell;
use std::path::Path;

use safelight_core::job::GenerateRequest;
use tch::{Kind, Tensor};

use crate::capture::StageCapture;
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::memory::CachedNetwork;
use crate::placement::{ComputePlacement, build, dtype_name};
use crate::vae::Tiling;
use crate::weights::{Weights, WeightsError};

pub struct StageWork<'a> {
    pub request: &'a GenerateRequest,
    pub place: ComputePlacement,
    pub capture: &'a mut StageCapture,
    pub hooks: &'a dyn Hooks,
}

impl<'a> StageWork<'a> {
    /// Cancellation check before each part at `site`.
    pub fn cancelled(&self, site: FaultSite) -> impl Fn() -> bool + use<'a> {
        let hooks = self.hooks;
        move || hooks.check_cancelled(site).is_none()
    }

    /// The tiles that the request wants the autoencoder to work in.
    pub fn tiling(&self) -> Option<Tiling> {
        let size = self.request.options.vae_tile?;
        Some(Tiling::of_size(i64::from(size)))
    }

    /// Opens a component and gives what [`build`] makes of it.
    pub fn load<T>(
        &self,
        component: &str,
        home: &Path,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<T, EngineError> {
        let weights = self.place.open(home)?;
        build(&weights, component, self.hooks, new, unexpected)
    }

    /// Decodes, and once more with weights in f32 if half precision gives NaN.
    pub fn decoded<T>(
        &mut self,
        decode: impl Fn(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let place = self.place;
        let decoded = decode(self);
        if place.kind == Kind::Float || !matches!(decoded, Err(EngineError::InvalidPixels)) {
            return decoded;
        }
        self.hooks.warn(format!(
            "the VAE gave invalid pixels (NaN) in {}, so it decodes once more in f32, which takes longer and needs more memory",
            dtype_name(place.kind)
        ));
        self.hooks.restart_frames();
        self.place = ComputePlacement {
            kind: Kind::Float,
            ..place
        };
        decode(self)
    }

    /// Frames that `decode` makes, until it is cancelled or `take` fails.
    pub fn decode_frames(
        &self,
        decode: impl FnOnce(&dyn Fn() -> bool, &mut dyn FnMut(Tensor)) -> Option<()>,
        take: &mut dyn FnMut(Tensor) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let error = RefCell::new(None);
        let is_cancelled = self.cancelled(FaultSite::VaeDecode);
        let done = decode(
            &|| error.borrow().is_some() || is_cancelled(),
            &mut |pixels| {
                let mut error = error.borrow_mut();
                if error.is_none() {
                    *error = take(pixels).err();
                }
            },
        );
        match error.into_inner() {
            Some(error) => Err(error),
            None => done.ok_or(EngineError::Cancelled),
        }
    }

    /// Loads the decoder of an autoencoder, which may stay loaded when its stage ends.
    pub fn decoder<T: 'static>(
        &self,
        home: &Path,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<CachedNetwork<T>, EngineError> {
        self.place.network("decoder", home, &[], || {
            self.load("autoencoder", home, new, unexpected)
        })
    }

    /// Loads a transformer, of which no more than the planned bytes stay on the device. `weights`: its weights with the
    /// request's LoRAs.
    pub fn transformer<T: 'static>(
        &self,
        component: &'static str,
        home: &Path,
        weights: impl FnOnce() -> Result<Weights, EngineError>,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<CachedNetwork<T>, EngineError> {
        let loras = &self.request.loras;
        self.place.network(component, home, loras, || {
            let weights = weights()?;
            let transformer = build(&weights, "transformer", self.hooks, new, unexpected)?;
            // Memory free from here on is free of weights.
            weights.settle()?;
            Ok(transformer)
        })
    }
}
