//! Models that other programs keep: found where those programs put them, left where they are.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::catalog::ModelCatalog;
use crate::model::CatalogError;
use crate::settings::{AppPaths, ProgramPaths, Settings};
use crate::testing::made_up::{T2V_1_3B, comfy_tree, transformer, write};
use crate::testing::pipelines::{searching, user, write_pipeline};

/// A user with a home folder of their own.
pub(crate) fn user_with_home() -> (tempfile::TempDir, AppPaths, PathBuf) {
    let (root, mut paths) = user();
    let home = root.path().join("home");
    fs::create_dir_all(&home).unwrap();
    paths.programs = Some(ProgramPaths {
        home: home.clone(),
        config: home.join(".config"),
        data: home.join(".local/share"),
        system: vec![root.path().join("opt")],
    });
    (root, paths, home)
}

pub(super) fn names(catalog: &ModelCatalog) -> Vec<&str> {
    let names = catalog.available.iter().map(|it| &it.name[..]);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

fn load(paths: &AppPaths) -> ModelCatalog {
    ModelCatalog::load(paths, &Settings::default())
}

fn load_with(paths: &AppPaths, folder: &Path) -> ModelCatalog {
    ModelCatalog::load(paths, &searching(&[folder]))
}

fn write_text(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn searches(catalog: &ModelCatalog, place: &Path) -> bool {
    let mut searched = catalog.searched.iter();
    searched.any(|searched| searched.path == place)
}

#[test]
fn every_program_is_found_in_its_usual_place() {
    let (root, paths, home) = user_with_home();
    let chosen = root.path().join("chosen");
    for (place, name) in [
        ("ComfyUI/models/diffusers/a", "a"),
        ("Documents/ComfyUI/models/checkpoints/b", "b"),
        ("SwarmUI/Models/diffusion_models/c", "c"),
        ("SwarmUI/dlbackend/ComfyUI/models/unet/d", "d"),
        ("stable-diffusion-webui/models/Stable-diffusion/e", "e"),
        ("git/sd-webui-forge-neo/models/Stable-diffusion/f", "f"),
        ("Wan2GP/ckpts/g", "g"),
        (
            "FramePack/hf_download/hub/models--Me--H/snapshots/1",
            "Me/H",
        ),
        ("StabilityMatrix/Data/Models/DiffusionModels/i", "i"),
        ("StabilityMatrix/Data/Packages/Comfy/models/unet/j", "j"),
        ("pinokio/api/wan.git/app/ckpts/k", "k"),
        ("comfy/ComfyUI/models/diffusers/l", "l"),
        ("../opt/ComfyUI/models/diffusers/m", "m"),
        ("../chosen/Models/StableDiffusion/n", "n"),
        (".local/share/ComfyUI/models/diffusers/o", "o"),
    ] {
        let folder = write_pipeline(&home.join(place));
        assert!(folder.ends_with(name) || name.contains('/'));
        fs::create_dir_all(home.join(place).parent().unwrap()).unwrap();
    }
    write_text(
        &home.join(".config/StabilityMatrix/library.json"),
        &serde_json::json!({ "LibraryPath": chosen }).to_string(),
    );
    let catalog = load(&paths);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    let expected = [
        "Me/H", "a", "b", "c", "d", "e", "f", "g", "i", "j", "k", "l", "m", "n", "o",
    ];
    assert_eq!(names(&catalog), expected);
    assert!(catalog.searched.iter().skip(1).all(|place| place.exists));

    let mut settings = Settings::default();
    settings.models.search_installs = false;
    let none = ModelCatalog::load(&paths, &settings);
    assert!(none.available.is_empty() && none.searched.len() == 1);
}

#[test]
fn folders_that_only_have_a_programs_name_are_not_searched() {
    let (_root, paths, home) = user_with_home();
    write_pipeline(&home.join("comfy chairs/images/x"));
    write_pipeline(&home.join("forge/models/planes/y"));
    write_pipeline(&home.join("Music/models/unet/z"));
    fs::write(home.join("comfy.txt"), "").unwrap();
    let catalog = load(&paths);
    assert!(catalog.available.is_empty() && catalog.problems.is_empty());
    assert_eq!(catalog.searched.len(), 1);
}

#[test]
fn a_transformer_finds_its_parts_in_another_tree_that_comfyui_names() {
    let (root, paths, home) = user_with_home();
    let file = home.join("ComfyUI/models/diffusion_models/wan/t2v.safetensors");
    write(&file, &transformer(T2V_1_3B), "F16");
    let elsewhere = comfy_tree(&root.path().join("disk/shared"));
    assert!(load(&paths).available.is_empty());
    let list = home.join("ComfyUI/extra_model_paths.yaml");
    let base = root.path().join("disk");
    let text = format!(
        "comfyui:\n  base_path: {}\n  vae: shared/vae\n  clip: |\n    shared/none\n    shared/text_encoders\n",
        base.display()
    );
    write_text(&list, &text);
    let catalog = load(&paths);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert_eq!(catalog.available.len(), 1);
    let files = &catalog.available[0].files;
    assert!(files.vae.starts_with(&elsewhere) && files.transformer == file);
    let named = |path: &str| {
        let mut places = catalog.searched.iter();
        places.find(|place| place.path == base.join(path)).unwrap()
    };
    assert_eq!(named("shared/vae").named_in.as_ref(), Some(&list));
    assert!(named("shared/vae").exists && !named("shared/none").exists);
}

#[test]
fn desktops_own_list_and_the_places_that_programs_settings_name_are_searched() {
    let (root, paths, home) = user_with_home();
    let at = |path: &str| root.path().join(path);
    write_pipeline(&at("desktop/models/diffusion_models/a"));
    let text = format!(
        "comfyui:\n  base_path: {}\n  is_default: 'true'\n  diffusion_models: models/diffusion_models/\n",
        at("desktop").display()
    );
    write_text(
        &home.join(".config/ComfyUI/extra_models_config.yaml"),
        &text,
    );
    write_pipeline(&at("swarm/unet/b"));
    let swarm = at("swarm");
    let text = format!(
        "Paths:\n\t#Where\n\tModelRoot: Models;{}\n",
        swarm.display()
    );
    write_text(&home.join("SwarmUI/Data/Settings.fds"), &text);
    write_pipeline(&at("wan/c"));
    write_text(
        &home.join("Wan2GP/wgp_config.json"),
        &serde_json::json!({ "checkpoints_paths": ["ckpts", ".", at("wan"), 3] }).to_string(),
    );
    let catalog = load(&paths);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert_eq!(names(&catalog), ["a", "b", "c"]);
}

#[test]
fn broken_extra_model_paths_file_is_one_problem_and_hides_no_models() {
    let (_root, paths, home) = user_with_home();
    write_pipeline(&home.join("ComfyUI/models/diffusers/a"));
    write_text(
        &home.join("ComfyUI/extra_model_paths.yaml"),
        "comfyui:\n  base_path: \"C:\\Users\\me\"\n",
    );
    write_text(&home.join("SwarmUI/Data/Settings.fds"), "\u{0}ModelRoot");
    write_text(&home.join("Wan2GP/wgp_config.json"), "{");
    write_pipeline(&home.join("Wan2GP/ckpts/b"));
    let catalog = load(&paths);
    assert_eq!(names(&catalog), ["a", "b"]);
    assert_eq!(catalog.problems.len(), 1, "{:?}", catalog.problems);
    let problem = &catalog.problems[0];
    assert!(matches!(problem, CatalogError::Catalogue(_)), "{problem}");
    let text = problem.to_string();
    let path = home.join("ComfyUI/extra_model_paths.yaml");
    assert!(text.starts_with("line 2, column "), "{text}");
    assert!(!text.starts_with("line 2, column 1:"), "{text}");
    assert!(text.ends_with(&path.display().to_string()), "{text}");
}

#[test]
fn a_setting_may_name_a_program_the_folder_of_programs_a_models_folder_or_a_list() {
    let (root, paths) = user();
    let ai = root.path().join("disk/ai");
    write_pipeline(&ai.join("My Comfy/models/diffusion_models/wan/2.2/a"));
    write_pipeline(&ai.join("FramePack/hf_download/hub/models--Me--B/snapshots/1"));
    let elsewhere = root.path().join("elsewhere");
    write_pipeline(&elsewhere.join("c"));
    let list = ai.join("My Comfy/extra_model_paths.yaml");
    let text = format!("x:\n  checkpoints: {}\n", elsewhere.display());
    write_text(&list, &text);
    let found = |folder: &Path| {
        let catalog = load_with(&paths, folder);
        assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
        let names = names(&catalog).into_iter().map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    assert_eq!(found(&ai), ["Me/B", "a", "c"]);
    assert_eq!(found(&ai.join("My Comfy")), ["a", "c"]);
    assert_eq!(found(&ai.join("My Comfy/models")), ["a", "c"]);
    assert_eq!(found(&ai.join("FramePack")), ["Me/B"]);
    assert_eq!(found(&list), ["c"]);
    let gone = load_with(&paths, &root.path().join("gone.yaml"));
    assert!(gone.problems[0].to_string().contains("models.folders"));
}

#[test]
fn links_in_circles_other_names_and_closed_folders_do_no_harm() {
    let (root, paths, home) = user_with_home();
    let models = home.join("ComfyUI/models");
    write_pipeline(&models.join("diffusers/a"));
    symlink(home.join("ComfyUI"), home.join("ComfyUI-again")).unwrap();
    symlink(home.join("ComfyUI"), models.join("circle")).unwrap();
    symlink("itself", home.join("comfy-itself")).unwrap();
    symlink(root.path(), home.join("FramePack")).unwrap();
    let closed = models.join("vae");
    fs::create_dir_all(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    let catalog = load(&paths);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert_eq!(names(&catalog), ["a"]);
    assert!(searches(&catalog, &models));
    assert_eq!(catalog.searched.len(), 2, "{:?}", catalog.searched);
}

#[test]
fn among_thousands_of_files_the_models_are_found() {
    let (_root, paths, home) = user_with_home();
    let models = home.join("ComfyUI/models");
    for folder in ["checkpoints", "loras", "custom_nodes/x"] {
        let folder = models.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for index in 0..1500 {
            let file = folder.join(format!("{index}.safetensors"));
            fs::write(file, b"\x02\0\0\0\0\0\0\0{}").unwrap();
        }
    }
    write_pipeline(&models.join("diffusers/a"));
    let catalog = load(&paths);
    assert!(catalog.problems.is_empty());
    assert_eq!(names(&catalog), ["a"]);
}

#[test]
fn a_model_that_comes_while_the_app_runs_is_noticed() {
    let (_root, paths, home) = user_with_home();
    fs::create_dir_all(home.join("ComfyUI/models/checkpoints")).unwrap();
    let noticed = |change: &dyn Fn()| {
        for name in ["checkpoints", ""] {
            // As if they had been there for long: clocks of file systems are coarse.
            let file = fs::File::open(home.join("ComfyUI/models").join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let mut watch = load(&paths).watched;
        assert!(!watch.has_settled_change());
        change();
        watch.has_settled_change();
        watch.has_settled_change()
    };
    assert!(!noticed(&|| ()));
    let file = home.join("ComfyUI/models/checkpoints/a.gguf");
    assert!(noticed(&|| fs::write(&file, b"GGUF, half of it").unwrap()));
    assert_eq!(load(&paths).problems.len(), 1);
    let more = b"GGUF, half of it and more";
    assert!(noticed(&|| fs::write(&file, more).unwrap()));
    assert!(noticed(&|| fs::remove_file(&file).unwrap()));
    // The app's own folder for models is not there at first.
    assert!(noticed(&|| {
        write_pipeline(&paths.models().join("b"));
    }));
    assert_eq!(names(&load(&paths)), ["b"]);
    assert!(noticed(&|| write_users_file(&paths)));
}

fn write_users_file(paths: &AppPaths) {
    write_text(&paths.models_file(), "[[model]]\nid = 'b'\n");
}
