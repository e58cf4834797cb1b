//! Sizes and durations as people read them, and sizes between bytes and GiB.
//!
//! Files, downloads and memory are all counted in powers of 1024 (MiB, GiB), as drivers and PyTorch do, so that what has to
//! fit into memory can be compared with it. Measures nothing.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// Sum, at most the largest number.
pub fn total(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

pub fn in_gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

/// The bytes in a number of GiB; none in a negative number, or in none at all.
pub fn from_gib(gib: f64) -> u64 {
    (gib.max(0.0) * GIB as f64) as u64
}

/// The size of a file, a disk or of something in memory: `796 KiB`, `38 MiB`, `1.5 GiB`.
pub fn size_text(bytes: u64) -> String {
    if bytes < KIB {
        return format!("{bytes} bytes");
    }
    // A value that would be rounded up to 1024 is one of the next unit.
    for (unit, name) in [(KIB, "KiB"), (MIB, "MiB")] {
        let rounded = bytes.saturating_add(unit / 2) / unit;
        if rounded < 1024 {
            return format!("{rounded} {name}");
        }
    }
    match in_gib(bytes) {
        gib if gib < 1023.95 => format!("{gib:.1} GiB"),
        gib => format!("{:.1} TiB", gib / 1024.0),
    }
}

/// A size in GiB with one decimal, with two where it is less than one, without the unit: `21.3`, `0.04`.
pub fn gib_text(bytes: u64) -> String {
    let gib = in_gib(bytes);
    if bytes > 0 && gib < 0.995 {
        format!("{gib:.2}")
    } else {
        format!("{gib:.1}")
    }
}

/// `8 s`, `2 min 5 s`, `1 h 10 min`; never more exact than anyone can know.
pub fn duration_text(secs: f64) -> String {
    let secs = secs.clamp(0.0, 1e9).round() as u64;
    match secs {
        0..60 => format!("{secs} s"),
        60..600 => format!("{} min {} s", secs / 60, secs % 60),
        600..3600 => format!("{} min", secs / 60),
        _ => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
    }
}

/// A time that is expected: `about 8 s`, `under a second`.
pub fn about_text(secs: f64) -> String {
    if secs.round() < 1.0 {
        "under a second".to_owned()
    } else {
        format!("about {}", duration_text(secs))
    }
}

/// Text of an estimated time: `about 14 h`, `under a second`.
pub fn about_rough_text(secs: u64) -> String {
    if secs == 0 {
        "under a second".to_owned()
    } else {
        format!("about {}", rough_text(secs))
    }
}

/// A time that is only known about, in one unit: `40 s`, `25 min`, `14 h`, `3 days`.
pub fn rough_text(secs: u64) -> String {
    let rounded = |unit: u64| (secs + unit / 2) / unit;
    match secs {
        0..60 => format!("{secs} s"),
        60..5400 => format!("{} min", rounded(60)),
        5400..172_800 => format!("{} h", rounded(3600)),
        _ => format!("{} days", rounded(86_400)),
    }
}

/// A video's length: short ones with a decimal.
pub fn seconds_text(secs: f64) -> String {
    if secs < 60.0 {
        format!("{secs:.1} s")
    } else {
        duration_text(secs)
    }
}

/// Time of a frame: `3.4 s`, and like a clock above a minute: `2:03.4`.
pub fn clock_text(secs: f64) -> String {
    if secs < 60.0 {
        return seconds_text(secs);
    }
    let minutes = (secs / 60.0).floor();
    format!("{minutes:.0}:{:04.1}", secs - minutes * 60.0)
}

/// A duration that was measured: `8.0 s`, `62 min 05 s`.
pub fn measured_text(secs: f64) -> String {
    // A value that no duration can hold is 0.
    let secs = Duration::try_from_secs_f64(secs)
        .unwrap_or_default()
        .as_secs_f64();
    if secs < 59.95 {
        return format!("{secs:.1} s");
    }
    let secs = secs.round();
    format!("{:.0} min {:02.0} s", (secs / 60.0).floor(), secs % 60.0)
}

/// Sentence on a number out of its range, such as `the strength must be between 0 and 1, not 2`; `None` if it is in it.
/// `unit`: follows the range, such as ` seconds`.
pub(crate) fn range_problem<T: PartialOrd + Display + Copy>(
    what: &str,
    range: &RangeInclusive<T>,
    unit: &str,
    found: T,
) -> Option<String> {
    let (least, most) = (range.start(), range.end());
    let sentence = || format!("{what} must be between {least} and {most}{unit}, not {found}");
    (!range.contains(&found)).then(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_expected_to_be_nothing() {
        assert_eq!(about_text(0.2), "under a second");
        assert_eq!(about_text(0.6), "about 1 s");
        assert_eq!(about_text(125.0), "about 2 min 5 s");
        assert_eq!(about_rough_text(0), "under a second");
        assert_eq!(about_rough_text(50_400), "about 14 h");
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        let texts = [
            0,
            1023,
            1024,
            340 << 20,
            (1 << 20) - 1,
            (1 << 30) - 1,
            1536 << 20,
            34_200_000_000,
            3 << 40,
        ];
        assert_eq!(
            texts.map(size_text),
            [
                "0 bytes",
                "1023 bytes",
                "1 KiB",
                "340 MiB",
                "1 MiB",
                "1.0 GiB",
                "1.5 GiB",
                "31.9 GiB",
                "3.0 TiB"
            ]
        );
    }

    #[test]
    fn sizes_in_gib_are_as_exact_as_people_read_them() {
        for (mib, text) in [
            (0, "0.0"),
            (41, "0.04"),
            (512, "0.50"),
            (1024, "1.0"),
            (21_811, "21.3"),
        ] {
            assert_eq!(gib_text(mib << 20), text, "{mib} MiB");
        }
        assert_eq!((from_gib(1.5), in_gib(3 << 29)), (3 << 29, 1.5));
        assert_eq!((from_gib(-1.0), from_gib(f64::NAN)), (0, 0));
    }

    #[test]
    fn durations_read_like_words() {
        assert_eq!(duration_text(7.6), "8 s");
        let rough = [14, 81, 1500, 50_400, 250_000].map(rough_text);
        assert_eq!(rough, ["14 s", "1 min", "25 min", "14 h", "3 days"]);
        assert_eq!(duration_text(125.0), "2 min 5 s");
        assert_eq!(duration_text(4200.0), "1 h 10 min");
        assert_eq!(duration_text(f64::NAN), "0 s");
        assert_eq!(seconds_text(5.06), "5.1 s");
        assert_eq!(clock_text(3.44), "3.4 s");
        assert_eq!(clock_text(123.4), "2:03.4");
    }
}
