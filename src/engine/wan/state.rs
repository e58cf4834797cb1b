//! What stages leave for the next one, on disk between processes: embeddings and half-done latents.

use std::path::Path;

use tch::{Kind, Tensor};

use crate::error::EngineError;
use crate::store;

/// The texts as the transformer gets them, `(1, 512, C)` each, zero behind the end of the text.
#[derive(Debug)]
pub struct PromptEmbeds {
    pub prompt: Tensor,
    /// Only where the job is guided.
    pub negative: Option<Tensor>,
}

impl PromptEmbeds {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("prompt_embeds", &self.prompt)];
        tensors.extend(
            self.negative
                .iter()
                .map(|negative| ("negative_prompt_embeds", negative)),
        );
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut prompt = None;
        let mut negative = None;
        for (name, tensor) in store::read(path)? {
            match name.as_str() {
                "prompt_embeds" => prompt = Some(tensor),
                "negative_prompt_embeds" => negative = Some(tensor),
                _ => {}
            }
        }
        let prompt = prompt.ok_or_else(|| incomplete(path, "it has no 'prompt_embeds'"))?;
        Ok(Self { prompt, negative })
    }
}

/// The denoising loop between two calls of the model: enough to go on bit for bit, but for the rounding of a GPU that
/// now has room for both passes of the guidance together where it had not, or the other way round.
#[derive(Debug)]
pub struct DenoiseState {
    /// Which call comes next, counted from 0 in the whole schedule: steps, but for Heun, whose steps have two.
    pub step: usize,
    /// `(1, C, f, h, w)` in f32
    pub latents: Tensor,
    /// The sampler's, see [`Solver::history`](crate::sampling::Solver::history).
    pub history: Vec<Tensor>,
}

impl DenoiseState {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![
            ("step".to_owned(), Tensor::from(self.step as i64)),
            ("latents".to_owned(), self.latents.shallow_clone()),
        ];
        for (i, tensor) in self.history.iter().enumerate() {
            tensors.push((format!("history.{i:02}"), tensor.shallow_clone()));
        }
        store::write(path, tensors.iter().map(|(name, tensor)| (name, tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut step = None;
        let mut latents = None;
        let mut history = Vec::new();
        // Sorted by name, so the history comes in its order.
        for (name, tensor) in store::read(path)? {
            match name.as_str() {
                "step" if tensor.kind() == Kind::Int64 && tensor.numel() == 1 => {
                    step = usize::try_from(tensor.int64_value(&[])).ok();
                }
                "latents" => latents = Some(tensor),
                name if name.starts_with("history.") => history.push(tensor),
                _ => {}
            }
        }
        let (Some(step), Some(latents)) = (step, latents) else {
            return Err(incomplete(path, "it has no step and latents"));
        };
        Ok(Self {
            step,
            latents,
            history,
        })
    }
}

/// One tensor alone, such as image latents or final latents.
pub fn save_tensor(path: &Path, name: &str, tensor: &Tensor) -> Result<(), EngineError> {
    store::write(path, [(&name, tensor)])
}

/// What [`save_tensor`] wrote.
pub fn load_tensor(path: &Path, name: &str) -> Result<Tensor, EngineError> {
    store::read(path)?
        .into_iter()
        .find_map(|(key, tensor)| (key == name).then_some(tensor))
        .ok_or_else(|| incomplete(path, &format!("it has no '{name}'")))
}

fn incomplete(path: &Path, reason: &str) -> EngineError {
    EngineError::Config {
        reason: format!("the result of a stage is not complete: {reason}"),
        path: path.to_owned(),
    }
}
