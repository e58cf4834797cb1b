//! Bytes of each network's weights in the engine, exactly, from the headers of its files.
//!
//! Weights are converted to the compute dtype, some to f32; matrices in fp8, GGUF blocks and quantized formats stay as they are stored
//! and are dequantized one at a time. The network's schema says which tensors of a file are read, and how. Activations:
//! the other files of this folder.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::parts::PlannedNetwork;
use crate::formats::weights::{TensorEntry, TensorType, WeightSet};
use crate::job::LoraChoice;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{
    AutoencoderConfig, NetworkConfig, TensorRole, TensorSpec, VaeHalf, WanVaeConfig,
};
use crate::units::total;

/// Parameters by their dtype in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Parameters in the compute dtype.
    pub plain: u64,
    /// Parameters that are always f32.
    pub exact: u64,
    /// Bytes that stay as they are stored.
    pub stored: u64,
}

impl WeightBytes {
    /// `number_bytes`: of the compute dtype.
    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let plain = self.plain.saturating_mul(number_bytes);
        total([plain, self.exact.saturating_mul(4), self.stored])
    }

    fn add(&mut self, other: Self) {
        self.plain = self.plain.saturating_add(other.plain);
        self.exact = self.exact.saturating_add(other.exact);
        self.stored = self.stored.saturating_add(other.stored);
    }
}

/// Reads the networks of one model, the header of each file once.
#[derive(Debug, Default)]
pub(crate) struct NetworkReader {
    headers: BTreeMap<PathBuf, Rc<WeightSet>>,
    networks: BTreeMap<PlannedNetwork, NetworkFootprint>,
}

impl NetworkReader {
    pub(crate) fn read<C: NetworkConfig + Any + Send + Sync>(
        &mut self,
        part: PlannedNetwork,
        place: &Path,
    ) -> Result<(), CatalogError> {
        self.with_config(part, place, C::read(place)?)
    }

    pub(crate) fn with_config<C: NetworkConfig + Any + Send + Sync>(
        &mut self,
        part: PlannedNetwork,
        place: &Path,
        config: C,
    ) -> Result<(), CatalogError> {
        let weights = self.header(place)?;
        let tensors = config.tensors(&weights);
        let network = NetworkFootprint::from_tensors(&tensors, &weights, Arc::new(config));
        self.networks.insert(part, network);
        Ok(())
    }

    /// Reads a network that is on the device together with those of the same part.
    pub(crate) fn join<C: NetworkConfig + Any + Send + Sync>(
        &mut self,
        part: PlannedNetwork,
        place: &Path,
        config: C,
    ) -> Result<(), CatalogError> {
        let before = self.networks.remove(&part);
        self.with_config(part, place, config)?;
        if let (Some(before), Some(own)) = (before, self.networks.get_mut(&part)) {
            *own = own.clone().with(&before);
        }
        Ok(())
    }

    /// Reads both halves of an autoencoder.
    pub(crate) fn autoencoder<C: AutoencoderConfig + Any + Send + Sync>(
        &mut self,
        place: &Path,
    ) -> Result<(), CatalogError> {
        let config = Arc::new(C::read(place)?);
        let weights = self.header(place)?;
        for (part, half) in [
            (PlannedNetwork::VaeEncoder, VaeHalf::Encoder),
            (PlannedNetwork::VaeDecoder, VaeHalf::Decoder),
        ] {
            let tensors = config.half(half, &weights);
            let config: Arc<C> = Arc::clone(&config);
            let network = NetworkFootprint::from_tensors(&tensors, &weights, config);
            self.networks.insert(part, network);
        }
        Ok(())
    }

    fn header(&mut self, place: &Path) -> Result<Rc<WeightSet>, CatalogError> {
        if let Some(known) = self.headers.get(place) {
            return Ok(Rc::clone(known));
        }
        let weights = Rc::new(WeightSet::open(place)?);
        self.headers.insert(place.to_owned(), Rc::clone(&weights));
        Ok(weights)
    }
}

/// Weights of a network in the engine.
#[derive(Clone, Debug)]
pub struct NetworkFootprint {
    /// Tensors that are no matrices, and stay resident.
    pub fixed: WeightBytes,
    /// Matrices of every call.
    pub often: WeightBytes,
    /// Matrices that are used once for many calls, such as those of modulations.
    pub seldom: WeightBytes,
    /// Embedding tables.
    pub tables: WeightBytes,
    /// The largest matrix of a product.
    pub largest: WeightBytes,
    /// Most parameters of a matrix that is dequantized for its product.
    expanded: u64,
    config: Arc<dyn Any + Send + Sync>,
}

impl NetworkFootprint {
    /// A published network whose file is not here, with all its parameters in matrices.
    pub(crate) fn about(numbers: u64, is_narrow: bool, config: Arc<dyn Any + Send + Sync>) -> Self {
        // Share of the largest matrix in published networks.
        const LARGEST_PART: u64 = 150;
        let mut often = WeightBytes::default();
        let mut expanded = 0;
        if is_narrow {
            often.stored = numbers;
            expanded = numbers / LARGEST_PART;
        } else {
            often.plain = numbers;
        }
        Self {
            often,
            expanded,
            ..Self::empty(config)
        }
    }

    fn empty(config: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            fixed: WeightBytes::default(),
            often: WeightBytes::default(),
            seldom: WeightBytes::default(),
            tables: WeightBytes::default(),
            largest: WeightBytes::default(),
            expanded: 0,
            config,
        }
    }

    /// Approximate number of parameters in the products of one call.
    pub(crate) fn numbers(&self) -> f64 {
        let all = [self.fixed, self.often];
        total(all.map(|tally| total([tally.plain, tally.exact, tally.stored]))) as f64
    }

    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let all = [self.fixed, self.often, self.seldom, self.tables];
        total(all.map(|tally| tally.bytes(number_bytes)))
    }

    /// Bytes of the largest quantized matrix while it is dequantized for its product.
    pub fn expansion_bytes(&self, number_bytes: u64) -> u64 {
        self.expanded.saturating_mul(number_bytes)
    }

    /// The config, if it has this type.
    pub(crate) fn config<C: 'static>(&self) -> Option<&C> {
        self.config.downcast_ref()
    }

    /// Reads a network's header and config.
    pub(crate) fn read<C: NetworkConfig + Any + Send + Sync>(
        place: &Path,
    ) -> Result<Self, CatalogError> {
        let (config, weights) = (C::read(place)?, WeightSet::open(place)?);
        let tensors = config.tensors(&weights);
        Ok(Self::from_tensors(&tensors, &weights, Arc::new(config)))
    }

    /// Adds a network that is on the device at the same time.
    fn with(mut self, other: &Self) -> Self {
        self.fixed.add(other.fixed);
        self.often.add(other.often);
        self.seldom.add(other.seldom);
        self.tables.add(other.tables);
        if other.largest.bytes(4) > self.largest.bytes(4) {
            self.largest = other.largest;
        }
        self.expanded = self.expanded.max(other.expanded);
        self
    }

    /// Counts the tensors that the engine reads.
    fn from_tensors(
        tensors: &[TensorSpec],
        weights: &WeightSet,
        config: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let mut network = Self::empty(config);
        for tensor in tensors {
            // A missing one is an error of loading.
            if let Some(entry) = weights.tensors.get(&tensor.name) {
                let scales = entry.dtype.quant().and_then(|format| {
                    let key = format.block_scale_key(&tensor.name)?;
                    weights.tensors.get(&key)
                });
                let stored = entry
                    .bytes
                    .saturating_add(scales.map_or(0, |scales| scales.bytes));
                network.add(tensor, entry, stored);
            }
        }
        network
    }

    /// `stored`: bytes in the file, block scales included
    fn add(&mut self, tensor: &TensorSpec, entry: &TensorEntry, stored: u64) {
        let numbers = entry.shape.iter();
        let numbers = numbers.fold(1_u64, |all, n| all.saturating_mul(*n));
        let is_narrow = match entry.dtype {
            TensorType::Plain(dtype) => dtype.bitsize() == 8,
            TensorType::Blocks(_) | TensorType::Quant(_) | TensorType::Foreign(_) => true,
        };
        let stays = matches!(tensor.role, TensorRole::Fixed | TensorRole::Doubling);
        let mut tally = WeightBytes::default();
        if is_narrow && !stays {
            tally.stored = stored;
            if tensor.role != TensorRole::Table {
                self.expanded = self.expanded.max(numbers);
            }
        } else if tensor.keeps_f32 {
            tally.exact = numbers;
        } else if tensor.role == TensorRole::Doubling {
            // Four corners of 2 × 2 taps in the place of 3 × 3.
            tally.plain = numbers.saturating_mul(16) / 9;
        } else {
            tally.plain = numbers;
        }
        let is_matrix = matches!(tensor.role, TensorRole::Matrix | TensorRole::Modulation);
        if is_matrix && tally.bytes(4) > self.largest.bytes(4) {
            self.largest = tally;
        }
        match tensor.role {
            TensorRole::Fixed | TensorRole::Doubling => self.fixed.add(tally),
            TensorRole::Matrix => self.often.add(tally),
            TensorRole::Modulation => self.seldom.add(tally),
            TensorRole::Table => self.tables.add(tally),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ModelFootprint {
    parts: BTreeMap<PlannedNetwork, NetworkFootprint>,
    /// ControlNets, on the device together with the transformer.
    controls: Vec<NetworkFootprint>,
    pub(crate) lora_numbers: u64,
    /// Parameters of the tiny decoder for previews.
    pub(crate) preview_numbers: u64,
}

impl ModelFootprint {
    /// Bytes of networks that were read, of a model's LoRAs and of the decoder for previews.
    pub(crate) fn new(
        reader: NetworkReader,
        files: &ModelFiles,
        loras: &[LoraChoice],
        controls: Vec<NetworkFootprint>,
    ) -> Self {
        let mut weights = Self {
            parts: reader.networks,
            controls,
            ..Self::default()
        };
        for lora in loras {
            // One that cannot be read is an error of opening it.
            let numbers = WeightSet::open(&lora.path).map_or(0, |set| set.parameters());
            weights.lora_numbers = weights.lora_numbers.saturating_add(numbers);
        }
        if let Some(place) = &files.preview_decoder {
            // Without it previews are linear.
            weights.preview_numbers = WeightSet::open(place).map_or(0, |set| set.parameters());
        }
        weights
    }

    /// Returns whether the decoder takes several latent frames at a time; see [`DecodeChunk`].
    ///
    /// [`DecodeChunk`]: crate::compute::DecodeChunk
    pub fn decodes_in_chunks(&self) -> bool {
        let decoder = self.part(PlannedNetwork::VaeDecoder);
        decoder.is_some_and(|network| network.config::<WanVaeConfig>().is_some())
    }

    /// The ControlNets with such a config.
    pub(crate) fn controls<C: 'static>(&self) -> impl Iterator<Item = (&NetworkFootprint, &C)> {
        let controls = self.controls.iter();
        controls.filter_map(|network| Some((network, network.config()?)))
    }

    /// A network with all others that are on the device at the same time.
    pub(crate) fn with_part(&self, part: PlannedNetwork) -> Option<Cow<'_, NetworkFootprint>> {
        let network = self.part(part)?;
        if !part.is_transformer() || self.controls.is_empty() {
            return Some(Cow::Borrowed(network));
        }
        let all = self.controls.iter();
        Some(Cow::Owned(
            all.fold(network.clone(), NetworkFootprint::with),
        ))
    }

    /// Networks that stream through their own buffers while `part` runs.
    pub(crate) fn beside(&self, part: PlannedNetwork) -> &[NetworkFootprint] {
        if part.is_transformer() {
            &self.controls
        } else {
            &[]
        }
    }

    /// Weights of a model whose files are not here.
    pub(crate) fn about(
        parts: impl IntoIterator<Item = (PlannedNetwork, NetworkFootprint)>,
    ) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn part(&self, part: PlannedNetwork) -> Option<&NetworkFootprint> {
        self.parts.get(&part)
    }
}
