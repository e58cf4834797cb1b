//! `cargo xtask fuzz`: starts a process for each reader in turn, and keeps the files that do harm in `found`.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Options;
use crate::corpus;
use crate::readers::Reader;
use crate::scratch::{Scratch, home};
use crate::trial::CURRENT;

/// A reader with so many finds is mended first.
const MAX_FINDS: u64 = 5;
/// How long a process is waited for behind its own time: its files have a limit of the processor's time, so this ends only
/// one that waits for something. A loaded machine may leave it none for minutes.
const GRACE: Duration = Duration::from_mins(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How the process of one trial ended.
enum Ended {
    Well { num_files: u64 },
    Badly { reason: String },
}

/// Whether nothing was found.
pub fn run(options: &Options) -> io::Result<bool> {
    println!("seed {}, {:?} in all", options.seed, options.time);
    let each = options.time / u32::try_from(options.readers.len()).unwrap_or(u32::MAX);
    let mut num_finds = 0;
    for reader in &options.readers {
        let start = Instant::now();
        let (mut num_files, mut finds) = (0, 0);
        while finds < MAX_FINDS {
            let left = each.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            // Another seed: with the same one it would come to the same file.
            let seed = options.seed.wrapping_add(finds << 32);
            match trial(reader, seed, left)? {
                Ended::Well { num_files: read } => num_files += read,
                Ended::Badly { reason } => {
                    println!("{}: {reason}", reader.name);
                    finds += 1;
                }
            }
        }
        let secs = start.elapsed().as_secs();
        println!(
            "{:<20} {num_files:>9} files in {secs} s, {finds} found",
            reader.name
        );
        num_finds += finds;
    }
    Ok(num_finds == 0)
}

fn trial(reader: &Reader, seed: u64, time: Duration) -> io::Result<Ended> {
    let scratch =
        Scratch::at(home().join(format!("safelight-fuzz-{}-{seed}", std::process::id())))?;
    let [out, err] = ["out", "err"].map(|name| scratch.path().join(name));
    let child = Command::new(std::env::current_exe()?)
        .args(["--trial", reader.name])
        .args([seed.to_string(), time.as_secs().max(1).to_string()])
        .arg(scratch.path())
        // An installed ffmpeg is another program, with faults of its own.
        .env_remove("PATH")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()?;
    let status = wait(child, time + GRACE)?;
    if status.success() {
        let num_files = fs::read_to_string(&out)?.trim().parse().unwrap_or(0);
        return Ok(Ended::Well { num_files });
    }
    let said = fs::read_to_string(&err).unwrap_or_default();
    let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let kept = keep(reader, seed, &scratch.path().join(CURRENT))?;
    Ok(Ended::Badly {
        reason: format!("{status}: {}\n    kept as {kept}", said.join(" ")),
    })
}

fn wait(mut child: Child, most: Duration) -> io::Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > most {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn keep(reader: &Reader, seed: u64, file: &Path) -> io::Result<String> {
    let folder = corpus::package().join("found");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{seed}", reader.name));
    fs::copy(file, &path)?;
    Ok(path.display().to_string())
}
