//! Presets of every model and of the user, and fields that are put back one by one.

use safelight_core::job::{ChosenLora, SigmaSchedule, StepCacheKind};

use crate::app_window::prelude::*;

fn type_into(bench: &mut Bench, name: &str, text: &str) {
    bench.node(Role::TextInput, name).focus();
    bench.settle();
    bench.focus_and_type(Role::TextInput, name, text);
}

fn num_steps(bench: &mut Bench) -> Option<u32> {
    bench.form().sampling.num_steps
}

#[test]
fn draft_balanced_and_final_presets_adapt_to_each_model() {
    let mut bench = Bench::of(flux_spec());
    bench.scroll_and_press("Draft");
    let form = bench.form().clone();
    assert_eq!(form.sampling.num_steps, Some(14));
    assert_eq!(form.size, SizeChoice::Custom);
    assert_eq!((form.width, form.height), (Some(688), Some(688)));
    bench.scroll_and_press("Final");
    assert_eq!(num_steps(&mut bench), Some(42));
    assert_eq!(bench.form().size, SizeChoice::Auto);
    bench.scroll_and_press("Balanced");
    assert_eq!(num_steps(&mut bench), Some(28));
    // A second click gives back what stood before the first.
    bench.edit(|form| form.sampling.num_steps = Some(20));
    bench.scroll_and_press("Draft");
    bench.scroll_and_press("Draft");
    assert_eq!(num_steps(&mut bench), Some(28));
    // With sections it skips steps, and a final one does not.
    let mut bench = Bench::of(framepack_spec());
    bench.scroll_and_press("Draft");
    let cache = bench.form().options.step_cache;
    assert_eq!(cache.map(|cache| cache.kind), Some(StepCacheKind::TeaCache));
    bench.scroll_and_press("Final");
    assert_eq!(bench.form().options.step_cache, None);
}

#[test]
fn a_draft_keeps_the_aspect_and_a_final_gives_it_its_full_size_also_a_size_of_ones_own() {
    let mut bench = Bench::of(flux_spec());
    let edges = |bench: &mut Bench, choice: &str| {
        bench.scroll_and_press(choice);
        let form = bench.form();
        form.width.zip(form.height).unwrap()
    };
    bench.edit(|form| form.size = SizeChoice::Aspect(16, 9));
    let (width, height) = edges(&mut bench, "Draft");
    assert!(width > height && width < 1000, "{width} × {height}");
    bench.scroll_and_press("Balanced");
    assert_eq!(bench.form().size, SizeChoice::Aspect(16, 9));
    bench.set_size(1248, 592);
    let (width, height) = edges(&mut bench, "Draft");
    assert!(width < 1100 && height < 500, "{width} × {height}");
    let (width, height) = edges(&mut bench, "Balanced");
    assert!(width > 1300 && height > 600, "{width} × {height}");
    assert_eq!(bench.form().size, SizeChoice::Custom);
    // A smaller one stays.
    bench.set_size(512, 384);
    assert_eq!(edges(&mut bench, "Draft"), (512, 384));
}

#[test]
fn a_preset_of_ones_own_is_saved_applied_updated_renamed_and_deleted() {
    let mut bench = Bench::of(flux_spec());
    bench.form().sampling.num_steps = Some(33);
    bench.edit(|form| form.sampling.sampler = Some(SamplerKind::Heun));
    bench.scroll_and_press("Preset menu");
    type_into(&mut bench, "Preset name", "Ink & paper");
    bench.press("Save preset");
    bench.until("it is kept", |bench| bench.app().presets.list.len() == 1);
    let file = bench.paths().presets_file();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("name = \"Ink & paper\""), "{text}");
    assert!(text.contains("steps = 33"), "{text}");

    bench.press_key(Key::Escape);
    bench.scroll_and_press("Balanced");
    assert_eq!(num_steps(&mut bench), Some(28));
    bench.scroll_and_press("Ink & paper");
    assert_eq!(num_steps(&mut bench), Some(33));
    assert_eq!(bench.form().sampling.sampler, Some(SamplerKind::Heun));

    bench.edit(|form| form.sampling.num_steps = Some(35));
    bench.scroll_and_press("Preset menu");
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
fn a_preset_holds_prompts_and_loras_if_wanted_and_gives_back_what_it_replaced() {
    let mut bench = Bench::of(flux_spec());
    let ink = ChosenLora::new("/loras/ink.safetensors".into());
    bench.edit(|form| {
        form.prompt = "an ink boat".to_owned();
        form.loras = vec![ink.clone()];
    });
    for (name, boxes) in [
        ("Plain", &[][..]),
        ("Ink", &["Save the prompts, too", "Save the LoRAs, too"]),
    ] {
        bench.scroll_and_press("Preset menu");
        for name in boxes {
            bench.click(Role::CheckBox, name);
        }
        type_into(&mut bench, "Preset name", name);
        bench.press("Save preset");
        bench.until("it is kept", |bench| {
            let list = &bench.app().presets.list;
            list.iter().any(|preset| preset.name == name)
        });
        bench.press_key(Key::Escape);
    }
    bench.edit(|form| {
        form.prompt = "a hill".to_owned();
        form.loras.clear();
        form.sampling.num_steps = Some(9);
    });
    bench.scroll_and_press("Plain");
    assert_eq!(bench.form().prompt, "a hill");
    bench.scroll_and_press("Ink");
    assert_eq!(bench.form().prompt, "an ink boat");
    assert_eq!(bench.form().loras, [ink]);
    bench.assert_shows("Preset Ink is applied, with the prompts and 1 LoRA");
    bench.press("Undo");
    assert_eq!(bench.form().prompt, "a hill");
    assert!(bench.form().loras.is_empty());
    // A second click gives back what the first one took.
    bench.scroll_and_press("Ink");
    bench.scroll_and_press("Ink");
    assert_eq!(bench.form().prompt, "a hill");
    bench.undo();
    assert_eq!(bench.form().prompt, "an ink boat");
}

#[test]
fn a_broken_file_of_presets_is_named_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let paths = AppPaths::under(home.path());
    fs::create_dir_all(&paths.config).unwrap();
    let broken = "[[preset]]\nname = = 1\n";
    fs::write(paths.presets_file(), broken).unwrap();
    let file = paths.presets_file();
    let mut bench = Bench::with(|startup| startup.paths = Some(paths));
    bench.wait_for("Line 2, column 8 of the presets");
    bench.press("Dismiss");
    bench.scroll_and_press("Preset menu");
    type_into(&mut bench, "Preset name", "New");
    bench.press_until("Save preset", "The old one is kept");
    assert!(fs::read_to_string(&file).unwrap().contains("New"));
    let aside = file.with_file_name("presets.broken-1.toml");
    assert_eq!(fs::read_to_string(aside).unwrap(), broken);
}

#[test]
fn each_changed_field_is_reset_by_its_own_button() {
    let mut bench = Bench::of(pair_spec());
    let before = bench.form().clone();
    bench.open_advanced();
    // The button for all of them is always there.
    assert_eq!(bench.count("Reset "), 1);
    let form = bench.form();
    form.size = SizeChoice::Aspect(1, 1);
    (form.num_frames, form.batch_size) = (Some(33), Some(3));
    (form.fps, form.options.vae_tile) = (Some(24.0), Some(256));
    let sampling = &mut form.sampling;
    sampling.num_steps = Some(20);
    (sampling.start_step, sampling.end_step) = (Some(2), Some(9));
    (sampling.guidance_scale, sampling.guidance_scale_2) = (Some(5.0), Some(2.0));
    sampling.sampler = Some(SamplerKind::Lcm);
    sampling.sigma_schedule = Some(SigmaSchedule::Karras);
    sampling.shift = None;
    bench.settle();
    for name in [
        "size",
        "length",
        "batch",
        "steps",
        "the part of the steps",
        "guidance",
        "sampler",
        "schedule",
        "shift",
        "frame rate",
        "tiles",
    ] {
        bench.scroll_and_press(&format!("Reset {name}"));
    }
    assert_eq!(bench.count("Reset "), 1);
    assert_eq!(bench.app().cx.form, before);

    let mut bench = Bench::of(framepack_spec());
    bench.open_advanced();
    let form = bench.form();
    form.secs = Some(9.0);
    form.section_order = Some(safelight_core::job::SectionOrder::F1);
    form.options.step_cache = Some(StepCacheKind::MagCache.into());
    form.sampling.guidance_scale = Some(3.0);
    form.sampling.true_cfg_scale = Some(2.0);
    bench.settle();
    for name in ["length", "order", "step cache", "guidance", "CFG scale"] {
        let button = format!("Reset {name}");
        bench.scroll_and_press(&button);
        let left = bench.harness.query_by_role_and_label(Role::Button, &button);
        assert!(left.is_none_or(|node| node.accesskit_node().is_hidden()));
    }
}
