//! The samples of a fragmented MP4, as cameras, screen recorders and streams write them.
//!
//! Only the samples of one track are gathered.

use super::track::{MAX_SAMPLES, TOO_MANY, TrackSample};
use crate::formats::mp4::{BoxBytes, boxes, child};

/// Properties of samples where a fragment gives none.
#[derive(Clone, Copy, Default)]
struct SampleDefaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// Gathers a track's samples out of one fragment after the other.
pub(super) struct FragmentReader {
    track: u32,
    defaults: SampleDefaults,
    now: i64,
    pub samples: Vec<TrackSample>,
}

/// The bit in a sample's flags that says that decoding cannot begin with it.
const IS_NOT_SYNC: u32 = 0x1_0000;
/// Error of a fragment that ends before its content.
const CUT: &str = "a fragment of it is cut";

impl FragmentReader {
    /// With the defaults in the content of a `moov` box.
    pub fn new(movie: &[u8], track: u32) -> Self {
        let defaults = child(movie, *b"mvex")
            .into_iter()
            .flat_map(boxes)
            .filter(|(name, _)| name == b"trex")
            .find_map(|(_, content)| {
                let mut bytes = BoxBytes(content);
                bytes.skip(4)?;
                let id = bytes.u32()?;
                bytes.skip(4)?;
                let defaults = SampleDefaults {
                    duration: bytes.u32()?,
                    size: bytes.u32()?,
                    flags: bytes.u32()?,
                };
                (id == track).then_some(defaults)
            });
        Self {
            track,
            defaults: defaults.unwrap_or_default(),
            now: 0,
            samples: Vec::new(),
        }
    }

    /// Adds a fragment: the content of a `moof` box that begins at `begin` in the file.
    pub fn add(&mut self, content: &[u8], begin: u64) -> Result<(), &'static str> {
        for (name, part) in boxes(content) {
            if name == *b"traf" {
                self.add_part(part, begin)?;
            }
        }
        Ok(())
    }

    fn add_part(&mut self, part: &[u8], begin: u64) -> Result<(), &'static str> {
        let header = child(part, *b"tfhd").ok_or(CUT)?;
        if first_number(header).ok_or(CUT)? != self.track {
            return Ok(());
        }
        let (base, defaults) = self.part_header(header, begin).ok_or(CUT)?;
        if let Some(time) = child(part, *b"tfdt") {
            self.now = time_of(time).ok_or(CUT)?;
        }
        let mut at = base;
        for (name, run) in boxes(part) {
            if name == *b"trun" {
                at = self.add_run(run, base, at, defaults)?;
            }
        }
        Ok(())
    }

    /// Start of the part's data, and defaults of its samples.
    fn part_header(&self, header: &[u8], begin: u64) -> Option<(u64, SampleDefaults)> {
        let mut bytes = BoxBytes(header);
        let (_, flags) = bytes.version()?;
        // The track's number.
        bytes.skip(4)?;
        let has = |bit: u32| flags & bit != 0;
        let base = if has(0x1) { bytes.u64()? } else { begin };
        if has(0x2) {
            bytes.skip(4)?;
        }
        let mut defaults = self.defaults;
        for (bit, value) in [
            (0x8, &mut defaults.duration),
            (0x10, &mut defaults.size),
            (0x20, &mut defaults.flags),
        ] {
            if has(bit) {
                *value = bytes.u32()?;
            }
        }
        Some((base, defaults))
    }

    /// Returns where the run's data end. Of a run that is too long nothing is added: its samples may cost the file no
    /// bytes, and a fragment may have many such runs.
    fn add_run(
        &mut self,
        run: &[u8],
        base: u64,
        at: u64,
        defaults: SampleDefaults,
    ) -> Result<u64, &'static str> {
        let count = first_number(run).ok_or(CUT)? as usize;
        if count > MAX_SAMPLES.saturating_sub(self.samples.len()) {
            return Err(TOO_MANY);
        }
        self.add_samples(run, base, at, defaults).ok_or(CUT)
    }

    /// Runs of any count.
    fn add_samples(
        &mut self,
        run: &[u8],
        base: u64,
        mut at: u64,
        defaults: SampleDefaults,
    ) -> Option<u64> {
        let mut bytes = BoxBytes(run);
        let (_, flags) = bytes.version()?;
        let has = |bit: u32| flags & bit != 0;
        let count = bytes.u32()? as usize;
        if has(0x1) {
            at = base.checked_add_signed(bytes.i32()?.into())?;
        }
        let first_flags = if has(0x4) { Some(bytes.u32()?) } else { None };
        for index in 0..count {
            let mut value = |bit: u32, default: u32| {
                if has(bit) { bytes.u32() } else { Some(default) }
            };
            let duration = value(0x100, defaults.duration)?;
            let size = value(0x200, defaults.size)?;
            let usual = match first_flags {
                Some(first) if index == 0 => first,
                _ => defaults.flags,
            };
            let sample_flags = value(0x400, usual)?;
            let offset = value(0x800, 0)?.cast_signed();
            self.samples.push(TrackSample {
                offset: at,
                size,
                shown_at: self.now.checked_add(offset.into())?,
                lasts: duration,
                is_sync: sample_flags & IS_NOT_SYNC == 0,
            });
            at = at.checked_add(size.into())?;
            self.now = self.now.checked_add(duration.into())?;
        }
        Some(at)
    }
}

/// Number after the version and the flags: the track in a part's header, the count of samples in a run.
fn first_number(content: &[u8]) -> Option<u32> {
    let mut bytes = BoxBytes(content);
    bytes.version()?;
    bytes.u32()
}

/// When the first sample of a part is decoded.
fn time_of(content: &[u8]) -> Option<i64> {
    let mut bytes = BoxBytes(content);
    let (version, _) = bytes.version()?;
    i64::try_from(bytes.sized(version)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(name: [u8; 4], numbers: &[u32]) -> Vec<u8> {
        let size = 8 + 4 * numbers.len() as u32;
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        size.to_be_bytes()
            .into_iter()
            .chain(name)
            .chain(numbers)
            .collect()
    }

    /// A fragment with one part, of track 1, whose runs have so many samples and not a byte for each.
    fn fragment(counts: &[usize]) -> Vec<u8> {
        let runs = counts
            .iter()
            .flat_map(|count| boxed(*b"trun", &[0, *count as u32]));
        let inside: Vec<u8> = boxed(*b"tfhd", &[0, 1]).into_iter().chain(runs).collect();
        let size = 8 + inside.len() as u32;
        [&size.to_be_bytes()[..], b"traf", &inside].concat()
    }

    #[test]
    fn runs_that_are_too_many_together_are_refused_before_they_take_room() {
        let mut fragments = FragmentReader::new(&[], 1);
        fragments.add(&fragment(&[3, 0, 2]), 0).unwrap();
        assert_eq!(fragments.samples.len(), 5);
        // The first of the runs finds room.
        let added = fragments.add(&fragment(&[2, MAX_SAMPLES - 6, 1]), 0);
        assert_eq!((added, fragments.samples.len()), (Err(TOO_MANY), 7));
        let added = fragments.add(&fragment(&[u32::MAX as usize]), 0);
        assert_eq!((added, fragments.samples.len()), (Err(TOO_MANY), 7));
        fragments.add(&fragment(&[MAX_SAMPLES - 7]), 0).unwrap();
        assert_eq!(fragments.samples.len(), MAX_SAMPLES);
        let added = fragments.add(&fragment(&[1; 9]), 0);
        assert_eq!(added, Err(TOO_MANY));
    }
}
