//! The toy family, as `safelight_core::families` sees it: one file with one network that turns noise into coloured squares.
//!
//! It proves that a family is a folder: it is registered in builds for tests alone, and nothing else knows it.

use std::sync::Arc;

use crate::families::prelude::*;
pub use crate::networks::ToyConfig;

pub const FAMILY: ModelFamily = ModelFamily::TOY;

/// Pixels along an edge of one latent.
pub const FACTOR: u32 = 8;

pub(super) struct ToyFamily;

impl SingleTransformerFamily for ToyFamily {
    type Config = ToyConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<ToyConfig> = FamilyTable {
        pipelines: &["ToyPipeline"],
        variant: |_, _| {
            Ok(ModelVariant {
                guidance: GuidanceMode::None,
                start_image: InputUse::No,
                image_role: ImageRole::FirstFrame,
                mask: InputUse::No,
                ..ModelVariant::new("squares")
            })
        },
        // The matrix to colours, in the transformer's file.
        vae: FamilyVae {
            class: None,
            wanted: |_| ComponentQuery {
                component: ModelComponent::Vae,
                part: PartKind::KlVae,
                what: "a toy's colours".to_owned(),
                kind: "a toy's colours",
                example: "toy.safetensors",
                usual: &[],
                word: "toy",
                is_in: |weights| weights.has("toy.paint.weight"),
                fits: Box::new(|weights, place| ToyConfig::read(place)?.check_weights(weights)),
                tokenizer: None,
            },
            published: |_| Arc::new(ToyConfig::default()),
            is_published: |_, _| false,
            read: |_, _| Ok(()),
            sizes: |place| Ok((ToyConfig::read(place)?.channels, i64::from(FACTOR))),
        },
        complete: |_, _, facts| {
            facts.limits = SizeLimits {
                size_multiple: FACTOR,
                max_edge: 1024,
                max_pixels: 1 << 20,
                max_batch: 1,
                ..facts.limits
            };
            Ok(())
        },
        needs: |job, stage| Some([need(job, stage), None]),
        lora_models: Vec::new,
        ..FamilyTable::DEFAULT
    };
}

fn need(job: &PlannedJob<'_>, stage: Stage) -> Option<StageFootprint> {
    let (_, config) = job.configured::<ToyConfig>(PlannedNetwork::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let numbers = match stage {
        Stage::EncodeText => config.channels as f64,
        Stage::Denoise => 4.0 * config.channels as f64 * pixels / f64::from(FACTOR * FACTOR),
        Stage::Decode => 6.0 * pixels,
        _ => return None,
    };
    Some(StageFootprint {
        calls: job.steps(),
        ..job.need(PlannedNetwork::Transformer, 4.0 * numbers)
    })
}
