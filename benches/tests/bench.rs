//! `safelight-bench` as a developer starts it: what it prints, and its codes.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::{Command, Output};

use safelight_core::families::Family;
use serde_json::Value;

/// With nobody's settings, on the libtorch of this build.
fn bench(subject: &str, args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    command(home.path(), subject, args).output().unwrap()
}

fn command(home: &Path, subject: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_safelight-bench"));
    command
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("OMP_NUM_THREADS", "1")
        .env_remove("SAFELIGHT_LIBTORCH")
        .arg(subject)
        .args(args);
    command
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A test for each family, with small cases of its transformer, its autoencoder and its text encoders.
macro_rules! small_cases {
    ($($family:ident: [$($case:literal),+],)+) => {
        const MEASURED: &[&str] = &[$(stringify!($family)),+];

        mod small_cases_print_one_sound_json_object_each {
            $(#[test]
            fn $family() {
                super::are_sound(stringify!($family), &[$($case),+]);
            })+
        }
    };
}

small_cases! {
    chroma: ["chroma_1024"],
    flux: ["flux_2048", "vae_flux_1024_tiled", "t5xxl", "clip_l"],
    flux2: ["klein_4b_1024", "qwen3_8b"],
    framepack: ["framepack", "vae_hunyuan_9"],
    krea2: ["krea2_1024", "qwen3_vl_4b"],
    qwen_image: ["qwen_image_1024", "qwen25_vl_7b"],
    wan: ["wan14b_320_17f", "vae_wan_480p_81f_tiled"],
    z_image: ["z_image_1024", "qwen3_4b"],
}

#[test]
fn every_family_is_a_subject() {
    for family in Family::all() {
        // That of the tests has no network.
        let is_measured = family.id == "toy" || MEASURED.contains(&family.id);
        assert!(is_measured, "no small case of {}", family.id);
        let output = bench(&subject(family.id), &["--help"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains(family.label),
            "{text}"
        );
    }
    let output = bench("sora", &["--small"]);
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
}

#[test]
fn networks_that_stream_from_their_files_give_the_same() {
    let args = [
        "--small",
        "--json",
        "--runs",
        "1",
        "--device",
        "cpu",
        "--preserved",
        "0,1024",
        "--case",
        "wan14b_320_17f",
        "--case",
        "umt5xxl",
    ];
    let output = bench("wan", &args);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let lines = lines(&output);
    assert_eq!(lines.len(), 6);
    for lines in lines.chunks(3) {
        assert!(lines[0]["preserved_gib"].is_null() && lines[0]["is_same"].is_null());
        for line in &lines[1..] {
            assert_eq!(line["is_same"], true, "{line}");
        }
        // With all memory preserved no matrix stays.
        let number = |i: usize, name: &str| lines[i][name].as_f64().unwrap();
        assert!(number(1, "resident_gib") > number(2, "resident_gib"));
        assert!(number(2, "window_gib") > 0.0);
    }
}

/// As the command line has a family: `z-image`.
fn subject(family: &str) -> String {
    family.replace('_', "-")
}

fn are_sound(family: &str, cases: &[&str]) {
    // What several runs add up to is tested where they are timed, and on one cheap case below.
    let options = ["--small", "--json", "--runs", "1", "--device", "cpu"];
    let named = cases.iter().flat_map(|case| ["--case", case]);
    let arguments: Vec<&str> = options.into_iter().chain(named).collect();
    let output = bench(&subject(family), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let lines = lines(&output);
    assert_eq!(lines.len(), cases.len());
    for (line, case) in lines.iter().zip(cases) {
        assert_eq!(line["case"], *case);
        assert_eq!(
            (&line["dtype"], &line["libtorch"]),
            (&"f32".into(), &"2.11.0".into())
        );
        assert_eq!(
            (&line["device"], &line["small"]),
            (&"CPU".into(), &true.into())
        );
        assert_eq!(line["runs"], 1);
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(
            number("min_s") > 0.0 && number("min_s") == number("median_s"),
            "{line}"
        );
        assert!(number("total_s") >= number("min_s"), "{line}");
        let weights = line["weights_bytes"].as_u64().unwrap() as f64 / f64::from(1 << 30);
        assert!(
            weights > 0.0 && number("weights_gib") >= weights - 1e-6,
            "{line}"
        );
        assert!(number("peak_gib") >= number("weights_gib"), "{line}");
        assert!(number("peak_reserved_gib") >= number("peak_gib"), "{line}");
        assert!(line["error"].is_null());
    }
}

#[test]
fn several_runs_are_counted_and_their_middle_is_told() {
    let options = ["--small", "--json", "--runs", "3", "--device", "cpu"];
    let output = bench("flux", &[&options[..], &["--case", "clip_l"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let line = &lines(&output)[0];
    let number = |name: &str| line[name].as_f64().unwrap();
    assert_eq!(line["runs"], 3);
    assert!(number("min_s") <= number("median_s"), "{line}");
    assert!(number("total_s") >= 3.0 * number("min_s"), "{line}");
}

#[test]
fn people_get_a_table() {
    let options = ["--small", "--runs", "1", "--device", "cpu"];
    let output = bench(
        "wan",
        &[&options[..], &["--case", "wan5b_704p_121f"]].concat(),
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}{}", error(&output));
    assert!(
        lines[0].starts_with("case") && lines[1].starts_with("wan5b_704p_121f"),
        "{text}"
    );
    assert!(lines[1].ends_with("CPU, f32"), "{text}");
}

#[test]
fn a_run_is_compared_with_an_earlier_one_and_fails_where_it_is_slower() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |name: &str, secs: f64| {
        let path = folder.path().join(name);
        let line = format!(r#"{{"case":"clip_l","median_s":{secs},"runs":1,"device":"CPU"}}"#);
        std::fs::write(&path, line).unwrap();
        path.display().to_string()
    };
    let (fast, slow) = (stored("fast.json", 1e-9), stored("slow.json", 1e9));
    let options = [
        "--small", "--runs", "1", "--device", "cpu", "--case", "clip_l",
    ];
    for (file, code) in [(&fast, 1), (&slow, 0)] {
        let output = bench("flux", &[&options[..], &["--against", file]].concat());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}{}", error(&output));
        assert!(text.contains("clip_l: median"), "{text}");
        assert_eq!(text.contains("SLOWER"), code == 1, "{text}");
    }
    let output = bench("compare", &[&slow, &fast, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(lines(&output)[0]["figures"][0]["is_worse"], false);
    let output = bench("compare", &[&fast, &slow]);
    assert_eq!(output.status.code(), Some(1), "{}", error(&output));
    let nothing = folder.path().join("nothing.json").display().to_string();
    let output = bench("compare", &[&fast, &nothing]);
    assert!(error(&output).contains("nothing to compare"), "{output:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_sentence() {
    for (args, part) in [
        (&["--case", "wan99b"][..], "found \"wan99b\""),
        (&["--case", "umt5xxl"][..], "expected a GPU"),
        (&["--small", "--case", "t5xxl"][..], "found \"t5xxl\""),
        (&["--small", "--runs", "none"][..], "found \"none\""),
        (&["--case=--small"][..], "found \"--small\""),
    ] {
        let output = bench("wan", &[args, &["--device", "cpu"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        let text = error(&output);
        assert!(text.contains(part) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_program_that_reads_json_gets_the_refusal_as_an_object_too() {
    for (args, part) in [
        (&["--case", "wan99b"][..], "found \"wan99b\""),
        (&["--case=--device"][..], "found \"--device\""),
        (&["--runs", "0"][..], "found \"0\""),
        (&["--case", "umt5xxl"][..], "expected a GPU"),
        (&["--device", "tpu"][..], "tpu"),
        (&["--fast"][..], "--fast"),
    ] {
        let device = ["--device", "cpu", "--json"];
        let device = if args[0] == "--device" {
            &device[2..]
        } else {
            &device[..]
        };
        let output = bench("wan", &[args, device].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let [object] = &lines(&output)[..] else {
            panic!("{args:?}: {output:?}")
        };
        let text = object["error"].as_str().unwrap();
        assert!(text.contains(part) && text.lines().count() == 1, "{text}");
        assert_eq!(object["exit_code"], 2);
        assert!(error(&output).contains(part), "people are told as well");
    }
}

#[test]
fn layers_and_kernels_are_measured_by_their_names() {
    let case = ["--case", "conv_c384_1f_32x32", "--runs", "1", "--small"];
    let output = bench("conv", &[&case[..], &["--device", "cpu"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let ways: Vec<_> = lines(&output)
        .iter()
        .map(|line| line["way"].clone())
        .collect();
    assert_eq!(ways, ["direct", "no_miopen", "frames"]);
    let output = bench("kernels", &["--device", "cpu"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["status"], "own kernels: none for the CPU");
}

#[test]
fn without_libtorch_it_starts_and_names_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path(), "kernels", &[]);
    let nowhere = home.path().join("nothing-here");
    let output = command.env("SAFELIGHT_LIBTORCH", nowhere).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("nothing-here"), "{output:?}");
}

#[test]
fn fragments_are_counted_beside_weights_that_stay() {
    let args = "--cap 0.05 --preserved 0.04 --rounds 3 --small --device cpu --flush";
    let args: Vec<&str> = args.split(' ').collect();
    let output = bench("fragments", &args);
    let line = &lines(&output)[0];
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        (line["rounds"].as_u64(), line["lost"].as_u64()),
        (Some(3), Some(0))
    );
    assert_eq!(line["weights"], 7, "of 1.4 MiB each in 10 MiB: {line}");
    let number = |name: &str| line[name].as_f64().unwrap();
    assert!(
        number("peak_gib") > 0.009 && number("left_gib") < number("cap_gib"),
        "{line}"
    );
    let refused = bench("fragments", &["--cap", "x", "--preserved", "1"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
