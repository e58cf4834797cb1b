//! Axis of a grid, read against a form: each value with its change of the form and its label.
//!
//! The form's checks decide whether a model can make the result.

use super::values::{numbers, texts};
use super::{GridAxis, GridSetting};
use crate::job::form::{GenerateForm, LiteralPrompt};
use crate::job::{SamplerKind, SigmaSchedule};
use crate::model::ModelSpec;

/// Finds an installed model by its id or its name; the error is a sentence.
pub type FindModel<'a> = &'a dyn Fn(&str) -> Result<ModelSpec, String>;

/// Longer labels are cut, not values.
const MAX_LABEL: usize = 120;

/// One value of a side.
#[derive(Clone, Debug)]
pub(super) struct AxisValue {
    pub label: String,
    pub change: FormChange,
}

/// Change of the form by a value.
#[derive(Clone, Debug)]
pub(super) enum FormChange {
    Seed(u64),
    Steps(u32),
    Guidance(f64),
    TrueCfg(f64),
    Strength(f64),
    Shift(f64),
    Sampler(SamplerKind),
    Schedule(SigmaSchedule),
    /// Index of one of the form's LoRAs, and its strength.
    Lora(usize, f64),
    Model(Box<ModelSpec>),
    Prompt {
        find: String,
        replace: String,
    },
}

/// All values of a side, at least one; the error is a sentence.
pub(super) fn steps(
    axis: &GridAxis,
    form: &GenerateForm,
    base: &ModelSpec,
    models: FindModel<'_>,
) -> Result<Vec<AxisValue>, String> {
    let setting = axis.setting;
    let texts = match setting {
        GridSetting::Sampler | GridSetting::Schedule | GridSetting::Model | GridSetting::Prompt => {
            texts(&axis.values)
        }
        _ => numbers(&axis.values)?,
    };
    let Some(first) = texts.first() else {
        return Err(format!(
            "the grid has no values for {}: write some, such as {}",
            setting.label(),
            setting.example()
        ));
    };
    let lora = match setting {
        GridSetting::Lora => Some(lora_of(axis, form)?),
        _ => None,
    };
    if setting == GridSetting::Prompt {
        check_found(first, form)?;
    }
    let step = |text: &String| {
        let change = change_of(axis, text, first, lora, (base, models))?;
        Ok(AxisValue {
            label: label_of(axis, text, &change, form),
            change,
        })
    };
    texts.iter().map(step).collect()
}

fn change_of(
    axis: &GridAxis,
    text: &str,
    first: &str,
    lora: Option<usize>,
    (base, models): (&ModelSpec, FindModel<'_>),
) -> Result<FormChange, String> {
    let setting = axis.setting;
    let wrong = |what: &str| {
        let (label, example) = (setting.label(), setting.example());
        format!("{label} of the grid must be {what}, such as {example}, not {text:?}")
    };
    let number = || {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| wrong("numbers"))
    };
    Ok(match setting {
        GridSetting::Seed => FormChange::Seed(text.parse().map_err(|_err| wrong("whole numbers"))?),
        GridSetting::Steps => {
            FormChange::Steps(text.parse().map_err(|_err| wrong("whole numbers"))?)
        }
        GridSetting::Guidance => FormChange::Guidance(number()?),
        GridSetting::TrueCfg => FormChange::TrueCfg(number()?),
        GridSetting::Strength => FormChange::Strength(number()?),
        GridSetting::Shift => FormChange::Shift(number()?),
        GridSetting::Lora => FormChange::Lora(lora.unwrap_or_default(), number()?),
        GridSetting::Sampler => FormChange::Sampler(choice(text, setting)?),
        GridSetting::Schedule => FormChange::Schedule(choice(text, setting)?),
        GridSetting::Model => FormChange::Model(Box::new(model_of(text, base, models)?)),
        GridSetting::Prompt => FormChange::Prompt {
            find: first.to_owned(),
            replace: text.to_owned(),
        },
    })
}

/// By its name, or by what the interface calls it.
fn choice<T: std::str::FromStr<Err = String>>(
    text: &str,
    setting: GridSetting,
) -> Result<T, String> {
    let of_label = setting
        .choices()
        .iter()
        .find(|(_, label)| label.eq_ignore_ascii_case(text));
    of_label.map_or(text, |(name, _)| name).parse()
}

fn model_of(text: &str, base: &ModelSpec, models: FindModel<'_>) -> Result<ModelSpec, String> {
    let spec = models(text)?;
    if spec.family.makes_pictures == base.family.makes_pictures {
        return Ok(spec);
    }
    let (pictures, clips) = if spec.family.makes_pictures {
        (&spec.name, &base.name)
    } else {
        (&base.name, &spec.name)
    };
    Err(format!(
        "{pictures} makes pictures and {clips} makes clips: a grid compares models of one kind"
    ))
}

/// The one that the side names, or the only one.
fn lora_of(axis: &GridAxis, form: &GenerateForm) -> Result<usize, String> {
    let acting: Vec<(usize, String)> = form
        .loras
        .iter()
        .enumerate()
        .filter(|(_, lora)| lora.is_on)
        .map(|(index, lora)| (index, lora.name()))
        .collect();
    let names = || {
        let names: Vec<&str> = acting.iter().map(|(_, name)| name.as_str()).collect();
        names.join(", ")
    };
    match (&axis.lora, acting.as_slice()) {
        (_, []) => Err("the grid varies a LoRA's strength, and no LoRA is chosen".to_owned()),
        (None, [(index, _)]) => Ok(*index),
        (None, _) => Err(format!(
            "choose which LoRA's strength the grid varies: {}",
            names()
        )),
        (Some(wanted), _) => {
            let wanted_stem = wanted.strip_suffix(".safetensors").unwrap_or(wanted);
            let found = acting
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(wanted_stem));
            found.map(|(index, _)| *index).ok_or_else(|| {
                format!(
                    "the grid varies the strength of the LoRA {wanted:?}, and those chosen are {}",
                    names()
                )
            })
        }
    }
}

/// As in A1111: what is searched for must be there, or all cells would be the same.
fn check_found(first: &str, form: &GenerateForm) -> Result<(), String> {
    let negative = form.negative_prompt.as_deref().unwrap_or_default();
    if !first.is_empty() && (form.prompt.contains(first) || negative.contains(first)) {
        return Ok(());
    }
    Err(format!(
        "the prompt does not contain {first:?}: the first value of the grid is the text that the others replace"
    ))
}

fn label_of(axis: &GridAxis, text: &str, change: &FormChange, form: &GenerateForm) -> String {
    let label = axis.setting.label();
    let whole = match change {
        FormChange::Model(spec) => spec.name.clone(),
        FormChange::Sampler(sampler) => sampler.label().to_owned(),
        FormChange::Schedule(schedule) => format!("{label} {}", schedule.label()),
        FormChange::Lora(index, strength) => {
            let name = form.loras.get(*index).map(|lora| lora.name());
            format!("{} {strength}", name.unwrap_or_default())
        }
        FormChange::Prompt { find, replace } if replace.is_empty() => format!("without “{find}”"),
        FormChange::Prompt { replace, .. } => replace.clone(),
        _ => format!("{label} {text}"),
    };
    whole.chars().take(MAX_LABEL).collect()
}

impl FormChange {
    /// Has the form say it. The model is for whoever checks the form.
    pub fn apply(&self, form: &mut GenerateForm, base: &ModelSpec) {
        let sampling = &mut form.sampling;
        match self {
            Self::Seed(seed) => form.set_seed(*seed),
            Self::Steps(steps) => {
                sampling.num_steps = Some(*steps);
                form.settle_part(base);
            }
            Self::Guidance(scale) => sampling.guidance_scale = Some(*scale),
            Self::TrueCfg(scale) => sampling.true_cfg_scale = Some(*scale),
            Self::Strength(strength) => sampling.strength = Some(*strength),
            Self::Shift(shift) => {
                (sampling.shift, sampling.dynamic_shift) = (Some(*shift), false);
            }
            Self::Sampler(sampler) => sampling.sampler = Some(*sampler),
            Self::Schedule(schedule) => sampling.sigma_schedule = Some(*schedule),
            Self::Lora(index, strength) => {
                if let Some(lora) = form.loras.get_mut(*index) {
                    lora.strength = *strength;
                    lora.strength_2 = lora.strength_2.map(|_| *strength);
                }
            }
            Self::Model(spec) => change_model(form, base, spec),
            Self::Prompt { find, replace } => {
                replace_in(&mut form.prompt, &mut form.literal_prompt, find, replace);
                if let Some(negative) = &mut form.negative_prompt {
                    replace_in(negative, &mut form.literal_negative, find, replace);
                }
            }
        }
    }

    /// Cost of a change between two jobs: a new model is loaded again, a LoRA only applied.
    pub fn weight(&self) -> u8 {
        match self {
            Self::Model(_) => 2,
            Self::Lora(..) => 1,
            _ => 0,
        }
    }
}

fn replace_in(text: &mut String, literal: &mut Option<LiteralPrompt>, find: &str, replace: &str) {
    if !text.contains(find) {
        return;
    }
    let before = std::mem::replace(text, text.replace(find, replace));
    // A literal prompt stays literal.
    if let Some(literal) = literal.as_mut().filter(|literal| literal.text == before) {
        literal.template = if literal.template.contains(find) {
            literal.template.replace(find, replace)
        } else {
            text.clone()
        };
        literal.text.clone_from(text);
    }
}

/// Switches the form to another model: values that equal the old model's defaults are dropped.
fn change_model(form: &mut GenerateForm, base: &ModelSpec, spec: &ModelSpec) {
    form.model = Some(spec.id.clone());
    if spec.id == base.id {
        return;
    }
    let own = &base.defaults;
    form.num_frames = form.num_frames.filter(|count| *count != own.num_frames);
    form.fps = form.fps.filter(|fps| *fps != own.fps);
    let negative = form.negative_prompt.take();
    form.negative_prompt = negative.filter(|text| *text != own.negative_prompt);
    let sampling = &mut form.sampling;
    sampling.shift = sampling
        .shift
        .filter(|shift| Some(*shift) != own.sampling.shift);
    form.sampling = form.sampling.for_model(spec);
    if spec.section_order.is_none() {
        (form.secs, form.num_sections, form.window) = (None, None, None);
        (form.section_order, form.step_cache) = (None, None);
    }
}
