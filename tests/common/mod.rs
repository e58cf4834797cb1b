//! What the tests of whole programs share: the executables, a scratch home, the tiny model.

pub mod modes;
pub mod networks;
pub mod scripts;
pub mod server;
pub mod stubs;
pub mod wheels;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The tiny random model that the reference tool made; see the README beside it.
pub fn tiny_model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline")
}

/// A folder that stands for a user's home, gone after the test.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `safelight` in this home, with the engine that was built beside it.
    pub fn safelight(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_safelight"));
        command
            .env("HOME", self.path())
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("OMP_NUM_THREADS", "1")
            .env_remove("SAFELIGHT_LIBTORCH")
            .env_remove("SAFELIGHT_ENGINE_FAULT")
            .env_remove("XDG_VIDEOS_DIR")
            .current_dir(self.path());
        command
    }

    /// `safelight` of a user who has nothing, not even the shipped model.
    pub fn bare(&self) -> Command {
        let mut command = self.safelight();
        command
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env("SAFELIGHT_ASSETS", self.path().join("assets"))
            .env_remove("HF_HOME")
            .env_remove("HF_HUB_CACHE")
            .env_remove("HUGGINGFACE_HUB_CACHE");
        command
    }

    /// `safelight generate` on the tiny model: 64×32, 5 frames, 2 steps.
    pub fn generate(&self) -> Command {
        let mut command = self.safelight();
        command
            .args("generate --json --device cpu --seed 3".split(' '))
            .args(["--prompt", "a small red fox"])
            .args("--width 64 --height 32 --frames 5 --steps 2 --guidance 2".split(' '))
            .arg("--model")
            .arg(tiny_model());
        command
    }

    /// `safelight generate` with what a result carries.
    pub fn repeat(&self, from: &str, out: &str) -> Command {
        let mut command = self.safelight();
        command.args(["generate", "--json", "--device", "cpu"]);
        command.args(["--from", from, "--out", out]);
        command
    }

    pub fn write_settings(&self, text: &str) -> PathBuf {
        let file = self.path().join("config/safelight/settings.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    pub fn job_folders(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.path().join("data/safelight/jobs"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    }
}

pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Standard output or standard error of a program.
pub fn text(printed: &[u8]) -> String {
    String::from_utf8(printed.to_vec()).unwrap()
}

/// Asserts that a program printed every part; `|` separates parts. Gives all that it printed.
pub fn assert_says(printed: &[u8], parts: &str) -> String {
    let said = text(printed);
    for part in parts.split('|') {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    said
}

/// The one JSON object that a program printed, and nothing else.
pub fn object(output: &Output) -> Value {
    let text = text(&output.stdout);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stderr.is_empty());
    serde_json::from_str(&text).unwrap()
}

pub fn events(output: &Output) -> Vec<Value> {
    let text = text(&output.stdout);
    text.lines()
        .map(|line| {
            let event: Value =
                serde_json::from_str(line).unwrap_or_else(|err| panic!("{err}: {line}"));
            assert!(event["event"].is_string(), "{line}");
            event
        })
        .collect()
}

pub fn events_of(output: &Output, kind: &str) -> Vec<Value> {
    let all = events(output).into_iter();
    all.filter(|event| event["event"] == kind).collect()
}

/// The last event of a job that must have finished.
pub fn assert_finished(output: &Output) -> Value {
    let (last, code) = end(output);
    assert_eq!(code, 0, "{last}");
    assert_eq!(last["event"], "finished", "{last}");
    last
}

/// The last event of a job that must have failed with this code, and with these words in its message.
pub fn assert_failed(output: &Output, expected: i32, words: &str) -> Value {
    let (last, code) = end(output);
    assert_eq!(code, expected, "{last}");
    assert_eq!(last["event"], "failed", "{last}");
    let message = last["message"].as_str().unwrap();
    assert!(message.contains(words), "{words:?} in {message}");
    last
}

pub fn end(output: &Output) -> (Value, i32) {
    let last = events(output).pop().unwrap_or_else(|| {
        panic!(
            "no event; standard error: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (last, output.status.code().unwrap_or(-1))
}
