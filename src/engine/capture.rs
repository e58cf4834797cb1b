//! Captures a job's tensors under the names that `tiny_reference.py run` uses, for comparisons with the reference.
//!
//! Stages may run in different processes, so each writes a separate file; [`merge`] joins them.
//! Captures nothing unless requested, and never changes a result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::tensor_files;

const MERGED_NAME: &str = "capture.safetensors";

/// Capture of one stage. Dropping it without [`StageCapture::finish`] records nothing more.
#[derive(Default)]
pub struct StageCapture {
    path: Option<PathBuf>,
    tensors: BTreeMap<String, Tensor>,
    /// Current section of a video that is made in sections.
    section: Option<u32>,
}

/// Prefixes of the names that the reference records per section.
const OF_SECTIONS: [&str; 3] = ["step.", "transformer.in.", "latents.initial"];

impl StageCapture {
    pub fn off() -> Self {
        Self::default()
    }

    /// Records into `folder/capture.<stage>.safetensors`, going on with what a run that died has recorded.
    pub fn stage(folder: &Path, stage: &str) -> Result<Self, EngineError> {
        let path = folder.join(format!("capture.{stage}.safetensors"));
        let tensors = if path.exists() {
            tensor_files::read(&path)?.into_iter().collect()
        } else {
            BTreeMap::new()
        };
        Ok(Self {
            path: Some(path),
            tensors,
            ..Self::off()
        })
    }

    /// Assigns later tensors to this section.
    pub fn set_section(&mut self, section: u32) {
        self.section = Some(section);
    }

    /// Tensor captured under a name, by this run or by one that died.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    pub fn is_on(&self) -> bool {
        self.path.is_some()
    }

    /// Records a copy of `tensor`: on the CPU, in f32 or an integer type, as the reference has it.
    pub fn put(&mut self, name: impl Into<String>, tensor: &Tensor) {
        if !self.is_on() {
            return;
        }
        let kind = match tensor.kind() {
            Kind::Half | Kind::BFloat16 => Kind::Float,
            kind => kind,
        };
        let copy = tensor.detach().to_device(Device::Cpu).to_kind(kind);
        let mut name = name.into();
        if let Some(section) = self.section
            && OF_SECTIONS.iter().any(|start| name.starts_with(start))
        {
            name = format!("section.{section}.{name}");
        }
        self.tensors.insert(name, copy.contiguous().copy());
    }

    /// Records a tensor if there is one.
    pub fn put_some(&mut self, name: impl Into<String>, tensor: Option<&Tensor>) {
        if let Some(tensor) = tensor {
            self.put(name, tensor);
        }
    }

    pub fn finish(&self) -> Result<(), EngineError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        tensor_files::write(path, &self.tensors)
    }
}

/// Merges the stages' captures in `folder` into one `capture.safetensors`.
///
/// The stages' files stay: a job that resumes after its last stage failed merges them again.
pub fn merge(folder: &Path) -> Result<PathBuf, EngineError> {
    let io = EngineError::io(folder);
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(&io)? {
        let path = entry.map_err(&io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("capture.") && name.ends_with(".safetensors") && name != MERGED_NAME {
            parts.push(path);
        }
    }
    parts.sort();
    let mut tensors = BTreeMap::new();
    for part in parts {
        tensors.extend(tensor_files::read(&part)?);
    }
    let merged = folder.join(MERGED_NAME);
    tensor_files::write(&merged, &tensors)?;
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_different_processes_make_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let one = Tensor::ones([2], (Kind::Float, Device::Cpu));
        let mut text = StageCapture::stage(dir.path(), "encode_text").unwrap();
        text.put("prompt_embeds", &one.to_kind(Kind::BFloat16));
        text.finish().unwrap();
        let mut denoise = StageCapture::stage(dir.path(), "denoise").unwrap();
        denoise.put("step.00.latents", &one);
        denoise.finish().unwrap();
        drop(denoise);
        let mut resumed = StageCapture::stage(dir.path(), "denoise").unwrap();
        resumed.put("step.01.latents", &(&one + 1.0));
        resumed.finish().unwrap();
        std::fs::remove_file(merge(dir.path()).unwrap()).unwrap();
        // Once more, as when the video could not be saved.
        let merged = merge(dir.path()).unwrap();
        let found: BTreeMap<_, _> = tensor_files::read(&merged).unwrap().into_iter().collect();
        let names: Vec<_> = found.keys().cloned().collect();
        assert_eq!(
            names,
            ["prompt_embeds", "step.00.latents", "step.01.latents"]
        );
        assert_eq!(found["prompt_embeds"].kind(), Kind::Float);
    }

    #[test]
    fn a_capture_that_is_off_writes_nothing() {
        let mut capture = StageCapture::off();
        capture.put("x", &Tensor::from(1.0));
        capture.finish().unwrap();
        assert!(!capture.is_on());
    }
}
