//! Files of a model that can be deleted: in folders of the user's, and of no other model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::sorted_entries;
use crate::model::ModelSpec;
use crate::model::configs::ModelIndex;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelRemoval {
    /// Files and whole folders, with their bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// Files and folders that stay, each with the reason.
    pub kept: Vec<(PathBuf, String)>,
}

impl ModelRemoval {
    /// Looks at the disk. `others` may contain the model itself; `folders` are those of the user's models.
    pub fn plan(spec: &ModelSpec, others: &[ModelSpec], folders: &[PathBuf]) -> Self {
        let folders = folders.iter().filter_map(|it| fs::canonicalize(it).ok());
        let plan = RemovalPlan {
            folders: folders.collect(),
            used: others
                .iter()
                .filter(|other| other.id != spec.id)
                .flat_map(|other| parts(other).map(|part| (real(part), other.name.clone())))
                .collect(),
        };
        let mut removal = Self::default();
        let is_pipeline = ModelIndex::path_in(&spec.folder).is_some();
        let whole = is_pipeline.then(|| real(&spec.folder));
        let mut places: Vec<PathBuf> = whole
            .into_iter()
            .chain(parts(spec).map(|part| real(part)))
            .collect();
        places.dedup();
        let mut done: Vec<PathBuf> = Vec::new();
        for place in places {
            if place.exists() && !done.iter().any(|done| place.starts_with(done)) {
                plan.visit(&place, &mut removal);
                done.push(place);
            }
        }
        removal
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

struct RemovalPlan {
    folders: Vec<PathBuf>,
    /// Parts of other models, with the models' names.
    used: Vec<(PathBuf, String)>,
}

impl RemovalPlan {
    /// Splits a folder of which another model uses a part, and a folder of the settings.
    fn visit(&self, place: &Path, removal: &mut ModelRemoval) {
        let is_inside = |folder: &PathBuf| place.starts_with(folder) && place != folder;
        let mut users = self.used.iter();
        let user = users.find(|(part, _)| part.starts_with(place) || place.starts_with(part));
        let is_own = self.folders.iter().any(is_inside);
        let is_folder_itself = self.folders.iter().any(|folder| folder == place);
        let is_split = is_folder_itself
            || user.is_some_and(|(part, _)| part.starts_with(place) && part != place);
        if is_own && user.is_none() {
            removal.files.push((place.to_path_buf(), bytes_of(place)));
        } else if is_split && place.is_dir() {
            for child in sorted_entries(place).unwrap_or_default() {
                self.visit(&child, removal);
            }
        } else {
            let why = match user {
                Some((_, name)) => format!("{name} uses it"),
                None => "it is in no model folder of the settings".to_owned(),
            };
            removal.kept.push((place.to_path_buf(), why));
        }
    }
}

/// Files and folders of a model's own parts.
fn parts(spec: &ModelSpec) -> impl Iterator<Item = &PathBuf> {
    let files = &spec.files;
    let optional = [
        &files.transformer_2,
        &files.text_encoder_2,
        &files.image_encoder,
        &files.tokenizer_2,
        &files.image_processor,
        &files.scheduler,
    ];
    let parts = [&files.transformer, &files.vae, &files.text_encoder];
    let parts = parts.into_iter().chain([&files.tokenizer]);
    let optional = optional.into_iter().flatten().chain(files.more.values());
    let all = parts.chain(optional);
    all.filter(|part| !part.as_os_str().is_empty())
}

/// Resolves links in the folders of a path, but not the file itself: that is what would be deleted.
fn real(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

fn bytes_of(place: &Path) -> u64 {
    if place.is_dir() && !place.is_symlink() {
        let entries = sorted_entries(place).unwrap_or_default();
        return entries.iter().map(|entry| bytes_of(entry)).sum();
    }
    fs::metadata(place).map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelFiles, test_spec};

    fn written(path: PathBuf, bytes: usize) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![0; bytes]).unwrap();
        path
    }

    fn model(id: &str, folder: &Path, files: ModelFiles) -> ModelSpec {
        let mut spec = test_spec();
        (spec.id, spec.name) = (id.to_owned(), id.to_uppercase());
        (spec.folder, spec.files) = (folder.to_path_buf(), files);
        spec
    }

    fn names(places: &[(PathBuf, impl Sized)]) -> String {
        let names = places.iter().map(|(path, _)| path.file_name().unwrap());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        names.join(" ")
    }

    #[test]
    fn files_of_other_models_and_outside_the_users_folders_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("models");
        let file = |name: &str, bytes| written(own.join(name), bytes);
        let files = |transformer: &str| ModelFiles {
            transformer: file(transformer, 300),
            vae: file("ae.safetensors", 20),
            text_encoder: written(home.path().join("comfy/t5.safetensors"), 9),
            ..ModelFiles::default()
        };
        let one = model("one", &own, files("one.gguf"));
        let other = model("other", &own, files("two.gguf"));
        let all = [one.clone(), other];
        let removal = ModelRemoval::plan(&one, &all, std::slice::from_ref(&own));
        assert_eq!(
            (names(&removal.files).as_str(), removal.bytes()),
            ("one.gguf", 300)
        );
        assert_eq!(names(&removal.kept), "ae.safetensors t5.safetensors");
        assert_eq!(removal.kept[0].1, "OTHER uses it");
        let removal = ModelRemoval::plan(&one, &all[..1], &[own]);
        assert_eq!(names(&removal.files), "one.gguf ae.safetensors");
        assert_eq!(
            removal.kept[0].1,
            "it is in no model folder of the settings"
        );
        assert!(ModelRemoval::plan(&one, &all[..1], &[]).files.is_empty());
    }

    #[test]
    fn a_pipelines_folder_goes_as_a_whole_except_for_parts_that_another_model_uses() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("wan");
        for (name, bytes) in [
            ("model_index.json", 2),
            ("transformer/a.safetensors", 100),
            ("vae/a.safetensors", 10),
            ("tokenizer/tokenizer.json", 1),
        ] {
            written(folder.join(name), bytes);
        }
        let pipeline = model("wan", &folder, ModelFiles::in_folder(&folder));
        let own = [home.path().to_path_buf()];
        let all = std::slice::from_ref(&pipeline);
        let removal = ModelRemoval::plan(&pipeline, all, &own);
        assert_eq!(
            (names(&removal.files).as_str(), removal.bytes()),
            ("wan", 113)
        );
        let gguf = ModelFiles {
            transformer: written(home.path().join("wan.gguf"), 50),
            vae: folder.join("vae"),
            ..ModelFiles::default()
        };
        let all = [pipeline.clone(), model("gguf", home.path(), gguf)];
        let removal = ModelRemoval::plan(&pipeline, &all, &own);
        assert_eq!(
            names(&removal.files),
            "model_index.json tokenizer transformer"
        );
        assert_eq!(names(&removal.kept), "vae");
        // The folder of the settings stays, and what is in it goes.
        let removal = ModelRemoval::plan(&pipeline, &all[..1], &[folder]);
        assert_eq!(
            names(&removal.files),
            "model_index.json tokenizer transformer vae"
        );
    }
}
