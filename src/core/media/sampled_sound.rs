//! Sound of a result as samples, and as a WAV file next to the video.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Bytes of one sample in a file: 16 bits.
const SAMPLE_BYTES: u32 = 2;
/// Bytes of the header after its first two fields.
const HEADER_BYTES: u32 = 36;

#[derive(Clone, Debug, PartialEq)]
pub struct SampledSound {
    /// In -1..1, those of all channels at one time side by side.
    pub samples: Vec<f32>,
    pub channels: u16,
    /// Samples of a channel in a second.
    pub rate: u32,
}

impl SampledSound {
    /// Samples from their little-endian bytes.
    pub fn of_bytes(bytes: &[u8], channels: u16, rate: u32) -> Self {
        let samples = bytes.as_chunks().0.iter();
        Self {
            samples: samples.map(|sample| f32::from_le_bytes(*sample)).collect(),
            channels,
            rate,
        }
    }

    /// Writes a WAV file of 16 bits a sample to a path that no file has yet.
    pub fn write_new_wav(&self, path: &Path) -> io::Result<()> {
        let bytes = self.wav()?;
        let mut file = File::create_new(path)?;
        file.write_all(&bytes).and_then(|()| file.sync_all())
    }

    fn wav(&self) -> io::Result<Vec<u8>> {
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the sound is too long");
        let data = u32::try_from(self.samples.len()).ok();
        let data = data.and_then(|count| count.checked_mul(SAMPLE_BYTES));
        let data = data.ok_or_else(too_long)?;
        let whole = data.checked_add(HEADER_BYTES).ok_or_else(too_long)?;
        let frame = SAMPLE_BYTES * u32::from(self.channels);
        let mut wav = Vec::with_capacity(data as usize + HEADER_BYTES as usize + 8);
        wav.extend(b"RIFF");
        wav.extend(whole.to_le_bytes());
        wav.extend(b"WAVEfmt ");
        wav.extend(16_u32.to_le_bytes());
        // Plain numbers.
        wav.extend(1_u16.to_le_bytes());
        wav.extend(self.channels.to_le_bytes());
        wav.extend(self.rate.to_le_bytes());
        wav.extend(self.rate.saturating_mul(frame).to_le_bytes());
        wav.extend((frame as u16).to_le_bytes());
        wav.extend((8 * SAMPLE_BYTES as u16).to_le_bytes());
        wav.extend(b"data");
        wav.extend(data.to_le_bytes());
        for sample in &self.samples {
            let number = (sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16;
            wav.extend(number.to_le_bytes());
        }
        Ok(wav)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wav_file_has_the_samples_behind_a_header_that_counts_them() {
        let samples = [0.0_f32, 1.0, -1.0, 2.0];
        let bytes: Vec<u8> = samples
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let sound = SampledSound::of_bytes(&bytes, 2, 48_000);
        assert_eq!(sound.samples, samples);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sound.wav");
        sound.write_new_wav(&path).unwrap();
        let wav = std::fs::read(&path).unwrap();
        assert_eq!(wav.len(), 44 + 8);
        let number = |at: usize| u32::from_le_bytes(wav[at..at + 4].try_into().unwrap());
        assert_eq!(
            [number(4), number(24), number(28), number(40)],
            [44, 48_000, 192_000, 8]
        );
        assert_eq!(wav[44..], [0, 0, 0xff, 0x7f, 0x01, 0x80, 0xff, 0x7f]);
        let again = sound.write_new_wav(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
