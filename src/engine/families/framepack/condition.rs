//! Encoding of the start and end images before the first section: latents, and SigLIP's hidden states of the start.

use std::path::{Path, PathBuf};

use safelight_core::families::framepack::LANGUAGE;
use safelight_core::job::JobFolder;
use safelight_core::media::RgbPixels;
use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _};
use safelight_core::tokens::HUNYUAN_PROMPT;
use tch::{Device, Kind, Tensor};

use super::prepare::FramePackShape;
use crate::capture::StageCapture;
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::pixels::pixels_from_rgb8;
use crate::sampling::CpuGenerator;
use crate::stages::job_images::{frames_of_job, seen_of_job};
use crate::stages::siglip::SiglipStage;
use crate::tensor_files::{self, TensorFile};
use crate::text::{EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, read_clip, read_language};
use crate::vae::{HunyuanVaeEncoder, hunyuan};
use crate::work::StageWork;

/// Latents of the job's start image, of its end image and of the last frames of the video that it extends.
pub fn encode_image(
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<GivenImages, EngineError> {
    let request = work.request;
    let home = &request.files.vae;
    let config = HunyuanVaeConfig::read(home)?;
    let shape = FramePackShape::new(config.latent_channels, request)?;
    let new = |w: &_| HunyuanVaeEncoder::new(&config, w);
    let encoder = work.load("autoencoder", home, new, HunyuanVaeEncoder::unexpected_keys)?;
    let (start, end) = frames_of_job(folder, request, work.capture)?;
    let video = seen_of_job(folder, request)?;
    let mut generator = CpuGenerator::new(request.seed);
    let tiling = work.tiling();
    let cancelled = work.cancelled(FaultSite::VaeEncode);
    let encode = |video: &Tensor| {
        let posterior = encoder.encode(video, tiling, &cancelled);
        posterior.ok_or(EngineError::Cancelled)
    };
    let capture = &mut *work.capture;
    let mut image = |number: usize, name: &str, image: &RgbPixels| {
        let pixels = pixels_from_rgb8(&image.rgb, request.width, request.height)?;
        capture.put(format!("{name}.preprocessed"), &pixels);
        let video = pixels.unsqueeze(2);
        capture.put(format!("vae.encode.{number}.input"), &video);
        let posterior = encode(&video)?.recorded(number, capture);
        let noise = generator.normal(&shape.image())?;
        capture.put(format!("noise.{number}"), &noise);
        let latents = hunyuan::normalize(&config, &posterior.sample(&noise));
        capture.put(format!("{name}_latents"), &latents);
        Ok::<_, EngineError>(latents)
    };
    let start = image(0, "image", &start)?;
    let end = end.map(|end| image(1, "last_image", &end));
    let end = end.transpose()?;
    let video = video.map(|video| {
        // Of what is there already nothing is left to chance.
        let mean = encode(&video)?.mean.to_kind(Kind::Float);
        let latents = hunyuan::normalize(&config, &mean);
        work.capture.put("video_latents", &latents);
        Ok::<_, EngineError>(latents)
    });
    let video = video.transpose()?;
    Ok(GivenImages { start, end, video })
}

/// SigLIP's hidden states of the start image, `(1, I, C)` in f32 on the CPU; those of the end image are only captured.
pub fn encode_vision(folder: &JobFolder, work: &mut StageWork<'_>) -> Result<Tensor, EngineError> {
    // Recorded with the latents.
    let off = &mut StageCapture::off();
    let (start, end) = frames_of_job(folder, work.request, off)?;
    let (request, files) = (work.request, &work.request.files);
    let home = files.image_encoder.as_deref();
    let home = home.ok_or_else(|| EngineError::request("this model has no image encoder"))?;
    let looking = SiglipStage::open(home, files.image_processor.as_deref(), work)?;
    let is_recorded = work.capture.is_on();
    let mut look = |name: &str, image: &RgbPixels| {
        let image = pixels_from_rgb8(&image.rgb, request.width, request.height)?;
        let pixels = looking.processor.pixel_values(&image)?;
        let embeds = looking.look(name, &pixels, work)?;
        work.capture.put(format!("{name}_embeds"), &embeds);
        Ok::<_, EngineError>(embeds.to_device(Device::Cpu))
    };
    let seen = look("image", &start)?;
    if let (Some(end), true) = (end, is_recorded) {
        drop(look("last_image", &end)?);
    }
    Ok(seen)
}

pub fn encode_text(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = EncodedText::all_of(work.request)?;
    tch::no_grad(|| {
        let llama = EncoderFiles::first(&work.request.files);
        // Llama is gone before CLIP is there.
        let prompts = read_language(&llama, &texts, (LANGUAGE, &HUNYUAN_PROMPT), work)?;
        let video = EncoderFiles::second(&work.request.files)?;
        let pooled = read_clip(&video, &texts, work)?;
        let embeds = prompts.into_iter().zip(pooled);
        let embeds = embeds.map(|(read, pooled)| TextEmbeds {
            prompt: read.states,
            mask: Some(read.mask),
            pooled: Some(pooled),
        });
        PromptEmbeds::from_texts(&texts, embeds.collect(), work.capture)
    })
}

/// Given images in latents as the transformer has them, `(1, C, 1, h, w)` each, in f32.
#[derive(Debug)]
pub struct GivenImages {
    pub start: Tensor,
    pub end: Option<Tensor>,
    /// The last frames of a video that is gone on from, `(1, C, f, h, w)`.
    pub video: Option<Tensor>,
}

impl GivenImages {
    /// Latents before the first section: this number of latent frames of the extended video, or the start.
    pub fn lead(&self, frames: i64) -> Tensor {
        match &self.video {
            Some(video) if (1..=video.size()[2]).contains(&frames) => {
                video.narrow(2, video.size()[2] - frames, frames)
            }
            _ => self.start.shallow_clone(),
        }
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("image_latents", &self.start)];
        tensors.extend(self.end.iter().map(|end| ("last_image_latents", end)));
        tensors.extend(self.video.iter().map(|video| ("video_latents", video)));
        tensor_files::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = TensorFile::read(path)?;
        Ok(Self {
            start: stored.take("image_latents")?,
            end: stored.find("last_image_latents"),
            video: stored.find("video_latents"),
        })
    }
}

/// File of a section's frames that the next one is blended with: `(1, 3, n, H, W)`, as decoded.
pub fn overlap_file(folder: &Path, section: u32) -> PathBuf {
    folder.join(format!("overlap.{section:03}.safetensors"))
}
