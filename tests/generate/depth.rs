//! `safelight map depth` as a whole program, with the real engine and a network of four layers.

use crate::common::networks::write_depth_network;
use crate::generate::prelude::*;
use crate::generate::upscale::{fox_video, frame, numbered, write_fox};

fn with_network() -> Home {
    let home = Home::new();
    write_depth_network(
        &home
            .path()
            .join("data/safelight/models/depth_estimation/depth.safetensors"),
    );
    home
}

fn map(home: &Home) -> Command {
    let mut command = home.safelight();
    command.args("map depth --json --device cpu".split(' '));
    command
}

fn assert_is_map(image: &RgbPixels) {
    assert!(
        image
            .rgb
            .chunks(3)
            .all(|it| it[0] == it[1] && it[1] == it[2]),
        "it is grey"
    );
    let greys = image.rgb.iter().collect::<std::collections::BTreeSet<_>>();
    assert!(greys.len() > 8, "{greys:?}");
}

#[test]
fn depth_map_of_an_image_is_grey_of_its_size_and_keeps_its_settings() {
    let home = with_network();
    let image = frame(0, 90, 51);
    write_fox(&home, "fox.png", std::slice::from_ref(&image));
    let last = assert_finished(&run(map(&home).arg("fox.png")));
    assert_eq!(last["frames"], 1);
    let made = media::open_rgb(&home.path().join("fox_depth.png")).unwrap();
    assert_eq!((made.width, made.height), (90, 51));
    assert_is_map(&made);
    assert_eq!(
        (made.rgb.iter().min(), made.rgb.iter().max()),
        (Some(&0), Some(&255))
    );
    let carried = settings(&home, "fox_depth.png");
    assert_eq!(carried["request"]["prompt"], "a red fox");
    assert_eq!(carried["finished"][0]["work"], "depth");
    let plan = run(map(&home).args(["fox.png", "--plan"]));
    assert_says(&plan.stdout, "\"fits\":true");
}

#[test]
fn depth_of_a_video_is_identical_after_an_engine_crash() {
    let home = with_network();
    let frames: Vec<RgbPixels> = (0..12).map(|index| frame(index * index, 42, 28)).collect();
    fox_video(&home, "small.gif", &frames);
    assert_finished(&run(map(&home).args(["small.gif", "--out", "whole.png"])));
    let mut command = map(&home);
    command.args(["small.gif", "--out", "struck.png"]);
    strike(&mut command, &home, "depth@frames+10:kill", "struck.png");
    let last = assert_finished(&run(&mut command));
    assert!(home.path().join("struck.struck").exists(), "{last}");
    let whole = numbered(&home, "whole", 12);
    assert!(
        whole == numbered(&home, "struck", 12),
        "other frames after the crash"
    );
    whole.iter().for_each(assert_is_map);
    // Ranges of earlier frames count too: no frame need use all greys.
    assert!(
        whole[1..]
            .iter()
            .any(|it| it.rgb.iter().max() < Some(&255) || it.rgb.iter().min() > Some(&0))
    );
}

#[test]
fn a_missing_or_metric_depth_network_is_refused_with_what_to_do() {
    let home = Home::new();
    write_fox(&home, "fox.png", &[frame(0, 30, 30)]);
    assert_failed(
        &run(map(&home).arg("fox.png")),
        2,
        "no Depth Anything network was found",
    );
    write_depth_network(&home.path().join("metric_depth.safetensors"));
    let metric = run(map(&home).args(["fox.png", "--model", "metric_depth.safetensors"]));
    let (last, _) = end(&metric);
    assert!(message(&last).contains("measures metres"), "{last}");
}
