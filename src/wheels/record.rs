//! A Python wheel: a zip file with a list of its members' checksums. Members are read one by one, so that those which are
//! not wanted need not be there.
//!
//! Files are not trusted: every place and length is checked against the file's own. Writes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::directory::{WheelDirectory, WheelMember};
use flate2::read::DeflateDecoder;
use sha2::{Digest as _, Sha256};

/// More than any list of files has.
const MAX_RECORD_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 20;
/// In front of a member: a fixed part, then its name and what else the zip's maker put there.
const LOCAL_BYTES: usize = 30;
const LOCAL_SIGN: [u8; 4] = *b"PK\x03\x04";

/// An unusable wheel, or a failure to write its content.
#[derive(Debug)]
pub enum WheelError {
    /// The table of contents, and why.
    Damaged {
        reason: &'static str,
    },
    NoRecord,
    /// The list of files has another checksum than the known one.
    OtherRecord,
    NotListed {
        name: String,
    },
    /// The member has another checksum than the list of files says.
    Broken {
        name: String,
    },
    Io(io::Error),
}

impl fmt::Display for WheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { reason } => write!(f, "its table of contents is damaged: {reason}"),
            Self::NoRecord => f.write_str("it has no list of its files (RECORD)"),
            Self::OtherRecord => {
                f.write_str("its list of files has another checksum than the known one")
            }
            Self::NotListed { name } => write!(f, "{name} is not in its list of files"),
            Self::Broken { name } => {
                write!(
                    f,
                    "{name} is damaged: it is not what the list of files says"
                )
            }
            Self::Io(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for WheelError {}

impl From<io::Error> for WheelError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

pub(crate) type Result<T> = std::result::Result<T, WheelError>;

/// The checksums of a wheel's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WheelRecord {
    /// By path: SHA-256, in the letters that wheels use for it.
    sums: BTreeMap<String, String>,
    /// The SHA-256 of the list itself in lower-case hexadecimal.
    pub sha256: String,
}

impl WheelRecord {
    /// Reads the list out of a wheel. `known`: its SHA-256, where that is known.
    pub fn read(
        file: &mut (impl Read + Seek),
        directory: &WheelDirectory,
        known: Option<&str>,
    ) -> Result<Self> {
        let member = directory.record().ok_or(WheelError::NoRecord)?;
        if member.bytes > MAX_RECORD_BYTES {
            let reason = "its list of files is too long";
            return Err(WheelError::Damaged { reason });
        }
        let mut text = Vec::new();
        let digest = copy(file, member, &mut text)?;
        let sha256 = hex(&digest);
        if known.is_some_and(|known| known != sha256) {
            return Err(WheelError::OtherRecord);
        }
        let text = String::from_utf8_lossy(&text);
        Ok(Self {
            sums: text.lines().filter_map(line).collect(),
            sha256,
        })
    }

    /// A file's checksum as the list has it: [`record_letters`] of its SHA-256.
    pub fn sum(&self, name: &str) -> Option<&str> {
        self.sums.get(name).map(String::as_str)
    }

    /// Copies a member and makes sure that it is the one of the list. What was written of another one is to be thrown
    /// away.
    pub fn extract(
        &self,
        file: &mut (impl Read + Seek),
        member: &WheelMember,
        out: &mut impl Write,
    ) -> Result<[u8; 32]> {
        let name = || member.name.clone();
        let listed = self.sums.get(&member.name);
        let listed = listed.ok_or_else(|| WheelError::NotListed { name: name() })?;
        let digest = match copy(file, member, out) {
            Ok(digest) => digest,
            // The decoder's errors for damaged bytes.
            Err(WheelError::Io(err)) if is_of_content(&err) => {
                return Err(WheelError::Broken { name: name() });
            }
            Err(err) => return Err(err),
        };
        if record_letters(&digest) != *listed {
            return Err(WheelError::Broken { name: name() });
        }
        Ok(digest)
    }
}

fn is_of_content(err: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(err.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// `torch/lib/libc10.so,sha256=abc,123` → path and sum. A path with a comma is quoted.
fn line(line: &str) -> Option<(String, String)> {
    let mut fields = line.rsplitn(3, ',');
    let (_bytes, sum, path) = (fields.next()?, fields.next()?, fields.next()?);
    let sum = sum.strip_prefix("sha256=")?.to_owned();
    let quoted = path
        .strip_prefix('"')
        .and_then(|path| path.strip_suffix('"'));
    let path = quoted.map_or_else(|| path.to_owned(), |path| path.replace("\"\"", "\""));
    Some((path, sum))
}

/// Unpacks a member, and gives the SHA-256 of what came out.
fn copy(
    file: &mut (impl Read + Seek),
    member: &WheelMember,
    out: &mut impl Write,
) -> Result<[u8; 32]> {
    let damaged = |reason| WheelError::Damaged { reason };
    file.seek(SeekFrom::Start(member.start))?;
    let mut local = [0; LOCAL_BYTES];
    file.read_exact(&mut local)?;
    if local[..4] != LOCAL_SIGN {
        return Err(damaged("a member is not where it should be"));
    }
    let beside = |at: usize| u64::from(u16::from_le_bytes([local[at], local[at + 1]]));
    let start = member.start + LOCAL_BYTES as u64 + beside(26) + beside(28);
    if start.saturating_add(member.packed_bytes) > member.end {
        return Err(damaged("a member is longer than its place"));
    }
    file.seek(SeekFrom::Start(start))?;
    let packed = file.by_ref().take(member.packed_bytes);
    let (digest, bytes) = if member.is_packed {
        hashed(DeflateDecoder::new(packed), member.bytes, out)?
    } else {
        hashed(packed, member.bytes, out)?
    };
    if bytes != member.bytes {
        let name = member.name.clone();
        return Err(WheelError::Broken { name });
    }
    Ok(digest)
}

/// The checksum of what is read, as a wheel's list of files has it.
pub fn sum_of(from: impl Read) -> io::Result<String> {
    let (digest, _bytes) = hashed(from, u64::MAX, &mut io::sink())?;
    Ok(record_letters(&digest))
}

/// Copies at most one byte more than there should be.
fn hashed(from: impl Read, bytes: u64, out: &mut impl Write) -> io::Result<([u8; 32], u64)> {
    let mut from = from.take(bytes.saturating_add(1));
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut hash, mut copied) = (Sha256::new(), 0);
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        hash.update(&buffer[..len]);
        out.write_all(&buffer[..len])?;
        copied += len as u64;
    }
    Ok((hash.finalize().into(), copied))
}

/// The SHA-256 of bytes in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok(); // Writing to a string cannot fail.
        text
    })
}

/// A checksum as a wheel's list of files has it: base 64 in the letters for addresses, without the signs at its end.
pub fn record_letters(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0_usize, |number, at| {
            number << 8 | chunk.get(at).copied().map_or(0, usize::from)
        });
        for at in 0..=chunk.len() {
            text.push(char::from(LETTERS[number >> (18 - 6 * at) & 63]));
        }
    }
    text
}
