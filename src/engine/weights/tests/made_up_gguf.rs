//! GGUF files for tests, written by hand: f32 tensors, matrices of Q8_0, and metadata of every sort.
//!
//! For tests alone; what gguf-py itself writes is in `tests/fixtures/gguf`.

use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use tch::{Device, Kind, Tensor};

use crate::weights::Weights;

const F32: u32 = 0;
const F16: u32 = 1;
const BF16: u32 = 30;
const Q8_0: u32 = 8;
const ALIGNMENT: usize = 32;

/// How numbers are stored that share no scale.
#[derive(Clone, Copy)]
pub enum Stored {
    F32,
    F16,
    BF16,
}

#[derive(Clone, Default)]
pub struct GgufFile {
    num_entries: u64,
    entries: Vec<u8>,
    num_tensors: u64,
    tensors: Vec<u8>,
    data: Vec<u8>,
}

impl GgufFile {
    fn entry(mut self, key: &str, id: u32, value: &[u8]) -> Self {
        self.num_entries += 1;
        put_text(&mut self.entries, key.as_bytes());
        self.entries.extend(id.to_le_bytes());
        self.entries.extend(value);
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        put_text(&mut bytes, value.as_bytes());
        self.entry(key, 8, &bytes)
    }

    pub fn number(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub fn flag(self, key: &str, value: bool) -> Self {
        self.entry(key, 7, &[u8::from(value)])
    }

    fn list(self, key: &str, id: u32, count: usize, elements: &[u8]) -> Self {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend((count as u64).to_le_bytes());
        bytes.extend(elements);
        self.entry(key, 9, &bytes)
    }

    pub fn texts(self, key: &str, values: &[Vec<u8>]) -> Self {
        let mut bytes = Vec::new();
        for value in values {
            put_text(&mut bytes, value);
        }
        self.list(key, 8, values.len(), &bytes)
    }

    pub fn floats(self, key: &str, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.list(key, 6, values.len(), &bytes)
    }

    pub fn integers(self, key: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.list(key, 5, values.len(), &bytes)
    }

    pub fn bytes(self, key: &str, values: &[u8]) -> Self {
        self.list(key, 0, values.len(), values)
    }

    fn tensor(mut self, name: &str, tensor: &Tensor, id: u32, bytes: &[u8]) -> Self {
        self.num_tensors += 1;
        put_text(&mut self.tensors, name.as_bytes());
        let size = tensor.size();
        self.tensors.extend((size.len() as u32).to_le_bytes());
        for &n in size.iter().rev() {
            self.tensors.extend(n.to_le_bytes());
        }
        self.tensors.extend(id.to_le_bytes());
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        let padded = self.data.len().next_multiple_of(ALIGNMENT);
        self.data.resize(padded, 0);
        self
    }

    pub fn plain(self, name: &str, tensor: &Tensor) -> Self {
        let numbers = numbers(tensor);
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
        self.tensor(name, tensor, F32, &bytes.collect::<Vec<u8>>())
    }

    /// Number by number.
    pub fn stored(self, name: &str, tensor: &Tensor, stored: Stored) -> Self {
        let (id, half): (u32, fn(f32) -> [u8; 2]) = match stored {
            Stored::F32 => return self.plain(name, tensor),
            Stored::F16 => (F16, |n| f16::from_f32(n).to_le_bytes()),
            Stored::BF16 => (BF16, |n| bf16::from_f32(n).to_le_bytes()),
        };
        let bytes: Vec<u8> = numbers(tensor).into_iter().flat_map(half).collect();
        self.tensor(name, tensor, id, &bytes)
    }

    /// Blocks of 32 numbers of eight bits; rows must be whole blocks.
    pub fn q8_0(self, name: &str, tensor: &Tensor) -> Self {
        let numbers = numbers(tensor);
        let bytes = numbers.as_chunks::<32>().0.iter().flat_map(|numbers| {
            let largest = numbers.iter().fold(0_f32, |max, n| max.max(n.abs()));
            let scale = f16::from_f32(largest / 127.0);
            let whole = numbers.map(|n| (n / scale.to_f32().max(1e-9)).round() as i8);
            let mut block = scale.to_le_bytes().to_vec();
            block.extend(whole.map(i8::cast_unsigned));
            block
        });
        let bytes: Vec<u8> = bytes.collect();
        self.tensor(name, tensor, Q8_0, &bytes)
    }

    pub fn write(&self, path: &Path) {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.num_tensors.to_le_bytes());
        file.extend(self.num_entries.to_le_bytes());
        file.extend(&self.entries);
        file.extend(&self.tensors);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(&self.data);
        fs::write(path, file).unwrap();
    }
}

/// Two files with the same numbers in `folder`: GGUF, with Q8_0 where rows are whole blocks, and plain f32. `key` is
/// what GGUF calls a tensor.
pub fn both_forms(
    folder: &Path,
    tensors: &[(String, Tensor)],
    key: impl Fn(&str) -> String,
) -> [PathBuf; 2] {
    let [blocks, plain] = ["model-Q8_0.gguf", "exact.safetensors"].map(|name| folder.join(name));
    let mut file = GgufFile::default();
    for (name, tensor) in tensors {
        let has_blocks = tensor.dim() == 2 && tensor.size()[1] % 32 == 0;
        file = if has_blocks && !name.contains("relative_attention_bias") {
            file.q8_0(&key(name), tensor)
        } else {
            file.plain(&key(name), tensor)
        };
    }
    file.write(&blocks);
    let weights = Weights::open(&blocks, Kind::Float, Device::Cpu).unwrap();
    let exact = tensors.iter().map(|(name, tensor)| {
        let exact = weights.tensor(&key(name), &tensor.size()).unwrap();
        (name.clone(), exact)
    });
    Tensor::write_safetensors(&exact.collect::<Vec<_>>(), &plain).unwrap();
    [blocks, plain]
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    let flat = tensor.to_kind(Kind::Float).contiguous().view(-1);
    flat.try_into().unwrap()
}
