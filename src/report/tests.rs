//! Reports as a whole: written, read again, stopped at once, and made where no engine can be started.

use std::sync::{Mutex, PoisonError};

use super::*;

fn options(root: &Path) -> ReportOptions {
    ReportOptions {
        paths: AppPaths::under(root),
        settings: Settings::default(),
        device: DeviceChoice::Cpu,
        limit: LIMIT,
    }
}

#[test]
fn interrupted_report_is_written_and_marked_incomplete() {
    let root = tempfile::tempdir().unwrap();
    let cancel = CancelToken::default();
    cancel.cancel();
    let report = make(&options(root.path()), &cancel, &|_| {}, &mut |_| {});
    assert!(report.incomplete.is_some() && report.sections.is_empty());
    let place = ReportPath::new_in(&root.path().join("reports"));
    report.write(&place).unwrap();
    assert_eq!(MachineReport::read(&place.file).unwrap(), report);
    let page = std::fs::read_to_string(&place.page).unwrap();
    assert!(page.contains("Incomplete"), "{page}");
    for foreign in ["<script", "http://", "https://"] {
        assert!(!page.contains(foreign), "{page}");
    }
}

#[test]
fn report_is_saved_after_each_section_and_progress_never_decreases() {
    let root = tempfile::tempdir().unwrap();
    let mut options = options(root.path());
    // Nothing but what the machine is has time.
    options.limit = Duration::from_secs(7);
    let parts = Mutex::new(Vec::new());
    let mut kept = 0;
    let tell = |progress: ReportProgress| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(progress.part);
    };
    let report = make(&options, &CancelToken::default(), &tell, &mut |report| {
        assert!(report.incomplete.is_some());
        kept += 1;
    });
    assert_eq!(kept, 1 + measure::STEPS.len());
    let parts = parts.into_inner().unwrap_or_default();
    assert!(parts.is_sorted() && parts.last() >= Some(&0.5), "{parts:?}");
    assert_eq!(report.incomplete, None);
    for section in &report.sections {
        let is_empty = section.problems.is_empty() && section.rows.is_empty();
        assert!(!is_empty, "{section:?}");
    }
    let left = std::fs::read_dir(&options.paths.cache).into_iter();
    assert_eq!(
        left.flatten().count(),
        0,
        "the folder for large files is gone"
    );
}

#[test]
fn invalid_or_outdated_reports_are_refused_with_advice() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("other.json");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        MachineReport::read(&path).unwrap_err()
    };
    for text in ["{}", "[]", "nonsense"] {
        let err = refused(text);
        assert!(
            err.summary.starts_with("this is not a report of Safelight"),
            "{err}"
        );
    }
    let err = refused(r#"{"format": 2, "safelight": "0.1.0"}"#);
    assert!(err.summary.contains("the report is damaged"), "{err}");
    let old = refused(r#"{"format": 1, "safelight": "0.0.9", "sections": [], "course": {}}"#);
    for err in [old, compare::ReportFigures::read(&path).unwrap_err()] {
        let said = "has format 1 and this version reads format 2";
        assert!(err.summary.contains(said), "{err}");
        assert!(err.advice.contains("Safelight 0.0.9") && err.advice.contains("safelight report"));
    }
}

fn full() -> MachineReport {
    let row = |id: &str, value: f64, unit: &str| ReportRow {
        id: id.to_owned(),
        label: format!("The case {id}"),
        figures: vec![ReportFigure::new("a call", value, unit)],
        ..ReportRow::default()
    };
    let networks = ReportSection {
        id: "networks".to_owned(),
        title: "Networks".to_owned(),
        problems: vec!["The engine ended while it measured (signal 11).".to_owned()],
        rows: vec![
            row("a", 2.0, "s"),
            row("<script>", 4.0, "s"),
            row("c", 0.01, ""),
        ],
        left_out: vec!["FramePack: It needs 27 GiB".to_owned()],
        ..ReportSection::default()
    };
    let mut report = MachineReport {
        format: FORMAT,
        safelight: "0.1.0".to_owned(),
        device: "AMD gfx1151".to_owned(),
        sections: vec![networks],
        ..MachineReport::default()
    };
    let mut first_decode = row("vae_flux_1024_bands", 12.5, "s");
    first_decode.figures[0].name = "first".to_owned();
    report.sections[0].rows.push(first_decode);
    report.sections.insert(0, rows::targets(&report));
    report
}

#[test]
fn report_page_shows_all_figures_problems_and_skipped_cases() {
    let page = page::report(&full());
    let figures = "12.5 <small>s|>target<|>10 <small>s|>4 <small>s|0.0100|<svg";
    let words = "signal 11|The case a|It needs 27 GiB|&lt;script&gt;";
    for part in figures.split('|').chain(words.split('|')) {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn two_reports_are_compared_by_their_rows() {
    let root = tempfile::tempdir().unwrap();
    let folders = [root.path().join("a"), root.path().join("b")];
    let paths = folders.map(|folder| ReportPath::new_in(&folder));
    let mut slower = full();
    slower.sections[1].rows[0].figures[0].value = 2.2;
    full().write(&paths[0]).unwrap();
    slower.write(&paths[1]).unwrap();
    let [before, after] = paths.map(|it| compare::ReportFigures::read(&it.file).unwrap());
    let pairs = compare::compare(&before, &after);
    assert_eq!((pairs.len(), compare::num_worse(&pairs)), (4, 1));
    assert_eq!(pairs[0].cells()[4], "SLOWER");
}
