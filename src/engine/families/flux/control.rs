//! ControlNets of FLUX.1: blocks of the transformer's kinds that see a control picture beside the noise, before the
//! transformer's own; a layer behind each gives what is added there. Unions of the first kind are told what the picture
//! shows by a token of their own before the text.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_flux.py`), but that of several networks each is
//! spread over the transformer's blocks by its own number of blocks, as in ComfyUI: diffusers cuts the lists of all off
//! at the shortest.
//!
//! Shapes: as in [`transformer`](super::transformer).

use safelight_core::families::flux::control::mode;
use safelight_core::model::ControlKind;
use safelight_core::networks::flux_control::MODES;
use safelight_core::networks::{FluxControlConfig, FluxControlKeys};
use tch::Tensor;

use super::transformer::told_times;
use crate::controls::acting::ControlNet;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::streams::{BlockModulations, Blocks, ControlBlocks, Entry, Samples, Tokens};
use crate::text::TextEmbeds;
use crate::weights::{StoredMatrix, Weights, WeightsError};

pub struct FluxControl {
    entry: Entry,
    told: BlockModulations,
    blocks: Blocks,
    control: ControlBlocks,
    /// Tokens that say what a control picture shows.
    modes: Option<StoredMatrix>,
    config: FluxControlConfig,
}

/// A prompt as its blocks read it, and a guidance.
pub struct ControlText {
    /// `(1, T, C)`
    txt: Tensor,
    /// What pooled text and guidance add to the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
    /// Of so many pictures with such texts.
    rope: Rope,
}

impl FluxControl {
    /// `w`: the file's own names.
    pub fn new(config: &FluxControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let (own, shape) = (&config.blocks, config.blocks.streams());
        let table = |modes| (w / MODES).table("weight", [modes, own.dim()]);
        Ok(Self {
            entry: Entry::new(&shape, own.in_channels, own.joint_attention_dim, w)?,
            told: BlockModulations::new(&shape, own.told(), w)?,
            blocks: Blocks::new(&shape, w)?,
            control: ControlBlocks::new(&shape, own.in_channels, w)?,
            modes: config.num_mode.map(table).transpose()?,
            config: config.clone(),
        })
    }

    /// The file's tensors that nobody has asked for.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish()
    }

    /// `kind`: what the control picture shows, which unions must be told; `distilled_guidance`: as the user sets it;
    /// networks that are told none leave it alone; `rope`: of a text of so many tokens
    pub fn text(
        &self,
        text: &TextEmbeds,
        kind: Option<ControlKind>,
        distilled_guidance: f64,
        rope: impl FnOnce(i64) -> Rope,
    ) -> Result<ControlText, EngineError> {
        let own = self.entry.text(&text.prompt);
        let txt = match &self.modes {
            Some(modes) => Tensor::cat(&[self.mode(modes, kind)?, own], 1),
            None => own,
        };
        Ok(ControlText {
            vec: self.told.vec(text.pooled()?, distilled_guidance),
            rope: rope(txt.size()[1]),
            txt,
        })
    }

    /// The token that says what a control picture shows: `(1, 1, C)`
    fn mode(&self, modes: &StoredMatrix, kind: Option<ControlKind>) -> Result<Tensor, EngineError> {
        let count = self.config.num_mode.unwrap_or(0);
        let number = kind.and_then(mode).filter(|number| *number < count);
        let number = number.ok_or_else(|| {
            EngineError::request(
                "this union ControlNet must be told which of its kinds the control picture shows",
            )
        })?;
        let (kind, device) = (self.entry.kind(), self.entry.device());
        let number = Tensor::from_slice(&[number]).to_device(device);
        Ok(modes.look_up(&number, kind).unsqueeze(0))
    }
}

impl ControlNet for FluxControl {
    type Text = ControlText;

    fn dim(&self) -> i64 {
        self.config.blocks.dim()
    }

    fn control_channels(&self) -> i64 {
        self.config.blocks.in_channels
    }

    fn embedded(&self, control: &Tensor) -> Tensor {
        let (kind, device) = (self.entry.kind(), self.entry.device());
        self.control
            .embedded(&control.to_device(device).to_kind(kind))
    }

    fn told(&self, timesteps: &[f32], text: &ControlText) -> Vec<Vec<Tensor>> {
        let sinusoids = self.told.sinusoids(&told_times(timesteps));
        self.told.each(&sinusoids, &text.vec)
    }

    fn samples(
        &self,
        img: &Tensor,
        control: (&Tensor, f64),
        told: &[Tensor],
        text: &ControlText,
        hooks: &dyn Hooks,
    ) -> Option<Samples> {
        let tokens = Tokens::of(img, &text.txt);
        let xs = self.entry.embed(img, &text.txt, &tokens);
        let places = (&tokens, &text.rope);
        self.control
            .samples(&self.blocks, xs, control, told, places, hooks)
    }
}
