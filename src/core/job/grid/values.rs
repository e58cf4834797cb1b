//! Syntax of an axis' values: a comma-separated list with ranges of numbers and quoted texts.
//!
//! The syntax of other programs is read: A1111's `1-5`, `1-10 (+2)`, `0-1 [5]` and its quotes, SwarmUI's `||` between
//! values and `1, 2, .., 8`, in addition to our `1..5` and `0..1:0.25`. [`super::axis`] interprets the values.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::MAX_GRID_JOBS;

/// Decimals that are kept of a number in a range, so that a tenth three times is 0.3.
const DECIMALS: f64 = 1e6;

/// From, to, and a step or a number of values.
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"([+-]?\d+(?:\.\d+)?)";
    let pattern = format!(
        r"^{number}\s*(?:\.\.|…|-)\s*{number}\s*(?:(?::\s*{number})|(?:\(\s*{number}\s*\))|(?:\[\s*(\d+)\s*\]))?$"
    );
    Regex::new(&pattern).ok()
});

/// The texts of a list, where commas in quotes are none. Empty ones are left out, unless they are quoted.
pub(super) fn texts(list: &str) -> Vec<String> {
    if list.contains("||") {
        let parts = list.split("||").map(|part| part.trim().to_owned());
        return parts.filter(|part| !part.is_empty()).collect();
    }
    let (mut all, mut one) = (Vec::new(), String::new());
    let (mut is_inside, mut was_quoted) = (false, false);
    let mut letters = list.chars().peekable();
    let mut end = |one: &mut String, was_quoted: &mut bool| {
        let text = std::mem::take(one);
        let text = if *was_quoted {
            text
        } else {
            text.trim().to_owned()
        };
        if std::mem::take(was_quoted) || !text.is_empty() {
            all.push(text);
        }
    };
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_inside && letters.peek() == Some(&'"') => {
                letters.next();
                one.push('"');
            }
            '"' if is_inside => is_inside = false,
            '"' if one.trim().is_empty() && !was_quoted => {
                one.clear();
                (is_inside, was_quoted) = (true, true);
            }
            ',' | '\n' if !is_inside => end(&mut one, &mut was_quoted),
            // Behind the closing quote.
            letter if was_quoted && !is_inside && letter.is_whitespace() => {}
            letter => one.push(letter),
        }
    }
    end(&mut one, &mut was_quoted);
    all
}

/// The numbers of a list as texts, with every range written out; what is no number stays as it is. The error is a
/// sentence.
pub(super) fn numbers(list: &str) -> Result<Vec<String>, String> {
    let texts = texts(list);
    let mut all: Vec<String> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        if matches!(text.as_str(), ".." | "..." | "…") {
            // The number after it ends the range.
            let missing =
                || format!("{text:?} needs numbers before and behind it, such as 2, 4, {text}, 12");
            let last = all.last().cloned().ok_or_else(missing)?;
            let next = texts.get(index + 1).ok_or_else(missing)?;
            let step = match all.len().checked_sub(2).and_then(|before| all.get(before)) {
                Some(before) => difference(before, &last),
                None => Some("1".to_owned()),
            };
            let filled = step.and_then(|step| range(&last, next, Some(&step)).transpose());
            let filled = filled.ok_or_else(missing)??;
            let behind_last = filled.len().saturating_sub(1);
            all.extend(
                filled
                    .into_iter()
                    .skip(1)
                    .take(behind_last.saturating_sub(1)),
            );
            continue;
        }
        let found = RANGE
            .as_ref()
            .and_then(|range| range.captures(text).ok().flatten());
        let Some(found) = found else {
            all.push(text.clone());
            continue;
        };
        let group = |number| found.get(number).map_or("", |group| group.as_str());
        let (from, to) = (group(1), group(2));
        let filled = if let Some(count) = found.get(5) {
            spread(from, to, count.as_str())
        } else {
            let step = found
                .get(3)
                .or_else(|| found.get(4))
                .map(|step| step.as_str());
            range(from, to, step).and_then(|filled| {
                filled.ok_or_else(|| {
                    format!("the range {text:?} needs a step, such as {from}..{to}:0.25")
                })
            })
        };
        all.extend(filled?);
    }
    Ok(all)
}

fn difference(first: &str, second: &str) -> Option<String> {
    let (first, second): (f64, f64) = (first.parse().ok()?, second.parse().ok()?);
    Some(rounded(second - first))
}

/// From one number to another, both included where the step meets them; nothing where a step has to be given.
fn range(from: &str, to: &str, step: Option<&str>) -> Result<Option<Vec<String>>, String> {
    // Seeds are longer than what a float keeps.
    if let (Ok(from), Ok(to)) = (from.parse::<i128>(), to.parse::<i128>()) {
        let step = match step.map(str::parse::<i128>) {
            None => Some(1),
            Some(step) => step.ok(),
        };
        if let Some(step) = step.map(i128::abs) {
            return whole_range(from, to, step).map(Some);
        }
    }
    let Some(step) = step else {
        return Ok(None);
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (Some(from), Some(to), Some(step)) = (number(from), number(to), number(step)) else {
        return Ok(None);
    };
    let step = step.abs();
    if step < 1.0 / DECIMALS {
        return Err(no_step());
    }
    let steps = ((to - from).abs() / step + 1e-9).floor();
    if steps >= MAX_GRID_JOBS as f64 {
        return Err(too_long());
    }
    let step = if to < from { -step } else { step };
    let values = (0..=steps as u32).map(|index| rounded(from + step * f64::from(index)));
    Ok(Some(values.collect()))
}

fn whole_range(from: i128, to: i128, step: i128) -> Result<Vec<String>, String> {
    if step == 0 {
        return Err(no_step());
    }
    let steps = to.abs_diff(from) / step.unsigned_abs();
    if steps >= MAX_GRID_JOBS as u128 {
        return Err(too_long());
    }
    let step = if to < from { -step } else { step };
    let values = (0..=steps as i128).map(|index| (from + step * index).to_string());
    Ok(values.collect())
}

fn spread(from: &str, to: &str, count: &str) -> Result<Vec<String>, String> {
    let count: u32 = count.parse().map_err(|_err| too_long())?;
    if count as usize > MAX_GRID_JOBS {
        return Err(too_long());
    }
    let (Ok(from), Ok(to)) = (from.parse::<f64>(), to.parse::<f64>()) else {
        return Ok(Vec::new());
    };
    let is_whole = from.fract() == 0.0 && to.fract() == 0.0 && (to - from).abs() >= 8.0;
    let gaps = f64::from(count.saturating_sub(1).max(1));
    let values = (0..count).map(|index| {
        let value = from + (to - from) * f64::from(index) / gaps;
        // Between whole numbers that are far apart, whole numbers are meant.
        rounded(if is_whole { value.round() } else { value })
    });
    Ok(values.collect())
}

fn rounded(number: f64) -> String {
    let rounded = (number * DECIMALS).round() / DECIMALS;
    // No minus before a zero.
    (rounded + 0.0).to_string()
}

fn no_step() -> String {
    "the step of a range must not be 0".to_owned()
}

fn too_long() -> String {
    format!("a range has more than {MAX_GRID_JOBS} values: take a larger step")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Vec<String> {
        numbers(list).unwrap()
    }

    #[test]
    fn lists_and_ranges_are_read_as_people_write_them_elsewhere() {
        for (list, expected) in [
            ("4, 8,12", vec!["4", "8", "12"]),
            ("1..3", vec!["1", "2", "3"]),
            ("3..1", vec!["3", "2", "1"]),
            ("1-3", vec!["1", "2", "3"]),
            ("-1", vec!["-1"]),
            ("-1..1", vec!["-1", "0", "1"]),
            ("1-10 (+4)", vec!["1", "5", "9"]),
            ("10-1 (-4)", vec!["10", "6", "2"]),
            ("0..1:0.25", vec!["0", "0.25", "0.5", "0.75", "1"]),
            ("0-0.3 [4]", vec!["0", "0.1", "0.2", "0.3"]),
            ("10-50 [3]", vec!["10", "30", "50"]),
            ("2, 4, .., 8", vec!["2", "4", "6", "8"]),
            ("5, .., 8", vec!["5", "6", "7", "8"]),
            ("1 || 2", vec!["1", "2"]),
            ("1,,2,", vec!["1", "2"]),
            (
                "18446744073709551614..18446744073709551615",
                vec!["18446744073709551614", "18446744073709551615"],
            ),
        ] {
            assert_eq!(read(list), expected, "{list}");
        }
    }

    #[test]
    fn a_range_without_an_end_or_a_step_is_refused_with_a_sentence() {
        for (list, expected) in [
            ("0.5..1", "needs a step"),
            ("1..3:0", "must not be 0"),
            ("1..9999999999", "more than 400 values"),
            ("0-1 [99999]", "more than 400 values"),
            ("0..1:0.0000001", "must not be 0"),
            ("1, ..", "needs numbers"),
            ("..", "needs numbers"),
        ] {
            let problem = numbers(list).unwrap_err();
            assert!(problem.contains(expected), "{list}: {problem}");
        }
    }

    #[test]
    fn quotes_keep_commas_and_empty_texts() {
        assert_eq!(
            texts(r#"a boat, "a big, red boat" ,"", "say ""hi""", 5" nails"#),
            ["a boat", "a big, red boat", "", r#"say "hi""#, "5\" nails"]
        );
        assert_eq!(texts("red, blue || green"), ["red, blue", "green"]);
        assert!(texts(" , ").is_empty());
    }
}
