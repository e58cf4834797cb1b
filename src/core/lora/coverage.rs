//! Coverage of a LoRA by a model, in numbers and in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::file::LoraFile;

/// Below this part of its keys a LoRA is not what it was made to be.
const ENOUGH: f64 = 0.9;
/// Unknown keys that are named.
const MAX_NAMED: usize = 3;

/// A layer that the model has in another size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerMismatch {
    /// As the file names it.
    pub layer: String,
    /// Outputs and inputs.
    pub expected: (u64, u64),
    pub found: (u64, u64),
    /// Number of its keys.
    pub keys: usize,
}

/// Use of the keys and layers of a LoRA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoraCoverage {
    /// Keys of the file.
    pub total: usize,
    pub applied: usize,
    /// Layers of the image encoder, which the model lacks. They are left out without a notice, as in other programs.
    pub images: usize,
    /// Of text encoders that cannot be changed here.
    pub text_encoder: usize,
    /// Of layers that no model would take as they are, of copies, and of no LoRA; [`Self::notices`] name them.
    #[serde(default)]
    pub left_out: usize,
    pub unknown: Vec<String>,
    pub misfits: Vec<LayerMismatch>,
    pub changed_layers: usize,
    /// Layers of the file.
    #[serde(default)]
    pub layers: usize,
    /// The scale of its layers as a noun phrase, where the file states it.
    #[serde(default)]
    pub scale: Option<String>,
    /// Sentences about the file, the same for every model.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Reason why the file contradicts itself on this model.
    #[serde(default)]
    pub conflict: Option<String>,
}

impl LoraCoverage {
    pub(super) fn new(file: &LoraFile) -> Self {
        let left_out = file.layers.iter();
        let left_out = left_out.filter(|(layer, _)| file.left_out.contains_key(*layer));
        let left_out: usize = left_out.map(|(_, parts)| parts.len()).sum();
        Self {
            total: file.num_keys(),
            left_out: left_out + file.strange.len() + file.num_repeated,
            layers: file.layers.len(),
            scale: file.scale_text(),
            notices: file.notices(),
            ..Self::default()
        }
    }

    /// Keys of layers whose size is another one.
    pub fn num_misfits(&self) -> usize {
        self.misfits.iter().map(|misfit| misfit.keys).sum()
    }

    /// Returns true if so little is applied, or in another way than the file says, that the user should know.
    pub fn is_poor(&self) -> bool {
        let wanted = self.total.saturating_sub(self.images);
        (self.applied as f64) < ENOUGH * wanted as f64 || !self.notices.is_empty()
    }
}

impl fmt::Display for LoraCoverage {
    /// A line; its alternate form (`{:#}`) leaves out what is the same for every model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "applies to {} of {} layers ({} of {} keys)",
            self.changed_layers, self.layers, self.applied, self.total
        )?;
        if self.images > 0 {
            write!(
                f,
                "; {} for images that this model does not read",
                self.images
            )?;
        }
        if self.text_encoder > 0 {
            write!(f, "; {} for a text encoder, not applied", self.text_encoder)?;
        }
        if let [first, ..] = &self.misfits[..] {
            let ((outputs, inputs), (found_outputs, found_inputs)) = (first.expected, first.found);
            write!(
                f,
                "; {} of another size: '{}' has {found_outputs} outputs and {found_inputs} inputs, the model's {outputs} and {inputs}",
                self.num_misfits(),
                first.layer,
            )?;
        }
        if !self.unknown.is_empty() {
            let named: Vec<&str> = self
                .unknown
                .iter()
                .take(MAX_NAMED)
                .map(String::as_str)
                .collect();
            write!(f, "; unknown: {}", named.join(", "))?;
            if let more @ 1.. = self.unknown.len() - named.len() {
                write!(f, " and {more} more")?;
            }
        }
        if f.alternate() {
            return Ok(());
        }
        if let Some(scale) = &self.scale {
            write!(f, "; scale {scale}")?;
        }
        self.notices
            .iter()
            .try_for_each(|notice| write!(f, "; {notice}"))
    }
}
