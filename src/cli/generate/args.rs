//! The arguments of `safelight generate`, and the form they make.
//!
//! Arguments that the reference tool has too mean the same here.

use std::path::{Path, PathBuf};

use clap::Args;
use safelight_core::files::{MAX_TEXT_BYTES, read_text_bounded};
use safelight_core::job::{
    ChosenImage, ChosenLora, ControlInput, DeviceChoice, DtypeChoice, FormControl, GenerateForm,
    GridAxis, InputMedia, JobError, JobErrorKind, JobOptions, LoraChoice, PartialSampling,
    PreviewChoice, PromptImage, ResizeMode, SectionOrder, SeedChoice, SeedMode, SizeChoice,
    SourceVideo, StartImage, StepCache, prompt, random_seed,
};
use safelight_core::media::{self, MediaError, OutpaintRequest};
use safelight_core::model::{ComponentOverrides, ModelSpec};
use safelight_core::settings::Settings;

use super::memory::MemoryArgs;
use super::sampling::SamplingArgs;
use super::second_pass::SecondPassArgs;

const OUT: &str = if media::HAS_H264 {
    "The file to write: .mp4, .gif or .webp for a video, .png, .jpg or .webp for an image; several are numbered [default: named by the prompt and the seed]"
} else {
    "The file to write: .webp or .gif for a video, .png, .jpg or .webp for an image; several are numbered [default: named by the prompt and the seed]"
};

/// Make a video or an image.
#[derive(Args, Debug, Default)]
#[command(allow_negative_numbers = true, args_override_self = true)]
pub struct GenerateArgs {
    /// A model's name from `safelight models`, a diffusers folder, a transformer's file, or a folder with one [default: the model that ships with Safelight]
    #[arg(long, value_name = "ID_OR_PATH")]
    pub model: Option<String>,
    /// Prompt, which may be a template: {a|b} becomes one of both, __name__ a line of the wildcard file name.txt, and /* comments */ are left out
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// A text file with a prompt in each line: one job for each that is not empty
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompts_file: Option<PathBuf>,
    /// Negative prompt: what to avoid; used when the CFG scale is above 1, which is --guidance, or --true-cfg for models with distilled guidance [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub negative: Option<String>,
    /// An image to start from: the first frame of a video, or the source of image-to-image
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// The last frame of a video, for models that support it
    #[arg(long, value_name = "FILE")]
    pub last_image: Option<PathBuf>,
    /// A video to continue: the new frames follow its last one, and the written file holds both; FramePack F1 sees its last 73 frames and blends into it
    #[arg(long, value_name = "CLIP")]
    pub extend: Option<PathBuf>,
    /// A video to change, for models that make videos from text: as much of it as --strength says is made anew after the prompt, at its own rate and in its own shape; of an image one frame is made
    #[arg(long, value_name = "CLIP")]
    pub source_video: Option<PathBuf>,
    /// A mask for inpainting, for models that support it: white is regenerated, black stays; of a video that is changed it may be a video
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// Extend the start image by these numbers of pixels on each side, for models that use masks, such as left=128,top=64; the rest stays as it is, but for a fade of 16 pixels at the old edges, which overlap=N changes and overlap=0 turns off; models that take a control video extend that, with gray and a mask of it
    #[arg(long, value_name = "SIDE=N,…", conflicts_with = "extend")]
    pub outpaint: Option<OutpaintRequest>,
    /// A reference image, for models that edit; may be given several times, in the order in which the prompt counts them
    #[arg(long = "reference", value_name = "FILE")]
    pub references: Vec<PathBuf>,
    /// An image, or a video for models that take one, that controls the composition; may be given several times. Options after the file: kind=KIND for networks that support several kinds (edges, soft_edges, straight_lines, scribble, depth, normals, pose, gray, blur, tile, low_quality or inpaint), strength=X (0 to 2, 1 as trained), steps=FROM..UNTIL (the part of the steps in which it acts), net=FILE (a ControlNet by its path, or by its name in models/controlnet), mask=FILE (white is made anew), and edges or edges=LOW..HIGH, which shows the model the image's edges instead (Canny's, thresholds 100..200)
    #[arg(long = "control", value_name = "FILE[,KEY=VALUE…]")]
    pub controls: Vec<ControlInput>,
    /// An image that is read as a part of the prompt, for the Flux models with a Redux file; FILE,STRENGTH makes it say less or more than 1; may be given several times
    #[arg(long = "prompt-image", value_name = "FILE[,STRENGTH]")]
    pub prompt_images: Vec<PromptImage>,
    /// Resize mode for images of another aspect ratio: stretch or crop [default: stretch; crop for FramePack where no size is given]
    #[arg(long)]
    pub fit: Option<ResizeMode>,
    /// A preset of values, for LoRAs of few steps: fast-4 for the 14B models of Wan with a lightx2v LoRA, fast-3 for the 5B with FastWan, fast-8 and fast-4 for Qwen-Image with Lightning, turbo-8, hyper-8 and hyper-16 for FLUX.1 dev, and depth-lora and canny-lora for its LoRAs that follow an image; a LoRA that has one says so; other arguments override its values
    #[arg(long, value_name = "ID")]
    pub preset: Option<String>,
    /// Width in pixels [default: the model's own, turned to a given image's aspect ratio]
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,
    /// Height in pixels
    #[arg(long, value_name = "N")]
    pub height: Option<u32>,
    #[command(flatten)]
    pub second_pass: SecondPassArgs,
    /// Number of new frames of a video, 4n+1, with FramePack the minimum; 1 makes an image [default: the model's own, 1 for .png and .jpg]
    #[arg(long, value_name = "N")]
    pub frames: Option<u32>,
    /// Length in seconds of a video made in sections (FramePack), 1 to 120, rounded to whole sections [default: 5]
    #[arg(long, value_name = "X", conflicts_with = "frames")]
    pub seconds: Option<f64>,
    /// Length of a section in latent frames, of 4 frames each [default: 9]
    #[arg(long, value_name = "N")]
    pub window: Option<u32>,
    /// In which order FramePack makes sections: original (back to front) or f1 (front to back) [default: what the model's name says]
    #[arg(long = "sampling", value_name = "ORDER")]
    pub sampling_order: Option<SectionOrder>,
    /// Skip steps that change little: first_block for any model, taylorseer for any model, teacache and magcache for models that they were measured of (FLUX.1, FramePack, most of Wan, and magcache for Qwen-Image), optionally with a threshold such as first_block:0.08 or an interval such as taylorseer:5; up to twice as fast, with lower quality [default: run every step]
    #[arg(long, value_name = "CACHE[:X]")]
    pub step_cache: Option<StepCache>,
    /// Frames per second of the written video [default: the model's own, or that of the video that is continued, changed or extended]
    #[arg(long, value_name = "N")]
    pub fps: Option<f64>,
    /// Number of results, with the seeds S, S+1 and so on: together with image models, one after the other with others
    #[arg(long, value_name = "N")]
    pub batch: Option<u32>,
    /// Vary a setting: one job for each value, and a contact sheet of all; given twice, for each pair of values. Values are a list with ranges, such as steps=4,8,12, seed=1..3, guidance=1..5:0.5 or 'prompt=red boat,"big, blue boat"', whose first text the others replace in the prompt. Settings: seed, steps, guidance, true-cfg, strength, shift, sampler, schedule, lora (lora:NAME where there are several), model, prompt
    #[arg(long = "grid", value_name = "SETTING=VALUES")]
    pub grid: Vec<GridAxis>,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// The most tokens of the prompt that are read, for models where it can be set [default: the model's own]
    #[arg(long, value_name = "N")]
    pub max_sequence_length: Option<u32>,
    /// Seed, with which the result is the same on any device; -1 is a new one each time [default: -1, or that of --from]
    #[arg(long, value_name = "N")]
    pub seed: Option<SeedChoice>,
    /// auto, cpu or cuda:N; ROCm's GPUs are cuda:N too [default: the setting]
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16 [default: the setting]
    #[arg(long)]
    pub dtype: Option<DtypeChoice>,
    /// Run the VAE in tiles of this many pixels, for less memory: 64 or more, in steps of 8 (of 16 for the 5B model)
    #[arg(long, value_name = "N")]
    pub vae_tile: Option<u32>,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// A LoRA, by its file or by its name in a folder of LoRAs such as wan/style, and its strength, optionally with a second one for the low-noise expert; may be given several times; <lora:NAME:STRENGTH> in a prompt does the same for its job [default: 1, only on its own expert for a file of one expert]
    #[arg(long = "lora", value_name = "FILE_OR_NAME[:STRENGTH[:STRENGTH_LOW]]")]
    pub loras: Vec<LoraChoice>,
    /// The VAE to use instead of the one found with the model: a folder or a file
    #[arg(long, value_name = "PATH")]
    pub vae: Option<PathBuf>,
    /// The text encoder to use: a folder or a file; where a model has two, CLIP-L in Flux and Llama in FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder: Option<PathBuf>,
    /// The second text encoder to use: T5 in Flux, CLIP-L in FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder_2: Option<PathBuf>,
    /// The image encoder to use: a folder or a file
    #[arg(long, value_name = "PATH")]
    pub image_encoder: Option<PathBuf>,
    /// The tokenizer to use: a folder or a file
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// The tokenizer of the second text encoder
    #[arg(long, value_name = "PATH")]
    pub tokenizer_2: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = OUT)]
    pub out: Option<PathBuf>,
    /// Also write the settings next to the file, as .json
    #[arg(long)]
    pub sidecar: bool,
    /// Use the settings that made this file, with its images and model files; other arguments override them. Its prompts are used literally: choices, wildcards and comments in them are not expanded. Files of other programs (ComfyUI, A1111, Forge, SwarmUI, Wan2GP, FramePack) are read as far as possible
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Form of that file; arguments override it.
    #[arg(skip)]
    pub base: GenerateForm,
    /// Neither that file nor another argument gives a prompt.
    #[arg(skip)]
    pub needs_prompt: bool,
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
    pub fn companions(&self) -> ComponentOverrides {
        let place = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        ComponentOverrides {
            vae: place(&self.vae),
            text_encoder: place(&self.text_encoder),
            text_encoder_2: place(&self.text_encoder_2),
            image_encoder: place(&self.image_encoder),
            tokenizer: place(&self.tokenizer),
            tokenizer_2: place(&self.tokenizer_2),
        }
    }

    /// Returns whether there is no prompt.
    pub fn lacks_prompt(&self) -> bool {
        self.prompt.is_none() && self.from.is_none() && self.prompts_file.is_none()
    }

    /// These arguments over what `--from` gave. Reads the sizes of images and videos from their files, and the prompts
    /// from theirs.
    pub fn form(&self, spec: &ModelSpec, settings: &Settings) -> Result<GenerateForm, JobError> {
        let mut form = self.base.clone();
        if let Some(file) = &self.prompts_file {
            (form.prompt, form.is_one_a_line) = (prompts_of(file)?, true);
            form.literal_prompt = None;
        } else if let Some(prompt) = &self.prompt {
            form.prompt.clone_from(prompt);
            form.literal_prompt = None;
        }
        if let Some(negative) = &self.negative {
            form.negative_prompt = Some(negative.clone());
            form.literal_negative = None;
        }
        if !self.loras.is_empty() {
            form.loras = self.loras.iter().map(ChosenLora::from).collect();
        }
        form.inputs.image = self.image.as_deref().map(start_image).transpose()?;
        form.inputs.last_image = self.last_image.as_deref().map(start_image).transpose()?;
        form.inputs.extend = self.extend.as_deref().map(source_video).transpose()?;
        let source = self.source_video.as_deref();
        form.inputs.source_video = source.map(video_or_image).transpose()?;
        let mask = self.mask.as_deref();
        form.inputs.mask = match &form.inputs.source_video {
            Some(_) => mask.map(open_image).transpose()?,
            None => mask.map(start_image).transpose()?,
        };
        if !self.grid.is_empty() {
            form.grid.clone_from(&self.grid);
        }
        let references = self.references.iter().map(|path| start_image(path));
        form.inputs.references = references.collect::<Result<_, _>>()?;
        let takes_videos = spec.limits.controls.takes_videos;
        let controls = self
            .controls
            .iter()
            .map(|it| form_control(it, takes_videos));
        form.inputs.controls = controls.collect::<Result<_, _>>()?;
        let prompts = self.prompt_images.iter().map(|prompt| {
            Ok::<_, JobError>(ChosenImage {
                image: start_image(&prompt.path)?,
                strength: prompt.strength,
            })
        });
        form.inputs.prompt_images = prompts.collect::<Result<_, _>>()?;
        if self.width.is_some() || self.height.is_some() {
            form.size = SizeChoice::Custom;
        }
        if self.frames.is_some() || self.seconds.is_some() {
            (form.num_frames, form.secs) = (self.frames, self.seconds);
            form.num_sections = None;
        }
        // A preset sets everything but the strength.
        if self.preset.is_some() {
            form.sampling = PartialSampling {
                strength: form.sampling.strength,
                ..PartialSampling::default()
            };
        }
        form.sampling = PartialSampling::from(self.sampling).or(form.sampling);
        match self.seed {
            Some(SeedChoice::Fixed(seed)) => {
                (form.seed, form.seed_mode) = (seed, SeedMode::Fixed);
            }
            Some(SeedChoice::Random) => form.seed_mode = SeedMode::Random,
            None => {}
        }
        // A random seed is another for each prompt.
        let seed = match form.seed_mode {
            SeedMode::Random | SeedMode::Increment => random_seed(),
            SeedMode::Fixed => form.seed,
        };
        let dtype = if self.from.is_some() {
            form.options.dtype
        } else {
            settings.runtime.dtype
        };
        let mut form = GenerateForm {
            fit: self.fit.or(form.fit),
            preset: self.preset.clone(),
            width: self.width.or(form.width),
            height: self.height.or(form.height),
            second_pass: self.second_pass.over(form.second_pass),
            window: self.window.or(form.window),
            section_order: self.sampling_order.or(form.section_order),
            fps: self.fps.or(form.fps),
            batch_size: self.batch,
            seed,
            options: JobOptions {
                memory: self.memory.choice(&settings.memory),
                // Nobody sees images in a terminal.
                preview: PreviewChoice::Off,
                dtype: self.dtype.unwrap_or(dtype),
                vae_tile: self.vae_tile.or(form.options.vae_tile),
                max_sequence_length: self
                    .max_sequence_length
                    .or(form.options.max_sequence_length),
                step_cache: self.step_cache.or(form.options.step_cache),
                capture: self.capture.clone(),
                sidecar: self.sidecar || settings.output.sidecar,
            },
            ..form
        };
        let extension = settings.extension(form.makes_image(spec));
        let unnamed = || PathBuf::from("result").with_extension(extension);
        form.out = self.out.clone().unwrap_or_else(unnamed);
        Ok(form)
    }
}

/// The lines of a file of prompts, of which at least one is neither empty nor a comment.
fn prompts_of(file: &Path) -> Result<String, JobError> {
    let refused = |why: String| JobError::new(JobErrorKind::InvalidRequest, why);
    let text = read_text_bounded(file, MAX_TEXT_BYTES).map_err(|err| {
        refused(format!(
            "the file with prompts cannot be read ({err}): {}",
            file.display()
        ))
    })?;
    if prompt::lines(&text).is_empty() {
        return Err(refused(format!(
            "this file has no line with a prompt: {}",
            file.display()
        )));
    }
    Ok(text)
}

fn start_image(path: &Path) -> Result<StartImage, JobError> {
    let image = media::open_rgb(path).map_err(|err| unusable(&err))?;
    Ok(StartImage {
        path: path.to_owned(),
        width: image.width,
        height: image.height,
    })
}

fn form_control(control: &ControlInput, takes_videos: bool) -> Result<FormControl, JobError> {
    let source = |path: &Path| -> Result<InputMedia, JobError> {
        let info = media::video_or_image_info(path).map_err(|err| unusable(&err))?;
        let is_video = info.num_frames > 1
            && (takes_videos || media::media_info(path).is_ok_and(|it| it.num_frames > 1));
        Ok(if is_video {
            InputMedia::Video(source_video(path)?)
        } else {
            InputMedia::Image(start_image(path)?)
        })
    };
    Ok(FormControl {
        source: source(&control.file)?,
        mask: control.mask.as_deref().map(source).transpose()?,
        settings: control.settings.clone(),
    })
}

fn source_video(path: &Path) -> Result<SourceVideo, JobError> {
    let info = media::video_info(path).map_err(|err| unusable(&err))?;
    Ok(SourceVideo {
        path: path.to_owned(),
        info,
    })
}

/// The size of a video or image whose frames are looked at later.
fn open_image(path: &Path) -> Result<StartImage, JobError> {
    let SourceVideo { path, info } = video_or_image(path)?;
    let (width, height) = (info.width, info.height);
    Ok(StartImage {
        path,
        width,
        height,
    })
}

fn video_or_image(path: &Path) -> Result<SourceVideo, JobError> {
    let info = media::video_or_image_info(path).map_err(|err| unusable(&err))?;
    Ok(SourceVideo {
        path: path.to_owned(),
        info,
    })
}

pub(super) fn unusable(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
}

#[cfg(test)]
mod tests;
