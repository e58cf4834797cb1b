//! Upscalers of ESRGAN's class, built from their file's header.
//!
//! Each is split where it begins to upsample: the trunk before has a large receptive field and is computed in tiles if
//! needed, the end after it sees a few pixels and is computed in bands. After spandrel's networks, which ComfyUI loads:
//! <https://github.com/chaiNNer-org/spandrel/tree/v0.4.2/libs/spandrel/spandrel/architectures>.

mod networks;

use std::path::Path;

use safelight_core::networks::{UpscalerConfig, UpscalerLayers};
use tch::{Device, Kind, Tensor};

use self::networks::{CompactUpscaler, RrdbUpscaler, SpanUpscaler};
use crate::error::EngineError;
use crate::weights::Weights;

#[derive(Debug)]
enum UpscalerNetwork {
    Rrdb(RrdbUpscaler),
    Compact(CompactUpscaler),
    Span(SpanUpscaler),
}

/// An upscaler with its weights where it computes.
#[derive(Debug)]
pub struct LoadedUpscaler {
    network: UpscalerNetwork,
    pub config: UpscalerConfig,
    pub kind: Kind,
    pub device: Device,
}

impl LoadedUpscaler {
    /// Reads a file.
    pub fn open(place: &Path, kind: Kind, device: Device) -> Result<Self, EngineError> {
        let config = UpscalerConfig::read(place)?;
        let weights = Weights::open(place, kind, device)?;
        Self::new(&weights, config)
    }

    pub fn new(weights: &Weights, config: UpscalerConfig) -> Result<Self, EngineError> {
        let prefix = config.prefix.clone();
        let w = weights.translated(move |key| format!("{prefix}{key}"));
        let network = match &config.layers {
            UpscalerLayers::Rrdb(rrdb) => {
                UpscalerNetwork::Rrdb(RrdbUpscaler::new(&w, config.width, rrdb)?)
            }
            UpscalerLayers::Compact { num_convs, scale } => UpscalerNetwork::Compact(
                CompactUpscaler::new(&w, config.width, *num_convs, *scale)?,
            ),
            UpscalerLayers::Span { scale, is_normed } => {
                UpscalerNetwork::Span(SpanUpscaler::new(&w, config.width, *scale, *is_normed)?)
            }
        };
        Ok(Self {
            network,
            config,
            kind: weights.kind(),
            device: weights.device(),
        })
    }

    /// `places`: `(1, 3 u², h, w)`, pixels unshuffled by u. Returns the features that the end upsamples, of the same
    /// size;
    /// `None` once `go_on`, called between blocks, returns false.
    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        match &self.network {
            UpscalerNetwork::Rrdb(network) => network.trunk(places, go_on),
            UpscalerNetwork::Compact(network) => network.trunk(places, go_on),
            UpscalerNetwork::Span(network) => network.trunk(places, go_on),
        }
    }

    /// Upsamples the result of [`trunk`](Self::trunk) to pixels: `(1, 3, h s, w s)`, s being the inner scale.
    pub(super) fn end(&self, made: &Tensor, places: &Tensor) -> Tensor {
        match &self.network {
            UpscalerNetwork::Rrdb(network) => network.end(made),
            UpscalerNetwork::Compact(network) => network.end(made, places),
            UpscalerNetwork::Span(network) => network.end(made),
        }
    }
}
