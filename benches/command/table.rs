//! The engine's lines as rows of a table, for people.
//!
//! Lines that no table is for are shown as they are.

use serde_json::Value;

/// How results are shown to people.
pub struct Table {
    pub heading: fn() -> String,
    pub row: fn(&str) -> String,
}

pub const NETWORKS: Table = Table { heading, row };
pub const STEP_CACHES: Table = Table {
    heading: step_cache_heading,
    row: step_cache_row,
};
pub const LOADING: Table = Table {
    heading: load_heading,
    row: load_row,
};
/// Lines as they are.
pub const PLAIN: Table = Table {
    heading: String::new,
    row: |line| format!("{line}\n"),
};

/// The widths fit the longest case and a day of seconds.
fn heading() -> String {
    format!(
        "{:24} {:>10} {:>10} {:>12} {:>10} {:>13}  {}\n",
        "case", "median s", "best s", "weights GiB", "peak GiB", "reserved GiB", "device"
    )
}

/// A line of the engine, for people.
fn row(line: &str) -> String {
    let Ok(found) = serde_json::from_str::<Value>(line) else {
        return format!("{line}\n");
    };
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    if !text("error").is_empty() {
        return format!("{:24} failed: {}\n", text("case"), text("error"));
    }
    let number = |name: &str| found[name].as_f64().unwrap_or_default();
    format!(
        "{:24} {:>10.4} {:>10.4} {:>12.2} {:>10.2} {:>13.2}  {}, {}\n",
        text("case"),
        number("median_s"),
        number("min_s"),
        number("weights_gib"),
        number("peak_gib"),
        number("peak_reserved_gib"),
        text("device"),
        text("dtype"),
    )
}

fn step_cache_heading() -> String {
    format!(
        "{:<14}{:>10}{:>14}{:>16}{:>10}  device\n",
        "cache", "threshold", "steps skipped", "off (rel. L2)", "seconds"
    )
}

/// A line of the engine about a step cache.
fn step_cache_row(line: &str) -> String {
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        return String::new();
    };
    let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| line[key].as_f64();
    let threshold = number("threshold").map_or_else(|| "-".to_owned(), |it| it.to_string());
    let skipped = format!("{} of {}", line["skipped"], line["steps"]);
    format!(
        "{:<14}{threshold:>10}{skipped:>14}{:>16.2e}{:>10.2}  {}\n",
        text("cache"),
        number("relative_l2").unwrap_or_default(),
        number("secs").unwrap_or_default(),
        text("device"),
    )
}

fn load_heading() -> String {
    format!(
        "{:12} {:>8} {:>8} {:>10} {:>10} {:>12} {:>12} {:>12}  {}\n",
        "case",
        "GiB",
        "tensors",
        "median s",
        "GiB/s",
        "device GiB/s",
        "cold GiB/s",
        "disk GiB/s",
        "device"
    )
}

/// A line of the engine about loading; what was not measured is a dash.
fn load_row(line: &str) -> String {
    let Ok(found) = serde_json::from_str::<Value>(line) else {
        return format!("{line}\n");
    };
    let number = |value: &Value, digits: usize| {
        let number = value.as_f64();
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
    };
    let mut row = format!(
        "{:12} {:>8} {:>8} {:>10} {:>10} {:>12} {:>12} {:>12}  {}\n",
        found["case"].as_str().unwrap_or_default(),
        number(&found["gib"], 2),
        number(&found["tensors"], 0),
        number(&found["median_s"], 4),
        number(&found["gib_per_s"], 2),
        number(&found["pinned_copy_gib_per_s"], 2),
        number(&found["cold"]["gib_per_s"], 2),
        number(&found["cold"]["disk_gib_per_s"], 2),
        found["device"].as_str().unwrap_or_default(),
    );
    if found["is_whole"] == Value::Bool(false) {
        row.push_str("failed: what came to the device is not what the file holds\n");
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_caches_stand_under_their_heading() {
        let line = r#"{"cache":"teacache","threshold":0.15,"steps":25,"skipped":12,"relative_l2":0.0371,"secs":4.5,
            "device":"A GPU"}"#;
        let row = step_cache_row(line);
        for part in ["teacache", "0.15", "12 of 25", "3.71e-2", "4.50", "A GPU"] {
            assert!(row.contains(part), "{row}");
        }
        let heading = step_cache_heading();
        assert_eq!(row.find("A GPU"), heading.find("device"), "{heading}{row}");
    }

    #[test]
    fn rows_stand_under_their_heading_and_failures_say_why() {
        let line = r#"{"case":"vae_wan_480p_81f_tiled","median_s":12.34567,"min_s":12.1,"weights_gib":26.5,
            "peak_gib":31.25,"peak_reserved_gib":33.0,"device":"A GPU","dtype":"bf16"}"#;
        let row = row(line);
        let at = |text: &str, part: &str| text.find(part).map(|start| start + part.len());
        assert_eq!(at(&row, "12.3457"), at(&heading(), "median s"), "{row}");
        assert_eq!(at(&row, "31.25"), at(&heading(), "peak GiB"), "{row}");
        assert_eq!(row.find("A GPU, bf16"), heading().find("device"), "{row}");
        let line = r#"{"case":"load_tiny","gib":2.0,"tensors":8192,"median_s":0.05,"gib_per_s":40.0,
            "cold":{"gib_per_s":1.25,"disk_gib_per_s":1.5},"device":"A GPU","is_whole":true}"#;
        let row = load_row(line);
        assert_eq!(
            at(&row, " 1.25"),
            at(&load_heading(), "cold GiB/s"),
            "{row}"
        );
        assert_eq!(at(&row, " -"), at(&load_heading(), "device GiB/s"), "{row}");
        assert_eq!(row.find("A GPU"), load_heading().rfind("device"), "{row}");
        assert!(load_row(r#"{"case":"load","is_whole":false}"#).contains("failed:"));
        let failed = super::row(r#"{"case":"umt5xxl","error":"out of memory"}"#);
        assert_eq!(failed, "umt5xxl                  failed: out of memory\n");
    }
}
