//! What the engine holds of each network, exactly, from the headers of its files.
//!
//! Plain numbers come to the type that is computed with, some stay in f32, and matrices of fp8 and of GGUF's blocks
//! stay as they are stored and are expanded one at a time. A network's schema says which tensors are read of a file and
//! what becomes of each. Reads headers and configs only; how many numbers a network makes on its way is the formulas'.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::parts::PartName;
use crate::families::Family;
use crate::formats::weights::{TensorEntry, TensorType, WeightSet};
use crate::job::{Control, Lora};
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{AutoencoderConfig, NetworkConfig, Role, TensorSpec, VaeHalf, WanVaeConfig};

/// Numbers by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers that come to the type that is computed with.
    pub plain: u64,
    /// Numbers that are f32 whatever is computed with.
    pub exact: u64,
    /// Bytes that stay as they are stored.
    pub stored: u64,
}

impl Tally {
    /// `number_bytes`: of the type that is computed with.
    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let plain = self.plain.saturating_mul(number_bytes);
        let exact = self.exact.saturating_mul(4);
        plain.saturating_add(exact).saturating_add(self.stored)
    }

    fn add(&mut self, other: Self) {
        self.plain = self.plain.saturating_add(other.plain);
        self.exact = self.exact.saturating_add(other.exact);
        self.stored = self.stored.saturating_add(other.stored);
    }
}

/// Collects the networks of one model, as its family names them. The header of each file is read once.
#[derive(Debug, Default)]
pub(crate) struct NetworkReader {
    headers: BTreeMap<PathBuf, Rc<WeightSet>>,
    networks: BTreeMap<PartName, Network>,
}

impl NetworkReader {
    pub(crate) fn read<C: NetworkConfig + Any + Send + Sync>(
        &mut self,
        part: PartName,
        place: &Path,
    ) -> Result<(), CatalogError> {
        self.with_config(part, place, C::read(place)?)
    }

    pub(crate) fn with_config<C: NetworkConfig + Any + Send + Sync>(
        &mut self,
        part: PartName,
        place: &Path,
        config: C,
    ) -> Result<(), CatalogError> {
        let weights = self.header(place)?;
        let tensors = config.tensors(&weights);
        let network = Network::of(&tensors, &weights, Arc::new(config));
        self.networks.insert(part, network);
        Ok(())
    }

    /// Both halves of the autoencoder at a place.
    pub(crate) fn autoencoder<C: AutoencoderConfig + Any + Send + Sync>(
        &mut self,
        place: &Path,
    ) -> Result<(), CatalogError> {
        let config = Arc::new(C::read(place)?);
        let weights = self.header(place)?;
        for (part, half) in [
            (PartName::VaeEncoder, VaeHalf::Encoder),
            (PartName::VaeDecoder, VaeHalf::Decoder),
        ] {
            let tensors = config.half(half, &weights);
            let config: Arc<C> = Arc::clone(&config);
            let network = Network::of(&tensors, &weights, config);
            self.networks.insert(part, network);
        }
        Ok(())
    }

    fn header(&mut self, place: &Path) -> Result<Rc<WeightSet>, CatalogError> {
        if let Some(known) = self.headers.get(place) {
            return Ok(Rc::clone(known));
        }
        let weights = Rc::new(WeightSet::at(place)?);
        self.headers.insert(place.to_owned(), Rc::clone(&weights));
        Ok(weights)
    }
}

/// One network as the engine holds it.
#[derive(Clone, Debug)]
pub struct Network {
    /// What is no matrix, and stays.
    pub fixed: Tally,
    /// Matrices that every call uses.
    pub often: Tally,
    /// Matrices that a job uses once for many calls.
    pub seldom: Tally,
    /// Matrices of which some rows are looked up.
    pub tables: Tally,
    /// The largest matrix of a product.
    pub largest: Tally,
    /// The most numbers of one matrix that is expanded for its product.
    expanded: u64,
    config: Arc<dyn Any + Send + Sync>,
}

impl Network {
    /// A published network before its file is here: about so many numbers, all of them in matrices.
    pub(crate) fn about(numbers: u64, is_narrow: bool, config: Arc<dyn Any + Send + Sync>) -> Self {
        // The largest of all published ones is about this part of its network.
        const LARGEST_PART: u64 = 150;
        let (often, expanded) = if is_narrow {
            let stored = Tally {
                stored: numbers,
                ..Tally::default()
            };
            (stored, numbers / LARGEST_PART)
        } else {
            let plain = Tally {
                plain: numbers,
                ..Tally::default()
            };
            (plain, 0)
        };
        Self {
            fixed: Tally::default(),
            often,
            seldom: Tally::default(),
            tables: Tally::default(),
            largest: Tally::default(),
            expanded,
            config,
        }
    }

    /// About how many numbers go into the products of one call.
    pub(crate) fn numbers(&self) -> f64 {
        let numbers = |tally: &Tally| (tally.plain + tally.exact).saturating_add(tally.stored);
        numbers(&self.fixed).saturating_add(numbers(&self.often)) as f64
    }

    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let all = [self.fixed, self.often, self.seldom, self.tables];
        let bytes = all.iter().map(|tally| tally.bytes(number_bytes));
        bytes.fold(0, u64::saturating_add)
    }

    /// What the largest matrix of narrow numbers takes while it is used: it is expanded in one pass.
    pub fn expansion_bytes(&self, number_bytes: u64) -> u64 {
        self.expanded.saturating_mul(number_bytes)
    }

    /// Its config, where it is of this type.
    pub(crate) fn config<C: 'static>(&self) -> Option<&C> {
        self.config.downcast_ref()
    }

    /// A network by itself, at a place.
    pub(crate) fn read<C: NetworkConfig + Any + Send + Sync>(
        place: &Path,
    ) -> Result<Self, CatalogError> {
        let (config, weights) = (C::read(place)?, WeightSet::at(place)?);
        let tensors = config.tensors(&weights);
        Ok(Self::of(&tensors, &weights, Arc::new(config)))
    }

    /// The same with what another one has that is on the device beside it.
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

    /// What the header says of the tensors that are read.
    fn of(tensors: &[TensorSpec], weights: &WeightSet, config: Arc<dyn Any + Send + Sync>) -> Self {
        let mut network = Self {
            fixed: Tally::default(),
            often: Tally::default(),
            seldom: Tally::default(),
            tables: Tally::default(),
            largest: Tally::default(),
            expanded: 0,
            config,
        };
        for tensor in tensors {
            // One that is missing is told where it is loaded.
            if let Some(entry) = weights.tensors.get(&tensor.name) {
                network.add(tensor, entry);
            }
        }
        network
    }

    fn add(&mut self, tensor: &TensorSpec, entry: &TensorEntry) {
        let numbers = entry.shape.iter();
        let numbers = numbers.fold(1_u64, |all, n| all.saturating_mul(*n));
        let is_narrow = match entry.dtype {
            TensorType::Plain(dtype) => dtype.bitsize() == 8,
            TensorType::Blocks(_) | TensorType::Foreign(_) => true,
        };
        let stays = matches!(tensor.role, Role::Fixed | Role::Doubling);
        let mut tally = Tally::default();
        if is_narrow && !stays {
            tally.stored = entry.bytes;
            if tensor.role != Role::Table {
                self.expanded = self.expanded.max(numbers);
            }
        } else if tensor.keeps_f32 {
            tally.exact = numbers;
        } else if tensor.role == Role::Doubling {
            // Four corners of 2 × 2 taps in the place of 3 × 3.
            tally.plain = numbers.saturating_mul(16) / 9;
        } else {
            tally.plain = numbers;
        }
        let is_matrix = matches!(tensor.role, Role::Matrix | Role::Modulation);
        if is_matrix && tally.bytes(4) > self.largest.bytes(4) {
            self.largest = tally;
        }
        match tensor.role {
            Role::Fixed | Role::Doubling => self.fixed.add(tally),
            Role::Matrix => self.often.add(tally),
            Role::Modulation => self.seldom.add(tally),
            Role::Table => self.tables.add(tally),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ModelWeights {
    parts: BTreeMap<PartName, Network>,
    /// ControlNets, which are on the device beside the transformer.
    controls: Vec<Network>,
    pub(super) lora_numbers: u64,
    /// Numbers of the tiny decoder for previews.
    pub(super) preview_numbers: u64,
}

impl ModelWeights {
    /// Reads the headers of a model's files, and of the LoRAs that change them.
    pub fn read(family: Family, files: &ModelFiles, loras: &[Lora]) -> Result<Self, CatalogError> {
        let mut reader = NetworkReader::default();
        (family.networks)(files, &mut reader)?;
        let mut weights = Self {
            parts: reader.networks,
            ..Self::default()
        };
        for lora in loras {
            // One that cannot be read is told where it is opened.
            let numbers = WeightSet::at(&lora.path).map_or(0, |set| set.parameters());
            weights.lora_numbers = weights.lora_numbers.saturating_add(numbers);
        }
        if let Some(place) = &files.preview_decoder {
            // Without it previews are linear.
            weights.preview_numbers = WeightSet::at(place).map_or(0, |set| set.parameters());
        }
        Ok(weights)
    }

    /// The same with the ControlNets of a job, each file once.
    #[must_use]
    pub fn with_controls(mut self, family: Family, controls: &[Control]) -> Self {
        let mut known: Vec<&Path> = Vec::new();
        for place in controls
            .iter()
            .filter_map(|it| it.settings.network.as_deref())
        {
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            // One that cannot be read is told where it is opened.
            let read = family.files.control_weights;
            if let Some(Ok(network)) = read.map(|read| read(place)) {
                self.controls.push(network);
            }
        }
        self
    }

    /// Returns whether the decoder takes several latent frames at a time; see [`DecodeChunk`].
    ///
    /// [`DecodeChunk`]: super::compute_options::DecodeChunk
    pub fn decodes_in_chunks(&self) -> bool {
        let decoder = self.part(PartName::VaeDecoder);
        decoder.is_some_and(|network| network.config::<WanVaeConfig>().is_some())
    }

    /// The ControlNets with such a config.
    pub(crate) fn controls<C: 'static>(&self) -> impl Iterator<Item = (&Network, &C)> {
        let controls = self.controls.iter();
        controls.filter_map(|network| Some((network, network.config()?)))
    }

    /// All that is on the device with a part.
    pub(super) fn with_part(&self, part: PartName) -> Option<Cow<'_, Network>> {
        let network = self.part(part)?;
        if !part.is_transformer() || self.controls.is_empty() {
            return Some(Cow::Borrowed(network));
        }
        let all = self.controls.iter();
        Some(Cow::Owned(all.fold(network.clone(), Network::with)))
    }

    /// The networks beside a part that stream through buffers of their own.
    pub(super) fn beside(&self, part: PartName) -> &[Network] {
        if part.is_transformer() {
            &self.controls
        } else {
            &[]
        }
    }

    /// Those of a model whose files are not here.
    pub(crate) fn about(parts: impl IntoIterator<Item = (PartName, Network)>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn part(&self, part: PartName) -> Option<&Network> {
        self.parts.get(&part)
    }
}
