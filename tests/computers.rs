//! Jobs on another computer: a script in the place of ssh runs the command here, with another home.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};
use safelight_core::media;
use serde_json::Value;

use crate::common::scripts::write_script;
use crate::common::{Home, assert_failed, assert_finished, copy_folder, object, text, tiny_model};

/// Runs the last argument in the box's home; the n-th connection ends after the number of bytes in the n-th line of
/// `cuts`.
const SSH: &str = r#"#!/bin/sh
for command in "$@"; do :; done
export SSH_CONNECTION="127.0.0.1 40000 127.0.0.1 22" HOME='BOX' XDG_CONFIG_HOME='BOX/config' XDG_DATA_HOME='BOX/data' PATH="BIN:$PATH"
number=$(($(cat "$HOME/number" 2>/dev/null || echo 0) + 1))
echo $number > "$HOME/number"
cut=$(sed -n "${number}p" "$HOME/cuts" 2>/dev/null)
if [ -n "$cut" ]; then
    sh -c "$command" | { dd bs=1 count="$cut" status=none; kill $$; }
fi
exec sh -c "$command"
"#;

/// A laptop and a box that has the tiny model.
struct ComputerPair {
    laptop: Home,
    host: Home,
}

impl ComputerPair {
    fn new() -> Self {
        let (laptop, host) = (Home::new(), Home::new());
        copy_folder(
            &tiny_model(),
            &host.path().join("data/safelight/models/tiny"),
        );
        let bin = Path::new(env!("CARGO_BIN_EXE_safelight")).parent().unwrap();
        let script = SSH.replace("BOX", host.path().to_str().unwrap());
        let script = script.replace("BIN", bin.to_str().unwrap());
        write_script(&laptop.path().join("ssh"), &script);
        Self { laptop, host }
    }

    fn safelight(&self) -> Command {
        let mut command = self.laptop.safelight();
        command.env("SAFELIGHT_SSH", self.laptop.path().join("ssh"));
        command
    }

    /// As [`Home::generate`], on the box.
    fn generate(&self, more: &str) -> Command {
        let mut command = self.safelight();
        command
            .args("generate --json --on me@box --seed 3 --prompt fox --model".split(' '))
            .arg(self.host.path().join("data/safelight/models/tiny"))
            .args("--width 64 --height 32 --frames 5 --steps 2 --guidance 2".split(' '))
            .args(more.split(' '));
        command
    }

    fn folder(&self) -> PathBuf {
        self.host.path().join("data/safelight/remote")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.laptop.path().join(name)).unwrap()
    }
}

impl Drop for ComputerPair {
    /// The box's worker ends without its socket.
    fn drop(&mut self) {
        fs::remove_file(self.folder().join("worker.sock")).ok();
    }
}

/// A job of this computer that shares its steps with the box.
fn shared(pair: &ComputerPair, model: &Path, more: &str) -> Command {
    let mut command = pair.safelight();
    command
        .args("generate --json --device cpu --seed 3 --prompt fox".split(' '))
        .args("--width 64 --height 32 --frames 5 --steps 2 --guidance 2 --model".split(' '))
        .arg(model)
        .args(more.split(' '));
    command
}

#[test]
fn devices_of_several_computers_share_a_job() {
    let pair = ComputerPair::new();
    // The box has the model in another place.
    let model = pair.laptop.path().join("somewhere/tiny");
    copy_folder(&tiny_model(), &model);
    for (more, out) in [
        ("", "one.png"),
        (" --hosts me@box", "two.png"),
        (" --hosts me@box --devices 2", "four.png"),
    ] {
        let output = run(shared(
            &pair,
            &model,
            &format!("--frames 1 --out {out}{more}"),
        ));
        assert_finished(&output);
    }
    let frame = |name: &str| {
        media::open_image(&pair.laptop.path().join(name))
            .unwrap()
            .image
            .rgb
    };
    let whole = frame("one.png");
    for out in ["two.png", "four.png"] {
        let found = frame(out);
        let off = whole.iter().zip(&found).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(off <= Some(1), "{out}: {off:?}");
    }
    // A lost connection ends the group, and a new one continues the job.
    fs::write(pair.host.path().join("number"), "0").unwrap();
    fs::write(pair.host.path().join("cuts"), "400\n").unwrap();
    let output = run(shared(
        &pair,
        &model,
        "--frames 1 --out cut.png --hosts me@box",
    ));
    assert_finished(&output);
    let connections = fs::read_to_string(pair.host.path().join("number")).unwrap();
    assert!(connections.trim() != "1", "no connection was lost");
    let found = frame("cut.png");
    assert!(whole.iter().zip(&found).all(|(a, b)| a.abs_diff(*b) <= 1));
    let settings = media::read_settings(&pair.laptop.path().join("two.png"));
    assert!(!settings.unwrap().unwrap().contains("me@box"));
    let left = fs::read_dir(pair.host.path().join("cache/safelight"));
    let left = left.into_iter().flatten().flatten();
    let mut left = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert!(
        !left.any(|name| name.starts_with("rank-")),
        "files of a rank stayed"
    );
}

#[test]
fn a_computer_that_cannot_share_a_job_is_named_with_the_reason() {
    let pair = ComputerPair::new();
    let model = pair.laptop.path().join("somewhere/tiny");
    copy_folder(&tiny_model(), &model);
    for (host, expected) in [
        ("-oProxyCommand=x", "a computer is named as ssh takes it"),
        ("a;b", "as ssh takes it"),
    ] {
        let output = run(shared(
            &pair,
            &model,
            &format!("--out a.mp4 --hosts={host}"),
        ));
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
    write_script(
        &pair.laptop.path().join("ssh"),
        "#!/bin/sh\necho 'ssh: Could not resolve hostname box: Name or service not known' >&2\nexit 255\n",
    );
    let output = run(shared(&pair, &model, "--out a.mp4 --hosts me@box"));
    assert_failed(&output, 1, "me@box is not known by this name");
}

#[test]
fn the_exchange_with_another_computer_is_measured_without_a_job() {
    let pair = ComputerPair::new();
    let mut command = pair.safelight();
    command
        .args("plan --json --device cpu --hosts me@box --model".split(' '))
        .arg(tiny_model());
    let plan = object(&run(command));
    let exchange = &plan["exchange"];
    assert!(exchange["bytes"].as_f64() > Some(0.0), "{plan}");
    assert!(exchange["bytes_per_sec"].as_f64() > Some(1e6), "{plan}");
}

fn run(mut command: Command) -> Output {
    run_of(&mut command)
}

fn run_of(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Starts a job that takes long, and waits for its first step.
fn begun(pair: &ComputerPair, more: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = pair.generate(more);
    let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut texts = lines.by_ref().map(Result::unwrap);
    assert!(texts.any(|line| line.contains("\"step\"")));
    (client, lines)
}

fn last_of(lines: Lines<BufReader<ChildStdout>>) -> Value {
    serde_json::from_str(&lines.map(Result::unwrap).last().unwrap()).unwrap()
}

#[test]
fn a_job_runs_on_another_computer_and_its_result_comes_back() {
    let pair = ComputerPair::new();
    let image = image::RgbImage::from_fn(100, 70, |x, y| image::Rgb([x as u8, y as u8, 90]));
    image.save(pair.laptop.path().join("start.png")).unwrap();
    let output = run(pair.generate("--image start.png --out there.mp4"));
    let last = assert_finished(&output);
    let there = pair.laptop.path().join("there.mp4");
    assert_eq!(last["path"], there.to_str().unwrap(), "{last}");
    let settings = media::read_settings(&there).unwrap().unwrap();
    let request = serde_json::from_str::<Value>(&settings).unwrap()["request"].clone();
    assert_eq!(request["computer"], "me@box");
    let mut inspect = pair.laptop.safelight();
    let inspected = run_of(inspect.arg("inspect").arg(&there));
    assert!(text(&inspected.stdout).contains("\n  computer: me@box\n"));
    let start = pair.laptop.path().join("start.png");
    assert_eq!(
        request["image"],
        start.to_str().unwrap(),
        "as the user named it"
    );
    assert_eq!(request["copies"], Value::Null);
    // Frames are those of a run on this computer.
    let mut here = pair.laptop.generate();
    here.args([
        "--prompt",
        "fox",
        "--image",
        "start.png",
        "--out",
        "here.mp4",
    ]);
    assert_finished(&run(here));
    let frames = |name: &str| {
        media::open_video(&pair.laptop.path().join(name))
            .unwrap()
            .frames
    };
    assert_eq!(frames("there.mp4"), frames("here.mp4"));
    // Nothing of the job is left there but the image, by its content.
    for folder in ["jobs", "inputs", "results"] {
        let left = fs::read_dir(pair.folder().join(folder)).unwrap().count();
        assert_eq!(left, 0, "{folder}");
    }
    assert_eq!(
        fs::read_dir(pair.folder().join("store")).unwrap().count(),
        1
    );
}

#[test]
fn a_connection_that_is_lost_again_and_again_gives_the_same_file() {
    let pair = ComputerPair::new();
    assert_finished(&run(pair.generate("--out whole.mp4")));
    let number = fs::read_to_string(pair.host.path().join("number")).unwrap();
    let number: usize = number.trim().parse().unwrap();
    // The next connection only asks for the models; its first message is as long as those of the later ones.
    let mut hello = run_ssh(&pair, "safelight worker --stdio");
    let mut lengths = [0; 8];
    hello
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut lengths)
        .unwrap();
    hello.kill().unwrap();
    hello.wait().unwrap();
    let hello = 8 + u32::from_le_bytes(lengths[..4].try_into().unwrap()) as usize;
    let cuts = [3, 700, 4000, 9000, 16000].map(|more| format!("{}\n", hello + more));
    let cuts = format!("{}{}", "\n".repeat(number + 2), cuts.concat());
    fs::write(pair.host.path().join("cuts"), cuts).unwrap();
    assert_finished(&run(pair.generate("--out cut.mp4")));
    assert_eq!(pair.read("whole.mp4"), pair.read("cut.mp4"));
    let after = fs::read_to_string(pair.host.path().join("number")).unwrap();
    assert!(
        after.trim().parse::<usize>().unwrap() >= number + 5,
        "{after}"
    );
}

fn run_ssh(pair: &ComputerPair, remote: &str) -> std::process::Child {
    Command::new(pair.laptop.path().join("ssh"))
        .arg(remote)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_worker_fails_the_job_with_what_to_do() {
    let pair = ComputerPair::new();
    let (mut client, lines) = begun(&pair, "--steps 500 --out long.mp4");
    let socket = UnixStream::connect(pair.folder().join("worker.sock")).unwrap();
    kill_process(socket_peercred(&socket).unwrap().pid, Signal::KILL).unwrap();
    let last = last_of(lines);
    assert_eq!(last["event"], "failed");
    assert_eq!(
        last["message"],
        "on me@box: the worker ended while the job ran"
    );
    assert!(!client.wait().unwrap().success());
    assert_eq!(pair.laptop.job_folders().len(), 1, "it can be resumed");
}

#[test]
fn a_job_whose_program_was_killed_here_is_resumed_with_what_was_done_there_meanwhile() {
    let pair = ComputerPair::new();
    assert_finished(&run(pair.generate("--steps 60 --out whole.mp4")));
    let (mut client, _) = begun(&pair, "--steps 60 --out killed.mp4");
    client.kill().unwrap();
    client.wait().unwrap();
    let left = object(&run_of(pair.safelight().args(["resume", "--json"])));
    let job = left["jobs"][0]["job"].as_str().unwrap().to_owned();
    let list = run_of(pair.safelight().arg("resume"));
    assert!(text(&list.stdout).contains("on me@box"));
    let resumed = run_of(pair.safelight().args(["resume", &job, "--json"]));
    let last = assert_finished(&resumed);
    assert!(last["path"].as_str().unwrap().ends_with("killed.mp4"));
    assert_eq!(pair.read("whole.mp4"), pair.read("killed.mp4"));
    assert!(pair.laptop.job_folders().is_empty());
}

#[test]
fn a_job_that_is_paused_without_a_connection_says_so_and_stops_with_the_next_one() {
    let pair = ComputerPair::new();
    let (mut client, lines) = begun(&pair, "--steps 1000 --out long.mp4");
    let ssh = pair.laptop.path().join("ssh");
    let away = pair.laptop.path().join("away");
    fs::rename(&ssh, &away).unwrap();
    let tried = pair.laptop.path().join("tried");
    let script = format!("#!/bin/sh\n: > {}\nexit 255\n", tried.display());
    write_script(&ssh, &script);
    kill_below(client.id());
    while !tried.exists() {
        assert!(client.try_wait().unwrap().is_none(), "it tries again");
        thread::sleep(Duration::from_millis(20));
    }
    let client_id = Pid::from_raw(client.id().cast_signed()).unwrap();
    kill_process(client_id, Signal::INT).unwrap();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    let warning = "there is no connection to me@box: the job continues there, and stops when Safelight connects again";
    assert!(said.iter().any(|line| line.contains(warning)), "{said:?}");
    assert!(said.last().unwrap().contains("\"kept\""), "{said:?}");
    client.wait().unwrap();
    // Another job stops it, and runs in its place.
    fs::rename(&away, &ssh).unwrap();
    assert_finished(&run(pair.generate("--out other.mp4")));
    let kept_there = fs::read_dir(pair.folder().join("jobs")).unwrap();
    assert_eq!(kept_there.count(), 1, "it has not run to its end");
    assert_eq!(
        pair.laptop.job_folders().len(),
        1,
        "the other can be resumed"
    );
}

/// Kills the processes that a process started, and those that they did.
fn kill_below(parent: u32) {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            kill_below(child.parse().unwrap());
            kill_process(Pid::from_raw(child.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        }
    }
}

#[test]
fn each_failure_to_connect_is_one_sentence() {
    let pair = ComputerPair::new();
    let broken = |script: Option<&str>| {
        let path = pair.laptop.path().join("broken");
        fs::remove_file(&path).ok();
        if let Some(script) = script {
            write_script(&path, &format!("#!/bin/sh\n{script}\n"));
        }
        let mut command = pair.safelight();
        command
            .args(["computers", "check", "me@box", "--json"])
            .env("SAFELIGHT_SSH", path);
        object(&run(command))["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(broken(None), "there is no ssh program on this computer");
    for (script, expected) in [
        (
            "echo 'me@box: Permission denied (publickey).' >&2; exit 255",
            "me@box accepts none of your ssh keys",
        ),
        (
            "echo 'env: safelight: No such file or directory' >&2; exit 127",
            "me@box has no Safelight",
        ),
        ("echo Welcome to the box", "me@box is no longer connected"),
        ("exit 255", "me@box is no longer connected"),
    ] {
        assert_eq!(broken(Some(script)), expected, "{script}");
    }
    // Whatever is in the way there.
    fs::create_dir_all(pair.folder().parent().unwrap()).unwrap();
    fs::write(pair.folder(), "").unwrap();
    let last = assert_failed(
        &run(pair.generate("--out a.mp4")),
        1,
        "on me@box: the folder for jobs of other computers",
    );
    assert_ne!(last["advice"], "");
    fs::remove_file(pair.folder()).unwrap();
}

#[test]
fn computers_are_added_and_removed_in_the_settings() {
    let pair = ComputerPair::new();
    let computers = |arguments: &str| {
        let mut command = pair.safelight();
        command
            .arg("computers")
            .args(arguments.split_whitespace())
            .arg("--json");
        run(command)
    };
    let added = object(&computers("add me@box"));
    assert_eq!(
        (&added["host"], &added["version"]),
        (&"me@box".into(), &env!("CARGO_PKG_VERSION").into())
    );
    let models = added["models"].as_array().unwrap();
    assert!(
        models
            .iter()
            .any(|id| id.as_str().unwrap().ends_with("models/tiny")),
        "{added}"
    );
    let listed = object(&computers(""));
    assert_eq!(listed["computers"][0]["host"], "me@box");
    let file = pair.laptop.path().join("config/safelight/settings.toml");
    assert!(text(&fs::read(&file).unwrap()).contains(r#"hosts = ["me@box"]"#));
    assert!(computers("remove me@box").status.success());
    assert!(text(&fs::read(&file).unwrap()).contains("hosts = []"));
    let refused = computers("add -oProxyCommand=x");
    assert!(!refused.status.success());
}
