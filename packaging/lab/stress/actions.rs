//! What is killed: commands that people give, with what they leave when nobody disturbs them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::models::{self, INTERPOLATOR, LORA, UPSCALER};
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
/// What is enlarged and gets more frames: 12 of 66 × 50 pixels.
const CLIP: &[u8] = include_bytes!("../../../src/core/media/source/tests/clips/sound.mp4");
/// As A1111 writes it beside a picture: the LoRA is looked for by its name.
const MADE: &str =
    "a small red fox <lora:stress-style:0.8>\nSteps: 6, Sampler: Euler, CFG scale: 3, Seed: 3\n";
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

/// An action that was not done yet.
type Asked = (String, Kind, Vec<OsString>);

/// The actions on these models beside the shipped one, each done once to see what it leaves, and the names of
/// those that a model refuses.
pub(super) fn all(
    user: &User,
    device: &str,
    models: &[PathBuf],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Action>, Vec<String>)> {
    let mut actions = generating(device, models);
    actions.extend(with_loras(device));
    actions.extend(finishing(device));
    let lora = format!("inspect ../{LORA} --json");
    for (name, line) in [
        ("a download", "download tiny --yes --json"),
        ("the list of models", "models --json"),
        ("the card of a LoRA", lora.as_str()),
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

/// Jobs that make something with the shipped model and with these.
fn generating(device: &str, models: &[PathBuf]) -> Vec<Asked> {
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
    actions
}

/// Jobs of the shipped model with a LoRA that is named by its file, and with one that is looked for.
fn with_loras(device: &str) -> [Asked; 2] {
    let line = format!("generate --json --device {device} --model little-world --seed 3 --steps 6");
    let asked = |name: &str, more: &[&str]| {
        let words = line.split(' ').chain(more.iter().copied());
        let arguments: Vec<OsString> = words.map(Into::into).collect();
        (name.to_owned(), Kind::Jobs(1), arguments)
    };
    let lora = format!("../{LORA}:0.8");
    let prompt = ["--prompt", "a small red fox"];
    [
        asked(
            "a clip with a LoRA",
            &[
                &prompt[..],
                &["--lora", lora.as_str(), "--out", "styled.mp4"],
            ]
            .concat(),
        ),
        asked(
            "a clip as a text with a LoRA says",
            &["--from", "../made.txt", "--out", "named.mp4"],
        ),
    ]
}

/// Jobs that finish a clip or a picture. Their results are of formats whose frames are kept without loss until the
/// end: an MP4 that was interrupted begins a run of frames where it goes on, and has other bytes.
fn finishing(device: &str) -> Vec<Asked> {
    let asked = [
        (
            "a clip made larger",
            format!("upscale ../clip.mp4 --scale 4 --model {UPSCALER} --out large.webp"),
        ),
        (
            "frames made larger in tiles",
            format!("upscale ../clip.mp4 --scale 6 --tile 64 --model {UPSCALER} --out large.png"),
        ),
        (
            "a picture made larger",
            format!("upscale ../start.png --scale 4 --model {UPSCALER} --out larger.png"),
        ),
        (
            "a clip with more frames",
            format!("interpolate ../clip.mp4 --times 4 --model {INTERPOLATOR} --out smooth.gif"),
        ),
    ];
    let asked = asked.into_iter().map(|(name, line)| {
        let more = ["--json", "--device", device];
        let words = line.split(' ').chain(more);
        let arguments: Vec<OsString> = words.map(Into::into).collect();
        (name.to_owned(), Kind::Jobs(1), arguments)
    });
    asked.collect()
}

/// A home in which each action can be done.
pub(super) fn prepare(user: &User) -> Result<()> {
    user.clean()?;
    user.write("prompts.txt", PROMPTS.as_bytes())?;
    user.write("start.png", START_PICTURE)?;
    user.write("clip.mp4", CLIP)?;
    user.write("made.txt", MADE.as_bytes())?;
    models::write_networks(user);
    models::write_lora(&user.home.join(LORA))?;
    user.write("config/safelight/models.toml", MODELS.as_bytes())
}
