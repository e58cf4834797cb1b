//! From where known models are fetched, and what need not be fetched because it is here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::catalog::entry::built_in;
use crate::catalog::{CatalogEntry, DefaultJob, DownloadSource, ModelCatalog};
use crate::families::flux::tests::files::{flux_tree, shapes};
use crate::job::GenerateRequest;
use crate::library::names::possible_side;
use crate::library::single::file_stem;
use crate::memory::{DeviceClass, DeviceFacts};
use crate::model::ModelComponent;
use crate::plan::{MemoryPlanner, PeakCorrections};
use crate::settings::{AppPaths, Settings};
use crate::testing::made_up::{Dims, T2V_1_3B, T2V_14B, comfy_tree, transformer, umt5, vae, write};
use crate::testing::pipelines::user;
use crate::testing::table;

fn entry(paths: &AppPaths, id: &str) -> CatalogEntry {
    let catalog = ModelCatalog::load(paths, &Settings::default());
    let entry = catalog.missing.into_iter().find(|entry| entry.id == id);
    entry.unwrap_or_else(|| panic!("{id} is not among the missing"))
}

fn to_fetch(entry: &CatalogEntry) -> Vec<&str> {
    let sources = entry.to_fetch();
    sources.map(|source| &source.name[..]).collect()
}

#[test]
fn every_published_model_has_all_its_files_and_a_folder_for_each() {
    use ModelComponent::{
        ImageEncoder, LatentUpscaler, TextEncoder, TextEncoder2, Transformer, Vae,
    };
    for entry in built_in().iter().skip(1) {
        let sources: Vec<_> = entry.sources.0.iter().map(|it| &it.1).collect();
        // No page is known that has all their networks as files.
        if matches!(&entry.id[..], "sdxl-inpainting" | "anima-turbo") {
            assert!(sources.is_empty());
            continue;
        }
        let of = |component| sources.iter().filter(move |it| it.component == component);
        let is_flux = entry.id.starts_with("flux1");
        let is_framepack = entry.id.starts_with("framepack");
        let sees_images = entry.id.contains("i2v") || entry.id.contains("flf2v");
        let has_image_encoder = is_framepack || (entry.id.starts_with("wan2.1-") && sees_images);
        // All networks but the text encoder are in one file.
        let is_bundle = entry.id.starts_with("ltx2");
        // All networks are in one file.
        let is_checkpoint = entry.id.starts_with("sdxl");
        let is_pair = entry.id.ends_with("a14b");
        let counts =
            [Transformer, Vae, TextEncoder, TextEncoder2, ImageEncoder].map(|it| of(it).count());
        let expected = [
            1 + usize::from(is_pair),
            usize::from(!is_bundle && !is_checkpoint),
            usize::from(!is_checkpoint),
            usize::from(is_flux || is_framepack),
            usize::from(has_image_encoder),
        ];
        assert_eq!(counts, expected, "{}", entry.id);
        for source in &sources {
            let folder = match source.component {
                Transformer if is_bundle || is_checkpoint => "checkpoints",
                Transformer => "diffusion_models",
                Vae => "vae",
                TextEncoder | TextEncoder2 => "text_encoders",
                ImageEncoder => "clip_vision",
                LatentUpscaler => "latent_upscale_models",
                other => panic!("{other:?}"),
            };
            assert_eq!(source.folder, folder, "{}", source.path);
        }
        // The name is one by which the catalogue knows the model again.
        let mut sides = BTreeSet::new();
        for source in of(Transformer) {
            let stem = file_stem(Path::new(&source.name));
            assert!(entry.has_file_name(&stem), "{stem}");
            sides.insert(possible_side(&stem).map(|side| side.label()));
        }
        assert_eq!(sides.len(), expected[0], "{}", entry.id);
    }
}

#[test]
fn models_share_the_files_that_they_can() {
    let entries = built_in();
    use ModelComponent::{ImageEncoder, TextEncoder, TextEncoder2, Vae};
    for component in [TextEncoder, TextEncoder2, Vae, ImageEncoder] {
        let sources = entries.iter().flat_map(|entry| &entry.sources.0);
        let of = sources.filter(|(_, source)| source.component == component);
        let mut places = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (_, source) in of {
            let folders = places.entry(&source.name).or_default();
            folders.insert(&source.folder);
        }
        // The same file is fetched once, whichever model wants it.
        for (name, folders) in places {
            assert_eq!(folders.len(), 1, "{name} {folders:?}");
        }
    }
}

#[test]
fn parts_of_any_name_and_storage_that_fit_are_not_fetched_again() {
    let (_root, paths) = user();
    let models = paths.models();
    assert_eq!(to_fetch(&entry(&paths, "wan2.1-i2v-14b-480p")).len(), 4);
    comfy_tree(&models);
    flux_tree(&models);
    for id in ["wan2.1-i2v-14b-480p", "wan2.2-ti2v-5b", "flux1-schnell"] {
        let entry = entry(&paths, id);
        let left: Vec<ModelComponent> = entry.to_fetch().map(|it| it.component).collect();
        assert_eq!(left, [ModelComponent::Transformer], "{id}");
    }
    let of_pair = entry(&paths, "wan2.2-t2v-a14b");
    assert_eq!(to_fetch(&of_pair).len(), 2);
    // The autoencoder of the other generation is none.
    fs::remove_file(models.join("vae/wan2.2_vae.safetensors")).unwrap();
    let entry = entry(&paths, "wan2.2-ti2v-5b");
    assert!(to_fetch(&entry).contains(&"wan2.2_vae.safetensors"));
}

#[test]
fn installed_transformer_in_another_dtype_is_not_downloaded_again() {
    let (_root, paths) = user();
    let models = paths.models();
    let place = models.join("unet/Wan2_1-T2V-1_3B_bf16.safetensors");
    write(&place, &transformer(T2V_1_3B), "BF16");
    let wan = entry(&paths, "wan2.1-t2v-1.3b");
    let left: Vec<ModelComponent> = wan.to_fetch().map(|it| it.component).collect();
    assert_eq!(left, [ModelComponent::TextEncoder, ModelComponent::Vae]);
    let schnell = models.join("flux1-schnell-Q.safetensors");
    write(&schnell, &shapes("transformer schnell"), "BF16");
    assert_eq!(to_fetch(&entry(&paths, "flux1-dev")).len(), 4);
}

#[test]
fn an_expert_alone_does_not_count_and_two_of_one_storage_do() {
    let (_root, paths) = user();
    for (side, missing) in [("high", 2), ("low", 0)] {
        let name = format!("wan2.2_t2v_{side}_noise_14B_fp16.safetensors");
        let place = paths.models().join("diffusion_models").join(name);
        write(&place, &transformer(T2V_14B), "F16");
        let entry = entry(&paths, "wan2.2-t2v-a14b");
        let left = entry.to_fetch().map(|it| it.component);
        let left = left.filter(|it| *it == ModelComponent::Transformer);
        assert_eq!(left.count(), missing, "{side}");
    }
}

#[test]
fn a_file_that_is_cut_off_or_of_another_size_does_not_count() {
    let (_root, paths) = user();
    let place = paths.models().join("vae/wan_2.1_vae.safetensors");
    write(&place, &vae(16), "F32");
    assert_eq!(to_fetch(&entry(&paths, "wan2.1-t2v-1.3b")).len(), 2);
    let file = fs::File::options().write(true).open(&place).unwrap();
    file.set_len(fs::metadata(&place).unwrap().len() - 1)
        .unwrap();
    assert_eq!(to_fetch(&entry(&paths, "wan2.1-t2v-1.3b")).len(), 3);
    // A text encoder without a tokenizer anywhere is of no use.
    write(&paths.models().join("umt5.safetensors"), &umt5(), "F16");
    assert_eq!(to_fetch(&entry(&paths, "wan2.1-t2v-1.3b")).len(), 3);
}

#[test]
fn a_file_of_the_right_name_and_other_shapes_is_not_here_already() {
    let (_root, paths) = user();
    let models = paths.models();
    let mut small = shapes("ae");
    for size in small.values_mut().flatten() {
        if matches!(*size, 128 | 256 | 512) {
            *size /= 4;
        }
    }
    write(&models.join("vae/ae.safetensors"), &small, "F32");
    let dev = entry(&paths, "flux1-dev");
    assert!(to_fetch(&dev).contains(&"ae.safetensors"));
    let transformer = models.join("diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors");
    let blocks = Dims {
        layers: 1,
        ..T2V_1_3B
    };
    write(&transformer, &self::transformer(blocks), "F16");
    let wan = entry(&paths, "wan2.1-t2v-1.3b");
    assert!(to_fetch(&wan).contains(&"wan2.1_t2v_1.3B_fp16.safetensors"));
}

#[test]
fn a_known_model_can_be_planned_before_its_files_are_here() {
    let (_root, paths) = user();
    let facts = DeviceFacts {
        class: DeviceClass::Cpu,
        total_bytes: 24 << 30,
        used_bytes: 0,
        host_available_bytes: 22 << 30,
    };
    let corrections = PeakCorrections::default();
    let plan = |id: &str, change: fn(&mut GenerateRequest)| {
        let DefaultJob {
            mut request,
            weights,
        } = entry(&paths, id).sketch(false).expect("it ships");
        change(&mut request);
        let planner = MemoryPlanner {
            weights: &weights,
            facts,
            device: "",
            corrections: &corrections,
        };
        (planner.plan(&request), planner.operations(&request))
    };
    // At its usual size the large one needs more than its file.
    let (large, large_operations) = plan("wan2.2-t2v-a14b", |_| {});
    assert!(!large.fits(), "{}", large.verdict.text);
    let (shorter, _) = plan("wan2.2-t2v-a14b", |request| request.num_frames = 17);
    assert!(shorter.fits(), "{}", shorter.verdict.text);
    let (small, small_operations) = plan("wan2.1-t2v-1.3b", |_| {});
    assert!(small.fits(), "{}", small.verdict.text);
    assert!(large_operations > 10.0 * small_operations);
    for entry in ModelCatalog::load(&paths, &Settings::default()).missing {
        let is_known = !entry.sources.is_empty();
        assert_eq!(entry.sketch(false).is_some(), is_known, "{}", entry.id);
    }
}

#[test]
fn a_user_changes_a_shared_source_and_gives_a_model_others() {
    let (_root, paths) = user();
    fs::create_dir_all(&paths.config).unwrap();
    let text = r#"
[source.umt5-xxl]
component = "text_encoder"
repository = "me/mirror"
path = "a/umt5.gguf"
folder = "text_encoders/mine"

[[model]]
id = "mine"
sources = ["umt5-xxl", "wan21-vae"]

[[model]]
id = "flux1-dev"
[[model.source]]
component = "transformer"
repository = "me/flux"
path = "dev.gguf"
folder = "unet"
name = "flux1-dev-Q8_0.gguf"
bytes = 5
"#;
    fs::write(paths.models_file(), text).unwrap();
    let wan = entry(&paths, "wan2.2-ti2v-5b");
    let is_umt5 = |it: &&DownloadSource| it.component == ModelComponent::TextEncoder;
    let found = &wan.to_fetch().find(is_umt5).unwrap().repository;
    assert_eq!(found, "me/mirror");
    let mine = entry(&paths, "mine");
    assert_eq!(to_fetch(&mine), ["umt5.gguf", "wan_2.1_vae.safetensors"]);
    let dev = entry(&paths, "flux1-dev");
    assert_eq!(to_fetch(&dev), ["flux1-dev-Q8_0.gguf"]);
    assert_eq!(dev.bytes_to_fetch(), Some(5));
    assert_eq!(dev.name.as_str(), "FLUX.1 dev");
}

#[test]
fn invalid_download_sources_are_reported_with_line_and_column() {
    let (_root, paths) = user();
    fs::create_dir_all(&paths.config).unwrap();
    let whole = [
        ("component", "\"vae\""),
        ("repository", "\"me/x\""),
        ("path", "\"a/b.safetensors\""),
        ("folder", "\"vae\""),
    ];
    for (row, expected) in table(
        "component \"lora\" -> line 2, column 13
         repository \"me\" -> line 3, column 14: expected a repository
         repository \"../x\" -> line 3, column 14
         path \"a/../b.safetensors\" -> line 4, column 8: expected the file's path
         path \"/b.safetensors\" -> line 4, column 8
         path \"b.pth\" -> expected a .safetensors
         folder \"/etc\" -> line 5, column 10: expected a folder
         folder \"vae/../..\" -> line 5, column 10
         name \"../b.safetensors\" -> line 6, column 8: expected a file's name
         url \"x\" -> line 6, column 1",
    ) {
        let (key, value) = row.split_once(' ').unwrap();
        let mut text = "[source.mine]\n".to_owned();
        for (name, good) in whole {
            let value = if name == key { value } else { good };
            writeln!(text, "{name} = {value}").unwrap();
        }
        if matches!(key, "name" | "url") {
            writeln!(text, "{key} = {value}").unwrap();
        }
        fs::write(paths.models_file(), &text).unwrap();
        let catalog = ModelCatalog::load(&paths, &Settings::default());
        let said = catalog.problems[0].to_string();
        assert!(said.contains(expected), "{said}\n{text}");
        assert_eq!(catalog.missing.len(), built_in().len());
    }
    for (sources, expected) in [
        ("none", "line 3, column 12: expected a table [source.none]"),
        (
            "clip-l\", \"clip-l",
            "line 2, column 6: expected a place of its own",
        ),
    ] {
        let text = format!("[[model]]\nid = \"a\"\nsources = [\"{sources}\"]\n");
        fs::write(paths.models_file(), text).unwrap();
        let catalog = ModelCatalog::load(&paths, &Settings::default());
        let said = catalog.problems[0].to_string();
        assert!(said.contains(expected), "{said}");
    }
}
