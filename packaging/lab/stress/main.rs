//! Stress test: starts Safelight, acts, kills it or takes its disk or memory away, and checks that no data was lost.
//!
//! [`commands`] disturbs the command line, [`window`] the window, [`soak`] runs many jobs in one engine. A seed decides
//! everything but the timing.

mod commands;
mod display;
mod home;
mod memory;
#[path = "../../../tests/common/networks.rs"]
#[expect(clippy::expect_used, reason = "shared with tests")]
mod networks;
#[path = "../../../tests/common/server.rs"]
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with tests of downloads"
)]
mod server;
#[cfg(feature = "soak")]
mod soak;
mod window;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use commands::CommandLine;
use home::Home;
use server::{Answer, Server, good};
use window::{VISITS, WindowSession};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Disturb Safelight at random moments, and check that nothing was lost
#[derive(Parser, Debug)]
#[command(name = "stress")]
struct StressArgs {
    /// Number of rounds, each with one kill or fault
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Stop after this time
    #[arg(long)]
    minutes: Option<u64>,
    /// Printed, so that a run can be repeated [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Only actions whose name contains this: a command such as `batch`, `window`, `queue`, `gallery`, `disk` or `memory`
    #[arg(long, default_value = "")]
    only: String,
    /// Model of the jobs of the command line
    #[arg(long, default_value = "little-world")]
    model: String,
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Run so many jobs in one engine instead, with cancels and injected faults, and check that memory does not grow
    #[cfg(feature = "soak")]
    #[arg(long, value_name = "JOBS")]
    soak: Option<u32>,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn millis(&mut self, end: usize) -> Duration {
        Duration::from_millis(self.below(end) as u64)
    }
}

/// Exit code 1 when anything was lost or left over.
fn main() -> ExitCode {
    match run(&StressArgs::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("error: {err}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &StressArgs) -> Result<bool> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let seed = args.seed.unwrap_or(time.as_secs());
    println!("seed {seed}");
    let mut random = Random(seed);
    #[cfg(feature = "soak")]
    if let Some(count) = args.soak {
        return soak::run(count, &mut random, args.device.parse()?);
    }
    let file = commands::downloaded_file();
    let server = Server::start(
        move |request| match request.path.ends_with(".safetensors") {
            true => good(request, &file),
            false => Answer::of(404),
        },
    );
    let folder = tempfile::tempdir()?;
    let home = |name: &str| Home::at(folder.path().join(name), &server.url);
    let mut names: Vec<&str> = commands::names().chain(VISITS).collect();
    names.retain(|name| name.contains(args.only.as_str()));
    if names.is_empty() {
        return Err(format!("no action is called {:?}", args.only).into());
    }
    let mut line = CommandLine::new(home("home")?, args)?;
    let mut session: Option<WindowSession> = None;
    let mut tallies: BTreeMap<String, (u32, usize)> = BTreeMap::new();
    let begin = Instant::now();
    let limit = args.minutes.map(|minutes| Duration::from_mins(minutes));
    let mut round = 0;
    while round < args.rounds && limit.is_none_or(|limit| begin.elapsed() < limit) {
        round += 1;
        let name = random.one_of(&names);
        let (what, faults) = if VISITS.contains(&name) {
            if session.is_none() {
                session = Some(WindowSession::begin(home("desk")?)?);
            }
            session
                .as_mut()
                .ok_or("no window")?
                .round(name, &mut random)?
        } else {
            line.round(name, &mut random)?
        };
        println!("round {round}: {name}, {what}");
        for fault in &faults {
            println!("  fault: {fault}");
        }
        let tally = tallies.entry(format!("{name}, {what}")).or_default();
        *tally = (tally.0 + 1, tally.1 + faults.len());
    }
    for (name, (rounds, faults)) in &tallies {
        println!("{name:<60} {rounds:>5} rounds {faults:>3} faults");
    }
    let num_faults: usize = tallies.values().map(|tally| tally.1).sum();
    let secs = begin.elapsed().as_secs();
    println!("{round} rounds in {secs} s: {num_faults} faults");
    let num_changes = session.map_or(0, |session| session.num_changes);
    println!(
        "{} jobs resumed, {num_changes} changes of the queue seen",
        line.resumed
    );
    if num_faults > 0 {
        let kept: PathBuf = folder.keep();
        println!("homes: {}", kept.display());
    }
    Ok(num_faults == 0)
}
