//! Weights from safetensors and GGUF files, requested one by one through a cursor.
//!
//! A request states the shape; a missing key or a wrong shape fails at once, and unread keys can be listed at the end.
//! No file is copied as a whole; [`Weights::random`] reads none. Key dialects: [`Weights::translated`].

mod copy_stream;
mod file;
mod folder;
mod fp8;
mod gguf;
mod lora;
mod mapping;
mod prefetch;
mod quant;
mod random;
mod read_ahead;
mod ring;
mod scales;
mod stored_matrix;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::ops::Div;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use safelight_core::formats::weights::TensorInfo;
use tch::{Device, Kind, Tensor};

use self::file::OpenWeightFile;
use self::lora::OpenLoras;
pub use self::lora::{LayerDelta, LayerUpdate};
use self::quant::QuantSide;
use self::random::{RandomTensors, RandomValues};
pub use self::read_ahead::ReadAhead;
pub use self::stored_matrix::StoredMatrix;
pub use self::stream::StreamBytes;
use self::stream::{MatrixFormat, StoredSource, StreamedMatrix, WeightStreamer};
use crate::fault::{self, FaultSite};
pub use crate::weights_error::WeightsError;

type KeyTranslation = dyn Fn(&str) -> String + Send + Sync;

/// A position among the keys of a component: cheap to clone, `&w / "blocks" / 3` goes deeper.
#[derive(Clone)]
pub struct Weights {
    source: Arc<WeightSource>,
    prefix: String,
    translate: Option<Arc<KeyTranslation>>,
    /// LoRAs that change some of the tensors.
    loras: Option<Arc<OpenLoras>>,
    /// Streamer, if not all of the network may stay on the device.
    stream: Option<Rc<WeightStreamer>>,
    is_seldom: bool,
    kind: Kind,
    device: Device,
}

struct WeightSource {
    path: PathBuf,
    files: Vec<OpenWeightFile>,
    /// Key → index into `files`.
    keys: BTreeMap<String, usize>,
    /// True if any matrix has scales.
    has_scales: bool,
    /// Instead of files.
    random: Option<RandomTensors>,
    asked: Mutex<BTreeSet<String>>,
    /// Inverse rotations of quantized matrices by number of columns, shared by all matrices.
    rotations: Mutex<BTreeMap<i64, Tensor>>,
}

impl Weights {
    /// Opens a `.safetensors` or `.gguf` file, an index of shards, or a component folder that holds one of them.
    pub fn open(path: &Path, kind: Kind, device: Device) -> Result<Self, WeightsError> {
        let (files, keys) = folder::open(path, device)?;
        let source = WeightSource {
            path: path.to_owned(),
            files,
            has_scales: scales::stand_among(keys.keys().map(String::as_str)),
            keys,
            random: None,
            asked: Mutex::default(),
            rotations: Mutex::default(),
        };
        Ok(Self::root(source, kind, device))
    }

    /// No file: every requested tensor is created on the device with the requested shape and plausible random values.
    /// Accepts any name, and [has](Self::has) none.
    pub fn random(kind: Kind, device: Device) -> Self {
        Self::without_files(RandomValues::Seeded, kind, device)
    }

    /// Like [`Self::random`], with equal values on every device, so that devices can be compared.
    pub fn random_alike(kind: Kind, device: Device) -> Self {
        Self::without_files(RandomValues::Alike, kind, device)
    }

    /// No file and no numbers, only the names and shapes that a network asks for, [afterwards](Self::outlined).
    pub fn outline(kind: Kind) -> Self {
        Self::without_files(RandomValues::Outline(Mutex::default()), kind, Device::Cpu)
    }

    /// Requested tensors in order, if this is an [outline](Self::outline).
    pub fn outlined(&self) -> Vec<(String, Vec<i64>)> {
        let random = self.source.random.as_ref();
        random.map_or_else(Vec::new, RandomTensors::outlined)
    }

    fn without_files(values: RandomValues, kind: Kind, device: Device) -> Self {
        let source = WeightSource {
            path: PathBuf::from("random weights"),
            files: Vec::new(),
            keys: BTreeMap::new(),
            has_scales: false,
            random: Some(RandomTensors::new(values, device)),
            asked: Mutex::default(),
            rotations: Mutex::default(),
        };
        Self::root(source, kind, device)
    }

    /// Position at the root of the names.
    fn root(source: WeightSource, kind: Kind, device: Device) -> Self {
        Self {
            source: Arc::new(source),
            prefix: String::new(),
            translate: None,
            loras: None,
            stream: None,
            is_seldom: false,
            kind,
            device,
        }
    }

    pub fn random_bytes(&self) -> u64 {
        let random = self.source.random.as_ref();
        random.map_or(0, RandomTensors::bytes)
    }

    /// Every tensor of a file on the CPU, copied, in the type it is stored in, sorted by name.
    pub fn read_all(path: &Path) -> Result<Vec<(String, Tensor)>, WeightsError> {
        let (files, keys) = folder::open(path, Device::Cpu)?;
        keys.into_iter()
            .map(|(key, index)| {
                let tensor = files[index].stored_tensor(&key)?.copy();
                Ok((key, tensor))
            })
            .collect()
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// This position with another dtype (for the parts that stay in f32).
    pub fn with_kind(&self, kind: Kind) -> Self {
        Self {
            kind,
            ..self.clone()
        }
    }

    /// From here on, every requested key is converted to the file's key by `translate`.
    pub fn translated(&self, translate: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self {
            translate: Some(Arc::new(translate)),
            ..self.clone()
        }
    }

    /// The files' own keys, whatever this position is; looking at them does not count as using them.
    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.source.keys.keys().map(String::as_str)
    }

    /// The files' own keys as a network is likely to ask for them: with block 2 before block 10.
    pub fn keys_in_order(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.keys().collect();
        keys.sort_by_cached_key(|key| prefetch::natural_order(key));
        keys
    }

    /// The files that [opening](Self::open) the same would read.
    pub fn files_of(path: &Path) -> Vec<PathBuf> {
        folder::files(path).unwrap_or_default()
    }

    /// The numbers at a key of the files in the type that they are stored in; GGUF's blocks and quantized matrices as
    /// their bytes.
    pub fn as_stored(&self, key: &str) -> Result<Tensor, WeightsError> {
        let Some((file, info)) = self.entry(key) else {
            return Err(self.missing(key.to_owned(), &[]));
        };
        let tensor = file.as_stored(key, info, self.device)?;
        self.requested_keys().insert(key.to_owned());
        Ok(tensor)
    }

    /// Returns whether the key exists; does not count as using it.
    pub fn has(&self, name: &str) -> bool {
        self.source.keys.contains_key(&self.file_key(name))
    }

    /// The stored shape of a key, if it is there.
    pub fn shape_of(&self, name: &str) -> Option<Vec<i64>> {
        let (_, info) = self.entry(&self.file_key(name))?;
        Some(info.shape.iter().map(|&n| n as i64).collect())
    }

    /// The tensor `name` under this position, which must have exactly `shape`.
    ///
    /// Numbers of fp8 and of GGUF's blocks come expanded. On the CPU, a tensor that is stored in the wanted kind is a view of the mapped file: never write to it.
    pub fn tensor(&self, name: &str, shape: &[i64]) -> Result<Tensor, WeightsError> {
        let mut tensor = self.stored_tensor(name, shape)?;
        if let Some(loras) = &self.loras {
            tensor = loras.changed(&self.full_name(&name), tensor)?;
        }
        self.note_fixed(&tensor);
        Ok(tensor)
    }

    fn stored_tensor(&self, name: &str, shape: &[i64]) -> Result<Tensor, WeightsError> {
        let key = self.file_key(name);
        if let Some(random) = &self.source.random {
            let made = random.tensor(&key, shape, self.kind, self.device);
            return made.map_err(WeightsError::tensor(&key, &self.source.path));
        }
        let (file, info) = self.find(&key, shape)?;
        let (form, side) = self.format_of(&key, file, info)?;
        let tensor = match form {
            MatrixFormat::Plain { scale: None, .. } => {
                file.tensor(&key, info, self.kind, self.device)?
            }
            MatrixFormat::Plain {
                scale: Some(scale), ..
            } => {
                let exact = file.tensor(&key, info, Kind::Float, self.device)?;
                (exact * f64::from(scale)).to_kind(self.kind)
            }
            form => {
                let size = match *shape {
                    [rows, columns] => [rows, columns],
                    _ => [1, shape.iter().product()],
                };
                let matrix = self.loaded(&key, (file, info), (form, side), size)?;
                matrix.expand(self.kind).view(shape)
            }
        };
        self.requested_keys().insert(key);
        Ok(tensor)
    }

    /// The matrix `name` under this position, which must have exactly these rows and columns. It stays in a narrow
    /// storage where it has one, and is otherwise what [`tensor`](Self::tensor) gives; or it stays in its file.
    pub fn matrix(&self, name: &str, size: [i64; 2]) -> Result<StoredMatrix, WeightsError> {
        if let Some(wide) = self.widened(name, size)? {
            return Ok(StoredMatrix::Plain(wide));
        }
        if let Some(stream) = &self.stream {
            return self.streamed(stream, name, &size);
        }
        if self.source.random.is_none() {
            let key = self.file_key(name);
            let (file, info) = self.find(&key, &size)?;
            let (form, side) = self.format_of(&key, file, info)?;
            if !matches!(form, MatrixFormat::Plain { .. }) {
                let matrix = self.loaded(&key, (file, info), (form, side), size)?;
                self.requested_keys().insert(key);
                return Ok(matrix);
            }
        }
        self.tensor(name, &size).map(StoredMatrix::Plain)
    }

    /// Like `matrix`, for a matrix of which only some rows are [looked up](StoredMatrix::look_up): if not all of the
    /// network may stay, only these are read.
    pub fn table(&self, name: &str, size: [i64; 2]) -> Result<StoredMatrix, WeightsError> {
        let Some(stream) = &self.stream else {
            return self.matrix(name, size);
        };
        self.in_file(stream, name, &size)
            .map(StoredMatrix::Streamed)
    }

    /// Kernels of a convolution, `(O, C, k, k)`, as a matrix of `O` rows.
    pub fn kernels(&self, name: &str, shape: [i64; 4]) -> Result<StoredMatrix, WeightsError> {
        if let Some(stream) = &self.stream {
            return self.streamed(stream, name, &shape);
        }
        let tensor = self.tensor(name, &shape)?;
        Ok(StoredMatrix::Plain(tensor.view([shape[0], -1])))
    }

    fn streamed(
        &self,
        stream: &Rc<WeightStreamer>,
        name: &str,
        shape: &[i64],
    ) -> Result<StoredMatrix, WeightsError> {
        let matrix = self.in_file(stream, name, shape)?;
        stream.know(&matrix);
        Ok(StoredMatrix::Streamed(matrix))
    }

    /// A matrix that is in its file until its stream knows of it; that counts as asking for it. `shape`: its rows, and what
    /// is in one.
    fn in_file(
        &self,
        stream: &Rc<WeightStreamer>,
        name: &str,
        shape: &[i64],
    ) -> Result<Rc<StreamedMatrix>, WeightsError> {
        let key = self.file_key(name);
        let (file, info) = self.find(&key, shape)?;
        let size = [shape[0], shape[1..].iter().product()];
        let (form, side) = self.format_of(&key, file, info)?;
        if let Some(side) = &side {
            self.note_fixed(&side.scales);
        }
        let blocks = file.block_scales(&key, info);
        let source = StoredSource {
            codes: file.source(info),
            blocks: blocks.map(|(_, info)| file.source(info)),
            side: side.map(Rc::new),
        };
        self.requested_keys().insert(key.clone());
        Ok(StreamedMatrix::new(self, stream, key, (source, form), size))
    }

    /// Storage of a tensor of a file, and what is stored next to its codes.
    fn format_of(
        &self,
        key: &str,
        file: &OpenWeightFile,
        info: &TensorInfo,
    ) -> Result<(MatrixFormat, Option<QuantSide>), WeightsError> {
        if let Some(fault) = file.fault(key) {
            let reason = format!("'{key}' is stored as {fault}");
            return Err(WeightsError::header(reason, file.path()));
        }
        if let Some(format) = info.dtype.quant() {
            let side = self.quant_side(key, (file, info), format)?;
            return Ok((MatrixFormat::Quant(format), Some(side)));
        }
        if let Some(block) = info.dtype.blocks() {
            return Ok((MatrixFormat::Blocks(block), None));
        }
        let stored = file.stored_kind(key, info)?;
        let scale = self.scale_of(key, info.dtype)?;
        let form = if fp8::is_fp8(stored) {
            let scale = scale.unwrap_or(1.0);
            MatrixFormat::Fp8 { stored, scale }
        } else {
            let kind = self.kind;
            MatrixFormat::Plain {
                stored,
                kind,
                scale,
            }
        };
        Ok((form, None))
    }

    fn entry(&self, key: &str) -> Option<(&OpenWeightFile, &TensorInfo)> {
        let file = &self.source.files[*self.source.keys.get(key)?];
        Some((file, file.info(key)?))
    }

    /// The file that has `key`, and what its header says of it; `shape` must be its own.
    fn find(
        &self,
        key: &str,
        shape: &[i64],
    ) -> Result<(&OpenWeightFile, &TensorInfo), WeightsError> {
        fault::at(FaultSite::Weights);
        let Some((file, info)) = self.entry(key) else {
            return Err(self.missing(key.to_owned(), shape));
        };
        let found = info.shape.iter().map(|&n| n as i64);
        if !found.clone().eq(shape.iter().copied()) {
            return Err(WeightsError::WrongShape {
                key: key.to_owned(),
                expected: shape.to_vec(),
                found: found.collect(),
                path: file.path().to_owned(),
            });
        }
        Ok((file, info))
    }

    /// Counts `name` and its scales as requested without loading it: a duplicate of another tensor.
    pub fn ignore(&self, name: &str) {
        let key = self.file_key(name);
        self.ignore_beside(&key);
        self.requested_keys().insert(key);
    }

    fn requested_keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        let asked = &self.source.asked;
        asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys of the files that were not requested so far.
    pub fn finish(&self) -> Vec<String> {
        let asked = self.requested_keys();
        self.source
            .keys
            .keys()
            .filter(|key| !asked.contains(*key) && !scales::is_marker(key))
            .cloned()
            .collect()
    }

    /// Like [`Self::finish`], below a prefix only: other keys belong to other networks.
    pub fn finish_behind(&self, prefix: &str) -> Vec<String> {
        let mut keys = self.finish();
        keys.retain(|key| key.starts_with(prefix));
        keys
    }

    fn full_name(&self, name: &impl Display) -> String {
        if self.prefix.is_empty() {
            name.to_string()
        } else {
            format!("{}.{name}", self.prefix)
        }
    }

    fn file_key(&self, name: &str) -> String {
        let full = self.full_name(&name);
        match &self.translate {
            Some(translate) => translate(&full),
            None => full,
        }
    }

    fn missing(&self, key: String, expected: &[i64]) -> WeightsError {
        let parent = key.rsplit_once('.').map_or("", |(parent, _)| parent);
        let near = self.keys().filter(|other| other.starts_with(parent));
        let near: Vec<&str> = near.take(4).collect();
        let found = if near.is_empty() {
            format!("nothing found under '{parent}'")
        } else {
            format!("found only {}", near.join(", "))
        };
        WeightsError::MissingKey {
            expected: expected.to_vec(),
            found,
            path: self.source.path.clone(),
            key,
        }
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.source.path.display();
        write!(f, "Weights({path} / {})", self.prefix)
    }
}

impl<S: Display> Div<S> for &Weights {
    type Output = Weights;

    fn div(self, name: S) -> Weights {
        Weights {
            prefix: self.full_name(&name),
            ..self.clone()
        }
    }
}

impl<S: Display> Div<S> for Weights {
    type Output = Self;

    fn div(self, name: S) -> Self {
        &self / name
    }
}

#[cfg(test)]
pub(crate) mod tests;
