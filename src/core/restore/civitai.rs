//! Civitai's list of the models and LoRAs that an image was made with.

use serde_json::Value;

use super::fields::{self, JsonFields};
use super::{ForeignSettings, RestoredLora, names, short};

/// `[{"type": "lora", "weight": 0.8, "modelName": "Ink", "modelVersionName": "v1"}, …]`
pub(super) fn take_resources(restored: &mut ForeignSettings, value: &str) {
    let resources = fields::parse(value);
    let resources = resources.as_ref().and_then(Value::as_array);
    let mut tags = restored.loras.clone();
    let mut loras = Vec::new();
    for resource in resources
        .into_iter()
        .flatten()
        .filter_map(JsonFields::from_value)
    {
        let title = resource.name("modelName, name");
        let is_named = title.is_some();
        let mut words: Vec<String> = title.into_iter().collect();
        words.extend(resource.name("modelVersionName"));
        if !is_named {
            let id = resource.get("air, modelVersionId").map(fields::written);
            words.extend(id.map(|id| format!("Civitai {id}")));
        }
        let name = words.join(" ");
        // `urn:air:flux1:lora:civitai:1@2`
        let air = resource.text("air").unwrap_or_default();
        let kind = resource.name("type");
        let kind = kind.as_deref().or_else(|| air.split(':').nth(3));
        match kind.unwrap_or_default().to_lowercase().as_str() {
            "checkpoint" | "model" if is_named || restored.model.is_none() => {
                restored.model = Some(name);
            }
            "checkpoint" | "model" => {}
            "lora" | "locon" | "lycoris" | "dora" => {
                let strength = resource.number("weight, strength").unwrap_or(1.0);
                let mut lora = RestoredLora::new("", strength);
                lora.name = short(&name);
                lora.path.clone_from(&lora.name);
                loras.push(lora);
            }
            "" => restored.note(format!("Not used: {}", short(&name))),
            kind => restored.note(format!("Not used: {} ({})", short(&name), short(kind))),
        }
    }
    // The prompt's tags name the same ones by their files: those are of the same name, or of the same strength.
    let is_named = |tag: &RestoredLora, lora: &RestoredLora| {
        let tag = names::plain(&tag.name);
        !tag.is_empty() && names::plain(&lora.name).starts_with(&tag)
    };
    let is_as_strong = |tag: &RestoredLora, lora: &RestoredLora| tag.strength == lora.strength;
    let mut leave_out = |is_same: &dyn Fn(&RestoredLora, &RestoredLora) -> bool| {
        loras.retain(|lora| {
            let tag = tags.iter().position(|tag| is_same(tag, lora));
            tag.map(|tag| tags.remove(tag)).is_none()
        });
    };
    leave_out(&is_named);
    leave_out(&is_as_strong);
    for lora in loras {
        restored.add_lora(lora);
    }
}
