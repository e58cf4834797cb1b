//! The toy family in the engine: letters to numbers, a few steps that mix channels, and colours.

use safelight_core::families::toy::{self, FACTOR, ToyConfig};
use safelight_core::job::{SamplerKind, Stage};
use safelight_core::networks::NetworkConfig as _;
use safelight_core::networks::dialects::TensorKeys;
use tch::{Kind, Tensor};

use super::EngineFamily;
use crate::capture::StageCapture;
use crate::denoise::{Denoiser, ModelCall, walk};
use crate::error::EngineError;
use crate::hooks::DenoiseState;
use crate::pixels::rgb8_from_pixels;
use crate::sampling::{NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions, noise};
use crate::stages::StageContext;
use crate::tensor_files;

pub(crate) struct Toy;

/// A tensor of the model, whose shape the schema says.
fn tensor(context: &StageContext<'_>, name: &str) -> Result<Tensor, EngineError> {
    let place = &context.request().files.transformer;
    let schema = TensorKeys::bare(false).tensors(&ToyConfig::read(place)?);
    let spec = schema.iter().find(|tensor| tensor.name == name);
    let shape: Vec<i64> = spec
        .iter()
        .flat_map(|spec| spec.shape.iter().map(|&size| size as i64))
        .collect();
    let weights = context.placement().open(place)?;
    Ok(weights.tensor(name, &shape)?.to_kind(Kind::Float))
}

/// Channels of every latent: `(1, C, f, h, w)`.
fn mixed(matrix: &Tensor, latents: &Tensor) -> Tensor {
    let channels_last = latents.permute([0, 2, 3, 4, 1]);
    channels_last.matmul(&matrix.tr()).permute([0, 4, 1, 2, 3])
}

struct Model {
    mix: Tensor,
    /// `(1, C, 1, 1, 1)`
    prompt: Tensor,
}

impl Denoiser for Model {
    fn velocity(&self, latents: &Tensor, _: &ModelCall, _: &mut StageCapture) -> Option<Tensor> {
        Some(mixed(&self.mix, latents) - &self.prompt)
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        x0.shallow_clone()
    }
}

impl EngineFamily for Toy {
    fn id(&self) -> &'static str {
        toy::FAMILY.id
    }

    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        match stage {
            Stage::EncodeText => encode_text(context),
            Stage::Denoise => denoise(context),
            Stage::Decode => decode(context),
            _ => Err(context.no_such_stage()),
        }
    }
}

fn encode_text(context: &StageContext<'_>) -> Result<(), EngineError> {
    let letters = tensor(context, "toy.letters.weight")?;
    let prompt = context.request().prompt.as_bytes();
    let ids: Vec<i64> = prompt.iter().map(|&letter| i64::from(letter)).collect();
    let ids = Tensor::from_slice(&ids).to_device(context.device);
    let rows = letters.index_select(0, &ids);
    // A prompt of no letters means nothing.
    let prompt =
        rows.sum_dim_intlist(&[0_i64][..], false, Kind::Float) / (prompt.len().max(1) as f64);
    tensor_files::write_one(&context.own_result(), "prompt", &prompt)
}

fn denoise(context: &StageContext<'_>) -> Result<(), EngineError> {
    let (request, place) = (context.request(), context.placement());
    let mix = tensor(context, "toy.mix.weight")?;
    let prompt = tensor_files::read_one(&context.result(Stage::EncodeText), "prompt")?;
    let channels = mix.size()[0];
    let size = [
        1,
        channels,
        1,
        i64::from(request.height / FACTOR),
        i64::from(request.width / FACTOR),
    ];
    let model = Model {
        mix,
        prompt: prompt.to_device(place.device).view([1, channels, 1, 1, 1]),
    };
    let num_steps = request.sampling.num_steps as usize;
    let sigmas = (0..num_steps).map(|step| 1.0 - step as f32 / num_steps as f32);
    let schedule = NoiseSchedule::of_sigmas(sigmas.collect(), 1000);
    let options = UniPcOptions::default();
    let euler = SamplerAlgorithm::new(SamplerKind::Euler, schedule, options, request.seed);
    let Some(mut solver) = Solver::new(euler, 0..num_steps) else {
        return Err(EngineError::Request {
            reason: "expected at least one step, found none".to_owned(),
        });
    };
    let checkpoint = context.checkpoint();
    let state = context.part(|work| {
        let (capture, hooks) = (&mut *work.capture, work.hooks);
        let first = noise(&size, request.seed)?;
        let state = DenoiseState::new(checkpoint, first, &mut solver, place.device, hooks);
        walk(
            &model,
            &state,
            num_steps,
            &mut solver,
            place,
            capture,
            hooks,
        )
    })?;
    tensor_files::write_one(&context.own_result(), "latents", &state.latents)
}

fn decode(context: &StageContext<'_>) -> Result<(), EngineError> {
    let paint = tensor(context, "toy.paint.weight")?;
    let latents = tensor_files::read_one(&context.result(Stage::Denoise), "latents")?;
    let colours = mixed(&paint, &latents.to_device(context.device)).tanh();
    let factor = i64::from(FACTOR);
    // (1, 3, 1, h, w) -> (1, 3, 1, H, W)
    let pixels = colours
        .repeat_interleave_self_int(factor, 3, None)
        .repeat_interleave_self_int(factor, 4, None);
    context.part(|work| {
        work.hooks.frames(&rgb8_from_pixels(&pixels));
        Ok(())
    })
}
