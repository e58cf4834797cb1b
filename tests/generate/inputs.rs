//! Sizes that snap, images and videos that a job starts from, and what a file remembers of them.

use safelight_core::media::MAX_VIDEO_PIXELS;

use crate::common::scripts::write_script;
use crate::common::tiny_model;
use crate::generate::prelude::*;

#[test]
fn sizes_and_frames_that_are_a_little_off_become_the_nearest_with_a_notice() {
    let home = Home::new();
    let output = makes(&home, "--width 60 --frames 6 --out video.mp4");
    assert_eq!(assert_finished(&output)["frames"], 5);
    let notices = events_of(&output, "notice");
    assert_eq!(notices[0]["field"], "width");
    assert_eq!(notices[1]["field"], "frames");
    let text = message(&notices[0]);
    let told = "The width was changed from 60 to 64";
    assert!(text.starts_with(told), "{text}");
    let info = media::video_info(&home.path().join("video.mp4")).unwrap();
    assert_eq!((info.width, info.height, info.num_frames), (64, 32, 5));

    let again = "generate --device cpu --from video.mp4 --width 60 --out again.mp4";
    let plain = run(home.safelight().args(again.split(' ')));
    let said = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert!(said.contains(told), "{said}");
}

#[test]
fn extended_video_keeps_its_frames_even_after_an_engine_crash() {
    let home = Home::new();
    makes(&home, "--fps 12 --out old.mp4");
    let old = media::open_video(&home.path().join("old.mp4")).unwrap();
    let mut videos = Vec::new();
    for (name, fault) in [
        ("a.png", ""),
        ("b.png", "denoise:kill"),
        ("c.png", "decode:kill"),
    ] {
        let mut command = home.generate();
        command.args(["--extend", "old.mp4", "--out", name]);
        strike(&mut command, &home, fault, name);
        let output = run(&mut command);
        let last = assert_finished(&output);
        assert_eq!((&last["frames"], &last["fps"]), (&9.into(), &12.0.into()));
        assert!(events_of(&output, "notice").is_empty());
        let first = home.path().join(name.replace('.', "_0001."));
        videos.push(media::open_video(&first).unwrap());
    }
    for video in &videos {
        assert_eq!(video.fps, 12.0);
        assert_eq!(video.frames[..5], old.frames[..]);
        assert_eq!(video.frames, videos[0].frames, "a resume changes nothing");
    }
    assert!(home.job_folders().is_empty());
}

#[test]
fn a_video_of_another_size_is_brought_to_the_new_one_with_a_notice_and_excludes_an_image() {
    let home = Home::new();
    makes(&home, "--out old.webp");
    let output = makes(&home, "--extend old.webp --width 32 --out old.webp");
    assert_eq!(assert_finished(&output)["frames"], 9);
    let notices = events_of(&output, "notice");
    let text = message(&notices[0]);
    assert!(text.contains("resized from 64×32 to 32×32"), "{text}");
    let info = media::video_info(&home.path().join("old.webp")).unwrap();
    assert_eq!((info.width, info.height, info.num_frames), (32, 32, 9));

    test_image(&home.path().join("start.png"), 64, 32);
    let both = "--image start.png --extend old.webp --out video.mp4".split(' ');
    let output = run(home.generate().args(both));
    assert_failed(&output, 2, "either a start image or a video");
}

#[test]
fn repeated_job_warns_when_its_start_image_has_changed() {
    let home = Home::new();
    let start = home.path().join("start.png");
    test_image(&start, 64, 32);
    makes(&home, "--image start.png --out video.mp4");
    let again = |out: &str| {
        let output = run(&mut home.repeat("video.mp4", out));
        assert_finished(&output);
        events_of(&output, "warning")
    };
    assert_eq!(again("same.mp4").len(), 0);
    test_image(&start, 65, 32);
    let text = again("other.mp4")[0]["message"].to_string();
    assert!(text.contains("start.png"), "{text}");
    assert!(text.contains("has changed since"), "{text}");
}

#[test]
fn repeated_job_reuses_named_components_and_warns_if_changed_or_missing() {
    let home = Home::new();
    let (model, vae) = (home.path().join("model"), home.path().join("vae"));
    copy_folder(&tiny_model(), &model);
    fs::rename(model.join("vae"), &vae).unwrap();
    makes(&home, "--model model --vae vae --out video.mp4");
    let again = |out: &str, more: &[&str]| {
        let output = run(home.repeat("video.mp4", out).args(more));
        assert_finished(&output);
        let warnings = events_of(&output, "warning");
        let texts = warnings.iter().filter_map(|it| it["message"].as_str());
        texts.collect::<Vec<_>>().join("; ")
    };
    // The model has none of its own, so only the named one can have been used.
    assert_eq!(again("same.mp4", &[]), "");
    let config = fs::read_to_string(vae.join("config.json")).unwrap();
    fs::write(vae.join("config.json"), format!("{config} ")).unwrap();
    let told = again("other.mp4", &[]);
    assert!(told.contains("vae"), "{told}");
    assert!(told.contains("has changed since"), "{told}");

    fs::rename(&vae, home.path().join("moved")).unwrap();
    assert_eq!(again("named.mp4", &["--vae", "moved"]), "");
    copy_folder(&tiny_model().join("vae"), &model.join("vae"));
    let told = again("gone.mp4", &[]);
    assert!(told.contains("vae"), "{told}");
    assert!(told.contains("is missing"), "{told}");
}

/// A video that only ffmpeg can read.
const HEVC: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/core/media/source/tests/videos/hevc.mp4"
);

#[test]
fn missing_ffmpeg_is_reported_with_the_readable_video_formats() {
    let home = Home::new();
    fs::create_dir(home.path().join("empty")).unwrap();
    let mut command = home.generate();
    command.env("PATH", home.path().join("empty"));
    let output = run(command.args(["--extend", HEVC, "--out", "video.mp4"]));
    let last = assert_failed(&output, 2, "HEVC");
    assert_says(message(&last).as_bytes(), "ffmpeg|MP4|H.264|hevc.mp4");
}

fn with_scripts(mut command: Command, home: &Home, probe: &str, decode: &str) -> Command {
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    write_script(
        &bin.join("ffprobe"),
        &format!("#!/bin/sh\necho '{probe}'\n"),
    );
    write_script(&bin.join("ffmpeg"), &format!("#!/bin/sh\n{decode}\n"));
    let paths = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(bin).chain(std::env::split_paths(&paths));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    command
}

#[test]
fn video_with_more_frames_than_its_header_is_refused_above_the_limit() {
    let home = Home::new();
    // One frame more than fit, each much smaller than the result.
    let num_frames = (MAX_VIDEO_PIXELS / (512 * 512) + 1) as usize;
    let frame = [b"P6 2 2 255\n".as_slice(), &[90; 12]].concat();
    fs::write(home.path().join("frames"), frame.repeat(num_frames)).unwrap();
    let header = "packet|flags=K_\npacket|flags=__\nstream|avg_frame_rate=8/1";
    let decode = "cat \"$(dirname \"$0\")/../frames\"";
    let mut command = with_scripts(home.generate(), &home, header, decode);
    command.args(["--width", "512", "--height", "512"]);
    let output = run(command.args(["--extend", HEVC, "--out", "video.mp4"]));
    let (last, _) = end(&output);
    assert_eq!(last["event"], "failed", "{last}");
    let said = format!("the video has too many frames, {num_frames}, for 512×512: {HEVC}");
    assert_eq!(last["message"], said, "{last}");
    assert!(events_of(&output, "stage").is_empty(), "{last}");
}

#[test]
fn an_avi_is_read_through_ffmpeg_by_its_first_bytes_and_its_odd_sides_are_named() {
    let home = Home::new();
    fs::write(home.path().join("old.bin"), b"RIFF\x04\0\0\0AVI ").unwrap();
    let stream = "packet|flags=K_\npacket|flags=__\nstream|avg_frame_rate=8/1|field_order=tt|pix_fmt=yuva420p|sample_aspect_ratio=2:1";
    let inspect = |probed: &str, ppm: &str| {
        let decode = format!("echo \"$@\" > \"$(dirname \"$0\")/arguments\"\nprintf '{ppm}'");
        let mut command = with_scripts(home.safelight(), &home, probed, &decode);
        run(command.args(["inspect", "old.bin"]))
    };
    let output = inspect(stream, "P6 2 1 255\\n123456");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let arguments = fs::read_to_string(home.path().join("bin/arguments")).unwrap();
    for (part, text) in [
        ("2 × 1 pixels: 2 frames, 8 a second", &shown),
        ("deinterlaced", &shown),
        ("transparent parts", &shown),
        ("-protocol_whitelist file -f avi -i file:/", &arguments),
        ("bwdif", &arguments),
        ("scale=", &arguments),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = inspect("format|nb_streams=1", "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("this AVI file has no video"), "{said}");
    fs::create_dir(home.path().join("empty")).unwrap();
    let mut command = home.safelight();
    command.env("PATH", home.path().join("empty"));
    let output = run(command.args(["inspect", "old.bin"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("install ffmpeg"), "{said}");
}
