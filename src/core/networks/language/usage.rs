//! Use of a language model by an image or video model: the kind, and the hidden states.

use std::path::Path;

use super::{LanguageConfig, LanguageKind};
use crate::model::CatalogError;
use crate::networks::config::ensure;
use crate::networks::{NetworkConfig as _, config_path};

/// Hidden states that are read. State 0 is the output of the embedding table, state `n` that of layer `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LanguageTap {
    /// The last, after the final norm.
    #[default]
    Last,
    /// The one before a number of the last layers: 1 is `hidden_states[-2]` of `transformers`.
    BeforeLast(i64),
    /// Those of these numbers, in rising order, side by side in each token: `(B, L, C)` of each -> `(B, L, n C)`
    States(&'static [i64]),
    /// All, the last one after the final norm, side by side like these.
    All,
}

impl LanguageTap {
    /// Layers up to the last state that is read, of `all`.
    pub(super) fn num_layers(self, all: i64) -> i64 {
        match self {
            Self::Last | Self::All => all,
            Self::BeforeLast(skipped) => (all - skipped).max(0),
            Self::States(numbers) => numbers.iter().copied().max().unwrap_or(0).min(all),
        }
    }

    /// Indices of the states in a model with `all` layers.
    pub fn states(self, all: i64) -> Vec<i64> {
        match self {
            Self::Last | Self::BeforeLast(_) => vec![self.num_layers(all)],
            Self::States(numbers) => numbers.to_vec(),
            Self::All => (0..=all).collect(),
        }
    }

    /// Returns true if the final norm is read.
    pub fn has_norm(self) -> bool {
        matches!(self, Self::Last | Self::All)
    }

    fn check(self, all: i64) -> Result<(), String> {
        match self {
            Self::Last | Self::All => Ok(()),
            Self::BeforeLast(skipped) if all > skipped => Ok(()),
            Self::BeforeLast(skipped) => Err(format!(
                "expected more than {skipped} num_hidden_layers, as the last {skipped} are not read, found {all}"
            )),
            Self::States(numbers) => match numbers.iter().find(|number| **number > all) {
                None => Ok(()),
                Some(number) => Err(format!(
                    "expected at least {number} num_hidden_layers, as what layer {number} gives is read, found {all}"
                )),
            },
        }
    }
}

/// The data of a family: its language model, and what it reads of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanguageUse {
    pub kind: LanguageKind,
    pub tap: LanguageTap,
}

impl LanguageUse {
    /// Config at a path: a folder, a weight file or a weight index. Fails for another kind of model and for one with
    /// too few layers.
    pub fn read(self, place: &Path) -> Result<LanguageConfig, CatalogError> {
        let config = LanguageConfig::read(place)?;
        self.truncated(config)
            .map_err(|reason| CatalogError::config(reason, config_path(place)))
    }

    /// Like [`Self::read`], for a config that was read.
    pub fn truncated(self, config: LanguageConfig) -> Result<LanguageConfig, String> {
        ensure!(
            config.kind() == self.kind,
            "expected a {} text encoder, found a {} (model_type {})",
            self.kind.label(),
            config.kind().label(),
            config.model_type
        );
        self.tap.check(config.num_hidden_layers)?;
        Ok(LanguageConfig {
            tap: self.tap,
            ..config
        })
    }
}
