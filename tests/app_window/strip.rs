//! The results of this session: the strip with many of them, and large ones that come a moment later.

use crate::app_window::prelude::*;
use safelight::window::create::choices::CompareMode;

/// A bench with so many results; gives how many were forgotten meanwhile.
fn results(count: u64) -> (Bench, usize) {
    let mut bench = Bench::new();
    bench.make_video(1);
    let item = bench.app().queue.results[0].clone();
    let mut num_forgotten = 0;
    for number in 1..count {
        let mut item = item.clone();
        item.id = JobId(1_000_000 + number);
        num_forgotten += bench.app().queue.keep(item).len();
    }
    bench.settle();
    (bench, num_forgotten)
}

fn num_drawn(bench: &Bench) -> usize {
    bench.count("Result ")
}

#[test]
fn of_many_results_those_on_the_screen_are_drawn_and_keys_reach_the_others() {
    let (mut bench, _) = results(40);
    let count = num_drawn(&bench);
    assert!((5..25).contains(&count), "{count}");
    let oldest = bench.app().queue.results[0].id;
    let newest = "Result 40: a red boat sails to the right at sunset";
    bench.labelled(newest).focus();
    bench.settle();
    for _ in 1..40 {
        bench.press_key(Key::Tab);
    }
    assert!(num_drawn(&bench) < 25);
    let focused = bench.labelled("Result 1: a red boat sails to the right at sunset");
    assert!(focused.is_focused());
    // It was scrolled to.
    let place = focused.rect();
    assert!(place.left() > 0.0 && place.right() < 1100.0, "{place}");
    bench.press_key(Key::Enter);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(oldest));
    bench.press_keys(Modifiers::SHIFT, Key::Tab);
    let before = "Result 2: a red boat sails to the right at sunset";
    assert!(bench.node(Role::Button, before).is_focused());
}

#[test]
fn the_oldest_of_very_many_results_are_forgotten() {
    let (mut bench, num_forgotten) = results(205);
    assert_eq!(num_forgotten, 5);
    let kept = &bench.app().queue.results;
    assert_eq!((kept.len(), kept[199].id), (200, JobId(1_000_204)));
}

#[test]
fn a_large_result_and_its_small_image_come_a_moment_after_the_job_has_ended() {
    let (mut bench, sent) = Bench::at_work();
    let mut made = output(&sent, 1);
    made.video = Arc::new(safelight_core::job::Video {
        frames: vec![image(2048, [9, 90, 40])],
        fps: 8.0,
    });
    bench.send(sent.id, JobUpdate::Ended(JobOutcome::Finished(made)));
    bench.harness.step();
    let watch = &bench.app().watch;
    assert_eq!(watch.mode, ViewerMode::Result(sent.id));
    assert!(watch.texture.handle().is_none());
    assert!(bench.app().cx.thumbs.is_busy());
    bench.until("both are there", |bench| {
        let texture = &bench.app().watch.texture;
        let is_shown = texture.handle().is_some_and(|(_, size)| size == [2048; 2]);
        is_shown && !bench.app().cx.thumbs.is_busy()
    });
    bench.until_at_rest();
}

#[test]
fn where_the_difference_is_looked_at_neither_side_is_made_ready() {
    let (mut bench, _) = results(3);
    let ids: Vec<JobId> = bench.app().queue.results.iter().map(|it| it.id).collect();
    bench.run(PlayerCommand::ShowResult(ids[0]));
    bench.run(PlayerCommand::CompareWith(ids[1]));
    bench.press("Difference");
    bench.run(PlayerCommand::CompareWith(ids[2]));
    let compare = bench.app().watch.compare.as_ref().unwrap();
    assert_eq!(compare.mode, CompareMode::Difference);
    assert!(compare.difference.handle().is_some());
    assert!(compare.sides[1].texture.handle().is_none());
    bench.press("Side by side");
    let compare = bench.app().watch.compare.as_ref().unwrap();
    assert!(compare.sides.iter().all(|it| it.texture.handle().is_some()));
}

#[test]
fn a_result_is_made_again_with_its_seed_varied_or_in_full_quality() {
    let mut bench = Bench::of(flux_spec());
    bench.scroll_and_press("Draft");
    let sent = bench.start_job();
    bench.finish_job(&sent, 1);
    let made = sent.request;
    bench.edit(|form| form.prompt = "something else".to_owned());

    bench.press_more("Generate again");
    bench.press("Same seed again");
    let again = bench.request();
    assert_eq!((again.seed, &*again.prompt), (made.seed, "something else"));
    bench.press_more("Generate again");
    bench.press("Vary");
    let varied = bench.next_request();
    assert_eq!(varied.prompt, made.prompt);
    assert_ne!(varied.seed, made.seed);
    bench.press_more("Generate again");
    bench.press("Remake as Final");
    let remade = bench.next_request();
    assert_eq!((remade.seed, &remade.prompt), (made.seed, &made.prompt));
    assert!(remade.width > made.width || remade.sampling.num_steps > made.sampling.num_steps);
}
