//! Models that a search of the disk finds, their entries of the catalogue, and the order in which values win.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::catalog::entry::built_in;
use crate::catalog::{EMBEDDED_MODEL, ModelCatalog};
use crate::job::SamplerKind;
use crate::model::{CatalogError, ComponentOverrides, ModelSpec};
use crate::settings::{AppPaths, Settings};
use crate::testing::pipelines::{edit_json, searching, user, write_json, write_pipeline};

fn ids(catalog: &ModelCatalog) -> Vec<&str> {
    let available = catalog.available.iter();
    available.map(|spec| spec.id.as_str()).collect()
}

#[test]
fn the_shipped_catalogue_is_complete() {
    let entries = built_in();
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let expected = "little-world
        wan2.1-t2v-1.3b wan2.1-t2v-14b wan2.1-i2v-14b-480p wan2.1-i2v-14b-720p wan2.1-flf2v-14b-720p
        wan2.2-t2v-a14b wan2.2-i2v-a14b wan2.2-ti2v-5b
        wan2.1-vace-1.3b wan2.1-vace-14b wan2.2-vace-fun-a14b
        ltx2.3-distilled
        flux1-dev flux1-schnell flux1-fill-dev flux1-kontext-dev flux1-depth-dev flux1-canny-dev
        z-image-turbo z-image
        qwen-image-2512 qwen-image qwen-image-edit-2511 qwen-image-edit-2509
        qwen-image-2.1-turbo qwen-image-2.1
        krea2-turbo krea2-raw
        chroma1-hd chroma1-base chroma1-flash
        flux2-dev flux2-klein-4b flux2-klein-4b-base flux2-klein-9b flux2-klein-9b-base
        flux3-klein flux3-klein-base
        anima anima-turbo
        framepack-i2v framepack-f1
        sdxl-base sdxl-inpainting";
    assert_eq!(ids, expected.split_whitespace().collect::<Vec<_>>());
    for entry in &entries {
        let listed = entry.listed(Vec::new());
        let texts = [listed.name, listed.description, listed.licence, listed.what];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", entry.id);
    }
    let wan = &entries[8];
    let defaults = &wan.built_in.defaults;
    assert_eq!(defaults.width, Some(1280));
    assert_eq!(defaults.height, Some(704));
    assert_eq!(defaults.num_frames, Some(121));
    assert_eq!(wan.built_in.latent_rgb.as_ref().unwrap().factors.len(), 48);
    let negative = defaults.negative_prompt.as_ref().unwrap();
    assert!(negative.ends_with("倒着走"));
}

#[test]
fn empty_catalog_lists_known_models_and_searched_folders() {
    let (_root, paths) = user();
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    assert!(catalog.available.is_empty() && catalog.problems.is_empty());
    assert_eq!(catalog.missing.len(), built_in().len());
    assert_eq!(catalog.searched.len(), 1);
    let place = &catalog.searched[0];
    assert_eq!((&place.path, place.exists), (&paths.models(), false));
    let err = catalog.find("wan2.2-ti2v-5b").unwrap_err();
    assert!(err.to_string().contains("3 files, 16.9 GiB"), "{err}");
    let err = catalog.find("nothing").unwrap_err();
    assert!(
        err.to_string()
            .starts_with("there is no model 'nothing'; available: ")
    );
    assert!(err.to_string().contains(EMBEDDED_MODEL));
}

#[test]
fn models_are_found_in_every_place_once_each() {
    let (root, mut paths) = user();
    let assets = root.path().join("assets");
    write_pipeline(&assets.join("little-world"));
    paths.assets = Some(assets);
    let mine = root.path().join("mine");
    write_pipeline(&mine.join("a/b/deep"));
    write_pipeline(&paths.models().join("dropped"));
    let hub = root.path().join("hub");
    let repository = hub.join("models--Someone--Tiny-Wan");
    write_pipeline(&repository.join("snapshots/old"));
    write_pipeline(&repository.join("snapshots/new"));
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), "new\n").unwrap();
    paths.huggingface = Some(hub);
    // Another way to the same folder, and a way in circles.
    symlink(mine.join("a"), mine.join("again")).unwrap();
    symlink(&mine, mine.join("a/circle")).unwrap();

    let catalog = ModelCatalog::load(&paths, &searching(&[&mine]));
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    let names = catalog.available.iter().map(|spec| spec.name.as_str());
    let expected = ["Little World", "deep", "dropped", "Someone/Tiny-Wan"];
    assert!(names.eq(expected), "{:?}", ids(&catalog));
    assert_eq!(ids(&catalog)[0], EMBEDDED_MODEL);
    let newest = repository.join("snapshots/new");
    assert_eq!(catalog.available[3].folder, newest);
    assert_eq!(catalog.missing.len(), built_in().len() - 1);
    let by_id = catalog.find(EMBEDDED_MODEL).unwrap();
    assert_eq!(by_id.folder, root.path().join("assets/little-world"));
}

#[test]
fn a_revision_that_is_no_plain_file_is_passed_over_at_once() {
    let (root, mut paths) = user();
    let hub = root.path().join("hub");
    let revision = |name: &str| {
        let repository = hub.join(name);
        write_pipeline(&repository.join("snapshots/one"));
        fs::create_dir_all(repository.join("refs")).unwrap();
        repository.join("refs/main")
    };
    let pipe = revision("models--Someone--Pipe");
    let made = Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    symlink("/dev/zero", revision("models--Someone--Zero")).unwrap();
    paths.huggingface = Some(hub);
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    for name in ["Someone/Pipe", "Someone/Zero"] {
        let is_found = catalog.available.iter().any(|spec| spec.name == name);
        assert!(is_found, "{name}: {:?}", ids(&catalog));
    }
}

#[test]
fn broken_and_foreign_folders_are_distinguished_and_hide_nothing() {
    let (root, paths) = user();
    let mine = root.path().join("mine");
    write_pipeline(&mine.join("good"));
    let broken = write_pipeline(&mine.join("broken"));
    fs::remove_file(broken.join("vae/config.json")).unwrap();
    let foreign = write_pipeline(&mine.join("foreign"));
    edit_json(&foreign.join("model_index.json"), |index| {
        index["_class_name"] = json!("HunyuanVideoPipeline");
    });
    let catalog = ModelCatalog::load(&paths, &searching(&[&mine]));
    assert_eq!(catalog.available.len(), 1);
    assert_eq!(catalog.problems.len(), 1);
    assert!(catalog.problems[0].to_string().contains("broken"));
    assert_eq!(catalog.unsupported.len(), 1);
    let gone = ModelCatalog::load(&paths, &searching(&[&root.path().join("gone")]));
    assert!(gone.problems[0].to_string().contains("models.folders"));
}

#[test]
fn an_unknown_model_takes_sizes_from_its_configs_and_small_defaults() {
    let (root, _) = user();
    let folder = write_pipeline(&root.path().join("x"));
    let spec = ModelSpec::open(&folder.join("model_index.json")).unwrap();
    assert_eq!(spec.folder, folder);
    assert_eq!(spec.id, folder.to_string_lossy());
    assert_eq!(spec.limits.size_multiple, 32);
    assert_eq!(spec.limits.frame_stride, 4);
    assert_eq!(spec.limits.max_edge, 64 * 32);
    assert_eq!(spec.limits.max_frames, 253);
    assert!(spec.start_image.is_possible() && !spec.limits.fixed_size && spec.bytes > 1000);
    let defaults = &spec.defaults;
    assert_eq!(defaults.width, 256);
    assert_eq!(defaults.height, 256);
    assert_eq!(defaults.num_frames, 17);
    assert_eq!(defaults.sampling.shift, None);
    assert_eq!(defaults.sampling.sampler, SamplerKind::UniPc);
    edit_json(&folder.join("scheduler/scheduler_config.json"), |cfg| {
        *cfg = json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0});
    });
    let defaults = ModelSpec::open(&folder).unwrap().defaults;
    assert_eq!(defaults.sampling.sampler, SamplerKind::Euler);
}

#[test]
fn safelight_json_overrides_name_defaults_and_limits_of_a_folder() {
    let (root, _) = user();
    let folder = write_pipeline(&root.path().join("x"));
    let own = folder.join("safelight.json");
    let mut text = json!({
        "name": "Mine", "licence": "MIT", "something": "else",
        "defaults": {"width": 64, "height": 96, "num_frames": 9, "fps": 8, "guidance_scale": 3, "shift": 2, "sampler": "euler"},
        "limits": {"fixed_size": true},
        "example_prompts": ["a red boat"],
        "latent_rgb": {"factors": [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1], [0, 0, 0]], "bias": [0.5, 0.5, 0.5]},
    });
    write_json(&own, &text);
    let spec = ModelSpec::open(&folder).unwrap();
    assert_eq!((spec.name.as_str(), spec.licence.as_str()), ("Mine", "MIT"));
    assert_eq!(spec.defaults.width, 64);
    assert_eq!(spec.defaults.height, 96);
    assert_eq!(spec.defaults.fps, 8.0);
    assert_eq!(spec.defaults.sampling.num_steps, 20);
    assert_eq!(spec.defaults.sampling.shift, Some(2.0));
    assert!(spec.limits.fixed_size && spec.latent_rgb.is_some());
    assert_eq!(spec.example_prompts, ["a red boat"]);

    text["defaults"]["width"] = json!(65);
    write_json(&own, &text);
    let err = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(err.contains("multiples of 32"), "{err}");
    assert!(err.ends_with("safelight.json"), "{err}");
    text["defaults"]["width"] = json!(64);
    text["latent_rgb"]["factors"] = json!([[0, 0, 0]]);
    write_json(&own, &text);
    let err = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(err.contains("expected 4 rows"), "{err}");
    fs::write(&own, "{").unwrap();
    assert!(ModelSpec::open(&folder).is_err());
}

fn write_users(paths: &AppPaths, text: &str) {
    fs::create_dir_all(&paths.config).unwrap();
    fs::write(paths.models_file(), text).unwrap();
}

#[test]
fn the_users_catalogue_adds_places_and_changes_entries() {
    let (root, mut paths) = user();
    let elsewhere = write_pipeline(&root.path().join("elsewhere/odd name"));
    let assets = root.path().join("assets");
    write_pipeline(&assets.join("little-world"));
    paths.assets = Some(assets);
    let text = format!(
        "[[model]]\nid = 'mine'\npath = {elsewhere:?}\nname = 'My own'\n[model.defaults]\nnum_steps = 7\n\
         [[model]]\nid = 'little-world'\n[model.defaults]\nnum_steps = 5\n\
         [[model]]\nid = 'later'\nrepository = 'Me/Later'\n"
    );
    write_users(&paths, &text);
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert_eq!(ids(&catalog), ["mine", EMBEDDED_MODEL]);
    assert_eq!(catalog.available[0].name, "My own");
    let steps = [0, 1].map(|n| catalog.available[n].defaults.sampling.num_steps);
    assert_eq!(steps, [7, 5]);
    assert_eq!(catalog.available[1].name, "Little World");
    let missing = catalog.missing.iter().map(|entry| entry.id.as_str());
    let missing: Vec<&str> = missing.collect();
    assert_eq!(missing.len(), built_in().len());
    assert!(missing.ends_with(&["sdxl-inpainting", "later"]));
}

#[test]
fn invalid_user_catalog_is_reported_by_line_and_built_in_models_remain() {
    for (text, place) in [
        ("[[model]]\nid = 'a'\nnmae = 'b'\n", "line 3, column 1"),
        ("[[model]]\nname = 'b'\n", "line 1"),
        ("[[model]]\nid = \n", "line 2"),
        ("[[model]]\nid = 'a'\n[[model]]\nid = 'a'\n", "line 4"),
        ("[[model]]\nid = 'a'\nfamily = 'sd15'\n", "line 3"),
        ("[[model]]\nid = 'a'\ndefaults.width = -1\n", "line 3"),
    ] {
        let (_root, paths) = user();
        write_users(&paths, text);
        let catalog = ModelCatalog::load(&paths, &Settings::default());
        assert_eq!(catalog.problems.len(), 1, "{text}");
        let problem = catalog.problems[0].to_string();
        assert!(problem.starts_with(place), "{problem}");
        assert_eq!(catalog.missing.len(), built_in().len());
    }
}

#[test]
fn a_folder_of_the_published_shape_under_another_name_takes_its_defaults_but_not_its_name() {
    let (root, paths) = user();
    let mine = root.path().join("mine");
    write_pipeline(&mine.join("copy"));
    let shape = "[model.shape]\nheads = 1\nhead_dim = 8\nlayers = 2\nchannels = 4\n";
    let rest = "name = 'Known'\nlicence = 'MIT'\n";
    // As a shipped entry would be: only such lend their defaults.
    let mut entries = built_in();
    let last = &mut entries[8];
    last.shape = Some(crate::model::facts::TransformerShape {
        heads: 1,
        head_dim: 8,
        layers: 2,
        channels: 4,
    });
    last.built_in.latent_rgb = None;
    last.built_in.defaults.num_frames = Some(81);
    let (companions, library) = (
        ComponentOverrides::default(),
        crate::catalog::ComponentLibrary::default(),
    );
    let spec = crate::catalog::open(&mine.join("copy"), &entries, &companions, &library);
    let spec = spec.unwrap();
    assert_eq!(spec.name.as_str(), "copy");
    assert_eq!(spec.licence.as_str(), "not stated");
    assert_eq!((spec.defaults.width, spec.defaults.num_frames), (1280, 81));
    // A name alone is not enough when the shape is known and another.
    let other = shape.replace("layers = 2", "layers = 3");
    write_users(&paths, &format!("[[model]]\nid = 'copy'\n{rest}{other}"));
    let catalog = ModelCatalog::load(&paths, &searching(&[&mine]));
    assert_eq!(catalog.available[0].name, "copy");
    write_users(&paths, &format!("[[model]]\nid = 'copy'\n{rest}{shape}"));
    let catalog = ModelCatalog::load(&paths, &searching(&[&mine]));
    assert_eq!(catalog.available[0].name, "Known");
}

#[test]
fn find_takes_a_path_that_no_list_has() {
    let (root, paths) = user();
    let folder = write_pipeline(&root.path().join("far/away"));
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    let spec = catalog.find(&folder.to_string_lossy()).unwrap();
    assert_eq!(spec.folder, folder);
    let none = root.path().join("none");
    let err = catalog.find(&none.to_string_lossy()).unwrap_err();
    assert!(matches!(err, CatalogError::NoSuchPath { .. }), "{err}");
    assert!(catalog.find("").is_err());
}

#[test]
fn finding_a_damaged_known_model_returns_its_weights_error() {
    let (root, mut paths) = user();
    let assets = root.path().join("assets");
    let model = write_pipeline(&assets.join("little-world"));
    paths.assets = Some(assets);
    let vae = model.join("vae/diffusion_pytorch_model.safetensors");
    fs::write(vae, b"cut").unwrap();
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    assert!(catalog.available.is_empty());
    let err = catalog.find(EMBEDDED_MODEL).unwrap_err();
    assert!(err.to_string().contains("file is damaged: "), "{err}");
}

#[test]
fn a_users_entry_that_leaves_a_model_nothing_to_make_is_a_problem_and_no_panic() {
    let (root, paths) = user();
    let mine = root.path().join("mine");
    write_pipeline(&mine.join("x"));
    for limit in ["max_frames = 0", "max_pixels = 0"] {
        write_users(
            &paths,
            &format!("[[model]]\nid = 'x'\n[model.limits]\n{limit}\n"),
        );
        let catalog = ModelCatalog::load(&paths, &searching(&[&mine]));
        assert!(catalog.available.is_empty());
        let problem = catalog.problems[0].to_string();
        assert!(problem.contains("wrong defaults"), "{problem}");
    }
}
