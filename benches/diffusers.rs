//! The networks against diffusers': `cargo bench --bench diffusers -- FAMILY`, once `cargo xtask bench` has built
//! `safelight-bench` beside `safelight`.
//!
//! Runs `safelight-bench FAMILY` and, where `SAFELIGHT_PEER_PYTHON` names a Python with diffusers and
//! `SAFELIGHT_PEER_SCRIPT` a program that prints the same cases, that one right behind it on the same machine. Prints
//! one JSON object a case with both and their ratios. Arguments behind `--` are those of `safelight-bench`.
//! Measures nothing itself.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

/// Lines by the case that they are of.
type Results = BTreeMap<String, Value>;

fn main() -> ExitCode {
    // Without it this is `cargo test`, which builds benchmarks but wants nothing of them.
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(place) = arguments.iter().position(|argument| argument == "--bench") else {
        return ExitCode::SUCCESS;
    };
    arguments.remove(place);
    match compare(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            writeln!(io::stderr(), "error: {err}").ok();
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &[OsString]) -> Result<(), Box<dyn Error>> {
    let bench = Path::new(env!("CARGO_BIN_EXE_safelight")).with_file_name("safelight-bench");
    if !bench.exists() {
        let text = "expected safelight-bench, found none; `cargo xtask bench --help` builds it";
        return Err(format!("{text}: {}", bench.display()).into());
    }
    let mut ours = Command::new(bench);
    ours.args(arguments).arg("--json");
    let (order, ours) = results(&mut ours)?;
    let variables = ["SAFELIGHT_PEER_PYTHON", "SAFELIGHT_PEER_SCRIPT"].map(std::env::var_os);
    let peer = match variables {
        // A small network of ours has no counterpart there.
        [Some(python), Some(script)] if !arguments.iter().any(|a| a == "--small") => {
            results(Command::new(python).arg(script).args(&order))?.1
        }
        _ => Results::new(),
    };
    let mut out = io::stdout().lock();
    for case in &order {
        let line = compared(&ours[case], peer.get(case));
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Runs a program that prints one JSON object a line. The names of the cases in their order, and the objects.
fn results(command: &mut Command) -> Result<(Vec<String>, Results), Box<dyn Error>> {
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut order = Vec::new();
    let mut results = Results::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let found: Value = serde_json::from_str(line)?;
        let Some(case) = found["case"].as_str() else {
            return Err(format!("expected a case, found {line}").into());
        };
        order.push(case.to_owned());
        results.insert(case.to_owned(), found);
    }
    if order.is_empty() {
        return Err(format!(
            "{} measured nothing: {}",
            command.get_program().display(),
            output.status
        )
        .into());
    }
    Ok((order, results))
}

/// Below 1 means that we are better.
fn compared(ours: &Value, peer: Option<&Value>) -> Value {
    let ratio = |name: &str| {
        let (ours, peer) = (ours[name].as_f64()?, peer?[name].as_f64()?);
        (peer > 0.0).then(|| (ours / peer * 1000.0).round() / 1000.0)
    };
    json!({
        "case": ours["case"],
        "time_ratio": ratio("median_s"),
        "peak_ratio": ratio("peak_gib"),
        "reserved_ratio": ratio("peak_reserved_gib"),
        "safelight": ours,
        "peer": peer,
    })
}
