//! `safelight download` as a user runs it, against a server on this machine.

mod trust;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::server::{Answer, Request, Server, good};
use crate::common::{Home, assert_says, text};

const TRANSFORMER: &str =
    "/tiny/wan/resolve/main/split_files/diffusion_models/tiny_wan.safetensors";
const TEXT_ENCODER: &str = "/tiny/wan/resolve/main/split_files/text_encoders/tiny_umt5.safetensors";
const VAE: &str = "/tiny/parts/resolve/main/tiny%20vae.safetensors";

/// A user's own addition to the catalogue: a model whose parts are tiny.
const MODELS: &str = r#"
[source.tiny-umt5]
component = "text_encoder"
repository = "tiny/wan"
path = "split_files/text_encoders/tiny_umt5.safetensors"
folder = "text_encoders"

[[model]]
id = "tiny"
name = "Tiny"
licence = "CC0-1.0"
family = "wan"
variant = "TI2V"
files = ["tiny_wan"]
sources = ["tiny-umt5"]

[[model.source]]
component = "transformer"
repository = "tiny/wan"
path = "split_files/diffusion_models/tiny_wan.safetensors"
folder = "diffusion_models"

[[model.source]]
component = "vae"
repository = "tiny/parts"
path = "tiny vae.safetensors"
folder = "vae"
name = "tiny_vae.safetensors"
"#;

fn fixture(path: &str) -> PathBuf {
    let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
    pipeline.join(path)
}

/// The transformer of the tiny pipeline with heads as wide as those of every single file, and zero everywhere.
fn transformer() -> Vec<u8> {
    let bytes = fs::read(fixture("transformer/diffusion_pytorch_model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<String, Value> =
        serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut end = 0;
    for (_, entry) in header.iter_mut().filter(|it| it.0 != "__metadata__") {
        let shape = entry["shape"].as_array().unwrap().iter();
        let wide = |n: u64| if matches!(n, 64 | 384) { 2 * n } else { n };
        let shape: Vec<u64> = shape.map(|n| wide(n.as_u64().unwrap())).collect();
        let begin = end;
        end += 4 * shape.iter().product::<u64>();
        *entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]});
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.resize(file.len() + end as usize, 0);
    file
}

/// A user, and a hub that has the files.
struct Case {
    home: Home,
    server: Server,
}

impl Case {
    /// `change` may spoil an answer.
    fn new(change: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static) -> Self {
        let read = |path: &str| fs::read(fixture(path)).unwrap();
        let files = BTreeMap::from([
            (TRANSFORMER, transformer()),
            (TEXT_ENCODER, read("text_encoder/model.safetensors")),
            (VAE, read("vae/diffusion_pytorch_model.safetensors")),
        ]);
        let server = Server::start(move |request| match files.get(request.path.as_str()) {
            Some(file) => change(request, good(request, file)),
            None => Answer::of(404),
        });
        let case = Self {
            home: Home::new(),
            server,
        };
        let config = case.home.path().join("config/safelight");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("models.toml"), MODELS).unwrap();
        // The tiny text encoder's file carries none.
        let tokenizer = case.models().join("umt5");
        fs::create_dir_all(&tokenizer).unwrap();
        let file = fixture("tokenizer/tokenizer.json");
        fs::copy(file, tokenizer.join("tokenizer.json")).unwrap();
        case
    }

    fn models(&self) -> PathBuf {
        self.home.path().join("data/safelight/models")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.bare();
        command
            .env("HF_ENDPOINT", &self.server.url)
            .env("HF_TOKEN", "hf_test")
            .stdin(Stdio::null())
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn fetched(&self) -> Vec<String> {
        let requests = self.server.requests("GET").into_iter();
        let mut paths: Vec<String> = requests.map(|it| it.path).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn events(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events.collect()
}

#[test]
fn model_is_downloaded_listed_and_not_downloaded_again() {
    // The first connection breaks.
    let case = Case::new(|request, answer| {
        let is_first = request.method == "GET" && request.earlier == 0;
        Answer {
            drops_after: is_first.then_some(1000),
            ..answer
        }
    });
    let output = case.run(&["download", "tiny", "--yes"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_says(
        &output.stderr,
        "Tiny, licence: CC0-1.0|778 KiB|from tiny/parts|free there",
    );
    let files = "diffusion_models/tiny_wan.safetensors|vae/tiny_vae.safetensors|text_encoders/tiny_umt5.safetensors";
    assert_says(&output.stderr, files);
    assert_says(&output.stderr, "safelight generate --model tiny");
    assert!(said.contains(&case.models().display().to_string()));
    assert_eq!(text(&output.stdout).lines().count(), 3);
    let written = fs::read(case.models().join("diffusion_models/tiny_wan.safetensors"));
    assert_eq!(written.unwrap(), transformer());
    let listed = case.run(&["models", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["available"][0]["id"], "tiny", "{listed}");

    let before = case.server.requests("HEAD").len();
    let output = case.run(&["download", "tiny", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let events = events(&output);
    assert_eq!(events[0]["event"], json!("finished"));
    assert_eq!(events[0]["files"], json!([]));
    let after = case.server.requests("HEAD").len();
    assert_eq!(after, before, "no server is asked for what is here");
}

#[test]
fn nothing_comes_without_a_yes() {
    let case = Case::new(|_, answer| answer);
    let output = case.run(&["download", "tiny", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let events = events(&output);
    assert_eq!(events[0]["event"], "plan");
    assert_eq!(events[0]["files"].as_array().unwrap().len(), 3);
    assert_eq!(events[1]["event"], "failed");
    let output = case.run(&["download", "tiny"]);
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stderr, "--yes");
    assert!(case.fetched().is_empty());
}

#[test]
fn component_installed_elsewhere_is_not_downloaded_again() {
    let case = Case::new(|_, answer| answer);
    let other = case.models().join("from another program");
    fs::create_dir_all(&other).unwrap();
    let encoder = fixture("text_encoder/model.safetensors");
    fs::copy(encoder, other.join("tiny_umt5.safetensors")).unwrap();
    // Cut off, so it does not count.
    let vae = fs::read(fixture("vae/diffusion_pytorch_model.safetensors")).unwrap();
    fs::write(other.join("tiny_vae.safetensors"), &vae[..vae.len() - 9]).unwrap();
    let output = case.run(&["download", "tiny", "--yes"]);
    let said = assert_says(&output.stderr, "Already here|another program");
    assert_eq!(case.fetched(), [VAE, TRANSFORMER], "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn download_to_another_folder_names_the_setting_to_add() {
    let case = Case::new(|_, answer| answer);
    let words = "download tiny --yes --to elsewhere --connections 1";
    let output = case.run(&words.split(' ').collect::<Vec<_>>());
    let said = assert_says(&output.stderr, "models.folders");
    assert_eq!(output.status.code(), Some(0), "{said}");
    let file = "elsewhere/vae/tiny_vae.safetensors";
    assert!(case.home.path().join(file).is_file());
    let again = case.run(&["download", "tiny", "--to", "elsewhere"]);
    assert_eq!(again.status.code(), Some(0));
    assert_says(&again.stderr, "already");
}

#[test]
fn failed_download_reports_its_reason_and_exit_code() {
    for (status, code, expected) in [
        (401, 1, "agree on the model's page"),
        (404, 1, "not on the server"),
    ] {
        let case = Case::new(move |request, answer| match request.path.as_str() {
            VAE => Answer::of(status),
            _ => answer,
        });
        let output = case.run(&["download", "tiny", "--yes", "--json"]);
        assert_eq!(output.status.code(), Some(code));
        let last = events(&output).pop().unwrap();
        assert_eq!(last["event"], json!("failed"));
        assert_eq!(last["exit_code"], json!(code));
        let message = last["message"].as_str().unwrap();
        assert!(message.contains(expected), "{last}");
        assert!(case.fetched().is_empty());
    }
    let case = Case::new(|_, answer| answer);
    for (id, expected) in [
        ("nothing", "there is no model"),
        ("little-world", "not know where to download"),
    ] {
        let output = case.run(&["download", id]);
        assert_eq!(output.status.code(), Some(3));
        assert_says(&output.stderr, expected);
    }
}

#[test]
fn interrupted_download_exits_immediately_and_resumes_next_time() {
    let is_stalling = Arc::new(AtomicBool::new(true));
    let stalling = Arc::clone(&is_stalling);
    let case = Case::new(move |request, answer| {
        let is_file = request.method == "GET" && request.path == TRANSFORMER;
        let is_stalled = is_file && stalling.load(Ordering::Relaxed);
        Answer {
            stalls_after: is_stalled.then_some((100_000, Duration::from_hours(1))),
            ..answer
        }
    });
    let mut child = case
        .command(&["download", "tiny", "--yes", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let part = "diffusion_models/tiny_wan.safetensors.part";
    let part = case.models().join(part);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let has_begun = lines.by_ref().map_while(Result::ok).any(|line| {
        let event: Value = serde_json::from_str(&line).unwrap();
        event["file"] == "tiny_wan.safetensors" && event["done_bytes"].as_u64() >= Some(100_000)
    });
    assert!(has_begun, "it never began");
    let interrupted = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(5));
    assert!(interrupted.elapsed() < Duration::from_secs(20));
    assert!(part.is_file());

    is_stalling.store(false, Ordering::Relaxed);
    let output = case.run(&["download", "tiny", "--yes", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let plan = &events(&output)[0];
    let files = plan["files"].as_array().unwrap();
    let mut here = files.iter().map(|file| &file["here_bytes"]);
    assert!(here.any(|bytes| *bytes == 100_000), "{plan}");
    let requests = case.server.requests("GET");
    let mut starts = requests.iter().filter_map(|it| Some(it.range()?.0));
    assert!(starts.any(|start| start == 100_000));
}
