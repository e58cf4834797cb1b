//! One process of the fuzzer: damages files of one reader's corpus and has them read, until its time is up or one does harm.
//!
//! The process has little memory, and little of the processor for each file: what takes more ends it. The file that it
//! was at lies in its folder then.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::arguments::Task;
use crate::cost::Cost;
use crate::random::Random;
use crate::readers::Reader;
use crate::scratch::Scratch;
use crate::{corpus, mutate};

/// The file that is being read, in the folder of a task.
pub const CURRENT: &str = "current";
/// Of the whole process, whatever language allocates: several of the largest pictures that are opened.
const MAX_PROCESS_BYTES: u64 = 4 << 30;
/// Of the processor, for one file.
const MAX_SECS: u64 = 30;

/// Says on standard output how many files were read, and on standard error what went wrong.
pub fn run(task: &Task) -> io::Result<bool> {
    let limit = Rlimit {
        current: Some(MAX_PROCESS_BYTES),
        maximum: Some(MAX_PROCESS_BYTES),
    };
    setrlimit(Resource::As, limit)?;
    let paths = corpus::files(&corpus::folder(task.reader))?;
    let kept: Vec<Vec<u8>> = paths.iter().map(fs::read).collect::<io::Result<_>>()?;
    let scratch = Scratch::at(task.folder.join("files"))?;
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < task.time {
        let bytes = damaged(task.reader, &kept, task.seed, number);
        fs::write(task.folder.join(CURRENT), &bytes)?;
        limit_time()?;
        if let Some(harm) = harm(task.reader, &scratch, &bytes) {
            eprintln!("{harm}");
            return Ok(false);
        }
        number += 1;
    }
    println!("{number}");
    Ok(true)
}

/// Reads one file and says what that costs.
pub fn read_one(reader: &Reader, file: &Path) -> io::Result<bool> {
    let bytes = fs::read(file)?;
    let scratch = Scratch::new()?;
    let pixels = (reader.read)(&scratch, &bytes)?;
    let cost = scratch.take_cost();
    let objection = cost.objection(pixels);
    println!(
        "{} MiB and {:.2?} of the processor for {pixels} pixels: {}",
        cost.bytes >> 20,
        cost.time,
        objection.as_deref().unwrap_or("good")
    );
    Ok(objection.is_none())
}

/// A damaged file: the same for the same reader, seed and number.
pub fn damaged(reader: &Reader, kept: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let name = reader.name.bytes();
    let start = name.fold(seed, |all, byte| {
        all.wrapping_mul(31).wrapping_add(byte.into())
    });
    let mut random = Random::new(start.wrapping_mul(0x1_0000_0001).wrapping_add(number << 20));
    let mut pick = || {
        kept.get(random.below(kept.len()))
            .cloned()
            .unwrap_or_default()
    };
    let (mut bytes, other) = (pick(), pick());
    mutate::damage(&mut bytes, &other, reader.words, &mut random);
    bytes
}

/// What reading these bytes does that it must not.
pub fn harm(reader: &Reader, scratch: &Scratch, bytes: &[u8]) -> Option<String> {
    let read = read_by(reader, scratch, bytes);
    let pixels = read.0.as_ref().copied().unwrap_or(0);
    harm_at_most(&read, pixels)
}

/// The pixels that a file says it has, or what went wrong, and what reading it cost.
pub type Read = (Result<u64, String>, Cost);

pub fn read_by(reader: &Reader, scratch: &Scratch, bytes: &[u8]) -> Read {
    let read = catch_unwind(AssertUnwindSafe(|| (reader.read)(scratch, bytes)));
    let cost = scratch.take_cost();
    let read = match read {
        Ok(read) => read.map_err(|err| format!("the folder for files cannot be used: {err}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it panics: {}", text.unwrap_or("without a word")))
        }
    };
    (read, cost)
}

/// The same where so many pixels may be unpacked.
pub fn harm_at_most((read, cost): &Read, pixels: u64) -> Option<String> {
    let wrong = read.as_ref().err().cloned();
    wrong.or_else(|| cost.objection(pixels))
}

/// The system ends the process when it has used so much more of the processor.
fn limit_time() -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let most = u64::try_from(used).unwrap_or_default() + MAX_SECS;
    let limit = Rlimit {
        current: Some(most),
        maximum: getrlimit(Resource::Cpu).maximum,
    };
    Ok(setrlimit(Resource::Cpu, limit)?)
}
