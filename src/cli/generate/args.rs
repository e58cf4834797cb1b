//! The arguments of `safelight generate`, and the form they make.
//!
//! Arguments that the reference tool has too mean the same here.

use std::path::{Path, PathBuf};

use clap::Args;
use safelight_core::files::{MAX_TEXT_BYTES, read_text_bounded};
use safelight_core::job::prompt::PromptWeights;
use safelight_core::job::{
    ChosenImage, ChosenLora, ControlInput, DeviceChoice, DtypeChoice, FormControl, GenerateForm,
    GridAxis, InputMedia, JobError, JobOptions, LoraChoice, PartialSampling, PreviewChoice,
    PromptImage, ResizeMode, SectionOrder, SeedChoice, SeedMode, SizeChoice, SourceVideo,
    StartImage, StepCache, prompt, random_seed,
};
use safelight_core::media::{self, OutpaintRequest};
use safelight_core::model::{ComponentOverrides, ModelSpec};
use safelight_core::settings::Settings;

use super::memory::MemoryArgs;
use super::sampling::SamplingArgs;
use super::second_pass::SecondPassArgs;

const OUT: &str = if media::HAS_H264 {
    "Output file: .mp4, .gif or .webp for a video, .png, .jpg or .webp for an image; several results are numbered [default: named after the prompt and the seed]"
} else {
    "Output file: .webp or .gif for a video, .png, .jpg or .webp for an image; several results are numbered [default: named after the prompt and the seed]"
};

/// Generate an image or a video.
#[derive(Args, Clone, Debug, Default)]
#[command(allow_negative_numbers = true, args_override_self = true)]
pub struct GenerateArgs {
    /// Model: an id from `safelight models`, a diffusers folder, or a transformer file or its folder [default: the model that ships with Safelight]
    #[arg(long, value_name = "ID_OR_PATH")]
    pub model: Option<String>,
    /// Prompt. {a|b} picks one of the choices, __name__ a line of the wildcard file name.txt, and /* comments */ are removed
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Text file with one prompt per line: one job for each non-empty line
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompts_file: Option<PathBuf>,
    /// Negative prompt, used when the CFG scale is above 1 (--guidance, or --true-cfg for models with distilled guidance) [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub negative: Option<String>,
    /// Start image: the first frame of a video, or the source of image-to-image
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// End image: the last frame of a video, for models that support it
    #[arg(long, value_name = "FILE")]
    pub last_image: Option<PathBuf>,
    /// Video to extend: new frames are added after its last one, and the result contains both. FramePack F1 sees its last 73 frames and blends into them
    #[arg(long, value_name = "FILE")]
    pub extend: Option<PathBuf>,
    /// Video to regenerate (video to video), for text-to-video models: --strength sets how much is regenerated; keeps its frame rate and aspect ratio. An image gives one frame
    #[arg(long, value_name = "FILE")]
    pub source_video: Option<PathBuf>,
    /// Inpainting mask, for models that support it: white is regenerated, black is kept. With --source-video it may be a video
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// Outpaint: pixels to add on each side of the start image, such as left=128,top=64, for models that support masks. The image itself is kept except for a fade of 16 pixels at its edges (overlap=N, 0 turns it off). Models that take a control video extend that, with gray and a mask
    #[arg(long, value_name = "SIDE=N,…", conflicts_with = "extend")]
    pub outpaint: Option<OutpaintRequest>,
    /// Reference image for editing models; repeat it for several, in the order in which the prompt numbers them
    #[arg(long = "reference", value_name = "FILE")]
    pub references: Vec<PathBuf>,
    /// Control image, or video for models that take one; may be repeated. Options after the file: kind=KIND for ControlNets of several kinds (edges, soft_edges, straight_lines, scribble, depth, normals, pose, gray, blur, tile, low_quality or inpaint), strength=X (0 to 2, 1 as trained), steps=FROM..UNTIL (range of steps in which it acts, 0 to 1), net=FILE (ControlNet by its path, or by its name in models/controlnet), mask=FILE (white is regenerated), and edges or edges=LOW..HIGH to detect edges first (Canny, thresholds 100..200)
    #[arg(long = "control", value_name = "FILE[,KEY=VALUE…]")]
    pub controls: Vec<ControlInput>,
    /// Image prompt (Redux), for Flux models; STRENGTH is its weight, 1 as trained; may be repeated
    #[arg(long = "prompt-image", value_name = "FILE[,STRENGTH]")]
    pub prompt_images: Vec<PromptImage>,
    /// Resize mode for images of another aspect ratio: stretch or crop [default: stretch; crop for FramePack where no size is given]
    #[arg(long)]
    pub fit: Option<ResizeMode>,
    /// Preset, such as those for few-step LoRAs: fast-4 for the 14B models of Wan with a lightx2v LoRA, fast-3 for the 5B with FastWan, fast-8 and fast-4 for Qwen-Image with Lightning, turbo-8, hyper-8 and hyper-16 for FLUX.1 dev, and depth-lora and canny-lora for its control LoRAs. Other arguments override its values
    #[arg(long, value_name = "ID")]
    pub preset: Option<String>,
    /// Width in pixels [default: the model's own, with the aspect ratio of the start image]
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,
    /// Height in pixels
    #[arg(long, value_name = "N")]
    pub height: Option<u32>,
    #[command(flatten)]
    pub second_pass: SecondPassArgs,
    /// Number of new frames, 4n+1 (a minimum with FramePack); 1 generates an image [default: the model's own, 1 for .png and .jpg]
    #[arg(long, value_name = "N")]
    pub frames: Option<u32>,
    /// Length in seconds, 1 to 120, for models that generate sections (FramePack); rounded to whole sections [default: 5]
    #[arg(long, value_name = "X", conflicts_with = "frames")]
    pub seconds: Option<f64>,
    /// Length of a section in latent frames, of 4 frames each [default: 9]
    #[arg(long, value_name = "N")]
    pub window: Option<u32>,
    /// Order of FramePack's sections: original (back to front) or f1 (front to back) [default: by the model's name]
    #[arg(long = "sampling", value_name = "ORDER")]
    pub sampling_order: Option<SectionOrder>,
    /// Reuse results of similar steps: first_block or taylorseer for any model, teacache and magcache for models with calibration data (FLUX.1, FramePack, most of Wan; magcache also Qwen-Image), optionally with a threshold (first_block:0.08) or an interval (taylorseer:5). Up to 2x faster with some quality loss [default: run every step]
    #[arg(long, value_name = "CACHE[:X]")]
    pub step_cache: Option<StepCache>,
    /// Frames per second of the result [default: that of the source video, else the model's own]
    #[arg(long, value_name = "N")]
    pub fps: Option<f64>,
    /// Batch: number of results, with consecutive seeds; image models generate them together
    #[arg(long, value_name = "N")]
    pub batch: Option<u32>,
    /// Vary a setting: one job for each value and a contact sheet of all results; repeat it for each pair of values. Values are a list with ranges, such as steps=4,8,12, seed=1..3, guidance=1..5:0.5 or 'prompt=red boat,"big, blue boat"' (the first text is replaced in the prompt by the others). Settings: seed, steps, guidance, true-cfg, strength, shift, sampler, schedule, lora (lora:NAME where there are several), model, prompt
    #[arg(long = "grid", value_name = "SETTING=VALUES")]
    pub grid: Vec<GridAxis>,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Maximum number of prompt tokens, for models where it can be set [default: the model's own]
    #[arg(long, value_name = "N")]
    pub max_sequence_length: Option<u32>,
    /// Weights of words in the prompts, such as (word:1.2): comfyui, a1111 or off [default: the setting, or that of --from]
    #[arg(long, value_name = "RULE")]
    pub prompt_weights: Option<PromptWeights>,
    /// Seed; the same seed gives the same result on any device. -1 is a new one each time [default: -1, or that of --from]
    #[arg(long, value_name = "N")]
    pub seed: Option<SeedChoice>,
    /// Another computer that runs the job, with its model, device and memory settings: a name for ssh
    #[arg(long, value_name = "HOST", conflicts_with_all = [
        "device", "dtype", "preserved", "vram_cap", "keep_loaded", "devices", "capture", "telemetry",
        "vae", "text_encoder", "text_encoder_2", "image_encoder", "tokenizer", "tokenizer_2",
    ])]
    pub on: Option<String>,
    /// auto, cpu or cuda:N (also for ROCm) [default: the setting]
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16 [default: the setting]
    #[arg(long)]
    pub dtype: Option<DtypeChoice>,
    /// Tiled VAE: edge of the tiles in pixels, 64 or more, a multiple of 8 (16 for Wan's 5B model); needs less memory
    #[arg(long, value_name = "N")]
    pub vae_tile: Option<u32>,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// LoRA: a file, or a name in a LoRA folder such as wan/style, with its strength, and optionally another one for the low-noise expert; may be repeated. <lora:NAME:STRENGTH> in a prompt does the same [default strength: 1, on the file's own expert alone where it is for one]
    #[arg(long = "lora", value_name = "FILE_OR_NAME[:STRENGTH[:STRENGTH_LOW]]")]
    pub loras: Vec<LoraChoice>,
    /// VAE, a folder or a file [default: found with the model]
    #[arg(long, value_name = "PATH")]
    pub vae: Option<PathBuf>,
    /// Text encoder, a folder or a file; of models with two: CLIP-L for Flux, Llama for FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder: Option<PathBuf>,
    /// Second text encoder: T5 for Flux, CLIP-L for FramePack
    #[arg(long, value_name = "PATH")]
    pub text_encoder_2: Option<PathBuf>,
    /// Image encoder, a folder or a file
    #[arg(long, value_name = "PATH")]
    pub image_encoder: Option<PathBuf>,
    /// Tokenizer, a folder or a file
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// Tokenizer of the second text encoder
    #[arg(long, value_name = "PATH")]
    pub tokenizer_2: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = OUT)]
    pub out: Option<PathBuf>,
    /// Make a video in one stage at its full size, with models that otherwise make it at half its size and upscale the latents (LTX-2.3)
    #[arg(long)]
    pub single_stage: bool,
    /// Also write the settings next to the file, as .json
    #[arg(long)]
    pub sidecar: bool,
    /// Use the settings of this file, with its images and model files; other arguments override them. Its prompts are used literally, without choices, wildcards and comments. Files of other programs (ComfyUI, A1111, Forge, SwarmUI, Wan2GP, FramePack) are read as far as possible
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Result of a workflow to generate, counted from 1 as `safelight inspect` lists them [default: all]
    #[arg(long, value_name = "N", requires = "from")]
    pub output: Option<usize>,
    /// Form of that file; arguments override it.
    #[arg(skip)]
    pub base: GenerateForm,
    /// Neither that file nor another argument gives a prompt.
    #[arg(skip)]
    pub needs_prompt: bool,
    /// Record memory, temperature, power and stages ten times a second to a .csv or .json file
    #[arg(long, value_name = "FILE")]
    pub telemetry: Option<PathBuf>,
    /// Folder for capture.safetensors with the tensors of every stage, to compare with a reference
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// Print JSON lines only
    #[arg(long)]
    pub json: bool,
}

impl GenerateArgs {
    /// The parts of the model that the user named. The job outlives this folder, so they are absolute.
    pub fn companions(&self) -> ComponentOverrides {
        let mut named = ComponentOverrides {
            vae: self.vae.clone(),
            text_encoder: self.text_encoder.clone(),
            text_encoder_2: self.text_encoder_2.clone(),
            image_encoder: self.image_encoder.clone(),
            tokenizer: self.tokenizer.clone(),
            tokenizer_2: self.tokenizer_2.clone(),
        };
        for path in named.each_mut().into_iter().flatten() {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
        named
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
                hosts: self.memory.hosts.clone(),
                // Nobody sees images in a terminal.
                preview: PreviewChoice::Off,
                dtype: self.dtype.unwrap_or(dtype),
                vae_tile: self.vae_tile.or(form.options.vae_tile),
                single_stage: self.single_stage || form.options.single_stage,
                max_sequence_length: self
                    .max_sequence_length
                    .or(form.options.max_sequence_length),
                step_cache: self.step_cache.or(form.options.step_cache),
                prompt_weights: self
                    .prompt_weights
                    .or(form.options.prompt_weights)
                    .or(Some(settings.models.prompt_weights)),
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
    let text = read_text_bounded(file, MAX_TEXT_BYTES).map_err(|err| {
        JobError::invalid(format!(
            "the file with prompts cannot be read ({err}): {}",
            file.display()
        ))
    })?;
    if prompt::lines(&text).is_empty() {
        return Err(JobError::invalid(format!(
            "this file has no line with a prompt: {}",
            file.display()
        )));
    }
    Ok(text)
}

fn start_image(path: &Path) -> Result<StartImage, JobError> {
    let image = media::open_rgb(path)?;
    Ok(StartImage {
        path: path.to_owned(),
        width: image.width,
        height: image.height,
    })
}

fn form_control(control: &ControlInput, takes_videos: bool) -> Result<FormControl, JobError> {
    let source = |path: &Path| -> Result<InputMedia, JobError> {
        let info = media::video_or_image_info(path)?;
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
    let info = media::video_info(path)?;
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
    let info = media::video_or_image_info(path)?;
    Ok(SourceVideo {
        path: path.to_owned(),
        info,
    })
}

#[cfg(test)]
mod tests;
