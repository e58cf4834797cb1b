//! Named tensors in safetensors files: results of stages, checkpoints, captures.
//!
//! A file is written under a temporary name and renamed, so that a name never refers to half a file.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::files::{finish_partial, partial_path};
use tch::{Device, Tensor};

use crate::error::EngineError;
use crate::fault::{self, FaultSite};
use crate::parallel::is_follower;
use crate::weights::Weights;

pub fn write<'a, S, T>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a S, &'a T)>,
) -> Result<(), EngineError>
where
    S: AsRef<str> + 'a,
    T: Borrow<Tensor> + 'a,
{
    // The first rank writes for all.
    if is_follower() {
        return Ok(());
    }
    fault::at(FaultSite::Saving);
    let tensors: Vec<(String, Tensor)> = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let tensor = tensor.borrow().to_device(Device::Cpu).contiguous();
            (name.as_ref().to_owned(), tensor)
        })
        .collect();
    let partial = partial_path(path);
    let written = Tensor::write_safetensors(&tensors, &partial).map_err(|err| plain(&err));
    finish_partial(&partial, path, written).map_err(EngineError::io(path))
}

/// The system's own error, of which tch keeps no more than its debug text:
/// `IoError(Os { code: 28, kind: StorageFull, … })`.
fn plain(err: &tch::TchError) -> io::Error {
    let text = err.to_string();
    let code = text
        .split_once("Os { code: ")
        .and_then(|(_, rest)| rest.split(',').next())
        .and_then(|code| code.parse().ok());
    code.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

/// Every tensor of the file, in the type it is stored in, sorted by name.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, EngineError> {
    Ok(Weights::read_all(path)?)
}

pub fn write_one(path: &Path, name: &str, tensor: &Tensor) -> Result<(), EngineError> {
    write(path, [(&name, tensor)])
}

/// Reads a tensor written by [`write_one`].
pub fn read_one(path: &Path, name: &str) -> Result<Tensor, EngineError> {
    TensorFile::read(path)?.take(name)
}

/// Result of an earlier stage.
pub struct TensorFile {
    tensors: BTreeMap<String, Tensor>,
    path: PathBuf,
}

impl TensorFile {
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        Ok(Self {
            tensors: read(path)?.into_iter().collect(),
            path: path.to_owned(),
        })
    }

    pub fn take(&mut self, name: &str) -> Result<Tensor, EngineError> {
        self.find(name)
            .ok_or_else(|| self.incomplete(&format!("it has no '{name}'")))
    }

    pub fn find(&mut self, name: &str) -> Option<Tensor> {
        self.tensors.remove(name)
    }

    /// Remaining tensors, sorted by name.
    pub fn rest(self) -> impl Iterator<Item = (String, Tensor)> {
        self.tensors.into_iter()
    }

    pub fn incomplete(&self, reason: &str) -> EngineError {
        let reason = format!("the result of a stage is not complete: {reason}");
        EngineError::config(reason, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tch::Kind;

    use super::*;

    #[test]
    fn a_full_disk_is_a_plain_sentence_and_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latents.safetensors");
        let one = Tensor::ones([2], (Kind::Float, Device::Cpu));
        write(&path, [(&"latents", &one)]).unwrap();
        let before = fs::read(&path).unwrap();
        // Every write to this device finds a full disk.
        symlink("/dev/full", partial_path(&path)).unwrap();
        let err = write(&path, [(&"latents", &(&one + 1.0))]).unwrap_err();
        let EngineError::Io { source, .. } = &err else {
            panic!("expected an I/O error, found {err}");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(err.to_string().starts_with("No space left on device"));
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_gone_is_a_plain_sentence() {
        let one = Tensor::ones([2], (Kind::Float, Device::Cpu));
        let gone = Path::new("/nowhere/latents.safetensors");
        let err = write(gone, [(&"latents", &one)]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "No such file or directory (os error 2): /nowhere/latents.safetensors"
        );
    }
}
