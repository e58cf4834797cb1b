//! `safelight runtime`, as a user meets it: on false machines, with the real engine, and against an index of wheels with
//! nothing real in them.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::server::Server;
use crate::common::wheels::{self, VERSION, index};
use crate::common::{Home, assert_finished, assert_says};
use crate::doctor::{lay_strix_halo, on_roots};

fn answer(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|err| panic!("{err}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn answered(home: &Home, words: &[&str]) -> Value {
    let words = [words, &["--json"]].concat();
    answer(&runtime(home, &words).output().unwrap())
}

fn runtime(home: &Home, words: &[&str]) -> Command {
    let mut command = home.safelight();
    command.env("SAFELIGHT_SYSFS_ROOT", home.path().join("no machine"));
    command.arg("runtime").args(words);
    command
}

#[test]
fn the_prepared_libtorch_is_listed_computes_right_and_can_be_chosen() {
    let home = Home::new();
    let listed = answered(&home, &["list"]);
    let used = &listed["runtimes"][0];
    assert_eq!(used["id"], "prepared", "{listed}");
    assert_eq!(used["is_used"], true, "{listed}");
    assert_eq!(used["kind"], "cpu");
    assert_eq!(used["version"], "2.11.0");
    assert!(used["bytes"].as_u64().unwrap() > 100_000_000, "{used}");
    assert_eq!(listed["advice"]["what"], "no_gpu");

    let checked = answered(&home, &["check"]);
    let device = checked["device"].as_str().unwrap();
    assert!(device.starts_with("CPU, "), "{checked}");

    // By its folder, which is what is taken anyway: the settings need not name it.
    let folder = used["folder"].as_str().unwrap();
    let output = runtime(&home, &["use", folder, "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", answer(&output));
    let refused = runtime(&home, &["use", "nonsense", "--json"])
        .output()
        .unwrap();
    let error = answer(&refused)["error"].to_string();
    assert!(error.contains("no libtorch is called nonsense"), "{error}");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_libtorch_that_fails_its_check_is_not_used_unless_its_user_insists() {
    let home = Home::new();
    let broken = home.path().join("broken/lib");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("libtorch_cpu.so"), b"no library").unwrap();
    let folder = home.path().join("broken");
    let words = ["use", folder.to_str().unwrap(), "--json"];
    let settings = home.path().join("config/safelight/settings.toml");
    let run = |words: &[&str]| {
        let mut command = runtime(&home, words);
        command.env_remove("LD_LIBRARY_PATH").output().unwrap()
    };
    let refused = run(&words);
    let error = answer(&refused)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("libtorch cannot be loaded"), "{error}");
    assert!(!settings.exists());
    let insisted = run(&[&words[..], &["--yes"]].concat());
    assert_eq!(insisted.status.code(), Some(0), "{}", answer(&insisted));
    assert!(fs::read_to_string(&settings).unwrap().contains("broken"));
}

#[test]
fn runtime_list_recommends_the_rocm_build_for_strix_halo() {
    let home = Home::new();
    let root = home.path();
    lay_strix_halo(root, "6.18.4");
    fs::create_dir(root.join("dev")).unwrap();
    fs::write(root.join("dev/kfd"), "").unwrap();
    let mut command = on_roots(home.safelight(), root);
    let output = command.args(["runtime", "list"]).output().unwrap();
    let text = assert_says(&output.stdout, "AMD gfx1151  0000:c4:00.0");
    let advice = "ROCm 7.14 of AMD, for gfx1151 serves AMD gfx1151 (about 1.3 GiB to download): `safelight runtime install rocm7.14-gfx1151`";
    assert!(text.contains(advice), "{text}");
}

/// A user's table with one build, that of the wheels.
fn lay_table(home: &Home) {
    let folder = home.path().join("config/safelight");
    fs::create_dir_all(&folder).unwrap();
    let table = format!(
        "[[runtime]]\nid = 'trial'\nname = 'a trial'\nkind = 'rocm'\nversion = '{VERSION}'\nindex = 'amd'\npackages = ['torch=={VERSION}', 'amd-torch-device-gfx1151', 'rocm-sdk-core==7.14.1', 'rocm-sdk-libraries==7.14.1']\ndownload_mb = 1\n"
    );
    fs::write(folder.join("runtimes.toml"), table).unwrap();
}

#[test]
fn killed_installation_resumes_and_never_leaves_a_partial_runtime() {
    let home = Home::new();
    lay_table(&home);
    let wheels = wheels::wheels();
    let server = Server::start(move |request| {
        // Slow enough to be interrupted.
        thread::sleep(Duration::from_millis(20));
        index(&wheels, request)
    });
    let from = format!("{}/whl", server.url);
    let install = || {
        let words = ["install", "trial", "--yes", "--json", "--from", &from];
        let mut command = runtime(&home, &words);
        command.env_remove("LD_LIBRARY_PATH");
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let runtimes = home.path().join("data/safelight/runtimes");
    for num_requests in [1, 6, 11, 16, 21] {
        let mut child = install().spawn().unwrap();
        while server.requests("HEAD").len() + server.requests("GET").len() < num_requests
            && child.try_wait().unwrap().is_none()
        {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!runtimes.join("trial").exists());
    }
    // What came is kept; the libraries are no libraries, so that it ends at the trial, and nothing is put in place.
    let output = install().output().unwrap();
    let last = answer(&output);
    assert_eq!(last["event"], "failed", "{last}");
    let message = last.to_string();
    assert!(message.contains("libtorch cannot be loaded"), "{message}");
    assert!(!runtimes.join("trial").exists());
    let files = || {
        let requests = server.requests("GET").into_iter();
        requests.filter(|it| it.path.starts_with("/files/")).count()
    };
    let before = files();
    install().output().unwrap();
    assert_eq!(files(), before, "every wheel was here");
}

/// The prepared libtorch once more, by links.
fn linked(home: &Home) -> std::path::PathBuf {
    let listed = answered(home, &["list"]);
    let lib = &listed["runtimes"][0]["library_folders"][0];
    let lib = lib.as_str().unwrap();
    let folder = home.path().join("linked");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(lib).unwrap().flatten() {
        let link = folder.join("lib").join(entry.file_name());
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(entry.path(), link).unwrap();
    }
    fs::write(folder.join("build-version"), "2.11.0\n").unwrap();
    folder
}

#[test]
fn the_one_before_is_kept_until_a_job_has_finished_and_one_command_goes_back() {
    let home = Home::new();
    let nothing = answered(&home, &["use", "--previous"]);
    let error = nothing["error"].as_str().unwrap();
    assert!(error.contains("no libtorch to go back to"), "{error}");

    // A libtorch that is here becomes one of Safelight's own, and is used.
    let from = linked(&home);
    let words = ["install", "--from", from.to_str().unwrap(), "--yes"];
    let installed = answered(&home, &words);
    assert_eq!(installed["event"], "finished", "{installed}");
    assert_eq!(installed["id"], "cpu-2.11.0");
    assert_eq!(installed["is_used"], true);
    assert_eq!(installed["before"], "prepared");
    let own = "data/safelight/runtimes/cpu-2.11.0/torch/lib";
    let lib = home.path().join(own);
    assert!(lib.join("libtorch_cpu.so").is_file());
    assert!(!lib.join("libtorch_cpu.so").is_symlink());
    let notes = || fs::read_to_string(home.path().join("data/safelight/runtimes.json")).unwrap();
    assert!(notes().contains("\"is_proven\":false"), "{}", notes());
    let mut command = home.generate();
    assert_finished(&command.args(["--out", "video.webp"]).output().unwrap());
    assert!(notes().contains("\"is_proven\":true"), "{}", notes());

    let back = answered(&home, &["use", "--previous"]);
    assert_eq!(back["id"], "prepared");
    assert_eq!(back["before"], "cpu-2.11.0");
    let refused = answered(&home, &["remove", "cpu-2.11.0", "--yes"]);
    let error = refused["error"].as_str().unwrap();
    let kept = "is kept until a job has finished";
    assert!(error.contains(kept), "{error}");
    let listed = answered(&home, &["list"]);
    let rows = listed["runtimes"].as_array().unwrap();
    let own = rows.iter().find(|row| row["id"] == "cpu-2.11.0").unwrap();
    assert_eq!(own["is_previous"], true);
    assert_eq!(own["can_be_removed"], false);
    let device = own["device"].as_str().unwrap();
    assert!(device.starts_with("CPU, "), "{own}");
}

#[test]
fn a_mirror_of_the_settings_takes_the_place_of_the_fixed_host() {
    let home = Home::new();
    lay_table(&home);
    let wheels = wheels::wheels();
    let server = Server::start(move |request| index(&wheels, request));
    home.write_settings(&format!("[runtime]\nmirror = '{}/whl'\n", server.url));
    let mut command = runtime(&home, &["install", "trial", "--yes", "--json"]);
    let last = answer(&command.env_remove("LD_LIBRARY_PATH").output().unwrap());
    // Everything came, and is no library.
    let said = last.to_string();
    assert!(said.contains("libtorch cannot be loaded"), "{said}");
    assert!(server.requests("GET").len() > 4);

    home.write_settings("[runtime]\nmirror = 'http://mirror.example'\n");
    let before = server.requests("GET").len();
    let last = answered(&home, &["install", "trial", "--yes"]);
    assert!(last.to_string().contains("begins with https://"), "{last}");
    assert_eq!(server.requests("GET").len(), before, "nobody is asked");
}
