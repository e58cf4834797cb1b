//! Other programs that need memory while a job runs: it stops at its step, and goes on to the same bytes.

use std::io::{BufRead as _, BufReader};

use crate::generate::prelude::*;

/// 10,000 MiB, of which programs have so much; as a whole, because it is read at any moment.
fn taken_mib(proc: &Path, taken: u64) {
    let [all, available, taken] = [10_000, 10_000 - taken, taken].map(|mib| mib << 10);
    let text = format!("MemTotal: {all} kB\nMemAvailable: {available} kB\nAnonPages: {taken} kB\n");
    fs::create_dir_all(proc).unwrap();
    fs::write(proc.join("new"), text).unwrap();
    fs::rename(proc.join("new"), proc.join("meminfo")).unwrap();
}

fn job(home: &Home, out: &str) -> Command {
    let mut command = home.generate();
    command.args(["--steps", "300", "--out", out]);
    command
}

#[test]
fn a_job_that_waited_for_memory_makes_the_same_bytes() {
    let home = Home::new();
    assert_finished(&run(&mut job(&home, "alone.webp")));
    let proc = home.path().join("proc");
    taken_mib(&proc, 2_000);
    let mut child = job(&home, "shared.webp")
        .env("SAFELIGHT_PROC_ROOT", &proc)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut last_step, mut gone_on_at, mut num_waits) = (0, None, 0);
    for line in lines.map_while(Result::ok) {
        let event: Value = serde_json::from_str(&line).unwrap();
        match event["event"].as_str() {
            Some("step") => {
                let step = event["step"].as_u64().unwrap();
                if num_waits == 0 {
                    taken_mib(&proc, 9_600);
                    last_step = step;
                } else {
                    gone_on_at.get_or_insert(step);
                }
            }
            Some("waiting") => {
                let message = event["message"].as_str().unwrap();
                assert!(message.starts_with("Waiting for memory:"), "{message}");
                num_waits += 1;
                taken_mib(&proc, 2_000);
            }
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(num_waits > 0, "it never waited, and made {last_step} steps");
    // No step is made twice: the last one was kept.
    assert_eq!(gone_on_at, Some(last_step + 1));
    let bytes = |name: &str| fs::read(home.path().join(name)).unwrap();
    assert!(bytes("alone.webp") == bytes("shared.webp"));
    assert!(home.job_folders().is_empty());
}
