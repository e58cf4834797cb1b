//! SigLIP as stages use it: opened in f32 whatever the transformer computes in, as it is small, and gone when it is
//! dropped.

use std::path::Path;

use safelight_core::networks::{NetworkConfig as _, SiglipConfig};
use tch::{Kind, Tensor};

use crate::placement::{ComputePlacement, build};
use crate::vision::{SiglipHead, SiglipImageProcessor, SiglipVisionEncoder};
use crate::{EngineError, StageWork};

pub(crate) struct SiglipStage {
    pub(crate) processor: SiglipImageProcessor,
    encoder: SiglipVisionEncoder,
    /// For records alone.
    head: Option<SiglipHead>,
}

impl SiglipStage {
    /// `home`: the encoder's folder or file; `processor`: the folder of its `preprocessor_config.json`, where it has one.
    pub(crate) fn open(
        home: &Path,
        processor: Option<&Path>,
        work: &StageWork<'_>,
    ) -> Result<Self, EngineError> {
        let config = SiglipConfig::read(home)?;
        let read_at = processor.unwrap_or(home);
        let processor = SiglipImageProcessor::read(processor)?;
        processor.check(config.image_size, read_at)?;
        let weights = exact(work).open(home)?;
        let new = |w: &_| SiglipVisionEncoder::new(&config, w);
        let unexpected = SiglipVisionEncoder::unexpected_keys;
        let encoder = build(&weights, "image encoder", work.hooks, new, unexpected)?;
        let head = if work.capture.is_on() {
            SiglipHead::read(&config, &weights)?
        } else {
            None
        };
        Ok(Self {
            processor,
            encoder,
            head,
        })
    }

    /// `pixels`: of the [processor](Self::processor) -> hidden states after the last norm, `(1, L, C)`; recorded under the
    /// image's `name`
    pub(crate) fn look(
        &self,
        name: &str,
        pixels: &Tensor,
        work: &mut StageWork<'_>,
    ) -> Result<Tensor, EngineError> {
        let states = tch::no_grad(|| self.encoder.encode_images(pixels, work.hooks));
        let states = states.ok_or(EngineError::Cancelled)?;
        let of = |part: &str| format!("image_encoder.{name}.{part}");
        work.capture.put(of("pixel_values"), pixels);
        work.capture.put(of("last_hidden_state"), &states);
        if let Some(head) = &self.head {
            let pooled = tch::no_grad(|| head.pooled(&states));
            work.capture.put(of("pooler_output"), &pooled);
        }
        Ok(states)
    }
}

/// The stage's placement, in f32.
pub(crate) fn exact(work: &StageWork<'_>) -> ComputePlacement {
    ComputePlacement {
        kind: Kind::Float,
        ..work.place
    }
}
