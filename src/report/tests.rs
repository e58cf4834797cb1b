//! Reports as a whole: written, read again, stopped at once, and made where no engine can be started.

use std::sync::{Mutex, PoisonError};

use super::*;

fn order(root: &Path) -> Order {
    Order {
        paths: Paths::under(root),
        settings: Settings::default(),
        device: DeviceChoice::Cpu,
        limit: LIMIT,
    }
}

#[test]
fn a_report_that_is_stopped_at_once_is_written_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let cancel = CancelToken::default();
    cancel.cancel();
    let report = make(&order(root.path()), &cancel, &|_| {}, &mut |_| {});
    assert!(report.incomplete.is_some() && report.sections.is_empty());
    let place = Place::new_in(&root.path().join("reports"));
    report.write(&place).unwrap();
    assert_eq!(Report::read(&place.file).unwrap(), report);
    let page = std::fs::read_to_string(&place.page).unwrap();
    assert!(
        page.contains("Incomplete") && !page.contains("<script"),
        "{page}"
    );
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn what_is_there_is_kept_behind_every_section_and_progress_never_goes_back() {
    let root = tempfile::tempdir().unwrap();
    let mut order = order(root.path());
    // Nothing but what the machine is has time.
    order.limit = Duration::from_secs(7);
    let parts = Mutex::new(Vec::new());
    let mut kept = 0;
    let tell = |progress: Progress| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(progress.part);
    };
    let report = make(&order, &CancelToken::default(), &tell, &mut |report| {
        assert!(report.incomplete.is_some());
        kept += 1;
    });
    assert_eq!(kept, sections::ALL.len());
    let parts = parts.into_inner().unwrap_or_default();
    assert!(parts.is_sorted() && parts.last() > Some(&0.9), "{parts:?}");
    assert_eq!(report.incomplete, None);
    for section in &report.sections {
        assert!(
            !section.problems.is_empty() || !section.rows.is_empty(),
            "{section:?}"
        );
    }
    let left = std::fs::read_dir(&order.paths.cache).into_iter().flatten();
    assert_eq!(left.count(), 0, "the folder for large files is gone");
}

#[test]
fn a_file_that_is_no_report_is_refused_in_one_sentence() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("other.json");
    for text in ["{}", "[]", "nonsense"] {
        std::fs::write(&path, text).unwrap();
        let err = Report::read(&path).unwrap_err().summary;
        assert!(err.starts_with("this is no report of Safelight"), "{err}");
    }
}

/// A report with something of everything.
fn full() -> Report {
    let row = |id: &str, value: f64, unit: &str| Row {
        id: id.to_owned(),
        label: format!("The case {id}"),
        figures: vec![Figure::new("a call", value, unit)],
        ..Row::default()
    };
    Report {
        format: FORMAT,
        device: "AMD gfx1151".to_owned(),
        targets: vec![Target {
            name: "A decode".to_owned(),
            below: 10.0,
            measured: Some(12.5),
            unit: "s".to_owned(),
            note: "as measured".to_owned(),
        }],
        sections: vec![Section {
            id: "networks".to_owned(),
            title: "Networks".to_owned(),
            problems: vec!["The engine ended while it measured (signal 11).".to_owned()],
            rows: vec![row("a", 2.0, "s"), row("b", 4.0, "s"), row("c", 0.01, "")],
            left_out: vec![LeftOut {
                label: "FramePack".to_owned(),
                why: "It needs 27 GiB".to_owned(),
            }],
            ..Section::default()
        }],
        ..Report::default()
    }
}

#[test]
fn the_page_has_every_figure_and_says_what_is_wrong_and_what_was_left_out() {
    let page = html::page(&full());
    for part in [
        "12.5 s",
        "should be below 10 s",
        "signal 11",
        "The case a",
        "4 s",
        "It needs 27 GiB",
        "<svg",
        "0.0100",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn two_reports_are_compared_by_their_rows() {
    let root = tempfile::tempdir().unwrap();
    let (first, second) = (
        Place::new_in(&root.path().join("a")),
        Place::new_in(root.path()),
    );
    let mut slower = full();
    slower.sections[0].rows[0].figures[0].value = 2.2;
    full().write(&first).unwrap();
    slower.write(&second).unwrap();
    let [before, after] = [&first, &second].map(|it| compare::Sheet::read(&it.file).unwrap());
    let pairs = compare::compare(&before, &after);
    assert_eq!((pairs.len(), compare::num_worse(&pairs)), (3, 1));
    assert!(compare::rows(&pairs)[1].contains(&"SLOWER".to_owned()));
}
