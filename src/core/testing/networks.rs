//! The networks of each family's models as tests ask for them: by family and component.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::families::{Family, framepack};
use crate::formats::weights::WeightSet;
use crate::model::{CatalogError, Component};
use crate::networks::{
    ClipTextConfig, ClipVisionConfig, FluxTransformerConfig, FramePackTransformerConfig,
    HunyuanVaeConfig, KlVaeConfig, KlVaeKeys, LanguageKeys, NetworkConfig, SiglipConfig, T5Config,
    T5Keys, T5Kind, TensorSpec, VaeHalf, WanTransformerConfig, WanVaeConfig, clip_text, siglip,
};

fn json<T: NetworkConfig + Serialize>(place: &Path) -> Result<Value, CatalogError> {
    Ok(serde_json::to_value(T::read(place)?).unwrap())
}

/// A component's config in diffusers' and transformers' terms.
pub(crate) fn config_of(
    family: Family,
    component: Component,
    place: &Path,
) -> Result<Value, CatalogError> {
    use Component::{ImageEncoder, TextEncoder, TextEncoder2, Transformer, Vae};
    match (family.id, component) {
        ("wan", Transformer) => json::<WanTransformerConfig>(place),
        ("wan", Vae) => json::<WanVaeConfig>(place),
        ("wan", TextEncoder) | ("flux", TextEncoder2) => json::<T5Config>(place),
        ("wan", ImageEncoder) => json::<ClipVisionConfig>(place),
        ("flux", Transformer) => json::<FluxTransformerConfig>(place),
        ("flux", Vae) => json::<KlVaeConfig>(place),
        ("flux", TextEncoder) | ("framepack", TextEncoder2) => json::<ClipTextConfig>(place),
        ("framepack", Transformer) => json::<FramePackTransformerConfig>(place),
        ("framepack", Vae) => json::<HunyuanVaeConfig>(place),
        ("framepack", TextEncoder) => {
            Ok(serde_json::to_value(framepack::LANGUAGE.read(place)?).unwrap())
        }
        ("framepack", ImageEncoder) => json::<SiglipConfig>(place),
        (family, component) => panic!("{family} has no {component:?}"),
    }
}

/// All tensors that are read of a component, as its file names them.
pub(crate) fn tensors_of(
    family: Family,
    component: Component,
    place: &Path,
    weights: &WeightSet,
) -> Vec<(String, Vec<u64>)> {
    use Component::{ImageEncoder, TextEncoder, TextEncoder2, Transformer, Vae};
    let both = |half: &dyn Fn(VaeHalf) -> Vec<TensorSpec>| VaeHalf::BOTH.map(half).concat();
    let schema = match (family.id, component) {
        ("flux", Transformer) => FluxTransformerConfig::read(place).unwrap().tensors(weights),
        ("flux", Vae) => {
            let config = KlVaeConfig::read(place).unwrap();
            let keys = KlVaeKeys::of(weights).unwrap();
            both(&|half| config.schema(half, &keys))
        }
        ("flux", TextEncoder) | ("framepack", TextEncoder2) => {
            let prefix = clip_text::prefix(&weights.names()).unwrap();
            ClipTextConfig::read(place).unwrap().schema(prefix)
        }
        ("flux", TextEncoder2) => {
            let keys = T5Keys::of(&weights.names()).unwrap();
            let config = T5Config::read_as(T5Kind::T5, place).unwrap();
            config.schema(&keys)
        }
        ("framepack", Transformer) => FramePackTransformerConfig::read(place)
            .unwrap()
            .tensors(weights),
        ("framepack", Vae) => {
            let config = HunyuanVaeConfig::read(place).unwrap();
            let keys = KlVaeKeys::of_video(weights).unwrap();
            both(&|half| config.schema(half, &keys))
        }
        ("framepack", TextEncoder) => {
            let keys = LanguageKeys::of(&weights.names()).unwrap();
            framepack::LANGUAGE.read(place).unwrap().schema(&keys)
        }
        ("framepack", ImageEncoder) => {
            let prefix = siglip::prefix(&weights.names()).unwrap();
            SiglipConfig::read(place).unwrap().schema(prefix)
        }
        (family, component) => panic!("no test asks for {component:?} of {family}"),
    };
    let named = schema.into_iter().map(|tensor| (tensor.name, tensor.shape));
    named.collect()
}

/// Checks one component alone.
pub(crate) fn check_part(
    family: Family,
    component: Component,
    place: &Path,
    weights: &WeightSet,
) -> Result<(), CatalogError> {
    use Component::{ImageEncoder, TextEncoder, TextEncoder2, Transformer, Vae};
    match (family.id, component) {
        ("flux", Transformer) => FluxTransformerConfig::read(place)?.check_weights(weights),
        ("flux", Vae) => KlVaeConfig::read(place)?.check_weights(weights),
        ("flux", TextEncoder) | ("framepack", TextEncoder2) => {
            ClipTextConfig::read(place)?.check_weights(weights)
        }
        ("flux", TextEncoder2) => T5Config::read_as(T5Kind::T5, place)?.check_weights(weights),
        ("framepack", Transformer) => {
            FramePackTransformerConfig::read(place)?.check_weights(weights)
        }
        ("framepack", Vae) => HunyuanVaeConfig::read(place)?.check_weights(weights),
        ("framepack", TextEncoder) => framepack::LANGUAGE.read(place)?.check_weights(weights),
        ("framepack", ImageEncoder) => SiglipConfig::read(place)?.check_weights(weights),
        (family, component) => panic!("no test asks for {component:?} of {family}"),
    }
}
