//! Sound as samples of 16 bits: of a result, or decoded from a file; and as a WAV file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Bytes of one sample.
const SAMPLE_BYTES: u32 = 2;
/// Bytes of the header after its first two fields.
const HEADER_BYTES: u32 = 36;
/// Most samples of all channels together: 17 minutes of stereo at 48 kHz, in 200 MB.
pub(super) const MAX_SAMPLES: usize = 100_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledSound {
    /// Those of all channels at one time are neighbours.
    pub samples: Vec<i16>,
    pub channels: u16,
    /// Samples of a channel in a second.
    pub rate: u32,
}

impl SampledSound {
    /// Samples from the little-endian bytes of floating-point numbers in -1..1.
    pub fn from_f32_bytes(bytes: &[u8], channels: u16, rate: u32) -> Self {
        let sample = |bytes: &[u8; 4]| {
            let value = f32::from_le_bytes(*bytes).clamp(-1.0, 1.0);
            (value * f32::from(i16::MAX)).round() as i16
        };
        Self {
            samples: bytes.as_chunks().0.iter().map(sample).collect(),
            channels,
            rate,
        }
    }

    /// Samples of one channel.
    pub fn len(&self) -> usize {
        self.samples.len() / usize::from(self.channels.max(1))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position in [`samples`](Self::samples) of a time in seconds, at most their number.
    fn position(&self, secs: f64) -> usize {
        let frame = (secs.max(0.0) * f64::from(self.rate)).round() as usize;
        frame.min(self.len()) * usize::from(self.channels)
    }

    /// The part between two times in seconds.
    #[must_use]
    pub fn cut(&self, from: f64, to: f64) -> Self {
        let (from, to) = (self.position(from), self.position(to));
        Self {
            samples: self.samples[from..to.max(from)].to_vec(),
            ..*self
        }
    }

    /// This sound until `secs`, with silence where it is shorter, and then `next`. `None` where their rates or channels
    /// differ.
    pub fn followed_by(&self, secs: f64, next: &Self) -> Option<Self> {
        let fits = (self.channels, self.rate) == (next.channels, next.rate);
        let frames = (secs.max(0.0) * f64::from(self.rate)).round() as usize;
        let len = frames.checked_mul(usize::from(self.channels))?;
        if !fits || len.saturating_add(next.samples.len()) > MAX_SAMPLES {
            return None;
        }
        let mut samples = self.samples.clone();
        samples.resize(len, 0);
        samples.extend(&next.samples);
        Some(Self { samples, ..*self })
    }

    /// Largest magnitude in each of `count` equal parts of the first `secs` seconds, from 0 to 1.
    pub fn peaks(&self, count: usize, secs: f64) -> Vec<f32> {
        let time = |part: usize| secs * part as f64 / count.max(1) as f64;
        let part = |part| &self.samples[self.position(time(part))..self.position(time(part + 1))];
        let peak = |samples: &[i16]| samples.iter().map(|it| it.unsigned_abs()).max();
        (0..count)
            .map(|index| f32::from(peak(part(index)).unwrap_or(0)) / 32768.0)
            .collect()
    }

    /// Writes a WAV file to a path that no file has yet.
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
        wav.extend(self.samples.iter().flat_map(|sample| sample.to_le_bytes()));
        Ok(wav)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mono(samples: &[i16]) -> SampledSound {
        SampledSound {
            samples: samples.to_vec(),
            channels: 1,
            rate: 10,
        }
    }

    #[test]
    fn a_wav_file_has_the_samples_after_a_header_that_counts_them() {
        let bytes: Vec<u8> = [0.0_f32, 1.0, -1.0, 2.0]
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let sound = SampledSound::from_f32_bytes(&bytes, 2, 48_000);
        assert_eq!(sound.samples, [0, 32767, -32767, 32767]);
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

    #[test]
    fn parts_are_cut_and_joined_at_times() {
        let sound = mono(&[1, 2, 3, 4, 5]);
        for (from, to, expected) in [
            (0.0, 9.0, &[1, 2, 3, 4, 5][..]),
            (0.1, 0.3, &[2, 3]),
            (0.4, 0.1, &[]),
            (7.0, 9.0, &[]),
            (-1.0, 0.1, &[1]),
        ] {
            assert_eq!(sound.cut(from, to).samples, expected, "{from} to {to}");
        }
        let joined = |secs| sound.followed_by(secs, &mono(&[9, 9])).unwrap().samples;
        assert_eq!(joined(0.2), [1, 2, 9, 9]);
        assert_eq!(joined(0.7), [1, 2, 3, 4, 5, 0, 0, 9, 9]);
        let other = SampledSound {
            rate: 20,
            ..mono(&[1])
        };
        assert_eq!(sound.followed_by(0.2, &other), None);
        assert_eq!(sound.followed_by(f64::MAX, &mono(&[1])), None);
    }

    #[test]
    fn peaks_are_those_of_equal_parts_and_silence_after_the_end() {
        let sound = mono(&[0, -32768, 16384, 8192]);
        assert_eq!(sound.peaks(3, 0.6), [1.0, 0.5, 0.0]);
        assert_eq!(sound.peaks(0, 0.6), [0.0; 0]);
        assert_eq!(SampledSound::default().peaks(2, 1.0), [0.0; 2]);
    }
}
