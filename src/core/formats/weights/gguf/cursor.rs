//! Reads numbers and texts of a GGUF header one after the other, and never beyond what is there.
//!
//! Reads through one small window, so that a claimed length costs nothing before it is known to be true.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::formats::weights::header::HeaderError;

const WINDOW_BYTES: u64 = 64 << 10;

pub(super) struct GgufCursor<'a> {
    file: &'a File,
    /// Offset of the next byte in the file.
    position: u64,
    /// Limit for the end of the header.
    end: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> GgufCursor<'a> {
    pub(super) fn new(file: &'a File, start: u64, end: u64) -> Self {
        Self {
            file,
            position: start,
            end,
            window: Vec::new(),
            window_start: 0,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let mut bytes = [0; N];
        self.check(N as u64)?;
        let mut offset = self.position.wrapping_sub(self.window_start) as usize;
        if self.position < self.window_start || offset + N > self.window.len() {
            let len = WINDOW_BYTES.min(self.end - self.position).max(N as u64);
            self.window.resize(len as usize, 0);
            self.file.read_exact_at(&mut self.window, self.position)?;
            self.window_start = self.position;
            offset = 0;
        }
        bytes.copy_from_slice(&self.window[offset..offset + N]);
        self.position += N as u64;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, HeaderError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, HeaderError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Goes over `len` bytes without reading them.
    pub(super) fn skip(&mut self, len: u64) -> Result<(), HeaderError> {
        self.check(len)?;
        self.position += len;
        Ok(())
    }

    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, HeaderError> {
        self.check(len)?;
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, self.position)?;
        self.position += len;
        Ok(bytes)
    }

    /// A text after its length, of at most `max` bytes.
    pub(super) fn text(&mut self, what: &str, max: u64) -> Result<String, HeaderError> {
        let len = self.u64()?;
        self.check(len)?;
        if len > max {
            let reason = format!("expected {what} of at most {max} bytes, found {len}");
            return Err(HeaderError::Unsound(reason));
        }
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes)
            .map_err(|err| HeaderError::Unsound(format!("{what} is no UTF-8 text: {err}")))
    }

    fn check(&self, len: u64) -> Result<(), HeaderError> {
        let left = self.end.saturating_sub(self.position);
        if len <= left {
            return Ok(());
        }
        Err(HeaderError::Unsound(format!(
            "its header goes on for {len} bytes at byte {}, where {left} are left: it is cut off or damaged",
            self.position
        )))
    }
}
