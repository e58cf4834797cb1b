//! What each step cache of FramePack costs in closeness and saves in time.
//!
//! One section from the same noise to latents: once with every step computed, then with each cache. One JSON object a
//! line. The network is a model's own where one is named, else one of random numbers; texts and pictures are random, so
//! that a trained model's answers to real ones may differ. Decides nothing about what is good enough.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use safelight_core::job::{
    DeviceChoice, GenerateRequest, Sampler, SectionOrder, Sections, StepCache, StepCacheKind,
};
use safelight_core::model::ModelSpec;
use safelight_core::networks::{FramePackTransformerConfig, NetworkConfig as _};
use safelight_engine::capture::Capture;
use safelight_engine::denoise::DenoiseState;
use safelight_engine::error::EngineError;
use safelight_engine::families::framepack::{
    Conditions, FramePackTransformer, GivenImages, LatentShape, history, layout, sample,
    section_solver,
};
use safelight_engine::guidance::GuidanceScales;
use safelight_engine::hooks::Hooks;
use safelight_engine::place::Placement;
use safelight_engine::runtime::{LIBTORCH_VERSION, synchronize};
use safelight_engine::sampling::Generator;
use safelight_engine::text::TextEmbeds;
use safelight_engine::weights::Weights;
use serde::Serialize;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use safelight_engine::bench::arguments::{count, read};
use safelight_engine::bench::error::BenchError;
use safelight_engine::bench::measure::rounded;
use safelight_engine::bench::networks::open_for;

/// Pixels of a section at full size, and of a small one.
const SIZE: (u32, u32) = (544, 704);
const SMALL_SIZE: (u32, u32) = (96, 64);
/// Tokens of a prompt and of a picture, and of small ones.
const LENGTHS: [i64; 2] = [128, 729];
const SMALL_LENGTHS: [i64; 2] = [16, 32];

#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct StepCacheArguments {
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    /// A small network of the same structure.
    #[arg(long)]
    pub small: bool,
    #[arg(long, default_value = "25", value_parser = |text: &str| count(text, "steps"))]
    pub steps: u32,
    #[arg(long, default_value = "unipc_bh1")]
    pub sampler: Sampler,
    /// A diffusers folder, or a transformer's file.
    #[arg(long)]
    pub model: Option<PathBuf>,
    /// Which caches; each with its usual threshold where none are named.
    pub caches: Vec<StepCache>,
}

impl StepCacheArguments {
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let mut parsed: Self = read(arguments)?;
        if parsed.caches.is_empty() {
            let usual = StepCacheKind::ALL.map(|kind| StepCache {
                kind,
                threshold: kind.usual_threshold(),
            });
            parsed.caches = usual.to_vec();
        }
        Ok(parsed)
    }
}

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    /// `none` for the walk that the others are compared with.
    cache: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    steps: u32,
    skipped: usize,
    skipped_share: f64,
    /// Of the final latents to those without a cache.
    relative_l2: f64,
    secs: f64,
    sampler: &'a str,
    device: &'a str,
    libtorch: &'a str,
}

/// A section's walk, always from the same noise and with the same words.
struct Section {
    transformer: FramePackTransformer,
    request: GenerateRequest,
    /// Tokens of the prompt and of the picture.
    lengths: [i64; 2],
    shape: LatentShape,
    place: Placement,
}

/// What was skipped.
#[derive(Default)]
struct Skips(Cell<usize>);

impl Hooks for Skips {
    fn skipped(&self, num_skipped: usize, _num_calls: usize) {
        self.0.set(num_skipped);
    }
}

/// Measures what `arguments` ask for.
pub fn run(arguments: &StepCacheArguments, out: &mut dyn Write) -> Result<bool, BenchError> {
    // A model that lies here may be a tiny one, whatever the device.
    let runtime = open_for(
        arguments.device,
        arguments.small || arguments.model.is_some(),
    )?;
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    let failed = |err: EngineError| BenchError::Failed(err.to_string());
    let section = tch::no_grad(|| Section::new(arguments, Placement::new(runtime.device, kind)))
        .map_err(failed)?;
    let (exact, secs, _) = section.walk(None).map_err(failed)?;
    let mut write = |cache: Option<StepCache>, skipped: usize, relative_l2: f64, secs: f64| {
        let line = Line {
            case: "framepack_section",
            cache: cache.map_or("none", |cache| cache.kind.name()),
            threshold: cache.map(|cache| cache.threshold),
            steps: arguments.steps,
            skipped,
            skipped_share: rounded(skipped as f64 / f64::from(arguments.steps)),
            relative_l2,
            secs: rounded(secs),
            sampler: arguments.sampler.name(),
            device: &runtime.device_name,
            libtorch: LIBTORCH_VERSION,
        };
        serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    write(None, 0, 0.0, secs)?;
    for cache in &arguments.caches {
        let (latents, secs, skipped) = section.walk(Some(*cache)).map_err(failed)?;
        let off = (&latents - &exact).norm() / exact.norm();
        write(Some(*cache), skipped, off.double_value(&[]), secs)?;
    }
    Ok(true)
}

impl Section {
    fn new(arguments: &StepCacheArguments, place: Placement) -> Result<Self, EngineError> {
        let (weights, config) = match &arguments.model {
            Some(model) => of_model(model, place)?,
            None => of_nobody(arguments.small, place)?,
        };
        let ((width, height), lengths) = if arguments.small || is_tiny(&config) {
            (SMALL_SIZE, SMALL_LENGTHS)
        } else {
            (SIZE, LENGTHS)
        };
        let request = request(arguments, width, height)?;
        Ok(Self {
            transformer: FramePackTransformer::new(&config, &weights)?,
            shape: LatentShape::new(config.in_channels, &request)?,
            request,
            lengths,
            place,
        })
    }

    /// The latents in f32 on the CPU, the seconds, and how many steps were skipped.
    fn walk(&self, cache: Option<StepCache>) -> Result<(Tensor, f64, usize), EngineError> {
        let mut draws = Generator::new(0);
        let noise = draws.normal(&self.shape.size())?;
        let conditions = self.conditions(cache, &mut draws)?;
        let mut solver = section_solver(&self.request, self.shape.tokens())?;
        let state = DenoiseState::first(&solver, solver.initial(noise));
        let guidance = GuidanceScales {
            distilled: self.request.sampling.guidance_scale,
            real: 1.0.into(),
        };
        let skips = Skips::default();
        let began = Instant::now();
        let behind = sample(
            &self.transformer,
            &conditions,
            guidance,
            &mut solver,
            &state,
            &mut Capture::off(),
            &skips,
        )?;
        if !synchronize(self.place.device) {
            return Err(EngineError::Internal {
                reason: "the device failed while it was measured".to_owned(),
            });
        }
        let secs = began.elapsed().as_secs_f64();
        Ok((behind.latents, secs, skips.0.get()))
    }

    /// Behind the noise: the same each time.
    fn conditions(
        &self,
        cache: Option<StepCache>,
        draws: &mut Generator,
    ) -> Result<Conditions, EngineError> {
        let config = self.transformer.config();
        let [text, image] = self.lengths;
        let mut random = |size: &[i64]| draws.normal(size);
        let sections = safelight_engine::families::framepack::sections(&self.request)?;
        let images = GivenImages {
            start: random(&self.shape.picture())?,
            end: None,
            clip: None,
        };
        Ok(Conditions {
            prompt: TextEmbeds {
                prompt: random(&[1, text, config.text_embed_dim])?,
                mask: Some(Tensor::ones([1, text], (Kind::Int64, Device::Cpu))),
                pooled: Some(random(&[1, config.pooled_projection_dim])?),
            },
            negative: None,
            image_embeds: random(&[1, image, config.image_proj_dim])?,
            history: history(sections.order, &images, &[], self.shape),
            layout: layout(&sections, 0),
            step_cache: cache.map(|cache| (cache, sections.order)),
        })
    }
}

/// The transformer of a model that lies here.
fn of_model(
    model: &std::path::Path,
    place: Placement,
) -> Result<(Weights, FramePackTransformerConfig), EngineError> {
    let spec = ModelSpec::open(model).map_err(|err| EngineError::Request {
        reason: err.to_string(),
    })?;
    if spec.section_order.is_none() {
        let reason = format!("expected a model of FramePack, found {}", spec.name);
        return Err(EngineError::Request { reason });
    }
    let home = &spec.files.transformer;
    let weights = place.open(home)?;
    let config = FramePackTransformerConfig::read(home)?;
    Ok((weights, config))
}

/// One of random numbers.
fn of_nobody(
    small: bool,
    place: Placement,
) -> Result<(Weights, FramePackTransformerConfig), EngineError> {
    let config = if small {
        let small = json!({
            "num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
            "rope_axes_dim": [8, 28, 28], "text_embed_dim": 256, "pooled_projection_dim": 64, "image_proj_dim": 72,
        });
        from_json(small)?
    } else {
        FramePackTransformerConfig::default()
    };
    Ok((Weights::random(place.kind, place.device), config))
}

/// Whether a model has hardly a hundredth of the published width.
fn is_tiny(config: &FramePackTransformerConfig) -> bool {
    config.text_embed_dim < 1024
}

fn request(
    arguments: &StepCacheArguments,
    width: u32,
    height: u32,
) -> Result<GenerateRequest, EngineError> {
    let sections = Sections {
        count: 1,
        window: safelight_core::job::WINDOW,
        order: SectionOrder::Original,
        lead: 1,
    };
    from_json(json!({
        "model": "bench", "family": "framepack", "prompt": "", "negative_prompt": "", "width": width, "height": height,
        "num_frames": sections.num_frames(), "sections": sections, "fps": 30.0, "num_steps": arguments.steps,
        "guidance_scale": 10.0, "sampler": arguments.sampler, "seed": 0,
    }))
}

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T, EngineError> {
    serde_json::from_value(value).map_err(|err| EngineError::Internal {
        reason: err.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<StepCacheArguments, BenchError> {
        StepCacheArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn each_cache_is_compared_with_none_and_says_what_it_skipped() {
        let line = "--device cpu --small --steps 6 first_block:1 first_block:0";
        let mut out = Vec::new();
        assert!(run(&parse(line).unwrap(), &mut out).unwrap());
        let lines: Vec<serde_json::Value> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = lines.iter().map(|line| &line["cache"]).collect();
        assert_eq!(names, ["none", "first_block", "first_block"]);
        // Never the first and the last step, and it shows.
        let skipped = lines[1]["skipped"].as_u64().unwrap();
        assert!((1..=4).contains(&skipped), "{skipped}");
        assert!(lines[1]["relative_l2"].as_f64().unwrap() > 0.0);
        // Without a skip there is nothing to see.
        let none = [&lines[2]["skipped"], &lines[2]["relative_l2"]];
        assert_eq!(none, [&json!(0), &json!(0.0)]);
    }

    #[test]
    fn without_names_all_caches_are_measured_and_what_cannot_be_is_refused() {
        let kinds: Vec<_> = parse("").unwrap().caches.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, StepCacheKind::ALL);
        for (line, part) in [
            ("--steps 0", "expected 1 to 1000 steps"),
            ("--model", "a value is required for '--model"),
            ("quickcache", "quickcache"),
        ] {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
