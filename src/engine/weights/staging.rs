//! The way of weights to another device: read by several threads at once into buffers that the device can fetch
//! from by itself, one copy a piece.
//!
//! A mapped pointer is never handed to a device, because drivers pin and keep such pages. What a buffer holds is on
//! the device before the buffer is used again, so memory for staging stays the same however large a tensor is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tch::{Device, Kind, TchError, Tensor};

/// Buffers are as many as there are readers. On one H200's host, from page cache: 1 reader 8 GiB/s, 8 readers 35.
const READERS: usize = 8;
const PIECE_BYTES: usize = 16 << 20;

/// Why a tensor did not get to its device.
pub(super) enum StagingError {
    Io(io::Error),
    Tensor(TchError),
}

impl From<io::Error> for StagingError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

impl From<TchError> for StagingError {
    fn from(err: TchError) -> Self {
        Self::Tensor(err)
    }
}

/// The buffers of one component's files. They are made when they are first wanted.
#[derive(Default)]
pub(super) struct Staging {
    free: Mutex<Vec<Tensor>>,
}

/// Bytes of a file, and the numbers that they are.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) start: u64,
    pub(super) len: usize,
    pub(super) kind: Kind,
}

impl Staging {
    /// The numbers as a flat tensor of `kind` on `device`.
    pub(super) fn bring(
        &self,
        file: &File,
        stored: Stored,
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, StagingError> {
        let width = stored.kind.elt_size_in_bytes();
        let whole = Tensor::f_empty([(stored.len / width) as i64], (kind, device))?;
        let pieces = stored.len.div_ceil(PIECE_BYTES);
        let next = AtomicUsize::new(0);
        // Tensors may go to other threads, but not be shared by them: each reader has a handle of its own.
        let work = &|whole: &Tensor| -> Result<(), StagingError> {
            let mut buffer = self.take(device)?;
            let mut result = Ok(());
            while result.is_ok() {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    break;
                }
                result = bring_piece(file, stored, piece * PIECE_BYTES, &mut buffer, whole);
            }
            self.give_back(buffer);
            result
        };
        if pieces <= 1 {
            work(&whole)?;
            return Ok(whole);
        }
        thread::scope(|scope| {
            let readers: Vec<_> = (0..pieces.min(READERS))
                .map(|_| {
                    let whole = whole.shallow_clone();
                    scope.spawn(move || work(&whole))
                })
                .collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|_| {
                    Err(io::Error::other("a reader of weights panicked").into())
                })
            })
        })?;
        Ok(whole)
    }

    fn take(&self, device: Device) -> Result<Tensor, TchError> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(buffer) = free {
            return Ok(buffer);
        }
        let buffer = Tensor::f_empty([PIECE_BYTES as i64], (Kind::Uint8, Device::Cpu))?;
        match device {
            // Where nothing can be pinned, an ordinary buffer does, only slower.
            Device::Cuda(_) => Ok(buffer.f_pin_memory(device).unwrap_or(buffer)),
            _ => Ok(buffer),
        }
    }

    fn give_back(&self, buffer: Tensor) {
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(buffer);
    }
}

/// The piece that begins `offset` bytes into what is stored.
fn bring_piece(
    file: &File,
    stored: Stored,
    offset: usize,
    buffer: &mut Tensor,
    whole: &Tensor,
) -> Result<(), StagingError> {
    let len = PIECE_BYTES.min(stored.len - offset);
    #[expect(unsafe_code, reason = "the bytes of a tensor are read from a file")]
    // SAFETY: the buffer is a contiguous CPU tensor of PIECE_BYTES bytes or more, borrowed mutably and of no use to
    // anybody else; every copy out of it has ended, because copies here block.
    let bytes = unsafe { slice::from_raw_parts_mut(buffer.data_ptr().cast::<u8>(), len) };
    file.read_exact_at(bytes, stored.start + offset as u64)?;
    let width = stored.kind.elt_size_in_bytes();
    let part = buffer
        .f_narrow(0, 0, len as i64)?
        .f_view_dtype(stored.kind)?;
    let mut slot = whole.f_narrow(0, (offset / width) as i64, (len / width) as i64)?;
    if slot.kind() == stored.kind {
        slot.f_copy_(&part)?;
    } else {
        // Converted on the device: the narrower type is what crosses the bus.
        slot.f_copy_(&part.f_to_device(slot.device())?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn pieces_read_at_once_are_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        let count = 3 * PIECE_BYTES / 4 + 12_345;
        let values: Vec<u8> = (0..count as u32)
            .flat_map(|n| (n as f32).to_le_bytes())
            .collect();
        file.write_all(&[7; 5]).unwrap();
        file.write_all(&values).unwrap();
        let stored = Stored {
            start: 5,
            len: values.len(),
            kind: Kind::Float,
        };
        let staging = Staging::default();
        for kind in [Kind::Float, Kind::Double] {
            let Ok(found) = staging.bring(&file, stored, kind, Device::Cpu) else {
                panic!("the file is whole");
            };
            let expected = Tensor::arange(count as i64, (kind, Device::Cpu));
            // Numbers beyond 2^24 are rounded alike.
            assert!(found.equal(&expected.to_kind(Kind::Float).to_kind(kind)));
        }
        let beyond = Stored {
            len: values.len() + 4,
            ..stored
        };
        let cut = staging.bring(&file, beyond, Kind::Float, Device::Cpu);
        assert!(matches!(cut, Err(StagingError::Io(_))));
        assert!(staging.free.lock().unwrap().len() <= READERS);
    }
}
