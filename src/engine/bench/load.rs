//! Speed of loading weights to the device, from page cache and from disk: a file is opened as a job opens it, and every
//! tensor is read as it is stored. Without a path: temporary files of a few large and of many small tensors.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use rustix::fs::{Advice, fadvise};
use safelight_core::job::DeviceChoice;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use super::arguments::count;
use super::{failed, write_line};
use crate::error::ProcessError;
use crate::families::bench_cases::in_range;
use crate::runtime::{self, DeviceRuntime, LIBTORCH_VERSION};
use crate::timing::{finished, gib, rounded};
use crate::weights::{Weights, WeightsError};

const LARGE_BYTES: u64 = 64 << 20;
const SMALL_BYTES: u64 = 256 << 10;
/// Length of the random bytes that a temporary file repeats, odd so that no two matrices are equal.
const PIECE_BYTES: usize = (32 << 20) + 2 * 1013;

#[derive(Debug, Parser)]
pub(super) struct LoadArguments {
    /// A file or folder of weights [default: temporary files]
    place: Option<PathBuf>,
    /// auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Timed runs of each file
    #[arg(long, default_value = "5", value_parser = count)]
    runs: usize,
    /// Size of each temporary file
    #[arg(long, default_value = "2048", value_parser = |text: &str| in_range(text, 1 << 20))]
    mib: i64,
}

/// `false` when the tensors on the device differ from the file.
pub(super) fn run(arguments: &LoadArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    let runtime = DeviceRuntime::open(arguments.device)?;
    if let Some(place) = &arguments.place {
        return measure("load", place, arguments, &runtime, out);
    }
    let mut all_well = true;
    for (case, tensor_bytes) in [("load_large", LARGE_BYTES), ("load_tiny", SMALL_BYTES)] {
        let bytes = (arguments.mib as u64) << 20;
        let tensors =
            (0..bytes)
                .step_by(tensor_bytes as usize)
                .enumerate()
                .map(|(index, start)| {
                    let count = (bytes - start).min(tensor_bytes) / 2;
                    (format!("blocks.{index}.weight"), vec![count as i64])
                });
        let made = TemporaryWeights::new(&tensors.collect::<Vec<_>>(), &random_bytes());
        let made = made.map_err(failed)?;
        all_well &= measure(case, made.path(), arguments, &runtime, out)?;
    }
    Ok(all_well)
}

fn measure(
    case: &str,
    place: &Path,
    arguments: &LoadArguments,
    runtime: &DeviceRuntime,
    out: &mut dyn Write,
) -> Result<bool, ProcessError> {
    let device = runtime.device;
    let timed = || -> Result<(f64, f64, Vec<Tensor>), ProcessError> {
        let began = Instant::now();
        let weights = Weights::open(place, Kind::BFloat16, device).map_err(failed)?;
        let opened = began.elapsed().as_secs_f64();
        let tensors = all_of(&weights).map_err(failed)?;
        finished(device).map_err(failed)?;
        Ok((opened, began.elapsed().as_secs_f64(), tensors))
    };
    // A CPU maps the file and reads nothing.
    let is_cold = device != Device::Cpu && drop_cached(&Weights::files_of(place)).is_ok();
    let cold = if is_cold { Some(timed()?.1) } else { None };
    let host_before = own_bytes();
    // Fills the page cache.
    drop(timed()?);
    let mut host_most = host_before;
    let (mut opened, mut secs) = (Vec::new(), Vec::new());
    let mut tensors = Vec::new();
    for _ in 0..arguments.runs {
        tensors.clear();
        let (open_s, load_s, loaded) = timed()?;
        opened.push(open_s);
        secs.push(load_s);
        tensors = loaded;
        host_most = host_most.max(own_bytes());
    }
    opened.sort_by(f64::total_cmp);
    secs.sort_by(f64::total_cmp);
    let is_whole = are_as_in(place, &tensors).map_err(failed)?;
    let bytes = tensors
        .iter()
        .map(|it| it.numel() * it.kind().elt_size_in_bytes());
    let size = gib(bytes.sum::<usize>() as u64);
    let middle = arguments.runs / 2;
    let cold = cold.map(|secs| json!({"load_s": rounded(secs), "gib_per_s": rounded(size / secs)}));
    let line = json!({
        "case": case, "tensors": tensors.len(), "gib": size, "open_s": rounded(opened[middle]),
        "median_s": rounded(secs[middle]), "min_s": rounded(secs[0]), "runs": arguments.runs,
        "gib_per_s": rounded(size / secs[middle]), "cold": cold,
        "host_gib": gib(host_most.saturating_sub(host_before)), "is_whole": is_whole,
        "device": runtime.device_name, "libtorch": LIBTORCH_VERSION,
    });
    drop(tensors);
    runtime::empty_cache(device);
    write_line(out, &line)?;
    Ok(is_whole)
}

fn all_of(weights: &Weights) -> Result<Vec<Tensor>, WeightsError> {
    let keys = weights.keys_in_order().into_iter();
    keys.map(|key| weights.as_stored(key)).collect()
}

/// Returns true if `tensors` are equal to those of the mapped files, byte by byte: NaN differs from itself.
fn are_as_in(place: &Path, tensors: &[Tensor]) -> Result<bool, WeightsError> {
    let mapped = all_of(&Weights::open(place, Kind::BFloat16, Device::Cpu)?)?;
    let bytes = |tensor: &Tensor| tensor.flatten(0, -1).view_dtype(Kind::Uint8);
    let mut pairs = mapped.iter().zip(tensors);
    let are_equal = pairs.all(|(a, b)| bytes(a).equal(&bytes(&b.to_device(Device::Cpu))));
    Ok(are_equal && mapped.len() == tensors.len())
}

/// Drops files from the page cache, except for what is mapped.
fn drop_cached(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Memory of this process without mapped files: `RssAnon`, and `RssShmem`, which counts pinned memory.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let is_own = |line: &&str| line.starts_with("RssAnon:") || line.starts_with("RssShmem:");
    status.lines().filter(is_own).filter_map(kib).sum::<u64>() << 10
}

/// Bytes that no disk can compress.
fn random_bytes() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0; PIECE_BYTES];
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    bytes
}

/// A safetensors file in bf16 in the system's temporary folder, removed when dropped.
pub(super) struct TemporaryWeights {
    path: PathBuf,
    bytes: u64,
}

impl TemporaryWeights {
    /// The tensors of a network, of small numbers of both signs.
    pub(super) fn of_network(tensors: &[(String, Vec<i64>)]) -> io::Result<Self> {
        let mut piece = random_bytes();
        for number in piece.chunks_exact_mut(2) {
            // Sign and mantissa stay: from 1/128 to 1/64.
            number[1] = number[1] & 0x80 | 0x3c;
            number[0] &= 0x7f;
        }
        Self::new(tensors, &piece)
    }

    fn new(tensors: &[(String, Vec<i64>)], piece: &[u8]) -> io::Result<Self> {
        let mut header = String::from("{");
        let mut bytes = 0;
        for (index, (name, shape)) in tensors.iter().enumerate() {
            let end = bytes + 2 * shape.iter().product::<i64>();
            let comma = if index == 0 { "" } else { "," };
            write!(
                header,
                r#"{comma}"{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{bytes},{end}]}}"#
            )
            .map_err(io::Error::other)?;
            bytes = end;
        }
        header.push('}');
        let padding = header.len().next_multiple_of(8) - header.len();
        header.push_str(&" ".repeat(padding));
        let name = format!(
            "safelight-bench-{}-{}.safetensors",
            std::process::id(),
            tensors.len()
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "measured where the system keeps its own short-lived files, and removed when dropped"
        )]
        let path = std::env::temp_dir().join(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let made = Self {
            path,
            bytes: bytes as u64,
        };
        let mut file = BufWriter::with_capacity(16 << 20, file);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        let mut left = bytes as usize;
        while left > 0 {
            let len = left.min(piece.len());
            file.write_all(&piece[..len])?;
            left -= len;
        }
        // Only pages on the disk can be dropped from the page cache.
        file.into_inner()?.sync_all()?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for TemporaryWeights {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok(); // Nothing else can be done about it.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;
    use crate::weights::tests::fixtures::json_lines;

    fn run(line: &str) -> Result<Vec<serde_json::Value>, ProcessError> {
        let mut out = Vec::new();
        let arguments = format!("load --device cpu {line}");
        let arguments = arguments.split_whitespace().map(str::to_owned);
        let is_well = bench::run(arguments.collect::<Vec<_>>().into_iter(), &mut out)?;
        assert!(is_well);
        Ok(json_lines(&out))
    }

    #[test]
    fn temporary_files_are_loaded_whole() {
        let lines = run("--runs 2 --mib 3").unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["case"], "load_large");
        assert_eq!(lines[1]["tensors"], 12);
        for line in lines {
            assert_eq!(line["gib"], rounded(3.0 / 1024.0));
            let found = (&line["runs"], &line["is_whole"]);
            assert_eq!(found, (&json!(2), &json!(true)));
        }
    }

    #[test]
    fn a_temporary_file_may_have_many_tensors() {
        let tensors = (0..1000).map(|index| (format!("blocks.{index}.weight"), vec![1]));
        let made = TemporaryWeights::of_network(&tensors.collect::<Vec<_>>()).unwrap();
        let weights = Weights::open(made.path(), Kind::BFloat16, Device::Cpu).unwrap();
        assert_eq!(all_of(&weights).unwrap().len(), 1000);
    }

    #[test]
    fn missing_files_and_invalid_numbers_are_refused() {
        for (line, part) in [
            ("--runs 0", "expected 1 to 1000, found \"0\""),
            ("--mib 9999999", "found \"9999999\""),
            ("a b", "unexpected argument 'b'"),
            ("-- --odd", "--odd"),
            ("/nowhere/at/all.safetensors", "/nowhere/at/all"),
        ] {
            let err = run(line).unwrap_err().to_string();
            assert!(err.contains(part), "{err}");
        }
    }
}
