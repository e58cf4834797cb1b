//! Weight streaming: matrices of a network that stay in their files and are fetched to the device ahead of each
//! product.
//!
//! Residency is decided at the first use, when the whole network is known. The others share one ring buffer, allocated
//! once: while one matrix is in use, those that followed it the last time are fetched into the rest of the buffer. A
//! copy waits for the work queued before its space was free, so nothing is overwritten while it is read. Matrices come
//! from the page cache; nothing else is kept on the host.
//!
//! On the CPU the same code runs in ordinary memory, for tests only. [`ring`](super::ring) reads; [`nn`](crate::nn)
//! multiplies.

mod matrix;
mod peers;
mod residency;
#[cfg(test)]
mod tests;
mod window;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::rc::{Rc, Weak};

use tch::{Device, Kind, Tensor};

pub(super) use self::matrix::{MatrixFormat, MatrixSource, StoredSource, StreamedMatrix};
use self::matrix::{MatrixPart, Residency, sources_of};
use self::peers::PeerShares;
use self::residency::ResidencyCandidate;
use self::window::{ALIGNMENT, RingWindow};
use super::copy_stream::StagingError;
use super::ring::{self, TransferBatch};
use super::{Weights, WeightsError};
use crate::parallel::StartedExchange;
use crate::weights_error::StreamFailure;

/// Size of the ring buffer of non-resident matrices. A block of Wan's 14B has 700 MB, of which long attention leaves
/// time for half. The networks of tests would fit into it whole.
const WINDOW_BYTES: usize = if cfg!(test) { 0 } else { 512 << 20 };
/// Limit of bytes in flight while resident matrices are loaded.
const LOADED_AHEAD_BYTES: u64 = 256 << 20;

/// The matrices of one network and what of them may stay.
pub(super) struct WeightStreamer {
    device: Device,
    budget: u64,
    window_bytes: usize,
    state: RefCell<StreamerState>,
}

#[derive(Default)]
struct StreamerState {
    /// All, in the order in which the network was built, until it is settled which stay.
    known: Vec<Weak<StreamedMatrix>>,
    /// Bytes that stay regardless of the budget.
    fixed_bytes: u64,
    resident_bytes: u64,
    is_settled: bool,
    circle: Option<StreamingRing>,
}

/// The matrices that do not stay, by their numbers.
struct StreamingRing {
    buffer: Tensor,
    window: RingWindow,
    parts: Vec<Rc<Vec<MatrixPart>>>,
    /// Matrix used after each one the last time.
    next: Vec<usize>,
    last: Option<usize>,
    /// Matrix in use: its number and its bytes in the buffer. The oldest in the window.
    lent: Option<(usize, Tensor)>,
    /// Matrices in flight, in the order of the window.
    ahead: VecDeque<PendingTransfer>,
    /// The other devices as the source.
    peers: Option<PeerShares>,
}

/// Bytes in flight. After a drop nothing writes to them.
struct PendingTransfer {
    index: usize,
    bytes: Tensor,
    source: TransferSource,
}

enum TransferSource {
    Files(Vec<TransferBatch>),
    Peer(StartedExchange),
}

/// Device memory of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBytes {
    /// Of all that stays, what cannot stream included.
    pub resident: u64,
    /// Of the buffer that the others come into.
    pub window: u64,
}

impl Weights {
    /// This position with at most `resident_bytes` of the network on the device. `None`: all may stay.
    ///
    /// Tensors other than matrices always stay. In addition there is a buffer of two of the largest matrices that do
    /// not stay, or of 512 MiB if these matrices are at least as large.
    pub fn with_residency(&self, resident_bytes: Option<u64>) -> Self {
        self.with_window(resident_bytes, WINDOW_BYTES)
    }

    pub(super) fn with_window(&self, resident_bytes: Option<u64>, window_bytes: usize) -> Self {
        // Tensors without a file cannot be read again.
        let budget = resident_bytes.filter(|_| self.source.random.is_none());
        let stream = budget.map(|budget| {
            for file in &self.source.files {
                file.read_only_tiny_ahead();
            }
            Rc::new(WeightStreamer {
                device: self.device,
                budget,
                window_bytes,
                state: RefCell::default(),
            })
        });
        Self {
            stream,
            ..self.clone()
        }
    }

    /// This position, with matrices that are used once in a job and not in every step: they are the first to stream.
    pub fn seldom(&self) -> Self {
        Self {
            is_seldom: true,
            ..self.clone()
        }
    }

    /// Brings to the device what may stay there; otherwise the first product does. To be called when the network is
    /// built.
    pub fn settle(&self) -> Result<(), WeightsError> {
        self.stream
            .as_ref()
            .map_or(Ok(()), |stream| stream.settle())
    }

    /// Bytes of the network on the device; `None` if all of it stays, or nothing has been used.
    pub fn stream_bytes(&self) -> Option<StreamBytes> {
        let stream = self.stream.as_ref()?;
        let state = stream.state.borrow_mut();
        state.is_settled.then(|| StreamBytes {
            resident: state.fixed_bytes + state.resident_bytes,
            window: state
                .circle
                .as_ref()
                .map_or(0, |it| it.buffer.numel() as u64),
        })
    }

    /// Counts what stays in any case.
    pub(crate) fn note_fixed(&self, tensor: &Tensor) {
        if let Some(stream) = &self.stream {
            let bytes = tensor.numel() * tensor.kind().elt_size_in_bytes();
            stream.state.borrow_mut().fixed_bytes += bytes as u64;
        }
    }
}

impl WeightStreamer {
    pub(super) fn know(&self, matrix: &Rc<StreamedMatrix>) {
        self.state.borrow_mut().known.push(Rc::downgrade(matrix));
    }

    /// Decides which matrices stay and loads those. Matrices requested later are read separately for each use.
    fn settle(&self) -> Result<(), WeightsError> {
        let mut state = self.state.borrow_mut();
        if state.is_settled {
            return Ok(());
        }
        state.is_settled = true;
        let all: Vec<Rc<StreamedMatrix>> = state
            .known
            .drain(..)
            .filter_map(|it| it.upgrade())
            .collect();
        let candidates: Vec<ResidencyCandidate> = all.iter().map(|it| it.candidate()).collect();
        let budget = self.budget.saturating_sub(state.fixed_bytes);
        let total: u64 = candidates.iter().map(|it| it.bytes).sum();
        let shared = (total > budget)
            .then(|| PeerShares::budget(total, budget))
            .flatten();
        let budget = shared.as_ref().map_or(budget, |(_, budget)| *budget);
        let streams = residency::streamed(&candidates, budget);
        let of = |wanted: bool| {
            let chosen = all
                .iter()
                .zip(&streams)
                .filter(move |(_, it)| **it == wanted);
            chosen.map(|(matrix, _)| matrix)
        };
        // One large piece of memory is found most easily before all the others.
        state.circle = StreamingRing::new(
            &of(true).collect::<Vec<_>>(),
            self.device,
            self.window_bytes,
        )?;
        state.resident_bytes = load(&of(false).collect::<Vec<_>>())?;
        if let (Some((group, _)), Some(circle)) = (shared, &mut state.circle) {
            let streamed: Vec<_> = of(true).collect();
            circle.peers = Some(PeerShares::load(group, &streamed, self.device)?);
        }
        let window = state.circle.as_ref().map_or(0, |it| it.buffer.numel());
        tracing::info!(
            "{} of {} matrices stream through {} MiB; {} MiB stay on the device",
            of(true).count(),
            all.len(),
            window >> 20,
            (state.resident_bytes + state.fixed_bytes) >> 20
        );
        Ok(())
    }

    /// Bytes of matrix `index`, valid until another one is requested.
    fn fetch(&self, index: usize) -> Result<Tensor, StagingError> {
        let mut state = self.state.borrow_mut();
        let Some(circle) = &mut state.circle else {
            return Err(std::io::Error::other("nothing streams").into());
        };
        circle.fetch(index)
    }
}

/// Brings what stays to the device, several at a time -> its bytes
fn load(matrices: &[&Rc<StreamedMatrix>]) -> Result<u64, WeightsError> {
    let mut under_way: VecDeque<(&StreamedMatrix, PendingTransfer)> = VecDeque::new();
    let (mut ahead, mut bytes) = (0, 0);
    let finish = |(matrix, reading): (&StreamedMatrix, PendingTransfer)| {
        matrix.settle(Residency::Resident(matrix.finish(&reading)?));
        Ok::<u64, WeightsError>(matrix.candidate().bytes)
    };
    for matrix in matrices {
        if let Some(mapped) = matrix.mapped()? {
            bytes += matrix.candidate().bytes;
            matrix.settle(Residency::Resident(mapped));
            continue;
        }
        under_way.push_back((matrix, matrix.begin()?));
        ahead += matrix.candidate().bytes;
        while ahead > LOADED_AHEAD_BYTES
            && let Some(first) = under_way.pop_front()
        {
            ahead -= first.0.candidate().bytes;
            bytes += finish(first)?;
        }
    }
    for reading in under_way {
        bytes += finish(reading)?;
    }
    Ok(bytes)
}

impl StreamingRing {
    /// `None` where nothing streams.
    fn new(
        matrices: &[&Rc<StreamedMatrix>],
        device: Device,
        window_bytes: usize,
    ) -> Result<Option<Self>, WeightsError> {
        let lens = || {
            matrices
                .iter()
                .map(|it| it.len().next_multiple_of(ALIGNMENT))
        };
        let Some((largest, first)) = lens().max().zip(matrices.first()) else {
            return Ok(None);
        };
        let capacity = lens().sum::<usize>().min(window_bytes.max(2 * largest));
        let buffer = Tensor::f_empty([capacity as i64], (Kind::Uint8, device));
        for (index, matrix) in matrices.iter().enumerate() {
            matrix.settle(Residency::Window(index));
        }
        Ok(Some(Self {
            buffer: buffer.map_err(|source| first.failed(source.into()))?,
            window: RingWindow::new(capacity),
            parts: matrices.iter().map(|it| it.parts()).collect(),
            next: first_guesses(
                &matrices
                    .iter()
                    .map(|it| it.candidate().is_seldom)
                    .collect::<Vec<_>>(),
            ),
            last: None,
            lent: None,
            ahead: VecDeque::new(),
            peers: None,
        }))
    }

    fn fetch(&mut self, index: usize) -> Result<Tensor, StagingError> {
        if let Some((lent, bytes)) = &self.lent
            && *lent == index
        {
            return Ok(bytes.shallow_clone());
        }
        // Its product has been queued: what is copied to its place from now on waits for that.
        if self.lent.take().is_some() {
            self.window.give_back();
        }
        if let Some(last) = self.last.replace(index) {
            self.next[last] = index;
        }
        // Wrong guesses go, all of them where this one is not among those on their way.
        let wrong = self.ahead.iter().position(|it| it.index == index);
        for _ in 0..wrong.unwrap_or(self.ahead.len()) {
            self.ahead.pop_front();
            self.window.give_back();
        }
        if self.ahead.is_empty() && !self.begin(index)? {
            return Err(std::io::Error::other("a matrix is larger than its window").into());
        }
        // Whoever uses one of them says why it failed.
        self.look_ahead(index).ok();
        let Some(coming) = self.ahead.pop_front() else {
            return Err(std::io::Error::other("nothing is on its way").into());
        };
        let bytes = coming.bytes.shallow_clone();
        self.lent = Some((index, bytes.shallow_clone()));
        if let Err(err) = coming.wait() {
            // Another try reads it again.
            drop(coming);
            self.lent = None;
            self.window.give_back();
            return Err(err);
        }
        Ok(bytes)
    }

    /// Starts fetching the matrices that will probably follow `index`, as far as there is room.
    fn look_ahead(&mut self, index: usize) -> Result<(), StagingError> {
        let mut last = self.ahead.back().map_or(index, |it| it.index);
        loop {
            let next = self.next[last];
            if next == index || self.ahead.iter().any(|it| it.index == next) || !self.begin(next)? {
                return Ok(());
            }
            last = next;
        }
    }

    /// `false` where there is no room for it.
    fn begin(&mut self, index: usize) -> Result<bool, StagingError> {
        let parts = Rc::clone(&self.parts[index]);
        let len: usize = sources_of(&parts).map(|source| source.len).sum();
        let Some(start) = self.window.take(len) else {
            return Ok(false);
        };
        let bytes = self.buffer.f_narrow(0, start as i64, len as i64)?;
        if let Some(peers) = &self.peers {
            self.ahead.push_back(peers.begin(index, bytes));
            return Ok(true);
        }
        match PendingTransfer::begin(index, &parts, bytes) {
            Ok(coming) => self.ahead.push_back(coming),
            Err(err) => {
                self.window.undo();
                return Err(err);
            }
        }
        Ok(true)
    }
}

impl PendingTransfer {
    /// Sends all sources to `bytes`, concatenated.
    fn begin(index: usize, parts: &[MatrixPart], bytes: Tensor) -> Result<Self, StagingError> {
        let mut transfers = Vec::with_capacity(parts.len());
        let mut place = 0;
        for source in sources_of(parts) {
            let target = bytes.f_narrow(0, place as i64, source.len as i64)?;
            let part = ring::FileRange {
                start: source.start,
                len: source.len,
                place: 0,
            };
            match TransferBatch::begin(&source.file, &[part], &target) {
                Ok(transfer) => transfers.push(transfer),
                Err(err) => {
                    transfers.iter().for_each(TransferBatch::abandon);
                    return Err(err);
                }
            }
            place += source.len;
        }
        Ok(Self {
            index,
            bytes,
            source: TransferSource::Files(transfers),
        })
    }

    fn wait(&self) -> Result<(), StagingError> {
        match &self.source {
            TransferSource::Files(transfers) => transfers.iter().try_for_each(TransferBatch::wait),
            TransferSource::Peer(exchange) => {
                exchange.wait();
                Ok(())
            }
        }
    }
}

/// Before anything is known: each is followed by the next of its class, and the last by the first.
fn first_guesses(is_seldom: &[bool]) -> Vec<usize> {
    let count = is_seldom.len();
    let following = |i: usize| {
        let mut others = (i + 1..count).chain(0..=i);
        others
            .find(|&other| is_seldom[other] == is_seldom[i])
            .unwrap_or(i)
    };
    (0..count).map(following).collect()
}

impl Drop for PendingTransfer {
    fn drop(&mut self) {
        // A transfer from a peer cannot be stopped; later ones to this place follow it on the same stream.
        if let TransferSource::Files(transfers) = &self.source {
            transfers.iter().for_each(TransferBatch::abandon);
        }
    }
}

/// Ends the stage from within a product: networks have no other way out.
fn give_up(err: WeightsError) -> ! {
    resume_unwind(Box::new(StreamFailure(Cell::new(Some(err)))))
}
