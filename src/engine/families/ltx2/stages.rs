//! LTX-2.3's stages: which function makes which result, of which files.

use std::path::Path;

use safelight_core::families::ltx2::{
    FAMILY, LANGUAGE, PROMPT, SECOND_STAGE_SIGMAS, TEXT_TOKENS, read_connectors,
};
use safelight_core::families::{ModelFamily, lora_target};
use safelight_core::job::prompt::WeightedText;
use safelight_core::job::{GenerateRequest, JobFolder, Stage};
use safelight_core::lora::Expert;
use safelight_core::media::{self, MediaError, RgbPixels, VideoOptions};
use safelight_core::model::ModelComponent;
use safelight_core::networks::NetworkConfig as _;
use safelight_core::networks::ltx2::{
    LatentUpscalerConfig, Ltx2AudioVaeConfig, Ltx2TransformerConfig, Ltx2TransformerKeys,
    Ltx2VaeConfig, Ltx2VocoderConfig,
};
use tch::{Device, Kind, Tensor};

use super::connectors::Ltx2TextConnectors;
use super::denoise::{JointShape, Ltx2Denoiser, renoised};
use super::positions::{Ltx2Positions, audio_tokens};
use super::transformer::Ltx2Transformer;
use crate::audio::{MelDecoder, MelVocoder, SAMPLE_RATE};
use crate::denoise::{begin, check_result, walk};
use crate::families::family::EngineFamily;
use crate::fault::FaultSite;
use crate::hooks::DenoiseState;
use crate::pixels::{checked_rgb8, pixels_from_rgb8, rgb8_from_pixels};
use crate::placement::build;
use crate::sampling::{
    CpuGenerator, NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions, wanted_steps,
};
use crate::stages::StageContext;
use crate::stages::job_images::frames_of_job;
use crate::tensor_files;
use crate::text::{EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, embeds_of, read_language};
use crate::vae::{LatentScaling, LatentUpscaler, Ltx2VaeDecoder, Ltx2VaeEncoder};
use crate::weights::Weights;
use crate::{EngineError, StageWork};

/// Quality of the H.264 that start images had in training; without it videos hardly move.
const START_CRF: u8 = 33;
/// Timesteps that the model was trained with.
const TRAIN_STEPS: u32 = 1000;

pub(crate) struct Ltx2Family;

impl EngineFamily for Ltx2Family {
    fn id(&self) -> &'static str {
        FAMILY.id
    }

    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        match stage {
            Stage::EncodeText => context.texts(encode_text),
            Stage::EncodeImage if context.is_of_second_pass() => {
                let first = made(context)?;
                context.tensor("latents", |work| upscale(&first, work))
            }
            Stage::EncodeImage => {
                let folder = context.folder();
                context.tensor("image_latents", |work| encode_image(&folder, work))
            }
            Stage::Denoise => denoise_stage(context),
            Stage::Decode => {
                let latents = made(context)?;
                context.part(|work| work.decoded(|work| decode(&latents, work)))
            }
            _ => Err(context.no_such_stage()),
        }
    }
}

/// Latents of the last denoising before a stage: `(1, N)`
fn made(context: &StageContext<'_>) -> Result<Tensor, EngineError> {
    tensor_files::read_one(&context.result(Stage::Denoise), "latents")
}

/// Path of a component that every model has.
fn path_of(request: &GenerateRequest, component: ModelComponent) -> Result<&Path, EngineError> {
    let missing = || EngineError::request(format!("this model has no {}", component.label()));
    request.files.path(component).ok_or_else(missing)
}

/// Other networks that a file may have are read elsewhere.
fn none_unexpected(_: &Weights) -> Vec<String> {
    Vec::new()
}

/// Prompts, stripped of white space, through Gemma and then the connectors; the texts of the video and of the sound are
/// side by side: `(1, T, D + D')`
fn encode_text(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let (files, place) = (&work.request.files, work.place);
    embeds_of(work, |texts, work| {
        let stripped = texts.iter().map(|text| EncodedText {
            parts: stripped(&text.parts),
            ..*text
        });
        let stripped: Vec<EncodedText> = stripped.collect();
        let read_as = (LANGUAGE, &PROMPT);
        let states = read_language(&EncoderFiles::first(files), &stripped, read_as, work)?;
        let config = read_connectors(files)?;
        let open = |component| place.open(path_of(work.request, component)?);
        let projections = open(ModelComponent::TextProjection)?;
        let connectors = build(
            &open(ModelComponent::TextConnectors)?,
            "text connectors",
            work.hooks,
            |w| Ltx2TextConnectors::new(&config, &projections, w),
            none_unexpected,
        )?;
        let length = i64::from(TEXT_TOKENS);
        let embeds = states.iter().zip(texts).map(|(states, text)| {
            let read = connectors.forward(&states.prompt, length, work.hooks);
            let streams = read.ok_or(EngineError::Cancelled)?;
            for (stream, xs) in ["video", "audio"].into_iter().zip(&streams) {
                let name = format!("connectors.{}.{stream}", text.role);
                work.capture.put(name, xs);
            }
            let both = Tensor::cat(&streams, -1).to_device(Device::Cpu);
            Ok(TextEmbeds::of_states(both))
        });
        embeds.collect()
    })
}

/// Parts of a text without white space around it.
fn stripped(parts: &[WeightedText]) -> Vec<WeightedText> {
    let mut parts = parts.to_vec();
    if let Some(first) = parts.first_mut() {
        first.text = first.text.trim_start().to_owned();
    }
    if let Some(last) = parts.last_mut() {
        last.text = last.text.trim_end().to_owned();
    }
    parts
}

/// The start image's latents as the transformer has them: `(1, C, 1, h, w)` in f32
fn encode_image(folder: &JobFolder, work: &mut StageWork<'_>) -> Result<Tensor, EngineError> {
    let request = work.request;
    let (start, _) = frames_of_job(folder, request, work.capture)?;
    let start = compressed(&start, folder).unwrap_or_else(|err| {
        work.hooks.warn(format!(
            "the start image is not compressed as in training, so the video may hardly move: {err}"
        ));
        start
    });
    let pixels = pixels_from_rgb8(&start.rgb, request.width, request.height)?;
    work.capture.put("image.preprocessed", &pixels);
    let home = &request.files.vae;
    let config = Ltx2VaeConfig::read(home)?;
    let new = |w: &_| Ltx2VaeEncoder::new(&config, w);
    let encoder = work.load("autoencoder", home, new, none_unexpected)?;
    let mean = encoder.encode(&pixels.unsqueeze(2), &work.cancelled(FaultSite::VaeEncode));
    let latents = encoder
        .statistics
        .normalize(&mean.ok_or(EngineError::Cancelled)?);
    work.capture.put("image_latents", &latents);
    Ok(latents)
}

/// An image as the only frame of a video. The reference uses x264, whose loss OpenH264's is close to.
fn compressed(image: &RgbPixels, folder: &JobFolder) -> Result<RgbPixels, MediaError> {
    let path = folder.path().join("compressed.mp4");
    let options = VideoOptions {
        crf: START_CRF,
        ..VideoOptions::default()
    };
    media::write_video(&path, std::slice::from_ref(image), options)?;
    media::last_frame(&path)
}

/// The video's latents of the first stage with twice the edges: `(1, N)` → `(1, C, f, 2h, 2w)` in f32
fn upscale(first: &Tensor, work: &mut StageWork<'_>) -> Result<Tensor, EngineError> {
    let request = work.request;
    let transformer = Ltx2TransformerConfig::read(&request.files.transformer)?;
    let shape = joint_shape(&transformer, request, request.first_size())?;
    check_latents(first, &shape)?;
    let vae = &request.files.vae;
    let config = Ltx2VaeConfig::read(vae)?;
    let statistics = LatentScaling::open(&config, &work.place.open(vae)?)?;
    let [video, _] = shape.parted(first);
    let video = shape.volume(&video).to_device(work.place.device);
    let small = statistics.denormalize(&video);
    work.capture.put("upsampler.in", &small);
    let home = path_of(request, ModelComponent::LatentUpscaler)?;
    let config = LatentUpscalerConfig::read(home)?;
    let new = |w: &_| LatentUpscaler::new(&config, w);
    let upscaler = work.load("latent upscaler", home, new, Weights::finish)?;
    let larger = upscaler.forward(&small, &work.cancelled(FaultSite::VaeEncode));
    let larger = larger.ok_or(EngineError::Cancelled)?;
    work.capture.put("upsampler.out", &larger);
    Ok(statistics.normalize(&larger))
}

/// Sizes of the latents of a job whose frames have these edges.
fn joint_shape(
    transformer: &Ltx2TransformerConfig,
    request: &GenerateRequest,
    (width, height): (u32, u32),
) -> Result<JointShape, EngineError> {
    let audio = Ltx2AudioVaeConfig::read(path_of(request, ModelComponent::AudioVae)?)?;
    let (space, time) = (
        Ltx2VaeConfig::SPATIAL_FACTOR,
        Ltx2VaeConfig::TEMPORAL_FACTOR,
    );
    let [width, height, frames] = [width, height, request.num_frames].map(i64::from);
    let is_whole = |number: i64, factor| number > 0 && number % factor == 0;
    if !is_whole(width, space) || !is_whole(height, space) || frames < 1 || (frames - 1) % time != 0
    {
        return Err(EngineError::request(format!(
            "this model makes edges that are multiples of {space} and {time}n + 1 frames, not {width}×{height} and {frames} frames"
        )));
    }
    Ok(JointShape {
        video: [(frames - 1) / time + 1, height / space, width / space],
        audio: audio_tokens(frames, request.fps).max(1),
        channels: [transformer.in_channels, transformer.audio_in_channels],
        bins: audio.mel_bins / Ltx2AudioVaeConfig::FACTOR,
    })
}

fn check_latents(latents: &Tensor, shape: &JointShape) -> Result<(), EngineError> {
    check_result(
        "the latents",
        Some(latents),
        Some(&[1, shape.num_elements()]),
    )
}

/// Results of earlier stages of a job.
struct Ltx2Conditioning {
    embeds: PromptEmbeds,
    /// The start image: `(1, C, 1, h, w)`
    image: Option<Tensor>,
    /// In the second stage: the upscaled video, `(1, C, f, h, w)`, and all latents of the first, `(1, N)`.
    first: Option<[Tensor; 2]>,
}

fn denoise_stage(context: &StageContext<'_>) -> Result<(), EngineError> {
    let one = |name: &'static str| move |path: &Path| tensor_files::read_one(path, name);
    let is_second = context.is_of_second_pass();
    let given = Ltx2Conditioning {
        embeds: PromptEmbeds::load(&context.result(Stage::EncodeText))?,
        image: if is_second {
            None
        } else {
            context.earlier(Stage::EncodeImage, one("image_latents"))?
        },
        first: if is_second {
            let larger = context.earlier(Stage::EncodeImage, one("latents"))?;
            larger
                .map(|larger| Ok::<_, EngineError>([larger, made(context)?]))
                .transpose()?
        } else {
            None
        },
    };
    let resume = context.checkpoint();
    context.tensor("latents", |work| denoise(&given, resume, work))
}

/// Both streams from noise to latents, or in the second stage from the noised latents of the first: `(1, N)` in f32 on the
/// CPU
fn denoise(
    given: &Ltx2Conditioning,
    resume: Option<DenoiseState>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let home = &request.files.transformer;
    let config = Ltx2TransformerConfig::read(home)?;
    let shape = joint_shape(&config, request, (request.width, request.height))?;
    let widths = config.streams().map(|stream| stream.dim);
    let text = &given.embeds.prompt.prompt;
    let size = [1, -1, widths[0] + widths[1]];
    check_result("the texts' embeddings", Some(text), Some(&size))?;
    let mut solver = solver(request, given.first.is_some())?;
    let initial = initial_latents(given, &config, &shape, request)?;
    let state = DenoiseState::new(resume, initial, &mut solver, place.device, hooks);
    let open = || open_transformer(work, home);
    let new = |w: &_| Ltx2Transformer::new(&config, w);
    let transformer = work.transformer("transformer", home, open, new, unexpected_keys)?;
    let capture = &mut *work.capture;
    tch::no_grad(|| {
        begin(&state, &mut solver, place.device, capture)?;
        let texts = text.split_with_sizes(widths, -1);
        let run = Ltx2Denoiser {
            texts: [0, 1].map(|index: usize| texts[index].to_device(place.device)),
            positions: Ltx2Positions::new(
                &config,
                shape.video,
                request.fps,
                shape.audio,
                place.device,
            ),
            given_frames: i64::from(request.has_start()),
            transformer: &transformer,
            shape,
            hooks,
        };
        let end = solver.all_calls().end;
        let last = walk(&run, &state, end, &mut solver, place, capture, hooks)?;
        Ok(last.last().latents)
    })
}

/// The sampler along the noise levels of a stage. Fewer steps take the first levels.
fn solver(request: &GenerateRequest, is_second: bool) -> Result<Solver, EngineError> {
    let sampling = &request.sampling;
    let num_steps = sampling.num_steps as usize;
    let (sigmas, steps) = if is_second {
        (&SECOND_STAGE_SIGMAS[..], 0..SECOND_STAGE_SIGMAS.len())
    } else {
        let sigmas = FAMILY.sigmas.get(..num_steps).ok_or_else(|| {
            let most = FAMILY.sigmas.len();
            EngineError::request(format!("this model has {most} steps, not {num_steps}"))
        })?;
        (sigmas, wanted_steps(request))
    };
    let schedule = NoiseSchedule::of_sigmas(sigmas.to_vec(), TRAIN_STEPS);
    let options = UniPcOptions::default();
    let algorithm = SamplerAlgorithm::new(sampling.sampler, schedule, options, request.seed);
    Solver::of_steps(algorithm, steps, sigmas.len())
}

/// Noise of one generator through both stages, in the order of diffusers; a given first frame has none.
fn initial_latents(
    given: &Ltx2Conditioning,
    config: &Ltx2TransformerConfig,
    shape: &JointShape,
    request: &GenerateRequest,
) -> Result<Tensor, EngineError> {
    let mut generator = CpuGenerator::new(request.seed);
    let [_, rows, columns] = shape.video;
    let starts = request.has_start();
    let Some([larger, first]) = &given.first else {
        let noise = shape.first_noise(&mut generator)?;
        let [video, audio] = shape.parted(&noise);
        if !starts {
            return Ok(noise);
        }
        let size = [1, shape.channels[0], 1, rows, columns];
        check_result("the image's latents", given.image.as_ref(), Some(&size))?;
        let image = given.image.as_ref().map_or_else(Tensor::new, |image| {
            shape.tokens_of(&image.to_device(Device::Cpu))
        });
        let rest = video.narrow(1, rows * columns, video.size()[1] - rows * columns);
        let video = Tensor::cat(&[image, rest], 1);
        return Ok(shape.joined([&video, &audio]));
    };
    let small = joint_shape(config, request, request.first_size())?;
    check_latents(first, &small)?;
    let [frames, ..] = shape.video;
    let size = [1, shape.channels[0], frames, rows, columns];
    check_result("the upscaled latents", Some(larger), Some(&size))?;
    drop(small.first_noise(&mut generator)?);
    let noise = shape.second_noise(&mut generator, starts)?;
    let [_, audio] = small.parted(first);
    let video = shape.tokens_of(larger);
    let latents = shape.joined([&video, &audio]);
    let noised = renoised(&latents, &noise, SECOND_STAGE_SIGMAS[0]);
    if !starts {
        return Ok(noised);
    }
    let clean = rows * columns * shape.channels[0];
    let rest = noised.narrow(1, clean, shape.num_elements() - clean);
    Ok(Tensor::cat(&[latents.narrow(1, 0, clean), rest], 1))
}

/// The transformer's weights by the authors' names, whatever the file's, with LoRAs applied.
fn open_transformer(work: &StageWork<'_>, home: &Path) -> Result<Weights, EngineError> {
    let weights = work.place.open(home)?;
    let keys = Ltx2TransformerKeys::of(|key| weights.has(key));
    let target = lora_target(ModelFamily::LTX2, keys.is_diffusers);
    let weights = weights.translated(move |name| keys.file_key(name));
    Ok(weights.with_loras(&work.request.loras, Expert::Only, target, &weights)?)
}

/// Keys of the transformer that were not read; a bundle has other networks too.
fn unexpected_keys(weights: &Weights) -> Vec<String> {
    const OTHERS: [&str; 4] = [
        "vae.",
        "audio_vae.",
        "vocoder.",
        "text_embedding_projection.",
    ];
    let mut keys = weights.finish();
    keys.retain(|key| {
        let is_other = OTHERS.iter().any(|start| key.starts_with(start));
        !is_other && !key.contains("_embeddings_connector.")
    });
    keys
}

/// Frames as they are decoded, then the sound.
fn decode(latents: &Tensor, work: &mut StageWork<'_>) -> Result<(), EngineError> {
    let request = work.request;
    let transformer = Ltx2TransformerConfig::read(&request.files.transformer)?;
    let shape = joint_shape(&transformer, request, (request.width, request.height))?;
    check_latents(latents, &shape)?;
    if request.options.vae_tile.is_some() {
        work.hooks.warn(format!(
            "tiles are not used: the VAE of {} decodes a few frames at a time",
            FAMILY.label
        ));
    }
    let [video, audio] = shape.parted(latents);
    decode_video(&shape.volume(&video), work)?;
    decode_audio(&audio, work)
}

fn decode_video(latents: &Tensor, work: &mut StageWork<'_>) -> Result<(), EngineError> {
    let (home, hooks) = (&work.request.files.vae, work.hooks);
    let config = Ltx2VaeConfig::read(home)?;
    let new = |w: &_| Ltx2VaeDecoder::new(&config, w);
    let decoder = work.decoder(home, new, none_unexpected)?;
    let latents = latents.to_device(work.place.device);
    let latents = decoder.statistics.denormalize(&latents);
    work.capture.put("vae.decode.0.input", &latents);
    let is_recorded = work.capture.is_on();
    let mut recorded = Vec::new();
    work.decode_frames(
        |cancelled, frames| decoder.decode(&latents, cancelled, frames),
        &mut |pixels| {
            hooks.frames(&checked_rgb8(&pixels)?);
            if is_recorded {
                recorded.push(pixels.to_device(Device::Cpu).to_kind(Kind::Float));
            }
            Ok(())
        },
    )?;
    if is_recorded {
        let pixels = Tensor::cat(&recorded, 2);
        work.capture.put("pixels", &pixels);
        let bytes = rgb8_from_pixels(&pixels).unsqueeze(0);
        work.capture.put("output_u8", &bytes);
    }
    Ok(())
}

/// `tokens`: `(1, L, 128)` as the transformer has them
fn decode_audio(tokens: &Tensor, work: &mut StageWork<'_>) -> Result<(), EngineError> {
    let request = work.request;
    let cancelled = work.cancelled(FaultSite::VaeDecode);
    let home = path_of(request, ModelComponent::AudioVae)?;
    let config = Ltx2AudioVaeConfig::read(home)?;
    let new = |w: &_| MelDecoder::new(&config, w);
    let decoder = work.load("audio VAE", home, new, none_unexpected)?;
    let latents = decoder.denormalize(tokens);
    work.capture.put("audio_vae.decode.input", &latents);
    let mel = decoder.decode(&latents, &cancelled);
    let mel = mel.ok_or(EngineError::Cancelled)?;
    work.capture.put("mel", &mel);
    drop(decoder);
    let home = path_of(request, ModelComponent::Vocoder)?;
    let config = Ltx2VocoderConfig::read(home)?;
    let new = |w: &_| MelVocoder::new(&config, w);
    let vocoder = work.load("vocoder", home, new, none_unexpected)?;
    let waveform = vocoder.forward(&mel, &cancelled);
    let waveform = waveform.ok_or(EngineError::Cancelled)?;
    work.capture.put("waveform", &waveform);
    work.hooks.sound(&waveform, SAMPLE_RATE);
    Ok(())
}
