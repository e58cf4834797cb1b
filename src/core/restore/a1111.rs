//! The text that A1111's web UI began: a prompt, a negative prompt and a line of settings. Forge, SD.Next, sd.cpp and
//! many more write it too.

use super::fields::size;
use super::{Restored, RestoredLora};

const NEGATIVE: &str = "Negative prompt:";

/// Fewer settings than these may be words of a prompt with colons.
const MIN_SETTINGS: usize = 3;

/// The settings of a text, or nothing where it has none.
pub(super) fn read(text: &str) -> Option<Restored> {
    let text = text.trim();
    let (words, line) = split(text)?;
    let settings = settings(line);
    if settings.len() < MIN_SETTINGS {
        return None;
    }
    // The prompt may have the same words in it.
    let is_line_start = |at: usize| at == 0 || words[..at].ends_with('\n');
    let mut marks = words.rmatch_indices(NEGATIVE);
    let (prompt, negative) = match marks.find(|(at, _)| is_line_start(*at)) {
        Some((at, _)) => (&words[..at], Some(&words[at + NEGATIVE.len()..])),
        None => (words, None),
    };
    let mut restored = Restored::of(tool(&settings));
    let prompt = take_loras(prompt.trim(), &mut restored);
    restored.prompt = Some(prompt);
    restored.negative_prompt = Some(negative.unwrap_or_default().trim().to_owned());
    for (name, value) in &settings {
        take(&mut restored, &name.to_lowercase(), value);
    }
    // A second pass, which makes a picture larger, has a strength too.
    let is_enlarged = settings
        .iter()
        .any(|(name, _)| name.to_lowercase().starts_with("hires"));
    restored.from_picture |= restored.strength.is_some() && !is_enlarged;
    let says = restored.num_steps.is_some() || restored.seed.is_some();
    says.then_some(restored)
}

/// The first weight of words in a prompt, such as `(masterpiece:1.2)`.
pub(super) fn first_weight(text: &str) -> Option<&str> {
    const MAX_DIGITS: usize = 12;
    text.match_indices(':').find_map(|(colon, _)| {
        let behind = &text[colon + 1..];
        let end = behind.bytes().take(MAX_DIGITS).position(|it| it == b')')?;
        behind.get(..end)?.trim().parse::<f64>().ok()?;
        let start = text[..colon].rfind(['(', ')'])?;
        let is_plain = !text[..start].ends_with('\\') && text[start..].starts_with('(');
        is_plain.then(|| &text[start..=colon + 1 + end])
    })
}

/// The words, and the settings from the last line on that begins with the steps.
fn split(text: &str) -> Option<(&str, &str)> {
    const FIRST: &str = "Steps:";
    let at = text.rfind(&format!("\n{FIRST}")).map(|at| at + 1);
    let at = at.or_else(|| text.starts_with(FIRST).then_some(0));
    // Other writers begin with another setting; then it is the last line.
    let at = at.or_else(|| text.rfind('\n').map(|at| at + 1))?;
    Some(text.split_at(at))
}

/// `Name: value, Name: "a value, quoted", …`. What is no pair is passed over.
fn settings(line: &str) -> Vec<(String, String)> {
    const MOST: usize = 500;
    let mut found = Vec::new();
    let mut rest = line;
    while found.len() < MOST {
        rest = rest.trim_start_matches([',', ' ', '\n', '\r', '\t']);
        let Some(end) = rest.find([',', ':', '\n']) else {
            break;
        };
        let (name, behind) = rest.split_at(end);
        if !behind.starts_with(':') {
            rest = &behind[1..];
            continue;
        }
        let behind = behind[1..].trim_start_matches(' ');
        let (value, after) = if let Some(quoted) = behind.strip_prefix('"') {
            unquoted(quoted)
        } else {
            let end = behind.find([',', '\n']).unwrap_or(behind.len());
            (behind[..end].trim().to_owned(), &behind[end..])
        };
        found.push((name.trim().to_owned(), value));
        rest = after;
    }
    found
}

/// A value up to its closing mark, and what stands behind that.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, letter)) => value.push(letter),
                None => break,
            },
            letter => value.push(letter),
        }
    }
    (value, "")
}

/// Which of the writers it was.
fn tool(settings: &[(String, String)]) -> &'static str {
    let value = |wanted: &str| {
        let found = settings.iter().find(|(name, _)| name == wanted);
        found.map_or("", |(_, value)| value.as_str())
    };
    let version = value("Version").to_lowercase();
    let app = value("App").to_lowercase();
    if version.contains("stable-diffusion.cpp") {
        "stable-diffusion.cpp"
    } else if version.contains("comfyui") {
        "ComfyUI"
    } else if version.contains("fooocus") {
        "Fooocus"
    } else if app.contains("sd.next") || app.contains("sdnext") {
        "SD.Next"
    } else if version.starts_with('f') || version.contains("forge") || version.contains("neo") {
        "Forge"
    } else {
        "A1111"
    }
}

fn take(restored: &mut Restored, name: &str, value: &str) {
    let number = || {
        value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
    };
    match name {
        "steps" => restored.num_steps = value.parse().ok().filter(|steps| *steps > 0),
        "sampler" => restored.take_sampler(value),
        "schedule type" | "scheduler" | "schedule" => restored.take_schedule(value),
        "cfg scale" => restored.cfg_scale = number(),
        "distilled cfg scale" | "guidance" => restored.distilled_guidance = number(),
        "shift" | "flow shift" => restored.shift = number(),
        "seed" => restored.take_seed(&value.into()),
        "size" => restored.take_size(size(value)),
        // sd.cpp names the transformer apart, and that is the model then.
        "unet" | "diffusion model" => restored.model = Some(super::file_name(value).to_owned()),
        "model" if restored.model.is_none() => {
            let name = super::file_name(value);
            restored.model = (!name.is_empty()).then(|| name.to_owned());
        }
        "model hash" => restored.model_hash = Some(value.to_owned()),
        "denoising strength" => restored.strength = number(),
        "frames" | "video frames" => restored.num_frames = value.parse().ok(),
        "fps" => restored.fps = number(),
        "hires upscale" | "hires resize" => {
            restored.note("It was enlarged in a second pass, which Safelight does not run");
        }
        "mask blur" | "inpaint area" => {
            restored.note_picture("It was made with a mask, which the file does not carry");
        }
        _ if name.starts_with("controlnet") => {
            restored.note("It was made with a ControlNet, which Safelight does not run");
        }
        _ => {}
    }
}

/// The prompt without `<lora:name:0.8>`, which are taken as LoRAs.
pub(super) fn take_loras(prompt: &str, restored: &mut Restored) -> String {
    let mut out = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some(at) = rest.find("<lora:") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let inside = &from["<lora:".len()..];
        let Some(end) = inside.find('>') else {
            rest = from;
            break;
        };
        restored.add_lora(lora(&inside[..end]));
        rest = &inside[end + 1..];
        // One space is enough between the words on both sides.
        if out.ends_with(' ') || out.is_empty() {
            rest = rest.trim_start_matches(' ');
        }
    }
    out.push_str(rest);
    out.trim().trim_end_matches(',').trim_end().to_owned()
}

/// `name:0.8`, `name:0.8:0.5`, sd.cpp's `|high_noise|name:1`.
fn lora(inside: &str) -> RestoredLora {
    let (high_only, inside) = match inside.strip_prefix("|high_noise|") {
        Some(rest) => (true, rest),
        None => (false, inside),
    };
    let mut parts = inside.split(':');
    let name = parts.next().unwrap_or_default().trim();
    let strength = parts.next().and_then(|text| text.trim().parse().ok());
    let strength = strength.filter(|strength: &f64| strength.is_finite());
    let mut lora = RestoredLora::new(name, strength.unwrap_or(1.0));
    lora.strength_2 = high_only.then_some(0.0);
    lora
}
