//! ControlNets of Z-Image: blocks of the transformer's kind that run in parallel to its own, starting from a control
//! image, with an output after each block.
//!
//! alibaba-pai's Z-Image-Turbo-Fun-Controlnet-Union in all versions: the first sees only an image (16 channels), the
//! later ones also a mask and the unmasked part of an image (33), and have blocks parallel to the transformer's noise
//! refiner.
//! Files have diffusers' names within blocks, without a prefix; readers use the authors' names of the transformer.
//! Everything else, such as the layers that read timesteps and texts, is shared with the transformer.

use super::ZImageTransformerConfig;
use super::z_image_transformer::{DIFFUSERS_LAYERS, PATCH, add_block};
use crate::networks::prelude::*;

/// Blocks of the published transformers, among which those of a file without a config are spread evenly.
const PUBLISHED_BLOCKS: i64 = 30;
/// Channels of latents, and of a mask next to them.
const LATENTS: i64 = 16;
const MASK: i64 = 1;
/// Numbers of blocks of later versions, which have blocks next to the noise refiner.
const WITH_REFINER: [i64; 2] = [3, 15];

/// Blocks that run with the transformer's noise refiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRefiner {
    /// Those that go along with the common blocks, as version 2.0 was trained; its own are nothing but zeros.
    ControlLayers,
    /// Its own, as from version 2.1 on.
    ControlNoiseRefiner,
}

network_config! {
    /// `config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ZImageControlConfig {
        /// Behind which of the transformer's common blocks something is added, from 0 on and upwards.
        pub control_layers_places: Vec<i64> = vec![0, 5, 10, 15, 20, 25],
        /// Blocks of its noise refiner after which something is added.
        pub control_refiner_layers_places: Option<Vec<i64>> = None,
        /// Channels of the control image, followed by those of mask and image where it has them.
        pub control_in_dim: i64 = LATENTS,
        pub add_control_noise_refiner: Option<ControlRefiner> = None,
        pub all_patch_size: Vec<i64> = vec![PATCH],
        pub all_f_patch_size: Vec<i64> = vec![1],
        pub dim: i64 = 3840 => dim("control_x_embedder.weight", 0),
        pub n_refiner_layers: i64 = 2,
        pub n_heads: i64 = 30 => size(),
        pub n_kv_heads: i64 = 30,
        pub norm_eps: f64 = 1e-5,
        pub qk_norm: bool = true,
    }
}

impl ZImageControlConfig {
    /// The numbers of its blocks, as those of a transformer.
    pub fn blocks(&self) -> ZImageTransformerConfig {
        ZImageTransformerConfig {
            all_patch_size: self.all_patch_size.clone(),
            all_f_patch_size: self.all_f_patch_size.clone(),
            dim: self.dim,
            n_layers: self.control_layers_places.len() as i64,
            n_refiner_layers: self.n_refiner_layers,
            n_heads: self.n_heads,
            n_kv_heads: self.n_kv_heads,
            norm_eps: self.norm_eps,
            qk_norm: self.qk_norm,
            // Narrow heads belong to synthetic networks, whose positions equal those of the transformer.
            axes_dims: [self.dim / self.n_heads.max(1), 0, 0],
            ..ZImageTransformerConfig::default()
        }
    }

    /// Returns true if it is shown a mask, and what that leaves of an image.
    pub fn takes_mask(&self) -> bool {
        self.control_in_dim > LATENTS
    }

    /// Numbers of a control image's token.
    pub fn token_numbers(&self) -> i64 {
        PATCH * PATCH * self.control_in_dim
    }

    /// Behind which blocks of the refiner of noise something is added.
    pub fn refiner_places(&self) -> &[i64] {
        self.control_refiner_layers_places.as_deref().unwrap_or(&[])
    }
}

impl TransformerConfig for ZImageControlConfig {
    const LABEL: &'static str = "Z-Image ControlNet";
    const CLASSES: &'static [&'static str] = &["ZImageControlNetModel"];
    const PREFIXES: &'static [&'static str] = &[""];
    const DIALECTS: &'static [TensorDialect] = &[TensorDialect::diffusers(
        &[any_of(&[
            "control_all_x_embedder.2-1.weight",
            "control_layers.0.attention_norm1.weight",
        ])],
        &[
            BlockList::shared(LAYERS).named(LAYERS, DIFFUSERS_LAYERS),
            BlockList::shared(REFINERS).named(REFINERS, DIFFUSERS_LAYERS),
        ],
        &[names! { "control_x_embedder" => "control_all_x_embedder.2-1" }],
    )];

    /// Values that no shape states, the blocks after which outputs are added, are as published. Version 2.0 has the
    /// shapes of 2.1.
    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let numbers = header.dim("control_x_embedder.weight", 1)?;
        let head_dim = header.width("control_layers.0.attention.q_norm.weight")?;
        let layers = header.count("control_layers.{}.attention_norm1.weight");
        let refiners = header.count("control_noise_refiner.{}.attention_norm1.weight");
        let step = (PUBLISHED_BLOCKS / layers.max(1)).max(1);
        let refiner = if header.has("control_noise_refiner.0.after_proj.weight") {
            Some(ControlRefiner::ControlNoiseRefiner)
        } else if WITH_REFINER.contains(&layers) {
            Some(ControlRefiner::ControlLayers)
        } else {
            None
        };
        let n_heads = heads(self.dim, head_dim)?;
        let n_refiner_layers = if refiners > 0 {
            refiners
        } else {
            self.n_refiner_layers
        };
        Ok(Self {
            control_layers_places: (0..layers).map(|n| n * step).collect(),
            control_refiner_layers_places: refiner.map(|_| (0..n_refiner_layers).collect()),
            control_in_dim: numbers / (PATCH * PATCH),
            add_control_noise_refiner: refiner,
            n_refiner_layers,
            n_heads,
            n_kv_heads: n_heads,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let places = &self.control_layers_places;
        check_layers(&[("number of control_layers_places", places.len() as i64)])?;
        self.blocks().check()?;
        let refiner = self.refiner_places();
        let rises = |places: &[i64]| places.is_sorted_by(|one, next| one < next);
        let with_mask = 2 * LATENTS + MASK;
        ensure!(
            places[0] == 0 && rises(places),
            "expected control_layers_places that rise from 0, found {places:?}"
        );
        ensure!(
            rises(refiner) && !refiner.iter().any(|place| *place < 0),
            "expected control_refiner_layers_places that rise, found {refiner:?}"
        );
        ensure!(
            refiner.len() <= self.most_refined(),
            "expected at most {} control_refiner_layers_places, found {refiner:?}",
            self.most_refined()
        );
        ensure!(
            [LATENTS, with_mask].contains(&self.control_in_dim),
            "expected a control_in_dim of {LATENTS}, or of {with_mask} with a mask, found {}",
            self.control_in_dim
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        let layers = self.control_layers_places.len() as i64;
        vec![layers, self.n_refiner_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, blocks) = (self.dim, self.blocks());
        schema.linear("control_x_embedder", dim, self.token_numbers());
        for (list, count) in [LAYERS, REFINERS].into_iter().zip(self.block_counts()) {
            let has_outputs = list == LAYERS || self.add_control_noise_refiner.is_some();
            if has_outputs && count > 0 {
                schema.linear(&format!("{list}.0.before_proj"), dim, dim);
            }
            schema.blocks(list, count, |schema| {
                add_block(schema, &blocks, TensorRole::Matrix);
                if has_outputs {
                    schema.linear("after_proj", dim, dim);
                }
            });
        }
    }

    /// diffusers leaves out refiner blocks of version 2.0, which are nothing but zeros.
    fn can_lack(&self, name: &str) -> bool {
        self.add_control_noise_refiner == Some(ControlRefiner::ControlLayers)
            && name.starts_with(REFINERS)
    }
}

impl ZImageControlConfig {
    /// Number of blocks that run with the noise refiner.
    fn most_refined(&self) -> usize {
        match self.add_control_noise_refiner {
            Some(ControlRefiner::ControlLayers) => self.control_layers_places.len(),
            Some(ControlRefiner::ControlNoiseRefiner) => {
                self.n_refiner_layers.unsigned_abs() as usize
            }
            None => 0,
        }
    }
}

pub type ZImageControlKeys = TensorKeys<ZImageControlConfig>;

/// The lists of blocks.
const LAYERS: &str = "control_layers";
const REFINERS: &str = "control_noise_refiner";
