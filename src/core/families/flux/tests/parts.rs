//! The parts beside a Flux transformer: named by the user, missing, wrong, cut off; and the tokenizers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::families::flux::tests::files::{
    all_in_one, clip_config, flux_tree, shapes, t5_config, write_folder,
};
use crate::library::tests::parts::NARROW;
use crate::model::{CatalogError, ComponentOverrides, ModelSpec};
use crate::testing::made_up::{clip_vision, comfy_tree, transformer, umt5, vae, write};
use crate::testing::pipelines::write_json;
use crate::testing::published::{
    assert_refused_with, catalog_of, edited, faultless_catalog, resized, shipped,
    with_text_encoder, with_vae,
};
use crate::testing::table;

fn dev_in(models: &Path) -> PathBuf {
    let place = models.join("unet/flux1-dev.safetensors");
    write(&place, &shapes("transformer dev"), "BF16")
}

fn open_with(place: &Path, companions: &ComponentOverrides) -> Result<ModelSpec, CatalogError> {
    let nothing = tempfile::tempdir().unwrap();
    catalog_of(nothing.path()).open_with(&place.to_string_lossy(), companions)
}

#[test]
fn a_missing_part_is_named_with_the_file_to_get_and_where_it_was_looked_for() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = dev_in(&models);
    ModelSpec::open(&place).unwrap();
    for (file, example) in table(
        "vae/ae.safetensors -> ae.safetensors from black-forest-labs/FLUX.1-schnell
         text_encoders/clip_l.safetensors -> clip_l.safetensors from comfyanonymous/flux_text_encoders
         text_encoders/t5xxl_fp16.safetensors -> t5xxl_fp16.safetensors from comfyanonymous/flux_text_encoders",
    ) {
        let (here, away) = (models.join(file), models.join("away"));
        fs::rename(&here, &away).unwrap();
        let err = ModelSpec::open(&place).unwrap_err();
        let is_missing = matches!(err, CatalogError::MissingCompanion { .. });
        assert!(is_missing, "{err}");
        let text = err.to_string();
        let looked = here.parent().unwrap().to_string_lossy().into_owned();
        assert!(text.contains(example) && text.contains(&looked), "{text}");
        fs::rename(&away, &here).unwrap();
    }
}

#[test]
fn a_wrong_part_that_the_user_named_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = dev_in(&models);
    let other = |name: &str, shapes| write(&models.join("other").join(name), &shapes, "F16");
    let wan_vae = other("wan.safetensors", vae(16));
    let mut sd = edited(shapes("ae"), "encoder.conv_out.weight", &[8, 512, 3, 3]);
    sd.insert("decoder.conv_in.weight".into(), vec![512, 4, 3, 3]);
    let sd_vae = other("sd.safetensors", sd);
    let umt5 = other("umt5.safetensors", umt5());
    let vision = other("vision.safetensors", clip_vision());
    let clip_g = other("clip_g.safetensors", resized(shapes("clip_l"), 768, 1280));
    let t5 = models.join("text_encoders/t5xxl_fp16.safetensors");
    let clip = models.join("text_encoders/clip_l.safetensors");
    let t5_of = |place: &Path| ComponentOverrides {
        text_encoder_2: Some(place.to_owned()),
        ..ComponentOverrides::default()
    };
    let (ae, clip_l, t5xxl) = (
        "ae.safetensors",
        "clip_l.safetensors",
        "t5xxl_fp16.safetensors",
    );
    for (companions, right, found) in [
        (with_vae(wan_vae), ae, "a Wan VAE"),
        (with_vae(sd_vae), ae, "not one with 4 latent channels"),
        (with_vae(t5.clone()), ae, "a T5 text encoder"),
        (with_text_encoder(t5), clip_l, "a T5 text encoder"),
        (with_text_encoder(clip_g), clip_l, "not one of 1280"),
        (with_text_encoder(vision), clip_l, "an image encoder"),
        (t5_of(&umt5), t5xxl, "a UMT5 text encoder"),
        (t5_of(&clip), t5xxl, "a CLIP text encoder"),
    ] {
        assert_refused_with(root.path(), &place, &companions, [right, found]);
    }
    let gone = open_with(&place, &t5_of(Path::new("/nowhere/t5"))).unwrap_err();
    assert!(matches!(gone, CatalogError::NoSuchPath { .. }), "{gone}");
}

#[test]
fn parts_that_the_user_named_win_over_those_of_a_checkpoint_and_of_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let parts = flux_tree(&root.path().join("parts"));
    let vae = parts.join("vae/ae.safetensors");
    let t5 = parts.join("text_encoders/t5xxl_fp16.safetensors");
    let companions = ComponentOverrides {
        vae: Some(vae.clone()),
        text_encoder_2: Some(t5.clone()),
        ..ComponentOverrides::default()
    };
    let place = root.path().join("flux1-dev_all-in-one.safetensors");
    write(&place, &all_in_one("transformer dev"), "F16");
    let folder = write_folder(&root.path().join("folder"), "FluxPipeline", "dev");
    let [own_video, own_tokenizer] = ["text_encoder", "tokenizer_2"].map(|it| folder.join(it));
    for (model, clip, tokenizer) in [
        (&place, &place, shipped("t5-xxl")),
        // That of the folder itself is nearer.
        (&folder, &own_video, own_tokenizer),
    ] {
        let files = open_with(model, &companions).unwrap().files;
        assert_eq!((&files.vae, &files.text_encoder), (&vae, clip));
        assert_eq!(files.text_encoder_2.as_ref(), Some(&t5));
        assert_eq!(files.tokenizer_2, Some(tokenizer));
        assert_eq!(files.tokenizer_2_class, None);
    }
    // The parts of a folder are good for a file too, also by the name of the folder around them.
    let dev = dev_in(&root.path().join("far"));
    let companions = ComponentOverrides {
        vae: Some(folder.clone()),
        text_encoder: Some(folder.join("text_encoder")),
        text_encoder_2: Some(folder.join("text_encoder_2")),
        ..ComponentOverrides::default()
    };
    let files = open_with(&dev, &companions).unwrap().files;
    assert_eq!(files.vae, folder.join("vae"));
    assert_eq!(files.tokenizer, folder.join("tokenizer"));
    assert_eq!(files.tokenizer_2, Some(folder.join("tokenizer_2")));
    assert_eq!(files.scheduler, None);
}

#[test]
fn parts_of_wan_and_flux_lie_in_one_tree_and_each_finds_its_own() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(&comfy_tree(root.path()));
    let wan = models.join("diffusion_models/wan.safetensors");
    write(&wan, &transformer(NARROW), "F16");
    dev_in(&models);
    let catalog = faultless_catalog(&models, 2);
    let files = catalog.find(&wan.to_string_lossy()).unwrap().files;
    assert_eq!(files.vae, models.join("vae/wan_2.1_vae.safetensors"));
    assert!(files.text_encoder.ends_with("umt5_xxl_fp16.safetensors"));
    assert_eq!(files.text_encoder_2, None);
    let files = catalog.find("flux1-dev").unwrap().files;
    assert_eq!(files.vae, models.join("vae/ae.safetensors"));
    assert_eq!(files.tokenizer_2, Some(shipped("t5-xxl")));
}

#[test]
fn a_wan_checkpoint_with_all_parts_needs_nothing_around_it_either() {
    let root = tempfile::tempdir().unwrap();
    let behind = crate::testing::published::behind;
    let mut all = behind("model.diffusion_model.", &transformer(NARROW));
    all.extend(behind("vae.", &vae(16)));
    all.extend(behind("text_encoders.umt5xxl.transformer.", &umt5()));
    let place = root.path().join("checkpoints/rapid.safetensors");
    crate::testing::made_up::write_with_tokenizer(&place, &all, "F16", 256_300);
    let files = ModelSpec::open(&place).unwrap().files;
    assert!(
        [&files.vae, &files.text_encoder, &files.tokenizer]
            .iter()
            .all(|it| **it == place)
    );
}

#[test]
fn truncated_component_is_named_in_any_folder() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = dev_in(&models);
    for file in [
        "unet/flux1-dev.safetensors",
        "vae/ae.safetensors",
        "text_encoders/clip_l.safetensors",
        "text_encoders/t5xxl_fp16.safetensors",
    ] {
        let path = models.join(file);
        let length = fs::metadata(&path).unwrap().len();
        let open = fs::File::options().write(true).open(&path).unwrap();
        open.set_len(length / 2).unwrap();
        let text = ModelSpec::open(&place).unwrap_err().to_string();
        assert!(text.contains(file) && text.contains("cut off"), "{text}");
        open.set_len(length).unwrap();
    }
    ModelSpec::open(&place).unwrap();
}

#[test]
fn tokenizer_next_to_its_encoder_is_preferred_if_type_and_size_match() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = dev_in(&models);
    let text = models.join("text_encoders");
    // UMT5's, and one of pieces where pairs are wanted: both are passed over.
    fs::create_dir_all(text.join("tokenizer")).unwrap();
    let pieces = text.join("tokenizer/spiece.model");
    fs::write(pieces, [0x0a, 0].repeat(40_000)).unwrap();
    let files = ModelSpec::open(&place).unwrap().files;
    let of_app = |name: &str| fs::canonicalize(shipped(name)).unwrap();
    let canonical = |path: &Path| fs::canonicalize(path).unwrap();
    assert_eq!(canonical(&files.tokenizer), of_app("clip-l"));
    let second = canonical(files.tokenizer_2.as_ref().unwrap());
    assert_eq!(second, of_app("t5-xxl"));
    fs::remove_dir_all(text.join("tokenizer")).unwrap();
    symlink(shipped("clip-l"), text.join("tokenizer")).unwrap();
    symlink(shipped("t5-xxl"), text.join("tokenizer_2")).unwrap();
    let files = ModelSpec::open(&place).unwrap().files;
    assert_eq!(files.tokenizer, text.join("tokenizer"));
    assert_eq!(files.tokenizer_2, Some(text.join("tokenizer_2")));
    // Named ones must fit.
    let named = |one: Option<&str>, two: Option<&str>| ComponentOverrides {
        tokenizer: one.map(shipped),
        tokenizer_2: two.map(shipped),
        ..ComponentOverrides::default()
    };
    for (named, part) in [
        (
            named(Some("t5-xxl"), None),
            "merged pairs is needed, as CLIP",
        ),
        (
            named(None, Some("clip-l")),
            "pieces with scores is needed, as T5 has",
        ),
    ] {
        let text = open_with(&place, &named).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    let named = named(Some("clip-l/vocab.json"), Some("t5-xxl"));
    let files = open_with(&place, &named).unwrap().files;
    assert_eq!(files.tokenizer, shipped("clip-l"));
    assert_eq!(files.tokenizer_2, Some(shipped("t5-xxl")));
}

#[test]
fn encoder_with_a_custom_vocabulary_needs_its_own_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = dev_in(&models);
    let tokens = "text_model.embeddings.token_embedding.weight";
    let small = edited(shapes("clip_l"), tokens, &[814, 768]);
    let clip = models.join("text_encoders/clip_l.safetensors");
    write(&clip, &small, "F16");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("the tokenizer of CLIP with 814 token ids"));
    let pairs: serde_json::Map<_, _> = (0..814).map(|n| (format!("w{n}"), n.into())).collect();
    let own = models.join("text_encoders/tokenizer");
    write_json(&own.join("vocab.json"), &pairs.into());
    fs::write(own.join("merges.txt"), "#version: 0.2\n").unwrap();
    assert_eq!(ModelSpec::open(&place).unwrap().files.tokenizer, own);
}

#[test]
fn tokenizers_next_to_overridden_encoder_folders_are_used() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(&root.path().join("models"));
    let place = dev_in(&models);
    let mine = root.path().join("mine");
    for (component, tokenizer, name, config) in [
        ("text_encoder", "tokenizer", "clip_l", clip_config()),
        ("text_encoder_2", "tokenizer_2", "t5xxl", t5_config()),
    ] {
        let folder = mine.join(component);
        write(&folder.join("model.safetensors"), &shapes(name), "BF16");
        write_json(&folder.join("config.json"), &config);
        let shipped = shipped(if name == "clip_l" { "clip-l" } else { "t5-xxl" });
        symlink(shipped, mine.join(tokenizer)).unwrap();
    }
    let companions = ComponentOverrides {
        text_encoder: Some(mine.join("text_encoder")),
        text_encoder_2: Some(mine.join("text_encoder_2")),
        ..ComponentOverrides::default()
    };
    let files = open_with(&place, &companions).unwrap().files;
    assert_eq!(files.text_encoder, mine.join("text_encoder"));
    assert_eq!(files.text_encoder_2, Some(mine.join("text_encoder_2")));
    assert_eq!(files.tokenizer, mine.join("tokenizer"));
    assert_eq!(files.tokenizer_2, Some(mine.join("tokenizer_2")));
}
