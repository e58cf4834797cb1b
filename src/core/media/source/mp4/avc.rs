//! H.264 structure of an MP4: parameter sets, and the units of a sample.

use crate::formats::mp4::BoxBytes;

/// The parameter sets and the form of the samples, out of an `avcC` box.
#[derive(Clone, Debug, Default)]
pub(super) struct AvcConfig {
    /// Bytes of the length in front of each unit.
    pub length_bytes: usize,
    pub sequence_sets: Vec<Vec<u8>>,
    pub image_sets: Vec<Vec<u8>>,
}

impl AvcConfig {
    pub fn read(content: &[u8]) -> Option<Self> {
        let mut bytes = BoxBytes(content);
        bytes.skip(4)?;
        let length_bytes = usize::from(bytes.u8()? & 3) + 1;
        let mut sets = |mask: u8| {
            let count = bytes.u8()? & mask;
            (0..count)
                .map(|_| {
                    let length = bytes.u16()?;
                    bytes.take(length.into()).map(<[u8]>::to_vec)
                })
                .collect::<Option<Vec<_>>>()
        };
        Some(Self {
            length_bytes,
            sequence_sets: sets(0x1f)?,
            image_sets: sets(0xff)?,
        })
    }

    /// The units of a sample, each after its length; a unit that is cut off is left out.
    pub fn units<'a>(&self, sample: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let length_bytes = self.length_bytes;
        let mut bytes = BoxBytes(sample);
        std::iter::from_fn(move || {
            let length = bytes
                .take(length_bytes)?
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            bytes.take(length)
        })
    }
}
