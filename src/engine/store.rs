//! Named tensors to a safetensors file and back: results of stages, checkpoints, captures.
//!
//! A file is written beside its name and renamed, so that a name never stands for half a file.

use std::borrow::Borrow;
use std::fs;
use std::path::Path;

use tch::{Device, Tensor};

use crate::error::EngineError;
use crate::weights::Weights;

pub fn write<'a, S, T>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a S, &'a T)>,
) -> Result<(), EngineError>
where
    S: AsRef<str> + 'a,
    T: Borrow<Tensor> + 'a,
{
    let io = |source| EngineError::Io {
        source,
        path: path.to_owned(),
    };
    let tensors: Vec<(String, Tensor)> = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let tensor = tensor.borrow().to_device(Device::Cpu).contiguous();
            (name.as_ref().to_owned(), tensor)
        })
        .collect();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    // tch's error hides the cause; a file that cannot even be created is the common one.
    fs::File::create(&part).map_err(io)?;
    Tensor::write_safetensors(&tensors, &part).map_err(|err| io(std::io::Error::other(err)))?;
    fs::rename(&part, path).map_err(io)
}

/// Every tensor of the file, in the type it is stored in, sorted by name.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, EngineError> {
    Ok(Weights::read_all(path)?)
}
