//! LoRAs of the form: found, fitted, weighed, dropped, and what a job says of them.

use safelight::window::commands::LorasCommand;
use safelight_core::fitting::LoraFit;
use safelight_core::formats::weights::WeightSet;
use safelight_core::job::{ChosenLora, LoraChoice};
use safelight_core::lora::{CheckedLora, LoraCoverage};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::app_window::prelude::*;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/little-world/transformer")
}

fn with_weights(mut spec: ModelSpec) -> ModelSpec {
    spec.files.transformer = model();
    spec
}

fn write(path: &Path, layers: &[(String, [usize; 2])]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    let zeros = vec![0; 4 << 20];
    let mut views = Vec::new();
    for (layer, [output, input]) in layers {
        for (part, shape) in [("lora_A", [2, *input]), ("lora_B", [*output, 2])] {
            let bytes = &zeros[..shape[0] * shape[1] * 4];
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes).expect("whole numbers");
            views.push((format!("{layer}.{part}.weight"), view));
        }
    }
    let notes = [("modelspec.trigger_phrase".to_owned(), "b0at".to_owned())];
    safetensors::serialize_to_file(views, Some(notes.into()), path).expect("it is written");
}

/// A LoRA for every attention of the tiny model.
fn write_fitting(path: &Path) {
    let model = WeightSet::open(&model()).expect("the tiny model");
    let layers = model.tensors.iter().filter_map(|(key, entry)| {
        let layer = key.strip_suffix(".weight")?;
        let sizes = [entry.shape[0] as usize, *entry.shape.get(1)? as usize];
        let is_attention = layer.contains(".to_");
        is_attention.then(|| (format!("transformer.{layer}"), sizes))
    });
    write(path, &layers.collect::<Vec<_>>());
}

fn write_flux(path: &Path) {
    let layer = "transformer.single_transformer_blocks.37.attn.to_q".to_owned();
    write(path, &[(layer, [3072, 3072])]);
}

/// A window of the tiny model with two LoRAs on its disk, of which one is for Flux.
fn bench_of(spec: ModelSpec) -> Bench {
    let bench = Bench::of(with_weights(spec));
    write_fitting(&lora_path(&bench, "sea"));
    write_flux(&lora_path(&bench, "flux hair"));
    bench
}

fn bench() -> Bench {
    bench_of(spec())
}

fn lora_path(bench: &Bench, name: &str) -> PathBuf {
    let models = bench.paths().models();
    models.join(format!("loras/{name}.safetensors"))
}

fn add(bench: &mut Bench) {
    bench.press("Add LoRA");
    // Until all are known, their order changes.
    bench.until("all are listed", |bench| {
        bench.has("sea") && !bench.app().loras.is_looking()
    });
    bench.press_until("sea", "Remove sea");
    bench.press("Done");
}

#[test]
fn escape_closes_only_the_lora_list() {
    let mut bench = bench();
    bench.run(AppCommand::Show(MainPage::Gallery));
    bench.press_until("Add LoRA", "sea");
    bench.press_key(Key::Escape);
    assert!(!bench.app().loras.is_open);
    assert_eq!(bench.app().cx.page, MainPage::Gallery);
    bench.press_key(Key::Escape);
    assert_eq!(bench.app().cx.page, MainPage::Watch);
}

#[test]
fn installed_loras_are_listed_and_those_for_other_models_are_disabled() {
    let mut bench = bench();
    bench.press("Add LoRA");
    bench.until("all are listed", |bench| {
        bench.has("flux hair") && !bench.app().loras.is_looking()
    });
    assert!(!bench.is_disabled("sea") && bench.is_disabled("flux hair"));
    let other = &bench.app().loras.found[1];
    assert!(matches!(&other.fit, LoraFit::No(why) if why.contains("this LoRA is for Flux")));
    bench.click(Role::CheckBox, "Only those for Little World");
    bench.assert_hides("flux hair");
    bench.type_into("Search LoRAs", "mountain");
    bench.assert_shows("No matches");
}

#[test]
fn a_chosen_lora_goes_with_the_job_unless_it_is_switched_off() {
    let mut bench = bench();
    add(&mut bench);
    bench.edit(|form| form.loras[0].strength = 0.8);
    bench.labelled("Strength of sea");
    let expected = LoraChoice {
        path: lora_path(&bench, "sea"),
        strength: 0.8,
        strength_2: None,
    };
    assert_eq!(bench.request().loras, [expected]);
    bench.click_label("Use sea");
    assert!(bench.request().loras.is_empty());
    bench.press("Remove sea");
    assert!(bench.form().loras.is_empty());
}

#[test]
fn a_model_of_two_experts_has_a_strength_for_each() {
    let mut bench = bench_of(experts_spec());
    add(&mut bench);
    bench.labelled("Strength of sea, high noise");
    bench.labelled("Strength of sea, low noise");
    let lora = &mut bench.form().loras[0];
    (lora.strength, lora.strength_2) = (0.5, Some(1.5));
    bench.settle();
    let [sent] = &bench.request().loras[..] else {
        panic!("one LoRA is sent")
    };
    assert_eq!((sent.strength, sent.strength_2), (0.5, Some(1.5)));
}

#[test]
fn a_word_that_it_was_trained_on_is_written_into_the_prompt() {
    let mut bench = bench();
    bench.edit(|form| form.prompt = "an image of".into());
    add(&mut bench);
    bench.press("Insert word: b0at");
    assert_eq!(bench.form().prompt, "an image of b0at");
}

#[test]
fn a_dropped_lora_is_added_and_one_for_another_model_is_refused_in_a_sentence() {
    let mut bench = bench();
    let path = lora_path(&bench, "sea");
    bench.drop_until(&path, "Remove sea");
    let path = lora_path(&bench, "flux hair");
    bench.drop_until(&path, "This LoRA is for Flux, not for Wan");
    assert_eq!(bench.form().loras.len(), 1);
}

#[test]
fn number_of_used_lora_keys_is_shown_for_a_job() {
    let mut bench = bench();
    add(&mut bench);
    let sent = bench.start_job();
    let checked = CheckedLora {
        lora: sent.request.loras[0].clone(),
        coverage: LoraCoverage {
            total: 400,
            applied: 312,
            ..LoraCoverage::default()
        },
    };
    bench.say(sent.id, JobUpdate::Lora(checked));
    bench.assert_shows("312 of 400 keys used");
}

#[test]
fn a_lora_whose_file_is_gone_is_named_and_nothing_is_sent_with_it() {
    let mut bench = bench();
    let gone = bench.home.path().join("gone.safetensors");
    bench.form().loras = vec![ChosenLora::new(gone)];
    bench.wait_for("Its file is gone|The file of the LoRA gone is gone");
    assert!(bench.is_disabled("Generate"));
    // As keys and the palette do it.
    bench.push(QueueCommand::Submit);
    bench.assert_no_job();
    bench.click_label("Use gone");
    assert!(bench.request().loras.is_empty());
}

#[test]
fn the_settings_of_a_result_bring_its_loras_back() {
    let mut bench = bench();
    add(&mut bench);
    bench.form().loras[0].strength = -0.5;
    bench.make_video(5);
    bench.form().loras.clear();
    bench.settle();
    bench.press_more("Use settings");
    let loras = &bench.form().loras;
    assert_eq!((loras.len(), loras[0].strength), (1, -0.5));
}

#[test]
fn a_lora_that_was_looked_at_for_another_model_is_looked_at_again() {
    let mut bench = Bench::of_models(vec![with_weights(spec()), flux_spec()]);
    let path = lora_path(&bench, "sea");
    write_fitting(&path);
    bench.push(LorasCommand::Add(vec![path]));
    bench.push(LibraryCommand::Choose("flux".into()));
    bench.until_card();
    assert!(bench.form().loras.is_empty());
}

#[test]
fn a_lora_of_few_steps_offers_its_preset_which_one_click_sets() {
    let mut spec = spec();
    spec.presets = pair_spec().presets;
    spec.presets[0].lora_strength = Some(0.5);
    spec.presets[0].loras = vec!["sea".into()];
    let mut bench = bench_of(spec);
    bench.assert_hides("Use the preset Fast 4 steps");
    add(&mut bench);
    bench.assert_shows("was made for 4 steps");
    bench.press("Use the preset Fast 4 steps");
    bench.assert_hides("Use the preset Fast 4 steps");
    let request = bench.request();
    let sampling = request.sampling;
    assert_eq!((sampling.num_steps, sampling.guidance_scale), (4, 1.0));
    assert_eq!(sampling.shift, Some(5.0));
    assert_eq!(request.loras[0].strength, 0.5);
}
