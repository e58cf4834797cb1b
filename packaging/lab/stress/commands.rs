//! Commands that are disturbed: by a signal to the program, its engine or both, by a disk that fails, or by scarce memory.
//!
//! Afterwards each begun job must end exactly once with the same bytes as without the disturbance.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::home::{Ended, Home, Running};
use super::memory::{Group, ROOMY};
use super::networks::{write_interpolator, write_upscaler, write_zeros};
use super::{Random, Result, StressArgs};

/// Name, number of jobs (0: a command without results), arguments. `MAKE`, `DEVICE` and `LORA` are replaced.
const COMMANDS: &str = "\
a video | 1 | MAKE --prompt fox --out video.mp4
a video with scarce memory | 1 | MAKE --prompt fox --width 96 --height 96 --frames 9 --steps 60 --out long.webp
a video on a failing disk | 1 | MAKE --prompt fox --width 64 --height 64 --frames 5 --out video.webp
a batch on a failing disk | 3 | MAKE --prompt fox --width 64 --height 64 --frames 1 --batch 3 --out one.png
frames | 1 | MAKE --prompt fox --out frames.png
a video from an image | 1 | MAKE --prompt fox --image ../start.png --out moves.mp4
an image from an image | 1 | MAKE --prompt fox --image ../start.png --strength 0.7 --out again.png
a batch | 3 | MAKE --prompt fox --batch 3 --out batch.webp
a file of prompts | 3 | MAKE --prompts-file ../prompts.txt --out each.gif
a video with a LoRA | 1 | MAKE --prompt fox --lora ../LORA:0.8 --out styled.mp4
a LoRA named in a file | 1 | MAKE --from ../made.txt --out named.mp4
an upscaled video | 1 | upscale ../video.mp4 --scale 4 --model stress-upscaler --out large.webp DEVICE
an upscaled image | 1 | upscale ../start.png --scale 4 --tile 64 --model stress-upscaler --out larger.png DEVICE
an interpolated video | 1 | interpolate ../video.mp4 --times 4 --model stress-rife --out smooth.gif DEVICE
a download | 0 | download tiny --yes --json
the list of models | 0 | models --json
the card of a LoRA | 0 | inspect ../LORA --json
the doctor | 0 | doctor --quick --json";
const MODELS: &str = "data/safelight/models";
pub(crate) const LORA: &str = "data/safelight/models/loras/stress-style.safetensors";
pub(crate) const START_IMAGE: &[u8] = include_bytes!("../../../tests/fixtures/media/plain.png");
const VIDEO: &[u8] = include_bytes!("../../../src/core/media/source/tests/videos/sound.mp4");
const MADE: &[u8] =
    b"fox <lora:stress-style:0.8>\nSteps: 6, Sampler: Euler, CFG scale: 3, Seed: 3\n";
const CATALOG: &[u8] = br#"
[[model]]
id = "tiny"
name = "Tiny"
licence = "CC0-1.0"
family = "wan"
variant = "TI2V"
files = ["tiny_wan"]

[[model.source]]
component = "transformer"
repository = "tiny/wan"
path = "tiny_wan.safetensors"
folder = "diffusion_models"
"#;
/// Faults of `tests/common/disk_faults.c`.
const DISK_FAULTS: [&str; 7] = [
    "full", "short", "once", "rename", "sync", "readonly", "nolock",
];
const DISK_FAULTS_SOURCE: &str = include_str!("../../../tests/common/disk_faults.c");

/// Weight file of 64 MiB, so that a download can be killed.
pub(crate) fn downloaded_file() -> Vec<u8> {
    const BYTES: usize = 64 << 20;
    let header =
        json!({"x": {"dtype": "U8", "shape": [BYTES], "data_offsets": [0, BYTES]}}).to_string();
    let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    file.resize(file.len() + BYTES, 7);
    file
}

/// LoRA for an attention layer of the little world; its numbers are not 0, so that a job without it differs.
pub(crate) fn write_lora(home: &Home) -> Result<()> {
    let layers = ["to_q", "to_k", "to_v", "to_out.0"].into_iter();
    let tensors = layers.flat_map(|layer| {
        let name = format!("transformer.blocks.0.attn1.{layer}");
        [
            (format!("{name}.lora_A.weight"), vec![2, 256]),
            (format!("{name}.lora_B.weight"), vec![256, 2]),
        ]
    });
    let path = home.path.join(LORA);
    write_zeros(&path, tensors);
    let mut bytes = fs::read(&path)?;
    let header = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes) as usize;
    for (index, number) in bytes[8 + header..].chunks_exact_mut(4).enumerate() {
        number.copy_from_slice(&((index as f32 * 0.7).sin() * 0.3).to_le_bytes());
    }
    Ok(fs::write(path, bytes)?)
}

/// A library that lets the n-th call of a kind fail below the home.
pub(crate) struct FailingDisk {
    library: PathBuf,
    counter: PathBuf,
}

impl FailingDisk {
    pub(crate) fn build(home: &Home) -> Result<Self> {
        let [source, library, counter] =
            ["faults.c", "faults.so", "faults.count"].map(|end| home.path.with_extension(end));
        fs::write(&source, DISK_FAULTS_SOURCE)?;
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()?;
        if !built.success() {
            return Err("`cc` does not build the library of disk faults".into());
        }
        Ok(Self { library, counter })
    }

    /// Has the next program fail at a random call.
    pub(crate) fn arm(&self, home: &mut Home, random: &mut Random) -> Result<String> {
        fs::write(&self.counter, [0; 8])?;
        let (kind, at) = (random.one_of(&DISK_FAULTS), 1 + random.below(90));
        let fault = format!(
            "{kind}:{at}:{}:{}/",
            self.counter.display(),
            home.path.display()
        );
        home.variables = vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("SAFELIGHT_DISK_FAULT", fault.into()),
        ];
        Ok(format!("{kind} disk"))
    }
}

/// A command with what it leaves when undisturbed.
#[derive(Clone)]
struct Action {
    num_jobs: usize,
    arguments: Vec<String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    took: Duration,
    code: Option<i32>,
}

/// Names of all commands.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.lines().filter_map(|line| line.split(" | ").next())
}

pub(crate) struct CommandLine {
    pub(crate) resumed: usize,
    home: Home,
    disk: FailingDisk,
    make: String,
    device: String,
    actions: BTreeMap<String, Action>,
}

impl CommandLine {
    pub(crate) fn new(home: Home, args: &StressArgs) -> Result<Self> {
        let (model, device) = (&args.model, &args.device);
        Ok(Self {
            resumed: 0,
            disk: FailingDisk::build(&home)?,
            home,
            make: format!("generate --json --device {device} --model {model} --seed 3 --steps 6"),
            device: format!("--json --device {device}"),
            actions: BTreeMap::new(),
        })
    }

    fn prepare(&self) -> Result<()> {
        let home = &self.home;
        home.clean()?;
        home.write("prompts.txt", b"a red fox\na blue whale\na green bird\n")?;
        home.write("start.png", START_IMAGE)?;
        home.write("video.mp4", VIDEO)?;
        home.write("made.txt", MADE)?;
        home.write("config/safelight/models.toml", CATALOG)?;
        let models = home.path.join(MODELS);
        write_upscaler(&models.join("upscale_models/stress-upscaler.safetensors"));
        write_interpolator(&models.join("frame_interpolation/stress-rife.safetensors"));
        write_lora(home)
    }

    fn action(&mut self, name: &str) -> Result<Action> {
        if let Some(action) = self.actions.get(name) {
            return Ok(action.clone());
        }
        let mut commands = COMMANDS
            .lines()
            .map(|line| line.split(" | ").collect::<Vec<_>>());
        let command = commands
            .find(|command| command[0] == name)
            .ok_or("no such command")?;
        let num_jobs = command[1].parse()?;
        let line = command[2]
            .replace("MAKE", &self.make)
            .replace("DEVICE", &self.device)
            .replace("LORA", LORA);
        // The last of two equal options counts.
        let arguments = once_each(line.split(' '));
        self.prepare()?;
        let begin = Instant::now();
        let ended = self.home.run(&arguments)?;
        // The doctor finds problems, and the downloaded model lacks its other parts.
        if ended.code != Some(0) && num_jobs > 0 {
            return Err(format!("{name} fails undisturbed: {}", ended.errors).into());
        }
        let (took, files) = (begin.elapsed(), self.home.files());
        let action = Action {
            num_jobs,
            arguments,
            files,
            took,
            code: ended.code,
        };
        self.actions.insert(name.to_owned(), action.clone());
        Ok(action)
    }

    /// Disturbs one command -> how, and what was wrong.
    pub(crate) fn round(
        &mut self,
        name: &str,
        random: &mut Random,
    ) -> Result<(String, Vec<String>)> {
        let action = self.action(name)?;
        self.prepare()?;
        let mut faults = Vec::new();
        let (how, ended) = match name {
            _ if name.contains("disk") => {
                let how = self.disk.arm(&mut self.home, random)?;
                let ended = self.home.run(&action.arguments);
                self.home.variables.clear();
                let ended = ended?;
                let failed = ended.events.iter().find(|event| event["event"] == "failed");
                let kind = failed.map_or("", |event| event["kind"].as_str().unwrap_or_default());
                if ended.code != Some(0) && !["disk", "invalid_request"].contains(&kind) {
                    faults.push(format!(
                        "it ended with {:?} and said {failed:?}",
                        ended.code
                    ));
                }
                (how, ended)
            }
            _ if name.contains("memory") => {
                let ended = self.squeezed(&action, random, &mut faults)?;
                let how = if ended.count("waiting") > 0 {
                    "waited"
                } else {
                    "did not wait"
                };
                (how.to_owned(), ended)
            }
            _ => self.killed(&action, random, &mut faults)?,
        };
        if ended.errors.contains("panicked") {
            faults.push(format!("a panic: {}", ended.errors));
        }
        self.home.orphans(&mut faults);
        if action.num_jobs == 0 {
            let again = self.home.run(&action.arguments)?;
            if again.code != action.code {
                faults.push(format!("it fails after the kill: {}", again.errors));
            }
            self.compare(&action, usize::MAX, &mut faults);
            return Ok((how, faults));
        }
        self.resume(random, &mut faults)?;
        // A killed job is begun with its first stage. A failed one may end before it finished any.
        let is_killed = ended.events.iter().all(|event| event["event"] != "failed");
        let stages = ended
            .events
            .iter()
            .filter(|event| event["event"] == "stage" && (is_killed || event["state"] == "ended"));
        let begun = match action.num_jobs {
            1 => usize::from(stages.count() > 0),
            _ if is_killed => ended.count("job").max(ended.count("finished")),
            _ => ended.count("finished"),
        };
        if self.compare(
            &action,
            begun * num_results(&action.files) / action.num_jobs,
            &mut faults,
        ) == 0
        {
            let again = self.home.run(&action.arguments)?;
            if again.code != Some(0) {
                faults.push(format!("the next job fails: {}", again.errors));
            }
            self.compare(&action, num_results(&action.files), &mut faults);
        }
        Ok((how, faults))
    }

    fn killed(
        &self,
        action: &Action,
        random: &mut Random,
        faults: &mut Vec<String>,
    ) -> Result<(String, Ended)> {
        let running = self.home.start(self.home.command(&action.arguments))?;
        let signals = [
            (Signal::TERM, "SIGTERM"),
            (Signal::HUP, "SIGHUP"),
            (Signal::INT, "SIGINT"),
        ];
        let kill = (Signal::KILL, "SIGKILL");
        let (signal, name) = random.one_of(&[kill, kill, kill, signals[0], signals[1], signals[2]]);
        let victim = random.below(5);
        thread::sleep(action.took.mul_f64(random.below(1100) as f64 / 1000.0));
        // One that has ended cannot be killed.
        let how = match (victim, self.home.engine()) {
            (0 | 1, Some(engine)) => {
                kill_process(engine, Signal::KILL).ok();
                "engine killed".to_owned()
            }
            (2, Some(engine)) => {
                kill_process(running.pid(), Signal::KILL).ok();
                kill_process(engine, Signal::KILL).ok();
                "both killed".to_owned()
            }
            _ => {
                kill_process(running.pid(), signal).ok();
                name.to_owned()
            }
        };
        let ended = running.end()?;
        let may_fail = action.num_jobs == 0 && ended.code == Some(1);
        if how == "engine killed" && ended.code != action.code && !may_fail {
            faults.push(format!(
                "the engine was killed and the program ends with {:?}: {}",
                ended.code, ended.errors
            ));
        }
        Ok((how, ended))
    }

    /// The job must wait while memory is scarce, and finish by itself.
    fn squeezed(
        &mut self,
        action: &Action,
        random: &mut Random,
        faults: &mut Vec<String>,
    ) -> Result<Ended> {
        let group = Group::make()?;
        self.home.cgroup = Some(group.processes());
        let running = self.home.start(self.home.command(&action.arguments))?;
        self.home.cgroup = None;
        thread::sleep(action.took.mul_f64(random.below(600) as f64 / 1000.0));
        group.squeeze()?;
        let begin = Instant::now();
        let is_over = |running: &Running| {
            let mut events = running.events().into_iter();
            events.any(|event| event["event"] == "waiting" || event["event"] == "finished")
        };
        while begin.elapsed() < Duration::from_secs(5) && !is_over(&running) {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(random.millis(1500));
        group.set_limit(ROOMY)?;
        let ended = running.end()?;
        if ended.code != Some(0) {
            faults.push(format!(
                "the job ends with {:?}: {}",
                ended.code, ended.errors
            ));
        }
        if group.num_killed() > 0 {
            faults.push("the kernel killed a process for memory".to_owned());
        }
        Ok(ended)
    }

    /// Resumes every job that is listed, sometimes with another kill.
    fn resume(&mut self, random: &mut Random, faults: &mut Vec<String>) -> Result<()> {
        for _ in 0..8 {
            let listed = self.home.run(&["resume", "--json"])?;
            if listed.code != Some(0) {
                faults.push(format!("jobs cannot be listed: {}", listed.errors));
            }
            let Some(job) = first_offered(&listed) else {
                return Ok(());
            };
            let running = self
                .home
                .start(self.home.command(&["resume", job, "--json"]))?;
            let is_killed = random.below(4) == 0;
            if is_killed {
                thread::sleep(random.millis(1500));
                kill_process(running.pid(), Signal::KILL).ok();
            }
            let resumed = running.end()?;
            self.home.orphans(faults);
            if resumed.code == Some(0) {
                self.resumed += 1;
            } else if !is_killed {
                faults.push(format!("a job cannot be resumed: {}", resumed.errors));
                return Ok(());
            }
        }
        faults.push("a job is offered again and again".to_owned());
        Ok(())
    }

    /// Compares all files with those of the undisturbed command -> number of results.
    fn compare(&self, action: &Action, expected: usize, faults: &mut Vec<String>) -> usize {
        let files = self.home.files();
        for (name, bytes) in &files {
            // Counters of engine restarts and of checks of GPU kernels.
            let is_counter =
                name.ends_with("ladder.json") || name.extension().is_some_and(|end| end == "tries");
            let is_result = name.starts_with("out") || name.starts_with(MODELS);
            match action.files.get(name) {
                None if !is_counter => faults.push(format!("left behind: {}", name.display())),
                Some(wanted) if is_result && bytes != wanted => {
                    faults.push(format!("not the same bytes: {}", name.display()))
                }
                _ => {}
            }
        }
        if expected == usize::MAX && !action.files.keys().all(|name| files.contains_key(name)) {
            faults.push("a file is missing that the undisturbed command leaves".to_owned());
        }
        let found = num_results(&files);
        if found < expected.min(num_results(&action.files)) {
            faults.push(format!("lost: {found} of {expected} results are there"));
        }
        found
    }
}

/// Results without the old one.
fn num_results(files: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    files
        .keys()
        .filter(|name| name.starts_with("out"))
        .count()
        .saturating_sub(1)
}

/// Words of a command line, without earlier values of options that come again.
fn once_each<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        if let Some(at) = kept
            .iter()
            .position(|it| it == word && word.starts_with("--"))
        {
            kept.drain(at..at + 2);
        }
        kept.push(word.to_owned());
    }
    kept
}

/// First job that `safelight resume --json` lists.
pub(crate) fn first_offered(listed: &Ended) -> Option<&str> {
    listed.events.first()?["jobs"][0]["job"].as_str()
}
