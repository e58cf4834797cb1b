//! Settings in which a later pass differs from the first one.

use serde_json::{Value, json};

use crate::restore::{ForeignSettings, RestoredLora, short};

/// Settings of a later pass that differ from the first's, but for those of these names.
pub(super) fn differences(
    own: &ForeignSettings,
    first: &ForeignSettings,
    ignored: &[&str],
) -> Vec<String> {
    fn other<T: PartialEq>(own: Option<&T>, first: Option<&T>) -> bool {
        own.is_some() && own != first
    }
    fn shown<T: ToString>(it: Option<T>) -> String {
        it.map_or_else(String::new, |it| short(&it.to_string()))
    }
    let name = |it: Value| shown(it.as_str());
    let guidances = |it: &ForeignSettings| (it.cfg_scale, it.distilled_guidance);
    let cfg_scale = own.cfg_scale.filter(|it| Some(*it) != first.cfg_scale);
    let all = [
        (
            "steps",
            other(own.num_steps.as_ref(), first.num_steps.as_ref()),
            shown(own.run_steps()),
        ),
        (
            "seed",
            other(own.seed.as_ref(), first.seed.as_ref()),
            shown(own.seed),
        ),
        (
            "prompt",
            own.prompt != first.prompt,
            shown(own.prompt.as_ref()),
        ),
        (
            "negative prompt",
            other(own.negative_prompt.as_ref(), first.negative_prompt.as_ref()),
            shown(own.negative_prompt.as_ref()),
        ),
        ("model", own.model != first.model, shown(own.model.as_ref())),
        (
            "LoRAs",
            own.loras != first.loras,
            RestoredLora::listed(&own.loras),
        ),
        (
            "sampler",
            own.sampler != first.sampler,
            name(json!(own.sampler)),
        ),
        (
            "schedule",
            own.sigma_schedule != first.sigma_schedule,
            name(json!(own.sigma_schedule)),
        ),
        (
            "guidance",
            guidances(own) != guidances(first),
            shown(cfg_scale.or(own.distilled_guidance)),
        ),
        (
            "shift",
            other(own.shift.as_ref(), first.shift.as_ref()),
            shown(own.shift),
        ),
    ];
    let all = all.into_iter();
    let all = all.filter(|(name, is_other, _)| *is_other && !ignored.contains(name));
    let described = all.map(|(name, _, value)| match name {
        "steps" => format!("{value} steps"),
        _ => format!("{name} {value}").trim_end().to_owned(),
    });
    described.collect()
}
