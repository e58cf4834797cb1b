//! How fast weights get to the device, beside what the device and the disk can do.
//!
//! Opens a file or component as a job would and asks for every tensor as it is stored. Without one it makes two up, of
//! few large and of many tiny tensors, and removes them. One JSON object a case and line.

mod disk;
pub mod made_up;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::runtime::{self, LIBTORCH_VERSION, Runtime};
use crate::weights::{Weights, WeightsError};
use clap::Parser;
use safelight_core::job::DeviceChoice;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use crate::bench::arguments::runs;
use crate::bench::error::BenchError;
use crate::bench::measure::{rounded, write_line};

const GIB: f64 = (1_u64 << 30) as f64;

#[derive(Debug, Parser, PartialEq, Eq)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct LoadArguments {
    /// What to load, instead of files that are made up.
    pub place: Option<PathBuf>,
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    #[arg(long, default_value = "5", value_parser = runs)]
    pub runs: usize,
    /// Of each file that is made up.
    #[arg(long, default_value = "2048", value_parser = mib)]
    pub mib: u64,
}

fn mib(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (1..=1 << 20).contains(&number) => Ok(number),
        _ => Err(format!("expected 1 to {} MiB, found {text:?}", 1 << 20)),
    }
}

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    tensors: usize,
    gib: f64,
    /// Opening alone.
    open_s: f64,
    /// Opening and loading, from page cache.
    median_s: f64,
    min_s: f64,
    runs: usize,
    gib_per_s: f64,
    /// The same once, behind dropping the page cache; absent where that does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    cold: Option<Cold>,
    /// What the device fetches from pinned memory; absent on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_copy_gib_per_s: Option<f64>,
    /// The most that this process had of its own on the host, beyond what it had before.
    host_gib: f64,
    /// Whether all bytes on the device are those of the files.
    is_whole: bool,
    device: &'a str,
    libtorch: &'a str,
}

#[derive(Debug, Serialize)]
struct Cold {
    load_s: f64,
    gib_per_s: f64,
    /// Reading the same files and nothing else, past the page cache.
    disk_gib_per_s: f64,
}

/// Measures what `arguments` ask for. `false` when something else came to the device than is in the files.
pub fn run(arguments: &LoadArguments, out: &mut dyn Write) -> Result<bool, BenchError> {
    let runtime = Runtime::open(arguments.device)?;
    if let Some(place) = &arguments.place {
        return measure("load", place, arguments, &runtime, out);
    }
    let mut all_well = true;
    for (case, tensor_bytes) in [
        ("load_large", made_up::LARGE_BYTES),
        ("load_tiny", made_up::TINY_BYTES),
    ] {
        let made = made_up::File::make(arguments.mib << 20, tensor_bytes)
            .map_err(|err| BenchError::MadeUp(err.to_string()))?;
        all_well &= measure(case, made.path(), arguments, &runtime, out)?;
    }
    Ok(all_well)
}

fn measure(
    case: &str,
    place: &Path,
    arguments: &LoadArguments,
    runtime: &Runtime,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let device = runtime.device;
    let cold = cold(place, device)?;
    let host_before = own_bytes();
    let mut host_most = host_before;
    let mut opened_in = Vec::new();
    let mut secs = Vec::new();
    let mut last = None;
    // The first fills the page cache and makes what is kept for the next.
    for run in 0..=arguments.runs {
        drop(last.take());
        let started = Instant::now();
        let weights = Weights::open(place, Kind::BFloat16, device)?;
        let opened = started.elapsed().as_secs_f64();
        let loaded = Loaded::all_of(&weights)?;
        synchronized(device)?;
        if run > 0 {
            opened_in.push(opened);
            secs.push(started.elapsed().as_secs_f64());
        }
        host_most = host_most.max(own_bytes());
        last = Some(loaded);
    }
    opened_in.sort_by(f64::total_cmp);
    secs.sort_by(f64::total_cmp);
    let (tensors, bytes, is_whole) = match last {
        Some(loaded) => (loaded.kept.len(), loaded.bytes(), loaded.is_as_in(place)?),
        None => (0, 0, false),
    };
    runtime::empty_cache(device);
    let gib = bytes as f64 / GIB;
    let line = Line {
        case,
        tensors,
        gib: rounded(gib),
        open_s: rounded(opened_in[opened_in.len() / 2]),
        median_s: rounded(secs[secs.len() / 2]),
        min_s: rounded(secs[0]),
        runs: secs.len(),
        gib_per_s: rounded(gib / secs[secs.len() / 2]),
        cold,
        pinned_copy_gib_per_s: pinned_copy_speed(device),
        host_gib: rounded(host_most.saturating_sub(host_before) as f64 / GIB),
        is_whole,
        device: &runtime.device_name,
        libtorch: LIBTORCH_VERSION,
    };
    write_line(out, &line)?;
    Ok(is_whole)
}

/// Everything of some files, on its device, kept until all is there, as a network keeps it.
struct Loaded {
    kept: Vec<Tensor>,
}

impl Loaded {
    fn all_of(weights: &Weights) -> Result<Self, WeightsError> {
        let keys = weights.keys_in_order().into_iter();
        let kept = keys.map(|key| weights.as_stored(key));
        Ok(Self {
            kept: kept.collect::<Result<_, _>>()?,
        })
    }

    fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
        self.kept.iter().map(bytes).sum::<usize>() as u64
    }

    /// Whether the mapped files hold the same.
    fn is_as_in(&self, place: &Path) -> Result<bool, WeightsError> {
        let mapped = Weights::open(place, Kind::BFloat16, Device::Cpu)?;
        // As bytes: numbers that are none are not their own equals.
        let bytes = |tensor: &Tensor| tensor.flatten(0, -1).view_dtype(Kind::Uint8);
        for (key, tensor) in mapped.keys_in_order().into_iter().zip(&self.kept) {
            let expected = bytes(&mapped.as_stored(key)?);
            if !bytes(&tensor.to_device(Device::Cpu)).equal(&expected) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Loading with an empty page cache; `None` on the CPU, where loading reads nothing, and where the disk cannot be
/// read by itself.
fn cold(place: &Path, device: Device) -> Result<Option<Cold>, BenchError> {
    if device == Device::Cpu {
        return Ok(None);
    }
    let files = Weights::files_of(place);
    let Ok(disk_bytes_per_s) = disk::direct_speed(&files) else {
        return Ok(None);
    };
    if disk::drop_cached(&files).is_err() {
        return Ok(None);
    }
    let started = Instant::now();
    let weights = Weights::open(place, Kind::BFloat16, device)?;
    let loaded = Loaded::all_of(&weights)?;
    synchronized(device)?;
    let load_s = started.elapsed().as_secs_f64();
    Ok(Some(Cold {
        load_s: rounded(load_s),
        gib_per_s: rounded(loaded.bytes() as f64 / GIB / load_s),
        disk_gib_per_s: rounded(disk_bytes_per_s / GIB),
    }))
}

/// The best of a few large copies, each from the same pinned memory.
fn pinned_copy_speed(device: Device) -> Option<f64> {
    const BYTES: i64 = 512 << 20;
    let Device::Cuda(_) = device else {
        return None;
    };
    let pinned = Tensor::f_zeros([BYTES], (Kind::Uint8, Device::Cpu)).ok()?;
    let pinned = pinned.f_pin_memory(device).ok()?;
    let mut target = Tensor::f_empty([BYTES], (Kind::Uint8, device)).ok()?;
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        synchronized(device).ok()?;
        let started = Instant::now();
        target.f_copy_(&pinned).ok()?;
        synchronized(device).ok()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Some(rounded(BYTES as f64 / GIB / best))
}

fn synchronized(device: Device) -> Result<(), BenchError> {
    if runtime::synchronize(device) {
        Ok(())
    } else {
        Err(BenchError::DeviceFailed)
    }
}

/// Memory of this process that is no file's: `RssAnon` and `RssShmem`, where pinned memory is counted.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let is_own = |line: &&str| line.starts_with("RssAnon:") || line.starts_with("RssShmem:");
    let own = status.lines().filter(is_own).filter_map(kib);
    own.sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::arguments::read;

    fn parse(line: &str) -> Result<LoadArguments, BenchError> {
        read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_path_is_one_and_numbers_have_bounds() {
        let given = parse("--device cpu --runs 3 --mib 64 -- --odd").unwrap();
        let expected = LoadArguments {
            place: Some(PathBuf::from("--odd")),
            device: DeviceChoice::Cpu,
            runs: 3,
            mib: 64,
        };
        assert_eq!(given, expected);
        for (line, part) in [
            ("--runs 0", "expected 1 to 1000 runs, found \"0\""),
            ("--mib", "a value is required for '--mib"),
            ("--mib 9999999", "MiB, found \"9999999\""),
            ("--fast", "unexpected argument '--fast'"),
            ("a b", "unexpected argument 'b'"),
            ("--device npu", "is not a device"),
        ] {
            let err = parse(line).unwrap_err();
            assert_eq!(err.exit_code(), 2);
            assert!(err.to_string().contains(part), "{err}");
        }
    }

    #[test]
    fn files_that_are_made_up_are_loaded_whole_and_removed() {
        let mut out = Vec::new();
        let arguments = parse("--device cpu --runs 2 --mib 3").unwrap();
        assert!(run(&arguments, &mut out).unwrap());
        let lines: Vec<serde_json::Value> = out
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["case"], "load_large");
        assert_eq!(lines[1]["tensors"], 12);
        for line in lines {
            assert_eq!(line["gib"], rounded(3.0 / 1024.0));
            assert_eq!(line["runs"], 2);
            assert_eq!(line["is_whole"], true);
        }
        let gone = Path::new("/nowhere/at/all.safetensors").to_owned();
        let arguments = LoadArguments {
            place: Some(gone),
            ..arguments
        };
        let err = run(&arguments, &mut Vec::new()).unwrap_err();
        assert!(err.to_string().contains("/nowhere/at/all"), "{err}");
    }
}
