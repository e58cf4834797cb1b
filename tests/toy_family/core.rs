//! The toy family, as `safelight_core::families` sees it: one network of three tensors that turns noise into coloured
//! squares.
//!
//! It proves that a family is a folder: it is registered in builds for tests alone, and nothing else knows it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FamilyDef, ModelFamily};
use crate::footprint::{NetworkReader, PlannedJob, PlannedNetwork, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::ComponentLibrary;
use crate::library::single::AssembledModel;
use crate::lora::LoraTarget;
use crate::model::choices::SamplerKind;
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, ModelVariant, SchedulerDefaults, TransformerShape};
use crate::model::{
    CatalogError, ComponentOverrides, ControlUse, GuidanceMode, ImageRole, InputUse, ModelFiles,
    SizeLimits,
};
use crate::networks::{NetworkConfig, Schema, TensorRole, TensorSpec, check_sizes};

pub const FAMILY: ModelFamily = ModelFamily::TOY;

/// Pixels along an edge of one latent.
pub const FACTOR: u32 = 8;

const MIX: &str = "toy.mix.weight";

/// The only network: a table of letters, a matrix between channels, and one from channels to colours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToyConfig {
    pub channels: i64,
}

impl NetworkConfig for ToyConfig {
    fn is_described_by(config: &Value) -> bool {
        config.get("_class_name").and_then(Value::as_str) == Some("ToyTransformer")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        match weights.shape(MIX).as_deref() {
            Some(&[rows, _]) => Ok(Self {
                channels: i64::try_from(rows).unwrap_or(i64::MAX),
            }),
            _ => Err(format!("expected a matrix '{MIX}', found none")),
        }
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[("channels", self.channels)])
    }

    fn tensors(&self, _weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema()
    }
}

impl ToyConfig {
    pub fn schema(&self) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        schema.add(
            "toy.letters.weight",
            &[256, self.channels],
            TensorRole::Table,
        );
        schema.matrix("toy.mix", self.channels, self.channels);
        schema.matrix("toy.paint", 3, self.channels);
        schema.into_tensors()
    }
}

pub(super) struct ToyFamily;

impl FamilyDef for ToyFamily {
    fn family(&self) -> ModelFamily {
        FAMILY
    }

    fn networks(&self, files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
        reader.read::<ToyConfig>(PlannedNetwork::Transformer, &files.transformer)
    }

    fn needs(&self, job: &PlannedJob<'_>, stage: Stage) -> Vec<StageFootprint> {
        let network = job.configured::<ToyConfig>(PlannedNetwork::Transformer);
        let pixels = f64::from(job.request.width) * f64::from(job.request.height);
        let numbers = |channels: i64| match stage {
            Stage::EncodeText => Some(channels as f64),
            Stage::Denoise => Some(4.0 * channels as f64 * pixels / f64::from(FACTOR * FACTOR)),
            Stage::Decode => Some(6.0 * pixels),
            _ => None,
        };
        let need = network.and_then(|(_, config)| {
            let bytes = 4.0 * numbers(config.channels)?;
            Some(StageFootprint {
                calls: job.steps(),
                ..job.need(PlannedNetwork::Transformer, bytes)
            })
        });
        need.into_iter().collect()
    }

    fn owns_pipeline(&self, class: &str) -> bool {
        class == "ToyPipeline"
    }

    fn check_folder(
        &self,
        folder: &Path,
        _: &ModelIndex,
        _: &ComponentOverrides,
        _: &ComponentLibrary,
    ) -> Result<(ModelFiles, ModelFacts), CatalogError> {
        Err(CatalogError::NoModel {
            path: folder.to_owned(),
        })
    }

    fn has_transformer(&self, weights: &WeightSet) -> bool {
        weights.has(MIX)
    }

    fn assemble(
        &self,
        place: &Path,
        weights: &WeightSet,
        _: &ComponentOverrides,
        _: &ComponentLibrary,
    ) -> Result<AssembledModel, CatalogError> {
        let config = ToyConfig::read(place)?;
        config.check_weights(weights)?;
        let name = place.file_stem().unwrap_or_default();
        Ok(AssembledModel {
            place: place.to_owned(),
            name: name.to_string_lossy().into_owned(),
            files: ModelFiles {
                transformer: place.to_owned(),
                vae: place.to_owned(),
                text_encoder: place.to_owned(),
                ..ModelFiles::default()
            },
            facts: ModelFacts {
                family: FAMILY,
                variant: ModelVariant {
                    guidance: GuidanceMode::None,
                    start_image: InputUse::No,
                    image_role: ImageRole::FirstFrame,
                    mask: InputUse::No,
                    ..ModelVariant::new("squares")
                },
                shape: TransformerShape {
                    heads: 1,
                    head_dim: config.channels,
                    layers: 1,
                    channels: config.channels,
                },
                section_order: None,
                latent_channels: config.channels.unsigned_abs(),
                limits: SizeLimits {
                    size_multiple: FACTOR,
                    max_edge: 1024,
                    max_pixels: 1 << 20,
                    frame_stride: 1,
                    max_frames: 1,
                    fixed_size: false,
                    max_batch: 1,
                    max_references: 0,
                    controls: ControlUse::NONE,
                },
                schedule: Some(SchedulerDefaults {
                    sampler: SamplerKind::Euler,
                    shift: None,
                }),
                bytes: weights.bytes,
            },
        })
    }

    fn variant_at(&self, _: &Path) -> Option<&'static str> {
        Some("squares")
    }

    fn lora_target(&self, _: bool) -> LoraTarget {
        LoraTarget::transformer("toy", |_| Vec::new())
    }
}
