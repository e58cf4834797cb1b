//! Differences between the settings of two results, in the words of the interface.
//!
//! Compares settings as embedded in files, so that new results and old files are treated alike.

use serde_json::{Map, Value};

/// Longer values are cut; the whole ones are in the files.
const MAX_CHARS: usize = 80;

/// Setting: its key in files, its name, and its text if a result does not contain it.
type ComparedSetting = (&'static str, &'static str, &'static str);

const SETTINGS: [ComparedSetting; 28] = [
    ("model", "model", "unknown model"),
    ("seed", "seed", "unknown seed"),
    ("num_steps", "steps", "default steps"),
    ("guidance_scale", "guidance", "default guidance"),
    ("true_cfg_scale", "CFG scale", "CFG off"),
    ("guider", "guider", "plain guidance"),
    ("guidance_range", "guidance range", "guided in all steps"),
    ("guidance_scale_2", "low-noise guidance", "one guidance"),
    ("sampler", "sampler", "default sampler"),
    ("sigma_schedule", "schedule", "default schedule"),
    ("shift", "shift", "automatic shift"),
    ("strength", "strength", "default strength"),
    ("start_step", "from step", "from the first step"),
    ("end_step", "to step", "to the last step"),
    ("step_cache", "step cache", "no step cache"),
    ("loras", "LoRAs", "no LoRAs"),
    ("num_frames", "frames", "default length"),
    ("fps", "fps", "default fps"),
    ("image", "start image", "no start image"),
    ("last_image", "end image", "no end image"),
    ("mask", "mask", "no mask"),
    ("references", "reference images", "no reference images"),
    ("controls", "control images", "no control images"),
    ("extend", "extends", "extends no video"),
    ("vae_tile", "decoded in tiles of", "decoded without tiles"),
    ("prompt_weights", "prompt weights", "prompt weights off"),
    ("negative_prompt", "negative prompt", "no negative prompt"),
    ("prompt", "prompt", "no prompt"),
];

/// Compares two requests, a line each; `None` is a file without settings.
pub fn differences(a: Option<&Value>, b: Option<&Value>) -> [String; 2] {
    let words = match (a, b) {
        (Some(a), Some(b)) => {
            let sizes = [size(a), size(b)];
            let sizes = (sizes[0] != sizes[1]).then_some(sizes);
            let differing = SETTINGS.iter().filter(|(key, ..)| a[key] != b[key]);
            let settings = differing.map(|setting| [a, b].map(|it| described(setting, it)));
            let all: Vec<[String; 2]> = sizes.into_iter().chain(settings).collect();
            if all.is_empty() {
                return ["same settings", "same settings"].map(str::to_owned);
            }
            [0, 1].map(|side| all.iter().map(|words| words[side].clone()).collect())
        }
        _ => [a, b].map(|request| match request {
            Some(request) => summary(request),
            None => vec!["settings unknown".to_owned()],
        }),
    };
    words.map(|words| words.join("  ·  "))
}

fn summary(request: &Value) -> Vec<String> {
    let main = ["model", "seed", "num_steps", "prompt"];
    SETTINGS
        .iter()
        .filter(|(key, ..)| main.contains(key) && !request[key].is_null())
        .map(|setting| described(setting, request))
        .collect()
}

fn size(request: &Value) -> String {
    match (request["width"].as_u64(), request["height"].as_u64()) {
        (Some(width), Some(height)) => format!("{width} × {height}"),
        _ => "unknown size".to_owned(),
    }
}

/// `seed 12`, `no mask`, `start image boat.png`.
fn described((key, name, none): &ComparedSetting, request: &Value) -> String {
    match &request[key] {
        Value::Null => (*none).to_owned(),
        Value::String(text) if text.trim().is_empty() => (*none).to_owned(),
        Value::Array(items) if items.is_empty() => (*none).to_owned(),
        other => {
            let text = short(&value_text(other));
            if matches!(*key, "prompt" | "negative_prompt") {
                format!("{name} “{text}”")
            } else {
                format!("{name} {text}")
            }
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        // Of a path its end is what people know.
        Value::String(text) => text.rsplit(['/', '\\']).next().unwrap_or(text).to_owned(),
        Value::Number(number) => {
            let number = number.as_f64().filter(|_| number.is_f64());
            number.map_or_else(
                || value.to_string(),
                |number| ((number * 1000.0).round() / 1000.0).to_string(),
            )
        }
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(value_text).collect();
            texts.join(", ")
        }
        Value::Object(fields) => object_text(fields),
        other => other.to_string(),
    }
}

fn object_text(fields: &Map<String, Value>) -> String {
    if let (Some(path), Some(strength)) = (fields.get("path"), fields.get("strength")) {
        // A LoRA.
        return format!("{} at {}", value_text(path), value_text(strength));
    }
    let texts = fields
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), value_text(value)));
    texts.collect::<Vec<_>>().join(", ")
}

fn short(text: &str) -> String {
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(MAX_CHARS).collect();
    format!("{}…", begin.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_differing_settings_are_listed() {
        let a = json!({"model": "m", "seed": 12, "num_steps": 25, "width": 832, "height": 480,
            "guidance_scale": 3.5, "prompt": "a boat", "mask": "/x/y/sky.png"});
        let b = json!({"model": "m", "seed": 13, "num_steps": 25, "width": 480, "height": 832,
            "guidance_scale": 3.5, "prompt": "a ship"});
        let lines = differences(Some(&a), Some(&b));
        let expected = "832 × 480  ·  seed 12  ·  mask sky.png  ·  prompt “a boat”";
        assert_eq!(lines[0], expected);
        let expected = "480 × 832  ·  seed 13  ·  no mask  ·  prompt “a ship”";
        assert_eq!(lines[1], expected);
    }

    #[test]
    fn loras_numbers_and_long_prompts_read_well() {
        let lora = json!([{"path": "/l/film.safetensors", "strength": 0.800_000_01}]);
        let a = json!({"loras": lora, "prompt": "x".repeat(500)});
        let b = json!({"loras": [], "prompt": ""});
        let [a, b] = differences(Some(&a), Some(&b));
        assert!(a.starts_with("LoRAs film.safetensors at 0.8  ·  prompt “xxx"));
        assert_eq!(b, "no LoRAs  ·  no prompt");
        assert!(a.chars().count() < 140);
    }

    #[test]
    fn equal_and_unknown_settings_are_labelled_as_such() {
        let a = json!({"seed": 1});
        let same = differences(Some(&a), Some(&a));
        assert_eq!(same[0], "same settings");
        let unknown = differences(Some(&a), None);
        let expected = ["seed 1".to_owned(), "settings unknown".to_owned()];
        assert_eq!(unknown, expected);
        // Whatever a file holds.
        differences(Some(&json!([1, 2])), Some(&json!("text")));
    }
}
