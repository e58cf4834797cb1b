//! Memory that runs out in the real engine, at every place where it allocates and on every rung of the ladder.

use safelight_core::memory::FallbackLevel::{FreeAndRetry, OnCpu, Tiles256, Tiles512};

use crate::generate::prelude::*;

/// A video that is wide enough for tiles of both sizes, as numbered images.
const WIDE: [&str; 4] = ["--width", "576", "--out", "video.png"];

struct Made {
    frames: Vec<RgbPixels>,
    last: Value,
    output: Output,
}

fn made(home: &Home, fault: &str, args: &[&str]) -> Made {
    let mut command = home.generate();
    command.env("SAFELIGHT_ENGINE_FAULT", fault);
    let output = run(command.args(WIDE).args(args));
    let last = assert_finished(&output);
    let is_end = |event: &&Value| {
        ["finished", "failed", "cancelled"].contains(&event["event"].as_str().unwrap())
    };
    let num_ends = events(&output).iter().filter(is_end).count();
    assert_eq!(num_ends, 1, "{fault}");
    let frames = (1..=5).map(|number| {
        let path = home.path().join(format!("video_{number:04}.png"));
        let frame = media::open_rgb(&path).unwrap();
        fs::remove_file(path).unwrap();
        frame
    });
    let frames = frames.collect();
    let entries = fs::read_dir(home.path()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let is_left = |name: &String| name.starts_with("video") || name.contains("partial");
    let left: Vec<String> = names.filter(is_left).collect();
    assert!(left.is_empty(), "{fault} left {left:?}");
    assert!(home.job_folders().is_empty(), "{fault} left its folder");
    Made {
        frames,
        last,
        output,
    }
}

/// Stage, rung and whether it helped, of each climb.
fn climbs(made: &Made) -> Vec<(String, String, bool)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rungs = made.last["rungs"].as_array().unwrap();
    let climb = |rung: &Value| {
        let helped = rung["helped"].as_bool().unwrap();
        (text(&rung["stage"]), text(&rung["rung"]), helped)
    };
    rungs.iter().map(climb).collect()
}

#[test]
fn an_allocation_that_fails_anywhere_is_made_again_and_the_video_is_the_same_bit_for_bit() {
    let home = Home::new();
    test_image(&home.path().join("start.png"), 100, 70);
    let args = ["--image", "start.png"];
    let plain = made(&home, "", &args);
    assert!(climbs(&plain).is_empty());
    // No more of them in one run of a stage than it has rungs that keep the image.
    for faults in [
        "encode_text@weights:oom*1;encode_text@text:host_oom*1;encode_image@vae_encode:oom_code2*1;\
         denoise@block+2:oom*1;denoise@sampler:oom_pressure*1;decode@vae_decode+2:oom*1",
        "encode_text@staging:oom_code2*1;encode_text@saving:oom*1;encode_image@weights:oom*1;\
         denoise@staging+9:host_oom*1;denoise@saving:oom*1;decode@frames+2:host_oom*1",
        "encode_text:oom*1;encode_image@saving:oom_pressure*1;encode_image@frames:none;\
         denoise@weights+5:oom_code2*1;unload:oom*1;decode@staging+3:oom*1",
    ] {
        let found = made(&home, &format!("as_gpu;{faults}"), &args);
        let expected = faults.matches("*1").count();
        assert_eq!(climbs(&found).len(), expected, "{faults}: {}", found.last);
        assert!(found.frames == plain.frames, "{faults}");
    }
}

#[test]
fn each_decode_fallback_level_matches_the_untiled_or_tiled_result() {
    let home = Home::new();
    let whole = made(&home, "", &[]);
    let of_tiles = |tile| made(&home, "", &["--vae-tile", tile]);
    let (tiles_512, tiles_256) = (of_tiles("512"), of_tiles("256"));
    assert!(whole.frames != tiles_512.frames && tiles_512.frames != tiles_256.frames);
    let all = [FreeAndRetry, Tiles512, Tiles256, OnCpu];
    for (number, rung) in all.into_iter().enumerate() {
        let fault = format!("as_gpu;decode@vae_decode<{}:oom", rung.name());
        let found = made(&home, &fault, &[]);
        let expected = match rung {
            Tiles512 => &tiles_512,
            // What is on the CPU is in these tiles too, and here it was there before.
            Tiles256 | OnCpu => &tiles_256,
            _ => &whole,
        };
        assert!(found.frames == expected.frames, "{rung:?}");
        let tried: Vec<_> = all[..=number].iter().map(|tried| tried.name()).collect();
        let climbed = climbs(&found);
        let names: Vec<_> = climbed.iter().map(|climb| climb.1.as_str()).collect();
        assert_eq!(names, tried);
        let helps = |climb: &(String, String, bool)| climb.2 == (climb.1 == rung.name());
        assert!(climbed.iter().all(helps), "{rung:?}");
        let warnings = found.last["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), number + 1, "{rung:?}");
    }
}

#[test]
fn failed_engine_is_replaced_and_decoding_continues_in_smaller_tiles() {
    let home = Home::new();
    let tiles_256 = made(&home, "", &["--vae-tile", "256"]);
    for kind in ["hsa", "hsa_abort", "illegal", "lost"] {
        let fault = format!("decode@vae_decode<tiles256:{kind}");
        let found = made(&home, &fault, &[]);
        assert!(found.frames == tiles_256.frames, "{kind}");
        let expected = [("tiles512", false), ("tiles256", true)]
            .map(|(rung, helped)| ("decode".to_owned(), rung.to_owned(), helped));
        assert_eq!(climbs(&found), expected, "{kind}");
        let begun = events_of(&found.output, "stage");
        let is_denoise = |it: &&Value| it["stage"] == "denoise" && it["state"] == "started";
        let made_again = begun.iter().filter(is_denoise).count();
        assert_eq!(made_again, 1, "{kind} lost the latents");
    }
    let counted = fs::read_to_string(home.path().join("data/safelight/ladder.json")).unwrap();
    let counted: Value = serde_json::from_str(&counted).unwrap();
    assert_eq!(counted["CPU"]["engine_restarts"], 8);
    assert_eq!(counted["CPU"]["rungs"]["tiles256"]["successes"], 4);
}

#[test]
fn denoising_resumes_from_its_last_checkpoint_bit_for_bit_after_oom() {
    let home = Home::new();
    let args = ["--steps", "10"];
    let plain = made(&home, "", &args);
    for (fault, first_again) in [
        ("as_gpu;denoise@sampler+7:oom*1", 5),
        ("as_gpu;denoise@block+30:host_oom*1", 5),
    ] {
        let found = made(&home, fault, &args);
        assert!(found.frames == plain.frames, "{fault}");
        let steps = events_of(&found.output, "step").into_iter();
        let steps = steps.filter(|event| event["stage"] == "denoise");
        let steps: Vec<u64> = steps.filter_map(|it| it["step"].as_u64()).collect();
        let again = steps.windows(2).find(|pair| pair[1] <= pair[0]);
        // A step that this process was too slow to read may be missing.
        assert!(again.is_none_or(|pair| pair[1] >= first_again), "{steps:?}");
    }
    let marker = home.path().join("marker");
    let lost = format!("denoise@sampler+7:illegal:{}", marker.display());
    assert!(made(&home, &lost, &args).frames == plain.frames);
}

#[test]
fn exhausted_fallback_fails_once_with_the_memory_shortage_and_advice() {
    let home = Home::new();
    let fault = "as_gpu;decode@vae_decode:oom_pressure";
    let mut command = home.generate();
    let output = run(command.args(WIDE).env("SAFELIGHT_ENGINE_FAULT", fault));
    let last = assert_failed(&output, 4, "nothing smaller is left");
    for (field, part) in [
        ("message", "the GPU has 52.3 GiB free"),
        ("message", "the computer's main memory is almost full"),
        ("message", "in the page cache"),
        ("advice", "smaller size"),
        ("advice", "kept for a week"),
        ("details", "tiles256, on_cpu"),
    ] {
        let text = last[field].as_str().unwrap();
        assert!(text.contains(part), "{text}");
    }
    assert!(!home.path().join("video_0001.png").exists());
    assert_eq!(home.job_folders().len(), 1);
}
