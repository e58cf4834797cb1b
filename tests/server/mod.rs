//! The server: a real one on a free port, in front of the app without a window, with a test in the worker's place.

mod access;
mod clients;
mod jobs;
mod mcp;
mod openai;
mod openapi;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use safelight::runtimes::RuntimeOverview;
use safelight::server::link::JobEvent;
use safelight::server::{self, ServerOptions};
use safelight::window::app::StartupOptions;
use safelight::window::desktop::DesktopLinks;
use safelight::window::library::models::FoundModels;
use safelight::window::{AppWaker, run_headless};
use safelight::worker::{JobSources, WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
use safelight_core::job::{
    GenerateRequest, JobError, JobErrorKind, JobRequest, Recipe, Stage, Video,
};
use safelight_core::job_update::{JobOutcome, JobOutput, JobUpdate, PreviewFrame};
use safelight_core::media::{RgbPixels, write_png};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, LoadedSettings, Settings};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::broadcast;

use crate::app_window::{flux_spec, spec};

/// A server, its app, and a worker that makes grey images, by what prompts say: `fail`, `wait` until the job is cancelled,
/// or until a preview is `seen`.
pub struct ServedApp {
    pub home: TempDir,
    stop: Arc<AtomicBool>,
    waker: AppWaker,
    pub address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    pub agent: ureq::Agent,
    token: Option<String>,
    requests: Arc<Mutex<Vec<GenerateRequest>>>,
}

/// An answer: status, content type and body.
pub struct HttpAnswer {
    pub status: u16,
    pub kind: String,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Sentence of an error with this status.
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        let error = &self.json()["error"];
        error["message"].as_str().expect("a message").to_owned()
    }
}

impl ServedApp {
    pub fn new() -> Self {
        Self::of(vec![flux_spec(), spec()], None)
    }

    pub fn of(specs: Vec<ModelSpec>, token: Option<&str>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let paths = AppPaths::under(home.path());
        let (waker, woken) = AppWaker::new();
        let by_server = waker.clone();
        let (link, app) = server::link::link(move || by_server.wake());
        let events = link.events.clone();
        let options = ServerOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            token: token.map(ToOwned::to_owned),
            uploads: paths.uploads(),
        };
        let server = server::start(link, options).unwrap();
        let address = server.address;
        let mut startup = StartupOptions::new(LoadedSettings::default(), paths.clone());
        startup.models = Some(FoundModels {
            specs,
            ..FoundModels::default()
        });
        startup.library.check_engine = Arc::new(|_| Ok(()));
        startup.desktop = DesktopLinks::none();
        startup.library.survey = Arc::new(|_, _| {});
        startup.runtimes.look = Arc::new(|_| RuntimeOverview::default());
        let (handle, far) = WorkerHandle::detached();
        let stop = Arc::new(AtomicBool::new(false));
        let (is_stopped, by_worker) = (Arc::clone(&stop), waker.clone());
        let by_test = waker.clone();
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let app = named("app").spawn(move || {
            let is_stopped = || is_stopped.load(Ordering::Relaxed);
            let mut handle = Some(handle);
            let start = move |_| {
                handle
                    .take()
                    .ok_or_else(|| std::io::Error::other("one worker"))
            };
            run_headless(
                startup,
                (app, Some(server)),
                (waker, woken),
                start,
                is_stopped,
            );
        });
        let requests = Arc::new(Mutex::new(Vec::new()));
        let worker = TestWorker {
            far,
            paths,
            waker: by_worker,
            requests: Arc::clone(&requests),
            events,
        };
        let worker = named("worker").spawn(move || worker.work());
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(1)))
            .build()
            .into();
        Self {
            home,
            stop,
            waker: by_test,
            address,
            threads: vec![app.unwrap(), worker.unwrap()],
            agent,
            token: token.map(ToOwned::to_owned),
            requests,
        }
    }

    /// The last job that the worker got.
    pub fn last_request(&self) -> GenerateRequest {
        let requests = self.requests.lock().unwrap();
        requests.last().expect("a job was made").clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn send(&self, request: ureq::http::Request<impl ureq::AsSendBody>) -> HttpAnswer {
        let mut response = self.agent.run(request).expect("an answer");
        let kind = response.headers().get("content-type");
        let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_owned();
        HttpAnswer {
            status: response.status().as_u16(),
            kind,
            body: response.body_mut().read_to_vec().unwrap(),
        }
    }

    pub fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let builder = ureq::http::Request::builder();
        let builder = builder.method(method).uri(self.url(path));
        match &self.token {
            Some(token) => builder.header("authorization", format!("Bearer {token}")),
            None => builder,
        }
    }

    pub fn get(&self, path: &str) -> HttpAnswer {
        self.send(self.request("GET", path).body(()).unwrap())
    }

    pub fn with_header(&self, path: &str, name: &str, value: &str) -> HttpAnswer {
        let request = self.request("GET", path).header(name, value);
        self.send(request.body(()).unwrap())
    }

    pub fn delete(&self, path: &str) -> HttpAnswer {
        self.send(self.request("DELETE", path).body(()).unwrap())
    }

    pub fn send_json(&self, method: &str, path: &str, value: &Value) -> HttpAnswer {
        let request = self.request(method, path);
        let request = request.header("content-type", "application/json");
        self.send(request.body(value.to_string()).unwrap())
    }

    pub fn post(&self, path: &str, value: &Value) -> HttpAnswer {
        self.send_json("POST", path, value)
    }

    pub fn post_bytes(&self, path: &str, kind: &str, bytes: Vec<u8>) -> HttpAnswer {
        let request = self.request("POST", path).header("content-type", kind);
        self.send(request.body(bytes).unwrap())
    }

    /// Submits a job by its prompt; returns its id.
    pub fn submit(&self, prompt: &str) -> String {
        let form = serde_json::json!({ "form": { "model": "flux", "prompt": prompt } });
        let answer = self.post("/api/jobs", &form);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()["jobs"][0].as_str().expect("an id").to_owned()
    }

    /// Waits until a job has this status.
    pub fn until(&self, id: &str, status: &str) -> Value {
        let begin = Instant::now();
        loop {
            let job = self.get(&format!("/api/jobs/{id}")).json();
            if job["status"] == status {
                return job;
            }
            assert!(begin.elapsed() < Duration::from_secs(50), "{job}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Names of the files below the home, but for those that the app keeps for itself.
    pub fn results(&self) -> BTreeSet<PathBuf> {
        let folder = AppPaths::under(self.home.path());
        let folder = Settings::default().output.images_folder_or_default(&folder);
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|entry| entry.path()).collect()
    }
}

impl ServedApp {
    /// Ends the program.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Waits until the program has ended.
    pub fn join(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

impl Drop for ServedApp {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

/// Multipart form of fields and files.
pub fn multipart(fields: &[(&str, Option<&str>, &[u8])]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (name, file, bytes) in fields {
        let file = file.map_or_else(String::new, |file| format!("; filename=\"{file}\""));
        let head =
            format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--edge--\r\n");
    ("multipart/form-data; boundary=edge".to_owned(), body)
}

struct TestWorker {
    far: WorkerFarEnd,
    paths: AppPaths,
    waker: AppWaker,
    requests: Arc<Mutex<Vec<GenerateRequest>>>,
    events: broadcast::Sender<JobEvent>,
}

impl TestWorker {
    fn work(self) {
        while let Ok(command) = self.far.commands.recv() {
            self.make(command);
        }
    }

    fn say(&self, command: &WorkerCommand, update: JobUpdate) {
        let event = WorkerEvent {
            id: command.id,
            update,
        };
        self.far.events.send(event).ok();
        self.waker.wake();
    }

    fn make(&self, mut command: WorkerCommand) {
        let sources = JobSources::new(&self.paths, &Settings::default());
        let (request, notices) = sources.settle(&command).expect("it can be made");
        command.request = request.clone();
        let generate = request.generate().cloned();
        self.requests.lock().unwrap().extend(generate);
        let settled = JobUpdate::Settled {
            request: Box::new(request),
            notices,
        };
        self.say(&command, settled);
        self.say(
            &command,
            JobUpdate::Started(Recipe {
                stages: vec![Stage::Denoise],
            }),
        );
        let stage = JobUpdate::Stage {
            stage: Stage::Denoise,
            section: 0,
            resumed: false,
        };
        self.say(&command, stage);
        let mut events = self.events.subscribe();
        for index in 0..3 {
            let image = grey(32, 60 + 40 * index);
            let frame = PreviewFrame {
                index: 0,
                count: 1,
                image,
            };
            self.say(&command, JobUpdate::Preview(frame));
        }
        let title = command.request.title().into_owned();
        let is_preview = |event| matches!(event, Ok(JobEvent::Preview(..)));
        while title.contains("seen") && !is_preview(events.blocking_recv()) {}
        while title.contains("wait") && !command.cancel.is_cancelled() {
            thread::sleep(Duration::from_millis(2));
        }
        let outcome = if command.cancel.is_paused() {
            JobOutcome::Paused
        } else if command.cancel.is_cancelled() {
            JobOutcome::Cancelled
        } else if title.contains("fail") {
            let err = JobError::new(JobErrorKind::OutOfMemory, "there is not enough memory");
            JobOutcome::Failed(err.advise("Make a smaller image"))
        } else {
            JobOutcome::Finished(finished(&command.request))
        };
        self.say(&command, JobUpdate::Ended(outcome));
    }
}

pub fn grey(side: u32, value: u8) -> Arc<RgbPixels> {
    Arc::new(RgbPixels::from_fn(side, side, |_, _| [value; 3]).unwrap())
}

/// Writes one file an image.
fn finished(request: &JobRequest) -> JobOutput {
    let image = grey(64, 128);
    let out = request.out();
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    let count = request.batch_size();
    let name = |index: u32| match index {
        0 => out.to_owned(),
        index => out.with_extension(format!("{index}.png")),
    };
    let paths: Vec<PathBuf> = (0..count).map(name).collect();
    for path in &paths {
        write_png(path, &image).unwrap();
    }
    JobOutput {
        num_frames: 1,
        video: Arc::new(Video {
            frames: vec![image; count as usize],
            fps: 0.0,
        }),
        paths,
        seed: request.generate().map(|request| request.seed),
        secs: 1.0,
        stages: Vec::new(),
        peak_bytes: 0,
        warnings: Vec::new(),
        plan: None,
        rungs: Vec::new(),
    }
}
