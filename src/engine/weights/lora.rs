//! LoRAs of a network: the tensors that change each layer, read together with the layer.
//!
//! The catalogue plans which key belongs to which layer; [`nn`](crate::nn) computes. Matrices keep their storage
//! format, so a quantised model stays quantised; only other tensors are changed here, on reading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use safelight_core::job::LoraChoice;
use safelight_core::lora::{
    Expert, LayerTable, LoraDelta, LoraFactor, LoraFile, LoraPlan, LoraTarget, LoraUpdate,
    RowRange, strengths, text_encoder_keys,
};
use tch::{Device, Kind, Tensor};

use super::file::OpenWeightFile;
use super::{Weights, WeightsError, folder};

#[derive(Default)]
pub(super) struct OpenLoras {
    files: Vec<OpenFile>,
    /// Updates by the requested name of the layer's matrix, without `.weight`.
    layers: BTreeMap<String, Vec<PlannedUpdate>>,
    /// By the name of the tensor: file, strength and key of what is added.
    tensors: BTreeMap<String, Vec<(usize, f64, String)>>,
    /// Replaced tensors by name: file and key of the replacement.
    instead: BTreeMap<String, (usize, String)>,
    /// Inputs of layers that have more with the LoRAs than in the model's file.
    widened: BTreeMap<String, i64>,
    asked: Mutex<BTreeSet<String>>,
}

struct OpenFile {
    path: PathBuf,
    files: Vec<OpenWeightFile>,
    keys: BTreeMap<String, usize>,
}

struct PlannedUpdate {
    file: usize,
    strength: f64,
    update: LoraUpdate,
}

/// LoRA update of some rows of a layer, in f32 on the layer's device.
pub struct LayerUpdate {
    /// First and number.
    pub rows: (i64, i64),
    pub strength: f64,
    /// Scaled by everything but the strength.
    pub delta: Option<LayerDelta>,
    /// Target norms of the changed rows, `(rows)`, or columns, `(1, in)`.
    pub dora_scale: Option<Tensor>,
    /// `(rows)`, to be added to the bias; the strength is in it.
    pub bias: Option<Tensor>,
    /// The first half of the rows belongs where the second is.
    pub has_swapped_halves: bool,
}

/// The change of a matrix of `out` rows and `in` columns.
pub enum LayerDelta {
    /// `up`: `(out, rank)`, `down`: `(rank, in)`
    LowRank { up: Tensor, down: Tensor },
    /// Two products of `(out, rank)` and `(rank, in)`, multiplied number by number.
    Hadamard { w1: [Tensor; 2], w2: [Tensor; 2] },
    /// The Kronecker product of two matrices.
    Kronecker { w1: Tensor, w2: Tensor },
    /// `(out, in)`
    Whole(Tensor),
}

impl OpenLoras {
    /// Opens what acts on the network of `table`.
    fn open(
        loras: &[LoraChoice],
        expert: Expert,
        table: &LayerTable,
    ) -> Result<Self, WeightsError> {
        let mut all = Self::default();
        for (lora, strength) in loras.iter().zip(strengths(loras, expert)) {
            if strength == 0.0 {
                continue;
            }
            let mut header = LoraFile::read(&lora.path)?;
            header.read_alphas()?;
            let plan = LoraPlan::new(&header, std::slice::from_ref(table));
            let (files, keys) = folder::open(&lora.path, Device::Cpu)?;
            let file = all.files.len();
            all.files.push(OpenFile {
                path: lora.path.clone(),
                files,
                keys,
            });
            for update in plan.of_network(table.network) {
                all.add(file, strength, update);
            }
        }
        Ok(all)
    }

    fn add(&mut self, file: usize, strength: f64, update: LoraUpdate) {
        if update.layer.is_matrix {
            let name = update.layer.name.clone();
            if update.columns > update.layer.sides().1 {
                let widest = self.widened.entry(name.clone()).or_default();
                *widest = (*widest).max(update.columns as i64);
            }
            self.layers.entry(name).or_default().push(PlannedUpdate {
                file,
                strength,
                update,
            });
            return;
        }
        let name = &update.layer.name;
        if let Some(key) = update.instead {
            self.instead.insert(name.clone(), (file, key));
        }
        if let Some(LoraDelta::Whole { diff }) = update.delta {
            let changes = self.tensors.entry(name.clone()).or_default();
            changes.push((file, strength, diff));
        }
        if let Some(diff) = update.bias {
            let name = format!("{}.bias", name.trim_end_matches(".weight"));
            self.tensors
                .entry(name)
                .or_default()
                .push((file, strength, diff));
        }
    }

    /// Updates of the matrix requested as `name`, on `device`.
    fn of_layer(&self, name: &str, device: Device) -> Result<Vec<LayerUpdate>, WeightsError> {
        let Some(planned) = self.layers.get(name) else {
            return Ok(Vec::new());
        };
        self.note(name);
        let widened = self.widened.get(name).copied();
        let load = |planned: &PlannedUpdate| {
            let mut update =
                self.files[planned.file].load(&planned.update, planned.strength, device)?;
            let own = planned.update.layer.sides().1 as i64;
            let missing = widened.unwrap_or(own) - planned.update.columns as i64;
            if missing > 0 {
                update.delta = update.delta.map(|delta| with_idle_inputs(delta, missing));
            }
            Ok(update)
        };
        planned.iter().map(load).collect()
    }

    /// `tensor`, which is no matrix, as the LoRAs change it.
    pub(super) fn changed(&self, name: &str, tensor: Tensor) -> Result<Tensor, WeightsError> {
        let (changes, instead) = (self.tensors.get(name), self.instead.get(name));
        if changes.is_none() && instead.is_none() {
            return Ok(tensor);
        }
        self.note(name);
        let mut sum = tensor.to_kind(Kind::Float);
        if let Some((file, key)) = instead {
            let whole = self.files[*file].tensor(key)?.view(&sum.size()[..]);
            sum = whole.to_device(sum.device());
        }
        for (file, strength, key) in changes.into_iter().flatten() {
            let diff = self.files[*file].tensor(key)?.view(&sum.size()[..]);
            // Never in place: what is stored may be a file.
            sum = &sum + diff.to_device(sum.device()) * *strength;
        }
        Ok(sum.to_kind(tensor.kind()))
    }

    fn note(&self, name: &str) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(name.to_owned());
    }

    /// Changed layers that the network has not requested.
    fn left_over(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.layers.keys().chain(self.tensors.keys());
        let names = names.chain(self.instead.keys());
        names
            .filter(|name| !asked.contains(*name))
            .cloned()
            .collect()
    }
}

impl Weights {
    /// This position with LoRAs applied. `named`: the position from which the network requests its layers, by its
    /// names; may be this one.
    ///
    /// A LoRA without updates for this network is no error here: it may belong to another one, and
    /// [`check`](safelight_core::fitting::check) has seen all of it.
    pub fn with_loras(
        &self,
        loras: &[LoraChoice],
        expert: Expert,
        network: LoraTarget,
        named: &Self,
    ) -> Result<Self, WeightsError> {
        if loras.is_empty() {
            return Ok(self.clone());
        }
        let text = network
            .is_text_encoder
            .then(|| text_encoder_keys(network, &self.keys()));
        let table = LayerTable::new(network, &|name| {
            let key = text.as_ref().map(|keys| keys.file_key(name));
            let shape = named.shape_of(key.as_deref().unwrap_or(name))?;
            Some(shape.into_iter().map(|size| size as u64).collect())
        });
        let opened = OpenLoras::open(loras, expert, &table)?;
        let has_any =
            !(opened.layers.is_empty() && opened.tensors.is_empty() && opened.instead.is_empty());
        Ok(Self {
            loras: has_any.then(|| Arc::new(opened)),
            ..self.clone()
        })
    }

    /// Updates of the matrix at this position.
    pub fn layer_updates(&self) -> Result<Vec<LayerUpdate>, WeightsError> {
        match &self.loras {
            Some(loras) => loras.of_layer(&self.prefix, self.device),
            None => Ok(Vec::new()),
        }
    }

    /// Matrix `name` with this number of rows and columns, where LoRAs add inputs that the file's matrix does not have:
    /// those are zeros, to which the LoRAs add. It is the input projection, small and never streamed.
    pub(super) fn widened(
        &self,
        name: &str,
        [rows, columns]: [i64; 2],
    ) -> Result<Option<Tensor>, WeightsError> {
        let widened = self.loras.as_ref().and_then(|loras| {
            let of_layer = loras.widened.get(&self.prefix);
            of_layer.filter(|_| name == "weight")
        });
        let stored = self.shape_of(name);
        let (Some(_), Some([_, own])) = (widened, stored.as_deref()) else {
            return Ok(None);
        };
        let narrow = self.tensor(name, &[rows, *own])?;
        let wide = narrow.constant_pad_nd([0, columns - own]);
        self.note_fixed(&wide);
        Ok(Some(wide))
    }

    /// Layers that a LoRA changes and that were not requested.
    pub(crate) fn unused_updates(&self) -> Vec<String> {
        self.loras
            .as_ref()
            .map_or_else(Vec::new, |loras| loras.left_over())
    }
}

impl OpenFile {
    fn tensor(&self, key: &str) -> Result<Tensor, WeightsError> {
        let file = self.keys.get(key).and_then(|&file| self.files.get(file));
        let Some(file) = file else {
            return Err(self.unsound(key, "is missing"));
        };
        let stored = file.stored_tensor(key)?;
        let exact = stored.f_to_kind(Kind::Float);
        exact.map_err(WeightsError::tensor(key, &self.path))
    }

    fn unsound(&self, key: &str, what: &str) -> WeightsError {
        WeightsError::header(format!("its '{key}' {what}"), &self.path)
    }

    fn load(
        &self,
        update: &LoraUpdate,
        strength: f64,
        device: Device,
    ) -> Result<LayerUpdate, WeightsError> {
        let (all, columns) = (update.layer.sides().0, update.columns);
        let rows = match update.rows {
            RowRange::Range(first, count) => (first as i64, count as i64),
            RowRange::All | RowRange::SwappedHalves => (0, all as i64),
        };
        let size = [rows.1, columns as i64];
        let factor = update.factor;
        let here = |key: &str| Ok::<_, WeightsError>(self.tensor(key)?.to_device(device));
        let delta = match &update.delta {
            Some(delta) => Some(Self::delta(delta, factor, size, &here)?),
            None => None,
        };
        let dora_scale = update.dora_scale.as_deref().map(here).transpose()?;
        let mut bias: Option<Tensor> = None;
        let biases = [
            (&update.bias, strength),
            (&update.up_bias, strength * factor),
        ];
        for (key, scale) in biases {
            if let Some(key) = key {
                let more = here(key)?.view([-1]) * scale;
                bias = Some(match bias {
                    Some(bias) => bias + more,
                    None => more,
                });
            }
        }
        Ok(LayerUpdate {
            rows,
            strength,
            delta,
            dora_scale: dora_scale.map(|scale| dora_view(&scale, size)),
            bias,
            has_swapped_halves: update.rows == RowRange::SwappedHalves,
        })
    }

    fn delta(
        delta: &LoraDelta,
        factor: f64,
        [rows, columns]: [i64; 2],
        here: &dyn Fn(&str) -> Result<Tensor, WeightsError>,
    ) -> Result<LayerDelta, WeightsError> {
        let flat = |key: &str| Ok::<_, WeightsError>(here(key)?.flatten(1, -1));
        let whole = |factor: &LoraFactor| match factor {
            LoraFactor::Whole(key) => flat(key),
            LoraFactor::Product(a, b) => Ok(flat(a)?.matmul(&flat(b)?)),
        };
        Ok(match delta {
            LoraDelta::LowRank { down, up } => LayerDelta::LowRank {
                up: flat(up)? * factor,
                down: flat(down)?,
            },
            LoraDelta::Hadamard { w1, w2 } => LayerDelta::Hadamard {
                w1: [flat(&w1[0])? * factor, flat(&w1[1])?],
                w2: [flat(&w2[0])?, flat(&w2[1])?],
            },
            LoraDelta::Kronecker { w1, w2 } => LayerDelta::Kronecker {
                w1: whole(w1)? * factor,
                w2: whole(w2)?,
            },
            LoraDelta::Whole { diff } => LayerDelta::Whole(here(diff)?.view([rows, columns])),
        })
    }
}

/// The layer's update with `count` more inputs at the end, which it ignores.
fn with_idle_inputs(delta: LayerDelta, count: i64) -> LayerDelta {
    let wide = |xs: Tensor| xs.constant_pad_nd([0, count]);
    match delta {
        LayerDelta::LowRank { up, down } => LayerDelta::LowRank {
            up,
            down: wide(down),
        },
        LayerDelta::Hadamard { w1: [a, b], w2 } => LayerDelta::Hadamard {
            w1: [a, wide(b)],
            w2: {
                let [c, d] = w2;
                [c, wide(d)]
            },
        },
        LayerDelta::Kronecker { w1, w2 } => LayerDelta::Whole(wide(w1.kron(&w2))),
        LayerDelta::Whole(delta) => LayerDelta::Whole(wide(delta)),
    }
}

/// One norm for each row, `(rows)`, unless the file says columns: `(1, in)`
fn dora_view(scale: &Tensor, [rows, columns]: [i64; 2]) -> Tensor {
    let is_of_columns = scale.numel() as i64 == columns
        && (columns != rows || (scale.dim() == 2 && scale.size()[0] == 1 && rows > 1));
    if is_of_columns {
        scale.view([1, columns])
    } else {
        scale.view([-1])
    }
}
