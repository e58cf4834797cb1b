//! Inputs of the denoising loop: sampler, sizes, timesteps of tokens, given first frame.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::SchedulerConfig;
use tch::{Device, Kind, Tensor};

use super::config::WanConfig;
use crate::EngineError;
use crate::sampling::{
    SamplerAlgorithm, ScheduleEnd, SigmaSpacing, Solver, UniPcOptions, check_schedule,
    steps_from_image, wanted_steps,
};
use crate::stages::video_latents::VideoLatentShape;

/// The sampler and schedule that the request asks for, with the model's own settings.
pub fn new_solver(
    scheduler: &SchedulerConfig,
    request: &GenerateRequest,
) -> Result<Solver, EngineError> {
    let num_steps = request.sampling.num_steps as usize;
    let shift = request
        .sampling
        .shift
        .or_else(|| scheduler.stated_shift())
        .unwrap_or(1.0);
    check_schedule(num_steps, shift)?;
    let spacing = SigmaSpacing {
        schedule: request.sampling.sigma_schedule,
        num_steps,
        shift,
        num_train_timesteps: scheduler.num_train_timesteps,
    };
    let unipc = UniPcOptions {
        order: scheduler.solver_order,
        is_bh1: scheduler.solver_type == "bh1",
        is_of_sigma: false,
        lower_order_final: scheduler.lower_order_final,
        end: match scheduler.final_sigmas_type.as_str() {
            "sigma_min" => ScheduleEnd::SigmaMin,
            _ => ScheduleEnd::Zero,
        },
        disable_corrector: scheduler.disable_corrector.clone(),
    };
    let algorithm =
        SamplerAlgorithm::spaced(request.sampling.sampler, &spacing, unipc, request.seed);
    let strength = request.sampling.strength;
    let steps = match strength.filter(|_| request.begins_from_video()) {
        Some(strength) => steps_from_image(request, strength)?,
        None => wanted_steps(request),
    };
    Solver::of_steps(algorithm, steps, num_steps)
}

/// Size of a job's latents, whose pixels and frames the VAE's factors and the transformer's patches must divide.
pub fn latent_shape(
    config: &WanConfig,
    request: &GenerateRequest,
) -> Result<VideoLatentShape, EngineError> {
    let [patch_t, patch_h, patch_w] = config.transformer.patch_size;
    let (space, time) = (config.vae.spatial_factor(), config.vae.temporal_factor());
    let [width, height, frames] =
        [request.width, request.height, request.num_frames].map(i64::from);
    let (step_w, step_h) = (space * patch_w, space * patch_h);
    if width < 1 || height < 1 || width % step_w != 0 || height % step_h != 0 {
        return Err(EngineError::request(format!(
            "this model makes widths that are multiples of {step_w} and heights that are multiples of {step_h}, not {width}×{height}"
        )));
    }
    let latent_frames = (frames - 1).max(0) / time + 1;
    if frames < 1 || (frames - 1) % time != 0 || latent_frames % patch_t != 0 {
        return Err(EngineError::request(format!(
            "this model makes {time}n + 1 frames, not {frames}"
        )));
    }
    Ok(VideoLatentShape {
        channels: config.vae.z_dim,
        frames: latent_frames,
        height: height / space,
        width: width / space,
    })
}

/// 0 in the first latent frame, 1 in the others: `(1, 1, f, h, w)`
pub fn first_frame_mask(shape: VideoLatentShape) -> Tensor {
    let size = |frames| [1, 1, frames, shape.height, shape.width];
    let f32s = (Kind::Float, Device::Cpu);
    let (given, rest) = (size(1), size(shape.frames - 1));
    Tensor::cat(&[Tensor::zeros(given, f32s), Tensor::ones(rest, f32s)], 2)
}

/// `latents` with the first frame replaced by the given one, both `(1, C, .., h, w)`.
pub fn with_first_frame(latents: &Tensor, first: &Tensor) -> Tensor {
    let rest = latents.narrow(2, 1, latents.size()[2] - 1);
    Tensor::cat(&[first.to_kind(latents.kind()), rest], 2)
}

/// Mask of the given frames, folded like the latents: `(1, 4, f, h, w)`, 1 for given ones.
///
/// The channels of a latent frame are its frames; the first latent frame is one frame four times.
pub fn given_frames_mask(shape: VideoLatentShape, per_latent: i64, has_end: bool) -> Tensor {
    let size = [1, per_latent, shape.frames, shape.height, shape.width];
    let mask = Tensor::zeros(size, (Kind::Float, Device::Cpu));
    drop(mask.narrow(2, 0, 1).fill_(1.0));
    if has_end {
        let end = mask.narrow(2, shape.frames - 1, 1);
        drop(end.narrow(1, per_latent - 1, 1).fill_(1.0));
    }
    mask
}

/// The given images, `(1, 3, H, W)`, at the ends of a video that is grey between them: `(1, 3, F, H, W)`
pub fn video_of_given(start: &Tensor, end: Option<&Tensor>, num_frames: i64) -> Tensor {
    let (start, end) = (start.unsqueeze(2), end.map(|end| end.unsqueeze(2)));
    let mut size = start.size();
    size[2] = num_frames - 1 - i64::from(end.is_some());
    let grey = Tensor::zeros(size, (start.kind(), start.device()));
    let parts: Vec<Tensor> = [Some(start), Some(grey), end]
        .into_iter()
        .flatten()
        .collect();
    Tensor::cat(&parts, 2)
}

/// An image, `(1, 3, H, W)`, as a video in which nothing moves: `(1, 3, F, H, W)`
pub fn still_video(image: &Tensor, num_frames: i64) -> Tensor {
    let frames = image.unsqueeze(2);
    frames.expand([-1, -1, num_frames, -1, -1], false)
}

/// A mask of pixels, `(1, 1, H, W)` or `(1, 1, F, H, W)`, at latent resolution, as in diffusers' pipelines for images:
/// `(1, 1, 1, h, w)` or `(1, 1, f, h, w)` in f32. A latent is regenerated if any of its frames is. `factor`: pixels
/// along an edge of one latent, `per_latent`: frames in one but the first.
pub fn latent_mask(mask: &Tensor, factor: i64, per_latent: i64) -> Tensor {
    let rows = mask.slice(-2, None, None, factor);
    let corners = rows.slice(-1, None, None, factor).to_kind(Kind::Float);
    if corners.dim() == 4 {
        return corners.unsqueeze(2);
    }
    let first = corners.narrow(2, 0, 1);
    let [_, _, frames, height, width] = [0, 1, 2, 3, 4].map(|i| corners.size()[i]);
    if frames == 1 {
        return first;
    }
    // 1 1 (f t) h w -> 1 1 f h w
    let runs = corners.narrow(2, 1, frames - 1);
    let runs = runs.reshape([1, 1, (frames - 1) / per_latent, per_latent, height, width]);
    Tensor::cat(&[first, runs.amax([3], false)], 2)
}

/// Timesteps of tokens in the order of the tokens: each value holds for a run of them.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenTimesteps {
    /// Value and number of tokens.
    pub runs: Vec<(f32, i64)>,
}

impl TokenTimesteps {
    pub fn uniform(timestep: f32, tokens: i64) -> Self {
        Self {
            runs: vec![(timestep, tokens)],
        }
    }

    /// 0 for the tokens of a given first frame.
    pub fn with_clean_start(timestep: f32, clean: i64, rest: i64) -> Self {
        let runs = [(0.0, clean), (timestep, rest)];
        Self {
            runs: runs.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// One value a token, `(1, L)` in f32.
    pub fn per_token(&self) -> Tensor {
        let values = self
            .runs
            .iter()
            .flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize));
        Tensor::from_slice(&values.collect::<Vec<_>>()).unsqueeze(0)
    }

    /// The values alone: `(U)`.
    pub fn values(&self) -> Tensor {
        let values: Vec<f32> = self.runs.iter().map(|&(value, _)| value).collect();
        Tensor::from_slice(&values)
    }

    /// Start and number of the tokens of each value.
    pub fn ranges(&self) -> Vec<(i64, i64)> {
        let mut start = 0;
        let range = |&(_, count): &(f32, i64)| {
            start += count;
            (start - count, count)
        };
        self.runs.iter().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timesteps_run_in_the_order_of_the_tokens() {
        let given = TokenTimesteps::with_clean_start(7.0, 2, 3);
        let values: Vec<f32> = given.per_token().flatten(0, 1).try_into().unwrap();
        assert_eq!(values, [0.0, 0.0, 7.0, 7.0, 7.0]);
        assert_eq!(given.ranges(), [(0, 2), (2, 3)]);
        let image = TokenTimesteps::with_clean_start(7.0, 2, 0);
        assert_eq!(image.runs, [(0.0, 2)]);
    }

    #[test]
    fn the_first_frame_is_replaced_and_the_others_are_kept() {
        let latents = Tensor::ones([1, 2, 3, 2, 2], (Kind::Float, Device::Cpu));
        let first = Tensor::zeros([1, 2, 1, 2, 2], (Kind::Float, Device::Cpu));
        let mixed = with_first_frame(&latents, &first);
        assert_eq!(mixed.double_value(&[0, 1, 0, 1, 1]), 0.0);
        assert_eq!(mixed.double_value(&[0, 1, 1, 0, 0]), 1.0);
        assert_eq!(mixed.size(), latents.size());
    }
}
