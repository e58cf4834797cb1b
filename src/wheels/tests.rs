//! Wheels as Python's own `zipfile` made them, and damaged ones.

use std::io::Cursor;

use super::*;
use crate::record::Result;

/// Made by the standard library of Python 3.11:
///
/// ```python
/// import base64, hashlib, io, zipfile
/// files = {"torch/lib/libc10.so": b"\x7fELF" + b"abc" * 3000, "torch/a,b.txt": b"plain", "torch/empty": b""}
/// out = io.BytesIO()
/// with zipfile.ZipFile(out, "w") as wheel:
///     lines = []
///     for name, data in files.items():
///         wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_STORED if name == "torch/a,b.txt" else zipfile.ZIP_DEFLATED)
///         sum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
///         lines.append(('"%s"' if "," in name else "%s") % name + f",sha256={sum},{len(data)}\n")
///     lines.append("torch-2.11.0.dist-info/RECORD,,\n")
///     wheel.writestr(zipfile.ZipInfo("torch-2.11.0.dist-info/RECORD"), "".join(lines), zipfile.ZIP_DEFLATED)
/// ```
const WHEEL: &[u8] = include_bytes!("tests/small.whl");
/// The same with the first entry's numbers, and those of the table's place, in the records for large files, and a comment
/// at the end.
const LARGE: &[u8] = include_bytes!("tests/zip64.whl");

fn directory(wheel: &[u8]) -> Result<WheelDirectory> {
    directory_of(wheel.len() as u64, |start, end| {
        Ok(wheel[start as usize..end as usize].to_vec())
    })
}

fn library(directory: &WheelDirectory) -> &WheelMember {
    let mut members = directory.members.iter();
    members
        .find(|member| member.name == "torch/lib/libc10.so")
        .unwrap()
}

fn unpacked(wheel: &[u8], name: &str) -> Result<Vec<u8>> {
    let directory = directory(wheel)?;
    let mut file = Cursor::new(wheel);
    let record = WheelRecord::read(&mut file, &directory, None)?;
    let mut members = directory.members.iter();
    let member = members.find(|member| member.name == name).unwrap();
    let mut out = Vec::new();
    record.extract(&mut file, member, &mut out)?;
    Ok(out)
}

#[test]
fn members_come_out_as_they_went_in_packed_or_not() {
    let content = [b"\x7fELF".as_slice(), &b"abc".repeat(3000)].concat();
    for wheel in [WHEEL, LARGE] {
        assert_eq!(unpacked(wheel, "torch/lib/libc10.so").unwrap(), content);
        assert_eq!(unpacked(wheel, "torch/a,b.txt").unwrap(), b"plain");
        assert_eq!(unpacked(wheel, "torch/empty").unwrap(), b"");
    }
}

#[test]
fn only_the_end_and_the_wanted_members_need_to_be_there() {
    let whole = directory(WHEEL).unwrap();
    let wanted = [library(&whole), whole.record().unwrap()];
    let mut sparse = vec![0; WHEEL.len()];
    for member in wanted {
        let span = member.start as usize..member.end as usize;
        sparse[span.clone()].copy_from_slice(&WHEEL[span]);
    }
    let mut file = Cursor::new(&sparse);
    let record = WheelRecord::read(&mut file, &whole, None).unwrap();
    let mut out = Vec::new();
    record.extract(&mut file, wanted[0], &mut out).unwrap();
    assert_eq!(out.len(), 9004);
}

#[test]
fn a_changed_member_and_another_list_are_found_out() {
    let whole = directory(WHEEL).unwrap();
    let member = library(&whole);
    for at in [member.start + 52, member.end - 1] {
        let mut wheel = WHEEL.to_vec();
        wheel[at as usize] ^= 0x55;
        let err = unpacked(&wheel, "torch/lib/libc10.so").unwrap_err();
        assert!(matches!(err, WheelError::Broken { .. }), "{at}: {err}");
    }
    let mut file = Cursor::new(WHEEL);
    let sum = WheelRecord::read(&mut file, &whole, None).unwrap().sha256;
    assert!(WheelRecord::read(&mut file, &whole, Some(&sum)).is_ok());
    let other = sum.replace(&sum[..1], "x");
    let err = WheelRecord::read(&mut file, &whole, Some(&other)).unwrap_err();
    assert!(matches!(err, WheelError::OtherRecord), "{err}");
    let not_listed = WheelRecord::default();
    let err = not_listed.extract(&mut file, member, &mut Vec::new());
    assert!(matches!(err, Err(WheelError::NotListed { .. })));
}

#[test]
fn a_file_that_is_cut_or_damaged_anywhere_gives_an_answer() {
    for wheel in [WHEEL, LARGE] {
        for cut in 0..wheel.len() {
            let cut = &wheel[..cut];
            if let Ok(found) = directory(cut) {
                let mut file = Cursor::new(cut);
                WheelRecord::read(&mut file, &found, None).ok();
            }
        }
        for at in 0..wheel.len() {
            let mut damaged = wheel.to_vec();
            damaged[at] ^= 0xff;
            unpacked_any(&damaged);
        }
    }
}

fn unpacked_any(wheel: &[u8]) {
    let Ok(found) = directory(wheel) else { return };
    let mut file = Cursor::new(wheel);
    let Ok(record) = WheelRecord::read(&mut file, &found, None) else {
        return;
    };
    for member in &found.members {
        record.extract(&mut file, member, &mut Vec::new()).ok();
    }
}

#[test]
fn a_name_that_leads_out_is_refused() {
    let from = b"torch/a,b.txt";
    for to in [b"../../../.bas", b"/etc/../../pa"] {
        let mut wheel = WHEEL.to_vec();
        let places: Vec<usize> = (0..wheel.len() - 13)
            .filter(|&at| &wheel[at..at + 13] == from)
            .collect();
        for at in places {
            wheel[at..at + 13].copy_from_slice(to);
        }
        let err = directory(&wheel).unwrap_err();
        assert!(err.to_string().contains("leads out"), "{err}");
    }
}

#[test]
fn sums_are_written_as_wheels_write_them() {
    for (bytes, text) in [
        (&b"f"[..], "Zg"),
        (b"fo", "Zm8"),
        (b"foo", "Zm9v"),
        (b"\xff\xfe", "__4"),
    ] {
        assert_eq!(record_letters(bytes), text);
    }
}
