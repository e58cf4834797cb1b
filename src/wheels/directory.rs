//! Central directory at the end of a zip file: its members, and their byte ranges.
//!
//! Reads only the last bytes of a file, which may be all that was downloaded.

use crate::record::{Result, WheelError};

/// Maximum size of the end records: a comment of maximum length, and the two records of large files.
const TAIL_BYTES: u64 = 22 + 65_535 + 76;
const END_SIGN: [u8; 4] = *b"PK\x05\x06";
const END_64_SIGN: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_SIGN: [u8; 4] = *b"PK\x06\x07";
const MEMBER_SIGN: [u8; 4] = *b"PK\x01\x02";
/// More than the largest wheel has.
const MAX_TABLE_BYTES: u64 = 64 << 20;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// One file of a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelMember {
    /// With folders, as the wheel says it. It never leads out of the folder that it is put into.
    pub name: String,
    /// First byte in the wheel, and the first byte of the next member or of the table.
    pub start: u64,
    pub end: u64,
    pub bytes: u64,
    pub(crate) packed_bytes: u64,
    pub(crate) is_packed: bool,
}

/// The table of contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WheelDirectory {
    pub members: Vec<WheelMember>,
}

impl WheelDirectory {
    /// The list of checksums.
    pub fn record(&self) -> Option<&WheelMember> {
        let mut members = self.members.iter();
        members.find(|member| {
            let folder = member.name.strip_suffix("/RECORD");
            folder.is_some_and(|folder| folder.ends_with(".dist-info") && !folder.contains('/'))
        })
    }
}

/// Bytes at the end of a file of this length that locate its table.
pub fn tail_bytes(file_bytes: u64) -> u64 {
    file_bytes.min(TAIL_BYTES)
}

/// Reads a table. `read`: the bytes from the first place up to the second.
///
/// The bytes of the tail come first, then those of the table: whoever fetches them need not fetch more.
pub fn directory_of<E: From<WheelError>>(
    file_bytes: u64,
    mut read: impl FnMut(u64, u64) -> std::result::Result<Vec<u8>, E>,
) -> std::result::Result<WheelDirectory, E> {
    let tail_at = file_bytes - tail_bytes(file_bytes);
    let tail = read(tail_at, file_bytes)?;
    let (start, end) = place(&tail, tail_at)?;
    let table = if start >= tail_at {
        let at = |place: u64| (place - tail_at) as usize;
        tail.get(at(start)..at(end)).unwrap_or_default().to_vec()
    } else {
        read(start, end)?
    };
    Ok(parsed(&table, start)?)
}

/// From where to where the table is.
fn place(tail: &[u8], tail_at: u64) -> Result<(u64, u64)> {
    let damaged = |reason| WheelError::Damaged { reason };
    let ends = tail.windows(4).rposition(|window| window == END_SIGN);
    let end_at = ends.ok_or_else(|| damaged("it is no zip file, or cut off"))?;
    let short = || damaged("its end is cut off");
    let end = RecordFields(tail.get(end_at..).unwrap_or_default());
    let mut bytes = u64::from(end.u32(12).ok_or_else(short)?);
    let mut start = u64::from(end.u32(16).ok_or_else(short)?);
    let mut behind = tail_at + end_at as u64;
    if bytes == u64::from(u32::MAX) || start == u64::from(u32::MAX) {
        let locator = end_at
            .checked_sub(20)
            .and_then(|at| tail.get(at..))
            .filter(|locator| locator.starts_with(&LOCATOR_SIGN));
        let at = locator.and_then(|locator| RecordFields(locator).u64(8));
        let at = at.and_then(|at| at.checked_sub(tail_at));
        let large = at
            .and_then(|at| tail.get(at as usize..))
            .filter(|large| large.starts_with(&END_64_SIGN))
            .map(RecordFields)
            .ok_or_else(short)?;
        bytes = large.u64(40).ok_or_else(short)?;
        start = large.u64(48).ok_or_else(short)?;
        behind = tail_at + at.unwrap_or_default();
    }
    let table_end = start.checked_add(bytes).filter(|end| *end <= behind);
    match table_end {
        Some(end) if bytes <= MAX_TABLE_BYTES => Ok((start, end)),
        _ => Err(damaged("it is not where the end says")),
    }
}

fn parsed(table: &[u8], table_at: u64) -> Result<WheelDirectory> {
    let damaged = |reason| WheelError::Damaged { reason };
    let short = || damaged("it is cut off");
    let mut members = Vec::new();
    let mut rest = table;
    while !rest.is_empty() {
        let fields = RecordFields(rest);
        if !rest.starts_with(&MEMBER_SIGN) {
            return Err(damaged("an entry does not begin as entries do"));
        }
        let short_field = |at| fields.u16(at).map(usize::from).ok_or_else(short);
        let (name_len, extra_len, comment_len) =
            (short_field(28)?, short_field(30)?, short_field(32)?);
        let name = rest.get(46..46 + name_len).ok_or_else(short)?;
        let extra = rest.get(46 + name_len..46 + name_len + extra_len);
        let mut large = Zip64Field::from_extra(extra.ok_or_else(short)?);
        let mut number = |at| {
            let small = fields.u32(at).ok_or_else(short)?;
            match small {
                u32::MAX => large.next().ok_or_else(short),
                small => Ok(u64::from(small)),
            }
        };
        // In this order in what follows for large files, too.
        let bytes = number(24)?;
        let packed_bytes = number(20)?;
        let start = number(42)?;
        let method = fields.u16(10).ok_or_else(short)?;
        let name = String::from_utf8(name.to_vec());
        let name = name.map_err(|_err| damaged("a name is no text"))?;
        // Folders need no entry.
        if !name.ends_with('/') {
            let is_packed = match method {
                STORED => false,
                DEFLATED => true,
                _ => {
                    return Err(damaged(
                        "a member is packed in a way that wheels do not use",
                    ));
                }
            };
            if !is_inside(&name) {
                return Err(damaged("a name leads out of the wheel"));
            }
            members.push(WheelMember {
                name,
                start,
                end: table_at,
                bytes,
                packed_bytes,
                is_packed,
            });
        }
        rest = rest
            .get(46 + name_len + extra_len + comment_len..)
            .ok_or_else(short)?;
    }
    let mut starts: Vec<u64> = members.iter().map(|member| member.start).collect();
    starts.sort_unstable();
    for member in &mut members {
        let next = starts.partition_point(|start| *start <= member.start);
        member.end = starts.get(next).copied().unwrap_or(table_at);
        if member.start.saturating_add(member.packed_bytes) > member.end {
            return Err(damaged("a member is longer than its place"));
        }
    }
    Ok(WheelDirectory { members })
}

/// Refuses paths that lead out of the folder they are put into.
fn is_inside(name: &str) -> bool {
    !name.contains(['\\', '\0'])
        && name
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Numbers in a record, the least byte first.
struct RecordFields<'a>(&'a [u8]);

impl RecordFields<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
}

/// Zip64 field of an entry: values too large for it, in the extra field 1.
struct Zip64Field<'a>(&'a [u8]);

impl<'a> Zip64Field<'a> {
    /// Zip64 field among an entry's extra fields.
    fn from_extra(mut extra: &'a [u8]) -> Self {
        while let (Some(number), Some(len)) =
            (RecordFields(extra).u16(0), RecordFields(extra).u16(2))
        {
            let end = 4 + usize::from(len);
            if number == 1 {
                return Self(extra.get(4..end).unwrap_or_default());
            }
            extra = extra.get(end..).unwrap_or_default();
        }
        Self(&[])
    }

    fn next(&mut self) -> Option<u64> {
        let found = RecordFields(self.0).u64(0)?;
        self.0 = &self.0[8..];
        Some(found)
    }
}
