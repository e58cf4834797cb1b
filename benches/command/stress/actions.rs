//! What is killed: commands that people give, with what they leave when nobody disturbs them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::user::{Result, User, broken};

/// What an action is to the one who kills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Makes results, so many jobs; what is begun goes on with `safelight resume`.
    Jobs(usize),
    /// Leaves the same when it is given again.
    Again,
}

pub(super) struct Action {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) arguments: Vec<OsString>,
    /// Every file of the home behind it.
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(super) took: Duration,
    pub(super) code: Option<i32>,
}

const PROMPTS: &str = "a red fox\na blue whale\na green bird\n";
const START_PICTURE: &[u8] = include_bytes!("../../../tests/fixtures/media/plain.png");
/// A model that is fetched from the server of this run.
const MODELS: &str = r#"
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

/// A usage error: what is asked for, this model does not do.
const REFUSED: i32 = 2;

/// The actions on these models beside the shipped one, each done once to see what it leaves, and the names of
/// those that a model refuses.
pub(super) fn all(
    user: &User,
    device: &str,
    models: &[PathBuf],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Action>, Vec<String>)> {
    let mut actions = Vec::new();
    let shipped = Path::new("little-world");
    for model in std::iter::once(shipped).chain(models.iter().map(PathBuf::as_path)) {
        let name = model.file_name().unwrap_or_default().to_string_lossy();
        for (what, jobs, more) in [
            ("a clip", 1, &["--out", "clip.mp4"][..]),
            ("pictures", 1, &["--out", "frames.png"]),
            (
                "a clip from a picture",
                1,
                &["--image", "../start.png", "--out", "moves.mp4"],
            ),
            (
                "two seconds from a picture",
                1,
                &[
                    "--image",
                    "../start.png",
                    "--seconds",
                    "2",
                    "--out",
                    "long.mp4",
                ],
            ),
            (
                "a picture from a picture",
                1,
                &[
                    "--image",
                    "../start.png",
                    "--strength",
                    "0.7",
                    "--out",
                    "again.png",
                ],
            ),
            ("a batch", 3, &["--batch", "3", "--out", "batch.webp"]),
            (
                "a file of prompts",
                3,
                &["--prompts-file", "../prompts.txt", "--out", "each.gif"],
            ),
        ] {
            let mut arguments: Vec<OsString> =
                ["generate", "--json", "--device", device, "--model"]
                    .map(Into::into)
                    .to_vec();
            arguments.push(model.into());
            arguments.extend(["--seed", "3", "--steps", "6"].map(Into::into));
            if model != shipped {
                // Their own sizes are those of models a thousand times as large.
                arguments.extend(["--width", "128", "--height", "96"].map(Into::into));
            }
            if !more.contains(&"--prompts-file") {
                arguments.extend(["--prompt", "a small red fox"].map(Into::into));
            }
            arguments.extend(more.iter().map(Into::into));
            actions.push((format!("{what}, {name}"), Kind::Jobs(jobs), arguments));
        }
    }
    for (name, line) in [
        ("a download", "download tiny --yes --json"),
        ("the list of models", "models --json"),
        ("the doctor", "doctor --json"),
    ] {
        let arguments = line.split(' ').map(Into::into).collect();
        actions.push((name.to_owned(), Kind::Again, arguments));
    }
    actions.retain(|(name, ..)| is_wanted(name));
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for (name, kind, arguments) in actions {
        prepare(user)?;
        let begin = Instant::now();
        let ended = user.run(&arguments)?;
        if ended.code == Some(REFUSED) {
            refused.push(name);
            continue;
        }
        // The model of the download lacks its other parts, which its end says.
        if ended.code != Some(0) && kind != Kind::Again {
            let what = format!("{name} fails undisturbed: {}", ended.errors);
            return Err(broken(what));
        }
        done.push(Action {
            took: begin.elapsed(),
            code: ended.code,
            files: user.files(),
            name,
            kind,
            arguments,
        });
    }
    Ok((done, refused))
}

/// A home in which each action can be done.
pub(super) fn prepare(user: &User) -> Result<()> {
    user.clean()?;
    user.write("prompts.txt", PROMPTS.as_bytes())?;
    user.write("start.png", START_PICTURE)?;
    user.write("config/safelight/models.toml", MODELS.as_bytes())
}
