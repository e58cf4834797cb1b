//! Jobs of FramePack behind the encoders, section by section as the worker orders them, against recorded runs of
//! diffusers (`tests/fixtures/framepack/stages`).

mod extended;

use std::collections::BTreeMap;

use safelight_core::job::{GenerateRequest, VideoSections};
use safelight_core::media::{self, RgbPixels};
use tempfile::TempDir;

use super::jobs::{fixtures, json_of, try_stage_with};
use super::*;
use crate::closeness::{assert_close, assert_same_pixels, distance, limit, with_both_frequencies};
use crate::families::framepack::{self, GivenImages, SectionInputs};
use crate::hooks::Hooks;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::weights::tests::fixtures::{tensors_in, tensors_of};
use crate::weights::tests::made_up::made_up;

const STEM: &str = "diffusion_pytorch_model.safetensors";
const TOKENS: i64 = 10;

/// Relative L2 of final latents.
const LATENTS_LIMIT: f64 = 3e-5;

/// Writes a component's folder, with weights whose names have `prefix` in the formula.
fn write_component(folder: &Path, config: &Value, shapes: &str, prefix: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let tensors = tensors_of(&json_of(shapes), prefix);
    Tensor::write_safetensors(&tensors, folder.join(STEM)).unwrap();
}

fn text(role: &str, len: i64) -> TextEmbeds {
    let mask = Tensor::arange(TOKENS, (Kind::Int64, Device::Cpu)).lt(len);
    TextEmbeds {
        prompt: made_up(&format!("{role}.text"), &[1, TOKENS, 24]),
        mask: Some(mask.to_kind(Kind::Int64).unsqueeze(0)),
        pooled: Some(made_up(&format!("{role}.pooled"), &[1, 20])),
    }
}

/// A job whose texts and image have been encoded.
struct Job {
    home: TempDir,
    facts: Value,
    request: GenerateRequest,
    capture: bool,
}

impl Job {
    fn new(name: &str) -> Self {
        Self::changed(name, |_| {})
    }

    fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Self {
        let facts = match name {
            "extended" => json_of("framepack/stages/extended.json"),
            _ => json_of("framepack/stages/runs.json")[name].take(),
        };
        let home = tempfile::tempdir().unwrap();
        let path = |part: &str| home.path().join(part);
        write_component(
            &path("transformer"),
            &json_of("framepack/stages/transformer.json"),
            "framepack/stages/shapes.json",
            "stages.",
        );
        let vae = json_of("vae/hunyuan/config.json");
        write_component(&path("vae"), &vae, "vae/hunyuan/shapes.json", "");
        let mut request = json!({
            "model": "tiny", "family": "framepack", "out": "a.mp4", "fps": 30.0, "prompt": "a", "negative_prompt": "",
            "files": {
                "transformer": path("transformer"), "vae": path("vae"), "text_encoder": path("none"),
                "tokenizer": path("none"), "expand_timesteps": false,
            },
            "width": 32, "height": 16, "num_frames": facts["num_frames"],
            "sections": {
                "count": facts["sections"], "window": facts["window"], "order": facts["order"],
                "lead": facts["lead"].as_u64().unwrap_or(1),
            },
            "num_steps": facts["steps"], "guidance_scale": facts["guidance"], "true_cfg_scale": facts["true_cfg"],
            "sampler": "euler", "seed": facts["seed"], "image": "start.png",
        });
        if facts.get("shift").is_none() {
            request["shift"] = json!(7.0);
        }
        if facts["end"] == true {
            request["last_image"] = json!("end.png");
        }
        change(&mut request);
        fs::create_dir(path("job")).unwrap();
        for image in ["start.png", "end.png"] {
            let from = fixtures().join("framepack/stages").join(image);
            fs::copy(from, path("job").join(image)).unwrap();
        }
        let job = Self {
            request: serde_json::from_value(request).unwrap(),
            home,
            facts,
            capture: false,
        };
        let embeds = PromptEmbeds {
            prompt: text("prompt", 7),
            later: Vec::new(),
            negative: Some(text("negative", 3)),
        };
        embeds.save(&job.result(Stage::EncodeText, 0)).unwrap();
        let image = made_up("image", &[1, 5, 12]);
        let path = job.result(Stage::EncodeVision, 0);
        tensor_files::write_one(&path, "image_embeds", &image).unwrap();
        job
    }

    fn folder(&self) -> JobFolder {
        JobFolder::open(self.home.path().join("job"))
    }

    fn result(&self, stage: Stage, section: u32) -> PathBuf {
        self.folder().section_result(stage, section).unwrap()
    }

    fn sections(&self) -> VideoSections {
        self.request.sections.unwrap()
    }

    fn try_run(
        &self,
        stage: Stage,
        section: u32,
        cancel: &CancelToken,
    ) -> (Result<(), EngineError>, StageOutput) {
        let folder = self.folder();
        let order = StageOrder {
            capture: self.capture,
            ..order_in(folder.path(), (stage, section), &self.request)
        };
        try_stage_with(&order, cancel, &|_, _| {})
    }

    fn run(&self, stage: Stage, section: u32) -> StageOutput {
        let (done, sent) = self.try_run(stage, section, &CancelToken::default());
        done.unwrap();
        assert_eq!(sent.warnings, [""; 0], "{}", stage.name());
        sent
    }

    #[track_caller]
    fn assert_refused(&self, stage: Stage, section: u32, expected: &str) {
        let (done, _) = self.try_run(stage, section, &CancelToken::default());
        let text = done.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }

    /// The frames of a section, `(H, W, 3)`, which must all have come.
    fn decoded(&self, section: u32) -> Vec<Tensor> {
        let expected = self.sections().decoded(section).num_frames;
        let frames = self.run(Stage::Decode, section).frames.into_iter();
        let frames = frames.enumerate().map(|(at, (index, count, bytes))| {
            assert_eq!((index, count), (at as u32, expected));
            Tensor::from_slice(&bytes).view([16, 32, 3])
        });
        let frames: Vec<_> = frames.collect();
        assert_eq!(frames.len(), expected as usize);
        frames
    }

    fn latents(&self, section: u32) -> Tensor {
        tensor_files::read_one(&self.result(Stage::Denoise, section), "latents").unwrap()
    }
}

fn recorded(name: &str) -> BTreeMap<String, Tensor> {
    tensors_in(&fixtures().join(format!("framepack/stages/{name}.safetensors")))
}

/// Puts a section's frames where they belong, as whoever receives them does.
fn join(video: &mut Vec<Tensor>, frames: Vec<Tensor>, sections: &VideoSections, section: u32) {
    let part = sections.decoded(section);
    let at = part.at as usize;
    video.splice(at..at + part.replaces as usize, frames);
    assert_eq!(video.len(), sections.num_frames_after(section) as usize);
}

#[test]
fn sections_are_those_of_the_reference_in_both_orders_and_in_long_videos() {
    with_both_frequencies(assert_sections);
}

fn assert_sections() {
    for name in ["original", "f1", "long"] {
        let job = Job::new(name);
        let mut video = Vec::new();
        job.run(Stage::EncodeImage, 0);
        for section in 0..job.sections().count {
            job.run(Stage::Denoise, section);
            let key = format!("section.{section}");
            assert_is_as_recorded(name, &job.latents(section), &key);
            if job.facts["kept"] == true {
                join(&mut video, job.decoded(section), &job.sections(), section);
            }
        }
        if let Some(expected) = recorded(name).get("output_u8") {
            assert_same_pixels(name, &Tensor::stack(&video, 0), expected);
        }
    }
}

/// The latents `key` of the run `name`.
#[track_caller]
fn assert_is_as_recorded(name: &str, found: &Tensor, key: &str) {
    let limit = limit(&format!("framepack/stages/{name}"), key, LATENTS_LIMIT);
    let what = format!("{name}, {key}");
    assert_close(&what, found, &recorded(name)[key], limit);
}

#[test]
fn a_capture_has_the_names_of_the_reference_and_the_whole_video() {
    let mut job = Job::new("original");
    job.capture = true;
    let recorded = recorded("original");
    job.run(Stage::EncodeImage, 0);
    for section in 0..2 {
        job.run(Stage::Denoise, section);
        job.run(Stage::Decode, section);
    }
    let merged = capture::merge(job.folder().path()).unwrap();
    let found = tensors_in(&merged);
    for name in [
        "image.source_u8",
        "last_image.preprocessed",
        "vae.encode.1.logvar",
        "last_image_latents",
        "noise.3",
        "section.0.latents.initial",
        "section.1.step.01.noise_pred",
        "section.0.step.00.transformer.in.hidden_states",
        "section.1.transformer.in.cond.indices_latents_history_4x",
        "section.0.transformer.in.cond.latents_clean",
        "vae.decode.1.input",
    ] {
        assert!(found.contains_key(name), "{name}");
    }
    assert_is_as_recorded("original", &found["latents.final"], "section.1");
    assert_close("sigmas", &found["sigmas"], &recorded["sigmas"], 1e-6);
    let last = &found["section.0.step.01.latents"];
    assert_is_as_recorded("original", last, "section.0");
    let expected = &recorded["output_u8"];
    assert_same_pixels("output_u8", &found["output_u8"].squeeze_dim(0), expected);
    assert_eq!(found["pixels"].size(), [1, 3, 33, 16, 32]);
}

#[test]
fn section_decode_does_not_depend_on_leftovers_of_an_earlier_run() {
    let job = Job::new("f1");
    job.run(Stage::EncodeImage, 0);
    for section in 0..2 {
        job.run(Stage::Denoise, section);
    }
    // The section before was never decoded here.
    let alone = job.decoded(1);
    let first = job.decoded(0);
    let behind = job.decoded(1);
    assert_eq!(alone, behind);
    assert_eq!(first, job.decoded(0));
    // A file that a full disk has cut.
    let kept = framepack::overlap_file(job.folder().path(), 0);
    fs::write(&kept, b"half").unwrap();
    assert_eq!(job.decoded(1), behind);
}

#[test]
fn a_section_whose_numbers_are_too_large_for_halves_is_decoded_once_more_in_f32() {
    let job = Job::changed("f1", |request| request["dtype"] = json!("f16"));
    job.run(Stage::EncodeImage, 0);
    let images = GivenImages::load(&job.result(Stage::EncodeImage, 0)).unwrap();
    let mut size = images.lead(1).size();
    size[2] = i64::from(job.sections().window);
    let latents = Tensor::full(size, 1e6, (Kind::Float, Device::Cpu));
    tensor_files::write_one(&job.result(Stage::Denoise, 0), "latents", &latents).unwrap();
    let (done, sent) = job.try_run(Stage::Decode, 0, &CancelToken::default());
    done.unwrap();
    assert!(sent.warning().contains("once more in f32"));
    let count = job.sections().decoded(0).num_frames;
    let places = sent.frames.iter().map(|(at, ..)| *at);
    let last: Vec<u32> = places.skip(sent.frames.len() - count as usize).collect();
    assert_eq!(last, (0..count).collect::<Vec<_>>());
}

#[test]
fn framepack_section_resumes_from_its_checkpoint_bit_for_bit() {
    for sampler in ["euler", "unipc_bh1"] {
        let job = Job::changed("f1", |request| {
            request["num_steps"] = json!(9);
            request["sampler"] = json!(sampler);
        });
        job.run(Stage::EncodeImage, 0);
        job.run(Stage::Denoise, 0);
        let whole = job.latents(0);
        fs::remove_file(job.result(Stage::Denoise, 0)).unwrap();
        let stopped = stopped_at_a_checkpoint(&job);
        assert!(stopped.step >= 4);
        stopped.save(&job.folder().section_checkpoint(0)).unwrap();
        job.run(Stage::Denoise, 0);
        assert_eq!(distance(&job.latents(0), &whole), 0.0, "{sampler}");
        assert!(!job.folder().section_checkpoint(0).exists());
    }
}

/// The state of a job's first section that is cancelled as soon as there is a checkpoint.
fn stopped_at_a_checkpoint(job: &Job) -> DenoiseState {
    #[derive(Default)]
    struct StopAtCheckpoint(std::cell::RefCell<Option<DenoiseState>>);
    impl Hooks for StopAtCheckpoint {
        fn cancelled(&self) -> bool {
            self.0.borrow().is_some()
        }
        fn checkpoint(&self, state: DenoiseState) {
            *self.0.borrow_mut() = Some(state);
        }
    }
    let vision = job.result(Stage::EncodeVision, 0);
    let given = SectionInputs {
        embeds: &PromptEmbeds::load(&job.result(Stage::EncodeText, 0)).unwrap(),
        images: &GivenImages::load(&job.result(Stage::EncodeImage, 0)).unwrap(),
        image_embeds: &tensor_files::read_one(&vision, "image_embeds").unwrap(),
        earlier: &[],
    };
    let hooks = StopAtCheckpoint::default();
    let work = &mut StageWork {
        request: &job.request,
        place: ComputePlacement::new(Device::Cpu, Kind::Float),
        capture: &mut StageCapture::off(),
        hooks: &hooks,
    };
    let done = framepack::denoise(&given, None, work);
    assert!(matches!(done, Err(EngineError::Cancelled)));
    hooks.0.take().unwrap()
}

#[test]
fn a_cancelled_section_leaves_nothing_and_the_ones_before_it_stay() {
    let job = Job::new("f1");
    job.run(Stage::EncodeImage, 0);
    job.run(Stage::Denoise, 0);
    let cancel = CancelToken::default();
    cancel.cancel();
    for stage in [Stage::Denoise, Stage::Decode] {
        let section = u32::from(stage == Stage::Denoise);
        let (done, sent) = job.try_run(stage, section, &cancel);
        assert!(matches!(done, Err(EngineError::Cancelled)));
        assert!(sent.frames.is_empty());
    }
    assert!(!job.result(Stage::Denoise, 1).exists());
    assert!(job.result(Stage::Denoise, 0).exists());
}

#[test]
fn inputs_of_another_job_are_refused_before_loading_a_network() {
    let job = Job::changed("f1", |request| request["width"] = json!(40));
    job.assert_refused(Stage::EncodeImage, 0, "multiples of 16");
    let job = Job::changed("f1", |request| request["sections"] = Value::Null);
    job.assert_refused(Stage::EncodeImage, 0, "none were asked for");
    let job = Job::new("f1");
    job.run(Stage::EncodeImage, 0);
    job.assert_refused(Stage::Denoise, 1, "latents");
    let other = Tensor::zeros([1, 4, 5, 2, 4], (Kind::Float, Device::Cpu));
    tensor_files::write_one(&job.result(Stage::Denoise, 0), "latents", &other).unwrap();
    job.assert_refused(Stage::Denoise, 1, "not of this job");
    job.assert_refused(Stage::Decode, 0, "no latents of section 0");
}
