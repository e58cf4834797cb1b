//! The arguments of `safelight generate`, and the form they make.
//!
//! Arguments that the reference tool has too mean the same here.

use std::path::{Path, PathBuf};

use clap::Args;
use safelight_core::job::{
    DeviceChoice, DtypeChoice, Fit, GenerateForm, JobError, JobErrorKind, Lora, PreviewChoice,
    Sampler, SectionOrder, SigmaSchedule, SourceClip, StartPicture, StepCache,
};
use safelight_core::library::Companions;
use safelight_core::media::{self, MediaError};
use safelight_core::model::ModelSpec;
use safelight_core::settings::Settings;

use super::memory::MemoryArgs;
use super::shift::Shift;

/// Make a clip or a picture.
#[derive(Args, Debug, Default)]
#[command(allow_negative_numbers = true, args_override_self = true)]
pub struct GenerateArgs {
    /// A model's name from `safelight models`, a diffusers folder, a transformer's file, or a folder with one [default: the model that ships with Safelight]
    #[arg(long, value_name = "ID_OR_PATH")]
    pub model: Option<String>,
    /// What to make
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// A text file with a prompt in each line: one job for each that is not empty
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompts_file: Option<PathBuf>,
    /// What the carried prompt was made of: itself where it was written so. It is not made anew.
    #[arg(skip)]
    pub prompt_template: Option<String>,
    /// As `prompt_template`.
    #[arg(skip)]
    pub negative_template: Option<String>,
    /// What to steer away from; acts when --guidance (Wan) or --true-cfg (Flux, FramePack) is above 1 [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub negative: Option<String>,
    /// A picture to start from: the first frame of a clip, or what a new picture is made of
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// A picture to end on, for models that can
    #[arg(long, value_name = "FILE")]
    pub last_image: Option<PathBuf>,
    /// A clip to go on from: the new frames start with its last one and stand behind it in the written file; FramePack-F1 sees its last 73 frames and passes over into it
    #[arg(long, value_name = "CLIP")]
    pub extend: Option<PathBuf>,
    /// Which part of the picture is made anew, for models that can: white is, black stays
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// How much of the picture is made anew, for models that begin on the way to it: above 0, 1 is all [default: the model's own]
    #[arg(long, value_name = "X")]
    pub strength: Option<f64>,
    /// How pictures of another aspect come to the size that is made: stretch or crop [default: stretch; crop for FramePack where no size is given]
    #[arg(long)]
    pub fit: Option<Fit>,
    /// Values that go together: fast-4 for the 14B models of Wan with a lightx2v LoRA, fast-3 for the 5B with FastWan; other arguments change them
    #[arg(long, value_name = "ID")]
    pub preset: Option<String>,
    /// Pixels [default: the model's own, turned to a given picture's aspect]
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,
    /// Pixels
    #[arg(long, value_name = "N")]
    pub height: Option<u32>,
    /// New frames of a clip, 4n+1, with FramePack at least so many; 1 makes a picture [default: the model's own, 1 for .png and .jpg]
    #[arg(long, value_name = "N")]
    pub frames: Option<u32>,
    /// Seconds of a clip that is made section by section (FramePack), 1 to 120; the nearest number of whole sections is made [default: 5]
    #[arg(long, value_name = "X", conflicts_with = "frames")]
    pub seconds: Option<f64>,
    #[arg(skip)]
    pub num_sections: Option<u32>,
    /// Latent frames of a section, of 4 frames each [default: 9]
    #[arg(long, value_name = "N")]
    pub window: Option<u32>,
    /// In which order FramePack makes sections: original (back to front) or f1 (front to back) [default: what the model's name says]
    #[arg(long, value_name = "ORDER")]
    pub sampling: Option<SectionOrder>,
    /// Skip steps that would change little (FramePack): teacache, magcache or first_block, perhaps with a threshold such as teacache:0.15; twice as fast, with a loss [default: every step is computed]
    #[arg(long, value_name = "CACHE[:X]")]
    pub step_cache: Option<StepCache>,
    /// Frames a second of the written clip [default: the model's own, or the extended clip's]
    #[arg(long, value_name = "N")]
    pub fps: Option<f64>,
    /// How many to make, with the seeds S, S+1 and so on: at once with models of pictures, one after the other with others
    #[arg(long, value_name = "N")]
    pub batch: Option<u32>,
    /// Denoising steps
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// How strictly the prompt is followed: classifier-free guidance in Wan, where 1 turns it off; in Flux the number that its distilled models are told, and FramePack
    #[arg(long, value_name = "X")]
    pub guidance: Option<f64>,
    /// Classifier-free guidance of models whose own guidance is another thing, by a second pass with the negative prompt; 1 turns it off
    #[arg(long, value_name = "X")]
    pub true_cfg: Option<f64>,
    /// As --guidance for the low-noise expert of models that have one [default: as the other]
    #[arg(long, value_name = "X")]
    pub guidance_2: Option<f64>,
    /// The first step to make, counted from 0
    #[arg(long, value_name = "N")]
    pub start_step: Option<u32>,
    /// The step to end before; what noise is left then stays
    #[arg(long, value_name = "N")]
    pub end_step: Option<u32>,
    /// Shift of the noise schedule, or dynamic for one by the number of tokens (Flux, FramePack) [default: the model's own]
    #[arg(long, value_name = "X")]
    pub shift: Option<Shift>,
    /// unipc, unipc_bh1, euler, heun, dpmpp_2m or lcm [default: the model's own]
    #[arg(long, value_name = "NAME")]
    pub sampler: Option<Sampler>,
    /// How the noise levels of the steps are spaced: simple, beta, karras or exponential [default: simple, the model's own]
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<SigmaSchedule>,
    /// Tokens of the prompt that are read, for models that can read fewer [default: the model's own]
    #[arg(long, value_name = "N")]
    pub max_sequence_length: Option<u32>,
    /// The same seed gives the same result on any device [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// auto, cpu or cuda:N; ROCm's GPUs are cuda:N too [default: the setting]
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16 [default: the setting]
    #[arg(long)]
    pub dtype: Option<DtypeChoice>,
    /// Encode and decode in tiles of so many pixels a side, for less memory: 64 or more, in steps of 8 (of 16 for the 5B model)
    #[arg(long, value_name = "N")]
    pub vae_tile: Option<u32>,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// A LoRA and how strongly it acts, also a second number for the low-noise expert; may be given several times [default: 1, for a file of one expert on that expert alone]
    #[arg(long = "lora", value_name = "FILE[:STRENGTH[:STRENGTH_LOW]]")]
    pub loras: Vec<Lora>,
    /// The VAE to use instead of the one found with the model: a folder or a file
    #[arg(long, value_name = "PATH")]
    pub vae: Option<PathBuf>,
    /// The same for the text encoder: UMT5 in Wan, CLIP-L in Flux, Llama in FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder: Option<PathBuf>,
    /// The same for the second text encoder: T5 in Flux, CLIP-L in FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder_2: Option<PathBuf>,
    /// The same for the image encoder
    #[arg(long, value_name = "PATH")]
    pub image_encoder: Option<PathBuf>,
    /// The same for the tokenizer
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// The same for the second text encoder's tokenizer
    #[arg(long, value_name = "PATH")]
    pub tokenizer_2: Option<PathBuf>,
    /// The file to write: .mp4, .gif or .webp for a clip, .png, .jpg or .webp for a picture; several are numbered [default: named by the prompt and the seed]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write the settings beside the file, as .json
    #[arg(long)]
    pub sidecar: bool,
    /// Repeat what made this file, with its pictures and the parts of the model that were named; other arguments change it. Of files of other programs (ComfyUI, A1111, Forge, SwarmUI, Wan2GP, FramePack) what can be had is taken over
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write memory, temperature, power and stages of the jobs, ten times a second (.csv or .json)
    #[arg(long, value_name = "FILE")]
    pub telemetry: Option<PathBuf>,
    /// Write capture.safetensors with every stage's tensors here, for comparisons with the reference
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// Print one JSON object a line and nothing else
    #[arg(long)]
    pub json: bool,
}

impl GenerateArgs {
    /// The parts of the model that the user named. The job outlives this folder, so they are absolute.
    pub fn companions(&self) -> Companions {
        let place = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        Companions {
            vae: place(&self.vae),
            text_encoder: place(&self.text_encoder),
            text_encoder_2: place(&self.text_encoder_2),
            image_encoder: place(&self.image_encoder),
            tokenizer: place(&self.tokenizer),
            tokenizer_2: place(&self.tokenizer_2),
        }
    }

    /// The kind of file that a result without a name gets.
    pub fn extension<'a>(&self, spec: &ModelSpec, settings: &'a Settings) -> &'a str {
        let is_one = self.frames == Some(1) && spec.section_order.is_none();
        if spec.family.makes_pictures || is_one {
            "png"
        } else {
            &settings.output.format
        }
    }

    /// Whether nothing says what to make.
    pub fn lacks_prompt(&self) -> bool {
        self.prompt.is_none() && self.from.is_none() && self.prompts_file.is_none()
    }

    /// The form but for what each of several jobs has of its own: prompt, seed and file. Reads the sizes of
    /// pictures and clips from their files.
    pub fn form(&self, settings: &Settings) -> Result<GenerateForm, JobError> {
        Ok(GenerateForm {
            negative_prompt: self.negative.clone(),
            negative_prompt_template: self.negative_template.clone(),
            image: self.image.as_deref().map(start_picture).transpose()?,
            last_image: self.last_image.as_deref().map(start_picture).transpose()?,
            extend: self.extend.as_deref().map(source_clip).transpose()?,
            mask: self.mask.as_deref().map(start_picture).transpose()?,
            strength: self.strength,
            fit: self.fit,
            preset: self.preset.clone(),
            width: self.width,
            height: self.height,
            num_frames: self.frames,
            secs: self.seconds,
            num_sections: self.num_sections,
            window: self.window,
            section_order: self.sampling,
            step_cache: self.step_cache,
            fps: self.fps,
            batch_size: self.batch,
            num_steps: self.steps,
            guidance_scale: self.guidance,
            true_cfg_scale: self.true_cfg,
            guidance_scale_2: self.guidance_2,
            start_step: self.start_step,
            end_step: self.end_step,
            vae_tile: self.vae_tile,
            memory: self.memory.choice(&settings.memory),
            loras: self.loras.clone(),
            shift: self.shift.and_then(Shift::number),
            dynamic_shift: self.shift == Some(Shift::Dynamic),
            sampler: self.sampler,
            sigma_schedule: self.schedule.unwrap_or_default(),
            max_sequence_length: self.max_sequence_length,
            // Nobody sees pictures in a terminal.
            preview: PreviewChoice::Off,
            dtype: self.dtype.unwrap_or(settings.runtime.dtype),
            capture: self.capture.clone(),
            sidecar: self.sidecar || settings.output.sidecar,
            ..GenerateForm::default()
        })
    }
}

fn start_picture(path: &Path) -> Result<StartPicture, JobError> {
    let picture = media::open_picture(path).map_err(|err| unusable(&err))?;
    Ok(StartPicture {
        path: path.to_owned(),
        width: picture.width,
        height: picture.height,
    })
}

fn source_clip(path: &Path) -> Result<SourceClip, JobError> {
    let info = media::clip_info(path).map_err(|err| unusable(&err))?;
    Ok(SourceClip {
        path: path.to_owned(),
        info,
    })
}

pub(super) fn unusable(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
}

#[cfg(test)]
mod tests;
