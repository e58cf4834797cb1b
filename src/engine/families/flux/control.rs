//! ControlNets of FLUX.1: blocks of the transformer's kinds with a control image besides the noise, which run before the
//! transformer's blocks; the output of a layer after each is added there. Unions of the first kind have a token for the
//! kind of control image before the text.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_flux.py`), except that each of several networks
//! is spread over the transformer's blocks by its own number of blocks, as in ComfyUI: diffusers cuts all lists off at the
//! shortest.
//!
//! Shapes: as in [`flux`](super).

use std::path::Path;

use safelight_core::families::flux::control::mode;
use safelight_core::model::ControlKind;
use safelight_core::networks::flux_control::MODES;
use safelight_core::networks::{FluxControlConfig, FluxControlKeys};
use tch::Tensor;

use super::{FluxContext, FluxTransformer};
use crate::controls::LoadedControls;
use crate::nn::{Rope, rounded_timesteps};
use crate::stages::images::{ControlImage, ControlNet, StreamControlNet, embed_tokens};
use crate::streams::{
    ControlNetBlocks, FluxSequence, SequenceEmbedder, StreamBlocks, StreamModulation,
};
use crate::text::TextEmbeds;
use crate::weights::StoredMatrix;
use crate::{EngineError, StageWork, Weights, WeightsError};

pub struct FluxControl {
    entry: SequenceEmbedder,
    modulation: StreamModulation,
    blocks: StreamBlocks,
    control: ControlNetBlocks,
    /// Embeddings of the kinds of control images.
    modes: Option<StoredMatrix>,
    config: FluxControlConfig,
}

impl FluxControl {
    /// `w`: the file's own names.
    pub fn new(config: &FluxControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let (own, shape) = (&config.blocks, config.blocks.streams());
        let table = |modes| (w / MODES).table("weight", [modes, own.dim()]);
        Ok(Self {
            entry: SequenceEmbedder::new(&shape, own.in_channels, own.joint_attention_dim, w)?,
            modulation: StreamModulation::new(&shape, Some(own.modulation_inputs()), w, None)?,
            blocks: StreamBlocks::new(&shape, w)?,
            control: ControlNetBlocks::new(&shape, own.in_channels, w)?,
            modes: config.num_mode.map(table).transpose()?,
            config: config.clone(),
        })
    }

    /// `kind`: kind of control image, which unions need; `guidance`: distilled guidance, for networks with that input;
    /// `rope`: for this number of text tokens
    pub fn prompt(
        &self,
        text: &TextEmbeds,
        kind: Option<ControlKind>,
        guidance: f64,
        rope: impl FnOnce(i64) -> Rope,
    ) -> Result<FluxContext, EngineError> {
        let own = self.entry.text(&text.prompt);
        let txt = match &self.modes {
            Some(modes) => Tensor::cat(&[self.mode(modes, kind)?, own], 1),
            None => own,
        };
        Ok(FluxContext {
            vec: self.modulation.vec(Some(text.pooled()?), guidance),
            sequence: FluxSequence {
                rope: rope(txt.size()[1]),
                bias: None,
                txt,
            },
        })
    }

    /// Token for the kind of control image: `(1, 1, C)`
    fn mode(&self, modes: &StoredMatrix, kind: Option<ControlKind>) -> Result<Tensor, EngineError> {
        let count = self.config.num_mode.unwrap_or(0);
        let number = kind.and_then(mode).filter(|number| *number < count);
        let number = number.ok_or_else(|| {
            EngineError::request(
                "this union ControlNet must be told which of its kinds the control image shows",
            )
        })?;
        let (kind, device) = (self.entry.kind, self.entry.device);
        let number = Tensor::from_slice(&[number]).to_device(device);
        Ok(modes.look_up(&number, kind).unsqueeze(0))
    }
}

impl ControlNet for FluxControl {
    type Model = FluxTransformer;
    type Prompt = FluxContext;
    type Modulation = Vec<Tensor>;

    fn load(home: &Path, work: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError> {
        work.control_networks(home, Self::new)
    }

    fn embed(&self, model: &FluxTransformer, it: &ControlImage<'_>) -> Result<Tensor, EngineError> {
        embed_tokens(self, model.config.dim(), it)
    }

    fn modulations(
        &self,
        _: &FluxTransformer,
        timesteps: &[f32],
        prompt: &FluxContext,
    ) -> Vec<Vec<Tensor>> {
        let sinusoids = self.modulation.sinusoids(&rounded_timesteps(timesteps));
        let modulations = self.modulation.modulations(&sinusoids, prompt.vec.as_ref());
        modulations.into_iter().map(|it| it.blocks).collect()
    }
}

impl StreamControlNet for FluxControl {
    fn layers(&self) -> (&SequenceEmbedder, &StreamBlocks, &ControlNetBlocks) {
        (&self.entry, &self.blocks, &self.control)
    }

    fn sequence(prompt: &FluxContext) -> &FluxSequence {
        &prompt.sequence
    }
}
