//! A newer Safelight is told of where its user wants that, and nothing is asked otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use safelight::updates::Newest;
use safelight_core::job::{JobError, JobErrorKind};

use crate::harness::Bench;

const FEED: &str = "https://updates.example/newest.json";

/// The window with these settings, and how often somebody was asked.
fn window(
    check: bool,
    feed: Option<&str>,
    answer: Result<&str, &str>,
) -> (Bench, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let answer = answer.map(str::to_owned).map_err(str::to_owned);
    let bench = Bench::with(|startup| {
        startup.settings.updates.check = check;
        startup.settings.updates.feed = feed.map(str::to_owned);
        startup.ask_newest = Arc::new(move |address| {
            assert_eq!(address, FEED);
            counter.fetch_add(1, Ordering::Relaxed);
            let newest = |version| Newest {
                version,
                page: Some("https://updates.example/new".to_owned()),
            };
            let err = |what| JobError::new(JobErrorKind::Network, what);
            answer.clone().map(newest).map_err(err)
        });
    });
    (bench, asked)
}

#[test]
fn a_newer_version_is_told_once_with_its_page() {
    let (mut bench, asked) = window(true, Some(FEED), Ok("999.0"));
    bench.until("it is told", |bench| bench.has("Safelight 999.0 is there"));
    bench.assert_shows("https://updates.example/new");
    for _ in 0..5 {
        bench.settle();
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn nobody_is_asked_unless_both_settings_are_set() {
    for (check, feed) in [(false, Some(FEED)), (true, None), (false, None)] {
        let (mut bench, asked) = window(check, feed, Ok("999.0"));
        for _ in 0..5 {
            bench.settle();
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0, "{check} {feed:?}");
        assert!(bench.told().is_empty());
    }
}

#[test]
fn the_same_version_and_an_address_that_does_not_answer_are_no_news() {
    for answer in [Ok(safelight::updates::VERSION), Err("nobody answers")] {
        let (mut bench, asked) = window(true, Some(FEED), answer);
        bench.until("it was asked", |_| asked.load(Ordering::Relaxed) == 1);
        for _ in 0..5 {
            bench.settle();
        }
        assert!(bench.told().is_empty(), "{answer:?}");
    }
}
