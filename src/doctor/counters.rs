//! The checks on what earlier jobs met: how often memory ran out and what helped, and which way of convolving was
//! chosen.
//!
//! Reads files that other parts write, and says nothing where there are none or they are of another version.

use std::fs;
use std::path::Path;

use safelight_core::settings::Paths;
use serde_json::Value;

use super::Check;

const NAME: &str = "memory tiers";

pub(super) fn all(paths: &Paths) -> Vec<Check> {
    let mut checks = ladder(&paths.memory_counters());
    checks.extend(tiers(&paths.tiers_file()));
    checks
}

fn read(file: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// `{"a GPU": {"rungs": {"tiles512": {"attempts": 3, "successes": 1}}, "engine_restarts": 2, "given_up": 0}}`
fn ladder(file: &Path) -> Vec<Check> {
    let Some(Value::Object(devices)) = read(file) else {
        return Vec::new();
    };
    let checks = devices.iter().filter_map(|(device, counters)| {
        let rungs = counters.get("rungs").and_then(Value::as_object);
        let mut parts: Vec<String> = rungs
            .into_iter()
            .flatten()
            .map(|(rung, tally)| {
                let (tried, well) = (count(tally, "attempts"), count(tally, "successes"));
                format!("{} {well} of {tried}", rung.replace('_', " "))
            })
            .collect();
        let restarts = count(counters, "engine_restarts");
        if restarts > 0 {
            parts.push(format!("the engine was replaced {restarts} times"));
        }
        let given_up = count(counters, "given_up");
        if parts.is_empty() && given_up == 0 {
            return None;
        }
        let message = format!(
            "{device}: where memory ran out, these helped: {}",
            parts.join(", ")
        );
        Some(if given_up > 0 {
            Check::warn(
                NAME,
                format!("{message}; {given_up} jobs could not be saved"),
            )
            .advise("Choose a smaller size or a quantised model: `safelight plan` says what fits")
        } else {
            Check::ok(NAME, message)
        })
    });
    checks.collect()
}

/// `{"verdicts": [{"device": …, "dtype": …, "shape": …, "tier": …, "records": [{"tier": …, "attempts": 1, …}]}]}`
fn tiers(file: &Path) -> Vec<Check> {
    let found = read(file);
    let verdicts = found
        .as_ref()
        .and_then(|found| found.get("verdicts")?.as_array());
    let text = |value: &Value, key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or("unknown").replace('_', " ")
    };
    verdicts
        .into_iter()
        .flatten()
        .map(|verdict| {
            let records = verdict.get("records").and_then(Value::as_array);
            let records: Vec<String> = records
                .into_iter()
                .flatten()
                .map(|record| {
                    let (tried, well) = (count(record, "attempts"), count(record, "successes"));
                    format!("{} {well} of {tried}", text(record, "tier"))
                })
                .collect();
            Check::ok(
                NAME,
                format!(
                    "{}: {} convolutions in {} take the way '{}' (worked: {})",
                    text(verdict, "device"),
                    text(verdict, "shape"),
                    text(verdict, "dtype"),
                    text(verdict, "tier"),
                    records.join(", ")
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn counters_are_shown_where_there_are_some_and_nothing_is_said_of_broken_files() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        assert_eq!(all(&paths), []);
        fs::create_dir_all(&paths.data).unwrap();
        fs::create_dir_all(&paths.cache).unwrap();
        let ladder = paths.memory_counters();
        fs::write(&ladder, "[1, {\"").unwrap();
        assert_eq!(all(&paths), []);
        fs::write(&ladder, r#"{"a GPU": {"rungs": {"free_and_retry": {"attempts": 3, "successes": 2}}, "engine_restarts": 1, "given_up": 1}, "other": {}}"#).unwrap();
        let tiers = r#"{"verdicts": [{"device": "a GPU", "dtype": "bf16", "shape": "large", "tier": "frames", "records": [{"tier": "direct", "attempts": 1, "successes": 0}]}]}"#;
        fs::write(paths.tiers_file(), tiers).unwrap();
        let checks = all(&paths);
        assert_eq!(checks.len(), 2, "{checks:?}");
        assert_eq!(checks[0].status, Status::Warn);
        assert!(
            checks[0].message.contains("free and retry 2 of 3"),
            "{checks:?}"
        );
        assert!(
            checks[1]
                .message
                .contains("'frames' (worked: direct 0 of 1)"),
            "{checks:?}"
        );
    }
}
