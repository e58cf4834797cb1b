//! Servers and disks that are at fault while a libtorch is installed: each is one sentence, the old one stays in use, and a
//! good server mends it.

use std::fmt::Write as _;
use std::time::Duration;

use safelight_core::units::size_text;
use serde_json::{Value, json};

use super::disk_faults::Faults;
use super::runtime::Home;
use super::server::Answer;
use super::user::{Ended, Result, disk};
use super::wheels::{Wheels, entry, wheel};

/// What came of one.
pub(super) struct Case {
    name: &'static str,
    /// What was said, or that it finished.
    said: String,
    /// That the server gave, with the installation that mended it.
    bytes: u64,
    pub(super) faults: Vec<String>,
}

impl Case {
    pub(super) fn as_json(&self) -> Value {
        json!({"case": self.name, "said": self.said, "bytes": self.bytes, "faults": self.faults})
    }

    pub(super) fn as_text(&self) -> String {
        let (name, said) = (self.name, &self.said);
        let bytes = size_text(self.bytes);
        let mut text = format!("{name:<26} {bytes:>9}  {said}\n");
        for fault in &self.faults {
            // Writing to a string cannot fail.
            writeln!(text, "  {fault}").ok();
        }
        text
    }
}

/// Which of them ends well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Finishes,
    Fails,
}

/// All of them, one after the other.
pub(super) fn all(home: &mut Home<'_>) -> Result<Vec<Case>> {
    let good = home.index.wheels();
    let mut cases = Vec::new();
    let with_torch = |change: fn(&mut super::wheels::Entry)| -> Wheels {
        let mut wheels = good.as_ref().clone();
        let mut first = entry("torch/lib/libtorch_cpu.so", 3_000);
        change(&mut first);
        let torch = wheel("torch-2.11.0", vec![first]);
        for (name, bytes) in &mut wheels {
            if name.starts_with("torch-") {
                bytes.clone_from(&torch);
            }
        }
        wheels
    };
    home.index
        .set_wheels(with_torch(|it| it.listed = Some(b"other".to_vec())));
    cases.push(case(home, "wrong hash", End::Fails, &good)?);
    home.index
        .set_wheels(with_torch(|it| it.claimed = Some(4_000)));
    cases.push(case(home, "truncated member", End::Fails, &good)?);
    home.index
        .set_wheels(with_torch(|it| it.name = "torch/lib/../../../x".to_owned()));
    cases.push(case(home, "a name that leads out", End::Fails, &good)?);
    for (name, status) in [("403", 403), ("404", 404)] {
        home.index.spoil(move |request, answer| {
            if request.path.contains("rocm_sdk_core") {
                Answer::of(status)
            } else {
                answer
            }
        });
        cases.push(case(home, name, End::Fails, &good)?);
    }
    home.index.spoil(|_, mut answer| {
        answer.headers.retain(|(name, _)| name != "accept-ranges");
        answer
    });
    cases.push(case(home, "no ranges", End::Finishes, &good)?);
    cases.push(two_at_once(home, &good)?);
    cases.extend(full_disk(home, &good)?);
    Ok(cases)
}

/// One installation under the fault that the index has now, and a good one behind it.
fn case(
    home: &mut Home<'_>,
    name: &'static str,
    end: End,
    good: &std::sync::Arc<Wheels>,
) -> Result<Case> {
    home.clean()?;
    home.index.given();
    let ended = home.install()?;
    let (said, mut faults) = judged(&ended, end);
    home.index.mend(good);
    faults.extend(home.judge(false)?);
    faults.extend(home.finish()?.1);
    let bytes = home.index.given();
    Ok(Case {
        name,
        said,
        bytes,
        faults,
    })
}

/// The one sentence, and what is wrong with it.
fn judged(ended: &Ended, end: End) -> (String, Vec<String>) {
    let mut faults = Vec::new();
    if ended.errors.contains("panicked") {
        faults.push(format!("a panic: {}", ended.errors.trim()));
    }
    let last = ended.events.last();
    let said = last.and_then(|event| event["message"].as_str());
    let said = said.unwrap_or("it finishes").to_owned();
    if said.lines().count() != 1 {
        faults.push("it is not one sentence".to_owned());
    }
    if (ended.code == Some(0)) != (end == End::Finishes) {
        faults.push(format!("it ends with {:?}", ended.code));
    }
    (said, faults)
}

/// The second is told that the first is at it.
fn two_at_once(home: &mut Home<'_>, good: &std::sync::Arc<Wheels>) -> Result<Case> {
    home.clean()?;
    home.index.given();
    home.index.stop_after(Some(1 << 20));
    let first = home.user.start(&home.arguments())?;
    while !home.index.is_silent() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let words: Vec<String> = home.arguments();
    let mut second = home.user.command(&words);
    let second = second.stdout(std::process::Stdio::piped()).output();
    let second = second.map_err(|err| disk(&err, &home.user.home))?;
    let text = String::from_utf8_lossy(&second.stdout).into_owned();
    let said = text.lines().last().and_then(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        Some(event["message"].as_str()?.to_owned())
    });
    let said = said.unwrap_or_default();
    let mut faults = Vec::new();
    if !said.contains("is installing trial") {
        faults.push(format!("the second says: {text}"));
    }
    home.index.mend(good);
    // Its server speaks again.
    let first = first.end()?;
    faults.extend(judged(&first, End::Finishes).1);
    faults.extend(home.judge(false)?);
    faults.extend(home.finish()?.1);
    Ok(Case {
        name: "two at once",
        said,
        bytes: home.index.given(),
        faults,
    })
}

/// No space from the first write, from one in the middle and at the last.
fn full_disk(home: &mut Home<'_>, good: &std::sync::Arc<Wheels>) -> Result<Vec<Case>> {
    let folder = tempfile::tempdir()
        .map_err(|err| disk(&err, std::path::Path::new("a temporary folder")))?;
    let faults = Faults::build(folder.path())?;
    let variables = home.user.variables.clone();
    let arm = |home: &mut Home<'_>, at: u64| -> Result<()> {
        faults.arm(home.user, "full", at)?;
        let mut all = variables.clone();
        all.append(&mut home.user.variables);
        home.user.variables = all;
        Ok(())
    };
    home.clean()?;
    arm(home, 0)?;
    home.install()?;
    let writes = faults.count();
    let mut cases = Vec::new();
    for (name, at) in [
        ("disk full at first", 1),
        ("disk full half-way", writes / 2),
        ("disk full near the end", writes.saturating_sub(2)),
    ] {
        home.clean()?;
        home.index.given();
        arm(home, at)?;
        let ended = home.install()?;
        home.user.variables.clone_from(&variables);
        let (said, mut found) = judged(&ended, End::Fails);
        home.index.mend(good);
        found.extend(home.judge(false)?);
        found.extend(home.finish()?.1);
        cases.push(Case {
            name,
            said,
            bytes: home.index.given(),
            faults: found,
        });
    }
    Ok(cases)
}
