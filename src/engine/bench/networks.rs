//! Time and memory of networks without their files, and of weights that stream from a temporary file, as they do in a job
//! where not all of them stay on the device.

use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::arguments::FamilyArguments;
use super::load::TemporaryWeights;
use super::{failed, open, write_line};
use crate::error::ProcessError;
use crate::families::bench_cases::{BenchCase, BenchLine, BenchPurpose, merged};
use crate::parallel::{OpenGroup, RankGroup, share_work};
use crate::placement::dtype_name;
use crate::runtime::{self, LIBTORCH_VERSION};
use crate::timing::gib;
use crate::weights::Weights;

/// Interval between readings of the memory in use.
const WATCH: Duration = Duration::from_millis(5);

/// Measures the cases of the arguments. `false` when one failed or streamed weights changed an output; its line says it.
pub(super) fn run(arguments: &FamilyArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    let (runtime, kind) = open(arguments.device, arguments.small)?;
    let mut all_well = true;
    for &case in &arguments.cases {
        let bench = RankBench {
            case,
            arguments,
            kind,
            file: (!arguments.preserved.is_empty())
                .then(|| {
                    let outline = case.outline((arguments.small, arguments.sizes), kind);
                    TemporaryWeights::of_network(&outline).map_err(failed)
                })
                .transpose()?,
        };
        let mut write = |line: BenchLine, more: Value| {
            runtime::empty_cache(runtime.device);
            all_well &= line.is_ok() && more["is_same"] != false;
            let line = line.unwrap_or_else(|err| json!({"error": err.to_string()}));
            let common = json!({
                "case": case.name, "device": runtime.device_name, "dtype": dtype_name(kind),
                "libtorch": LIBTORCH_VERSION, "small": arguments.small, "ranks": arguments.ranks,
            });
            let line = merged(merged(common, json!(arguments.sizes)), line);
            Ok(write_line(out, &merged(line, more))?)
        };
        bench.on_ranks(runtime.device, &mut write)?;
    }
    Ok(all_well)
}

/// A case as each of the ranks runs it.
struct RankBench<'a> {
    case: &'static BenchCase,
    arguments: &'a FamilyArguments,
    kind: Kind,
    /// Weights that stream.
    file: Option<TemporaryWeights>,
}

type WriteLine<'a> = dyn FnMut(BenchLine, Value) -> Result<(), ProcessError> + 'a;

impl RankBench<'_> {
    fn on_ranks(&self, device: Device, write: &mut WriteLine<'_>) -> Result<(), ProcessError> {
        let ranks = self.arguments.ranks;
        if ranks == 1 {
            return self.measure(device, write);
        }
        let group = OpenGroup::new("127.0.0.1", ranks, device).map_err(failed)?;
        thread::scope(|scope| {
            for rank in 1..ranks {
                let member = group.other(rank, None);
                let device = match device {
                    Device::Cuda(index) => Device::Cuda(index + rank),
                    other => other,
                };
                scope.spawn(move || {
                    let group = RankGroup::join(&member, device);
                    let group = group.unwrap_or_else(|err| panic!("{err}"));
                    let _shared = share_work(Some(Rc::new(group)));
                    let done = self.measure(device, &mut |line, _| {
                        runtime::empty_cache(device);
                        line.map(drop).map_err(failed)
                    });
                    done.unwrap_or_else(|err| panic!("{err}"));
                });
            }
            let group = group.join(device).map_err(failed)?;
            let _shared = share_work(Some(Rc::new(group)));
            self.measure(device, write)
        })
    }

    fn measure(&self, device: Device, write: &mut WriteLine<'_>) -> Result<(), ProcessError> {
        let (arguments, kind) = (self.arguments, self.kind);
        let at = (arguments.small, arguments.sizes);
        let Some(file) = &self.file else {
            let weights = Weights::random(kind, device);
            let done = self
                .case
                .run(weights, at, BenchPurpose::Timing(arguments.runs));
            return write(done.map(|(line, _)| line), json!({}));
        };
        self.streamed(file, device, write)
    }

    /// Measures a case with all weights on the device, then with each number of bytes kept free of them.
    fn streamed(
        &self,
        file: &TemporaryWeights,
        device: Device,
        write: &mut WriteLine<'_>,
    ) -> Result<(), ProcessError> {
        let arguments = self.arguments;
        let at = (arguments.small, arguments.sizes);
        let mut whole: Option<Tensor> = None;
        let preserved = arguments.preserved.iter().copied().map(Some);
        for preserved in std::iter::once(None).chain(preserved) {
            let cap = preserved.and(arguments.cap);
            let allowance = runtime::allowance(device, cap);
            let resident = preserved.map(|preserved| allowance.saturating_sub(preserved));
            runtime::limit(device, cap.map(|_| allowance));
            let mut bytes = None;
            let (done, most_used) = watched(device, || {
                let weights =
                    Weights::open(file.path(), self.kind, device)?.with_residency(resident);
                let timing = BenchPurpose::Timing(arguments.runs);
                let done = self.case.run(weights.clone(), at, timing);
                bytes = weights.stream_bytes();
                done
            });
            runtime::limit(device, None);
            let mut more = json!({"device_gib": gib(most_used), "weights_bytes": file.bytes()});
            for (name, bytes) in [
                ("preserved_gib", preserved),
                ("cap_gib", cap),
                ("resident_gib", bytes.map(|bytes| bytes.resident)),
                ("window_gib", bytes.map(|bytes| bytes.window)),
            ] {
                if let Some(bytes) = bytes {
                    more[name] = gib(bytes).into();
                }
            }
            let (line, output) = match done {
                Ok((line, output)) => (Ok(line), output),
                Err(err) => (Err(err), None),
            };
            let output = output.map(|output| output.to_device(Device::Cpu));
            if preserved.is_none() {
                whole = output;
            } else if let Some((whole, output)) = whole.as_ref().zip(output) {
                more["is_same"] = whole.equal(&output).into();
            }
            write(line, more)?;
        }
        Ok(())
    }
}

/// Does `work` while a thread watches the memory of the device that all programs use; also returns its maximum in bytes.
fn watched<T>(device: Device, work: impl FnOnce() -> T) -> (T, u64) {
    let (ends, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = || {
        while !ends.load(Ordering::Relaxed) {
            most.fetch_max(runtime::memory_counts(device).used, Ordering::Relaxed);
            thread::sleep(WATCH);
        }
    };
    let done = thread::scope(|scope| {
        scope.spawn(watch);
        let done = work();
        ends.store(true, Ordering::Relaxed);
        done
    });
    (done, most.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::arguments::name_of;
    use crate::weights::tests::fixtures::json_lines;

    fn lines(line: &str) -> Result<Vec<Value>, ProcessError> {
        let mut out = Vec::new();
        let arguments = line.split_whitespace().map(str::to_owned);
        run(&FamilyArguments::parse(arguments)?, &mut out)?;
        Ok(json_lines(&out))
    }

    #[test]
    fn every_family_has_small_cases_with_sound_figures() {
        for (family, cases) in crate::families::MEASURED {
            let ends = [cases.first(), cases.last()].map(|case| case.unwrap().name);
            let family = name_of(family);
            let line = format!("{family} {} --device cpu --small --runs 1", ends.join(" "));
            for (line, case) in lines(&line).unwrap().iter().zip(ends) {
                assert!(line["case"] == case && line["error"].is_null(), "{line}");
                assert_eq!((&line["dtype"], &line["runs"]), (&"f32".into(), &1.into()));
                let found = (&line["device"], &line["small"]);
                assert_eq!(found, (&"CPU".into(), &true.into()));
                let number = |name: &str| line[name].as_f64().unwrap();
                let holds = number("min_s") > 0.0 && number("min_s") == number("median_s");
                assert!(holds, "{line}");
                // The other figures of memory count the whole process, in which other tests run.
                assert!(line["weights_bytes"].as_u64().unwrap() > 0, "{line}");
                assert!(number("peak_reserved_gib") >= number("peak_gib"), "{line}");
            }
        }
    }

    #[test]
    fn ranks_share_the_calls_of_a_case() {
        let line = "flux flux_1024 --small --runs 1 --device cpu --ranks 2 --preserved 1023.99";
        let lines = lines(line).unwrap();
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert!(line["error"].is_null() && line["ranks"] == 2, "{line}");
        }
    }

    #[test]
    fn networks_that_stream_from_their_files_give_equal_outputs() {
        let line = "wan wan14b_320_17f umt5xxl --small --runs 1 --device cpu --preserved 0,1024";
        let lines = lines(line).unwrap();
        assert_eq!(lines.len(), 6);
        for lines in lines.chunks(3) {
            assert!(lines[0]["preserved_gib"].is_null() && lines[0]["is_same"].is_null());
            for line in &lines[1..] {
                assert_eq!(line["is_same"], true, "{line}");
            }
            // With all memory preserved no matrix stays.
            let number = |index: usize, name: &str| lines[index][name].as_f64().unwrap();
            assert!(number(1, "resident_gib") > number(2, "resident_gib"));
            assert!(number(2, "window_gib") > 0.0);
        }
    }
}
