//! Prefetching of a component's weights to another device, in the order in which they will probably be requested.
//!
//! Tensors too small for a separate copy are copied together, and are views of the copy. The prefetched bytes are
//! bounded on the device and on the host, and a wrong guess only costs time. `ring.rs` reads.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Advice, fadvise};
use safelight_core::memory::DeviceClass;
use tch::{Device, Kind, TchError, Tensor};

use super::copy_stream::StagingError;
use super::ring::{FileRange, TransferBatch};
use crate::runtime::{device_class, meminfo_bytes};

/// Limit of bytes in flight before they are requested.
const AHEAD_BYTES: usize = 256 << 20;
/// Limit of bytes on the device before they are requested.
const HELD_BYTES: usize = AHEAD_BYTES + AHEAD_BYTES / 2;
/// Tensors up to this size come together with their neighbours.
const TINY_BYTES: usize = 1 << 20;
const GATHERED_BYTES: usize = 16 << 20;
/// Alignment of small tensors: kernels fetch up to this number of bytes at a time.
const ALIGNMENT: usize = 16;
/// A larger tensor changes its kind in pieces of this size.
const CONVERTED_BYTES: usize = 64 << 20;

/// A tensor in one of a component's files.
pub(super) struct TensorLocation<'a> {
    pub(super) name: &'a str,
    pub(super) file: usize,
    pub(super) start: u64,
    pub(super) len: usize,
}

/// Bytes of a file, and the numbers that they are.
#[derive(Clone, Copy)]
pub(super) struct StoredBytes {
    pub(super) start: u64,
    pub(super) len: usize,
    pub(super) kind: Kind,
}

/// The files of one component and what of them is on its way.
pub(super) struct WeightPrefetcher {
    files: Vec<Arc<File>>,
    /// Batches in the probable order of requests.
    spans: Vec<PrefetchBatch>,
    /// File and start of each tensor, index into `spans`, and its part there; sorted.
    places: Vec<((usize, u64), usize, FileRange)>,
    held: Mutex<HeldBatches>,
    reads_only_tiny_ahead: AtomicBool,
}

/// Bytes copied together: one tensor, or small ones that will probably be requested one after the other.
struct PrefetchBatch {
    file: usize,
    parts: Vec<FileRange>,
    len: usize,
}

#[derive(Default)]
struct HeldBatches {
    fetches: BTreeMap<usize, PendingBatch>,
    /// The keys of `fetches`, the oldest first.
    ages: VecDeque<usize>,
    bytes: usize,
    last_asked: Option<usize>,
    device: Option<Device>,
    /// Spans that were fetched once, and are not fetched again unasked.
    fetched: Vec<bool>,
}

/// A span on its way or on the device.
struct PendingBatch {
    bytes: Tensor,
    /// Copy in the dtype of the last request.
    typed: Option<(Kind, Tensor)>,
    transfer: Arc<TransferBatch>,
    tensors_left: usize,
}

impl WeightPrefetcher {
    /// `tensors`: all of `files`.
    pub(super) fn new<'a>(
        files: Vec<Arc<File>>,
        tensors: impl Iterator<Item = TensorLocation<'a>>,
    ) -> Self {
        let mut tensors: Vec<TensorLocation<'_>> = tensors.collect();
        tensors.sort_by_cached_key(|tensor| natural_order(tensor.name));
        let mut spans: Vec<PrefetchBatch> = Vec::new();
        let mut places = Vec::with_capacity(tensors.len());
        for tensor in tensors.iter().filter(|tensor| tensor.len > 0) {
            let mut part = FileRange {
                start: tensor.start,
                len: tensor.len,
                place: 0,
            };
            match spans.last_mut().filter(|span| span.has_room_for(tensor)) {
                Some(span) => {
                    part.place = span.len.next_multiple_of(ALIGNMENT);
                    span.len = part.place + part.len;
                    span.parts.push(part);
                }
                None => spans.push(PrefetchBatch {
                    file: tensor.file,
                    parts: vec![part],
                    len: part.len,
                }),
            }
            places.push(((tensor.file, tensor.start), spans.len() - 1, part));
        }
        places.sort_unstable_by_key(|(place, ..)| *place);
        Self {
            files,
            held: Mutex::new(HeldBatches {
                fetched: vec![false; spans.len()],
                ..HeldBatches::default()
            }),
            spans,
            places,
            reads_only_tiny_ahead: AtomicBool::new(false),
        }
    }

    /// Whoever asks for the others does not ask here.
    pub(super) fn read_only_tiny_ahead(&self) {
        self.reads_only_tiny_ahead.store(true, Ordering::Relaxed);
    }

    /// The numbers, which must be a whole tensor of file number `file`, as a tensor of `kind` on `device`. `shape` has as
    /// many numbers as are stored.
    pub(super) fn bring(
        &self,
        file: usize,
        stored: StoredBytes,
        shape: &[i64],
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, StagingError> {
        let is_converted_apart = stored.kind != kind && stored.len > AHEAD_BYTES;
        let place = self.place_of(file, stored).filter(|_| !is_converted_apart);
        let Some((index, part)) = place else {
            let flat = self.convert(file, stored, kind, device)?;
            return Ok(flat.f_view(shape)?);
        };
        let view = |fetch: &mut PendingBatch| fetch.numbers(part, stored.kind, shape);
        let (numbers, transfer) = self.ask(index, device, view)?;
        transfer.wait()?;
        if stored.kind == kind {
            return Ok(numbers);
        }
        Ok(numbers.f_to_kind(kind)?)
    }

    /// The span of a whole tensor, and its part there.
    fn place_of(&self, file: usize, stored: StoredBytes) -> Option<(usize, FileRange)> {
        let wanted = (file, stored.start);
        let found = self
            .places
            .binary_search_by_key(&wanted, |(place, ..)| *place);
        let (_, index, part) = self.places[found.ok()?];
        (part.len == stored.len).then_some((index, part))
    }

    /// A `view` of a span's bytes, which are on their way at least, as is what is likely to come next.
    fn ask(
        &self,
        index: usize,
        device: Device,
        view: impl Fn(&mut PendingBatch) -> Result<Tensor, TchError>,
    ) -> Result<(Tensor, Arc<TransferBatch>), StagingError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.device = Some(device);
        let last = held.last_asked.replace(index);
        let is_expected = held.fetches.contains_key(&index)
            || last.is_none_or(|last| last == index || last + 1 == index);
        if !held.fetches.contains_key(&index) {
            let fetch = match self.fetch(index, device) {
                Err(StagingError::Tensor(_)) if held.bytes > 0 => {
                    // Memory is short: unused batches are released.
                    held.make_room(&self.spans, HELD_BYTES);
                    self.fetch(index, device)?
                }
                fetch => fetch?,
            };
            held.insert(index, fetch, &self.spans);
        }
        if is_expected {
            self.look_ahead(&mut held, index, device);
        }
        let Some(fetch) = held.fetches.get_mut(&index) else {
            let mut fetch = self.fetch(index, device)?;
            return Ok((view(&mut fetch)?, fetch.transfer));
        };
        fetch.tensors_left = fetch.tensors_left.saturating_sub(1);
        let found = (view(fetch)?, Arc::clone(&fetch.transfer));
        if fetch.tensors_left == 0 {
            held.remove(index, &self.spans);
        }
        Ok(found)
    }

    fn look_ahead(&self, held: &mut HeldBatches, index: usize, device: Device) {
        let only_tiny = self.reads_only_tiny_ahead.load(Ordering::Relaxed);
        let mut ahead = 0;
        for next in index + 1..self.spans.len() {
            let len = self.spans[next].len;
            ahead += len;
            if ahead > AHEAD_BYTES {
                return;
            }
            let is_left =
                only_tiny && self.spans[next].len > TINY_BYTES && self.spans[next].parts.len() == 1;
            if held.fetched[next] || is_left {
                continue;
            }
            held.make_room_except(&self.spans, len, index);
            // Whoever asks for it will say why it failed.
            let Ok(fetch) = self.fetch(next, device) else {
                return;
            };
            held.insert(next, fetch, &self.spans);
        }
    }

    fn fetch(&self, index: usize, device: Device) -> Result<PendingBatch, StagingError> {
        let span = &self.spans[index];
        // Whole numbers of every kind.
        let len = span.len.next_multiple_of(ALIGNMENT) as i64;
        let bytes = Tensor::f_empty([len], (Kind::Uint8, device))?;
        let transfer = TransferBatch::begin(&self.files[span.file], &span.parts, &bytes)?;
        Ok(PendingBatch {
            bytes,
            typed: None,
            transfer: Arc::new(transfer),
            tensors_left: span.parts.len(),
        })
    }

    /// Converts one tensor piece by piece: the narrower type crosses the bus, and little of it is on the device at a
    /// time.
    fn convert(
        &self,
        file: usize,
        stored: StoredBytes,
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, StagingError> {
        let width = stored.kind.elt_size_in_bytes();
        let whole = Tensor::f_empty([(stored.len / width) as i64], (kind, device))?;
        let begin = |offset: usize| -> Result<Option<(Tensor, TransferBatch)>, StagingError> {
            if offset >= stored.len {
                return Ok(None);
            }
            let len = CONVERTED_BYTES.min(stored.len - offset);
            let bytes = Tensor::f_empty([len as i64], (Kind::Uint8, device))?;
            let part = FileRange {
                start: stored.start + offset as u64,
                len,
                place: 0,
            };
            let transfer = TransferBatch::begin(&self.files[file], &[part], &bytes)?;
            Ok(Some((bytes, transfer)))
        };
        let mut next = begin(0)?;
        let mut offset = 0;
        while let Some((bytes, transfer)) = next {
            next = begin(offset + CONVERTED_BYTES)?;
            transfer.wait()?;
            let part = bytes.f_view_dtype(stored.kind)?;
            let first = (offset / width) as i64;
            whole.f_narrow(0, first, part.size1()?)?.f_copy_(&part)?;
            offset += CONVERTED_BYTES;
        }
        Ok(whole)
    }
}

/// Returns whether less than a quarter of the memory is really free: drivers do not wait for the page cache to shrink.
fn is_short() -> bool {
    let bytes = |name| meminfo_bytes(name).unwrap_or(0);
    bytes("MemFree") < bytes("MemTotal") / 4
}

impl Drop for WeightPrefetcher {
    /// On unified memory read bytes exist twice: the page cache's copy is dropped if little is free besides. If much is
    /// free it makes loading the next section fast.
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        let streams = self.reads_only_tiny_ahead.load(Ordering::Relaxed);
        let device = held.device.filter(|_| !streams);
        if device.is_some_and(|device| device_class(device) == DeviceClass::Unified) && is_short() {
            for file in &self.files {
                // Advice that is not taken harms nothing.
                fadvise(&**file, 0, None, Advice::DontNeed).ok();
            }
        }
    }
}

impl PendingBatch {
    /// One call for each tensor: among thousands of tiny ones the calls are what takes time.
    fn numbers(&mut self, part: FileRange, kind: Kind, shape: &[i64]) -> Result<Tensor, TchError> {
        let typed = match self.typed.take() {
            Some((known, typed)) if known == kind => typed,
            _ => self.bytes.f_view_dtype(kind)?,
        };
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        let first = (part.place / kind.elt_size_in_bytes()) as i64;
        let numbers = typed.f_as_strided(shape, &strides[..], first);
        self.typed = Some((kind, typed));
        numbers
    }
}

impl PrefetchBatch {
    fn has_room_for(&self, tensor: &TensorLocation<'_>) -> bool {
        let has_only_tiny = self.parts.len() > 1 || self.len <= TINY_BYTES;
        let is_alike = tensor.file == self.file && tensor.len <= TINY_BYTES;
        has_only_tiny && is_alike && self.len + ALIGNMENT + tensor.len <= GATHERED_BYTES
    }
}

impl HeldBatches {
    fn insert(&mut self, index: usize, fetch: PendingBatch, spans: &[PrefetchBatch]) {
        self.fetches.insert(index, fetch);
        self.ages.push_back(index);
        self.bytes += spans[index].len;
        self.fetched[index] = true;
    }

    fn remove(&mut self, index: usize, spans: &[PrefetchBatch]) {
        if self.fetches.remove(&index).is_some() {
            self.ages.retain(|&other| other != index);
            self.bytes -= spans[index].len;
        }
    }

    /// Lets the oldest go until there is room for `len` more.
    fn make_room(&mut self, spans: &[PrefetchBatch], len: usize) {
        self.make_room_except(spans, len, usize::MAX);
    }

    fn make_room_except(&mut self, spans: &[PrefetchBatch], len: usize, needed: usize) {
        while self.bytes + len > HELD_BYTES {
            let Some(oldest) = self.ages.iter().copied().find(|&index| index != needed) else {
                return;
            };
            self.remove(oldest, spans);
            self.fetched[oldest] = false;
        }
    }
}

/// Sort key by which block 2 comes before block 10: numbers before other words, each comparable byte by byte.
pub(super) fn natural_order(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 16);
    for word in name.split('.') {
        if let Ok(number) = word.parse::<u64>() {
            key.push(1);
            key.extend(number.to_be_bytes());
        } else {
            key.push(2);
            key.extend(word.as_bytes());
            key.push(0);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of tensors with these lengths, and what it holds.
    fn file_of(lens: &[usize]) -> (WeightPrefetcher, Vec<StoredBytes>, Vec<u8>) {
        let names: Vec<String> = (0..lens.len())
            .map(|i| format!("blocks.{i}.weight"))
            .collect();
        let mut places = Vec::new();
        let mut stored = Vec::new();
        let mut start = 5;
        for (number, &len) in lens.iter().enumerate() {
            places.push(TensorLocation {
                name: &names[number],
                file: 0,
                start,
                len,
            });
            let kind = Kind::Uint8;
            stored.push(StoredBytes { start, len, kind });
            start += len as u64;
        }
        let bytes: Vec<u8> = (0..start as u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let staging = WeightPrefetcher::new(vec![Arc::new(file)], places.into_iter());
        (staging, stored, bytes)
    }

    fn check(staging: &WeightPrefetcher, stored: StoredBytes, bytes: &[u8]) {
        let Ok(found) = staging.bring(0, stored, &[stored.len as i64], Kind::Uint8, Device::Cpu)
        else {
            panic!("the file is whole");
        };
        let start = stored.start as usize;
        let expected = Tensor::from_slice(&bytes[start..start + stored.len]);
        assert!(found.equal(&expected), "at {start}");
        let held = staging.held.lock().unwrap();
        assert!(held.bytes <= HELD_BYTES);
        assert_eq!(held.fetches.len(), held.ages.len());
    }

    #[test]
    fn prefetched_tensors_match_the_file_in_any_access_order() {
        let lens = [3, 1 << 20, 5 << 20, 17, 1, 9 << 20, 40, 700_000, 12 << 20];
        let count = lens.len();
        for order in [[1, 0], [4, 0], [2, 5], [count - 1, 3], [1, 0]] {
            let [step, first] = order;
            let (staging, stored, bytes) = file_of(&lens);
            for turn in 0..2 * count {
                check(&staging, stored[(first + turn * step) % count], &bytes);
            }
        }
    }

    #[test]
    fn tiny_neighbours_come_together_and_none_is_kept_for_ever() {
        let (staging, stored, bytes) = file_of(&vec![1000; 3000]);
        assert_eq!(staging.spans.len(), 1);
        for &stored in &stored {
            check(&staging, stored, &bytes);
        }
        assert_eq!(staging.held.lock().unwrap().bytes, 0);
        let (staging, _, _) = file_of(&[1000, 2 << 20, 1000, 1000, 2 << 20]);
        assert_eq!(staging.spans.len(), 4);
    }

    #[test]
    fn prefetched_tensors_are_converted_to_the_requested_dtype() {
        let count = 3_000_001;
        let values: Vec<u8> = (0..count as u32)
            .flat_map(|n| (n as f32).to_le_bytes())
            .collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5]).unwrap();
        file.write_all(&values).unwrap();
        let place = TensorLocation {
            name: "weight",
            file: 0,
            start: 5,
            len: values.len(),
        };
        let staging = WeightPrefetcher::new(vec![Arc::new(file)], [place].into_iter());
        let stored = StoredBytes {
            start: 5,
            len: values.len(),
            kind: Kind::Float,
        };
        let expected = Tensor::arange(i64::from(count), (Kind::Double, Device::Cpu));
        for found in [
            staging.bring(0, stored, &[i64::from(count)], Kind::Double, Device::Cpu),
            staging.convert(0, stored, Kind::Double, Device::Cpu),
        ] {
            let Ok(found) = found else {
                panic!("the file is whole");
            };
            assert!(found.equal(&expected));
        }
        let beyond = StoredBytes {
            len: values.len() + 4,
            ..stored
        };
        let cut = staging.bring(0, beyond, &[1], Kind::Float, Device::Cpu);
        assert!(matches!(cut, Err(StagingError::Io(_))));
    }

    #[test]
    fn blocks_come_in_the_order_of_their_numbers() {
        let mut names = ["b.10.x", "b.2.y", "b.2.x", "a", "b.2"];
        names.sort_by_key(|name| natural_order(name));
        assert_eq!(names, ["a", "b.2", "b.2.x", "b.2.y", "b.10.x"]);
    }
}
