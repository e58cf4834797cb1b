//! Who may read what a job leaves: its owner alone, but for the results, which are as the user's own files.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::modes::{everything, mode};
use crate::generate::prelude::*;

/// The same command as most users' shells start it: others may read what is made without a word.
fn with_usual_umask(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022 && exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[test]
fn job_files_are_private_and_results_follow_the_umask() {
    let home = Home::new();
    test_image(&home.path().join("start.png"), 64, 32);
    let inputs = ["--image", "start.png", "--out", "video.mp4"];
    let mut failing = with_usual_umask(home.generate().args(inputs));
    let output = run(failing.env("SAFELIGHT_ENGINE_FAULT", "decode:abort"));
    assert_failed(&output, 1, "");
    let folder = kept_job(&home);
    let left = everything(&home.path().join("data"));
    for expected in "request.json start.png latents.safetensors prompt.safetensors".split(' ') {
        assert!(left.contains(&folder.join(expected)), "no {expected}");
    }
    let mut more = vec![home.path().join("config"), home.path().join(".cache")];
    more.retain(|folder| folder.exists());
    let more = more.iter().flat_map(|folder| everything(folder));
    let left = left.into_iter().chain(more);
    let open: Vec<String> = left
        .filter(|path| mode(path) & 0o077 != 0)
        .map(|path| format!("{:o} {}", mode(&path), path.display()))
        .collect();
    assert!(open.is_empty(), "others may look into {}", open.join("\n"));

    let mut good = with_usual_umask(home.generate().args(["--out", "good.mp4", "--sidecar"]));
    assert_finished(&run(&mut good));
    for result in ["good.mp4", "good.json"] {
        assert_eq!(mode(&home.path().join(result)), 0o644, "{result}");
    }
}

#[test]
fn a_file_that_is_opened_is_never_run() {
    let home = Home::new();
    let was_run = home.path().join("was-run");
    let script = format!("#!/bin/sh\ntouch {}\n", was_run.display());
    for name in "start.png video.mp4 model.safetensors adapter.safetensors form.json".split(' ') {
        let path = home.path().join(name);
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (option, name) in [
        ("--image", "start.png"),
        ("--extend", "video.mp4"),
        ("--lora", "adapter.safetensors"),
        ("--from", "form.json"),
        ("--from", "start.png"),
        ("--model", "model.safetensors"),
    ] {
        let output = run(home.generate().args([option, name, "--out", "out.mp4"]));
        assert!(!output.status.success(), "{option} {name}");
    }
    for name in ["model.safetensors", "start.png"] {
        run(home.safelight().args(["inspect", name]));
    }
    assert!(!was_run.exists());
}
