//! LoRAs for Z-Image: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{Dialect, List, Names, Network, Share, Table, of_schema};
use crate::networks::{ZImageTransformerConfig, ZImageTransformerKeys, z_image_transformer};

/// The transformer, in the authors' names.
pub const NETWORK: Network = Network::transformer("z_image", names);

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        sign("layers_#_attention_"),
        sign("layers_#_feed_forward_"),
        sign("layers_#_adaLN_modulation_"),
        sign("noise_refiner_#_"),
        sign("context_refiner_#_"),
    ],
    accepts: |origin, _| origin == "z_image",
    model_label: |_| "Z-Image".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = ZImageTransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(NETWORK, "", &shape)])
    },
    has_musubi: false,
};

const fn sign(start: &'static str) -> LoraSign {
    LoraSign::of("z_image", "Z-Image", start)
}

/// The layers, one entry for each kind of block. The names are the authors' and diffusers'.
fn names() -> Vec<Names> {
    let config = ZImageTransformerConfig {
        n_layers: 1,
        n_refiner_layers: 1,
        ..ZImageTransformerConfig::default()
    };
    let diffusers = ZImageTransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let diffusers = Dialect {
        file_key: &|name| diffusers.file_key(name),
        is_split: true,
    };
    const MARK: &str = "attention_norm1.weight";
    let lists: [List; 4] = [
        ("", &[], "x_embedder.weight"),
        ("layers.{}.", &[], MARK),
        ("noise_refiner.{}.", &[], MARK),
        ("context_refiner.{}.", &[], MARK),
    ];
    let schema = z_image_transformer::schema(&config, ZImageTransformerKeys::ORIGINAL);
    let mut all = of_schema(&schema, &lists, &[diffusers], true);
    for layer in all.iter_mut().flat_map(|names| &mut names.layers) {
        if layer.own == "attention.out" {
            // Some tools leave out the number of diffusers' name.
            layer
                .others
                .push(("attention.to_out".to_owned(), Share::All));
        }
    }
    all
}
