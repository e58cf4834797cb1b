//! Pieces of files on their way to a device: several threads, each with buffers that the device fetches from while
//! the thread reads the next piece.
//!
//! A mapped pointer is never handed to a device, because drivers pin and keep such pages. The buffers are made once in
//! a process, so memory for staging stays the same however much is loaded. Does not choose what is read.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::{Advice, fadvise};
use tch::{Device, Tensor};

use super::copy_stream::{BlockingLane, CopyStream, StagingError};
use crate::kernels::{CopyDriver, CopyMark};

/// On one H200's host, from page cache: 1 reader 8 GiB/s, 2 15, 4 26; 12 come near to what the device can fetch.
const READERS: usize = 12;
/// Small enough to stay in the reader's processor cache until the device fetches it.
const PIECE_BYTES: usize = 4 << 20;
/// One is read into while the device fetches from the other.
const SLOTS: usize = 2;

/// Pieces that may wait for a reader: more than is ever read ahead, so that whoever asks rarely waits.
const MAX_WAITING: usize = 4096;

/// Read-ahead of the disk before the readers. One disk gave 1.5 GiB/s to 12 readers without, and 1.95 with it, which is
/// more than direct reading gave.
const READ_AHEAD_BYTES: u64 = 256 << 20;

/// Bytes of a file, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileRange {
    /// In the file.
    pub(super) start: u64,
    pub(super) len: usize,
    /// In the target.
    pub(super) place: usize,
}

/// Cuts parts at the pieces of a target of `len` bytes: each piece's offset and its parts, whose places are its own.
fn pieces_of(parts: &[FileRange], len: usize) -> Vec<(usize, Vec<FileRange>)> {
    let offsets = (0..len).step_by(PIECE_BYTES);
    let mut pieces: Vec<(usize, Vec<FileRange>)> =
        offsets.map(|offset| (offset, Vec::new())).collect();
    for part in parts {
        let mut rest = *part;
        while rest.len > 0 {
            let place = rest.place % PIECE_BYTES;
            let cut = FileRange {
                place,
                len: rest.len.min(PIECE_BYTES - place),
                ..rest
            };
            let (_, piece) = &mut pieces[rest.place / PIECE_BYTES];
            match piece.last_mut() {
                // One call reads both.
                Some(last)
                    if last.start + last.len as u64 == cut.start
                        && last.place + last.len == cut.place =>
                {
                    last.len += cut.len;
                }
                _ => piece.push(cut),
            }
            rest.start += cut.len as u64;
            rest.place += cut.len;
            rest.len -= cut.len;
        }
    }
    pieces
}

/// Bytes that are on their way together. Dropping it lets what was not begun be.
pub(super) struct TransferBatch(Arc<TransferProgress>);

#[derive(Default)]
struct TransferProgress {
    state: Mutex<TransferState>,
    changed: Condvar,
}

#[derive(Default)]
struct TransferState {
    pieces_left: usize,
    failure: Option<StagingError>,
    /// Nobody waits for it, or a piece failed.
    is_pointless: bool,
}

impl TransferProgress {
    fn state(&self) -> MutexGuard<'_, TransferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, err: StagingError) {
        let mut state = self.state();
        state.is_pointless = true;
        state.failure.get_or_insert(err);
    }
}

impl TransferBatch {
    /// Sends parts of `file` to `target`, flat bytes that nothing else uses before [`Self::wait`]. The parts are in the
    /// order of their positions in the target and do not overlap; bytes between them are undefined.
    pub(super) fn begin(
        file: &Arc<File>,
        parts: &[FileRange],
        target: &Tensor,
    ) -> Result<Self, StagingError> {
        let device = target.device();
        // Memory may be in use by what was queued before it changed hands.
        let mark = match device {
            Device::Cuda(index) => CopyDriver::for_device(index)
                .map(CopyDriver::mark)
                .transpose()?,
            _ => None,
        };
        let mark = mark.map(Arc::new);
        let progress = Arc::new(TransferProgress::default());
        let mut pieces = Vec::new();
        let len = target.size1()? as usize;
        for (offset, parts) in pieces_of(parts, len) {
            let len = PIECE_BYTES.min(len - offset);
            progress.state().pieces_left += 1;
            pieces.push(TransferPiece {
                file: Arc::clone(file),
                parts,
                target: target.f_narrow(0, offset as i64, len as i64)?,
                len,
                mark: mark.clone(),
                progress: Arc::clone(&progress),
                is_settled: false,
            });
        }
        let readers = readers_for(device);
        for piece in pieces {
            // Without receivers the piece is dropped.
            readers.send(piece).ok();
        }
        Ok(Self(progress))
    }

    /// Until all bytes are on the device.
    pub(super) fn wait(&self) -> Result<(), StagingError> {
        self.ended().failure.take().map_or(Ok(()), Err)
    }

    /// Drops pieces that have not started, and waits for the rest: afterwards nothing writes to the target.
    pub(super) fn abandon(&self) {
        self.0.state().is_pointless = true;
        drop(self.ended());
    }

    fn ended(&self) -> MutexGuard<'_, TransferState> {
        let mut state = self.0.state();
        while state.pieces_left > 0 {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl Drop for TransferBatch {
    fn drop(&mut self) {
        self.0.state().is_pointless = true;
    }
}

fn gone() -> StagingError {
    io::Error::other("a reader of weights ended").into()
}

/// It has ended when it is dropped, which keeps the target's memory until then.
struct TransferPiece {
    file: Arc<File>,
    /// Their places are within the piece.
    parts: Vec<FileRange>,
    target: Tensor,
    len: usize,
    /// On a device whose copies go by themselves.
    mark: Option<Arc<CopyMark>>,
    progress: Arc<TransferProgress>,
    /// Its bytes are there, or it is known why not.
    is_settled: bool,
}

impl TransferPiece {
    fn settle(mut self, result: Result<(), StagingError>) {
        if let Err(err) = result {
            self.progress.fail(err);
        }
        self.is_settled = true;
    }
}

impl Drop for TransferPiece {
    fn drop(&mut self) {
        if !self.is_settled {
            self.progress.fail(gone());
        }
        // Whoever waits has the memory for itself as soon as it wakes.
        drop(std::mem::replace(&mut self.target, Tensor::new()));
        self.progress.state().pieces_left -= 1;
        self.progress.changed.notify_all();
    }
}

/// Returns the readers of a device. They are started on first use and kept for the next load.
fn readers_for(device: Device) -> Sender<TransferPiece> {
    static READERS_OF: Mutex<Vec<(Device, Sender<TransferPiece>)>> = Mutex::new(Vec::new());
    let mut known = READERS_OF.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sender)) = known.iter().find(|(other, _)| *other == device) {
        return sender.clone();
    }
    let (sender, pieces) = bounded(MAX_WAITING);
    let count = thread::available_parallelism().map_or(1, |count| count.get().min(READERS));
    for _ in 0..count {
        let pieces = pieces.clone();
        let reader = thread::Builder::new().name("weights-reader".to_owned());
        // With none at all, sending fails, and says so.
        reader.spawn(move || serve(device, &pieces)).ok();
    }
    known.push((device, sender.clone()));
    sender
}

fn serve(device: Device, pieces: &Receiver<TransferPiece>) {
    if let Device::Cuda(index) = device
        && let Some(copies) = CopyDriver::for_device(index)
    {
        match copies.lane(SLOTS, PIECE_BYTES) {
            Ok(mut lane) => return read(&mut lane, pieces),
            Err(err) => tracing::warn!("weights take the slower way to cuda:{index}: {err}"),
        }
    }
    match BlockingLane::new(device, PIECE_BYTES) {
        Ok(mut lane) => read(&mut lane, pieces),
        Err(err) => tracing::warn!("there is no memory to read weights into: {err}"),
    }
}

/// Copies pieces through a lane until all senders are gone.
fn read(lane: &mut impl CopyStream, pieces: &Receiver<TransferPiece>) {
    let mut under_way: [Option<TransferPiece>; SLOTS] = [const { None }; SLOTS];
    let mut slot = 0;
    loop {
        let next = pieces.try_recv().ok().or_else(|| {
            // Time to check the copies: a caller waits for them.
            for later in 0..SLOTS {
                let slot = (slot + later) % SLOTS;
                end(lane, slot, under_way[slot].take());
            }
            pieces.recv().ok()
        });
        let Some(mut piece) = next else { return };
        end(lane, slot, under_way[slot].take());
        if piece.progress.state().is_pointless {
            piece.settle(Ok(()));
            continue;
        }
        match begin(lane, slot, &mut piece) {
            Ok(()) => under_way[slot] = Some(piece),
            Err(err) => piece.settle(Err(err)),
        }
        slot = (slot + 1) % SLOTS;
    }
}

fn begin(
    lane: &mut impl CopyStream,
    slot: usize,
    piece: &mut TransferPiece,
) -> Result<(), StagingError> {
    let bytes = &mut lane.buffer(slot)[..piece.len];
    for part in &piece.parts {
        // Read-ahead advice for the next part; ignored advice does no harm.
        let len = NonZeroU64::new(part.len as u64);
        fadvise(
            &*piece.file,
            part.start + READ_AHEAD_BYTES,
            len,
            Advice::WillNeed,
        )
        .ok();
        let bytes = &mut bytes[part.place..part.place + part.len];
        piece.file.read_exact_at(bytes, part.start)?;
    }
    let mark = piece.mark.as_deref();
    lane.start(slot, &mut piece.target, piece.len, mark)
}

fn end(lane: &mut impl CopyStream, slot: usize, piece: Option<TransferPiece>) {
    if let Some(piece) = piece {
        piece.settle(lane.wait(slot));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tch::Kind;

    use super::*;

    /// A device that copies as late as it may: when somebody waits for it.
    struct Late {
        buffers: Vec<Vec<u8>>,
        under_way: [Option<(Tensor, usize)>; SLOTS],
        most_under_way: usize,
    }

    impl CopyStream for Late {
        fn buffer(&mut self, slot: usize) -> &mut [u8] {
            &mut self.buffers[slot]
        }

        fn start(
            &mut self,
            slot: usize,
            target: &mut Tensor,
            len: usize,
            _mark: Option<&CopyMark>,
        ) -> Result<(), StagingError> {
            assert!(self.under_way[slot].is_none());
            self.under_way[slot] = Some((target.shallow_clone(), len));
            let count = self.under_way.iter().flatten().count();
            self.most_under_way = self.most_under_way.max(count);
            Ok(())
        }

        fn wait(&mut self, slot: usize) -> Result<(), StagingError> {
            if let Some((mut target, len)) = self.under_way[slot].take() {
                target.copy_(&Tensor::from_slice(&self.buffers[slot][..len]));
            }
            Ok(())
        }
    }

    #[test]
    fn no_buffer_is_read_into_before_the_copy_from_it_has_ended() {
        let bytes: Vec<u8> = (0..5 * PIECE_BYTES + 77)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let file = Arc::new(file);
        let (sender, pieces) = bounded(MAX_WAITING);
        let progress = Arc::new(TransferProgress::default());
        let whole = Tensor::zeros([bytes.len() as i64], (Kind::Uint8, Device::Cpu));
        // The second half of the file comes first.
        let (half, len) = (bytes.len() / 2, bytes.len());
        let parts = [
            FileRange {
                start: half as u64,
                len: len - half,
                place: 0,
            },
            FileRange {
                start: 0,
                len: half,
                place: len - half,
            },
        ];
        for (offset, parts) in pieces_of(&parts, len) {
            let len = PIECE_BYTES.min(len - offset);
            progress.state().pieces_left += 1;
            let piece = TransferPiece {
                file: Arc::clone(&file),
                parts,
                target: whole.narrow(0, offset as i64, len as i64),
                len,
                mark: None,
                progress: Arc::clone(&progress),
                is_settled: false,
            };
            assert!(sender.send(piece).is_ok());
        }
        drop(sender);
        let mut lane = Late {
            buffers: vec![vec![0; PIECE_BYTES]; SLOTS],
            under_way: [const { None }; SLOTS],
            most_under_way: 0,
        };
        read(&mut lane, &pieces);
        assert!(TransferBatch(progress).wait().is_ok());
        assert_eq!(lane.most_under_way, SLOTS);
        let expected = [&bytes[half..], &bytes[..half]].concat();
        assert!(whole.equal(&Tensor::from_slice(&expected)));
    }

    #[test]
    fn neighbours_are_read_at_once_and_parts_are_cut_where_pieces_end() {
        let part = |start, len, place| FileRange { start, len, place };
        let parts = [
            part(7, 16, 0),
            part(23, 16, 16),
            part(99, 5, 32),
            part(104, PIECE_BYTES, 48),
        ];
        let pieces = pieces_of(&parts, 48 + PIECE_BYTES);
        let first = vec![
            part(7, 32, 0),
            part(99, 5, 32),
            part(104, PIECE_BYTES - 48, 48),
        ];
        let second = vec![part(56 + PIECE_BYTES as u64, 48, 0)];
        assert_eq!(pieces, [(0, first), (PIECE_BYTES, second)]);
    }

    #[test]
    fn a_file_that_ends_early_fails_its_transfer_and_no_other() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[3; 100]).unwrap();
        let file = Arc::new(file);
        let target = |len| Tensor::zeros([len], (Kind::Uint8, Device::Cpu));
        let all = |len| {
            [FileRange {
                start: 0,
                len,
                place: 0,
            }]
        };
        let (beyond, within) = (target(101), target(100));
        let Ok(cut) = TransferBatch::begin(&file, &all(101), &beyond) else {
            panic!("beginning reads nothing");
        };
        let Ok(whole) = TransferBatch::begin(&file, &all(100), &within) else {
            panic!("beginning reads nothing");
        };
        assert!(matches!(cut.wait(), Err(StagingError::Io(_))));
        assert!(whole.wait().is_ok());
        assert!(within.equal(&(target(100) + 3)));
    }
}
