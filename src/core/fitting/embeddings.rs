//! Embeddings (textual inversions) that prompts name: `embedding:name` as in ComfyUI, or the name alone as in A1111.

use std::path::{Path, PathBuf};

use super::prompt_tags::{LoraIndex, comparable, files_named};
use crate::formats::weights::header::WeightHeader;
use crate::formats::weights::is_pickle;
use crate::job::prompt::BracketUse;
use crate::job::{FieldError, FormNotice, GenerateRequest, PromptEmbedding};
use crate::library::networks::{InstalledNetwork, ListedFolders, NetworkFolders, find};
use crate::lora::stem;
use crate::model::CatalogError;
use crate::settings::{AppPaths, Settings};
use crate::tokens::{CHUNK_TOKENS, EMBEDDING};

/// Those of ComfyUI, and of Forge and A1111.
pub(super) const SHELF: NetworkFolders = NetworkFolders {
    folders: &["embeddings"],
    listed: ListedFolders::Embeddings,
    home: "embeddings",
    what: "embeddings",
};

/// An embedding on this computer, with its number of rows.
pub type FoundEmbedding = InstalledNetwork<usize>;

/// Those that SDXL reads, in the order of their names.
pub fn installed_embeddings(paths: &AppPaths, settings: &Settings) -> Vec<FoundEmbedding> {
    let rows = |path: &Path| check_embedding(path).map_err(|text| CatalogError::config(text, path));
    find(rows, &SHELF.files(paths, settings))
}

impl GenerateRequest {
    /// Finds the files of the embeddings that settled prompts name, in families that read any. Returns notices on files
    /// that are not used.
    pub(super) fn find_embeddings(
        &mut self,
        index: &LoraIndex,
    ) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let (mut notices, mut errors, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let brackets = self.options.bracket_use(self.family);
        let prompts = [
            ("prompt", &self.prompt),
            ("negative", &self.negative_prompt),
        ];
        for (field, prompt) in prompts
            .into_iter()
            .filter(|_| self.family.has_prompt_chunks)
        {
            if brackets == BracketUse::A1111 {
                for path in index.embeddings().iter().filter(|it| is_named(it, prompt)) {
                    match check_embedding(path) {
                        Ok(_) => found.push(PromptEmbedding {
                            name: stem(path),
                            path: path.clone(),
                        }),
                        Err(message) => notices.push(FormNotice {
                            field,
                            message: format!("{message}, so its name is read as text"),
                        }),
                    }
                }
                continue;
            }
            for part in brackets.parts(prompt) {
                let words = part.text.split([' ', '\n']);
                for name in words.filter_map(|word| word.strip_prefix(EMBEDDING)) {
                    match embedding_named(name.trim_matches(','), index) {
                        Ok(embedding) => found.push(embedding),
                        Err(message) => errors.push(FieldError { field, message }),
                    }
                }
            }
        }
        found.dedup();
        self.embeddings = found;
        if errors.is_empty() {
            Ok(notices)
        } else {
            Err(errors)
        }
    }
}

/// The embedding that a prompt names; the error is a sentence.
fn embedding_named(name: &str, index: &LoraIndex) -> Result<PromptEmbedding, String> {
    let files = index.embeddings();
    let readable: Vec<PathBuf> = files.iter().filter(|it| !is_pickle(it)).cloned().collect();
    let found = files_named(&readable, name, &|path| check_embedding(path).is_ok());
    let Some(path) = found.first() else {
        let pickle = files.iter().find(|it| is_pickle(it) && is_called(it, name));
        return Err(pickle.map_or_else(
            || {
                format!(
                    "there is no embedding {name:?} on this computer: put its .safetensors file into the folder models/embeddings"
                )
            },
            |path| pickle_sentence(path),
        ));
    };
    check_embedding(path)?;
    Ok(PromptEmbedding {
        name: name.to_owned(),
        path: path.clone(),
    })
}

/// The rows of an embedding; the error is a sentence without its end.
fn check_embedding(path: &Path) -> Result<usize, String> {
    if is_pickle(path) {
        return Err(pickle_sentence(path));
    }
    let (_, header) = WeightHeader::open(path)
        .map_err(|err| format!("the embedding {} cannot be read: {err}", path.display()))?;
    let rows = ["clip_l", "clip_g"].map(|name| match header.info(name)?.shape[..] {
        [rows, _] => Some(rows),
        _ => None,
    });
    match rows {
        [Some(first), Some(second)]
            if first == second && (1..=CHUNK_TOKENS as u64).contains(&first) =>
        {
            Ok(first as usize)
        }
        _ => Err(format!(
            "{} is no embedding for SDXL, which has clip_l and clip_g of as many rows each, at most {CHUNK_TOKENS}",
            path.display()
        )),
    }
}

fn pickle_sentence(path: &Path) -> String {
    format!(
        "{} is a pickle, which may contain programs and is not read: get the embedding as .safetensors",
        path.display()
    )
}

fn is_called(path: &Path, name: &str) -> bool {
    comparable(&stem(path)) == comparable(name)
}

/// Returns whether a prompt has the name of a file between other letters.
fn is_named(path: &Path, prompt: &str) -> bool {
    let (prompt, name) = (comparable(prompt), comparable(&stem(path)));
    let mut found = prompt.match_indices(&name);
    found.any(|(at, name)| {
        let around = [&prompt[..at], &prompt[at + name.len()..]];
        !around[0].ends_with(char::is_alphanumeric) && !around[1].starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use super::*;
    use crate::job::prompt::PromptWeights;
    use crate::model::ModelFamily;
    use crate::settings::{AppPaths, Settings};

    /// Finds the embeddings `fox` and `bad-hands` of SDXL, `old` of another model, and the pickle `older`.
    fn find(prompt: &str, weights: PromptWeights) -> Result<GenerateRequest, String> {
        let root = tempfile::tempdir().unwrap();
        let paths = AppPaths::under(root.path());
        let folder = paths.models().join("embeddings");
        fs::create_dir_all(&folder).unwrap();
        let bytes = [0; 40];
        let view =
            |rows, width| TensorView::new(Dtype::U8, vec![rows, width], &bytes[..rows * width]);
        for (name, tensors) in [
            ("fox", [("clip_l", view(2, 8)), ("clip_g", view(2, 10))]),
            (
                "bad-hands",
                [("clip_l", view(1, 8)), ("clip_g", view(1, 10))],
            ),
            ("old", [("emb_params", view(2, 8)), ("more", view(1, 1))]),
        ] {
            let tensors = tensors.map(|(name, view)| (name, view.unwrap()));
            let path = folder.join(name).with_extension("safetensors");
            safetensors::serialize_to_file(tensors, None, &path).unwrap();
        }
        fs::write(folder.join("older.pt"), [0x80, 2]).unwrap();
        let mut request = GenerateRequest {
            family: ModelFamily::SDXL,
            prompt: prompt.to_owned(),
            ..GenerateRequest::default()
        };
        request.options.prompt_weights = Some(weights);
        let index = LoraIndex::new(&paths, &Settings::default());
        let found = request.find_embeddings(&index);
        let notices = found.map_err(|errors| errors[0].message.clone())?;
        request.model = notices.into_iter().map(|it| it.message).collect();
        Ok(request)
    }

    fn names(request: &GenerateRequest) -> Vec<&str> {
        request.embeddings.iter().map(|it| &*it.name).collect()
    }

    #[test]
    fn embeddings_are_found_by_the_names_that_prompts_have() {
        let found = find(
            "(embedding:FOX:1.2), embedding:bad-hands, fox",
            PromptWeights::Comfy,
        );
        assert_eq!(names(&found.unwrap()), ["FOX", "bad-hands"]);
        let found = find("a Fox, foxes, (bad-hands:1.2)", PromptWeights::A1111);
        assert_eq!(names(&found.unwrap()), ["bad-hands", "fox"]);
        let found = find("an old fox", PromptWeights::A1111).unwrap();
        assert_eq!(names(&found), ["fox"]);
        assert!(
            found
                .model
                .contains("old.safetensors is no embedding for SDXL")
        );
    }

    #[test]
    fn missing_and_unreadable_embeddings_are_named() {
        for (prompt, expected) in [
            ("embedding:cat", "there is no embedding \"cat\""),
            ("embedding:older,", "older.pt is a pickle"),
            ("embedding:old", "old.safetensors is no embedding for SDXL"),
        ] {
            let err = find(prompt, PromptWeights::Comfy).unwrap_err();
            assert!(err.contains(expected), "{err}");
        }
    }
}
