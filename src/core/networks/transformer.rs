//! Transformers as data: the one [`NetworkConfig`] of all that declare their numbers, dialects and tensors.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::declared::{DeclaredConfig, NamedShapes};
use super::dialects::{PREFIXES, TensorDialect, TensorKeys};
use super::header::not_a;
use super::{NetworkConfig, Schema, TensorSpec, class_name, stream_blocks};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::model::facts::TransformerShape;

/// A transformer, or a ControlNet made of a transformer's blocks.
pub trait TransformerConfig: DeclaredConfig + DeserializeOwned + 'static {
    /// The network in messages, without an article.
    const LABEL: &'static str;
    /// diffusers' classes of it.
    const CLASSES: &'static [&'static str];
    const PREFIXES: &'static [&'static str] = PREFIXES;
    /// First name components of tensors that a file may have besides those that are read. A file with others is refused,
    /// unless there is no such list.
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&[]);
    /// Dialects in the order in which they are tried. A file of no dialect counts as one of the first, so that the
    /// first missing name is reported.
    const DIALECTS: &'static [TensorDialect];

    /// Fills in what no single tensor shows. `authors`: the config next to the file in the authors' own terms.
    fn completed(
        self,
        _header: &NamedShapes<'_>,
        _authors: Option<&Value>,
    ) -> Result<Self, String> {
        Ok(self)
    }

    /// The first wrong number beyond the ranges that the declaration checks, as "expected X, found Y".
    fn check_numbers(&self) -> Result<(), String>;

    /// Blocks of each list of [`Self::DIALECTS`].
    fn block_counts(&self) -> Vec<i64>;

    /// Adds every tensor in readers' names.
    fn add_tensors(&self, schema: &mut Schema);

    /// Returns true if a file is whole without a tensor; `name`: readers'.
    fn can_lack(&self, _name: &str) -> bool {
        false
    }
}

/// The transformer of a denoising loop.
pub trait DenoiserConfig: TransformerConfig {
    /// Channels of its latents.
    fn latent_channels(&self) -> i64;

    /// Heads, blocks that text and image go through, and channels of the input.
    fn shape(&self) -> TransformerShape;
}

/// Width of the hidden states of transformers whose heads share it.
macro_rules! width_of_heads {
    ($($config:ident)+) => { $(
        impl super::$config {
            /// Width of the hidden states.
            pub fn dim(&self) -> i64 {
                self.num_attention_heads * self.attention_head_dim
            }
        }
    )+ };
}

width_of_heads! {
    AnimaTransformerConfig ChromaTransformerConfig Flux2TransformerConfig Flux3TransformerConfig FluxTransformerConfig
    FramePackTransformerConfig Krea2TransformerConfig QwenImage21TransformerConfig QwenImageTransformerConfig WanTransformerConfig
}

impl<T: TransformerConfig> NetworkConfig for T {
    fn is_described_by(config: &Value) -> bool {
        class_name(config).is_some_and(|class| T::CLASSES.contains(&class))
    }

    fn of_header(weights: &WeightSet, authors: Option<&Value>) -> Result<Self, String> {
        let keys = TensorKeys::<T>::detect(|key| weights.has(key));
        let keys = keys.ok_or_else(|| not_a(T::LABEL, weights))?;
        let file_key = |name: &str| keys.file_key(name);
        let header = NamedShapes::new(weights, &file_key);
        T::of_declared(&header)?.completed(&header, authors)
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        self.check_numbers()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let keys = TensorKeys::<T>::of(|key| weights.has(key));
        let schema = Schema::of(self, Some(keys.dialect))
            .retained(|name| !self.can_lack(name) || weights.has(&keys.file_key(name)));
        let mut tensors = schema.renamed(|name| keys.file_key(name));
        // Some converters to GGUF leave out axes of 1.
        for tensor in &mut tensors {
            let found = weights.shape(&tensor.name);
            if let (&[1, width], Some(&[own])) = (&tensor.shape[..], found.as_deref())
                && width == own
            {
                tensor.shape.remove(0);
            }
        }
        tensors
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = TensorKeys::<T>::of(|key| weights.has(key));
        stream_blocks::check_blocks(weights, &keys.lists(), &self.block_counts())?;
        let guidance = keys.file_key(stream_blocks::GUIDANCE);
        let is_read = |tensor: &TensorSpec| tensor.name == guidance;
        if !weights.has(&guidance) || self.tensors(weights).iter().any(is_read) {
            return Ok(());
        }
        Err(CatalogError::config(
            format!("expected no guidance by the config, found the tensor '{guidance}'"),
            weights.files.first().cloned().unwrap_or_default(),
        ))
    }
}
