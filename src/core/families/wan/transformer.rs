//! Recognition of a transformer's file by its header: its variant, or the other model that it belongs to.

use std::path::{Path, PathBuf};

use super::WanFamily;
use super::variant::WanVariant;
use crate::families::single::whole_transformer;
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::networks::{NetworkConfig as _, WanTransformerConfig};

/// The variants that the header of one transformer leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TransformerKind {
    /// The variant where it is the whole of a model.
    pub alone: Option<WanVariant>,
    /// The variant where it is one of two experts.
    pub as_expert: Option<WanVariant>,
}

impl TransformerKind {
    const fn whole(variant: WanVariant) -> Self {
        Self {
            alone: Some(variant),
            as_expert: None,
        }
    }

    /// Returns true if only a name says that it is one of two experts.
    pub fn is_open(self) -> bool {
        self.alone.is_some() && self.as_expert.is_some()
    }
}

/// One transformer whose header and config are sound.
#[derive(Clone, Debug)]
pub(super) struct CheckedTransformer {
    pub place: PathBuf,
    pub cfg: WanTransformerConfig,
    pub kind: TransformerKind,
}

/// The variant of the transformer at a place, where its header says it.
pub(super) fn variant_at(place: &Path) -> Option<&'static str> {
    let kind = CheckedTransformer::read(place).ok()?.kind;
    Some(kind.alone.or(kind.as_expert)?.name())
}

impl CheckedTransformer {
    /// Reads the transformer at a place: a file, an index or a component's folder. Foreign models and
    /// storages are named and refused.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let weights = WeightSet::open(place)?;
        let cfg = whole_transformer::<WanFamily>(place, &weights)?;
        let kind = kind_by_channels(&cfg);
        let kind = kind.map_err(|what| CatalogError::unsupported(what, place))?;
        cfg.check_weights(&weights)?;
        Ok(Self {
            place: place.to_owned(),
            cfg,
            kind,
        })
    }
}

fn kind_by_channels(cfg: &WanTransformerConfig) -> Result<TransformerKind, String> {
    let (input, output) = (cfg.in_channels, cfg.out_channels);
    // Noise, a mask with a channel for each frame of a latent one, and images.
    let with_images = 2 * output + 4;
    let kind = match (input, cfg.image_dim, cfg.pos_embed_seq_len) {
        (16, None, None) if output == 16 && cfg.has_control() => TransformerKind {
            alone: Some(WanVariant::VACE),
            as_expert: Some(WanVariant::VACE_A14B),
        },
        _ if cfg.has_control() => {
            return Err(format!(
                "a Wan VACE transformer with {input} input and {output} output channels"
            ));
        }
        (48, None, None) if output == 48 => TransformerKind::whole(WanVariant::TI2V),
        (input, None, None) if input == output => TransformerKind {
            alone: Some(WanVariant::T2V),
            as_expert: Some(WanVariant::T2V_A14B),
        },
        (input, Some(_), Some(_)) if input == with_images => {
            TransformerKind::whole(WanVariant::FLF2V)
        }
        (input, Some(_), None) if input == with_images => TransformerKind::whole(WanVariant::I2V),
        (input, None, None) if input == with_images && output != 48 => TransformerKind {
            alone: None,
            as_expert: Some(WanVariant::I2V_A14B),
        },
        _ => {
            return Err(format!(
                "a Wan transformer with {input} input and {output} output channels, such as Fun-Control's"
            ));
        }
    };
    Ok(kind)
}
