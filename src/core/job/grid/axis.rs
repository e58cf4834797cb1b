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

type FormChange = Box<dyn Fn(&mut GenerateForm, &ModelSpec)>;

pub(super) struct AxisValue {
    pub label: String,
    /// Has the form say it, which is for this model so far.
    pub apply: FormChange,
    /// Another model that the form is for from then on.
    pub model: Option<ModelSpec>,
    /// Cost of a change between two jobs: a new model is loaded again, a LoRA only applied.
    pub weight: u8,
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
        GridSetting::Lora => lora_of(axis, form)?,
        _ => 0,
    };
    if setting == GridSetting::Prompt {
        check_found(first, form)?;
    }
    let value = |text: &String| value_of(setting, text, first, (lora, form), (base, models));
    texts.iter().map(value).collect()
}

fn value_of(
    setting: GridSetting,
    text: &str,
    first: &str,
    (lora, form): (usize, &GenerateForm),
    (base, models): (&ModelSpec, FindModel<'_>),
) -> Result<AxisValue, String> {
    let wrong = |what: &str| {
        let (label, example) = (setting.label(), setting.example());
        format!("{label} of the grid must be {what}, such as {example}, not {text:?}")
    };
    let number = || {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| wrong("numbers"))
    };
    let mut label = format!("{} {text}", setting.label());
    let (mut model, mut weight) = (None, 0);
    let apply: FormChange = match setting {
        GridSetting::Seed => {
            let seed = text.parse().map_err(|_err| wrong("whole numbers"))?;
            Box::new(move |form, _| form.set_seed(seed))
        }
        GridSetting::Steps => {
            let steps = text.parse().map_err(|_err| wrong("whole numbers"))?;
            Box::new(move |form, base| {
                form.sampling.num_steps = Some(steps);
                form.settle_part(base);
            })
        }
        GridSetting::Guidance => {
            let scale = Some(number()?);
            Box::new(move |form, _| form.sampling.guidance_scale = scale)
        }
        GridSetting::TrueCfg => {
            let scale = Some(number()?);
            Box::new(move |form, _| form.sampling.true_cfg_scale = scale)
        }
        GridSetting::Strength => {
            let strength = Some(number()?);
            Box::new(move |form, _| form.sampling.strength = strength)
        }
        GridSetting::Shift => {
            let shift = Some(number()?);
            Box::new(move |form, _| {
                (form.sampling.shift, form.sampling.dynamic_shift) = (shift, false);
            })
        }
        GridSetting::Sampler => {
            let sampler: SamplerKind = choice(text, setting)?;
            label = sampler.label().to_owned();
            Box::new(move |form, _| form.sampling.sampler = Some(sampler))
        }
        GridSetting::Schedule => {
            let schedule: SigmaSchedule = choice(text, setting)?;
            label = format!("{} {}", setting.label(), schedule.label());
            Box::new(move |form, _| form.sampling.sigma_schedule = Some(schedule))
        }
        GridSetting::Lora => {
            let strength = number()?;
            label = format!("{} {strength}", form.loras[lora].name());
            weight = 1;
            Box::new(move |form, _| {
                let lora = &mut form.loras[lora];
                lora.strength = strength;
                lora.strength_2 = lora.strength_2.map(|_| strength);
            })
        }
        GridSetting::Model => {
            let spec = model_of(text, base, models)?;
            label.clone_from(&spec.name);
            weight = 2;
            model = Some(spec.clone());
            Box::new(move |form, base| change_model(form, base, &spec))
        }
        GridSetting::Prompt => {
            let (find, replace) = (first.to_owned(), text.to_owned());
            label = match text {
                "" => format!("without “{find}”"),
                _ => replace.clone(),
            };
            Box::new(move |form, _| {
                replace_in(&mut form.prompt, &mut form.literal_prompt, &find, &replace);
                if let Some(negative) = &mut form.negative_prompt {
                    replace_in(negative, &mut form.literal_negative, &find, &replace);
                }
            })
        }
    };
    Ok(AxisValue {
        label: label.chars().take(MAX_LABEL).collect(),
        apply,
        model,
        weight,
    })
}

/// Parses a name or its label in the interface.
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
    if spec.family.makes_images == base.family.makes_images {
        return Ok(spec);
    }
    let (images, videos) = if spec.family.makes_images {
        (&spec.name, &base.name)
    } else {
        (&base.name, &spec.name)
    };
    Err(format!(
        "{images} makes images and {videos} makes videos: a grid compares models of one kind"
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
        (form.section_order, form.options.step_cache) = (None, None);
    }
}
