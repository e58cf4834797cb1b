//! Wheels: zip directory, checksums, members.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use safelight_wheels::{WheelDirectory, WheelError, WheelRecord, directory_of, sum_of};

use crate::scratch::Scratch;

/// Reads a wheel as an installation does. Members are discarded; none may be larger than declared.
pub fn wheel(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("x.whl", bytes)?;
    let mut file = File::open(&path)?;
    let file_bytes = bytes.len() as u64;
    let directory = scratch.call(|| {
        directory_of(file_bytes, |start, end| {
            assert!(start <= end && end <= file_bytes, "within the file");
            let mut read = vec![0; (end - start) as usize];
            file.seek(SeekFrom::Start(start)).map_err(WheelError::Io)?;
            file.read_exact(&mut read).map_err(WheelError::Io)?;
            Ok::<_, WheelError>(read)
        })
    });
    let Ok(WheelDirectory { members }) = &directory else {
        return Ok(0);
    };
    let directory = WheelDirectory {
        members: members.clone(),
    };
    let record = scratch.call(|| WheelRecord::read(&mut file, &directory, None));
    let record = record.unwrap_or_default();
    for member in members {
        let is_inside =
            !member.name.starts_with('/') && !member.name.split('/').any(|it| it == "..");
        assert!(is_inside, "{:?} stays in its folder", member.name);
        let mut out = Counted(0);
        let extracted = scratch.call(|| record.extract(&mut file, member, &mut out));
        let most = member.bytes.saturating_add(1);
        assert!(out.0 <= most, "more came out of a member than it has");
        assert!(extracted.is_err() || out.0 == member.bytes);
    }
    scratch.call(|| drop(sum_of(bytes)));
    Ok(0)
}

struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
