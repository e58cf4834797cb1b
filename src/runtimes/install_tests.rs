//! Installing from servers and folders that tests make: wheels of AMD's layout with nothing real in them.

#[path = "../../tests/common/wheels.rs"]
mod wheels;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::{AppPaths, LibtorchRuntime, Settings};
use server::{Answer, Request, Server};
use wheels::{Entry, VERSION, Wheels, entry, index, wheel, wheels};

use super::files::{damaged, missing};
use super::install::{InstallProgress, InstallResult, NOTE, install};
use super::table::{RuntimeBuild, RuntimeKind};
use super::wheel_source::WheelSource;
use super::{RuntimeSearch, all, folder, tried};
use crate::download::DownloadOptions;
use crate::download::tests::server;

const PIECE: u64 = 4 << 10;

fn build() -> RuntimeBuild {
    let packages = [
        &format!("torch=={VERSION}"),
        "amd-torch-device-gfx1151",
        "rocm-sdk-core==7.14.1",
        "rocm-sdk-libraries==7.14.1",
    ];
    RuntimeBuild {
        id: "trial".to_owned(),
        name: "a trial".to_owned(),
        kind: RuntimeKind::Rocm,
        version: VERSION.to_owned(),
        index: "amd".to_owned(),
        packages: packages.map(str::to_owned).to_vec(),
        targets: vec!["gfx1151".to_owned()],
        download_mb: 1,
        licences: String::new(),
        driver: None,
        kernel: None,
    }
}

struct Case {
    root: tempfile::TempDir,
    paths: AppPaths,
    /// Number of self-tests of a runtime.
    tried: AtomicUsize,
}

impl Case {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self {
            paths: AppPaths::under(root.path()),
            root,
            tried: AtomicUsize::new(0),
        }
    }

    fn from(&self, place: &WheelSource) -> Result<InstallResult, JobError> {
        let cancel = CancelToken::default();
        let installed = self.with(place, &cancel, &|_| Ok(true), &mut |_| {});
        installed.map(|it| it.expect("nobody cancels"))
    }

    fn with(
        &self,
        place: &WheelSource,
        cancel: &CancelToken,
        attempt: &dyn Fn(&LibtorchRuntime) -> Result<bool, JobError>,
        report: &mut dyn FnMut(&InstallProgress),
    ) -> Result<Option<InstallResult>, JobError> {
        let options = DownloadOptions {
            piece_bytes: PIECE,
            patience: Duration::from_secs(5),
            retries: 1,
            pause: Duration::from_millis(1),
            ..DownloadOptions::default()
        };
        let attempt = |runtime: &LibtorchRuntime| {
            self.tried.fetch_add(1, Ordering::Relaxed);
            attempt(runtime)
        };
        install(
            &build(),
            place,
            &self.paths,
            &options,
            cancel,
            &attempt,
            report,
        )
    }

    /// Entries of Safelight's runtime folder, except locks.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(folder(&self.paths)).into_iter().flatten();
        let names = entries
            .flatten()
            .filter_map(|it| it.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|it| !is_lock(it)).collect();
        names.sort();
        names
    }
}

fn is_lock(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "lock")
}

/// In the place of torch's wheel.
fn put_torch(wheels: &mut Wheels, torch: Vec<u8>) {
    let mut contents = wheels.iter_mut();
    let (_, content) = contents
        .find(|(name, _)| name.starts_with("torch-"))
        .unwrap();
    *content = torch;
}

fn served(wheels: Wheels) -> (Server, WheelSource) {
    serving(move |request| index(&wheels, request))
}

fn serving(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Server, WheelSource) {
    let server = Server::start(answer);
    let place = WheelSource::Mirror(format!("{}/whl/", server.url));
    (server, place)
}

/// A server that gives something else than a good one.
fn spoiled(
    spoil: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static,
) -> (Server, WheelSource) {
    let wheels = wheels();
    serving(move |request| spoil(request, index(&wheels, request)))
}

#[test]
fn installation_fetches_only_needed_files_verifies_and_tests_them() {
    let case = Case::new();
    let (_server, place) = served(wheels());
    let mut seen = Vec::new();
    let attempt = |runtime: &LibtorchRuntime| {
        assert!(runtime.folders().count() >= 4, "{runtime:?}");
        Ok(true)
    };
    let installed = case.with(&place, &CancelToken::default(), &attempt, &mut |progress| {
        seen.push(progress.clone());
    });
    let installed = installed.unwrap().unwrap();
    assert_eq!(case.names(), ["trial"]);
    let found = all(&case.paths, &Settings::default(), &RuntimeSearch::default());
    let found = found.iter().find(|it| it.id == "trial").unwrap();
    assert_eq!(found.targets(), ["gfx1151"]);
    assert!(found.is_own && found.runtime.kind() == "rocm");
    let file = installed.folder.join("_rocm_sdk_core/lib/libamdhip64.so.7");
    let expected = entry("_rocm_sdk_core/lib/libamdhip64.so.7", 25_000).content;
    assert_eq!(fs::read(file).unwrap(), expected);
    for not_needed in
        "torch/include torch/test _rocm_sdk_core/bin _rocm_sdk_core/include".split(' ')
    {
        assert!(!installed.folder.join(not_needed).exists(), "{not_needed}");
    }
    // The tail of each wheel, up to one piece at each end of what is wanted, and what is wanted.
    let wanted = 30_000 + 20_000 + 9_000 + 25_500 + 35_000;
    assert!(installed.fetched_bytes > wanted);
    assert!(
        installed.fetched_bytes < installed.wheel_bytes,
        "{installed:?}"
    );
    let note = fs::read_to_string(installed.folder.join(NOTE)).unwrap();
    assert!(note.contains("record_sha256"), "{note}");
    assert!(note.contains("gfx1151"), "{note}");
    assert!(matches!(seen.last(), Some(InstallProgress::Trying)));

    // Once more: nothing of it has to come again.
    let again = case.from(&place).unwrap();
    assert_eq!((installed.repaired, again.repaired), (None, Some(0)));
    assert_eq!(case.names(), ["trial"]);
}

#[test]
fn damaged_runtime_is_repaired_by_fetching_only_damaged_files() {
    const GONE: &str = "_rocm_sdk_core/lib/libamdhip64.so.7";
    const CHANGED: &str = "torch/lib/libtorch_hip.so";
    let case = Case::new();
    let (_server, place) = served(wheels());
    let folder = case.from(&place).unwrap().folder;
    let damaged = || damaged(&folder, &CancelToken::default()).unwrap();
    let file = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(damaged().is_empty() && missing(&folder).is_empty());
    let whole = [GONE, CHANGED].map(file);
    fs::remove_file(folder.join(GONE)).unwrap();
    let mut bytes = file(CHANGED);
    bytes[777] ^= 1;
    fs::write(folder.join(CHANGED), bytes).unwrap();
    assert_eq!(damaged(), [GONE, CHANGED]);
    assert_eq!(missing(&folder), [GONE]);
    let settings = Settings::default();
    let here = all(&case.paths, &settings, &RuntimeSearch::default());
    let found = here.iter().find(|it| it.id == "trial").unwrap();
    let cancel = CancelToken::default();
    let tried = tried(found, &case.paths, &settings.runtime, &cancel);
    let err = tried.unwrap_err();
    let expected = format!("trial: 2 files are missing or damaged: {GONE}, {CHANGED}");
    assert_eq!(err.summary, expected);
    assert!(err.advice.contains("safelight runtime install trial"));

    // Until the new one was tried the old one stays, as it is.
    let fails = |_: &LibtorchRuntime| Err(JobError::new(JobErrorKind::Device, "it crashes"));
    case.with(&place, &cancel, &fails, &mut |_| {}).unwrap_err();
    assert_eq!(damaged(), [GONE, CHANGED]);

    let repaired = case.from(&place).unwrap();
    assert_eq!(repaired.repaired, Some(2));
    assert!(
        repaired.fetched_bytes < repaired.wheel_bytes / 2,
        "{repaired:?}"
    );
    assert!(damaged().is_empty());
    assert_eq!([GONE, CHANGED].map(file), whole);
    assert_eq!(case.names(), ["trial"]);

    // As a process leaves it that was killed between the last two steps.
    fs::rename(&folder, folder.with_file_name(".trial.old")).unwrap();
    assert_eq!(case.from(&place).unwrap().repaired, Some(0));
    assert_eq!(case.names(), ["trial"]);
}

#[test]
fn a_folder_of_wheels_does_as_an_index() {
    let case = Case::new();
    let wheels_at = case.root.path().join("wheels");
    fs::create_dir_all(&wheels_at).unwrap();
    for (name, bytes) in wheels() {
        fs::write(wheels_at.join(name), bytes).unwrap();
    }
    let place = WheelSource::Folder(wheels_at.clone());
    let installed = case.from(&place).unwrap();
    assert_eq!(installed.fetched_bytes, 0);
    assert!(installed.folder.join("torch/lib/libtorch_hip.so").is_file());

    let other = Case::new();
    fs::remove_file(wheels_at.join("rocm_sdk_core-7.14.1-py3-none-linux_x86_64.whl")).unwrap();
    let err = other.from(&place).unwrap_err();
    assert!(err.summary.contains("no wheel of rocm-sdk-core 7.14.1"));
}

#[test]
fn interrupted_installation_resumes_where_it_stopped() {
    let case = Case::new();
    let (server, place) = served(wheels());
    let cancel = CancelToken::default();
    let cancelled = case.with(&place, &cancel, &|_| Ok(true), &mut |progress| {
        if matches!(progress, InstallProgress::Fetching { done_bytes, .. } if *done_bytes > 30_000)
        {
            cancel.cancel();
        }
    });
    assert_eq!(cancelled, Ok(None));
    assert_eq!(case.names(), [".trial.part"]);
    // As a killed process leaves it: something half unpacked.
    let half = folder(&case.paths).join(".trial.part/tree/torch/lib/libtorch_cpu.so");
    fs::create_dir_all(half.parent().unwrap()).unwrap();
    fs::write(&half, b"half").unwrap();
    let num_requests = |server: &Server| -> u64 {
        let requests = server.requests("GET");
        let ranges = requests.iter().filter_map(Request::range);
        ranges.map(|(start, end)| (end - start + 1) as u64).sum()
    };
    let before = num_requests(&server);
    let installed = case.from(&place).unwrap();
    let after = num_requests(&server) - before;
    assert!(before > 0, "{before} {after}");
    assert!(after < installed.fetched_bytes, "{before} {after}");
    assert_eq!(case.names(), ["trial"]);
    let whole = fs::read(installed.folder.join("torch/lib/libtorch_cpu.so")).unwrap();
    assert_eq!(whole.len(), 30_000);
}

#[test]
fn a_server_without_pieces_gives_the_wheels_as_wholes() {
    let case = Case::new();
    let (_server, place) = spoiled(|request, mut answer| {
        answer.headers.retain(|(name, _)| name != "accept-ranges");
        assert_eq!(request.range(), None);
        answer
    });
    let installed = case.from(&place).unwrap();
    assert_eq!(installed.fetched_bytes, installed.wheel_bytes);
}

#[test]
fn failed_installation_gives_a_one_line_error_and_installs_nothing() {
    let with = |name: &str, change: fn(&mut Entry)| {
        let mut wheels = wheels();
        let mut entries = vec![
            entry("torch/lib/libtorch_cpu.so", 3_000),
            entry("torch/lib/libtorch_hip.so", 2_000),
        ];
        change(&mut entries[0]);
        put_torch(&mut wheels, wheel(name, entries));
        served(wheels)
    };
    let answering = |status: u16, part: &'static str| {
        spoiled(move |request, answer| {
            let is_spoiled = request.path.contains(part);
            if is_spoiled {
                Answer::of(status)
            } else {
                answer
            }
        })
    };
    let cases: Vec<(&str, (Server, WheelSource), &str)> = vec![
        (
            "another member than the list says",
            with("torch-2.11.0", |it| it.listed = Some(b"other".to_vec())),
            "torch/lib/libtorch_cpu.so is damaged",
        ),
        (
            "a member that is shorter than the table says",
            with("torch-2.11.0", |it| it.claimed = Some(4_000)),
            "torch/lib/libtorch_cpu.so is damaged",
        ),
        (
            "a name that leads out",
            with("torch-2.11.0", |it| it.name.push_str("x/../../y")),
            "leads out of the wheel",
        ),
        (
            "403",
            answering(403, "rocm_sdk_core"),
            "the server refuses to give the file: http://127.0.0.1",
        ),
        (
            "404",
            answering(404, "libraries/"),
            "the file is not on the server: http://127.0.0.1",
        ),
    ];
    for (what, (_server, place), said) in cases {
        let case = Case::new();
        let err = case.from(&place).unwrap_err();
        assert!(err.summary.contains(said), "{what}: {err:?}");
        assert_eq!(err.summary.lines().count(), 1, "{what}: {err:?}");
        assert_eq!(case.names(), [".trial.part"], "{what}");
        assert_eq!(case.tried.load(Ordering::Relaxed), 0, "{what}");
        // A correct server repairs it.
        let (_server, good) = served(wheels());
        assert!(case.from(&good).is_ok(), "{what}");
        assert_eq!(case.names(), ["trial"], "{what}");
    }
}

#[test]
fn a_disk_without_room_is_named_before_anything_is_fetched() {
    let case = Case::new();
    let mut wheels = wheels();
    // A thousand files of 4 GB each, as their table says.
    let entries = (0..1000).map(|number| Entry {
        claimed: Some(u32::MAX - 1),
        ..entry(&format!("torch/lib/lib{number}.so"), 10)
    });
    put_torch(&mut wheels, wheel("torch-2.11.0", entries.collect()));
    let (_server, place) = served(wheels);
    let mut has_fetched = false;
    let cancel = CancelToken::default();
    let result = case.with(&place, &cancel, &|_| Ok(true), &mut |progress| {
        has_fetched |= matches!(progress, InstallProgress::Fetching { .. });
    });
    let err = result.unwrap_err();
    assert!(err.summary.contains("of free space, and there is"));
    assert_eq!((err.kind, has_fetched), (JobErrorKind::Disk, false));
}

#[test]
fn one_that_fails_its_trial_is_not_put_in_place_and_is_not_fetched_again() {
    let case = Case::new();
    let (server, place) = served(wheels());
    let fails = |_: &LibtorchRuntime| Err(JobError::new(JobErrorKind::Device, "it crashes"));
    let result = case.with(&place, &CancelToken::default(), &fails, &mut |_| {});
    assert_eq!(result.unwrap_err().summary, "it crashes");
    assert_eq!(case.names(), [".trial.part"]);
    let num = |server: &Server| {
        let requests = server.requests("GET");
        requests.iter().filter(|it| it.range().is_some()).count()
    };
    let before = num(&server);
    case.from(&place).unwrap();
    assert_eq!(num(&server), before, "everything was here");
}

#[test]
fn only_one_installs_at_a_time() {
    let case = Arc::new(Case::new());
    let (_server, place) = served(wheels());
    let second: Mutex<Option<JobError>> = Mutex::default();
    let attempt = |_: &LibtorchRuntime| {
        *second.lock().unwrap() = case.from(&place).err();
        Ok(true)
    };
    let first = case.with(&place, &CancelToken::default(), &attempt, &mut |_| {});
    assert!(first.unwrap().is_some());
    let err = second.into_inner().unwrap().unwrap();
    assert!(err.summary.contains("is installing trial"), "{err:?}");
}
