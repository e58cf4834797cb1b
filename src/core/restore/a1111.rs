//! The text of A1111's web UI: a prompt, a negative prompt and a line of settings. Forge, SD.Next, sd.cpp, Civitai and
//! many more write it too.

use crate::restore::names::file_name;
use serde_json::Value;

use super::fields::{self, number_of_text, size};
use super::{ForeignSettings, RestoredLora, civitai, controls, names, short};
use crate::job::SecondPass;

const NEGATIVE: &str = "Negative prompt:";

/// Fewer settings than these may be words of a prompt with colons.
const MIN_SETTINGS: usize = 3;

/// Settings that say nothing of how a result was computed.
const PROVENANCE: &str =
    "version, app, user, created date, civitai metadata, template, negative template, rng";

/// First `[a:b:0.5]` or `[a|b]` of a prompt, with which A1111 changes it between steps.
fn prompt_editing(words: &str) -> Option<&str> {
    let mut ends = words.match_indices(']').map(|(end, _)| end);
    ends.find_map(|end| {
        let start = words[..end].rfind('[')?;
        let mut depth = 0;
        let is_edited = words[start..end].chars().any(|it| {
            depth += i32::from(matches!(it, '(' | '<')) - i32::from(matches!(it, ')' | '>'));
            depth == 0 && matches!(it, ':' | '|')
        });
        let is_text = words[..start].ends_with('\\');
        (is_edited && !is_text).then(|| &words[start..=end])
    })
}

/// Names and values of the settings, in order.
pub(super) type A1111Settings = Vec<(String, String)>;

/// Reads a text; `None` where it has no settings.
pub(super) fn read(text: &str) -> Option<ForeignSettings> {
    let text = text.trim().replace("\r\n", "\n");
    let (words, settings) = split(&text)?;
    let mut restored = ForeignSettings::of(tool(&settings));
    let (prompt, negative) = split_words(words, &restored.tool);
    let prompt = prompt.trim();
    let prompt = prompt.strip_prefix("Prompt: ").unwrap_or(prompt);
    restored.prompt = Some(restored.take_tags(prompt, true));
    let mut ignored = ForeignSettings::default();
    let negative: Vec<&str> = negative.lines().map(without_label).collect();
    restored.negative_prompt = Some(ignored.take_tags(negative.join("\n").trim(), true));
    restored.add_notes(ignored.notes);
    if !ignored.loras.is_empty() {
        let names = RestoredLora::listed(&ignored.loras);
        restored.note(format!(
            "LoRAs in the negative prompt are not used, as in A1111: {names}"
        ));
    }
    if names::has_keyword(words, "AND") {
        restored.note(
            "AND is not used and stays in the prompt as a word: A1111 combines several prompts with it",
        );
    }
    if let Some(edited) = prompt_editing(words) {
        let edited = short(edited);
        restored.note(format!(
            "Prompt editing, such as {edited}, is not done and stays in the prompt as text"
        ));
    }
    if words.lines().any(|line| is_settings(&pairs(line))) {
        restored.note("The file has several lines of settings: the last is used, and the others stay in the prompt");
    }
    let unused = take_settings(&mut restored, settings);
    restored.note_unused(&unused);
    Some(restored)
}

/// Splits words into the prompt and the negative prompt, whose label may be within a line of the prompt, and again in
/// the negative prompt.
fn split_words<'w>(words: &'w str, tool: &str) -> (&'w str, &'w str) {
    let starts = std::iter::once(0).chain(words.match_indices('\n').map(|(at, _)| at + 1));
    let mut labels = starts.filter_map(|at| {
        let line = &words[at..];
        let at = at + line.len() - line.trim_start_matches([' ', '\t']).len();
        let label = words[at..].get(..NEGATIVE.len())?;
        label.eq_ignore_ascii_case(NEGATIVE).then_some(at)
    });
    // A web site may have taken out the line breaks.
    let inside = || {
        let lower = words.trim_end().to_ascii_lowercase();
        let is_one_line = !lower.contains('\n');
        lower
            .find(&NEGATIVE.to_ascii_lowercase())
            .filter(|_| is_one_line)
    };
    match labels.next().or_else(inside) {
        Some(at) => (&words[..at], &words[at + NEGATIVE.len()..]),
        // Its texts for people have a separate line `-fog`.
        None if tool == "Draw Things" => words.rsplit_once("\n-").unwrap_or((words, "")),
        None => (words, ""),
    }
}

/// A line of the negative prompt, whose label may be repeated.
fn without_label(line: &str) -> &str {
    match line.trim().split_at_checked(NEGATIVE.len()) {
        Some((label, rest)) if label.eq_ignore_ascii_case(NEGATIVE) => rest.trim_start(),
        _ => line,
    }
}

/// Takes settings, of two of one name the first. Returns those that are not used.
pub(super) fn take_settings(
    restored: &mut ForeignSettings,
    mut settings: A1111Settings,
) -> A1111Settings {
    // Hashes name LoRAs that others give a strength, and the model decides on true CFG.
    settings.sort_by_key(|(name, _)| {
        let name = name.to_lowercase();
        name.ends_with("hashes") || name == "cfg true"
    });
    let mut seen: Vec<(&str, &str, bool)> = Vec::new();
    let mut unused = Vec::new();
    for (name, value) in &settings {
        let lower = name.to_lowercase();
        let first = seen
            .iter()
            .find(|(known, ..)| !name.is_empty() && known.eq_ignore_ascii_case(name));
        let is_used = match first {
            None => take(restored, &lower, value),
            Some((_, first, is_used)) => {
                if *is_used && first != value && !is_provenance(&lower) {
                    restored.note(format!(
                        "The settings say {} twice: {} is used, and not {}",
                        short(&lower),
                        short(first),
                        short(value)
                    ));
                }
                *is_used
            }
        };
        if !is_used {
            unused.push((lower, value.clone()));
        }
        seen.push((name, value, is_used));
    }
    take_second_pass(restored, &settings);
    if restored.second_pass.is_some() {
        unused.retain(|(name, _)| name != "second pass");
    }
    unused
}

/// Returns whether settings say how something was made.
fn is_settings(settings: &[(String, String)]) -> bool {
    let says = ["Steps", "Seed"]
        .iter()
        .any(|name| value_of(settings, name).is_some());
    let named = settings.iter().filter(|(name, _)| !name.is_empty());
    says && named.count() >= MIN_SETTINGS
}

/// Splits into the words and the settings: the last line, else the lines from the last one on that begins with the
/// steps, where that has enough settings. The words may be in the same line.
fn split(text: &str) -> Option<(&str, A1111Settings)> {
    const FIRST: &str = "steps:";
    const MOST: usize = 16;
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let is_first = |rest: &str| {
        let value = rest[FIRST.len()..].trim_start();
        value.starts_with(|it: char| it.is_ascii_digit())
    };
    let lower = text.to_ascii_lowercase();
    let within = lower[last..].match_indices(FIRST).map(|(at, _)| last + at);
    let mut within = within.take(MOST).filter(|at| is_first(&lower[*at..]));
    let within = within.find(|at| {
        let before = pairs(&text[last..*at]);
        let mut others = ["Sampler", "CFG scale", "Seed", "Size", "Model"].iter();
        others.all(|name| value_of(&before, name).is_none())
    });
    let steps = lower.rmatch_indices(FIRST).map(|(at, _)| at);
    let steps = steps.filter(|at| *at == 0 || text[..*at].ends_with('\n'));
    let mut starts = std::iter::once(within.unwrap_or(last)).chain(steps.take(MOST));
    starts.find_map(|at| {
        let (words, line) = text.split_at(at);
        let found = pairs(line);
        is_settings(&found).then_some((words, found))
    })
}

/// First value of a name.
pub(super) fn value_of<'s>(settings: &'s [(String, String)], wanted: &str) -> Option<&'s str> {
    let mut settings = settings.iter();
    let found = settings.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(_, value)| value.as_str())
}

/// Reads `Name: value, Name: "a value, quoted", Name: {"json": 1}, …`, or with `|` as SD.Next may write it. What is no
/// pair has an empty name.
pub(super) fn pairs(line: &str) -> A1111Settings {
    const MOST: usize = 500;
    let first = line.find([',', '|']);
    let has_bars = first.is_some_and(|at| line[at..].starts_with("| "));
    let separator = if has_bars { '|' } else { ',' };
    let mut found = Vec::new();
    let mut rest = line;
    while found.len() < MOST {
        rest = rest.trim_start_matches([separator, ' ', '\n', '\r', '\t']);
        let end = rest.find([separator, ':', '\n']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !after.starts_with(':') {
            let words = name.trim().to_owned();
            found.extend((!words.is_empty()).then(|| (String::new(), words)));
            rest = after;
            if rest.is_empty() {
                break;
            }
            continue;
        }
        let after = after[1..].trim_start_matches(' ');
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            unquoted(quoted)
        } else {
            let end = json_len(after).unwrap_or_else(|| plain_len(after, separator));
            (after[..end].trim().to_owned(), &after[end..])
        };
        found.push((name.trim().to_owned(), value));
        rest = after;
    }
    found
}

/// Bytes of the JSON list or object at the start.
fn json_len(text: &str) -> Option<usize> {
    if !text.starts_with(['[', '{']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Bytes up to the separator or line end; a comma between digits, as in `3,5`, is a decimal one.
fn plain_len(text: &str, separator: char) -> usize {
    let end = |text: &str| text.find([separator, '\n']).unwrap_or(text.len());
    let first = end(text);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let decimals = text[first..]
        .strip_prefix(',')
        .map(|after| &after[..end(after)]);
    match decimals.map(str::trim_end) {
        Some(decimals) if is_digits(&text[..first]) && is_digits(decimals) => {
            first + 1 + decimals.len()
        }
        _ => first,
    }
}

/// Splits into a value up to its closing mark and the text after that.
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

/// Program that wrote the text.
fn tool(settings: &[(String, String)]) -> &'static str {
    let value = |wanted: &str| value_of(settings, wanted).unwrap_or_default();
    let version = value("Version").to_lowercase();
    let app = value("App").to_lowercase();
    if !value("Seed Mode").is_empty() {
        "Draw Things"
    } else if version.contains("stable-diffusion.cpp") {
        "stable-diffusion.cpp"
    } else if version.contains("comfyui") {
        "ComfyUI"
    } else if version.contains("fooocus") {
        "Fooocus"
    } else if app.contains("sd.next") || app.contains("sdnext") {
        "SD.Next"
    } else if version.is_empty() && !value("Civitai resources").is_empty() {
        "Civitai"
    } else if version.starts_with('f') || version.contains("forge") || version.contains("neo") {
        "Forge"
    } else {
        "A1111"
    }
}

/// Sets what is not known yet; returns whether there is a value.
fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let has_value = value.is_some();
    *field = field.take().or(value);
    has_value
}

/// Takes one setting; returns whether it is used, or named in a note.
fn take(restored: &mut ForeignSettings, name: &str, value: &str) -> bool {
    match name {
        "steps" => return set(&mut restored.num_steps, fields::count(&value.into())),
        "sampler" => restored.take_sampler(value),
        "schedule type" | "scheduler" | "schedule" => restored.take_schedule(value),
        "cfg scale" | "guidance scale" => {
            return set(&mut restored.cfg_scale, number_of_text(value));
        }
        // SD.Next's CFG scale is then that which the model embeds.
        "cfg true" if takes_distilled_guidance(restored) => {
            restored.distilled_guidance = restored.cfg_scale.take();
            return set(&mut restored.cfg_scale, number_of_text(value));
        }
        "distilled cfg scale" | "guidance" => {
            return set(&mut restored.distilled_guidance, number_of_text(value));
        }
        "shift" | "flow shift" | "sampler shift" => {
            return set(&mut restored.shift, number_of_text(value));
        }
        "seed" => return restored.take_seed(&value.into()),
        "size" => {
            restored.take_size(size(value));
            return restored.width.is_some();
        }
        "size-1" => return set(&mut restored.width, fields::count(&value.into())),
        "size-2" => return set(&mut restored.height, fields::count(&value.into())),
        // sd.cpp names the transformer apart, and that is the model then.
        "unet" | "diffusion model" => restored.model = Some(file_name(value).to_owned()),
        "model" if restored.model.is_none() && !value.starts_with(['{', '[']) => {
            let name = file_name(value);
            restored.model = (!name.is_empty()).then(|| name.to_owned());
        }
        "model hash" => restored.model_hash = Some(value.to_owned()),
        "denoising strength" => return set(&mut restored.strength, number_of_text(value)),
        "strength" => {
            let strength = number_of_text(value);
            let own = restored.strength;
            restored.strength = own.or_else(|| strength.filter(|it| *it < 1.0));
            return strength.is_some();
        }
        "frames" | "video frames" => {
            return set(&mut restored.num_frames, fields::count(&value.into()));
        }
        "fps" => return set(&mut restored.fps, number_of_text(value)),
        // Said of every image.
        "mask blur" | "seed mode" if restored.tool == "Draw Things" => {}
        "mask blur" | "inpaint area" => {
            restored.note_input(
                "Its start image and its mask are not in the file: add the image, and set the mask again",
            );
            return false;
        }
        "civitai resources" | "civitairesources" | "resources" => {
            civitai::take_resources(restored, value);
        }
        // `ink:0.8 grain:0.3:0.5`, and Fooocus' `ink: 0.8, grain: 0.3`, of which the prompt may have tags, too.
        "lora networks" | "lora weights" => {
            let mut listed = ForeignSettings::default();
            let is_fooocus = name == "lora weights" || value.contains(", ");
            let words = value.split(if is_fooocus { ", " } else { " " });
            for word in words.filter(|word| !word.is_empty()) {
                listed.take_tags(&format!("<lora:{word}>"), true);
            }
            restored.add_unknown_loras(listed);
        }
        "lora hashes" => {
            let pairs = value.split(", ").filter_map(|pair| pair.rsplit_once(':'));
            for (name, _) in pairs.filter(|(_, hash)| is_hash(hash.trim())) {
                note_other_lora(restored, name);
            }
        }
        "hashes" => {
            let hashes = fields::parse(value);
            let names = hashes
                .iter()
                .filter_map(Value::as_object)
                .flat_map(|it| it.keys());
            for name in names {
                if let Some(name) = name.strip_prefix("lora:") {
                    note_other_lora(restored, name);
                } else if let Some(name) = name.strip_prefix("embed:") {
                    restored.add_embedding(name);
                }
            }
        }
        "ti hashes" => {
            let names = value.split(", ").filter_map(|pair| pair.split(':').next());
            names.for_each(|name| restored.add_embedding(name));
        }
        "clip skip" | "clipskip" | "clip_skip" => {
            return set(&mut restored.clip_skip, number_of_text(value));
        }
        _ if name.starts_with("controlnet") => return controls::take_a1111(restored, value),
        "adetailer model" => restored.note(format!(
            "ADetailer ({}) changed the finished image, which is not repeated",
            short(value)
        )),
        _ => {
            let is_part = ["hires ", "adetailer "]
                .iter()
                .any(|it| name.starts_with(it));
            return is_part || name.ends_with("hash") || is_provenance(name);
        }
    }
    true
}

fn is_provenance(name: &str) -> bool {
    PROVENANCE.split(", ").any(|known| known == name)
}

/// Returns whether the model embeds its guidance, by its name.
fn takes_distilled_guidance(restored: &ForeignSettings) -> bool {
    let family = restored.model.as_deref().and_then(names::family);
    family.is_some_and(|family| !family.guidance_is_cfg)
}

fn is_hash(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Names a LoRA that was used, where the prompt does not say how strongly.
fn note_other_lora(restored: &mut ForeignSettings, name: &str) {
    let lora = RestoredLora::new(name.trim(), 1.0);
    for lora in restored.unknown_loras(vec![lora]) {
        restored.note(format!(
            "It was made with the LoRA {}, at a strength that the file does not say: add it yourself",
            short(&lora.name)
        ));
    }
}

/// Takes a hires fix. A1111 writes its strength as that of image to image, SD.Next apart.
fn take_second_pass(restored: &mut ForeignSettings, settings: &[(String, String)]) {
    let hires: A1111Settings = settings
        .iter()
        .filter_map(|(name, value)| {
            let (start, name) = name.split_at_checked("Hires ".len())?;
            let is_hires = start.eq_ignore_ascii_case("Hires ");
            is_hires.then(|| (name.to_lowercase(), value.clone()))
        })
        .collect();
    if hires.is_empty() {
        return;
    }
    let value = |wanted: &str| value_of(&hires, wanted);
    let scale = value("upscale").or_else(|| value("scale"));
    let scale = scale.and_then(number_of_text).filter(|scale| *scale > 0.0);
    let scale = scale.or_else(|| take_resize(restored, value("resize")?));
    let strength = value("strength").and_then(number_of_text);
    // SD.Next says it twice.
    let own = restored
        .strength
        .take_if(|own| strength.is_none_or(|it| it == *own));
    let strength = strength.or(own).unwrap_or(SecondPass::STRENGTH);
    let own = hires.iter().filter_map(|(name, value)| {
        let is_own = !matches!(&**name, "upscale" | "resize" | "scale" | "strength")
            && !value.starts_with("Use same");
        is_own.then(|| format!("{name} {}", short(value)))
    });
    let own: Vec<String> = own.collect();
    restored.add_second_pass(scale, strength, "Hires fix", &own.join(", "));
}

/// Returns the scale of a size in pixels, where 0 is the edge that keeps the shape. Another shape is cropped
/// from the larger scale.
fn take_resize(restored: &mut ForeignSettings, size: &str) -> Option<f64> {
    let (width, height) = size.split_once('x')?;
    let (width, height) = (
        number_of_text(width.trim())?,
        number_of_text(height.trim())?,
    );
    let by_width = width / f64::from(restored.width?);
    let by_height = height / f64::from(restored.height?);
    let scale = by_width.max(by_height);
    let is_cropped = by_width.min(by_height) > 0.0 && (by_width - by_height).abs() > 0.02 * scale;
    if is_cropped {
        restored.note(format!(
            "The hires fix was cropped to {width} × {height}: Safelight's keeps the shape of the first pass"
        ));
    }
    Some(scale).filter(|scale| *scale > 0.0)
}
