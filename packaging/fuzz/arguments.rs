//! The command line of `cargo xtask fuzz`, which passes its arguments on.

use std::path::PathBuf;
use std::time::Duration;

use crate::readers::{READERS, Reader};

pub const HELP: &str = "\
cargo xtask fuzz [--secs N] [--target READER] [--seed S]
                       damage the files in packaging/fuzz/corpus for N seconds (60) and have them read; without
                       --target the time is shared among all readers
cargo xtask fuzz --read READER FILE
                       read one file, as the fuzzer does
";

pub enum Request {
    Help,
    Fuzz(Options),
    /// What the fuzzer starts for itself.
    Trial(Task),
    Read {
        reader: &'static Reader,
        file: PathBuf,
    },
}

pub struct Options {
    pub time: Duration,
    pub readers: Vec<&'static Reader>,
    pub seed: u64,
}

/// What one process of the fuzzer does.
pub struct Task {
    pub reader: &'static Reader,
    pub seed: u64,
    pub time: Duration,
    /// Where the file lies that is being read, so that a process that is ended leaves it behind.
    pub folder: PathBuf,
}

pub fn parse(args: impl Iterator<Item = String>) -> Result<Request, String> {
    let args: Vec<String> = args.collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["help" | "--help" | "-h"] => Ok(Request::Help),
        ["--read", reader, file] => Ok(Request::Read {
            reader: reader_of(reader)?,
            file: file.into(),
        }),
        ["--trial", reader, seed, secs, folder] => Ok(Request::Trial(Task {
            reader: reader_of(reader)?,
            seed: number("--trial", seed)?,
            time: Duration::from_secs(number("--trial", secs)?),
            folder: folder.into(),
        })),
        options => fuzz_options(options).map(Request::Fuzz),
    }
}

fn fuzz_options(words: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        time: Duration::from_mins(1),
        readers: READERS.iter().collect(),
        seed: 1,
    };
    for pair in words.chunks(2) {
        let [flag, value] = pair else {
            return Err(format!("expected a value after {}", pair[0]));
        };
        match *flag {
            "--secs" => options.time = Duration::from_secs(number(flag, value)?),
            "--seed" => options.seed = number(flag, value)?,
            "--target" => options.readers = vec![reader_of(value)?],
            other => return Err(format!("cargo xtask fuzz does not know {other}")),
        }
    }
    Ok(options)
}

fn reader_of(name: &str) -> Result<&'static Reader, String> {
    let known = READERS.iter().find(|reader| reader.name == name);
    known.ok_or_else(|| {
        let names: Vec<&str> = READERS.iter().map(|reader| reader.name).collect();
        format!("there is no reader {name}: there are {}", names.join(", "))
    })
}

fn number(flag: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|err| format!("{flag} takes a number, not {value}: {err}"))
}
