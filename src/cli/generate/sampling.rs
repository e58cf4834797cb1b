//! The arguments that say how noise becomes a result.

use std::str::FromStr;

use clap::Args;
use safelight_core::job::{GuidanceRange, Guider, PartialSampling, SamplerKind, SigmaSchedule};

/// Steps, guidance, shift and sampler.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SamplingArgs {
    /// Denoising strength of image-to-image, above 0 up to 1, where nothing of the image is kept [default: the model's own]
    #[arg(long, value_name = "X")]
    pub(super) strength: Option<f64>,
    /// Denoising steps
    #[arg(long, value_name = "N")]
    steps: Option<u32>,
    /// Guidance scale: the CFG scale (1 = off), or the distilled guidance of models such as Flux and FramePack
    #[arg(long, value_name = "X")]
    guidance: Option<f64>,
    /// CFG scale of models with distilled guidance (Flux, FramePack): 1 = off; above 1 the negative prompt is used and steps take twice as long
    #[arg(long, value_name = "X")]
    true_cfg: Option<f64>,
    /// Guider for guidance above 1: cfg, cfg_zero:STEPS (CFG-Zero*: zero-init steps, rescaled negative prediction), apg:ETA:THRESHOLD:MOMENTUM against oversaturation at high scales, rescale:SHARE against contrast that a high scale exaggerates, or slg:BLOCKS:SCALE:RANGE (skip-layer guidance), which works at any scale and takes one more pass [default: cfg]
    #[arg(long, value_name = "NAME[:X]")]
    guider: Option<Guider>,
    /// Range of steps with guidance above 1, such as 0.1-0.8; the others take half the time [default: 0-1, all]
    #[arg(long, value_name = "X-Y")]
    guidance_range: Option<GuidanceRange>,
    /// Guidance of the low-noise expert, for models with two [default: as --guidance]
    #[arg(long, value_name = "X")]
    guidance_2: Option<f64>,
    /// First step to run, counted from 0
    #[arg(long, value_name = "N")]
    start_step: Option<u32>,
    /// Step to stop before; the remaining noise is kept
    #[arg(long, value_name = "N")]
    end_step: Option<u32>,
    /// Shift of the noise schedule, or dynamic: by the number of tokens (Flux, FramePack) [default: the model's own]
    #[arg(long, value_name = "X")]
    shift: Option<ShiftArgument>,
    /// unipc, unipc_bh1, euler, euler_ancestral, heun, dpmpp_2m, dpmpp_2m_diffusers, dpmpp_2m_sde, dpmpp_sde, res_multistep, res_2s, er_sde, gradient_estimation or lcm, as in ComfyUI; heun, dpmpp_sde and res_2s take twice as long [default: the model's own]
    #[arg(long, value_name = "NAME")]
    sampler: Option<SamplerKind>,
    /// Scheduler, which spaces the noise levels of the steps: model (its own), or as in ComfyUI simple, normal, sgm_uniform, beta, beta57, karras, exponential, kl_optimal or bong_tangent, or as in diffusers beta_diffusers, karras_diffusers or exponential_diffusers [default: model]
    #[arg(long, value_name = "NAME")]
    schedule: Option<SigmaSchedule>,
}

impl From<SamplingArgs> for PartialSampling {
    fn from(args: SamplingArgs) -> Self {
        Self {
            num_steps: args.steps,
            start_step: args.start_step,
            end_step: args.end_step,
            guidance_scale: args.guidance,
            guidance_scale_2: args.guidance_2,
            true_cfg_scale: args.true_cfg,
            guider: args.guider,
            guidance_range: args.guidance_range,
            shift: match args.shift {
                Some(ShiftArgument::Fixed(number)) => Some(number),
                Some(ShiftArgument::Dynamic) | None => None,
            },
            dynamic_shift: args.shift == Some(ShiftArgument::Dynamic),
            sampler: args.sampler,
            sigma_schedule: args.schedule,
            strength: args.strength,
        }
    }
}

/// Shift as an argument: a number, or `dynamic`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ShiftArgument {
    Fixed(f64),
    Dynamic,
}

impl FromStr for ShiftArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "dynamic" {
            return Ok(Self::Dynamic);
        }
        let number = text.parse().ok().map(Self::Fixed);
        number.ok_or_else(|| format!("{text:?} is neither a number nor dynamic"))
    }
}
