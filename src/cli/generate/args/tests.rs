//! What the help says.

use std::process::Command;

use clap::{CommandFactory as _, Parser as _};

use safelight_core::job::{GridSetting, GuiderKind, JobErrorKind, SamplerKind, SigmaSchedule};

use super::*;

#[derive(clap::Parser)]
struct Probe {
    #[command(flatten)]
    args: GenerateArgs,
}

fn help() -> String {
    Probe::command().render_long_help().to_string()
}

#[test]
fn help_lists_the_accepted_model_paths_and_tile_sizes() {
    for part in [
        "a diffusers folder, or a transformer file or its folder",
        "64 or more, a multiple of 8 (16 for Wan's 5B model)",
    ] {
        assert!(help().contains(part), "{part}");
    }
}

#[test]
fn help_distinguishes_prompt_templates_from_literal_prompts() {
    for part in [
        "{a|b} picks one of the choices",
        "Its prompts are used literally",
    ] {
        assert!(help().contains(part), "{part}");
    }
}

#[test]
fn a_seed_of_minus_one_is_random_and_other_negative_ones_are_refused() {
    let seed = |text: &str| {
        let parsed = Probe::try_parse_from(["generate", "--seed", text]);
        parsed
            .map(|probe| probe.args.seed)
            .map_err(|err| err.to_string())
    };
    assert_eq!(seed("-1"), Ok(Some(SeedChoice::Random)));
    assert_eq!(seed("7"), Ok(Some(SeedChoice::Fixed(7))));
    assert!(seed("-2").unwrap_err().contains("or -1 for a random one"));
}

#[test]
fn the_help_names_every_sampler_schedule_guider_and_setting_that_a_grid_can_vary() {
    let help = help();
    let schedules = SigmaSchedule::ALL.map(SigmaSchedule::name);
    let guiders = GuiderKind::ALL.map(GuiderKind::name);
    let settings = GridSetting::ALL.map(GridSetting::name);
    let all = SamplerKind::ALL.map(SamplerKind::name);
    let all = all.iter().chain(&schedules).chain(&guiders);
    for name in all.chain(&settings) {
        assert!(help.contains(name), "{name}");
    }
}

#[test]
fn a_prompts_file_that_is_no_plain_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
        let err = prompts_of(path).unwrap_err();
        assert_eq!(err.kind, JobErrorKind::InvalidRequest);
        assert!(err.summary.contains("this is not a file"), "{err:?}");
    }
}
