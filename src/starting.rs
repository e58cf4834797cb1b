//! How long the program takes from its start to its first frame, and where that time goes: one line of the log.
//!
//! Measures only; nothing waits for it and nothing goes by it.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What has been passed on the way, until the first frame was there.
static MARKS: Mutex<Marks> = Mutex::new(Marks {
    begin: None,
    passed: Vec::new(),
    is_over: false,
});

struct Marks {
    begin: Option<Instant>,
    /// Each with the milliseconds since the beginning.
    passed: Vec<(&'static str, f64)>,
    is_over: bool,
}

/// The program's first line.
pub fn begin() {
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    marks.begin.get_or_insert_with(Instant::now);
}

/// Something on the way is done.
pub fn passed(what: &'static str) {
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(begin), false) = (marks.begin, marks.is_over) {
        let millis = begin.elapsed().as_secs_f64() * 1000.0;
        marks.passed.push((what, millis));
    }
}

/// The first frame is on the screen: says how long it took.
pub fn shown() {
    passed("first frame shown");
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    if marks.begin.is_none() || marks.is_over {
        return;
    }
    marks.is_over = true;
    tracing::info!("{}", line(&marks.passed));
}

/// `the window was there after 410 ms: settings read 2, window opened 300, first frame shown 108`.
fn line(passed: &[(&'static str, f64)]) -> String {
    let all = passed.last().map_or(0.0, |last| last.1);
    let mut text = format!("the window was there after {all:.0} ms");
    let mut before = 0.0;
    for (index, (what, millis)) in passed.iter().enumerate() {
        let sign = if index == 0 { ": " } else { ", " };
        // Writing to a string cannot fail.
        write!(text, "{sign}{what} {:.0}", millis - before).ok();
        before = *millis;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_each_part_took() {
        let passed = [
            ("settings read", 2.0),
            ("window opened", 302.4),
            ("shown", 410.0),
        ];
        assert_eq!(
            line(&passed),
            "the window was there after 410 ms: settings read 2, window opened 300, shown 108"
        );
    }
}
