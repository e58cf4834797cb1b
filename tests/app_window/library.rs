//! Choosing a model: searched by words, by keys, with its card, and with what another one lacks.

use safelight::window::library::survey::{FitWord, SurveyNews, SurveyedFit};
use safelight_core::catalog::{ModelProblem, NeededFile, UnusableModel, known_models};
use safelight_core::units::size_text;

use crate::app_window::prelude::*;

/// A window with three models, one that lacks its autoencoder, and all that are known.
fn bench() -> Bench {
    Bench::with(|startup| {
        let (known, _) = known_models("/nowhere/models.toml".as_ref());
        let wan = known.iter().find(|entry| entry.id == "wan2.1-t2v-14b");
        let wan = wan.expect("it ships").clone();
        startup.models = Some(FoundModels {
            unusable: vec![UnusableModel {
                name: "wan2.1_t2v_14B_fp16".into(),
                path: PathBuf::from("/models/diffusion_models/wan2.1_t2v_14B_fp16.safetensors"),
                ailment: ModelProblem::Incomplete,
                needs: vec![NeededFile {
                    what: "a Wan 2.1 VAE".into(),
                    example: "wan_2.1_vae.safetensors from Comfy-Org".into(),
                }],
                summary: "expected a Wan 2.1 VAE beside it".into(),
                advice: "Put it there".to_owned(),
                fetch: Some(wan),
            }],
            missing: known,
            ..found(vec![spec(), pair_spec(), flux_spec()])
        });
        startup.library.survey = Arc::new(|wish, tell| {
            for (spec, word) in wish.specs.iter().zip([FitWord::Fits, FitWord::TooLarge]) {
                let way = (word == FitWord::TooLarge).then(|| "Make it 640 × 352".into());
                let fit = SurveyedFit {
                    word,
                    text: format!("{} of 24 GiB", spec.name),
                    ways: way.into_iter().collect(),
                    secs: Some(50_400),
                };
                tell(SurveyNews::Fit(spec.id.clone(), fit));
            }
        });
    })
}

fn open(bench: &mut Bench) {
    bench.click(Role::ComboBox, "Model");
}

fn search(bench: &mut Bench, text: &str) {
    bench.node(Role::TextInput, "Search models").type_text(text);
    bench.settle();
}

fn names(bench: &Bench) -> Vec<String> {
    let rows = bench.harness.query_all_by_role(Role::ListBoxOption);
    rows.filter_map(|row| row.accesskit_node().label())
        .collect()
}

#[test]
fn models_are_in_one_list_with_installed_ones_first_and_search_can_be_reset() {
    let mut bench = bench();
    open(&mut bench);
    let first = ["Little World", "Pair", "Flux", "wan2.1_t2v_14B_fp16"];
    assert_eq!(names(&bench)[..4], first);
    let headings = [
        "On this disk",
        "Something is missing or wrong",
        "To download",
    ];
    bench.assert_shows(&headings.join("|"));
    search(&mut bench, "no such thing");
    bench.assert_shows("No matches");
    bench.press("Show all");
    assert_eq!(names(&bench)[0], "Little World");
}

#[test]
fn models_of_one_name_are_told_apart_and_separators_do_not_matter_to_a_search() {
    let mut bench = Bench::with(|startup| {
        let twin = |folder: &str| UnusableModel {
            name: "z_image-Q4".into(),
            path: PathBuf::from(format!("/{folder}/z_image-Q4.gguf")),
            ailment: ModelProblem::Incomplete,
            needs: Vec::new(),
            summary: "a text encoder is missing".into(),
            advice: String::new(),
            fetch: None,
        };
        startup.models = Some(FoundModels {
            unusable: vec![twin("a"), twin("b")],
            ..found(vec![spec()])
        });
    });
    open(&mut bench);
    let twins = ["a", "b"].map(|folder| format!("z_image-Q4 (/{folder}/z_image-Q4.gguf)"));
    search(&mut bench, "Z Image q4");
    assert_eq!(names(&bench), twins);
    search(&mut bench, " z-image_q4");
    assert_eq!(names(&bench), twins);
}

#[test]
fn words_and_keys_find_and_use_a_model_without_the_mouse() {
    let mut bench = bench();
    open(&mut bench);
    search(&mut bench, "FLUX image");
    assert_eq!(names(&bench)[0], "Flux");
    let is_flux = |name: &String| name.to_lowercase().contains("flux");
    assert!(names(&bench).iter().all(is_flux));
    bench.press_key(Key::Enter);
    assert_eq!(bench.form().model.as_deref(), Some("flux"));
    assert_eq!(bench.app().cx.page, MainPage::Watch);
    // The one used last stands above the others.
    open(&mut bench);
    bench.assert_shows("Used recently");
    assert_eq!(names(&bench)[0], "Flux");
    bench.press_key(Key::ArrowDown);
    assert_eq!(bench.app().library.chosen.as_deref(), Some("little-world"));
    bench.press_key(Key::Escape);
    assert_eq!(bench.app().cx.page, MainPage::Watch);
    assert_eq!(bench.form().model.as_deref(), Some("flux"));
}

#[test]
fn keys_in_a_field_of_the_form_choose_no_model() {
    let mut bench = bench();
    open(&mut bench);
    search(&mut bench, "FLUX image");
    bench.write_prompt("a boat");
    let chosen = bench.app().library.chosen.clone();
    for key in [Key::ArrowDown, Key::Enter] {
        bench.press_key(key);
    }
    assert_eq!(bench.app().library.chosen, chosen);
    assert_eq!(bench.form().model.as_deref(), Some("little-world"));
}

#[test]
fn changed_memory_cap_updates_the_model_fits() {
    let mut bench = Bench::with(|startup| {
        startup.library.survey = Arc::new(|wish, tell| {
            let text = format!("Of a cap of {:?}", wish.settings.memory.cap_gib);
            for spec in &wish.specs {
                let fit = SurveyedFit {
                    word: FitWord::TooLarge,
                    text: text.clone(),
                    ways: Vec::new(),
                    secs: None,
                };
                tell(SurveyNews::Fit(spec.id.clone(), fit));
            }
        });
    });
    bench.look_at_model("Little World");
    bench.wait_for("Of a cap of None");
    bench.change_settings(|settings| settings.memory.cap_gib = Some(8.0));
    bench.wait_for("Of a cap of Some(8.0)");
}

#[test]
fn model_details_show_its_type_location_and_memory_fit() {
    let mut bench = bench();
    bench.look_at_model("Pair");
    bench.assert_shows("Wan I2V|videos from image, or first and last|It has two transformers");
    bench.assert_shows("CC0-1.0|models/little-world");
    bench.wait_for("Pair of 24 GiB|What makes it fit:|Make it 640 × 352");
    // Files that are known a moment later do not move it.
    let last = bench.rect(Role::Button, "Copy path").bottom();
    let used = bench.rect(Role::Button, "Use this model").top();
    assert!(used - last < 60.0, "{last} {used}");
    let copied = bench.copied_by("Copy path");
    assert_eq!(copied.as_deref(), Some("models/little-world"));
    bench.press("Favourite");
    assert_eq!(bench.app().library.remembered.favourites, ["pair"]);
    bench.app().library.query.clear();
    bench.press_key(Key::Escape);
    open(&mut bench);
    assert_eq!(names(&bench)[0], "Pair");
    // Looking changes nothing.
    assert_eq!(bench.form().model.as_deref(), Some("little-world"));
}

#[test]
fn model_shows_its_expected_duration_or_missing_file_with_a_download() {
    let mut bench = bench();
    bench.look_at_model("Little World");
    bench.wait_for("A video takes about 14 h");
    bench.assert_hides("What makes it fit:");
    let mut bench = self::bench();
    bench.look_at_model("wan2.1_t2v_14B_fp16");
    bench.assert_shows("Get wan_2.1_vae.safetensors from Comfy-Org|Put it there");
    bench.press_until("Download what is missing…", "wan_2.1_vae.safetensors");
    bench.assert_shows("Download…");
}

#[test]
fn hundreds_of_models_are_all_there_and_few_are_drawn() {
    let specs = (0..700).map(|number| ModelSpec {
        id: format!("model-{number}"),
        name: format!("Model number {number}"),
        ..spec()
    });
    let mut bench = Bench::of_models(specs.collect());
    open(&mut bench);
    assert!(names(&bench).len() < 30, "{}", names(&bench).len());
    search(&mut bench, "number 699");
    assert_eq!(names(&bench), ["Model number 699"]);
    bench.press_key(Key::Enter);
    assert_eq!(bench.form().model.as_deref(), Some("model-699"));
    open(&mut bench);
    bench.press_key(Key::ArrowUp);
}

#[test]
fn a_search_finds_a_model_however_its_name_is_spelled() {
    for text in ["z_image", "Z-Image", "z image", "zimage turbo"] {
        let mut bench = bench();
        open(&mut bench);
        search(&mut bench, text);
        assert!(
            names(&bench).contains(&"Z-Image Turbo".to_owned()),
            "{text}"
        );
    }
}

#[test]
fn a_model_is_deleted_without_files_that_another_one_uses_and_undo_brings_it_back() {
    let home = tempfile::tempdir().unwrap();
    let paths = AppPaths::under(home.path());
    let file = |name: &str, bytes: usize| {
        let path = paths.models().join(name);
        fs::create_dir_all(paths.models()).unwrap();
        fs::write(&path, vec![0; bytes]).unwrap();
        path
    };
    let (own, shared) = (file("mine.gguf", 3 << 20), file("ae.safetensors", 9));
    let mut mine = flux_spec();
    (mine.id, mine.name) = ("mine".into(), "Mine".into());
    (mine.files.transformer, mine.files.vae) = (own.clone(), shared.clone());
    let mut other = flux_spec();
    other.name = "Other".into();
    other.files.vae.clone_from(&shared);
    let mut bench = Bench::in_home(home, |startup| {
        startup.models = Some(found(vec![mine, other]));
    });
    bench.look_at_model("Mine");
    let question = "Move Mine to the trash?|mine.gguf|These stay|ae.safetensors|Other uses it";
    bench.scroll_and_press("Move to the trash…");
    bench.wait_for(question);
    bench.press("Cancel");
    bench.assert_hides("These stay");
    bench.scroll_and_press("Move to the trash…");
    bench.wait_for(question);
    bench.press(&format!("Move {} to the trash", size_text(3 << 20)));
    bench.wait_for("Mine is in the trash");
    assert!(!own.exists() && shared.exists());
    assert!(bench.home.path().join("Trash/files/mine.gguf").exists());
    bench.press("Undo");
    bench.until("it is back", |_| own.exists());
}

#[test]
fn a_model_that_jobs_in_the_queue_use_is_not_deleted() {
    let mut bench = bench();
    bench.start_job();
    bench.look_at_model("Little World");
    assert!(bench.is_disabled("Move to the trash…"));
    bench.click(Role::ListBoxOption, "Flux");
    assert!(!bench.is_disabled("Move to the trash…"));
}
