//! Whole jobs of a tiny LTX-2.3, stage by stage as the worker orders them, against the run of diffusers in
//! `tests/fixtures/ltx2`.

use safelight_core::media::{self, RgbPixels};
use serde_json::{Value, json};
use tch::Tensor;
use tempfile::TempDir;

use super::jobs::{StageOutput, merge, order_in, try_stage};
use super::*;
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{
    fixture, json_of, recorded, tensors_of, tiny_network, write_changed,
};
use crate::weights::tests::made_up::made_up;

const LIMIT: f64 = 2e-5;
/// Numbers of the latents of a frame of 96 × 64 pixels.
const FRAME: i64 = 6 * 128;

struct TinyJob {
    request: Value,
    folder: TempDir,
    _model: Vec<TempDir>,
}

impl TinyJob {
    /// 17 frames in three steps with the seed of the recorded run, `with` other values.
    fn new(with: Value) -> Self {
        let mut model = Vec::new();
        let mut network = |component: &str| {
            let (_, folder, path) = tiny_network(component);
            model.push(folder);
            path
        };
        let files = json!({
            "transformer": network("transformer"),
            "vae": network("vae"),
            "tokenizer": fixture("text/gemma"),
            "more": {
                "text_connectors": network("connectors"),
                "text_projection": network("connectors"),
                "audio_vae": network("audio_vae"),
                "vocoder": network("vocoder"),
                "latent_upscaler": network("latent_upsampler"),
            },
        });
        let shapes = &json_of(&fixture("ltx2/networks.json"))["text_encoder"]["shapes"];
        let tensors = tensors_of(shapes, "text_encoder.");
        let (folder, gemma) = write_changed(tensors, |name, tensor| {
            let tensor = match name {
                "embed_tokens.weight" => made_up(name, &[704, 48]),
                _ => tensor,
            };
            Some((name.to_owned(), tensor))
        });
        model.push(folder);
        let mut request = json!({
            "model": "tiny", "family": "ltx2", "files": files, "out": "a.mp4", "fps": 24.0, "prompt": " a red boat\n",
            "negative_prompt": "", "width": 96, "height": 64, "num_frames": 17, "num_steps": 3,
            "guidance_scale": 1.0, "sampler": "euler", "seed": 7, "fit": "stretch",
        });
        request["files"]["text_encoder"] = json!(gemma);
        merge(&mut request, with);
        Self {
            request,
            folder: tempfile::tempdir().unwrap(),
            _model: model,
        }
    }

    fn two_stages() -> Self {
        Self::new(json!({
            "width": 192, "height": 128,
            "second_pass": {"scale": 2.0, "strength": 1.0, "first_width": 96, "first_height": 64},
        }))
    }

    fn job_folder(&self) -> JobFolder {
        JobFolder::open(self.folder.path())
    }

    /// The messages of a stage, without warnings.
    fn run(&self, part: (Stage, u32)) -> StageOutput {
        let request = serde_json::from_value(self.request.clone()).unwrap();
        let order = on_its_rung(order_in(self.folder.path(), part, &request));
        let (done, output) = try_stage(&order, &|_, _| {});
        done.unwrap_or_else(|err| panic!("{part:?}: {err}"));
        assert_eq!(output.warnings, [""; 0], "{part:?}");
        output
    }

    /// The result of a stage that leaves one tensor.
    fn result(&self, (stage, section): (Stage, u32), name: &str) -> Tensor {
        let path = self.job_folder().section_result(stage, section).unwrap();
        tensor_files::read_one(&path, name).unwrap()
    }
}

fn of_run(name: &str) -> Tensor {
    recorded("ltx2/two_stages.safetensors", name)
}

/// Tokens of both streams in one row.
fn joined(names: [&str; 2]) -> Tensor {
    Tensor::cat(&names.map(|name| of_run(name).reshape([1, -1])), 1)
}

#[test]
fn a_job_in_two_stages_makes_the_latents_of_diffusers_then_frames_and_sound() {
    let job = TinyJob::two_stages();
    let texts = ["video", "audio"].map(|it| of_run(&format!("connectors.prompt.{it}")));
    let prompt = job.job_folder().result(Stage::EncodeText).unwrap();
    tensor_files::write_one(&prompt, "prompt_embeds", &Tensor::cat(&texts, -1)).unwrap();

    let output = job.run((Stage::Denoise, 0));
    assert_eq!(output.steps.last(), Some(&(3, 3)));
    let first = job.result((Stage::Denoise, 0), "latents");
    let expected = joined(["stage1.latents.final", "stage1.step.02.audio_latents"]);
    assert_close("first stage", &first, &expected, LIMIT);
    job.run((Stage::EncodeImage, 0));
    let larger = job.result((Stage::EncodeImage, 0), "latents");
    assert_eq!(larger.size(), [1, 128, 3, 4, 6]);
    job.run((Stage::Denoise, 1));
    let second = job.result((Stage::Denoise, 1), "latents");
    let expected = joined(["latents.final", "step.02.audio_latents"]);
    assert_close("second stage", &second, &expected, LIMIT);

    let output = job.run((Stage::Decode, 0));
    let sizes = output.frames.iter().map(|(_, _, rgb)| rgb.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [192 * 128 * 3; 17]);
    // 18 latents of sound, the first of which is one frame of the spectrogram, in two channels of 4 bytes.
    let [(channels, rate, bytes)] = &output.sounds[..] else {
        panic!("{} sounds", output.sounds.len());
    };
    assert_eq!((*channels, *rate), (2, 48_000));
    assert_eq!(bytes.len(), (4 * 18 - 3) * 480 * 2 * 4);
}

#[test]
fn a_prompt_becomes_the_texts_of_both_streams_whatever_white_space_is_around_it() {
    let texts = [" a red boat\n", "a red boat"].map(|prompt| {
        let job = TinyJob::new(json!({ "prompt": prompt }));
        job.run((Stage::EncodeText, 0));
        job.result((Stage::EncodeText, 0), "prompt_embeds")
    });
    assert_eq!(texts[0].size(), [1, 1024, 64 + 32]);
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_start_image_is_the_first_frame_in_both_stages() {
    let mut job = TinyJob::two_stages();
    job.request["image"] = json!("given.png");
    let rgb: Vec<u8> = (0..48 * 32 * 3).map(|i| (i % 251) as u8).collect();
    let image = RgbPixels::new(48, 32, rgb).unwrap();
    media::write_png(&job.job_folder().start_image(), &image).unwrap();
    job.run((Stage::EncodeText, 0));
    job.run((Stage::EncodeImage, 0));
    let given = job.result((Stage::EncodeImage, 0), "image_latents");
    assert_eq!(given.size(), [1, 128, 1, 2, 3]);
    job.run((Stage::Denoise, 0));
    let tokens = |volume: &Tensor| volume.flatten(2, 4).transpose(1, 2).reshape([1, -1]);
    let latents = job.result((Stage::Denoise, 0), "latents");
    assert_eq!(latents.narrow(1, 0, FRAME), tokens(&given));
    job.run((Stage::EncodeImage, 1));
    let larger = job.result((Stage::EncodeImage, 1), "latents");
    job.run((Stage::Denoise, 1));
    let latents = job.result((Stage::Denoise, 1), "latents");
    let first = tokens(&larger.narrow(2, 0, 1));
    assert_eq!(latents.narrow(1, 0, 4 * FRAME), first);
}

#[test]
fn a_stage_that_is_resumed_from_a_checkpoint_ends_as_if_it_had_never_stopped() {
    let job = TinyJob::new(json!({ "num_steps": 8 }));
    job.run((Stage::EncodeText, 0));
    job.run((Stage::Denoise, 0));
    let whole = job.result((Stage::Denoise, 0), "latents");
    let request = serde_json::from_value(job.request.clone()).unwrap();
    let order = order_in(job.folder.path(), (Stage::Denoise, 0), &request);
    // Checkpoints are written every four steps.
    let (done, _) = try_stage(&order, &|message, cancel| {
        if matches!(message, EngineMessage::Step { step: 6, .. }) {
            cancel.cancel();
        }
    });
    assert!(matches!(done, Err(EngineError::Cancelled)));
    let output = job.run((Stage::Denoise, 0));
    assert!(output.steps.first() > Some(&(5, 8)), "{:?}", output.steps);
    assert_eq!(job.result((Stage::Denoise, 0), "latents"), whole);
}
