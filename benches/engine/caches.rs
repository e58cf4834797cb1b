//! Step caches on a model of Wan that lies here, such as the little world: what each saves, how far it leads away, and how
//! much of that is seen in the decoded frames.
//!
//! The same prompt and noise, once without a cache and then with each; one JSON object a line. Decides nothing about what is
//! good enough. Models with random weights, of any family, are walked by the engine's own bench (`bench caches`).

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use safelight_core::job::{
    DeviceChoice, GenerateForm, GenerateRequest, SizeChoice, StepCache, jobs_of,
};
use safelight_core::media::{crop_to_aspect, open_picture, resize_lanczos};
use safelight_core::model::{InputUse, ModelSpec};
use safelight_engine::bench::arguments::{count, read};
use safelight_engine::bench::caches::usual;
use safelight_engine::bench::error::BenchError;
use safelight_engine::bench::measure::rounded;
use safelight_engine::bench::networks::open_for;
use safelight_engine::bench::walks::WalkLine;
use safelight_engine::capture::Capture;
use safelight_engine::error::EngineError;
use safelight_engine::families::wan::{
    Conditions, Expert, WanConfig, denoise, encode_image, encode_text,
};
use safelight_engine::hooks::Hooks;
use safelight_engine::pixels::rgb8_from_pixels;
use safelight_engine::place::Placement;
use safelight_engine::text::PromptEmbeds;
use safelight_engine::vae::WanVaeDecoder;
use safelight_engine::vae::wan::denormalize;
use safelight_engine::work::Work;
use tch::{Device, Kind, Tensor};

#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct CacheArguments {
    /// A diffusers folder or a transformer's file, of one transformer that may begin without a picture.
    model: PathBuf,
    /// A start picture, for a model that may begin with one.
    #[arg(long)]
    image: Option<PathBuf>,
    #[arg(long, default_value = "a red hot-air balloon rises over the hills")]
    prompt: String,
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The model's own when absent.
    #[arg(long, value_parser = |text: &str| count(text, "steps"))]
    steps: Option<u32>,
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// In pixels; the model's own where one is absent.
    #[arg(long, requires = "height")]
    width: Option<u32>,
    #[arg(long, requires = "width")]
    height: Option<u32>,
    /// The model's own when absent.
    #[arg(long)]
    frames: Option<u32>,
    /// Which caches, each with its threshold or without.
    #[arg(long = "cache", value_name = "KIND[:X]")]
    caches: Vec<StepCache>,
}

/// What was skipped; nothing is said where there is no cache.
#[derive(Default)]
struct Skips(Cell<Option<usize>>);

impl Hooks for Skips {
    fn skipped(&self, num_skipped: usize, _num_calls: usize) {
        self.0.set(Some(num_skipped));
    }
}

/// What every walk begins with.
#[derive(Clone, Copy)]
struct Given<'a> {
    embeds: &'a PromptEmbeds,
    image: Option<&'a Tensor>,
}

struct Model {
    config: WanConfig,
    request: GenerateRequest,
    place: Placement,
}

/// Measures what `arguments` ask for.
pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let arguments: CacheArguments = read(arguments)?;
    let runtime = open_for(arguments.device, true)?;
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    let place = Placement {
        keeps: true,
        ..Placement::new(runtime.device, kind)
    };
    let mut model = Model::open(&arguments, place)?;
    let failed = |err: EngineError| BenchError::Failed(err.to_string());
    let caches = if arguments.caches.is_empty() {
        usual()
    } else {
        arguments.caches.clone()
    };
    tch::no_grad(|| {
        let embeds = model.work(&Skips::default(), |work, config| encode_text(config, work));
        let embeds = embeds.map_err(failed)?;
        let image = arguments.image.as_deref();
        let image = image.map(|path| model.start(path)).transpose()?;
        let given = Given {
            embeds: &embeds,
            image: image.as_ref(),
        };
        // The first walk loads the model.
        model.walk(given, None).map_err(failed)?;
        let mut first: Option<(Tensor, Tensor)> = None;
        for cache in [None].into_iter().chain(caches.into_iter().map(Some)) {
            let walked = model.walk(given, cache).map_err(failed)?;
            let line = match (walked, cache) {
                (Some((line, latents)), _) => {
                    let frames = model.frames(&latents).map_err(failed)?;
                    let (whole, shown) = first
                        .get_or_insert_with(|| (latents.shallow_clone(), frames.shallow_clone()));
                    let off = (&latents - &*whole).norm() / whole.norm();
                    WalkLine {
                        relative_l2: off.double_value(&[]),
                        psnr_db: psnr(&frames, shown),
                        ..line
                    }
                }
                (None, Some(cache)) => WalkLine::unmeasured(cache, model.steps()),
                (None, None) => return Err(failed(EngineError::Cancelled)),
            };
            serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(true)
    })
}

impl Model {
    fn open(arguments: &CacheArguments, place: Placement) -> Result<Self, BenchError> {
        let refused = |reason: String| BenchError::Arguments(reason);
        let spec = ModelSpec::open(&arguments.model).map_err(|err| refused(err.to_string()))?;
        let is_right = spec.family.id == "wan"
            && !spec.has_two_experts()
            && spec.start_image != InputUse::Required;
        if !is_right {
            let reason = format!(
                "expected a model of Wan with one transformer that begins without a picture, found {}",
                spec.name
            );
            return Err(refused(reason));
        }
        if arguments.image.is_some() && !spec.start_image.is_possible() {
            return Err(refused(format!("{} begins without a picture", spec.name)));
        }
        let mut form = GenerateForm {
            prompt: arguments.prompt.clone(),
            seed: arguments.seed,
            ..GenerateForm::default()
        };
        form.sampling.num_steps = arguments.steps;
        form.num_frames = arguments.frames;
        if arguments.width.is_some() {
            form.size = SizeChoice::Custom;
            (form.width, form.height) = (arguments.width, arguments.height);
        }
        let jobs = jobs_of(&form, &spec, &|name| Err(name.to_owned()));
        let mut jobs = jobs.map_err(|errors| {
            let all: Vec<_> = errors.into_iter().map(|err| err.message).collect();
            refused(all.join("; "))
        })?;
        let request = jobs.jobs.remove(0).request;
        let config = WanConfig::read(&request.files);
        Ok(Self {
            config: config.map_err(|err| BenchError::Failed(err.to_string()))?,
            request,
            place,
        })
    }

    /// The latents of a start picture, cut to the shape of the clip.
    fn start(&self, path: &Path) -> Result<Tensor, BenchError> {
        let (width, height) = (self.request.width, self.request.height);
        let fitted = open_picture(path)
            .and_then(|picture| crop_to_aspect(&picture, width, height))
            .and_then(|picture| resize_lanczos(&picture, width, height));
        let fitted = fitted.map_err(|err| BenchError::Arguments(err.to_string()))?;
        let latents = self.work(&Skips::default(), |work, config| {
            encode_image(config, &fitted.rgb, None, work)
        });
        latents.map_err(|err| BenchError::Failed(err.to_string()))
    }

    fn steps(&self) -> usize {
        self.request.sampling.num_steps as usize
    }

    fn work<T>(&self, hooks: &dyn Hooks, make: impl FnOnce(&mut Work<'_>, &WanConfig) -> T) -> T {
        let mut work = Work {
            request: &self.request,
            place: self.place,
            capture: &mut Capture::off(),
            hooks,
        };
        make(&mut work, &self.config)
    }

    /// A walk, and its latents on the CPU; `None` where the model was not measured for the cache.
    fn walk(
        &mut self,
        given: Given<'_>,
        cache: Option<StepCache>,
    ) -> Result<Option<(WalkLine, Tensor)>, EngineError> {
        self.request.step_cache = cache;
        let conditions = Conditions {
            control: None,
            embeds: given.embeds,
            image_latents: given.image,
            image_embeds: None,
            base: None,
            kept: None,
        };
        let skips = Skips::default();
        let began = Instant::now();
        let state = self.work(&skips, |work, config| {
            denoise(config, Expert::Only, &conditions, None, work)
        })?;
        let secs = began.elapsed().as_secs_f64();
        let skipped = skips.0.get();
        if cache.is_some() && skipped.is_none() {
            return Ok(None);
        }
        let steps = self.steps();
        let line = WalkLine {
            computed: steps - skipped.unwrap_or_default(),
            secs: rounded(secs),
            ..WalkLine::new(cache, steps)
        };
        Ok(Some((line, state.latents)))
    }

    /// `(F, H, W, 3)`, bytes on the CPU
    fn frames(&self, latents: &Tensor) -> Result<Tensor, EngineError> {
        let (vae, place) = (&self.config.vae, self.place);
        let weights = place.open(&self.config.files.vae)?;
        let decoder = WanVaeDecoder::new(vae, &weights)?;
        let latents = latents.to_device(place.device).to_kind(place.kind);
        let mut frames = Vec::new();
        let mut take = |pixels: Tensor| frames.push(rgb8_from_pixels(&pixels));
        let latents = denormalize(vae, &latents);
        let done = decoder.decode(&latents, None, &|| false, &mut take);
        done.ok_or(EngineError::Cancelled)?;
        Ok(Tensor::cat(&frames, 0))
    }
}

/// In dB; `None` where nothing differs.
fn psnr(found: &Tensor, expected: &Tensor) -> Option<f64> {
    let [found, expected] = [found, expected].map(|xs| xs.to_kind(Kind::Float));
    let error = (found - expected)
        .square()
        .mean(Kind::Double)
        .double_value(&[]);
    (error > 0.0).then(|| rounded(10.0 * (255.0 * 255.0 / error).log10()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn caches_of_the_little_world_are_set_beside_none_with_their_frames() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/little-world");
        let line = format!(
            "{root} --device cpu --steps 5 --width 64 --height 64 --frames 5 --cache taylorseer:3 --cache teacache"
        );
        let mut out = Vec::new();
        assert!(run(line.split_whitespace().map(str::to_owned), &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["relative_l2"], 0.0);
        assert_eq!(lines[0].get("psnr_db"), None);
        assert_eq!(
            (&lines[1]["steps"], &lines[1]["computed"]),
            (&5.into(), &4.into())
        );
        assert!(lines[1]["relative_l2"].as_f64().unwrap() > 0.0);
        assert!(lines[1]["psnr_db"].as_f64().unwrap() > 5.0);
        // Nobody has measured it.
        assert!(lines[2]["error"].as_str().unwrap().contains("nobody"));
    }

    #[test]
    fn caches_are_compared_with_a_start_picture_and_one_that_is_not_there_is_refused() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/little-world");
        let line = format!(
            "{root} --device cpu --steps 4 --width 64 --height 64 --frames 5 --cache taylorseer:2 --image {root}/pictures/clips.png"
        );
        let mut out = Vec::new();
        assert!(run(line.split_whitespace().map(str::to_owned), &mut out).unwrap());
        let lines = String::from_utf8(out).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let other = line.replace("--image ", "--image none/");
        let refused = run(other.split_whitespace().map(str::to_owned), &mut Vec::new());
        assert!(matches!(refused, Err(BenchError::Arguments(_))));
    }

    #[test]
    fn frames_that_are_a_level_off_everywhere_have_the_noise_of_a_level() {
        let level = |value: i64| Tensor::full([1, 2, 2, 3], value, (Kind::Uint8, Device::Cpu));
        assert_eq!(psnr(&level(7), &level(7)), None);
        let found = psnr(&level(7), &level(8)).unwrap();
        assert!((found - 48.13).abs() < 0.01, "{found}");
    }
}
