//! Settings in which a later pass differs from the first one.

use serde_json::{Value, json};

use crate::restore::{ForeignSettings, RestoredLora, short};

/// Settings of a later pass that differ from the first's, but for those of these names.
pub(super) fn differences(
    own: &ForeignSettings,
    first: &ForeignSettings,
    ignored: &[&str],
) -> Vec<String> {
    // The first pass has a value for these where a later one says nothing.
    const INHERITED: [&str; 4] = ["steps", "seed", "negative prompt", "shift"];
    let values = |it: &ForeignSettings| {
        [
            ("steps", json!(it.num_steps)),
            ("seed", json!(it.seed)),
            ("prompt", json!(it.prompt)),
            ("negative prompt", json!(it.negative_prompt)),
            ("model", json!(it.model)),
            ("LoRAs", json!(RestoredLora::listed(&it.loras))),
            ("sampler", json!(it.sampler)),
            ("schedule", json!(it.sigma_schedule)),
            ("guidance", json!([it.cfg_scale, it.distilled_guidance])),
            ("shift", json!(it.shift)),
        ]
    };
    let pairs = values(own).into_iter().zip(values(first));
    let differing = pairs.filter(|((name, own), (_, first))| {
        let is_inherited = own.is_null() && INHERITED.contains(name);
        own != first && !is_inherited && !ignored.contains(name)
    });
    let described = differing.map(|((name, value), _)| {
        let cfg_scale = own.cfg_scale.filter(|it| Some(*it) != first.cfg_scale);
        let value = match name {
            "steps" => return format!("{} steps", own.run_steps().unwrap_or_default()),
            "guidance" => json!(cfg_scale.or(own.distilled_guidance)),
            _ => value,
        };
        let value = match value {
            Value::Null => String::new(),
            Value::String(text) => short(&text),
            Value::Number(number) => number
                .as_f64()
                .filter(|_| number.is_f64())
                .map_or_else(|| number.to_string(), |it| it.to_string()),
            value => value.to_string(),
        };
        format!("{name} {value}").trim_end().to_owned()
    });
    described.collect()
}
