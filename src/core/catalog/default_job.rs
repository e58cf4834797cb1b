//! Default job of a known model that is not installed: its request and networks, so that it can be planned like an
//! installed one.
//!
//! Sizes are those of the published files. Reads nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::entry::CatalogEntry;
use super::source::DownloadSource;
use crate::families::def_of;
use crate::footprint::{ModelFootprint, NetworkFootprint, PlannedNetwork};
use crate::job::GenerateRequest;
use crate::model::{ModelComponent, ModelDefaults, ModelFiles, SamplingOptions};

/// A job with the model's own defaults.
#[derive(Clone, Debug)]
pub struct DefaultJob {
    pub request: GenerateRequest,
    pub weights: ModelFootprint,
}

impl CatalogEntry {
    /// Nothing where its shape or its usual size is not known, as of what users add. `in_8_bits`: with files that store
    /// its transformer and its text encoders so.
    pub fn sketch(&self, in_8_bits: bool) -> Option<DefaultJob> {
        let weights = self.published_weights(in_8_bits)?;
        Some(DefaultJob {
            request: self.usual_request()?,
            weights,
        })
    }

    fn sources_of(&self, component: ModelComponent) -> impl Iterator<Item = &DownloadSource> {
        let sources = self.sources.iter();
        sources.filter(move |source| source.component == component)
    }

    fn published_weights(&self, in_8_bits: bool) -> Option<ModelFootprint> {
        let shape = self.shape?;
        let configs: BTreeMap<_, _> = def_of(self.family).published(&shape).into_iter().collect();
        let networks = configs.into_iter().filter_map(|(part, config)| {
            let (component, number) = match part {
                PlannedNetwork::Transformer => (ModelComponent::Transformer, 0),
                PlannedNetwork::Transformer2 => (ModelComponent::Transformer, 1),
                PlannedNetwork::TextEncoder => (ModelComponent::TextEncoder, 0),
                PlannedNetwork::TextEncoder2 => (ModelComponent::TextEncoder2, 0),
                // The latter is no part of a model.
                PlannedNetwork::ImageEncoder | PlannedNetwork::ImageEmbedder => {
                    (ModelComponent::ImageEncoder, 0)
                }
                PlannedNetwork::VaeEncoder | PlannedNetwork::VaeDecoder => (ModelComponent::Vae, 0),
                PlannedNetwork::TextConnectors => (ModelComponent::TextConnectors, 0),
                PlannedNetwork::AudioDecoder => (ModelComponent::AudioVae, 0),
                PlannedNetwork::LatentUpscaler => (ModelComponent::LatentUpscaler, 0),
                // No model has one.
                PlannedNetwork::Finisher => return None,
            };
            let source = self.sources_of(component).nth(number)?;
            let is_narrow = source.is_narrow() || (in_8_bits && component != ModelComponent::Vae);
            // A half of an autoencoder is about half of it.
            let share = if component == ModelComponent::Vae {
                2
            } else {
                1
            };
            let numbers = self.about_numbers(source) / share;
            Some((part, NetworkFootprint::about(numbers, is_narrow, config)))
        });
        let networks: Vec<(PlannedNetwork, NetworkFootprint)> = networks.collect();
        let has_transformer = networks
            .iter()
            .any(|(part, _)| *part == PlannedNetwork::Transformer);
        has_transformer.then(|| ModelFootprint::about(networks))
    }

    fn usual_request(&self) -> Option<GenerateRequest> {
        let usual = &self.defaults;
        let defaults = self.defaults.clone().over(ModelDefaults {
            width: usual.width?,
            height: usual.height?,
            num_frames: 1,
            fps: 16.0,
            sampling: SamplingOptions::plain(20, 5.0),
            small_shift: None,
            negative_prompt: String::new(),
        });
        let has = |component| self.sources_of(component).next().map(|_| PathBuf::new());
        let files = ModelFiles {
            transformer_2: self
                .sources_of(ModelComponent::Transformer)
                .nth(1)
                .map(|_| PathBuf::new()),
            text_encoder_2: has(ModelComponent::TextEncoder2),
            image_encoder: has(ModelComponent::ImageEncoder),
            ..ModelFiles::default()
        };
        Some(GenerateRequest {
            model: self.id.clone(),
            family: self.family,
            files,
            negative_prompt: defaults.negative_prompt,
            width: defaults.width,
            height: defaults.height,
            num_frames: defaults.num_frames,
            fps: defaults.fps,
            batch_size: 1,
            sampling: defaults.sampling,
            is_out_automatic: true,
            ..GenerateRequest::default()
        })
    }
}
