//! Guidance: its scale or scales, the guider with its settings, and the range of steps.

use std::ops::RangeInclusive;

use egui::SliderClamping;
use safelight_core::job::{BlockSet, GuidanceRange, Guider, GuiderKind, SamplingOptions};
use safelight_core::model::GuidanceMode;

use crate::window::create::panel::advanced::choice_ui;
use crate::window::layout::prelude::*;

const GUIDANCE: &str = "Guidance";
const GUIDANCE_HOVER: &str = "CFG scale: how strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
const CFG: &str = "CFG scale";
const CFG_HOVER: &str = "True classifier-free guidance, which steers away from the negative prompt. Above 1 each step takes twice as long";
const SCALES: RangeInclusive<f64> = 0.0..=15.0;
const ZERO_STEPS_HOVER: &str =
    "The first steps change nothing, because guidance is least sure there";

pub(super) fn guidance_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    match spec.guidance {
        GuidanceMode::Cfg if spec.has_two_experts() => experts_ui(ui, form, spec),
        GuidanceMode::Cfg => own_ui(ui, form, spec, GUIDANCE_HOVER),
        GuidanceMode::Distilled => {
            let hover = "How strictly the prompt is followed. The model was trained with \
                        this number, so it costs no time; too high looks harsh";
            own_ui(ui, form, spec, hover);
            real_ui(ui, form);
        }
        // Without guidance of any kind.
        GuidanceMode::None if spec.family.guidance_is_cfg => {}
        GuidanceMode::None => real_ui(ui, form),
    }
}

fn own_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec, hover: &str) {
    let (names, default) = (
        (GUIDANCE, "guidance", hover),
        spec.defaults.sampling.guidance_scale,
    );
    let (value, default) = (
        &mut form.sampling.guidance_scale,
        (default, default.to_string()),
    );
    default_row(ui, names, value, default, |ui, label, scale| {
        wide_slider(ui, guidance_slider(scale, SCALES), hover).labelled_by(label);
    });
}

fn real_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let (names, value) = ((CFG, CFG, CFG_HOVER), &mut form.sampling.true_cfg_scale);
    default_row(ui, names, value, (1.0, "1"), |ui, label, scale| {
        let slider = guidance_slider(scale, 1.0..=10.0);
        wide_slider(ui, slider, CFG_HOVER).labelled_by(label);
    });
    field_hint(ui, "1 = off; higher values use the negative prompt");
}

fn experts_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let scales_of =
        |sampling: SamplingOptions| (sampling.guidance_scale, sampling.low_guidance_scale());
    let own = scales_of(spec.defaults.sampling);
    let is_own = scales_of(form.sampling_for(spec)) == own;
    // The heading of both can put them back.
    let reset = ui.horizontal(|ui| {
        group_label(ui, GUIDANCE, GUIDANCE_HOVER);
        !is_own && reset_button(ui, "guidance", &format!("{} and {}", own.0, own.1))
    });
    if reset.inner {
        form.sampling.guide_experts(None, None);
    }
    let before = scales_of(form.sampling_for(spec));
    let mut scales = before;
    for (noise, task, scale) in [
        ("High noise", "composition and motion", &mut scales.0),
        ("Low noise", "details", &mut scales.1),
    ] {
        let hover = format!("How strictly the expert for {task} follows the prompt");
        row(ui, noise, &hover, |ui, _| {
            let slider = guidance_slider(scale, SCALES);
            wide_slider(ui, slider, &hover)
                .accessible_name(format!("Guidance, {}", noise.to_lowercase()));
        });
    }
    if scales != before {
        // One that is changed alone does not change the other.
        let (high, low) = scales;
        form.sampling.guide_experts(Some(high), Some(low));
    }
}

fn guidance_slider(scale: &mut f64, range: RangeInclusive<f64>) -> Slider<'_> {
    Slider::new(scale, range)
        .step_by(0.1)
        .max_decimals(2)
        .custom_parser(typed_number)
        .clamping(SliderClamping::Never)
}

pub(super) fn guider_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let is_guided = form.is_guided(spec);
    kind_ui(ui, &mut form.sampling.guider, is_guided);
    match &mut form.sampling.guider {
        Some(Guider::CfgZero { zero_steps }) => {
            let slider = Slider::new(zero_steps, 0..=10).clamping(SliderClamping::Never);
            row(ui, "Zero-init steps", ZERO_STEPS_HOVER, |ui, label| {
                wide_slider(ui, slider, ZERO_STEPS_HOVER).labelled_by(label);
            });
        }
        Some(Guider::Apg {
            eta,
            longest,
            momentum,
        }) => {
            let hover = "Share kept of the parallel guidance component, which oversaturates: \
                        0 removes it, 1 keeps it";
            named_number_ui(ui, "APG eta", hover, eta, Guider::ETA);
            let hover = "How far guidance may push a step; large results need more, and 0 \
                        sets no limit";
            named_number_ui(ui, "Norm threshold", hover, longest, Guider::LONGEST);
            let hover = "How much of the earlier steps' guidance is added: below 0 it is \
                        taken off, which gives each step a fresh direction";
            named_number_ui(ui, "Momentum", hover, momentum, Guider::MOMENTUM);
        }
        Some(Guider::Rescale { share }) => {
            let hover = "Share of the prediction that is brought back to the contrast of the \
                        prompt's own: 0.7 is usual for v-prediction";
            named_number_ui(ui, "Rescale", hover, share, Guider::SHARE);
        }
        Some(Guider::SkipLayers {
            blocks,
            scale,
            part,
        }) => {
            blocks_ui(ui, blocks);
            let hover = "How far each step moves away from the answer with skipped blocks: \
                        higher is firmer, and too high looks harsh";
            named_number_ui(ui, "Skip scale", hover, scale, Guider::SKIP_SCALE);
            let hover = "The part of the steps with the extra pass, from 0 to 1; its first step \
                        runs without. Each step with it takes one more pass";
            row(ui, "Skipping part", hover, |ui, _| {
                part_ui(ui, part, hover, ["Skipping from", "Skipping to"]);
            });
        }
        Some(Guider::Cfg) | None => {}
    }
    if is_guided {
        range_ui(ui, &mut form.sampling.guidance_range);
    }
}

fn kind_ui(ui: &mut Ui, guider: &mut Option<Guider>, is_guided: bool) {
    // One that needs the negative prompt is hidden until there is guidance.
    let acts = |kind: GuiderKind| {
        is_guided || kind == GuiderKind::Cfg || !Guider::from(kind).needs_negative()
    };
    let before = guider.map(Guider::kind).filter(|kind| acts(*kind));
    let mut kind = before;
    let hover = "How the conditional and unconditional predictions are combined";
    let choices = GuiderKind::ALL.into_iter().filter(|kind| acts(*kind));
    let choices = choices.map(|kind| (kind, kind.label(), guider_text(kind)));
    let (names, value) = (("Guider", "guider", hover), (&mut kind, GuiderKind::Cfg));
    choice_ui(ui, names, value, &choices.collect::<Vec<_>>());
    if kind != before {
        *guider = kind.map(Guider::from);
    }
}

fn guider_text(guider: GuiderKind) -> &'static str {
    match guider {
        GuiderKind::Cfg => "The difference of both answers, times the scale",
        GuiderKind::CfgZero => {
            "Scales the negative answer to fit, and leaves out the first steps: better composition with the same time"
        }
        GuiderKind::Apg => "Removes oversaturation: natural colours at high scales (APG)",
        GuiderKind::Rescale => {
            "Keeps the contrast that the scale would exaggerate: for v-prediction"
        }
        GuiderKind::SkipLayers => {
            "Steers away from a worse answer, made without some blocks: firmer bodies and structure for one more pass (skip-layer guidance)"
        }
    }
}

/// A list of numbers, which takes effect as soon as it can be parsed.
fn blocks_ui(ui: &mut Ui, blocks: &mut BlockSet) {
    let hover = "Which blocks of the transformer the extra pass skips: numbers from 0 with commas \
                between them. Blocks near the first third, such as 9 or 10, are the usual choice";
    row(ui, "Blocks", hover, |ui, label| {
        let id = label.with("blocks");
        let draft = ui.data(|data| data.get_temp::<String>(id));
        let mut text = draft.unwrap_or_else(|| blocks.to_string());
        let edit = TextEdit::singleline(&mut text)
            .id(id)
            .desired_width(ui.available_width());
        let response = ui.add(edit).on_hover_text(hover).labelled_by(label);
        if let Ok(typed) = text.parse() {
            *blocks = typed;
        }
        let is_typed = response.has_focus();
        ui.data_mut(|data| {
            if is_typed {
                data.insert_temp(id, text);
            } else {
                data.remove::<String>(id);
            }
        });
    });
}

/// Two fractions of the steps; `names` are for screen readers.
fn part_ui(ui: &mut Ui, part: &mut GuidanceRange, hover: &str, names: [&str; 2]) {
    let values = [&mut part.start, &mut part.end].map(|value| {
        let value = DragValue::new(value).range(0.0..=1.0);
        value.speed(0.005).max_decimals(2)
    });
    number_pair(ui, RUN_TO, names, [hover; 2], values);
}

fn named_number_ui(
    ui: &mut Ui,
    name: &str,
    hover: &str,
    value: &mut f64,
    range: RangeInclusive<f64>,
) {
    let speed = if *range.end() > 1.0 { 0.5 } else { 0.01 };
    row(ui, name, hover, |ui, label| {
        let value = DragValue::new(value)
            .range(range)
            .speed(speed)
            .max_decimals(2);
        number(ui, ui.available_width(), value)
            .on_hover_text(hover)
            .labelled_by(label);
    });
}

fn range_ui(ui: &mut Ui, chosen: &mut Option<GuidanceRange>) {
    let hover = "The part of the steps in which guidance acts, from 0 to 1. Steps outside it take \
                half the time";
    let names = ("Guidance range", "the guidance range", hover);
    let default = (GuidanceRange::default(), "all steps");
    default_row(ui, names, chosen, default, |ui, _, range| {
        part_ui(ui, range, hover, ["Guided from", "Guided to"]);
    });
}
