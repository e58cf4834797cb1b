//! Video to video: a video that is made anew in part, at its own rate, in its own shape and length.

use crate::generate::prelude::*;

fn frames_of(home: &Home, name: &str) -> Vec<Vec<u8>> {
    let video = media::open_video(&home.path().join(name)).expect("a video");
    video.frames.iter().map(|frame| frame.rgb.clone()).collect()
}

#[test]
fn changed_video_keeps_its_rate_and_is_identical_after_engine_crashes() {
    let home = Home::new();
    makes(&home, "--fps 10 --frames 9 --out old.webp");
    let mut made = Vec::new();
    for (name, fault) in [
        ("a.webp", ""),
        ("b.webp", "denoise:kill"),
        ("c.webp", "vae_encode:kill"),
    ] {
        let mut command = home.generate();
        command.args("--source-video old.webp --strength 0.5 --frames 9 --steps 4".split(' '));
        command.args(["--prompt", "a blue boat", "--out", name]);
        strike(&mut command, &home, fault, name);
        let output = run(&mut command);
        let last = assert_finished(&output);
        assert_eq!((&last["frames"], &last["fps"]), (&9.into(), &10.0.into()));
        made.push(frames_of(&home, name));
    }
    assert_ne!(made[0], frames_of(&home, "old.webp"));
    assert!(made[1] == made[0] && made[2] == made[0]);
    assert_finished(&run(&mut home.repeat("a.webp", "d.webp")));
    assert!(frames_of(&home, "d.webp") == made[0]);
    assert!(home.job_folders().is_empty());
}

#[test]
fn source_shorter_than_the_requested_length_is_used_with_a_notice() {
    let home = Home::new();
    test_image(&home.path().join("photo.png"), 64, 32);
    let output = makes(&home, "--source-video photo.png --frames 5 --out new.png");
    assert_eq!(assert_finished(&output)["frames"], 1);
    let told = events_of(&output, "notice")[0]["message"].to_string();
    let change = "changed from 5 to 1: the video has 1";
    assert!(told.contains(change), "{told}");
}

#[test]
fn unmasked_pixels_of_a_changed_video_are_preserved_exactly() {
    let home = Home::new();
    makes(&home, "--frames 9 --seed 3 --out old.png");
    let white_right = |x: u32, _: u32| [if x < 32 { 0 } else { 255 }; 3];
    let mask = RgbPixels::from_fn(64, 32, white_right).expect("an image");
    media::write_png(&home.path().join("mask.png"), &mask).expect("a file");
    let kept = "--source-video old_0001.png --mask mask.png";
    makes(
        &home,
        &format!("{kept} --frames 9 --strength 0.9 --out new.png"),
    );
    let halves = |name: &str| {
        let frames = frames_of(&home, name);
        let half = |frame: &[u8], from: usize| -> Vec<u8> {
            let rows = frame.chunks(64 * 3);
            let halves = rows.map(|row| &row[from..from + 32 * 3]);
            halves.collect::<Vec<_>>().concat()
        };
        let of = |from: usize| frames.iter().map(|it| half(it, from)).collect::<Vec<_>>();
        (of(0), of(32 * 3))
    };
    let ((old_left, old_right), (left, right)) = (halves("old_0001.png"), halves("new_0001.png"));
    assert_eq!(left.len(), 9);
    assert!(left == old_left);
    assert_ne!(right, old_right);
}

#[test]
fn a_second_pass_is_the_job_from_the_enlarged_video_also_when_the_engine_dies() {
    let home = Home::new();
    let common = "--frames 5 --steps 4 --seed 9";
    makes(&home, &format!("{common} --out first.png"));
    let mut made = Vec::new();
    for (name, fault) in [
        ("a.png", ""),
        ("b.png", "denoise:kill"),
        ("c.png", "vae_encode:kill"),
    ] {
        let mut command = home.generate();
        let passes = format!("{common} --second-pass 2 --second-strength 0.5 --out {name}");
        command.args(passes.split(' '));
        strike(&mut command, &home, fault, name);
        let last = assert_finished(&run(&mut command));
        assert_eq!(last["frames"], 5);
        made.push(frames_of(&home, &name.replace('.', "_0001.")));
    }
    let info = media::video_info(&home.path().join("a_0001.png")).expect("a video");
    assert_eq!((info.width, info.height, info.num_frames), (128, 64, 5));
    assert!(made[1] == made[0] && made[2] == made[0]);
    let enlarged = "--source-video first_0001.png --strength 0.5 --width 128 --height 64";
    makes(&home, &format!("{common} {enlarged} --out d.png"));
    assert!(frames_of(&home, "d_0001.png") == made[0]);
}
