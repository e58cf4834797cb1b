//! Differences between the settings of two results, in the words of the interface.
//!
//! Compares settings as embedded in files, so that new results and old files are treated alike.

use serde_json::{Map, Value};

/// Longer values are cut; the whole ones are in the files.
const MAX_CHARS: usize = 80;

/// Setting: its key in files, its name, and its text if a result does not contain it.
struct ComparedSetting {
    key: &'static str,
    name: &'static str,
    none: &'static str,
}

const SETTINGS: [ComparedSetting; 27] = [
    setting("model", "model", "unknown model"),
    setting("seed", "seed", "unknown seed"),
    setting("num_steps", "steps", "default steps"),
    setting("guidance_scale", "guidance", "default guidance"),
    setting("true_cfg_scale", "CFG scale", "CFG off"),
    setting("guider", "guider", "plain guidance"),
    setting("guidance_range", "guidance range", "guided in all steps"),
    setting("guidance_scale_2", "low-noise guidance", "one guidance"),
    setting("sampler", "sampler", "default sampler"),
    setting("sigma_schedule", "schedule", "default schedule"),
    setting("shift", "shift", "automatic shift"),
    setting("strength", "strength", "default strength"),
    setting("start_step", "from step", "from the first step"),
    setting("end_step", "to step", "to the last step"),
    setting("step_cache", "step cache", "no step cache"),
    setting("loras", "LoRAs", "no LoRAs"),
    setting("num_frames", "frames", "default length"),
    setting("fps", "fps", "default fps"),
    setting("image", "start image", "no start image"),
    setting("last_image", "end image", "no end image"),
    setting("mask", "mask", "no mask"),
    setting("references", "reference images", "no reference images"),
    setting("controls", "control images", "no control images"),
    setting("extend", "extends", "extends no video"),
    setting("vae_tile", "decoded in tiles of", "decoded without tiles"),
    setting("negative_prompt", "negative prompt", "no negative prompt"),
    setting("prompt", "prompt", "no prompt"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingDifferences {
    pub a: Vec<String>,
    pub b: Vec<String>,
}

impl SettingDifferences {
    /// In one line a side; a sentence where there is nothing to tell.
    pub fn lines(&self) -> [String; 2] {
        [&self.a, &self.b].map(|words| words.join("  ·  "))
    }
}

/// Compares two requests; `None` is a file without settings.
pub fn differences(a: Option<&Value>, b: Option<&Value>) -> SettingDifferences {
    let (Some(a), Some(b)) = (a, b) else {
        let all = |request: Option<&Value>| match request {
            Some(request) => summary(request),
            None => vec!["settings unknown".to_owned()],
        };
        return SettingDifferences {
            a: all(a),
            b: all(b),
        };
    };
    let mut found = SettingDifferences::default();
    let sizes = [size(a), size(b)];
    if sizes[0] != sizes[1] {
        let [size_a, size_b] = sizes;
        found.a.push(size_a);
        found.b.push(size_b);
    }
    for setting in &SETTINGS {
        let key = setting.key;
        if a[key] != b[key] {
            found.a.push(described(setting, &a[key]));
            found.b.push(described(setting, &b[key]));
        }
    }
    if found == SettingDifferences::default() {
        let same = vec!["same settings".to_owned()];
        return SettingDifferences {
            a: same.clone(),
            b: same,
        };
    }
    found
}

const fn setting(key: &'static str, name: &'static str, none: &'static str) -> ComparedSetting {
    ComparedSetting { key, name, none }
}

fn summary(request: &Value) -> Vec<String> {
    let main = ["model", "seed", "num_steps", "prompt"];
    SETTINGS
        .iter()
        .filter(|setting| main.contains(&setting.key) && !request[setting.key].is_null())
        .map(|setting| described(setting, &request[setting.key]))
        .collect()
}

fn size(request: &Value) -> String {
    match (request["width"].as_u64(), request["height"].as_u64()) {
        (Some(width), Some(height)) => format!("{width} × {height}"),
        _ => "unknown size".to_owned(),
    }
}

/// `seed 12`, `no mask`, `start image boat.png`.
fn described(setting: &ComparedSetting, value: &Value) -> String {
    match value {
        Value::Null => setting.none.to_owned(),
        Value::String(text) if text.trim().is_empty() => setting.none.to_owned(),
        Value::Array(items) if items.is_empty() => setting.none.to_owned(),
        other => {
            let text = short(&value_text(other));
            if matches!(setting.key, "prompt" | "negative_prompt") {
                format!("{} “{text}”", setting.name)
            } else {
                format!("{} {text}", setting.name)
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
        let lines = differences(Some(&a), Some(&b)).lines();
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
        let found = differences(Some(&a), Some(&b));
        assert_eq!(found.a[0], "LoRAs film.safetensors at 0.8");
        assert_eq!(found.b, ["no LoRAs", "no prompt"]);
        assert!(found.a[1].chars().count() < 100);
    }

    #[test]
    fn equal_and_unknown_settings_are_labelled_as_such() {
        let a = json!({"seed": 1});
        let same = differences(Some(&a), Some(&a));
        assert_eq!(same.lines()[0], "same settings");
        let unknown = differences(Some(&a), None);
        let expected = ["seed 1".to_owned(), "settings unknown".to_owned()];
        assert_eq!(unknown.lines(), expected);
        // Whatever a file holds.
        differences(Some(&json!([1, 2])), Some(&json!("text")));
    }
}
