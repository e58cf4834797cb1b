//! Downloads from servers that drop, stall, lie and corrupt.

#[path = "../../../tests/common/server.rs"]
pub(crate) mod server;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use safelight_core::job::CancelToken;
use tempfile::TempDir;

use super::partial::{note_path, part_path};
use super::*;
use server::{Answer, Request, Server, good};

/// Three pieces, the last of them short.
const BYTES: usize = 2 * PIECE + 12_345;
const PIECE: usize = 1 << 20;

fn content(bytes: usize) -> Vec<u8> {
    let words =
        (0..bytes.div_ceil(4) as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(bytes).collect()
}

fn quick() -> DownloadOptions {
    DownloadOptions {
        piece_bytes: PIECE as u64,
        patience: Duration::from_mins(10),
        retries: 2,
        pause: Duration::from_millis(1),
        ..DownloadOptions::default()
    }
}

struct Case {
    folder: TempDir,
    server: Server,
}

impl Case {
    fn new(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: Server::start(answer),
        }
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("models/vae/ae.safetensors")
    }

    fn run(&self) -> Result<Option<Vec<PathBuf>>, DownloadError> {
        self.run_by(&quick())
    }

    fn run_by(&self, options: &DownloadOptions) -> Result<Option<Vec<PathBuf>>, DownloadError> {
        self.run_with(options, &CancelToken::default(), &mut |_| {})
    }

    fn run_with(
        &self,
        options: &DownloadOptions,
        cancel: &CancelToken,
        report: &mut dyn FnMut(&DownloadStatus),
    ) -> Result<Option<Vec<PathBuf>>, DownloadError> {
        download(&[self.order(None)], options, cancel, report)
    }

    fn order(&self, bytes: Option<u64>) -> DownloadItem {
        DownloadItem {
            url: format!("{}/ae.safetensors", self.server.url),
            to: self.to(),
            bytes,
        }
    }

    /// First bytes of the parts that were requested, in order.
    fn starts(&self) -> Vec<usize> {
        let requests = self.server.requests("GET").into_iter();
        let mut starts: Vec<usize> = requests.filter_map(|it| Some(it.range()?.0)).collect();
        starts.sort_unstable();
        starts
    }

    /// The file is there, as it was sent, and nothing else.
    fn assert_whole(&self, file: &[u8]) {
        assert!(fs::read(self.to()).unwrap() == file, "another content");
        self.assert_names(&["ae.safetensors"]);
    }

    fn assert_names(&self, expected: &[&str]) {
        let folder = self.to().parent().unwrap().to_owned();
        let entries = fs::read_dir(folder).into_iter().flatten();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_file_comes_in_pieces_over_several_connections_with_progress() {
    let case = Case::new(|request| good(request, &content(BYTES)));
    let mut seen = Vec::new();
    let got = case.run_with(&quick(), &CancelToken::default(), &mut |progress| {
        seen.push(progress.clone());
    });
    assert_eq!(got.unwrap().unwrap(), [case.to()]);
    case.assert_whole(&content(BYTES));
    assert_eq!(case.starts(), [0, PIECE, 2 * PIECE]);
    let mut seen = seen.iter();
    let last = seen
        .rfind(|it| it.phase == DownloadPhase::Fetching)
        .unwrap();
    assert_eq!([last.done_bytes, last.total_bytes], [BYTES as u64; 2]);
    assert_eq!(last.name.as_str(), "ae.safetensors");
    assert_eq!(last.secs_left().unwrap_or(0.0), 0.0);
    // A file that is there is not requested again.
    assert!(case.run().unwrap().is_some());
    assert_eq!(case.server.requests("GET").len(), 3);
}

#[test]
fn dropped_or_stalled_connection_resumes_where_it_stopped() {
    let failed = Mutex::new(HashSet::new());
    let case = Case::new(move |request| {
        let answer = good(request, &content(BYTES));
        let Some((start, _)) = request.range() else {
            return answer;
        };
        // Each fault once.
        match start {
            _ if !failed.lock().unwrap().insert(start) => answer,
            0 => Answer {
                drops_after: Some(300_000),
                ..answer
            },
            300_000 => Answer::of(503),
            PIECE => Answer {
                stalls_after: Some((500_000, Duration::from_secs(30))),
                ..answer
            },
            _ => answer,
        }
    });
    let options = DownloadOptions {
        patience: Duration::from_secs(5),
        ..quick()
    };
    assert!(case.run_by(&options).unwrap().is_some());
    case.assert_whole(&content(BYTES));
    let expected = [0, 300_000, 300_000, PIECE, PIECE + 500_000, 2 * PIECE];
    assert_eq!(case.starts(), expected);
}

#[test]
fn failed_download_keeps_its_pieces_and_the_next_attempt_resumes() {
    let is_down = Arc::new(Mutex::new(true));
    let down = Arc::clone(&is_down);
    let case = Case::new(move |request| {
        let answer = good(request, &content(BYTES));
        let is_late = request.range().is_some_and(|(start, _)| start >= PIECE);
        let is_gone = is_late && *down.lock().unwrap();
        Answer {
            drops_after: is_gone.then_some(0),
            ..answer
        }
    });
    // One piece after the other: of several at once, those that still come are given up with the first that is not to
    // be had.
    let options = DownloadOptions {
        connections: 1,
        ..quick()
    };
    let err = case.run_by(&options).unwrap_err();
    assert!(err.to_string().contains("broke too often"), "{err}");
    case.assert_names(&["ae.safetensors.part", "ae.safetensors.part.json"]);
    *is_down.lock().unwrap() = false;
    let before = case.server.requests("GET").len();
    assert!(case.run().unwrap().is_some());
    case.assert_whole(&content(BYTES));
    let after = case.server.requests("GET").len() - before;
    assert!(after <= 2, "{after} pieces, though the first was there");
}

#[test]
fn a_damaged_file_is_named_and_deleted() {
    let digest = |file: &[u8]| {
        use sha2::Digest as _;
        safelight_wheels::hex(&sha2::Sha256::digest(file))
    };
    for is_corrupt in [true, false] {
        let sum = digest(&content(100_000));
        let case = Case::new(move |request| {
            let mut answer = good(request, &content(100_000));
            if is_corrupt && let Some(byte) = answer.body.get_mut(77_777) {
                *byte ^= 1;
            }
            answer
                .with("x-linked-etag", format!("\"{sum}\""))
                .with("x-linked-size", 100_000)
        });
        match case.run() {
            Ok(Some(_)) if !is_corrupt => case.assert_whole(&content(100_000)),
            Err(err) if is_corrupt && err.to_string().contains("was damaged") => {
                case.assert_names(&[]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn wrong_lengths_ranges_or_etags_fail_the_download() {
    type Lie = fn(Answer, usize) -> Answer;
    let nothing: Lie = |answer, _| Answer {
        drops_after: Some(0),
        ..answer
    };
    let other_whole: Lie = |answer, _| answer.with("content-range", "bytes 0-99999/99999999");
    let other_part: Lie = |answer, _| answer.with("content-range", "bytes 5-99999/1500000");
    let other_state: Lie = |answer, earlier| answer.with("etag", format!("v{}", earlier + 7));
    for (lie, expected) in [
        (nothing, "too often"),
        (other_whole, "changed"),
        (other_part, "too often"),
        (other_state, "changed"),
    ] {
        let case = Case::new(move |request| {
            let answer = good(request, &content(1_500_000));
            match request.method.as_str() {
                "GET" if request.range().is_some_and(|(start, _)| start > 0) => {
                    lie(answer, request.earlier)
                }
                _ => answer,
            }
        });
        let result = case.run();
        let err = result.unwrap_err().to_string();
        assert!(err.contains(expected), "{err}");
        assert!(!case.to().exists());
    }
}

#[test]
fn a_server_without_pieces_is_read_from_the_beginning() {
    let case = Case::new(|request| {
        let whole = Request {
            headers: BTreeMap::new(),
            ..request.clone()
        };
        let mut answer = good(&whole, &content(500_000));
        answer.headers.retain(|(name, _)| name != "accept-ranges");
        let is_first = request.method == "GET" && request.earlier == 0;
        Answer {
            drops_after: is_first.then_some(200_000),
            ..answer
        }
    });
    assert!(case.run().unwrap().is_some());
    case.assert_whole(&content(500_000));
    assert_eq!(case.starts(), [0; 0]);
}

#[test]
fn the_token_stays_with_the_first_host() {
    let far = Server::start(|request| good(request, &content(1000)));
    let target = far.url.replace("127.0.0.1", "localhost");
    let case = Case::new(move |_| {
        Answer::of(302)
            .with("location", format!("{target}/blob"))
            .with("x-linked-size", 1000)
            .with("content-length", 0)
    });
    let options = DownloadOptions {
        token: Some("hf_secret".to_owned()),
        ..quick()
    };
    assert!(case.run_by(&options).unwrap().is_some());
    case.assert_whole(&content(1000));
    let tokens = |server: &Server| -> HashSet<Option<String>> {
        let seen = server.seen.lock().unwrap();
        let seen = seen.iter();
        seen.map(|it| it.headers.get("authorization").cloned())
            .collect()
    };
    let token = Some("Bearer hf_secret".to_owned());
    assert_eq!(tokens(&case.server), HashSet::from([token]));
    assert_eq!(tokens(&far), HashSet::from([None]));
}

#[test]
fn refused_downloads_fail_with_a_one_line_reason() {
    for (status, expected) in [
        (401, "agreement to its licence"),
        (403, "licence"),
        (404, "not on the server"),
        (418, "error 418"),
    ] {
        let case = Case::new(move |_| Answer::of(status).with("content-length", 0));
        let err = case.run().unwrap_err().to_string();
        assert!(err.contains(expected) && !err.contains('\n'), "{err}");
        assert!(!case.to().exists());
    }
    let case = Case::new(|_| Answer::of(200));
    let err = case.run().unwrap_err();
    assert!(err.to_string().contains("how large the file is"), "{err}");
    let case = Case::new(|_| Answer::of(200).with("content-length", 1_u64 << 60));
    let err = case.run().unwrap_err();
    assert_eq!(err.kind, DownloadErrorKind::NoSpace, "{err}");
    case.assert_names(&[]);
}

#[test]
fn another_file_of_that_name_is_never_written_over() {
    let case = Case::new(|request| good(request, &content(1000)));
    fs::create_dir_all(case.to().parent().unwrap()).unwrap();
    fs::write(case.to(), b"mine").unwrap();
    let err = case.run().unwrap_err();
    assert!(
        err.to_string().starts_with("another file of this name"),
        "{err}"
    );
    assert_eq!(fs::read(case.to()).unwrap(), b"mine");
}

#[test]
fn cancelled_download_is_kept_and_restarts_if_the_file_changed() {
    let file = |version: u8| -> Vec<u8> {
        let bytes = content(BYTES).into_iter();
        bytes.map(|byte| byte.wrapping_mul(version)).collect()
    };
    let version = Arc::new(Mutex::new(1));
    let now = Arc::clone(&version);
    let case = Case::new(move |request| {
        let version = *now.lock().unwrap();
        good(request, &file(version)).with("etag", format!("v{version}"))
    });
    let cancel = CancelToken::default();
    let options = DownloadOptions {
        connections: 1,
        ..quick()
    };
    let got = case.run_with(&options, &cancel, &mut |progress| {
        if progress.done_bytes > 0 {
            cancel.cancel();
        }
    });
    assert!(matches!(got, Ok(None)), "{got:?}");
    assert!(part_path(&case.to()).exists() && note_path(&case.to()).exists());
    *version.lock().unwrap() = 3;
    assert!(case.run().unwrap().is_some());
    case.assert_whole(&file(3));
}

#[test]
fn cancelling_does_not_wait_for_a_silent_server_and_the_next_attempt_begins_at_once() {
    let is_silent = Arc::new(Mutex::new(true));
    let silent = Arc::clone(&is_silent);
    let case = Case::new(move |request| {
        let answer = good(request, &content(BYTES));
        let is_piece = request.method == "GET" && request.path == "/ae.safetensors";
        let is_stalled = is_piece && *silent.lock().unwrap();
        Answer {
            stalls_after: is_stalled.then_some((50_000, Duration::from_hours(1))),
            ..answer
        }
    });
    let (options, cancel) = (quick(), CancelToken::default());
    let begin = Instant::now();
    let got = case.run_with(&options, &cancel, &mut |progress| {
        if progress.done_bytes == 112_345 {
            cancel.cancel();
        }
    });
    assert!(matches!(got, Ok(None)), "{got:?}");
    assert!(begin.elapsed() < Duration::from_mins(2));
    *is_silent.lock().unwrap() = false;
    let quotes = quote(&[case.order(None)], &options, &CancelToken::default());
    let expected = RemoteQuote {
        bytes: BYTES as u64,
        here_bytes: 112_345,
    };
    assert_eq!(quotes.unwrap().unwrap(), [expected]);
    // The connections of before still wait.
    assert!(case.run().unwrap().is_some());
    case.assert_whole(&content(BYTES));
}

#[test]
fn cancelling_does_not_wait_for_the_first_answer() {
    let (requested, is_requested) = crossbeam_channel::bounded(1);
    let case = Case::new(move |_| {
        requested.try_send(()).ok();
        thread::sleep(Duration::from_hours(1));
        Answer::of(200)
    });
    let cancel = CancelToken::default();
    let far = cancel.clone();
    let begin = Instant::now();
    let canceller = thread::Builder::new().spawn(move || {
        is_requested.recv().ok();
        far.cancel();
    });
    let got = case.run_with(&quick(), &cancel, &mut |_| {});
    assert!(matches!(got, Ok(None)), "{got:?}");
    assert!(begin.elapsed() < Duration::from_mins(2));
    canceller.unwrap().join().unwrap();
}

#[test]
fn a_server_with_another_file_than_the_catalogue_names_is_refused_before_anything_comes() {
    let case = Case::new(|request| good(request, &content(BYTES)));
    let quotes = quote(&[case.order(Some(7))], &quick(), &CancelToken::default());
    let err = quotes.unwrap_err().to_string();
    let said = format!("the server has another file: {BYTES} bytes instead of 7");
    assert!(err.starts_with(&said), "{err}");
    case.assert_names(&[]);
}

#[test]
fn a_server_that_leads_in_circles_or_to_a_file_of_this_machine_is_refused_at_once() {
    for target in ["/ae.safetensors", "file:///etc/passwd"] {
        let case = Case::new(move |_| Answer::of(302).with("location", target));
        let err = case.run_by(&DownloadOptions::default()).unwrap_err();
        assert!(
            err.to_string().contains("redirects to another place"),
            "{err}"
        );
        assert!(case.server.requests("HEAD").len() < 20, "again and again");
        case.assert_names(&[]);
    }
}
