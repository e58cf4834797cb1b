//! Other programs' names of samplers, schedules and families of models.

use crate::families::def_of;
use crate::job::{SamplerKind, SigmaSchedule};
use crate::library::names::{NoiseSide, possible_side};
use crate::model::ModelFamily;

/// Letters and digits alone, so that `DPM++ 2M`, `dpmpp_2m` and `dpm++2m` are one.
pub(super) fn plain(name: &str) -> String {
    name.to_lowercase()
        .replace("++", "pp")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect()
}

/// Returns whether a text has one of A1111's commands, which are words in upper case.
pub(super) fn has_keyword(text: &str, keyword: &str) -> bool {
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    text.split(|it| !is_word(it)).any(|word| word == keyword)
}

pub(super) fn is_automatic(name: &str) -> bool {
    matches!(
        plain(name).as_str(),
        "" | "automatic" | "auto" | "default" | "undefined" | "none" | "modelsown"
    )
}

/// Our sampler for a name, and the schedule that may follow it (`DPM++ 2M Karras`).
pub(super) fn sampler(name: &str) -> (Option<SamplerKind>, Option<SigmaSchedule>) {
    // RES4LYF's kinds, as in `exponential/res_2s`.
    let kind = name.split_once('/');
    let kind = kind.filter(|(kind, _)| ["linear", "exponential", "multistep"].contains(kind));
    let name = kind.map_or(name, |(_, name)| name);
    // NovelAI's `k_euler`, and InvokeAI's `euler_k` with Karras' schedule.
    let name = name.strip_prefix("k_").unwrap_or(name);
    let name = name
        .strip_suffix("_k")
        .map_or_else(|| plain(name), |it| format!("{}karras", plain(it)));
    let (name, schedule) = SigmaSchedule::ALL
        .into_iter()
        .find_map(|schedule| {
            let start = name.strip_suffix(&plain(schedule.name()))?;
            Some((start, Some(schedule))).filter(|_| !start.is_empty())
        })
        .unwrap_or((&name, None));
    // sd.cpp's names end in the default schedule of its day.
    let name = name.strip_suffix("discrete").unwrap_or(name);
    let name = name.strip_suffix("gpu").unwrap_or(name);
    let sampler = match name {
        "unipcbh2" | "unipcmultistep" | "flowunipc" => Some(SamplerKind::UniPc),
        "eulersampler"
        | "flowmatcheuler"
        | "eulerflowmatch"
        | "flowmatcheulerdiscrete"
        | "ddim"
        | "ddimflow" => Some(SamplerKind::Euler),
        "eulera" => Some(SamplerKind::EulerAncestral),
        "heunpp2" => Some(SamplerKind::Heun),
        "dpmpp" | "dpm" | "dpmsolverpp" | "flowdpmpp" => Some(SamplerKind::DpmPp2mDiffusers),
        name => {
            let mut all = SamplerKind::ALL.into_iter();
            all.find(|sampler| plain(sampler.name()) == name)
        }
    };
    (sampler, schedule)
}

/// As `sampler`, for `ComfyUI`, whose `uni_pc` is the gentler of two.
pub(super) fn comfy_sampler(name: &str) -> &str {
    match name {
        "uni_pc" => "unipc_bh1",
        name => name,
    }
}

const OF_DIFFUSERS: &str =
    "Its DPM++ 2M or scheduler is diffusers', which ComfyUI computes differently";
const OF_RES4LYF: &str = "Its sampler or scheduler needs ComfyUI's node pack RES4LYF";

/// `ComfyUI`'s name of a sampler, and a sentence where it is not quite the same.
pub(super) fn to_comfy_sampler(kind: SamplerKind) -> (&'static str, Option<&'static str>) {
    match kind {
        SamplerKind::UniPc => ("uni_pc_bh2", None),
        SamplerKind::UniPcBh1 => ("uni_pc", None),
        SamplerKind::DpmPp2mDiffusers => ("dpmpp_2m", Some(OF_DIFFUSERS)),
        SamplerKind::Res2s => (kind.name(), Some(OF_RES4LYF)),
        kind => (kind.name(), None),
    }
}

/// As [`to_comfy_sampler`], of a schedule.
pub(super) fn to_comfy_schedule(schedule: SigmaSchedule) -> (&'static str, Option<&'static str>) {
    match schedule {
        SigmaSchedule::Model => ("simple", None),
        SigmaSchedule::BetaDiffusers => ("beta", Some(OF_DIFFUSERS)),
        SigmaSchedule::KarrasDiffusers => ("karras", Some(OF_DIFFUSERS)),
        SigmaSchedule::ExponentialDiffusers => ("exponential", Some(OF_DIFFUSERS)),
        SigmaSchedule::Beta57 | SigmaSchedule::BongTangent => (schedule.name(), Some(OF_RES4LYF)),
        schedule => (schedule.name(), None),
    }
}

pub(super) fn schedule(name: &str) -> Option<SigmaSchedule> {
    let name = plain(name);
    if name == "discrete" {
        return Some(SigmaSchedule::Simple);
    }
    let mut all = SigmaSchedule::ALL.into_iter();
    all.find(|schedule| plain(schedule.name()) == name)
}

/// The family that a model's name speaks of.
pub(super) fn family(name: &str) -> Option<ModelFamily> {
    let name = plain(name);
    ModelFamily::all().find(|family| family.is_named(&name))
}

/// First of `total` steps in the simple schedule that the low-noise expert of a model of this name runs.
pub(super) fn expert_step(model: &str, shift: f64, total: u32) -> Option<u32> {
    let experts = def_of(family(model)?).experts()?;
    first_low_step((experts.boundary_of)(&plain(model))?, shift, total)
}

/// First of `total` steps in the simple schedule at a noise level below `boundary`.
pub(super) fn first_low_step(boundary: f64, shift: f64, total: u32) -> Option<u32> {
    (0..total).find(|step| {
        let time = 1.0 - f64::from(*step) / f64::from(total);
        shift * time / (1.0 + (shift - 1.0) * time) < boundary
    })
}

/// Shift by size as in diffusers' dynamic shifting, with four decimals: `least` and `most` are its logarithms at 256 and
/// 4096 tokens of 16 × 16 pixels.
pub(super) fn dynamic_shift(width: f64, height: f64, [least, most]: [f64; 2]) -> f64 {
    let share = (width * height / 256.0 - 256.0) / (4096.0 - 256.0);
    ((least + (most - least) * share).exp() * 1e4).round() / 1e4
}

/// Returns whether models of these names are the experts of one model for high and for low noise.
pub(super) fn are_experts(high: &str, low: &str) -> bool {
    let mut known = family(high).or_else(|| family(low)).into_iter();
    let has_none = known.any(|it| def_of(it).experts().is_none());
    let [high, low] = [high, low].map(|name| possible_side(stem(name)));
    let is_high = high == Some(NoiseSide::High) && low != high;
    let is_low = low == Some(NoiseSide::Low) && low != high;
    !has_none && (is_high || is_low)
}

/// The last part of a path in either system's writing.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Without the extension of a file of weights; other dots belong to the name.
pub(super) fn stem(name: &str) -> &str {
    let is_weights = |end: &str| {
        let ends = ["safetensors", "sft", "gguf", "ckpt", "pt", "pth", "bin"];
        ends.iter().any(|known| end.eq_ignore_ascii_case(known))
    };
    match name.rsplit_once('.') {
        Some((start, end)) if is_weights(end) => start,
        _ => name,
    }
}

/// A name as a sentence can hold it.
pub(super) fn short(name: &str) -> String {
    const MOST: usize = 80;
    let mut letters = name.chars();
    let short: String = letters.by_ref().take(MOST).collect();
    let short: String = short.split_whitespace().collect::<Vec<_>>().join(" ");
    if letters.next().is_some() {
        format!("{short}…")
    } else {
        short
    }
}
