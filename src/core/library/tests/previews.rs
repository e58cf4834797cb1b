//! Tiny decoders for previews: found where other programs keep them, each for the models whose latents it reads.

use std::path::Path;

use crate::catalog::ModelCatalog;
use crate::families::flux::tests::files::{flux_tree, shapes};
use crate::families::{flux, wan};
use crate::model::ModelFamily;
use crate::testing::made_up::{Shapes, T2V_1_3B, TI2V_5B, comfy_tree, transformer, write};
use crate::testing::published::catalog_of;

/// Shapes of a video decoder, as published except for the widths of its blocks.
fn videos(channels: u64) -> Shapes {
    let names = [
        "decoder.1.weight",
        "decoder.7.conv.weight",
        "decoder.22.weight",
    ];
    let shapes = [[256, channels, 3, 3], [256, 256, 1, 1], [3, 64, 3, 3]];
    let named = names.iter().zip(shapes);
    named
        .map(|(name, shape)| ((*name).to_owned(), shape.to_vec()))
        .collect()
}

/// Shapes of an image decoder, with `prefix` before the authors' numbers.
fn images(prefix: &str) -> Shapes {
    let names = [
        "1.weight",
        "3.conv.0.weight",
        "18.conv.4.weight",
        "19.weight",
    ];
    let shape = |name: &str| vec![64, if name == "1.weight" { 16 } else { 64 }, 3, 3];
    let named = names.iter();
    named
        .map(|name| (format!("{prefix}{name}"), shape(name)))
        .collect()
}

/// The name of the file or folder that each model of a tree previews with.
fn chosen(catalog: &ModelCatalog, family: ModelFamily) -> Vec<Option<String>> {
    let own = catalog.available.iter().filter(|it| it.family == family);
    own.map(|spec| {
        let place = spec.files.preview_decoder.as_ref()?;
        Some(place.file_name()?.to_string_lossy().into_owned())
    })
    .collect()
}

fn tree(models: &Path) {
    comfy_tree(models);
    flux_tree(models);
    let file = |name: &str| models.join("diffusion_models").join(name);
    write(
        &file("wan2.1_t2v_1.3B.safetensors"),
        &transformer(T2V_1_3B),
        "F16",
    );
    write(
        &file("wan2.2_ti2v_5B.safetensors"),
        &transformer(TI2V_5B),
        "F16",
    );
    write(
        &file("flux1-dev.safetensors"),
        &shapes("transformer dev"),
        "BF16",
    );
}

#[test]
fn each_model_gets_the_tiny_decoder_of_its_latents() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    tree(&models);
    let none = catalog_of(&models);
    assert_eq!(chosen(&none, wan::FAMILY), [None, None]);
    let file = |name: &str| models.join("vae_approx").join(name);
    write(&file("a_taesd3_decoder.safetensors"), &images(""), "F16");
    write(&file("taef1_decoder.safetensors"), &images(""), "F16");
    write(&file("taehv.safetensors"), &videos(16), "F16");
    write(&file("taew2_1.safetensors"), &videos(16), "F16");
    write(&file("lighttaew2_2.safetensors"), &videos(48), "F16");
    let all = catalog_of(&models);
    assert!(all.problems.is_empty(), "{:?}", all.problems);
    let mut wan = chosen(&all, wan::FAMILY);
    wan.sort();
    assert_eq!(
        wan,
        [
            Some("lighttaew2_2.safetensors".to_owned()),
            Some("taew2_1.safetensors".to_owned())
        ]
    );
    let flux = chosen(&all, flux::FAMILY);
    assert_eq!(flux, [Some("taef1_decoder.safetensors".to_owned())]);
    // They are no models themselves, and `inspect` says what they are.
    assert_eq!(all.available.len(), 3);
    let card = all.card(&file("taehv.safetensors")).unwrap();
    assert!(
        format!("{card:?}").contains("tiny decoder of videos"),
        "{card:?}"
    );
}

#[test]
fn unnamed_preview_decoder_is_matched_by_dtype_and_foreign_ones_are_ignored() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    tree(&models);
    let file = |name: &str| models.join("vae_approx").join(name);
    write(&file("preview.safetensors"), &videos(16), "F16");
    write(&file("taesd3_decoder.safetensors"), &images(""), "F16");
    let catalog = catalog_of(&models);
    // Only HunyuanVideo's is published in halves.
    assert_eq!(chosen(&catalog, wan::FAMILY), [None, None]);
    assert_eq!(chosen(&catalog, flux::FAMILY), [None]);
    write(&file("preview.safetensors"), &videos(16), "F32");
    let catalog = catalog_of(&models);
    let found = chosen(&catalog, wan::FAMILY);
    assert!(found.contains(&Some("preview.safetensors".to_owned())));
}

#[test]
fn diffusers_tiny_autoencoder_is_recognised_by_its_folder_name() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    tree(&models);
    let folder = models.join("taef1");
    let mut both = Shapes::new();
    for (name, shape) in [("0.weight", [64, 16, 3, 3]), ("18.weight", [3, 64, 3, 3])] {
        both.insert(format!("decoder.layers.{name}"), shape.to_vec());
        both.insert(format!("encoder.layers.{name}"), shape.to_vec());
    }
    write(
        &folder.join("diffusion_pytorch_model.safetensors"),
        &both,
        "F32",
    );
    std::fs::write(
        folder.join("config.json"),
        r#"{"_class_name": "AutoencoderTiny"}"#,
    )
    .unwrap();
    let catalog = catalog_of(&models);
    assert_eq!(chosen(&catalog, flux::FAMILY), [Some("taef1".to_owned())]);
}
