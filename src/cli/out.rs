//! Output of listing commands: plain tables for people, one JSON object for programs.
//!
//! A reader that closes early (`| head`) is no failure.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use safelight_core::job::JobError;
use safelight_core::sanitize::{one_line, printable, printable_json};
use serde_json::{Value, json};

/// Longer names are cut.
const MAX_CELL: usize = 200;

/// Writes to standard output; the code is `code` unless the text could not be written.
pub fn print(text: &str, code: u8) -> ExitCode {
    code_of(write_out(&printable(text)), code)
}

/// Prints the JSON object for programs, or the text for people.
pub fn print_either(is_json: bool, value: &Value, text: &str, code: u8) -> ExitCode {
    if is_json {
        print_json(value, code)
    } else {
        print(text, code)
    }
}

pub fn print_json(value: &Value, code: u8) -> ExitCode {
    code_of(write_json_line(value), code)
}

/// Writes one line of JSON to standard output.
pub fn write_json_line(value: &Value) -> io::Result<()> {
    write_out(&printable_json(&format!("{value}\n")))
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn code_of(written: io::Result<()>, code: u8) -> ExitCode {
    match written {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(code),
    }
}

/// Says why something could not be done: on standard error, or as a JSON object on standard output.
pub fn print_job_error(err: &JobError, is_json: bool) -> ExitCode {
    let code = err.kind.exit_code();
    if is_json {
        return print_json(
            &json!({"error": err.summary, "advice": err.advice, "exit_code": code}),
            code,
        );
    }
    let mut text = format!("error: {}\n", err.summary);
    if !err.advice.is_empty() {
        text.push_str(&err.advice);
        text.push('\n');
    }
    // If standard error is closed, the exit code still reports it.
    io::stderr().write_all(printable(&text).as_bytes()).ok();
    ExitCode::from(code)
}

/// Why arguments are refused, as clap says it.
pub fn misunderstood(err: &clap::Error) -> JobError {
    let text = err.to_string();
    let first_line = text.lines().next().unwrap_or_default();
    let summary = first_line.trim_start_matches("error: ");
    JobError::invalid(summary).detail(&text)
}

/// Asks at the terminal; fails without a terminal. `doing`: purpose of the question, as in "to download".
pub fn ask(question: &str, doing: &str, is_json: bool) -> Result<bool, JobError> {
    if is_json || !io::stdin().is_terminal() {
        let text = format!("without a terminal, or with --json, add --yes to {doing}");
        return Err(JobError::invalid(text));
    }
    let mut terminal = io::stderr();
    // Whoever cannot read the question says no.
    write!(terminal, "{question} [y/N] ")
        .and_then(|()| terminal.flush())
        .ok();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).ok();
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Rows with every column as wide as its widest cell, indented by two.
pub fn table(rows: &[Vec<String>]) -> String {
    let cells = |row: &Vec<String>| -> Vec<String> {
        row.iter()
            .map(|cell| one_line(cell, MAX_CELL).into_owned())
            .collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let num_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..num_columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let missing = width - cell.chars().count();
            format!("{cell}{}", " ".repeat(missing))
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other_and_lines_end_without_spaces() {
        let rows = [vec!["a", "bcd", ""], vec!["é1", "b", "c"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(table(&rows), "  a   bcd\n  é1  b    c\n");
        assert_eq!(table(&[]), "");
    }
}
