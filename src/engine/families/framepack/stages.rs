//! FramePack's stages: which function makes which result, of which files.

use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::families::framepack::{FAMILY, LANGUAGE};
use safelight_core::job::Stage;
use safelight_core::media::RgbPixels;
use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _};
use safelight_core::tokens::HUNYUAN_PROMPT;
use tch::{Device, Kind, Tensor};

use super::decode::{SectionLatents, decode};
use super::denoise::{SectionInputs, denoise};
use super::layout::section_shape;
use crate::families::family::EngineFamily;
use crate::fault::FaultSite;
use crate::pixels::pixels_from_rgb8;
use crate::sampling::CpuGenerator;
use crate::stages::StageContext;
use crate::stages::job_images::{frames_of_job, seen_of_job};
use crate::stages::siglip::SiglipStage;
use crate::tensor_files::{self, TensorFile};
use crate::text::{EncoderFiles, PromptEmbeds, TextEmbeds, embeds_of, read_clip, read_language};
use crate::vae::{HunyuanVaeEncoder, hunyuan};
use crate::{EngineError, StageCapture, StageWork};

pub(crate) struct FramePackFamily;

impl EngineFamily for FramePackFamily {
    fn id(&self) -> &'static str {
        FAMILY.id
    }

    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        match stage {
            Stage::EncodeText => encode_text(context),
            Stage::EncodeImage => encode_image(context),
            Stage::EncodeVision => encode_vision(context),
            Stage::Denoise => denoise_section(context),
            Stage::Decode => decode_section(context),
            _ => Err(context.no_such_stage()),
        }
    }
}

fn encode_text(context: &StageContext<'_>) -> Result<(), EngineError> {
    context.texts(|work| {
        let files = &work.request.files;
        embeds_of(work, |texts, work| {
            // Llama is unloaded before CLIP is loaded.
            let read_as = (LANGUAGE, &HUNYUAN_PROMPT);
            let prompts = read_language(&EncoderFiles::first(files), texts, read_as, work)?;
            let pooled = read_clip(&EncoderFiles::second(files)?, texts, work)?;
            let embeds = prompts.into_iter().zip(pooled.into_iter().map(Some));
            let embeds = embeds.map(|(read, pooled)| TextEmbeds { pooled, ..read });
            Ok(embeds.collect())
        })
    })
}

fn encode_image(context: &StageContext<'_>) -> Result<(), EngineError> {
    let folder = &context.folder();
    let images = context.part(|work| {
        let request = work.request;
        let home = &request.files.vae;
        let config = HunyuanVaeConfig::read(home)?;
        let shape = section_shape(config.latent_channels, request)?;
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
            let noise = generator.normal(&shape.with_frames(1).size())?;
            capture.put(format!("noise.{number}"), &noise);
            let latents = hunyuan::normalize(&config, &posterior.sample(&noise));
            capture.put(format!("{name}_latents"), &latents);
            Ok::<_, EngineError>(latents)
        };
        let start = image(0, "image", &start)?;
        let end = end.map(|end| image(1, "last_image", &end));
        let end = end.transpose()?;
        let video = video.map(|video| {
            // Existing frames are encoded as their mean, without noise.
            let mean = encode(&video)?.mean.to_kind(Kind::Float);
            let latents = hunyuan::normalize(&config, &mean);
            work.capture.put("video_latents", &latents);
            Ok::<_, EngineError>(latents)
        });
        let video = video.transpose()?;
        Ok(GivenImages { start, end, video })
    })?;
    images.save(&context.own_result())
}

fn encode_vision(context: &StageContext<'_>) -> Result<(), EngineError> {
    context.tensor("image_embeds", |work| {
        // Recorded with the latents.
        let off = &mut StageCapture::off();
        let (start, end) = frames_of_job(&context.folder(), work.request, off)?;
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
    })
}

fn denoise_section(context: &StageContext<'_>) -> Result<(), EngineError> {
    let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
    let images = GivenImages::load(&context.result(Stage::EncodeImage))?;
    let image_embeds =
        tensor_files::read_one(&context.result(Stage::EncodeVision), "image_embeds")?;
    let earlier = (0..context.order.section)
        .map(|section| latents_of(context, section))
        .collect::<Result<Vec<_>, _>>()?;
    let given = SectionInputs {
        embeds: &embeds,
        images: &images,
        image_embeds: &image_embeds,
        earlier: &earlier,
    };
    let resume = context.checkpoint();
    context.tensor("latents", |work| denoise(&given, resume, work))
}

fn decode_section(context: &StageContext<'_>) -> Result<(), EngineError> {
    let section = context.order.section;
    let images = GivenImages::load(&context.result(Stage::EncodeImage))?;
    let newest = (section.saturating_sub(2)..=section)
        .rev()
        .map(|section| latents_of(context, section))
        .collect::<Result<Vec<_>, _>>()?;
    let overlap = |section| overlap_file(&context.order.folder, section);
    // Whatever is wrong with that file, its frames can be made again.
    let before = section.checked_sub(1).map(overlap);
    let before = before.and_then(|path| tensor_files::read_one(&path, "frames").ok());
    let sections = context.request().sections;
    let lead = sections.map_or(1, |sections| sections.lead);
    // A record of the whole video begins with them each time.
    let given = if section == 0 || context.order.capture {
        end_of_video(context)?
    } else {
        None
    };
    let latents = SectionLatents {
        lead: &images.lead(i64::from(lead)),
        newest: &newest,
        overlap: before,
        given,
    };
    let decode = |work: &mut StageWork<'_>| decode(section, &latents, work);
    let kept = context.part(|work| work.decoded(decode))?;
    if let Err(err) = tensor_files::write_one(&overlap(section), "frames", &kept) {
        tracing::warn!("the frames for the next section could not be kept: {err}");
    }
    if let Some(old) = section.checked_sub(2) {
        fs::remove_file(overlap(old)).ok(); // Of no use any more, and gone with the folder anyway.
    }
    Ok(())
}

fn latents_of(context: &StageContext<'_>, section: u32) -> Result<Tensor, EngineError> {
    tensor_files::read_one(&context.section_result(Stage::Denoise, section), "latents")
}

/// The frames of a video that is gone on from which its first section joins: `(1, 3, n, H, W)`
fn end_of_video(context: &StageContext<'_>) -> Result<Option<Tensor>, EngineError> {
    let shared = context.request().lead_frames() as i64;
    if shared <= 1 {
        return Ok(None);
    }
    let seen = seen_of_job(&context.folder(), context.request())?;
    let all = |seen: &Tensor| seen.size()[2];
    Ok(seen
        .filter(|seen| all(seen) >= shared)
        .map(|seen| seen.narrow(2, all(&seen) - shared, shared)))
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
