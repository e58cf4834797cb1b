//! The metadata in which a GGUF file carries a tokenizer: lists, and the ids of tokens with a role.
//!
//! Knows no kind of tokenizer; see `pairs_gguf` and `spiece`.

use std::fs::File;
use std::path::Path;

use crate::formats::weights::gguf::{GgufElement, GgufList, GgufMetadata as Entries};
use crate::formats::weights::header::WeightHeader;
use crate::model::CatalogError;

/// Llama 3's merges take 5 MB.
const MAX_LIST_BYTES: u64 = 32 << 20;

/// Tokenizer of a file, of the requested kind.
pub(super) struct TokenizerMetadata<'a> {
    file: File,
    header: &'a Entries,
    path: &'a Path,
}

/// Applies `read` to a file's tokenizer of this kind; `None` if the file contains none, or is no GGUF.
pub(super) fn tokenizer_inside<T>(
    path: &Path,
    kind: &str,
    read: impl FnOnce(&TokenizerMetadata<'_>) -> Result<T, CatalogError>,
) -> Result<Option<T>, CatalogError> {
    let (file, header) =
        WeightHeader::open(path).map_err(|err| CatalogError::of_header(err, path))?;
    let is_kind = |header: &&Entries| header.text("tokenizer.ggml.model") == Some(kind);
    let Some(header) = header.gguf.as_ref().filter(is_kind) else {
        return Ok(None);
    };
    read(&TokenizerMetadata { file, header, path }).map(Some)
}

impl TokenizerMetadata<'_> {
    pub(super) fn wrong(&self, reason: &str) -> CatalogError {
        let reason = format!("expected a sound tokenizer in its metadata: {reason}");
        CatalogError::config(reason, self.path)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.header.text(&format!("tokenizer.ggml.{name}"))
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.header.flag(&format!("tokenizer.ggml.{name}"))
    }

    /// The id of the token with a role.
    pub(super) fn id(&self, role: &str) -> Option<usize> {
        let name = format!("tokenizer.ggml.{role}_token_id");
        usize::try_from(self.header.number(&name)?).ok()
    }

    /// The texts of a list; `None` where there is no such list.
    pub(super) fn texts(&self, name: &str, max: u64) -> Result<Option<Vec<Vec<u8>>>, CatalogError> {
        let Some(list) = self.list(name, &[GgufElement::Text], max)? else {
            return Ok(None);
        };
        let mut texts = Vec::with_capacity(list.count as usize);
        self.header
            .each_text(&self.file, list, |text| texts.push(text))
            .map_err(|err| CatalogError::of_header(err, self.path))?;
        Ok(Some(texts))
    }

    /// The numbers of a list, four bytes each.
    pub(super) fn numbers(
        &self,
        name: &str,
        elements: &[GgufElement],
        max: u64,
    ) -> Result<Option<Vec<[u8; 4]>>, CatalogError> {
        let bytes = self.bytes(name, elements, max)?;
        Ok(bytes.map(|bytes| bytes.as_chunks::<4>().0.to_vec()))
    }

    /// Token types, one number each; `None` in files without them.
    pub(super) fn kinds(&self, max: u64) -> Result<Option<Vec<u32>>, CatalogError> {
        let kinds = self.numbers("token_type", &[GgufElement::I32, GgufElement::U32], max)?;
        Ok(kinds.map(|kinds| kinds.into_iter().map(u32::from_le_bytes).collect()))
    }

    pub(super) fn bytes(
        &self,
        name: &str,
        elements: &[GgufElement],
        max: u64,
    ) -> Result<Option<Vec<u8>>, CatalogError> {
        let list = self.list(name, elements, max)?;
        let bytes = list
            .map(|list| self.header.list_bytes(&self.file, list))
            .transpose();
        bytes.map_err(|err| CatalogError::of_header(err, self.path))
    }

    fn list(
        &self,
        name: &str,
        elements: &[GgufElement],
        max: u64,
    ) -> Result<Option<GgufList>, CatalogError> {
        let list = self.header.list(&format!("tokenizer.ggml.{name}"));
        match list.filter(|list| elements.contains(&list.element)) {
            Some(list) if list.count > max => {
                let count = list.count;
                Err(self.wrong(&format!(
                    "found {count} in its list '{name}', expected at most {max}"
                )))
            }
            Some(list) if list.bytes > MAX_LIST_BYTES => Err(self.wrong(&format!(
                "its list '{name}' takes {} bytes, expected at most {MAX_LIST_BYTES}",
                list.bytes
            ))),
            found => Ok(found),
        }
    }
}
