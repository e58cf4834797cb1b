//! The command line of `cargo xtask`, parsed by hand: it is small, and a parser would be the only dependency.

use crate::checks::{Only, PartName};
use crate::failure::{Failure, Result};

pub const HELP: &str = "\
cargo xtask setup                  prepare libtorch and what the system lacks; with --second-engine also the libtorch
                                   2.13.0 that ROCm 10 has
cargo xtask run [--release]        prepare, build and open the app
cargo xtask run [--release] -- …   prepare, build and run the command line, e.g. -- generate --prompt \"a red kite\"
                                    with --second-engine before --, the engine for libtorch 2.13.0 is built, too
cargo xtask test [--only PART]     prepare and pass everything: format, dependencies, build with clippy, tests, docs;
                                    --only tests/plan runs one executable, --only second-engine the engine's tests
                                    on libtorch 2.13.0
cargo xtask bench …                prepare, build a release of what measures and run it, e.g. bench flux --json
cargo xtask package [--developer]  pack a release with libtorch into target/package: an archive with its installer,
                                   a .deb and an .rpm; with --developer also what measures, with --without-h264
                                   what neither writes nor reads MP4, into target/package-without-h264
cargo xtask help                   show this

SAFELIGHT_CACHE=DIR                keeps libtorch in DIR instead of ~/.cache/safelight
";

#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Help,
    Setup {
        second_engine: bool,
    },
    Run {
        release: bool,
        second_engine: bool,
        args: Vec<String>,
    },
    Test(TestOptions),
    Bench(Vec<String>),
    Package(PackageOptions),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageOptions {
    /// Also what measures.
    pub developer: bool,
    /// Neither writes nor reads MP4.
    pub without_h264: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestOptions {
    pub only: Option<Only>,
}

pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Request> {
    let mut args = args.into_iter();
    let Some(command) = args.next() else {
        return Err(Failure::usage(format!(
            "cargo xtask needs to know what to do\n\n{HELP}"
        )));
    };
    if command == "bench" {
        return Ok(Request::Bench(args.collect()));
    }
    let (options, rest) = split_at_dashes(args);
    if !rest.is_empty() && command != "run" {
        return Err(Failure::usage(format!(
            "cargo xtask {command} takes nothing after --"
        )));
    }
    match command.as_str() {
        "help" | "--help" | "-h" => Ok(Request::Help),
        "setup" => {
            let [second_engine] = flags(&command, &options, ["--second-engine"])?;
            Ok(Request::Setup { second_engine })
        }
        "run" => {
            let [release, second_engine] =
                flags(&command, &options, ["--release", "--second-engine"])?;
            Ok(Request::Run {
                release,
                second_engine,
                args: rest,
            })
        }
        "test" => test_options(&options).map(Request::Test),
        "package" => {
            let known = ["--developer", "--without-h264"];
            let [developer, without_h264] = flags(&command, &options, known)?;
            Ok(Request::Package(PackageOptions {
                developer,
                without_h264,
            }))
        }
        other => Err(Failure::usage(format!(
            "cargo xtask has no command {other}\n\n{HELP}"
        ))),
    }
}

fn split_at_dashes(args: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let mut args: Vec<String> = args.collect();
    let Some(dashes) = args.iter().position(|arg| arg == "--") else {
        return (args, Vec::new());
    };
    let rest = args.split_off(dashes + 1);
    args.truncate(dashes);
    (args, rest)
}

/// Which of the known flags are there; anything else is refused by name.
fn flags<const N: usize>(command: &str, options: &[String], known: [&str; N]) -> Result<[bool; N]> {
    match options
        .iter()
        .find(|option| !known.contains(&option.as_str()))
    {
        Some(unknown) if command == "run" => Err(Failure::usage(format!(
            "cargo xtask run does not know {unknown}; arguments for Safelight go behind --, as in \
             cargo xtask run -- generate"
        ))),
        Some(unknown) => Err(Failure::usage(format!(
            "cargo xtask {command} does not know {unknown}"
        ))),
        None => Ok(known.map(|flag| options.iter().any(|option| option == flag))),
    }
}

fn test_options(options: &[String]) -> Result<TestOptions> {
    match options {
        [] => Ok(TestOptions::default()),
        [flag, name] if flag == "--only" => Only::from_text(name)
            .map(|only| TestOptions { only: Some(only) })
            .ok_or_else(|| {
                Failure::usage(format!(
                    "cargo xtask test has no part {name}: it has {}",
                    PartName::all()
                ))
            }),
        _ => Err(Failure::usage(format!(
            "cargo xtask test takes --only PART and nothing else: {}",
            PartName::all()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn run_passes_on_what_stands_behind_the_dashes() {
        let request = parsed("run --release -- generate --seed 3 -- x").expect("valid");
        let args = ["generate", "--seed", "3", "--", "x"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            request,
            Request::Run {
                release: true,
                second_engine: false,
                args
            }
        );
        assert_eq!(
            parsed("run --second-engine").expect("valid"),
            Request::Run {
                release: false,
                second_engine: true,
                args: Vec::new()
            }
        );
        let second_engine = true;
        assert_eq!(
            parsed("setup --second-engine").expect("valid"),
            Request::Setup { second_engine }
        );
    }

    #[test]
    fn bench_passes_on_everything_and_package_knows_its_flags() {
        assert_eq!(
            parsed("bench flux --json").expect("valid"),
            Request::Bench(["flux", "--json"].map(str::to_owned).to_vec())
        );
        for (line, developer, without_h264) in [
            ("package", false, false),
            ("package --developer", true, false),
            ("package --without-h264", false, true),
            ("package --without-h264 --developer", true, true),
        ] {
            let request = Request::Package(PackageOptions {
                developer,
                without_h264,
            });
            assert_eq!(parsed(line).expect("valid"), request, "{line}");
        }
    }

    #[test]
    fn test_runs_one_part_or_one_executable_when_asked() {
        for (text, part, executable) in [
            ("docs", PartName::Docs, None),
            ("tests", PartName::Tests, None),
            ("tests/plan", PartName::Tests, Some("tests/plan")),
        ] {
            let executable = executable.map(str::to_owned);
            let only = Some(Only { part, executable });
            assert_eq!(
                parsed(&format!("test --only {text}")).expect("valid"),
                Request::Test(TestOptions { only })
            );
        }
        assert_eq!(
            parsed("test").expect("valid"),
            Request::Test(TestOptions::default())
        );
    }

    #[test]
    fn wrong_arguments_are_named_and_end_with_two() {
        for (line, named) in [
            ("", "what to do"),
            ("fly", "fly"),
            ("run generate", "generate"),
            ("setup --fast", "--fast"),
            ("setup -- x", "--"),
            ("test --only", "--only"),
            ("test --only speed", "speed"),
            ("test --only docs/plan", "docs/plan"),
            ("package --release", "--release"),
        ] {
            let failure = parsed(line).expect_err(line);
            assert_eq!(failure.code(), 2, "{line}");
            assert!(
                failure
                    .sentence()
                    .is_some_and(|sentence| sentence.contains(named)),
                "{line}: {failure:?}"
            );
        }
    }
}
