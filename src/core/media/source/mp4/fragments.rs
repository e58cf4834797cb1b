//! The samples of a fragmented MP4, as cameras, screen recorders and streams write them.
//!
//! Only the samples of one track are gathered.

use super::track::{MAX_SAMPLES, Sample};
use crate::formats::mp4::{Bytes, boxes, child};

/// What samples are like where a fragment does not say.
#[derive(Clone, Copy, Default)]
struct Defaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// Gathers a track's samples out of one fragment after the other.
pub(super) struct Fragments {
    track: u32,
    defaults: Defaults,
    now: i64,
    pub samples: Vec<Sample>,
}

/// The bit in a sample's flags that says that decoding cannot begin with it.
const IS_NOT_SYNC: u32 = 0x1_0000;

impl Fragments {
    /// With the defaults in the content of a `moov` box.
    pub fn new(movie: &[u8], track: u32) -> Self {
        let defaults = child(movie, *b"mvex")
            .into_iter()
            .flat_map(boxes)
            .filter(|(name, _)| name == b"trex")
            .find_map(|(_, content)| {
                let mut bytes = Bytes(content);
                bytes.skip(4)?;
                let id = bytes.u32()?;
                bytes.skip(4)?;
                let defaults = Defaults {
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
                self.add_part(part, begin)
                    .ok_or("a fragment of it is cut")?;
            }
            if self.samples.len() > MAX_SAMPLES {
                return Err("it has more than a million frames");
            }
        }
        Ok(())
    }

    fn add_part(&mut self, part: &[u8], begin: u64) -> Option<()> {
        let mut bytes = Bytes(child(part, *b"tfhd")?);
        let (_, flags) = bytes.version()?;
        if bytes.u32()? != self.track {
            return Some(());
        }
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
        if let Some(time) = child(part, *b"tfdt") {
            let mut bytes = Bytes(time);
            let (version, _) = bytes.version()?;
            self.now = i64::try_from(bytes.sized(version)?).ok()?;
        }
        let mut at = base;
        for (name, run) in boxes(part) {
            if name == *b"trun" {
                at = self.add_run(run, base, at, defaults)?;
            }
        }
        Some(())
    }

    /// Returns where the run's data end.
    fn add_run(&mut self, run: &[u8], base: u64, mut at: u64, defaults: Defaults) -> Option<u64> {
        let mut bytes = Bytes(run);
        let (_, flags) = bytes.version()?;
        let has = |bit: u32| flags & bit != 0;
        let count = bytes.u32()? as usize;
        if has(0x1) {
            at = base.checked_add_signed(bytes.i32()?.into())?;
        }
        let first_flags = if has(0x4) { Some(bytes.u32()?) } else { None };
        if count > MAX_SAMPLES {
            return None;
        }
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
            self.samples.push(Sample {
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
