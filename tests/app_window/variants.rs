//! What models of other kinds can be told: presets, two guidances, samplers, parts and tiles.

use safelight_core::job::{GuidanceRange, Guider, Sampler, StageTime};

use crate::app_window::prelude::*;

/// A model of two experts that needs no picture.
fn experts() -> ModelSpec {
    ModelSpec {
        start_image: InputUse::Optional,
        ..pair_spec()
    }
}

fn open_advanced(bench: &mut Bench) {
    bench.scroll_to("Advanced");
    bench.click_label("Advanced");
}

/// Chooses from a list of the form.
fn choose(bench: &mut Bench, list: &str, entry: &str) {
    bench.scroll_to(list);
    bench.click(Role::ComboBox, list);
    bench.press(entry);
}

#[test]
fn a_preset_sets_several_fields_and_reset_gives_them_back() {
    let mut bench = Bench::of(experts());
    bench.form().sampling.num_steps = Some(30);
    bench.settle();
    assert!(!bench.has("Needs the lightx2v LoRAs"));
    bench.scroll_to("Fast 4 steps");
    bench.press("Fast 4 steps");
    bench.assert_shows("Needs the lightx2v LoRAs");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (
            request.sampling.num_steps,
            request.sampling.sampler,
            request.sampling.shift
        ),
        (4, Sampler::Euler, Some(5.0))
    );
    assert_eq!(
        (
            request.sampling.guidance_scale,
            request.sampling.low_guidance_scale()
        ),
        (1.0, 1.0)
    );
    // A change of one's own does not take the way back.
    bench.form().sampling.num_steps = Some(6);
    bench.settle();
    bench.press("Reset");
    let form = bench.form();
    assert_eq!(
        (form.sampling.num_steps, form.sampling.guidance_scale),
        (Some(30), Some(4.0))
    );
    let reset = bench.node(Role::Button, "Reset");
    assert!(reset.accesskit_node().is_disabled());
    assert!(!bench.has("Needs the lightx2v LoRAs"));
}

#[test]
fn a_model_without_presets_has_those_of_every_model() {
    let bench = Bench::new();
    for name in ["Draft", "Balanced", "Final"] {
        bench.node(Role::Button, name);
    }
    assert!(!bench.has("Fast 4 steps"));
}

#[test]
fn two_experts_have_two_guidances() {
    let mut bench = Bench::of(experts());
    open_advanced(&mut bench);
    let high = bench
        .harness
        .get_all_by_label("Guidance, high noise")
        .count();
    let low = bench
        .harness
        .get_all_by_label("Guidance, low noise")
        .count();
    assert!(high > 0 && low > 0);
    let form = bench.form();
    let own = form.sampling_for(&experts());
    assert_eq!((own.guidance_scale, own.low_guidance_scale()), (4.0, 3.0));
    (form.sampling.guidance_scale, form.sampling.guidance_scale_2) = (Some(2.5), Some(1.5));
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (
            request.sampling.guidance_scale,
            request.sampling.guidance_scale_2
        ),
        (2.5, Some(1.5))
    );
}

#[test]
fn one_transformer_has_one_guidance() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    assert!(!bench.has("low noise"));
    bench.form().sampling.guidance_scale_2 = Some(9.0);
    bench.press("Generate");
    assert_eq!(bench.next_job().request.sampling.guidance_scale_2, None);
}

#[test]
fn a_guider_with_its_numbers_and_the_guided_part_are_chosen_where_there_is_guidance() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    for (guider, numbers) in [
        ("APG", &["APG eta", "Norm threshold", "Momentum"][..]),
        (
            "Skip layers",
            &["Skip scale", "Skipping from", "Skipping to"],
        ),
        ("CFG-Zero*", &["Zero-init steps"]),
    ] {
        choose(&mut bench, "Guider", guider);
        for name in numbers {
            bench.node(Role::SpinButton, name);
        }
    }
    let part = GuidanceRange {
        start: 0.2,
        end: 0.9,
    };
    bench.form().sampling.guidance_range = Some(part);
    bench.press("Generate");
    let sampling = bench.next_job().request.sampling;
    assert_eq!(sampling.guider, Guider::CfgZero { zero_steps: 1 });
    assert_eq!(sampling.guidance_range, part);
    for name in ["guider", "the guidance range"] {
        bench.press(&format!("Reset {name}"));
    }
    let sampling = bench.form().sampling;
    assert_eq!((sampling.guider, sampling.guidance_range), (None, None));
    // What cannot act is not shown.
    bench.form().sampling.guidance_scale = Some(1.0);
    bench.form().sampling.guidance_range = Some(part);
    bench.settle();
    assert!(!bench.has("Guidance range"));
}

#[test]
fn layers_are_skipped_without_guidance_too_and_blocks_are_typed() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    bench.form().sampling.guidance_scale = Some(1.0);
    bench.settle();
    choose(&mut bench, "Guider", "Skip layers");
    let field = |bench: &Bench| {
        let field = bench.node(Role::TextInput, "Blocks");
        field.value().expect("it has a text")
    };
    assert_eq!(field(&bench), "9");
    let blocks = |bench: &mut Bench| {
        let guider = bench.form().sampling.guider;
        guider.map_or_else(String::new, |guider| guider.to_string())
    };
    bench.node(Role::TextInput, "Blocks").focus();
    bench.settle();
    bench.node(Role::TextInput, "Blocks").type_text(",");
    bench.settle();
    // Half a list is none yet, and stays to be typed on.
    assert_eq!(field(&bench), "9,");
    assert_eq!(blocks(&mut bench), "slg:9:2.8:0.01-0.2");
    bench.node(Role::TextInput, "Blocks").type_text("12");
    bench.settle();
    assert_eq!(blocks(&mut bench), "slg:9,12:2.8:0.01-0.2");
    bench.press("Generate");
    let guider = bench.next_job().request.sampling.guider;
    assert_eq!(guider.to_string(), "slg:9,12:2.8:0.01-0.2");
}

#[test]
fn the_negative_prompt_is_shown_where_it_acts() {
    let mut bench = Bench::of(experts());
    bench.assert_shows("Negative prompt");
    let form = bench.form();
    (form.sampling.guidance_scale, form.sampling.guidance_scale_2) = (Some(1.0), Some(1.0));
    bench.settle();
    assert!(!bench.has("Negative prompt"));
    bench.form().sampling.guidance_scale_2 = Some(2.0);
    bench.settle();
    bench.assert_shows("Negative prompt");
}

#[test]
fn every_sampler_can_be_chosen() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    bench.scroll_to("Tiled VAE");
    for sampler in Sampler::ALL {
        bench.click(Role::ComboBox, "Sampler");
        let entries: Vec<_> = bench
            .harness
            .get_all_by_role_and_label(Role::Button, sampler.label())
            .collect();
        entries[0].click();
        bench.settle();
        let form = bench.form();
        assert_eq!(form.sampling_for(&spec()).sampler, sampler);
    }
}

#[test]
fn a_part_of_the_steps_and_the_vaes_tiles_reach_the_job() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    for name in ["Start step", "End step"] {
        bench.node(Role::SpinButton, name);
    }
    choose(&mut bench, "Tiled VAE", "512 px");
    let form = bench.form();
    (form.sampling.start_step, form.sampling.end_step) = (Some(3), Some(9));
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (request.sampling.start_step, request.sampling.end_step),
        (3, Some(9))
    );
    assert_eq!(request.vae_tile, Some(512));
}

#[test]
fn a_part_that_is_none_is_explained() {
    let mut bench = Bench::new();
    open_advanced(&mut bench);
    let form = bench.form();
    (form.sampling.start_step, form.sampling.end_step) = (Some(9), Some(9));
    bench.settle();
    bench.assert_shows("The start step must be below the end step 9");
}

/// The worker begins a stage, or tells a step of it.
fn begin(bench: &mut Bench, id: safelight_core::job::JobId, stage: Stage) {
    let resumed = false;
    bench.say(
        id,
        JobUpdate::Stage {
            stage,
            section: 0,
            resumed,
        },
    );
}

fn step(stage: Stage, step: u32, num_steps: u32) -> JobUpdate {
    JobUpdate::Step {
        stage,
        step,
        num_steps,
        secs_left: 60.0,
    }
}

#[test]
fn both_experts_count_on_in_one_row_of_steps() {
    // An engine may count over both, or in each.
    for (high, low) in [((2, 12), (7, 12)), ((2, 5), (2, 7))] {
        let mut bench = Bench::of(experts());
        let sent = bench.start_job();
        let mut last = 0.0;
        let mut progress = |bench: &mut Bench| {
            let now = bench.app().queue.running.as_ref().unwrap().progress();
            assert!(now >= last, "{now} after {last}");
            last = now;
        };
        begin(&mut bench, sent.id, Stage::EncodeVision);
        bench.assert_shows("Encoding the image (CLIP vision)");
        begin(&mut bench, sent.id, Stage::DenoiseHigh);
        progress(&mut bench);
        bench.say(sent.id, step(Stage::DenoiseHigh, high.0, high.1));
        bench.assert_shows("Denoising the composition  ·  2 of 12");
        bench.say(sent.id, sample(1.0, 500, 400, 400, 2048));
        bench.say(sent.id, sample(2.0, 600, 400, 400, 2048));
        progress(&mut bench);
        begin(&mut bench, sent.id, Stage::DenoiseLow);
        bench.assert_shows("Denoising the details  ·  2 of 12");
        progress(&mut bench);
        bench.say(sent.id, step(Stage::DenoiseLow, low.0, low.1));
        bench.assert_shows("Denoising the details  ·  7 of 12");
        progress(&mut bench);
        bench.say(sent.id, sample(4.0, 600, 400, 400, 2048));
        let time = StageTime {
            stage: Stage::DenoiseLow,
            section: 0,
            secs: 2.0,
        };
        bench.say(sent.id, JobUpdate::StageEnded(time));
        begin(&mut bench, sent.id, Stage::Decode);
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
    open_advanced(&mut bench);
    choose(&mut bench, "Second pass", "1.5×");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.width, request.height), (1536, 1536));
    assert_eq!(request.first_size(), (1024, 1024));
    assert_eq!(request.second_pass.unwrap().pass.strength, 0.4);
    choose(&mut bench, "Second pass", "4×");
    bench.assert_shows("choose a smaller size or scale");
    bench.press("Reset second pass");
    assert_eq!(bench.form().second_pass, None);
    let mut clips = Bench::of(experts());
    open_advanced(&mut clips);
    assert!(clips.has("Second pass"));
    let mut fixed = experts();
    fixed.limits.fixed_size = true;
    let mut fixed = Bench::of(fixed);
    open_advanced(&mut fixed);
    assert!(!fixed.has("Second pass"));
}
