//! ControlNets of Z-Image: blocks of the transformer's kind that go along with its own, from a control picture on, and
//! what each of them adds behind a block.
//!
//! alibaba-pai's Z-Image-Turbo-Fun-Controlnet-Union in all versions: the first sees a picture alone (16 channels), the
//! later ones a mask and what it leaves of a picture, too (33), and have blocks beside the transformer's refiner of
//! noise. Files have diffusers' names within blocks, bare; readers ask with the authors' names of the transformer.
//! Everything else, such as the layers that read timesteps and texts, is the transformer's own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{count, heads, not_a, sizes};
use super::stream_blocks;
use super::z_image_transformer::{PATCH, add_block};
use super::{
    NetworkConfig, Schema, TensorSpec, ZImageTransformerConfig, ZImageTransformerKeys,
    check_layers, check_sizes, class_name,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// Blocks of the published transformers, among which those of a file without a config are spread evenly.
const PUBLISHED_BLOCKS: i64 = 30;
/// Channels of latents, and of a mask beside them.
const LATENTS: i64 = 16;
const MASK: i64 = 1;
/// More blocks than that in a list are later versions', which have blocks beside the refiner of noise.
const WITH_REFINER: [i64; 2] = [3, 15];

/// Which blocks go along with the transformer's refiner of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRefiner {
    /// Those that go along with the common blocks, as version 2.0 was trained; its own are nothing but zeros.
    ControlLayers,
    /// Its own, as from version 2.1 on.
    ControlNoiseRefiner,
}

with_defaults! {
    /// `config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ZImageControlConfig {
        /// Behind which of the transformer's common blocks something is added, from 0 on and upwards.
        pub control_layers_places: Vec<i64> = vec![0, 5, 10, 15, 20, 25],
        /// The same of its refiner of noise.
        pub control_refiner_layers_places: Option<Vec<i64>> = None,
        /// Channels of the control picture, with those of mask and picture behind it where it has them.
        pub control_in_dim: i64 = LATENTS,
        pub add_control_noise_refiner: Option<ControlRefiner> = None,
        pub all_patch_size: Vec<i64> = vec![PATCH],
        pub all_f_patch_size: Vec<i64> = vec![1],
        pub dim: i64 = 3840,
        pub n_refiner_layers: i64 = 2,
        pub n_heads: i64 = 30,
        pub n_kv_heads: i64 = 30,
        pub norm_eps: f64 = 1e-5,
        pub qk_norm: bool = true,
    }
}

impl ZImageControlConfig {
    /// The numbers of its blocks, as those of a transformer.
    #[must_use]
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
            // Narrow heads are those of made-up networks, whose places are the transformer's.
            axes_dims: [self.dim / self.n_heads.max(1), 0, 0],
            ..ZImageTransformerConfig::default()
        }
    }

    /// Whether it is shown a mask, and what that leaves of a picture.
    #[must_use]
    pub fn takes_mask(&self) -> bool {
        self.control_in_dim > LATENTS
    }

    /// Numbers of a control picture's token.
    #[must_use]
    pub fn token_numbers(&self) -> i64 {
        PATCH * PATCH * self.control_in_dim
    }

    /// Behind which blocks of the refiner of noise something is added.
    #[must_use]
    pub fn refiner_places(&self) -> &[i64] {
        self.control_refiner_layers_places.as_deref().unwrap_or(&[])
    }
}

impl NetworkConfig for ZImageControlConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("ZImageControlNetModel")
    }

    /// What no shape says, behind which blocks something is added, is as published. Version 2.0 has the shapes of 2.1.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        if !ZImageControlKeys::are_in(|key| weights.has(key)) {
            return Err(not_a("Z-Image ControlNet", weights));
        }
        let key = ZImageControlKeys::file_key;
        let [dim, numbers] = sizes(weights, &key("control_x_embedder.weight"))?;
        let [head_dim] = sizes(weights, &key("control_layers.0.attention.q_norm.weight"))?;
        let blocks = |list: &str| {
            count(weights, |n| {
                key(&format!("{list}.{n}.attention_norm1.weight"))
            })
        };
        let layers = blocks("control_layers");
        let refiners = blocks("control_noise_refiner");
        let step = (PUBLISHED_BLOCKS / layers.max(1)).max(1);
        let refiner = if weights.has("control_noise_refiner.0.after_proj.weight") {
            Some(ControlRefiner::ControlNoiseRefiner)
        } else if WITH_REFINER.contains(&layers) {
            Some(ControlRefiner::ControlLayers)
        } else {
            None
        };
        let n_heads = heads(dim, head_dim)?;
        let own = Self::default();
        let n_refiner_layers = if refiners > 0 {
            refiners
        } else {
            own.n_refiner_layers
        };
        Ok(Self {
            control_layers_places: (0..layers).map(|n| n * step).collect(),
            control_refiner_layers_places: refiner.map(|_| (0..n_refiner_layers).collect()),
            control_in_dim: numbers / (PATCH * PATCH),
            add_control_noise_refiner: refiner,
            dim,
            n_refiner_layers,
            n_heads,
            n_kv_heads: n_heads,
            ..own
        })
    }

    fn check(&self) -> Result<(), String> {
        let places = &self.control_layers_places;
        check_layers(&[("number of control_layers_places", places.len() as i64)])?;
        check_sizes(&[("dim", self.dim), ("n_heads", self.n_heads)])?;
        self.blocks().check()?;
        let refiner = self.refiner_places();
        let rises = |places: &[i64]| places.is_sorted_by(|one, next| one < next);
        let with_mask = 2 * LATENTS + MASK;
        Err(if places[0] != 0 || !rises(places) {
            format!("expected control_layers_places that rise from 0, found {places:?}")
        } else if !rises(refiner) || refiner.iter().any(|place| *place < 0) {
            format!("expected control_refiner_layers_places that rise, found {refiner:?}")
        } else if refiner.len() > self.most_refined() {
            format!(
                "expected at most {} control_refiner_layers_places, found {refiner:?}",
                self.most_refined()
            )
        } else if ![LATENTS, with_mask].contains(&self.control_in_dim) {
            format!(
                "expected a control_in_dim of {LATENTS}, or of {with_mask} with a mask, found {}",
                self.control_in_dim
            )
        } else {
            return Ok(());
        })
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, |key| weights.has(key))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let lists = LISTS.map(str::to_owned);
        let counts = [
            self.control_layers_places.len() as i64,
            self.n_refiner_layers,
        ];
        stream_blocks::check_blocks(weights, &lists, &counts)
    }
}

impl ZImageControlConfig {
    /// How many blocks go along with the refiner of noise.
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

/// The lists of blocks.
const LISTS: [&str; 2] = ["control_layers", "control_noise_refiner"];

/// What files call the tensors.
#[derive(Clone, Copy, Debug)]
pub enum ZImageControlKeys {}

impl ZImageControlKeys {
    /// Whether a file has such a network, by whether it has a key.
    pub fn are_in(has: impl Fn(&str) -> bool) -> bool {
        has("control_all_x_embedder.2-1.weight") || has("control_layers.0.attention_norm1.weight")
    }

    /// What the file calls the tensor that is `original` in the names of the transformer's authors, behind `control_`.
    #[must_use]
    pub fn file_key(original: &str) -> String {
        let diffusers = ZImageTransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        match original.strip_prefix("control_") {
            Some(own) => format!("control_{}", diffusers.file_key(own)),
            None => original.to_owned(),
        }
    }
}

/// `has`: whether the file has a key: of version 2.0 diffusers leaves out what is nothing but zeros.
fn schema(config: &ZImageControlConfig, has: impl Fn(&str) -> bool) -> Vec<TensorSpec> {
    let blocks = config.blocks();
    let keys = ZImageTransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let dim = config.dim;
    let mut schema = Schema::default();
    schema.linear("control_x_embedder", dim, config.token_numbers());
    let refiner = config.add_control_noise_refiner;
    let is_left_out = refiner == Some(ControlRefiner::ControlLayers)
        && !has("control_noise_refiner.0.after_proj.weight");
    let refiners = if is_left_out {
        0
    } else {
        config.n_refiner_layers
    };
    let counts = [blocks.n_layers, refiners];
    for (list, count) in LISTS.into_iter().zip(counts) {
        for number in 0..count {
            let block = format!("{list}.{number}");
            add_block(&mut schema, &block, &blocks, keys, true);
            if list == "control_noise_refiner" && refiner.is_none() {
                continue;
            }
            if number == 0 {
                schema.linear(&format!("{block}.before_proj"), dim, dim);
            }
            schema.linear(&format!("{block}.after_proj"), dim, dim);
        }
    }
    schema.renamed(ZImageControlKeys::file_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        for (original, expected) in crate::testing::table(
            "control_x_embedder.bias -> control_all_x_embedder.2-1.bias
             control_layers.14.attention.qkv.v.weight -> control_layers.14.attention.to_v.weight
             control_noise_refiner.1.attention.out.weight -> control_noise_refiner.1.attention.to_out.0.weight
             control_layers.0.before_proj.weight -> control_layers.0.before_proj.weight",
        ) {
            assert_eq!(ZImageControlKeys::file_key(original), expected);
        }
    }
}
