//! The registry of families, and the promises that all image families share, over a table of their published files.
//!
//! A family's own tests state its table and its quirks.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::table::VariantHints;
use super::{ModelFamily, anima, chroma, flux2, flux3, krea2, qwen_image, qwen_image_21, z_image};
use crate::families::def_of;
use crate::fitting::LoraOrigin;
use crate::job::GenerateForm;
use crate::lora::LoraFile;
use crate::model::ModelSpec;
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_all_in_one, assert_configs_refused, assert_described,
    assert_file_unsupported, assert_lacks, assert_pipelines_unsupported, assert_refused_with,
    faultless_catalog, other_in, transformer_in, with_text_encoder, with_vae,
};

/// A variant's name, or a noun phrase for another model.
type VariantName = Result<&'static str, &'static str>;

/// One family's published files, and others that are like them.
pub(super) struct FamilyCase {
    pub family: ModelFamily,
    /// Asserts that each published transformer is read whole, and needs each of its tensors.
    pub transformers: fn(),
    /// Companions in ComfyUI's `models` folder, without the ending, with their tensors.
    pub companions: Vec<(&'static str, Shapes)>,
    /// Published transformers: name and tensors of the file, id in the catalogue, and the defaults.
    pub offered: Vec<(&'static str, Shapes, &'static str, Offered)>,
    /// The published name of the first, which its card states.
    pub card: &'static str,
    /// diffusers folders, and the variant, the steps and the shift of each.
    pub folders: Vec<(&'static str, Folder, &'static str, u32, Option<f64>)>,
    /// Prefixes and tensors of transformer, autoencoder and text encoder in one file.
    pub all_in_one: Option<[(&'static str, Shapes); 3]>,
    /// Companions without which the first lacks the files named second, without endings.
    pub missing: (&'static [&'static str], &'static [&'static str]),
    /// Parts of other models for the first, and words of the refusal: the right file, and what was found.
    pub other_encoders: Vec<(&'static str, Shapes, [&'static str; 2])>,
    pub other_vaes: Vec<(&'static str, Shapes, [&'static str; 2])>,
    /// Transformers of other models, and pipelines, with words of the refusal.
    pub relatives: Vec<(&'static str, Shapes, &'static str)>,
    pub pipelines: &'static [(&'static str, &'static str)],
    /// Values in the config of the first folder with which it cannot run, with words of the refusal.
    pub configs: Vec<(&'static str, Value, &'static str)>,
    /// Layers of LoRAs with their inputs and outputs, and the family that they are for.
    pub loras: Vec<(&'static str, [u64; 2], &'static str)>,
    /// The variant by whether the pipeline says that it is distilled, and by the names of file and folder.
    pub variants: Vec<(Option<bool>, [&'static str; 2], VariantName)>,
    pub variant: fn(&VariantHints<'_>) -> Result<&'static str, String>,
}

impl FamilyCase {
    /// ComfyUI's `models` folder with every companion.
    pub(super) fn tree(&self, models: &Path) -> PathBuf {
        for (name, shapes) in &self.companions {
            write(&models.join(format!("{name}.safetensors")), shapes, "BF16");
        }
        models.to_owned()
    }

    /// That folder with the first published transformer, which is returned.
    fn first_in(&self, models: &Path) -> PathBuf {
        let (name, shapes, ..) = &self.offered[0];
        transformer_in(&self.tree(models), name, shapes)
    }
}

fn cases() -> [FamilyCase; 8] {
    [
        anima::tests::case(),
        chroma::tests::case(),
        flux2::tests::case(),
        flux3::tests::case(),
        krea2::tests::case(),
        qwen_image::tests::case(),
        qwen_image_21::tests::case(),
        z_image::tests::case(),
    ]
}

#[test]
fn every_family_has_a_definition() {
    for family in ModelFamily::all() {
        assert_eq!(def_of(family).family(), family);
    }
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    for case in cases() {
        (case.transformers)();
    }
}

#[test]
fn published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        let models = case.tree(&root.path().join("models"));
        for (name, shapes, ..) in &case.offered {
            transformer_in(&models, name, shapes);
        }
        let catalog = faultless_catalog(&models, case.offered.len());
        for (_, _, id, offered) in &case.offered {
            let spec = catalog.find(id).unwrap();
            offered.assert(&spec);
            let form = GenerateForm {
                prompt: "a fox".to_owned(),
                out: PathBuf::from("a.png"),
                ..GenerateForm::default()
            };
            let request = form.validate(&spec).unwrap().request;
            let is_guided = offered.is_guided;
            assert!(is_guided || request.negative_prompt.is_empty(), "{id}");
        }
    }
}

#[test]
fn diffusers_folder_alone_gives_variant_defaults_and_components() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        for (name, folder, variant, steps, shift) in case.folders {
            let place = root.path().join(name);
            folder.write(&place);
            let spec = ModelSpec::open(&place).unwrap();
            assert_eq!((spec.family, &spec.variant[..]), (case.family, variant));
            let sampling = &spec.defaults.sampling;
            let found = (sampling.num_steps, sampling.shift);
            assert_eq!(found, (steps, shift), "{name}");
            assert_eq!(spec.files.tokenizer, place.join("tokenizer"));
            assert_eq!(spec.files.text_encoder, place.join("text_encoder"));
        }
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    for parts in cases().into_iter().filter_map(|case| case.all_in_one) {
        assert_all_in_one("all-in-one-turbo", &parts);
    }
}

#[test]
fn inspect_report_names_the_variant_and_missing_components() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        let place = case.first_in(root.path());
        let (_, _, _, offered) = &case.offered[0];
        assert_described(&place, case.family.id, offered.variant, case.card);
        let (gone, missing) = case.missing;
        assert_lacks(&place, root.path(), gone, missing);
    }
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        let place = case.first_in(root.path());
        for (name, shapes, words) in &case.other_encoders {
            let other = with_text_encoder(other_in(root.path(), name, shapes));
            assert_refused_with(root.path(), &place, &other, *words);
        }
        for (name, shapes, words) in &case.other_vaes {
            let other = with_vae(other_in(root.path(), name, shapes));
            assert_refused_with(root.path(), &place, &other, *words);
        }
    }
}

#[test]
fn relatives_are_named_and_refused() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        let models = case.tree(root.path());
        for (name, shapes, part) in &case.relatives {
            assert_file_unsupported(&models, name, shapes, part);
        }
        assert_pipelines_unsupported(case.pipelines);
    }
}

#[test]
fn unsupported_config_values_are_refused_with_a_reason() {
    for case in cases() {
        let mut folders = case.folders.into_iter();
        let (_, folder, ..) = folders.next().unwrap();
        assert_configs_refused(folder, &case.configs);
    }
}

/// Origin of a LoRA that changes one layer with these numbers of inputs and outputs.
fn origin_of_lora(layer: &str, [input, output]: [u64; 2]) -> LoraOrigin {
    let root = tempfile::tempdir().unwrap();
    let mut shapes = Shapes::new();
    shapes.insert(format!("{layer}.lora_down.weight"), vec![4, input]);
    shapes.insert(format!("{layer}.lora_up.weight"), vec![output, 4]);
    let place = write(&root.path().join("x.safetensors"), &shapes, "BF16");
    LoraOrigin::from_file(&LoraFile::read(&place).unwrap())
}

#[test]
fn a_lora_is_known_by_its_layers_and_fits_its_family() {
    for case in cases() {
        for (layer, sizes, family) in case.loras {
            let origin = origin_of_lora(layer, sizes);
            assert_eq!(origin.family, family, "{layer}");
            // One layer alone may be of another model, too: "Flux or HunyuanVideo".
            let label = ModelFamily::of_id(family).unwrap().label;
            assert!(origin.label.contains(label), "{layer}: {}", origin.label);
            assert!((def_of(case.family).lora().accepts)(family, &[]), "{layer}");
        }
    }
}

#[test]
fn variant_follows_the_pipeline_index_or_else_the_names() {
    for case in cases() {
        for (is_distilled, names, expected) in case.variants {
            let hints = VariantHints {
                class: None,
                is_distilled,
                names: &names,
            };
            let found = (case.variant)(&hints);
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, expected, "{names:?}");
        }
    }
}

#[test]
fn a_family_is_stored_under_its_id_and_found_by_it() {
    for family in ModelFamily::all() {
        let stored = serde_json::to_value(family).unwrap();
        assert_eq!(stored, family.id);
        let read: ModelFamily = serde_json::from_value(stored).unwrap();
        assert_eq!(read, family);
    }
}

#[test]
fn an_unknown_family_is_refused_by_name() {
    let err = serde_json::from_value::<ModelFamily>("sora".into()).unwrap_err();
    let text = err.to_string();
    let start = "'sora' is not a family of models that Safelight runs (";
    assert!(text.starts_with(start), "{text}");
    for family in ModelFamily::all() {
        let is_named = text.contains(family.id);
        assert_eq!(is_named, !family.models.is_empty(), "{text}");
    }
}

#[test]
fn no_two_families_share_an_id_or_a_name() {
    for (number, family) in ModelFamily::all().enumerate() {
        let mut others = ModelFamily::all().skip(number + 1);
        let differs = |it: ModelFamily| it.id != family.id && it.label != family.label;
        assert!(others.all(differs), "{family:?}");
    }
}
