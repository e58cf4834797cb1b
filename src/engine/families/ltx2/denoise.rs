//! Denoising of both streams at once: latents of the loop are one row of numbers, those of the video's tokens and then those
//! of the sound's. Steps of a sampler treat each number alike, so one schedule serves both.

use tch::{TchError, Tensor};

use super::positions::Ltx2Positions;
use super::transformer::{Ltx2Inputs, Ltx2Transformer};
use crate::denoise::{Denoiser, ModelCall};
use crate::sampling::CpuGenerator;
use crate::{Hooks, StageCapture};

/// Sizes of the latents of a video and its sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JointShape {
    /// Frames, rows and columns of the video's latents.
    pub video: [i64; 3],
    /// Latents of the sound, one after the other.
    pub audio: i64,
    /// Numbers of a token of either.
    pub channels: [i64; 2],
    /// Frequencies of one latent of the sound.
    pub bins: i64,
}

impl JointShape {
    fn tokens(&self) -> [i64; 2] {
        [self.video.iter().product(), self.audio]
    }

    /// Numbers of both streams.
    pub fn num_elements(&self) -> i64 {
        let [video, audio] = self.tokens();
        video * self.channels[0] + audio * self.channels[1]
    }

    /// Tokens of both, `(1, S, 128)` and `(1, L, 128)` -> latents of the loop, `(1, N)`
    pub fn joined(&self, streams: [&Tensor; 2]) -> Tensor {
        Tensor::cat(&streams.map(|xs| xs.reshape([1, -1])), 1)
    }

    /// The way back.
    pub fn parted(&self, latents: &Tensor) -> [Tensor; 2] {
        let [video, audio] = self.tokens();
        let split = video * self.channels[0];
        let own = latents.narrow(1, 0, split);
        let sound = latents.narrow(1, split, audio * self.channels[1]);
        [
            own.view([1, video, self.channels[0]]),
            sound.view([1, audio, self.channels[1]]),
        ]
    }

    /// Tokens of a video, `(1, S, 128)` -> its latents, `(1, 128, f, h, w)`
    pub fn volume(&self, tokens: &Tensor) -> Tensor {
        let [f, h, w] = self.video;
        let volume = tokens.transpose(1, 2).contiguous();
        volume.view([1, self.channels[0], f, h, w])
    }

    /// The way back.
    pub fn tokens_of(&self, volume: &Tensor) -> Tensor {
        volume.flatten(2, 4).transpose(1, 2).contiguous()
    }

    /// Draws the noise of a first stage, in diffusers' shapes and order: `(1, N)`
    pub fn first_noise(&self, generator: &mut CpuGenerator) -> Result<Tensor, TchError> {
        let [f, h, w] = self.video;
        let video = generator.normal(&[1, self.channels[0], f, h, w])?;
        let channels = self.channels[1] / self.bins;
        let audio = generator.normal(&[1, channels, self.audio, self.bins])?;
        // 1 c l m -> 1 l (c m)
        let audio = audio.transpose(1, 2).flatten(2, 3);
        Ok(self.joined([&self.tokens_of(&video), &audio]))
    }

    /// Draws the noise of a second stage, `(1, N)`; `has_start`: that of a video with a start image, which has another
    /// order in the reference.
    pub fn second_noise(
        &self,
        generator: &mut CpuGenerator,
        has_start: bool,
    ) -> Result<Tensor, TchError> {
        let [video, audio] = self.tokens();
        let video = if has_start {
            let [f, h, w] = self.video;
            self.tokens_of(&generator.normal(&[1, self.channels[0], f, h, w])?)
        } else {
            generator.normal(&[1, video, self.channels[0]])?
        };
        let audio = generator.normal(&[1, audio, self.channels[1]])?;
        Ok(self.joined([&video, &audio]))
    }
}

/// Latents of a noise level: both `(1, N)`
pub fn renoised(latents: &Tensor, noise: &Tensor, sigma: f32) -> Tensor {
    let sigma = f64::from(sigma);
    noise * sigma + latents * (1.0 - sigma)
}

/// The distilled model with its texts, which needs no guidance.
pub struct Ltx2Denoiser<'a> {
    pub transformer: &'a Ltx2Transformer,
    /// Of the video and of the sound: `(1, T, D)`
    pub texts: [Tensor; 2],
    pub positions: Ltx2Positions,
    pub shape: JointShape,
    /// Latent frames at the beginning that are given: 1 with a start image, which the latents then hold.
    pub given_frames: i64,
    pub hooks: &'a dyn Hooks,
}

impl Denoiser for Ltx2Denoiser<'_> {
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor> {
        let [_, rows, columns] = self.shape.video;
        let given = self.given_frames * rows * columns;
        let [video, audio] = self.shape.parted(latents);
        let inputs = Ltx2Inputs {
            latents: [&video, &audio],
            texts: [&self.texts[0], &self.texts[1]],
            positions: &self.positions,
            timestep: call.timestep,
            given,
        };
        let [video, audio] = self.transformer.forward(&inputs, self.hooks)?;
        capture.put(call.name("transformer.cond"), &video);
        capture.put(call.name("transformer.cond.audio"), &audio);
        // Given frames stay as they are.
        drop(video.narrow(1, 0, given).zero_());
        Some(self.shape.joined([&video, &audio]))
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        let [video, _] = self.shape.parted(x0);
        self.shape.volume(&video)
    }
}
