//! Presets of every model and of the user, and fields that are put back one by one.

use safelight_core::job::{Sampler, StepCacheKind};

use crate::app_window::prelude::*;

fn file_of(bench: &Bench) -> std::path::PathBuf {
    Paths::under(bench.home.path()).presets_file()
}

fn press(bench: &mut Bench, name: &str) {
    bench.scroll_to(name);
    bench.press(name);
}

fn open_advanced(bench: &mut Bench) {
    bench.scroll_to("Advanced");
    bench.click_label("Advanced");
}

/// Puts the open menu away.
fn close_menu(bench: &mut Bench) {
    bench.press_key(Key::Escape);
}

fn type_into(bench: &mut Bench, name: &str, text: &str) {
    for _ in 0..2 {
        bench.node(Role::TextInput, name).focus();
        bench.settle();
    }
    bench.node(Role::TextInput, name).type_text(text);
    bench.settle();
}

#[test]
fn every_model_has_a_draft_its_own_way_and_a_final() {
    let mut bench = Bench::of(flux_spec());
    press(&mut bench, "Draft");
    let form = bench.form().clone();
    assert_eq!(
        (form.sampling.num_steps, form.size),
        (Some(14), SizeChoice::Custom)
    );
    assert_eq!((form.width, form.height), (Some(688), Some(688)));
    press(&mut bench, "Final");
    let form = bench.form().clone();
    assert_eq!(
        (form.sampling.num_steps, form.size),
        (Some(42), SizeChoice::Auto)
    );
    press(&mut bench, "Balanced");
    assert_eq!(bench.form().sampling.num_steps, Some(28));
    // A second click gives back what stood before the first.
    bench.form().sampling.num_steps = Some(20);
    bench.settle();
    press(&mut bench, "Draft");
    press(&mut bench, "Draft");
    assert_eq!(bench.form().sampling.num_steps, Some(28));
}

#[test]
fn a_draft_keeps_the_aspect_and_a_final_gives_it_its_full_size() {
    let mut bench = Bench::of(flux_spec());
    bench.form().size = SizeChoice::Aspect(16, 9);
    bench.settle();
    press(&mut bench, "Draft");
    let form = bench.form();
    assert!(
        form.width > form.height && form.width < Some(1000),
        "{form:?}"
    );
    press(&mut bench, "Balanced");
    assert_eq!(bench.form().size, SizeChoice::Aspect(16, 9));
}

#[test]
fn a_draft_of_a_size_of_ones_own_grows_to_full_size_and_a_smaller_one_stays() {
    let mut bench = Bench::of(flux_spec());
    let edges = |bench: &mut Bench| {
        let form = bench.form();
        assert_eq!(form.size, SizeChoice::Custom);
        form.width.zip(form.height).unwrap()
    };
    let form = bench.form();
    (form.size, form.width, form.height) = (SizeChoice::Custom, Some(1248), Some(592));
    bench.settle();
    press(&mut bench, "Draft");
    let (width, height) = edges(&mut bench);
    assert!(width < 1100 && height < 500, "{width} × {height}");
    press(&mut bench, "Balanced");
    let (width, height) = edges(&mut bench);
    assert!(width > 1300 && height > 600, "{width} × {height}");

    let form = bench.form();
    (form.width, form.height) = (Some(512), Some(384));
    bench.settle();
    press(&mut bench, "Draft");
    assert_eq!(edges(&mut bench), (512, 384));
}

#[test]
fn a_draft_in_sections_skips_steps_and_a_final_does_not() {
    let mut bench = Bench::of(framepack_spec());
    press(&mut bench, "Draft");
    let cache = bench.form().step_cache;
    assert_eq!(cache.map(|cache| cache.kind), Some(StepCacheKind::TeaCache));
    press(&mut bench, "Final");
    assert_eq!(bench.form().step_cache, None);
}

#[test]
fn a_preset_of_ones_own_is_saved_applied_updated_renamed_and_deleted() {
    let mut bench = Bench::of(flux_spec());
    bench.form().sampling.num_steps = Some(33);
    bench.form().sampling.sampler = Some(Sampler::Heun);
    bench.settle();
    press(&mut bench, "Preset menu");
    type_into(&mut bench, "Preset name", "Ink & paper");
    bench.press("Save preset");
    bench.until("it is kept", |bench| bench.app().presets.list.len() == 1);
    let file = file_of(&bench);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("name = \"Ink & paper\"") && text.contains("steps = 33"),
        "{text}"
    );

    close_menu(&mut bench);
    press(&mut bench, "Balanced");
    assert_eq!(bench.form().sampling.num_steps, Some(28));
    press(&mut bench, "Ink & paper");
    let form = bench.form();
    assert_eq!(
        (form.sampling.num_steps, form.sampling.sampler),
        (Some(33), Some(Sampler::Heun))
    );

    bench.form().sampling.num_steps = Some(35);
    bench.settle();
    press(&mut bench, "Preset menu");
    bench.press("Update preset Ink & paper");
    bench.until("it is updated", |bench| {
        bench.app().presets.list[0].values.sampling.num_steps == Some(35)
    });
    bench.press("Rename preset Ink & paper");
    type_into(&mut bench, "New preset name", " 2");
    bench.press("Rename");
    bench.until("it is renamed", |bench| {
        bench.app().presets.list[0].name.contains('2')
    });
    let name = bench.app().presets.list[0].name.clone();
    bench.press(&format!("Delete preset {name}"));
    bench.until("it is gone", |bench| bench.app().presets.list.is_empty());
    assert!(!fs::read_to_string(&file).unwrap().contains("[[preset]]"));
}

#[test]
fn a_broken_file_of_presets_is_named_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path());
    fs::create_dir_all(&paths.config).unwrap();
    let broken = "[[preset]]\nname = = 1\n";
    fs::write(paths.presets_file(), broken).unwrap();
    let file = paths.presets_file();
    let mut bench = Bench::with(|startup| {
        startup.paths = Some(paths);
    });
    bench.wait_for("Line 2, column 8 of the presets");
    bench.press("Dismiss");
    press(&mut bench, "Preset menu");
    type_into(&mut bench, "Preset name", "New");
    bench.press("Save preset");
    bench.wait_for("The old one is kept");
    assert!(fs::read_to_string(&file).unwrap().contains("New"));
    let aside = file.with_file_name("presets.broken-1.toml");
    assert_eq!(fs::read_to_string(aside).unwrap(), broken);
}

#[test]
fn a_field_is_put_back_by_the_button_beside_it() {
    let mut bench = Bench::of(pair_spec());
    let before = bench.form().clone();
    open_advanced(&mut bench);
    let none = |bench: &Bench| bench.harness.query_all_by_label_contains("Reset ").count();
    // The button for all of them is always there.
    assert_eq!(none(&bench), 1);
    let form = bench.form();
    form.size = SizeChoice::Aspect(1, 1);
    form.num_frames = Some(33);
    form.batch_size = Some(3);
    form.sampling.num_steps = Some(20);
    (form.sampling.start_step, form.sampling.end_step) = (Some(2), Some(9));
    (form.sampling.guidance_scale, form.sampling.guidance_scale_2) = (Some(5.0), Some(2.0));
    form.sampling.sampler = Some(Sampler::Lcm);
    form.sampling.sigma_schedule = Some(safelight_core::job::SigmaSchedule::Karras);
    form.sampling.shift = None;
    form.fps = Some(24.0);
    form.vae_tile = Some(256);
    bench.settle();
    for name in [
        "size",
        "length",
        "how many",
        "steps",
        "the part of the steps",
        "guidance",
        "sampler",
        "schedule",
        "shift",
        "frame rate",
        "tiles",
    ] {
        press(&mut bench, &format!("Reset {name}"));
    }
    assert_eq!(none(&bench), 1);
    assert_eq!(bench.app().cx.form, before);
}

#[test]
fn fields_of_other_models_are_put_back_too() {
    let mut bench = Bench::of(framepack_spec());
    open_advanced(&mut bench);
    let form = bench.form();
    form.secs = Some(9.0);
    form.section_order = Some(safelight_core::job::SectionOrder::F1);
    form.step_cache = Some(StepCacheKind::MagCache.into());
    form.sampling.guidance_scale = Some(3.0);
    form.sampling.true_cfg_scale = Some(2.0);
    bench.settle();
    for name in ["length", "order", "step cache", "guidance", "CFG scale"] {
        let button = format!("Reset {name}");
        press(&mut bench, &button);
        let left = bench.harness.query_by_role_and_label(Role::Button, &button);
        assert!(
            left.is_none_or(|node| node.accesskit_node().is_hidden()),
            "{name}"
        );
    }
}
