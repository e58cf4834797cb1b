//! Whole loops on several ranks.

use super::variants::VariantRun;
use super::*;
use crate::parallel::tests::on_ranks;

#[test]
fn several_ranks_make_the_video_of_one_with_guidance_images_and_control() {
    let made = |name: &str, cache: Option<&str>| {
        let latents = |run: &mut Run| {
            run.request.options.step_cache = cache.map(|cache| cache.parse().unwrap());
            run.latents()
        };
        if RUNS.contains(&name) {
            latents(&mut Run::open(name))
        } else {
            latents(&mut VariantRun::open(name).run)
        }
    };
    for (name, cache) in [
        ("text_to_video", None),
        ("text_to_video", Some("first_block:1")),
        ("text_to_video", Some("taylorseer:3")),
        ("image_to_video", None),
        ("i2v21", None),
        ("vace_two", None),
    ] {
        let whole = made(name, cache);
        for ranks in [2, 3, 4, 8] {
            for found in on_ranks(ranks, || made(name, cache)) {
                let what = format!("{name} {cache:?} on {ranks} ranks");
                assert_close(&what, &found, &whole, FINAL_LIMIT);
            }
        }
    }
}
