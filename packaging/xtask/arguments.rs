//! The command line of `cargo xtask`. A parser would be compiled before everything else.

use crate::checks::{CheckPart, Only};
use crate::failure::{Failure, Result};
use crate::package::PackageOptions;

pub const HELP: &str = "\
cargo xtask setup                  prepare libtorch and missing system packages; with --second-engine also the libtorch
                                   2.13.0 that ROCm 10 has
cargo xtask run [--release]        prepare, build and open the app
cargo xtask run [--release] -- …   prepare, build and run the command line, e.g. -- generate --prompt \"a red kite\"
                                    with --second-engine before --, the engine for libtorch 2.13.0 is built, too
cargo xtask test [--only PART]     prepare and pass everything: format, build with clippy, tests, docs;
                                    --only tests/all runs one executable, --only second-engine the engine's tests
                                    on libtorch 2.13.0
cargo xtask bench …                prepare, build a release of the benchmarks and run it, e.g. bench flux --json
cargo xtask package [--developer]  pack a release with libtorch into target/package: an archive with its installer,
                                   a .deb and an .rpm; with --developer also the benchmarks, with --without-h264
                                   a build that neither writes nor reads MP4, into target/package-without-h264
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
    Test(Option<Only>),
    Bench(Vec<String>),
    Package(PackageOptions),
}

pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Request> {
    let mut args: Vec<String> = args.into_iter().collect();
    if args.is_empty() {
        return Err(Failure::usage(format!(
            "cargo xtask needs a command\n\n{HELP}"
        )));
    }
    let command = args.remove(0);
    let known: &[&str] = match &*command {
        "help" | "--help" | "-h" => &[],
        "setup" => &["--second-engine"],
        "run" => &["--release", "--second-engine"],
        "test" => return only(&args).map(Request::Test),
        "bench" => return Ok(Request::Bench(args)),
        "package" => &["--developer", "--without-h264"],
        other => {
            let sentence = format!("cargo xtask has no command {other}\n\n{HELP}");
            return Err(Failure::usage(sentence));
        }
    };
    let dashes = args.iter().position(|arg| arg == "--");
    let (options, args) = match dashes {
        Some(at) if command == "run" => (&args[..at], args[at + 1..].to_vec()),
        _ => (&args[..], Vec::new()),
    };
    if let Some(unknown) = options.iter().find(|it| !known.contains(&&***it)) {
        return Err(Failure::usage(format!(
            "cargo xtask {command} does not know {unknown}; only run takes arguments for Safelight, after --, as in \
             cargo xtask run -- generate"
        )));
    }
    let has = |flag: &str| options.iter().any(|option| option == flag);
    let second_engine = has("--second-engine");
    Ok(match &*command {
        "setup" => Request::Setup { second_engine },
        "run" => Request::Run {
            release: has("--release"),
            second_engine,
            args,
        },
        "package" => Request::Package(PackageOptions {
            developer: has("--developer"),
            without_h264: has("--without-h264"),
        }),
        _ => Request::Help,
    })
}

fn only(options: &[String]) -> Result<Option<Only>> {
    let only = match options {
        [] => return Ok(None),
        [flag, name] if flag == "--only" => Only::parse(name),
        _ => None,
    };
    let parts = CheckPart::ALL.map(CheckPart::name).join(", ");
    let sentence = format!(
        "cargo xtask test takes --only PART and no {}; the parts are {parts}",
        options.join(" ")
    );
    only.map(Some).ok_or_else(|| Failure::usage(sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
        texts.map(str::to_owned).to_vec()
    }

    #[test]
    fn arguments_after_dashes_are_those_of_the_program() {
        for (line, request) in [
            (
                "run --release -- generate --seed 3 -- x",
                Request::Run {
                    release: true,
                    second_engine: false,
                    args: texts(["generate", "--seed", "3", "--", "x"]),
                },
            ),
            (
                "run --second-engine",
                Request::Run {
                    release: false,
                    second_engine: true,
                    args: Vec::new(),
                },
            ),
            (
                "setup --second-engine",
                Request::Setup {
                    second_engine: true,
                },
            ),
            (
                "bench flux --json",
                Request::Bench(texts(["flux", "--json"])),
            ),
            (
                "package --without-h264 --developer",
                Request::Package(PackageOptions {
                    developer: true,
                    without_h264: true,
                }),
            ),
            (
                "package",
                Request::Package(PackageOptions {
                    developer: false,
                    without_h264: false,
                }),
            ),
            ("test", Request::Test(None)),
            ("--help", Request::Help),
        ] {
            assert_eq!(parsed(line).expect("valid"), request, "{line}");
        }
    }

    #[test]
    fn a_test_of_one_part_or_one_executable_can_be_requested() {
        for (text, part, executable) in [
            ("docs", CheckPart::Docs, None),
            ("tests", CheckPart::Tests, None),
            ("tests/all", CheckPart::Tests, Some("tests/all")),
        ] {
            let executable = executable.map(str::to_owned);
            let only = Some(Only { part, executable });
            let request = parsed(&format!("test --only {text}")).expect("valid");
            assert_eq!(request, Request::Test(only));
        }
    }

    #[test]
    fn wrong_arguments_are_named_and_end_with_two() {
        for (line, named) in [
            ("", "a command"),
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
            assert!(failure.sentence().contains(named), "{line}: {failure:?}");
        }
    }
}
