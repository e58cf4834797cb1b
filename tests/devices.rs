//! Jobs side by side on two devices of one computer, which are its CPU listed twice, with real engines.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use safelight_core::media;
use serde_json::{Value, json};

use crate::common::{Home, assert_finished, copy_folder, tiny_model};

const SETTINGS: &str =
    "[runtime]\ndevices = [\"cpu\", \"cpu\"]\n\n[models]\nsearch_installs = false\n";
const PROMPT: &str = "a small red fox";
/// Enough for a job to be seen in its steps.
const STEPS: u32 = 300;

/// `safelight serve` on the tiny model.
struct ServedDevices {
    child: Child,
    url: String,
    agent: ureq::Agent,
}

impl ServedDevices {
    fn start(home: &Home) -> Self {
        home.write_settings(SETTINGS);
        let model = home.path().join("data/safelight/models/tiny");
        if !model.exists() {
            copy_folder(&tiny_model(), &model);
        }
        let mut child = home
            .safelight()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        let agent = ureq::Agent::config_builder().build().into();
        Self { child, url, agent }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        let mut answer = self
            .agent
            .get(format!("{}{path}", self.url))
            .call()
            .unwrap();
        answer.body_mut().read_to_vec().unwrap()
    }

    fn submit(&self, seed: u64) -> String {
        let models: Value = serde_json::from_slice(&self.get("/api/models")).unwrap();
        let mut models = models["models"].as_array().unwrap().iter();
        let ids = models.find_map(|model| model["id"].as_str().filter(|id| id.contains("tiny")));
        let order = json!({"form": {
            "model": ids.unwrap(), "prompt": PROMPT, "seed": seed, "width": 64, "height": 32,
            "num_frames": 5, "num_steps": STEPS, "guidance_scale": 2.0,
        }});
        let mut answer = self
            .agent
            .post(format!("{}/api/jobs", self.url))
            .content_type("application/json")
            .send(order.to_string())
            .unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let queued: Value = serde_json::from_str(&text).unwrap();
        queued["jobs"][0].as_str().unwrap().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        serde_json::from_slice(&self.get(&format!("/api/jobs/{id}"))).unwrap()
    }

    fn until(&self, ids: &[String], is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let jobs: Vec<Value> = ids.iter().map(|id| self.job(id)).collect();
            if jobs.iter().all(&is_so) {
                return;
            }
            let has_failed = jobs.iter().any(|job| job["status"] == "failed");
            let is_late = began.elapsed().as_secs() > 240;
            assert!(!has_failed && !is_late, "{jobs:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Process ids of its engines.
    fn engines(&self) -> Vec<i32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let children = threads
            .flatten()
            .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        let children: Vec<String> = children.collect();
        let ids = children.iter().flat_map(|ids| ids.split_whitespace());
        ids.map(|id| id.parse().unwrap()).collect()
    }
}

impl Drop for ServedDevices {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn is_running(job: &Value) -> bool {
    job["status"] == "running" && !job["step"].is_null()
}

#[test]
fn two_jobs_at_once_give_what_each_gives_alone_though_an_engine_and_then_the_program_is_killed() {
    let home = Home::new();
    let served = ServedDevices::start(&home);
    let ids = [3, 4].map(|seed| served.submit(seed));
    served.until(&ids, is_running);
    let devices = ids.clone().map(|id| served.job(&id)["device"].clone());
    assert_eq!(devices, ["CPU", "CPU #2"]);
    let engines = served.engines();
    assert_eq!(engines.len(), 2, "{engines:?}");
    kill_process(Pid::from_raw(engines[0]).unwrap(), Signal::KILL).unwrap();
    // The other one goes on, and the job of the killed one continues in a new engine.
    served.until(&ids, is_running);
    drop(served);

    let served = ServedDevices::start(&home);
    for id in &ids {
        let action = json!({"action": "resume"}).to_string();
        let patched = served
            .agent
            .patch(format!("{}/api/jobs/{id}", served.url))
            .content_type("application/json")
            .send(action);
        patched.unwrap();
    }
    served.until(&ids, |job| job["status"] == "finished");
    for (id, seed) in ids.iter().zip(["3", "4"]) {
        let there = home.path().join(format!("there-{seed}.mp4"));
        fs::write(&there, served.get(&format!("/api/jobs/{id}/files/0"))).unwrap();
        let here = home.path().join(format!("here-{seed}.mp4"));
        let mut alone = home.safelight();
        alone
            .args(["generate", "--json", "--device", "cpu", "--prompt", PROMPT])
            .args("--width 64 --height 32 --frames 5 --guidance 2".split(' '))
            .args(["--steps", &STEPS.to_string()])
            .args(["--seed", seed, "--model"])
            .arg(tiny_model())
            .arg("--out")
            .arg(&here);
        assert_finished(&alone.output().unwrap());
        let frames = |path| media::open_video(path).unwrap().frames;
        assert_eq!(frames(&there), frames(&here));
    }
}
