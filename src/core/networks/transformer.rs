//! Transformers as data: the one [`NetworkConfig`] of all that declare their numbers, dialects and tensors.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::declared::{DeclaredConfig, NamedShapes};
use super::dialects::{NamedTensors, TensorDialect, TensorKeys};
use super::header::not_a;
use super::{NetworkConfig, Schema, TensorSpec, class_name, stream_blocks};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// A transformer, or a ControlNet made of a transformer's blocks.
pub trait TransformerConfig: NamedTensors + DeclaredConfig + DeserializeOwned {
    /// The network in messages, without an article.
    const LABEL: &'static str;
    /// diffusers' classes of it.
    const CLASSES: &'static [&'static str];
    /// A layer of models that are given a guidance, in readers' names; refused in a file whose config states none.
    const GUIDANCE: Option<&'static str> = None;

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

    /// Blocks of each list of [`NamedTensors::DIALECTS`].
    fn block_counts(&self) -> Vec<i64>;

    /// Every tensor in readers' names, as a file of a dialect has them; as readers ask for them without one.
    fn schema(&self, dialect: Option<&TensorDialect>) -> Schema;

    fn has_guidance(&self) -> bool {
        true
    }

    /// Every tensor as a file names it.
    fn tensors_in(&self, keys: TensorKeys<Self>) -> Vec<TensorSpec> {
        let schema = self.schema(Some(keys.dialect));
        schema.renamed(|name| keys.file_key(name))
    }
}

/// The transformer of a denoising loop.
pub trait DenoiserConfig: TransformerConfig {
    /// Channels of its latents.
    fn latent_channels(&self) -> i64;

    /// Blocks that text and picture go through.
    fn num_blocks(&self) -> i64;
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
        let mut tensors = self.tensors_in(TensorKeys::of(|key| weights.has(key)));
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
        match T::GUIDANCE {
            Some(name) => {
                let key = keys.file_key(name);
                stream_blocks::check_guidance(weights, self.has_guidance(), &key)
            }
            None => Ok(()),
        }
    }
}
