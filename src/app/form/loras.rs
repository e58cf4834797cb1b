//! The LoRAs that a form has chosen. What is in their files is not known here.

use std::path::PathBuf;

use safelight_core::job::Lora;
use safelight_core::model::ModelSpec;
use serde::{Deserialize, Serialize};

use crate::app::form::{FormState, has_two_experts};

/// A LoRA of the form, which may be switched off and stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenLora {
    pub path: PathBuf,
    pub is_on: bool,
    /// 1 as trained.
    pub strength: f64,
    /// The low-noise expert's, where it is another one.
    #[serde(default)]
    pub strength_2: Option<f64>,
}

impl ChosenLora {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            is_on: true,
            strength: 1.0,
            strength_2: None,
        }
    }

    /// The file's name without its ending.
    pub fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or(self.path.as_os_str());
        stem.to_string_lossy().into_owned()
    }
}

impl From<&Lora> for ChosenLora {
    fn from(lora: &Lora) -> Self {
        Self {
            path: lora.path.clone(),
            is_on: true,
            strength: lora.strength,
            strength_2: lora.strength_2,
        }
    }
}

impl FormState {
    /// Those that a job gets.
    pub(super) fn acting_loras(&self, spec: &ModelSpec) -> Vec<Lora> {
        let acting = self.loras.iter().filter(|lora| lora.is_on);
        acting
            .map(|lora| Lora {
                path: lora.path.clone(),
                strength: lora.strength,
                strength_2: lora.strength_2.filter(|_| has_two_experts(spec)),
            })
            .collect()
    }
}
