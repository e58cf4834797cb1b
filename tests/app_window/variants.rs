//! What models of other kinds can be told: presets, two guidances, samplers, parts and tiles.

use safelight_core::job::{GuidanceRange, Guider};
use safelight_core::job_update::StageTime;

use crate::app_window::prelude::*;

#[test]
fn a_preset_sets_several_fields_and_reset_gives_them_back() {
    let mut bench = Bench::of(experts_spec());
    bench.edit(|form| form.sampling.num_steps = Some(30));
    bench.assert_hides("Needs the lightx2v LoRAs");
    bench.scroll_and_press("Fast 4 steps");
    bench.assert_shows("Needs the lightx2v LoRAs");
    let sampling = bench.request().sampling;
    let steps = (sampling.num_steps, sampling.sampler, sampling.shift);
    assert_eq!(steps, (4, SamplerKind::Euler, Some(5.0)));
    let guidance = (sampling.guidance_scale, sampling.low_guidance_scale());
    assert_eq!(guidance, (1.0, 1.0));
    // A change of one's own does not take the way back.
    bench.edit(|form| form.sampling.num_steps = Some(6));
    bench.press("Reset");
    let sampling = bench.form().sampling;
    assert_eq!(sampling.num_steps, Some(30));
    assert_eq!(sampling.guidance_scale, Some(4.0));
    assert!(bench.is_disabled("Reset"));
    bench.assert_hides("Needs the lightx2v LoRAs");
}

#[test]
fn two_experts_have_two_guidances_and_one_transformer_has_one() {
    let mut bench = Bench::of(experts_spec());
    bench.open_advanced();
    assert!(bench.has("Guidance, high noise") && bench.has("Guidance, low noise"));
    let form = bench.form();
    let own = form.sampling_for(&experts_spec());
    assert_eq!((own.guidance_scale, own.low_guidance_scale()), (4.0, 3.0));
    (form.sampling.guidance_scale, form.sampling.guidance_scale_2) = (Some(2.5), Some(1.5));
    let sampling = bench.request().sampling;
    let sent = (sampling.guidance_scale, sampling.guidance_scale_2);
    assert_eq!(sent, (2.5, Some(1.5)));
    // The negative prompt is shown where it acts.
    for (low, acts) in [(1.5, true), (1.0, false), (2.0, true)] {
        bench.edit(|form| {
            let sampling = &mut form.sampling;
            (sampling.guidance_scale, sampling.guidance_scale_2) = (Some(1.0), Some(low));
        });
        assert_eq!(bench.has("Negative prompt"), acts, "{low}");
    }

    let mut bench = Bench::new();
    bench.open_advanced();
    bench.assert_hides("low noise");
    bench.form().sampling.guidance_scale_2 = Some(9.0);
    assert_eq!(bench.request().sampling.guidance_scale_2, None);
}

#[test]
fn a_guider_with_its_numbers_and_the_guided_part_are_chosen_where_there_is_guidance() {
    let mut bench = Bench::new();
    bench.open_advanced();
    for (guider, numbers) in [
        ("APG", &["APG eta", "Norm threshold", "Momentum"][..]),
        (
            "Skip layers",
            &["Skip scale", "Skipping from", "Skipping to"],
        ),
        ("Rescaled CFG", &["Rescale"]),
        ("CFG-Zero*", &["Zero-init steps"]),
    ] {
        bench.choose("Guider", guider);
        for name in numbers {
            bench.node(Role::SpinButton, name);
        }
    }
    let part = GuidanceRange {
        start: 0.2,
        end: 0.9,
    };
    bench.form().sampling.guidance_range = Some(part);
    let sampling = bench.request().sampling;
    assert_eq!(sampling.guider, Guider::CfgZero { zero_steps: 1 });
    assert_eq!(sampling.guidance_range, part);
    for name in ["guider", "the guidance range"] {
        bench.press(&format!("Reset {name}"));
    }
    let sampling = bench.form().sampling;
    assert_eq!((sampling.guider, sampling.guidance_range), (None, None));
    // What cannot act is not shown.
    bench.form().sampling.guidance_scale = Some(1.0);
    bench.edit(|form| form.sampling.guidance_range = Some(part));
    bench.assert_hides("Guidance range");
}

#[test]
fn layers_are_skipped_without_guidance_too_and_blocks_are_typed() {
    let mut bench = Bench::new();
    bench.open_advanced();
    bench.edit(|form| form.sampling.guidance_scale = Some(1.0));
    bench.choose("Guider", "Skip layers");
    let field = |bench: &Bench| bench.node(Role::TextInput, "Blocks").value();
    assert_eq!(field(&bench).as_deref(), Some("9"));
    let blocks = |bench: &mut Bench| bench.form().sampling.guider.map(|it| it.to_string());
    bench.focus_and_type(Role::TextInput, "Blocks", ",");
    // Half a list is none yet, and stays to be typed on.
    assert_eq!(field(&bench).as_deref(), Some("9,"));
    assert_eq!(blocks(&mut bench).as_deref(), Some("slg:9:2.8:0.01-0.2"));
    bench.node(Role::TextInput, "Blocks").type_text("12");
    bench.settle();
    let all = "slg:9,12:2.8:0.01-0.2";
    assert_eq!(blocks(&mut bench).as_deref(), Some(all));
    assert_eq!(bench.request().sampling.guider.to_string(), all);
}

#[test]
fn a_part_of_the_steps_and_the_vaes_tiles_reach_the_job_and_a_part_of_none_is_explained() {
    let mut bench = Bench::new();
    bench.open_advanced();
    for name in ["Start step", "End step"] {
        bench.node(Role::SpinButton, name);
    }
    bench.choose("Tiled VAE", "512 px");
    let sampling = &mut bench.form().sampling;
    (sampling.start_step, sampling.end_step) = (Some(3), Some(9));
    let request = bench.request();
    let sampling = &request.sampling;
    assert_eq!((sampling.start_step, sampling.end_step), (3, Some(9)));
    assert_eq!(request.options.vae_tile, Some(512));
    bench.edit(|form| form.sampling.start_step = Some(9));
    bench.assert_shows("The start step must be below the end step 9");
}

#[test]
fn both_experts_count_on_in_one_row_of_steps() {
    // An engine may count over both, or in each.
    for (high, low) in [((2, 12), (7, 12)), ((2, 5), (2, 7))] {
        let mut bench = Bench::of(experts_spec());
        let sent = bench.start_job();
        let mut last = 0.0;
        let mut progress = |bench: &mut Bench| {
            let now = bench.app().queue.live().unwrap().progress();
            assert!(now >= last, "{now} after {last}");
            last = now;
        };
        bench.say_stage(sent.id, Stage::EncodeVision);
        bench.assert_shows("Encoding the image (CLIP vision)");
        bench.say_stage(sent.id, Stage::DenoiseHigh);
        progress(&mut bench);
        bench.say_step(sent.id, Stage::DenoiseHigh, high.0, high.1);
        bench.assert_shows("Denoising the composition  ·  step 2 of 12");
        bench.say(sent.id, sample(1.0, 500, 400, 400, 2048));
        bench.say(sent.id, sample(2.0, 600, 400, 400, 2048));
        progress(&mut bench);
        bench.say_stage(sent.id, Stage::DenoiseLow);
        bench.assert_shows("Denoising the details  ·  step 2 of 12");
        progress(&mut bench);
        bench.say_step(sent.id, Stage::DenoiseLow, low.0, low.1);
        bench.assert_shows("Denoising the details  ·  step 7 of 12");
        progress(&mut bench);
        bench.say(sent.id, sample(4.0, 600, 400, 400, 2048));
        let time = StageTime {
            stage: Stage::DenoiseLow,
            section: 0,
            secs: 2.0,
        };
        bench.say(sent.id, JobUpdate::StageEnded(time));
        bench.say_stage(sent.id, Stage::Decode);
        progress(&mut bench);
        let bands = bench.app().queue.memory().bands.clone();
        let high = bands.iter().find(|band| band.stage == Stage::DenoiseHigh);
        let low = bands.iter().find(|band| band.stage == Stage::DenoiseLow);
        assert_eq!(high.unwrap().to_secs, Some(low.unwrap().from_secs));
        assert_eq!(low.unwrap().to_secs, Some(3.0));
    }
}

#[test]
fn a_second_pass_is_chosen_by_its_scale_and_reset_turns_it_off() {
    let mut bench = Bench::of(flux_spec());
    bench.open_advanced();
    bench.choose("Hires fix", "1.5×");
    let request = bench.request();
    assert_eq!((request.width, request.height), (1536, 1536));
    assert_eq!(request.first_size(), (1024, 1024));
    assert_eq!(request.second_pass.unwrap().pass.strength, 0.4);
    bench.choose("Hires fix", "4×");
    bench.assert_shows("choose a smaller size or scale");
    bench.press("Reset hires fix");
    assert_eq!(bench.form().second_pass, None);
    let mut videos = Bench::of(experts_spec());
    videos.open_advanced();
    assert!(videos.has("Hires fix"));
    let mut fixed = experts_spec();
    fixed.limits.fixed_size = true;
    let mut fixed = Bench::of(fixed);
    fixed.open_advanced();
    fixed.assert_hides("Hires fix");
}
