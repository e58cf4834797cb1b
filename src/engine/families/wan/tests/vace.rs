//! VACE against recorded runs of diffusers: what a control video, its mask and reference images become, each call, the
//! whole loop; and that what a user gives becomes such a video.

use safelight_core::job::JobFolder;
use safelight_core::media::{RgbPixels, write_png};

use super::variants::VariantRun;
use super::*;

const RUNS: [&str; 3] = ["vace", "vace_mask", "vace_two"];

fn image(bytes: &Tensor) -> RgbPixels {
    let [rows, columns] = [0, 1].map(|i| bytes.size()[i] as u32);
    let bytes = if bytes.dim() == 2 {
        bytes.unsqueeze(-1).expand([-1, -1, 3], false)
    } else {
        bytes.shallow_clone()
    };
    let rgb: Vec<u8> = bytes.contiguous().flatten(0, -1).try_into().unwrap();
    RgbPixels::new(columns, rows, rgb).unwrap()
}

/// The recorded video as the stage has it, and the reference images as they were opened.
fn given(run: &Run) -> (FittedVideo, Vec<RgbPixels>) {
    let r = &run.request;
    let mut video = FittedVideo::new(r.width, r.height, r.num_frames);
    for frame in 0..r.num_frames as usize {
        let shown = run.get("control.source_u8").get(frame as i64);
        video.show(frame, &image(&shown));
        if let Some(mask) = run.tensors.get("control.mask.source_u8") {
            video.mask(frame, &image(&mask.get(frame as i64)));
        }
    }
    let references = (0..r.references.len())
        .map(|i| image(run.get(&format!("reference.{i}.source_u8"))))
        .collect();
    (video, references)
}

#[test]
fn a_control_video_its_mask_and_references_become_the_latents_of_the_reference() {
    for name in RUNS {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let (video, references) = given(run);
        let off = &mut StageCapture::off();
        let work = &mut run.work(off, &NoHooks);
        let found = encode_control(&run.config, &video, &references, work).unwrap();
        let (latents, mask) = (found.narrow(1, 0, 32), found.narrow(1, 32, 64));
        let limit = run.limit("control.latents", ENCODER_LIMIT);
        assert_close(name, &latents, run.get("control.latents"), limit);
        assert_close(name, &mask, run.get("control.mask_latents"), 1e-6);
    }
}

#[test]
fn every_step_and_the_end_are_those_of_the_reference() {
    for name in RUNS {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let (state, found) =
            recorded(|capture| run.denoise_part(Expert::Only, None, capture, &NoHooks));
        let latents = state.unwrap().latents;
        for (key, expected) in &run.tensors {
            let limit = match key.rsplit('.').next().unwrap() {
                "timestep" | "timesteps" => 0.0,
                "sigmas" => 1e-6,
                "cond" | "uncond" => 1e-5,
                "noise_pred" | "latents" => 5e-5,
                _ => continue,
            };
            if !key.starts_with("control.") {
                let limit = run.limit(key, limit);
                assert_close(&format!("{name}: {key}"), &found[key], expected, limit);
            }
        }
        // The references' frames are cut off what is decoded.
        let before = run.request.references.len() as i64;
        let whole = run.get("latents.final");
        let expected = whole.narrow(2, before, whole.size()[2] - before);
        let limit = run.limit("latents.final", 4e-5);
        assert_close(name, &latents, &expected, limit);
    }
}

#[test]
fn vace_strength_and_step_range_change_the_result() {
    let mut variant = VariantRun::open("vace");
    let run = &mut variant.run;
    let mut made = |strength, until| {
        (run.how.strength, run.how.until) = (strength, until);
        run.latents()
    };
    let all = [(1.0, 1.0), (0.5, 1.0), (0.0, 1.0), (1.0, 0.4)].map(|(s, u)| made(s, u));
    for (i, one) in all.iter().enumerate() {
        for other in &all[..i] {
            assert!(distance(one, other) > 1e-3);
        }
    }
    assert!(made(1.0, 0.1).equal(&all[2]));
}

#[test]
fn vace_run_with_references_resumes_and_streams_bit_for_bit() {
    let variant = VariantRun::open("vace_two");
    let mut run = variant.run;
    run.request.sampling.num_steps = 5;
    let (whole, recorder) = run.assert_resumes("references");
    let previews = recorder.previews.take();
    assert_eq!(previews.last().unwrap().size(), whole.size());
    for patience in [0, 2, 7] {
        run.assert_stops(patience);
    }
    run.place.resident_bytes = Some(0);
    assert!(run.latents().equal(&whole));
}

#[test]
fn latents_of_another_control_video_are_refused() {
    let mut variant = VariantRun::open("vace");
    let run = &mut variant.run;
    run.request.references = vec!["a.png".into()];
    assert!(run.refusal(Expert::Only).contains("not of this job"));
    run.request.references.clear();
    run.tensors.remove("control_hidden_states");
    assert!(run.refusal(Expert::Only).contains("missing"));
}

/// A frame of one colour.
fn plain(width: u32, height: u32, level: u8) -> RgbPixels {
    RgbPixels::from_fn(width, height, |_, _| [level; 3]).unwrap()
}

/// The video that a job with these fields is shown, its frames' and its mask's first bytes.
fn shown(fields: &Value, fill: impl Fn(&JobFolder)) -> Vec<(u8, u8, bool)> {
    let run = Run::open("text_to_video");
    let mut request = serde_json::to_value(&run.request).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    let request: GenerateRequest = serde_json::from_value(request).unwrap();
    let home = tempfile::tempdir().unwrap();
    let folder = JobFolder::open(home.path());
    fill(&folder);
    let video = control_of_job(&folder, &request).unwrap();
    let byte = |xs: &Tensor, at: &[i64]| xs.int64_value(at) as u8;
    let frames = (0..).zip(&video.is_given);
    let first_bytes = frames.map(|(frame, is_given)| {
        let frames = byte(&video.frames, &[frame, 0, 0, 0]);
        (frames, byte(&video.mask, &[frame, 0, 0]), *is_given)
    });
    first_bytes.collect()
}

#[test]
fn short_control_video_is_padded_with_gray_frames_that_are_generated() {
    let fields = json!({
        "num_frames": 9, "controls": [{"file": "x/depth_000.png", "mask": "mask.png"}],
    });
    let found = shown(&fields, |folder| {
        fs::create_dir(folder.control_video(0)).unwrap();
        for i in 0..3 {
            let name = format!("depth_{i:03}.png");
            let level = 10 + i;
            write_png(&folder.control_video(0).join(name), &plain(30, 30, level)).unwrap();
        }
        write_png(&folder.control_mask(0), &plain(7, 9, 0)).unwrap();
    });
    let made = (0, 255, false);
    // A mask that is an image holds for all frames that are given.
    assert_eq!(
        found[..4],
        [(10, 0, true), (11, 0, true), (12, 0, true), made]
    );
    assert_eq!(found.len(), 9);
    assert!(found[4..].iter().all(|frame| *frame == made));
}

#[test]
fn start_and_end_images_are_frames_that_stay() {
    let fields = json!({"num_frames": 9, "image": "a.png", "last_image": "b.png"});
    let found = shown(&fields, |folder| {
        write_png(&folder.start_image(), &plain(64, 32, 20)).unwrap();
        write_png(&folder.end_image(), &plain(64, 32, 30)).unwrap();
    });
    assert_eq!(found[0], (20, 0, true));
    assert_eq!(found[8], (30, 0, true));
    assert!(found[1..8].iter().all(|frame| *frame == (0, 255, false)));
}

#[test]
fn last_frames_of_an_extended_video_are_kept() {
    let files = Run::open("text_to_video").request.files;
    let mut files = serde_json::to_value(files).unwrap();
    files["takes_control"] = json!(true);
    let fields = json!({"num_frames": 9, "extend": "a.mp4", "files": files});
    let found = shown(&fields, |folder| {
        fs::create_dir(folder.seen()).unwrap();
        write_png(&folder.start_image(), &plain(64, 32, 44)).unwrap();
        // More are kept than such a model is shown.
        for i in 0..9 {
            write_png(&folder.seen_frame(i), &plain(64, 32, 36 + i as u8)).unwrap();
        }
    });
    for (i, frame) in found.iter().enumerate() {
        let seen = (40 + i as u8, 0, true);
        assert_eq!(*frame, if i < 5 { seen } else { (0, 255, false) }, "{i}");
    }
}
