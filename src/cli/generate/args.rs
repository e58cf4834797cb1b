//! The arguments of `safelight generate`, and the form they make.
//!
//! Arguments that the reference tool has too mean the same here.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use safelight_core::job::{
    DeviceChoice, DtypeChoice, Fit, GenerateForm, GenerateRequest, JobError, JobErrorKind, Sampler,
    StartPicture,
};
use safelight_core::media;
use safelight_core::naming;
use safelight_core::settings::Settings;
use serde::Deserialize;

/// Make a clip or a picture.
#[derive(Args, Debug, Default)]
#[command(allow_negative_numbers = true, args_override_self = true)]
pub struct GenerateArgs {
    /// A model's name from `safelight models`, or a diffusers folder [default: the model that ships with Safelight]
    #[arg(long, value_name = "ID_OR_PATH")]
    pub model: Option<String>,
    /// What to make
    #[arg(long, value_name = "TEXT", required_unless_present = "from")]
    pub prompt: Option<String>,
    /// What to steer away from; acts when the guidance is above 1 [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub negative: Option<String>,
    /// A picture to start from
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// How a start picture of another aspect comes to the clip's size: stretch or crop [default: stretch]
    #[arg(long)]
    pub fit: Option<Fit>,
    /// Pixels [default: the model's own, turned to a start picture's aspect]
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,
    /// Pixels
    #[arg(long, value_name = "N")]
    pub height: Option<u32>,
    /// 4n+1; 1 makes a picture [default: the model's own, 1 for .png]
    #[arg(long, value_name = "N")]
    pub frames: Option<u32>,
    /// Frames a second of the written clip
    #[arg(long, value_name = "N")]
    pub fps: Option<f64>,
    /// Denoising steps
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// Classifier-free guidance; 1 turns it off
    #[arg(long, value_name = "X")]
    pub guidance: Option<f64>,
    /// Shift of the noise schedule [default: the model's own]
    #[arg(long, value_name = "X")]
    pub shift: Option<f64>,
    /// unipc or euler
    #[arg(long, value_name = "NAME")]
    pub sampler: Option<Sampler>,
    /// The same seed gives the same clip on any device [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// auto, cpu or cuda:N; ROCm's GPUs are cuda:N too [default: the setting]
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16 [default: the setting]
    #[arg(long)]
    pub dtype: Option<DtypeChoice>,
    /// The file to write: .mp4, .webm, .gif, .webp or .png (one picture, or numbered ones) [default: named by the prompt and the seed]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write the settings beside the file, as .json
    #[arg(long)]
    pub sidecar: bool,
    /// Repeat what made this file; other arguments change it
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write capture.safetensors with every stage's tensors here, for comparisons with the reference
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// Print one JSON object a line and nothing else
    #[arg(long)]
    pub json: bool,
}

/// What our files carry.
#[derive(Deserialize)]
struct Carried {
    request: GenerateRequest,
}

impl GenerateArgs {
    /// These arguments, with what they leave open taken from the file that `--from` names.
    pub fn with_carried(mut self) -> Result<Self, JobError> {
        let Some(file) = &self.from else {
            return Ok(self);
        };
        let request = carried_request(file)?;
        self.model = self.model.or(Some(request.model));
        self.prompt = self.prompt.or(Some(request.prompt));
        self.negative = self.negative.or(Some(request.negative_prompt));
        self.image = self.image.or(request.image);
        self.fit = self.fit.or(Some(request.fit));
        self.width = self.width.or(Some(request.width));
        self.height = self.height.or(Some(request.height));
        self.frames = self.frames.or(Some(request.num_frames));
        self.fps = self.fps.or(Some(request.fps));
        self.steps = self.steps.or(Some(request.num_steps));
        self.guidance = self.guidance.or(Some(request.guidance_scale));
        self.shift = self.shift.or(request.shift);
        self.sampler = self.sampler.or(Some(request.sampler));
        self.seed = self.seed.or(Some(request.seed));
        self.dtype = self.dtype.or(Some(request.dtype));
        Ok(self)
    }

    /// A name here that no file has.
    fn free_name(&self, seed: u64, settings: &Settings) -> PathBuf {
        let stem = format!(
            "{}_{seed}",
            naming::slug(self.prompt.as_deref().unwrap_or_default())
        );
        naming::free_path(
            Path::new(""),
            &stem,
            &settings.output.format,
            &mut HashSet::new(),
        )
    }

    /// The form; reads the start picture's size from its file.
    pub fn form(&self, seed: u64, settings: &Settings) -> Result<GenerateForm, JobError> {
        Ok(GenerateForm {
            prompt: self.prompt.clone().unwrap_or_default(),
            negative_prompt: self.negative.clone(),
            image: self.image.as_deref().map(start_picture).transpose()?,
            last_image: None,
            extend: None,
            fit: self.fit.unwrap_or_default(),
            preset: None,
            width: self.width,
            height: self.height,
            num_frames: self.frames,
            fps: self.fps,
            num_steps: self.steps,
            guidance_scale: self.guidance,
            guidance_scale_2: None,
            start_step: None,
            end_step: None,
            vae_tile: None,
            shift: self.shift,
            sampler: self.sampler,
            seed,
            dtype: self.dtype.unwrap_or(settings.runtime.dtype),
            capture: self.capture.clone(),
            out: self
                .out
                .clone()
                .unwrap_or_else(|| self.free_name(seed, settings)),
            sidecar: self.sidecar || settings.output.sidecar,
        })
    }
}

fn start_picture(path: &Path) -> Result<StartPicture, JobError> {
    let picture = media::open_picture(path)
        .map_err(|err| JobError::from_error(JobErrorKind::InvalidRequest, &err))?;
    Ok(StartPicture {
        path: path.to_owned(),
        width: picture.width,
        height: picture.height,
    })
}

fn carried_request(file: &Path) -> Result<GenerateRequest, JobError> {
    let invalid = |summary: String| JobError::new(JobErrorKind::InvalidRequest, summary);
    let text = media::read_settings(file)
        .map_err(|err| JobError::from_error(JobErrorKind::InvalidRequest, &err))?
        .ok_or_else(|| {
            invalid(format!(
                "expected a file that Safelight made, found none of its settings in {}",
                file.display()
            ))
        })?;
    let carried: Carried = serde_json::from_str(&text).map_err(|err| {
        invalid(format!(
            "the settings in the file cannot be understood ({err}): {}",
            file.display()
        ))
    })?;
    Ok(carried.request)
}
