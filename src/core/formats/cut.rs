//! Videos for ffmpeg that end within one of their parts, which ffmpeg reads without a word up to there.

use std::io::{self, ErrorKind, Read, Seek};

use super::{ByteSource, MAX_PARTS, webm};

/// Lengths of packets of a transport stream: alone, after a time code of 4 bytes (Blu-ray), or before 16 bytes of parity.
const PACKETS: [usize; 3] = [188, 192, 204];
const TIME_CODE: u64 = 4;
/// Bytes that show a transport stream.
const STREAM_HEAD: u64 = 1024;

/// Length of the packets of a transport stream and the offset of its first whole one: a recording may begin within a
/// packet.
pub(crate) fn transport_packets(head: &[u8]) -> Option<(usize, usize)> {
    const SYNC: u8 = 0x47;
    let all = PACKETS
        .iter()
        .flat_map(|packet| (0..*packet).map(|first| (*packet, first)));
    all.into_iter().find(|(packet, first)| {
        let mut starts = head.iter().skip(*first).step_by(*packet);
        head.len() > first + 3 * packet && starts.all(|byte| *byte == SYNC)
    })
}

/// Returns true if the file ends within a part. `demuxer`: the container's name in ffmpeg; of those whose parts do not
/// tell their length it is never true.
pub(crate) fn is_cut_off(source: &mut ByteSource<impl Read + Seek>, demuxer: &str) -> bool {
    let next = match demuxer {
        "matroska" => {
            let mut elements = webm::elements(source);
            return loop {
                match elements.next_part() {
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(err) => break err.kind() == ErrorKind::UnexpectedEof,
                }
            };
        }
        "mpegts" => {
            let head = source.read_at(0, source.len.min(STREAM_HEAD));
            let packets = head.ok().and_then(|head| transport_packets(&head));
            return packets.is_some_and(|(packet, first)| {
                let (packet, first) = (packet as u64, first as u64);
                let before = if packet == 192 { TIME_CODE } else { 0 };
                !(source.len + before - first).is_multiple_of(packet)
            });
        }
        "avi" => next_riff,
        "flv" => next_tag,
        "asf" => next_object,
        "ogg" => next_page,
        "mpeg" => next_pack,
        "mxf" => next_triplet,
        _ => return false,
    };
    let mut at = 0;
    for _ in 0..MAX_PARTS {
        if at >= source.len {
            return at > source.len;
        }
        match next(source, at) {
            Ok(Some(next)) => at = next,
            // Anything else may follow.
            Ok(None) => return false,
            Err(err) => return err.kind() == ErrorKind::UnexpectedEof,
        }
    }
    false
}

/// Offset of the next part; `None` if there is no such part at `at`.
type NextOffset = io::Result<Option<u64>>;

fn next_riff<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    let [name @ .., a, b, c, d] = source.array_at::<8>(at)?;
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    // A size of 0 was never filled in.
    Ok((&name == b"RIFF" && size > 0).then_some(at + 8 + size))
}

fn next_tag<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    if at == 0 {
        let [.., a, b, c, d] = source.array_at::<9>(at)?;
        return Ok(Some(u64::from(u32::from_be_bytes([a, b, c, d])) + 4));
    }
    let [kind, a, b, c] = source.array_at(at)?;
    let size = u64::from(u32::from_be_bytes([0, a, b, c]));
    Ok(matches!(kind & 0x1f, 8 | 9 | 18).then_some(at + 11 + size + 4))
}

fn next_object<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    let size = u64::from_le_bytes(source.array_at(at + 16)?);
    Ok((size >= 24).then(|| at.saturating_add(size)))
}

fn next_page<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    let [o, g1, g2, s, .., count] = source.array_at::<27>(at)?;
    let sizes = source.read_at(at + 27, count.into())?;
    let size: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
    let end = at + 27 + u64::from(count) + size;
    Ok(([o, g1, g2, s] == *b"OggS").then_some(end))
}

fn next_pack<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    const PACK: u8 = 0xba;
    const END: u8 = 0xb9;
    Ok(match source.array_at(at)? {
        [0, 0, 1, END] => Some(at + 4),
        [0, 0, 1, PACK] => {
            let [.., mark, _, _, _, _, _, _, _, _, stuffing] = source.array_at::<14>(at)?;
            let is_second = mark & 0xc0 == 0x40;
            Some(
                at + if is_second {
                    14 + u64::from(stuffing & 7)
                } else {
                    12
                },
            )
        }
        [0, 0, 1, PACK..=u8::MAX] => {
            let size = u16::from_be_bytes(source.array_at(at + 4)?);
            Some(at + 6 + u64::from(size))
        }
        _ => None,
    })
}

fn next_triplet<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> NextOffset {
    let [a, b, c, d, .., length] = source.array_at::<17>(at)?;
    if [a, b, c, d] != *b"\x06\x0e\x2b\x34" {
        return Ok(None);
    }
    let num_bytes = u64::from(length & 0x7f);
    if length < 0x80 {
        return Ok(Some(at + 17 + num_bytes));
    }
    let bytes = source.read_at(at + 17, num_bytes.min(8))?;
    let size = bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(Some((at + 17 + num_bytes).saturating_add(size)))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn is_cut(file: &[u8], demuxer: &str) -> bool {
        let len = file.len() as u64;
        is_cut_off(&mut ByteSource::new(Cursor::new(file), len), demuxer)
    }

    #[test]
    fn a_file_that_ends_within_a_part_is_cut_off() {
        let zeros = |head: &[u8], count: usize| [head, &vec![0; count]].concat();
        let page = [&b"OggS"[..], &[0; 22], &[2, 100, 20], &[7; 120]].concat();
        let mut stream = vec![0xff; 188 * 8];
        stream.iter_mut().step_by(188).for_each(|byte| *byte = 0x47);
        let object = [&[0; 16][..], &124_u64.to_le_bytes(), &[0; 100]].concat();
        for (demuxer, file) in [
            ("avi", zeros(b"RIFF\x64\0\0\0AVI ", 96)),
            (
                "flv",
                zeros(
                    b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x09\0\0\x64\0\0\0\0\0\0\0",
                    104,
                ),
            ),
            ("asf", object),
            ("ogg", page),
            (
                "mpeg",
                zeros(
                    b"\0\0\x01\xba\x44\0\0\0\0\0\0\0\0\xf8\0\0\x01\xe0\0\x64",
                    100,
                ),
            ),
            (
                "mxf",
                zeros(b"\x06\x0e\x2b\x34\0\0\0\0\0\0\0\0\0\0\0\0\x83\0\0\x64", 100),
            ),
            (
                "matroska",
                zeros(b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\xe4", 100),
            ),
            ("mpegts", stream),
        ] {
            let twice = [file.clone(), file.clone()].concat();
            assert!(!is_cut(&file, demuxer), "{demuxer}");
            assert!(!is_cut(&twice, demuxer) || demuxer == "flv", "{demuxer}");
            for cut in [1, 60] {
                assert!(is_cut(&file[..file.len() - cut], demuxer), "{demuxer}");
            }
        }
        assert!(!is_cut(&[7; 400], "mpegvideo"));
    }
}
