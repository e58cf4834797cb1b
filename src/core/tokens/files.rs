//! Files of tokenizers, read with limits and the path in every error.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use safetensors::Dtype;
use serde::de::DeserializeOwned;

use crate::files::{MAX_JSON_BYTES, read_bounded};
use crate::formats::weights::header::WeightHeader;
use crate::model::CatalogError;

/// Values in a JSON file, each of which takes many times its text in memory. Llama 3's tokenizer has a million.
const MAX_VALUES: usize = 1 << 21;

/// Bytes of a tokenizer within a weight file. Mistral's takes 19 MB, UMT5's 4.5.
const MAX_TENSOR_BYTES: u64 = 64 << 20;

/// Reads a file of a tokenizer.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, CatalogError> {
    read_bounded(path, MAX_JSON_BYTES).map_err(|source| match source.kind() {
        // The content is invalid; the disk is fine.
        io::ErrorKind::InvalidData => CatalogError::config(source.to_string(), path),
        _ => CatalogError::io(source, path),
    })
}

/// Reads a JSON file of at most [`MAX_VALUES`] into a type.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, CatalogError> {
    let bytes = read_bytes(path)?;
    // Each value but the first follows one of these. Those within texts are few.
    let separators = bytes.iter().filter(|byte| b",[{".contains(byte));
    if separators.count() > MAX_VALUES {
        let reason = format!("expected a tokenizer of at most {MAX_VALUES} values, found more");
        return Err(CatalogError::config(reason, path));
    }
    serde_json::from_slice(&bytes)
        .map_err(|err| CatalogError::config(format!("not the JSON it should be: {err}"), path))
}

/// The bytes of a tokenizer in the tensor `name` of a weight file; `None` if it has no such tensor.
pub(crate) fn tensor_bytes(path: &Path, name: &str) -> Result<Option<Vec<u8>>, CatalogError> {
    let (file, header) =
        WeightHeader::open(path).map_err(|err| CatalogError::of_header(err, path))?;
    let Some(info) = header.info(name) else {
        return Ok(None);
    };
    let is_list = info.dtype == Dtype::U8 && info.shape == [info.bytes];
    if is_list && info.bytes <= MAX_TENSOR_BYTES {
        let mut bytes = vec![0; info.bytes as usize];
        let read = file.read_exact_at(&mut bytes, info.start);
        read.map_err(|err| CatalogError::io(err, path))?;
        return Ok(Some(bytes));
    }
    let shape = &info.shape;
    let reason = format!("its '{name}' should be a list of bytes, but has {shape:?}");
    Err(CatalogError::config(reason, path))
}
