//! Redux: image prompts for FLUX.1.

use std::path::Path;

use crate::families::prelude::*;
use crate::library::{ComponentCandidate, WeightFileRole};
use crate::model::ReduxFiles;
use crate::networks::{FluxTransformerConfig, ReduxConfig, SiglipConfig};

/// Redux, as wide as this transformer's texts, and the SigLIP that it reads; from the same folder rather than from others.
pub(super) fn image_prompts(
    files: &ModelFiles,
    items: &[ComponentCandidate],
) -> Option<ReduxFiles> {
    let of_kind = |kind: PartKind| {
        let items = items
            .iter()
            .filter(move |item| item.role == WeightFileRole::Part(kind));
        items.map(|item| item.place.as_path())
    };
    // Without one, nothing is read.
    of_kind(PartKind::Redux).next()?;
    let transformer = FluxTransformerConfig::read(&files.transformer).ok()?;
    let width = transformer.joint_attention_dim;
    let whole = |place: &Path| {
        let (config, weights) = (ReduxConfig::read(place).ok()?, WeightSet::open(place).ok()?);
        let fits = config.txt_in_features == width && config.check_weights(&weights).is_ok();
        fits.then_some(config)
    };
    let sees = |place: &Path, config: &ReduxConfig| {
        let found = SiglipConfig::read(place).ok();
        let weights = WeightSet::open(place).ok();
        found.zip(weights).is_some_and(|(found, weights)| {
            found.hidden_size == config.redux_dim && found.check_weights(&weights).is_ok()
        })
    };
    of_kind(PartKind::Redux).find_map(|embedder| {
        let config = whole(embedder)?;
        let home = embedder.parent();
        let mut encoders: Vec<&Path> = of_kind(PartKind::Siglip).collect();
        encoders.sort_by_key(|place| place.parent() != home);
        let encoder = encoders.into_iter().find(|place| sees(place, &config))?;
        let processor = encoder.with_file_name("feature_extractor");
        let has_own = processor.join("preprocessor_config.json").is_file();
        Some(ReduxFiles {
            image_encoder: encoder.to_owned(),
            image_processor: has_own.then_some(processor),
            embedder: embedder.to_owned(),
        })
    })
}
