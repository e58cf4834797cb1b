//! Settings from files: dropped, offered on a card, and told where they cannot be taken over.

use safelight::window::commands::RestoreCommand;
use safelight_core::job::SigmaSchedule;

use crate::app_window::prelude::*;

const FORGE: &str = "a fox <lora:ink:0.5>\nNegative prompt: fog\nSteps: 9, Sampler: Heun, Schedule type: Beta, CFG scale: 1, Distilled CFG Scale: 2.5, Seed: 77, Size: 640x832, Model: flux1-dev-fp8, Version: f2";

fn bench() -> Bench {
    Bench::of_models(vec![spec(), flux_spec(), framepack_spec(), pair_spec()])
}

/// An image with a text called `parameters` in it.
fn image_with(bench: &Bench, name: &str, text: &str) -> PathBuf {
    let path = bench.image_file(name, 32, 16);
    let plain = fs::read(&path).expect("it was written");
    let data = [b"parameters\0\0\0\0\0".as_slice(), text.as_bytes()].concat();
    let len = (data.len() as u32).to_be_bytes();
    // Nobody looks at the checksum of a text.
    let chunk = [len.as_slice(), b"iTXt", &data, &[0; 4]].concat();
    // Behind the signature and the head.
    let (head, rest) = plain.split_at(33);
    fs::write(&path, [head, &chunk, rest].concat()).expect("it is written");
    path
}

fn use_file(bench: &mut Bench, path: &Path) {
    bench.push(RestoreCommand::Use(path.to_path_buf()));
    bench.harness.ctx.request_repaint();
}

fn taken_over(bench: &mut Bench, steps: u32) {
    bench.until("it is taken over", |bench| {
        bench.form().sampling.num_steps == Some(steps)
    });
}

#[test]
fn image_with_foreign_settings_becomes_the_start_image_and_offers_them() {
    let mut bench = bench();
    let path = image_with(&bench, "fox.png", FORGE);
    bench.drop_file(&path);
    bench.wait_for("Start image fox.png|Fox.png was made with Forge");
    assert_eq!(bench.form().prompt, "");
    bench.press("Use settings");
    taken_over(&mut bench, 9);
    let form = bench.form().clone();
    let texts = (
        form.model.as_deref(),
        &*form.prompt,
        form.negative_prompt.as_deref(),
    );
    assert_eq!(texts, (Some("flux"), "a fox", Some("fog")));
    let sampling = &form.sampling;
    let expected = (Some(SamplerKind::Heun), Some(SigmaSchedule::Beta));
    assert_eq!((sampling.sampler, sampling.sigma_schedule), expected);
    let expected = (Some(2.5), Some(1.0));
    assert_eq!((sampling.guidance_scale, sampling.true_cfg_scale), expected);
    assert_eq!(form.size, SizeChoice::Custom);
    assert_eq!((form.width, form.height), (Some(640), Some(832)));
    assert_eq!((form.seed, form.seed_mode), (77, SeedMode::Fixed));
    // It was made from words alone.
    assert!(bench.app().inputs.is_empty());
    bench.assert_hides("Use settings");
    bench.assert_shows("flux1-dev-fp8, which is not on this computer: Flux is used instead");
}

#[test]
fn too_large_seed_is_reported_and_the_form_seed_stays() {
    let mut bench = bench();
    bench.form().set_seed(5);
    let text = FORGE.replace("Seed: 77", "Seed: 99999999999999999999");
    let path = bench.text_file("fox.txt", &text);
    use_file(&mut bench, &path);
    taken_over(&mut bench, 9);
    bench.assert_shows("Its seed, 99999999999999999999, is too large");
    assert_eq!(bench.form().seed, 5);
}

#[test]
fn named_size_is_restored_by_name_even_with_an_image_of_another_shape() {
    let mut bench = bench();
    let path = bench.text_file("fox.txt", &FORGE.replace("640x832", "1024x1024"));
    use_file(&mut bench, &path);
    taken_over(&mut bench, 9);
    assert_eq!(bench.form().size, SizeChoice::Auto);

    let mut bench = self::bench();
    bench.form().model = Some("flux".into());
    bench.drop_image("boat.png", 96, 32, "Start image boat.png");
    use_file(&mut bench, &path);
    taken_over(&mut bench, 9);
    assert!(bench.has("Start image boat.png"));
    assert_eq!(bench.form().size, SizeChoice::Own);
    let size = bench.node(Role::ComboBox, "Size").value();
    assert_eq!(size.as_deref(), Some("The model's own  1024 × 1024"));
    let request = bench.request();
    assert_eq!((request.width, request.height), (1024, 1024));
}

#[test]
fn a_json_file_that_is_dropped_restores_at_once() {
    let mut bench = bench();
    let text = r#"{"type": "WanGP v9 by DeepBeepMeep - Pair", "prompt": "waves", "resolution": "256x320", "video_length": 33, "seed": 5, "num_inference_steps": 7, "guidance_scale": 2, "guidance2_scale": 1, "guidance_phases": 2, "flow_shift": 4, "sample_solver": "dpm++"}"#;
    let path = bench.text_file("video.json", text);
    bench.drop_file(&path);
    bench.until_prompt("waves");
    let form = bench.form().clone();
    assert_eq!(form.model.as_deref(), Some("pair"));
    let sampling = &form.sampling;
    assert_eq!((form.num_frames, sampling.num_steps), (Some(33), Some(7)));
    let guidance = (sampling.guidance_scale, sampling.guidance_scale_2);
    assert_eq!(guidance, (Some(2.0), Some(1.0)));
    let expected = (Some(4.0), Some(SamplerKind::DpmPp2mDiffusers));
    assert_eq!((sampling.shift, sampling.sampler), expected);
    assert_eq!((form.width, form.height), (Some(256), Some(320)));
    assert!(bench.app().inputs.is_empty());
    // Nothing was left out.
    bench.assert_shows("The settings of video.json (Wan2GP) are in the form");
    bench.assert_hides("Not all settings of");
    bench.press("Undo");
    assert_eq!(bench.form().prompt, "");
    assert_eq!(bench.form().model.as_deref(), Some("little-world"));
    bench.assert_hides("The settings of video.json");
}

#[test]
fn our_own_file_brings_everything_back_and_names_a_model_that_is_gone() {
    let mut bench = bench();
    bench.write_prompt("a lighthouse");
    let sent = bench.start_job();
    let mut request = serde_json::to_value(&sent.request).unwrap();
    request["num_steps"] = 5.into();
    let written = |bench: &Bench, name: &str, request: &serde_json::Value| {
        let path = bench.home.path().join(name);
        write_made(&path, [64, 64], 1, 8.0, Some(made_with(request)));
        path
    };
    let path = written(&bench, "ours.png", &request);
    bench.form().prompt = "something else".into();
    use_file(&mut bench, &path);
    taken_over(&mut bench, 5);
    assert_eq!(bench.form().prompt, "a lighthouse");
    bench.assert_hides("Not all settings of");

    request["model"] = "wan9-gone".into();
    request["num_steps"] = 6.into();
    let path = written(&bench, "gone.png", &request);
    use_file(&mut bench, &path);
    taken_over(&mut bench, 6);
    bench.assert_shows("wan9-gone, which is not on this computer");
}

#[test]
fn file_without_settings_and_missing_file_are_reported() {
    let mut bench = bench();
    let path = bench.text_file("other.json", "{\"a\": 1}");
    bench.drop_until(&path, "The file other.json does not say how it was made");
    use_file(&mut bench, Path::new("/nowhere/a.png"));
    bench.wait_for("does not exist: /nowhere/a.png");
    assert_eq!(bench.form().prompt, "");
}

#[test]
fn a_model_of_another_family_leaves_the_chosen_one_and_its_loras_are_reported() {
    let mut bench = bench();
    let folder = bench.paths().models().join("loras");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("ink.safetensors"), b"").expect("it is written");
    let text = "a fox <lora:ink:0.5>\nSteps: 20, Sampler: DDIM CFG++, CFG scale: 7, Seed: 3, Size: 512x512, Model: sd_xl_base_1.0";
    let path = bench.text_file("fox.txt", text);
    bench.drop_file(&path);
    bench.until_prompt("a fox");
    let form = bench.form().clone();
    assert_eq!(form.model.as_deref(), Some("little-world"));
    // Numbers that mean something to that family alone.
    let own = spec().defaults.sampling;
    let sampling = form.sampling_for(&spec());
    assert_eq!(sampling.num_steps, own.num_steps);
    assert_eq!(sampling.guidance_scale, own.guidance_scale);
    assert_eq!(form.seed, 3);
    assert!(form.loras.is_empty());
    bench.assert_shows("no model of that family is here. Little World stays selected");
    bench.assert_shows("Its LoRAs, which are for that family, are left out: ink (0.5)");
    bench.assert_shows("Safelight has no sampler DDIM CFG++|is none that Little World makes");
}

#[test]
fn a_hires_fix_is_restored_as_the_second_pass_and_no_order_of_sections_for_a_model_of_another_one()
{
    let mut bench = bench();
    let hires = "Denoising strength: 0.35, Hires upscale: 1.5, Version";
    let path = bench.text_file("fox.txt", &FORGE.replace("Version", hires));
    bench.drop_file(&path);
    taken_over(&mut bench, 9);
    let pass = bench.form().second_pass.expect("a second pass");
    assert_eq!((pass.scale, pass.strength), (1.5, 0.35));
    assert_eq!(bench.form().sampling.strength, None);
    let text = r#"{"prompt": "a dancer", "negative_prompt": "", "seed": 9, "steps": 21, "total_second_length": 4.0, "cfg": 1.0, "gs": 10.0, "rs": 0.0, "model_type": "F1", "resolutionW": 640, "resolutionH": 608}"#;
    let path = bench.text_file("dance.json", text);
    bench.drop_file(&path);
    taken_over(&mut bench, 21);
    let form = bench.form().clone();
    assert_eq!(form.model.as_deref(), Some("framepack"));
    assert_eq!(form.section_order, None);
}

#[test]
fn a_plain_image_offers_nothing_and_the_menu_of_presets_a_file() {
    let mut bench = bench();
    bench.drop_image("boat.png", 64, 64, "Start image boat.png");
    bench.assert_no_job();
    bench.assert_hides("Use settings");
    bench.scroll_and_press("Preset menu");
    bench.node(Role::Button, "From a file…");
}

#[test]
fn start_image_is_kept_when_its_settings_are_from_img2img() {
    let mut bench = bench();
    let text = FORGE.replace("Version", "Denoising strength: 0.5, Version");
    let path = image_with(&bench, "fox.png", &text);
    bench.drop_file(&path);
    bench.wait_for("Start image fox.png|was made with Forge");
    bench.press("Use settings");
    taken_over(&mut bench, 9);
    assert!(bench.app().inputs.get(InputSlot::Start).is_some());
}

#[test]
fn cards_that_are_not_true_any_more_go() {
    let mut bench = bench();
    let path = image_with(&bench, "one.png", FORGE);
    bench.drop_until(&path, "One.png was made with Forge");
    bench.drop_image("other.png", 64, 64, "Start image other.png");
    bench.assert_hides("One.png was made");
    for name in ["a", "b"] {
        let text = FORGE.replace("a fox", name);
        let path = bench.text_file(&format!("{name}.txt"), &text);
        bench.drop_file(&path);
        bench.until_prompt(name);
    }
    bench.assert_shows("Not all settings of b.txt (Forge) could be used");
    bench.assert_hides("settings of a.txt");
}

const LITERAL: &str = "Literal text: choices and wildcards are not expanded";

#[test]
fn a_restored_prompt_is_literal_until_it_is_edited_or_used_as_a_template() {
    let mut bench = bench();
    let text = FORGE.replace("a fox <lora:ink:0.5>", "a {red|red} fox, __place__");
    let text = text.replace("prompt: fog", "prompt: {fog|fog}");
    let path = bench.text_file("fox.txt", &text);
    use_file(&mut bench, &path);
    taken_over(&mut bench, 9);
    bench.form().sampling.true_cfg_scale = Some(4.0);
    bench.assert_shows(LITERAL);
    let request = bench.request();
    assert_eq!(request.prompt, "a {red|red} fox, __place__");
    assert_eq!(request.negative_prompt, "{fog|fog}");
    bench.press("Use negative prompt as template");
    bench.write_prompt(" {at|at} sea");
    bench.settle();
    assert!(!bench.has(LITERAL));
    // The history keeps the text that was submitted, and that it is literal.
    bench.press_until("Earlier prompts", "Use: a {red|red} fox");
    bench.press("Use: a {red|red} fox, __place__");
    bench.assert_shows(LITERAL);
    bench.press("Use as template");
    bench.assert_hides("Use as template");
}

#[test]
fn a_waiting_job_is_edited_as_the_template_or_the_literal_text_that_it_was_made_from() {
    let mut bench = bench();
    bench.start_job();
    for is_literal in [false, true] {
        let text = "a {red|red} boat".to_owned();
        if is_literal {
            bench.form().set_literal_prompt(text);
        } else {
            bench.form().prompt = text;
        }
        bench.press("Generate");
        let id = bench.app().queue.waiting.back().expect("it waits").id;
        bench.form().prompt = "another".into();
        bench.run(QueueCommand::Edit(id));
        assert_eq!(bench.form().prompt, "a {red|red} boat");
        assert_eq!(bench.has(LITERAL), is_literal);
        bench.run(QueueCommand::CancelEdit);
    }
}

#[test]
fn a_result_of_a_literal_prompt_is_restored_literal_and_repeated_to_the_letter() {
    let mut bench = bench();
    let text = "a {red|blue} boat /* at sea */";
    bench.form().set_literal_prompt(text.into());
    let sent = bench.start_job();
    assert_eq!(sent.request.prompt, text);
    bench.finish_job(&sent, 5);
    bench.form().prompt = "another".into();
    bench.press_more("Use settings");
    bench.wait_for(LITERAL);
    assert_eq!(bench.request().prompt, text);
}

#[test]
fn a_file_that_names_no_prompt_asks_for_one_below_the_empty_field() {
    let mut bench = bench();
    bench.form().set_literal_prompt(String::new());
    bench.settle();
    bench.assert_shows("The file names no prompt: write one");
    bench.write_prompt("a fox");
    bench.assert_hides("The file names no prompt");
}

#[test]
fn unreadable_prompt_clears_the_field_and_is_reported() {
    let mut bench = bench();
    bench.write_prompt("an old prompt");
    let graph = r#"{
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-dev.safetensors"}},
        "2": {"class_type": "OllamaGenerate", "inputs": {"prompt": "describe a barn", "model": "llama3"}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": ["2", 0]}},
        "4": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 11, "model": ["1", 0], "positive": ["3", 0]}}
    }"#;
    let path = bench.text_file("barn.json", graph);
    bench.drop_file(&path);
    taken_over(&mut bench, 11);
    assert_eq!(bench.form().prompt, "");
    bench.assert_shows("The prompt could not be read: node 2 (OllamaGenerate) makes it");
}
