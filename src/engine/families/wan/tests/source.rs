//! Video to video against recorded runs of diffusers (`tests/fixtures/wan/videos`): the video's latents, where the walk begins,
//! each step, with one expert and with two; and its promises.

use safelight_core::job::{EnlargedPass, JobFolder, SamplerKind, SecondPass};
use safelight_core::media::{RgbPixels, write_png};
use safelight_core::model::ImageRole;
use tempfile::TempDir;

use super::variants::{VariantRun, denoise_all};
use super::*;

const RUNS: [&str; 4] = ["t2v", "experts", "low_noise", "image"];

/// A recorded run, with the folder of its model and that of its job.
pub(super) struct VideoRun {
    pub(super) run: Run,
    _model: Option<VariantRun>,
    pub(super) job: TempDir,
}

impl VideoRun {
    pub(super) fn open(name: &str) -> Self {
        let home = fixtures().join("videos");
        let (run, model) = if name == "ti2v" {
            (Run::of(&home, name, &fixtures().join("pipeline")), None)
        } else {
            let opened = VariantRun::open_in("videos", name);
            let run = Run::of(&home, name, opened.folder());
            (run, Some(opened))
        };
        let job = tempfile::tempdir().unwrap();
        let mut opened = Self {
            run,
            _model: model,
            job,
        };
        opened.write_video();
        opened
    }

    pub(super) fn folder(&self) -> JobFolder {
        JobFolder::open(self.job.path())
    }

    /// The recorded video as the worker copies it: numbered images, or one image.
    fn write_video(&mut self) {
        let frames = self.run.get("source_u8").copy();
        let count = frames.size()[0];
        let folder = self.folder().source_video();
        self.run.request.source_video = Some("video.0000.png".into());
        if count == 1 {
            write_png(&self.folder().source_image(), &frame(&frames, 0)).unwrap();
            return;
        }
        fs::create_dir(&folder).unwrap();
        for index in 0..count {
            let path = folder.join(format!("video.{index:04}.png"));
            write_png(&path, &frame(&frames, index)).unwrap();
        }
    }

    /// The job's video as the stage reads it.
    pub(super) fn video(&self) -> FittedVideo {
        let video = source_of_job(&self.folder(), &self.run.request).unwrap();
        video.unwrap()
    }
}

pub(super) fn frame(frames: &Tensor, index: i64) -> RgbPixels {
    let frame = frames.get(index);
    let [rows, columns] = [0, 1].map(|i| frame.size()[i] as u32);
    let rgb: Vec<u8> = frame.contiguous().flatten(0, -1).try_into().unwrap();
    RgbPixels::new(columns, rows, rgb).unwrap()
}

/// The record of what a step left, counted from the first that was made.
pub(super) fn latents_of(step: usize) -> String {
    format!("step.{step:02}.latents")
}

fn encoded(run: &Run, video: &FittedVideo) -> Tensor {
    let off = &mut StageCapture::off();
    encode_source(&run.config, video, &mut run.work(off, &NoHooks)).unwrap()
}

#[test]
fn a_video_of_any_size_and_length_becomes_the_latents_of_the_reference() {
    for name in RUNS.into_iter().chain(["ti2v"]) {
        let opened = VideoRun::open(name);
        let found = encoded(&opened.run, &opened.video());
        let limit = opened.run.limit("base", ENCODER_LIMIT);
        assert_close(name, &found, opened.run.get("base"), limit);
    }
}

#[test]
fn the_steps_that_are_left_are_those_of_the_reference() {
    for name in RUNS.into_iter().chain(["ti2v"]) {
        let opened = VideoRun::open(name);
        let run = &opened.run;
        let recorder = HookRecorder::default();
        let (state, found) = recorded(|capture| denoise_all(run, capture, &recorder));
        let first = run.get("latents.initial");
        assert_close(name, &found["latents.initial"], first, 1e-6);
        let steps = (0..).map_while(|step| run.step(step, "latents"));
        let steps: Vec<&Tensor> = steps.collect();
        let facts = &run.request.sampling;
        let expected = (f64::from(facts.num_steps) * facts.strength.unwrap()) as usize;
        assert_eq!(steps.len(), expected, "{name}");
        let last = recorder.steps.take().pop();
        assert_eq!(last, Some((expected, expected)), "{name}");
        for (index, expected) in steps.iter().enumerate() {
            // Counted in the whole schedule.
            let step = index + facts.num_steps as usize - steps.len();
            let key = format!("step.{step:02}.latents");
            let limit = run.limit(&latents_of(index), 3e-5);
            assert_close(&format!("{name}: {key}"), &found[&key], expected, limit);
        }
        let limit = run.limit(&latents_of(steps.len() - 1), FINAL_LIMIT);
        assert_close(name, &state.latents, steps.last().unwrap(), limit);
    }
}

#[test]
fn the_high_noise_expert_makes_no_step_where_all_are_below_the_boundary() {
    let opened = VideoRun::open("low_noise");
    let run = &opened.run;
    let recorder = HookRecorder::default();
    let off = &mut StageCapture::off();
    let high = run.denoise_part(Expert::HighNoise, None, off, &recorder);
    assert!(recorder.steps.take().is_empty());
    let given = run.get("latents.initial");
    assert_close("as given", &high.unwrap().latents, given, 1e-6);
    // Both have steps where the strength leaves enough.
    let both = VideoRun::open("experts");
    let high = both
        .run
        .denoise_part(Expert::HighNoise, None, off, &recorder);
    let made = recorder.steps.take().len();
    assert!(made > 0 && made < 4, "{made}");
    assert_eq!(high.unwrap().step, 1 + made);
}

#[test]
fn a_resumed_change_of_a_video_is_the_same_bit_for_bit() {
    for (name, num_steps) in [("t2v", 9), ("ti2v", 14), ("image", 6)] {
        let mut opened = VideoRun::open(name);
        let run = &mut opened.run;
        run.request.sampling.num_steps = num_steps;
        drop(run.assert_resumes(name));
    }
}

#[test]
fn every_sampler_changes_a_video_and_streamed_weights_change_no_bit_of_it() {
    let mut opened = VideoRun::open("t2v");
    let run = &mut opened.run;
    let mut made = Vec::new();
    for sampler in SamplerKind::ALL {
        run.request.sampling.sampler = sampler;
        let [latents, streamed] = [None, Some(0)].map(|resident_bytes| {
            run.place.resident_bytes = resident_bytes;
            run.latents()
        });
        assert!(distance(&latents, run.get("base")) > 0.01, "{sampler}");
        assert!(streamed.equal(&latents), "{sampler}");
        assert!(made.iter().all(|other| *other != latents), "{sampler}");
        made.push(latents);
    }
}

#[test]
fn source_video_with_missing_frames_repeats_its_last_frame() {
    let mut opened = VideoRun::open("ti2v");
    opened.run.request.num_frames = 13;
    let video = opened.video();
    let frames = &video.frames;
    assert_eq!(frames.size()[0], 13);
    assert_eq!(frames.get(12), frames.get(8));
    assert_ne!(frames.get(8), frames.get(7));
}

#[test]
fn a_video_of_another_size_is_not_used() {
    let mut opened = VideoRun::open("t2v");
    let run = &mut opened.run;
    let base = run.get("base").narrow(2, 0, 1);
    run.tensors.insert("base".to_owned(), base);
    let text = run.refusal(Expert::Only);
    assert!(text.contains("the video's latents are not of this job"));
}

#[test]
fn second_pass_uses_only_the_low_noise_expert() {
    let mut opened = VideoRun::open("experts");
    let run = &mut opened.run;
    run.request.source_video = None;
    run.request.image_role = ImageRole::Base;
    run.request.second_pass = Some(EnlargedPass {
        pass: SecondPass::of_scale(2.0),
        first_width: run.request.width / 2,
        first_height: run.request.height / 2,
    });
    let recorder = HookRecorder::default();
    let off = &mut StageCapture::off();
    let made = run.denoise_part(Expert::LowNoise, None, off, &recorder);
    recorder.assert_steps(4, "second pass");
    assert!(distance(&made.unwrap().latents, run.step(3, "latents").unwrap()) > 1e-3);
}
