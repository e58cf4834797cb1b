//! Changes that a LoRA file holds twice, under two names of one layer: equal ones count once, others contradict each
//! other.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::delta::LoraDelta;
use super::file::LoraFile;
use super::plan::{LoraPlan, LoraUpdate};
use super::table::RowRange;
use crate::formats::weights::header::WeightHeader;

const CHUNK_BYTES: usize = 1 << 20;

/// The open files of a LoRA, for comparing tensors.
pub(super) struct StoredTensors<'a> {
    lora: &'a LoraFile,
    files: Vec<(File, WeightHeader)>,
}

impl<'a> StoredTensors<'a> {
    /// Of files that cannot be read any more no two tensors are equal.
    pub fn open(lora: &'a LoraFile) -> Self {
        let paths = lora.weights.files.iter();
        let files = paths.map(|path| WeightHeader::open(path).ok());
        let files = files.collect::<Option<_>>().unwrap_or_default();
        Self { lora, files }
    }

    /// Returns true if two tensors have one shape, one type and the same bytes.
    pub fn are_equal(&self, one: &str, other: &str) -> bool {
        let place = |key: &str| {
            let number = self.lora.weights.tensors.get(key)?.file;
            let (file, header) = self.files.get(number)?;
            Some((file, header.info(key)?))
        };
        let (Some((file, info)), Some((other_file, other))) = (place(one), place(other)) else {
            return false;
        };
        if (info.dtype, &info.shape) != (other.dtype, &other.shape) {
            return false;
        }
        let mut buffers = [vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]];
        let mut starts = (0..info.bytes).step_by(CHUNK_BYTES);
        starts.all(|start| {
            let count = (info.bytes - start).min(CHUNK_BYTES as u64) as usize;
            let [left, right] = &mut buffers;
            let read = |file: &File, at: u64, buffer: &mut [u8]| file.read_exact_at(buffer, at);
            read(file, info.start + start, &mut left[..count]).is_ok()
                && read(other_file, other.start + start, &mut right[..count]).is_ok()
                && left[..count] == right[..count]
        })
    }
}

/// Drops updates that the plan has under another name already. Others of the same rows are a conflict.
pub(super) fn merge(plan: &mut LoraPlan, lora: &LoraFile) {
    let mut of_layer: BTreeMap<_, Vec<LoraUpdate>> = BTreeMap::new();
    let mut stored = None;
    let mut copies: Vec<[String; 2]> = Vec::new();
    for update in std::mem::take(&mut plan.updates) {
        let layer = (update.network.name, update.layer.name.clone());
        let known = of_layer.entry(layer).or_default();
        let Some(first) = known.iter().find(|first| first.has_part_of(&update)) else {
            known.push(update);
            continue;
        };
        let keys = [first.keys(), update.keys()];
        let names = [first.source.clone(), update.source.clone()];
        plan.coverage.applied -= keys[1].len().min(plan.coverage.applied);
        plan.coverage.left_out += keys[1].len();
        let stored = stored.get_or_insert_with(|| StoredTensors::open(lora));
        let mut pairs = keys[0].iter().zip(&keys[1]);
        if first.rows == update.rows
            && (first.factor - update.factor).abs() < 1e-6
            && keys[0].len() == keys[1].len()
            && pairs.all(|(one, other)| stored.are_equal(one, other))
        {
            copies.push(names);
        } else {
            let [one, other] = names;
            plan.coverage.conflict.get_or_insert_with(|| {
                format!(
                    "this LoRA changes one layer in two ways, as '{one}' and as '{other}': remove one of the two from the file"
                )
            });
        }
    }
    plan.updates = of_layer.into_values().flatten().collect();
    if let Some([one, other]) = copies.first() {
        let count = copies.len();
        plan.coverage.notices.push(format!(
            "layers that are in the file twice and are changed once: {count}, such as {one}, which is {other} too"
        ));
    }
}

impl LoraUpdate {
    /// Returns true if both change the same rows of a layer's matrix, or the same bias.
    fn has_part_of(&self, other: &Self) -> bool {
        let is_disjoint = match (self.rows, other.rows) {
            (RowRange::Range(first, count), RowRange::Range(second, more)) => {
                first >= second + more || second >= first + count
            }
            _ => false,
        };
        let both = |has: fn(&Self) -> bool| has(self) && has(other);
        !is_disjoint
            && (both(|it| it.delta.is_some())
                || both(|it| it.bias.is_some())
                || both(|it| it.instead.is_some()))
    }

    /// Its tensors but the alpha, always in the same order.
    fn keys(&self) -> Vec<String> {
        let delta = self.delta.iter().flat_map(LoraDelta::keys);
        let rest = [&self.dora_scale, &self.up_bias, &self.bias, &self.instead];
        delta.chain(rest.into_iter().flatten()).cloned().collect()
    }
}
