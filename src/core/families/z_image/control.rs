//! ControlNets of Z-Image: alibaba-pai's union in all its versions, told by header alone.

use std::path::Path;

use crate::formats::weights::WeightSet;
use crate::library::ControlNetwork;
use crate::memory::Network;
use crate::model::CatalogError;
use crate::networks::{NetworkConfig as _, ZImageControlConfig, ZImageControlKeys};

pub(super) fn network(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    let read = || {
        ZImageControlConfig::read(place)?.check_weights(weights)?;
        Ok(ControlNetwork {
            family: super::FAMILY,
            label: "Z-Image ControlNet",
            kinds: &[],
            takes_masks: false,
        })
    };
    ZImageControlKeys::are_in(|key| weights.has(key)).then(read)
}

pub(super) fn weights(place: &Path) -> Result<Network, CatalogError> {
    Network::read::<ZImageControlConfig>(place)
}
