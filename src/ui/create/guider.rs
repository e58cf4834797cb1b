//! How guidance is computed and in which part of the steps, where the form has guidance.

use std::ops::RangeInclusive;

use egui::{DragValue, Slider, SliderClamping, Ui};
use safelight_core::job::{GenerateForm, GuidanceRange, Guider, GuiderKind};
use safelight_core::model::ModelSpec;

use crate::ui::create::advanced::{choice_ui, pair_width};
use crate::ui::create::words;
use crate::ui::widgets::{Own, number, own_row, row, wide_slider};

pub(super) fn guider_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    if !form.is_guided(spec) {
        return;
    }
    kind_ui(ui, &mut form.sampling.guider);
    match &mut form.sampling.guider {
        Some(Guider::CfgZero { zero_steps }) => {
            let slider = Slider::new(zero_steps, 0..=10).clamping(SliderClamping::Never);
            row(
                ui,
                words::ZERO_STEPS,
                words::ZERO_STEPS_HOVER,
                |ui, label| {
                    wide_slider(ui, slider, words::ZERO_STEPS_HOVER).labelled_by(label);
                },
            );
        }
        Some(Guider::Apg {
            eta,
            longest,
            momentum,
        }) => {
            number_ui(ui, words::ETA, words::ETA_HOVER, eta, Guider::ETA);
            number_ui(
                ui,
                words::LONGEST,
                words::LONGEST_HOVER,
                longest,
                Guider::LONGEST,
            );
            number_ui(
                ui,
                words::MOMENTUM,
                words::MOMENTUM_HOVER,
                momentum,
                Guider::MOMENTUM,
            );
        }
        Some(Guider::Cfg) | None => {}
    }
    range_ui(ui, &mut form.sampling.guidance_range);
}

fn kind_ui(ui: &mut Ui, guider: &mut Option<Guider>) {
    let before = guider.map(Guider::kind);
    let mut kind = before;
    let text = |kind| words::guider(kind).to_owned();
    choice_ui(
        ui,
        (words::GUIDER, "guider", words::GUIDER_HOVER),
        (&mut kind, GuiderKind::Cfg),
        &GuiderKind::ALL.map(|kind| (kind, kind.label(), text(kind))),
    );
    if kind != before {
        *guider = kind.map(Guider::from);
    }
}

fn number_ui(ui: &mut Ui, name: &str, hover: &str, value: &mut f64, (least, most): (f64, f64)) {
    let range: RangeInclusive<f64> = least..=most;
    let speed = if most > 1.0 { 0.5 } else { 0.01 };
    row(ui, name, hover, |ui, label| {
        let value = DragValue::new(value)
            .range(range)
            .speed(speed)
            .max_decimals(2);
        let width = ui.available_width();
        number(ui, width, value)
            .on_hover_text(hover)
            .labelled_by(label);
    });
}

fn range_ui(ui: &mut Ui, wish: &mut Option<GuidanceRange>) {
    let whole = GuidanceRange::default();
    let hover = words::GUIDED_PART_HOVER;
    let own = Own::of(
        words::GUIDED_PART_FIELD,
        &wish.unwrap_or_default(),
        &whole,
        words::GUIDED_ALL,
    );
    let mut range = wish.unwrap_or_default();
    let reset = own_row(ui, words::GUIDED_PART, hover, &own, |ui, _| {
        let value = |edge| {
            DragValue::new(edge)
                .range(0.0..=1.0)
                .speed(0.005)
                .max_decimals(2)
        };
        let width = pair_width(ui, words::RUN_TO);
        number(ui, width, value(&mut range.start))
            .on_hover_text(hover)
            .accessible_name(words::GUIDED_FROM);
        ui.label(words::RUN_TO);
        let width = ui.available_width();
        number(ui, width, value(&mut range.end))
            .on_hover_text(hover)
            .accessible_name(words::GUIDED_TO);
    });
    if reset {
        *wish = None;
    } else if range != wish.unwrap_or_default() {
        *wish = Some(range);
    }
}
