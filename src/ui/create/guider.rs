//! How guidance is computed and in which part of the steps, as far as it can act in the form.

use std::ops::RangeInclusive;

use egui::{DragValue, Slider, SliderClamping, TextEdit, Ui};
use safelight_core::job::{BlockSet, GenerateForm, GuidanceRange, Guider, GuiderKind};
use safelight_core::model::ModelSpec;

use crate::ui::create::advanced::{choice_ui, pair_width};
use crate::ui::create::words;
use crate::ui::widgets::{Own, number, own_row, row, wide_slider};

pub(super) fn guider_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let is_guided = form.is_guided(spec);
    kind_ui(ui, &mut form.sampling.guider, is_guided);
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
        Some(Guider::SkipLayers {
            blocks,
            scale,
            part,
        }) => {
            blocks_ui(ui, blocks);
            number_ui(
                ui,
                words::SKIP_SCALE,
                words::SKIP_SCALE_HOVER,
                scale,
                Guider::SKIP_SCALE,
            );
            let hover = words::SKIPPED_PART_HOVER;
            row(ui, words::SKIPPED_PART, hover, |ui, _| {
                let names = (words::SKIPPED_FROM, words::SKIPPED_TO);
                part_ui(ui, part, hover, names);
            });
        }
        Some(Guider::Cfg) | None => {}
    }
    if is_guided {
        range_ui(ui, &mut form.sampling.guidance_range);
    }
}

fn kind_ui(ui: &mut Ui, guider: &mut Option<Guider>, is_guided: bool) {
    // One that needs the negative prompt waits unseen until there is guidance.
    let acts = |kind: GuiderKind| {
        is_guided || kind == GuiderKind::Cfg || !Guider::from(kind).needs_negative()
    };
    let before = guider.map(Guider::kind).filter(|kind| acts(*kind));
    let mut kind = before;
    let text = |kind| words::guider(kind).to_owned();
    choice_ui(
        ui,
        (words::GUIDER, "guider", words::GUIDER_HOVER),
        (&mut kind, GuiderKind::Cfg),
        &GuiderKind::ALL
            .into_iter()
            .filter(|kind| acts(*kind))
            .map(|kind| (kind, kind.label(), text(kind)))
            .collect::<Vec<_>>(),
    );
    if kind != before {
        *guider = kind.map(Guider::from);
    }
}

/// A list of numbers, which counts as soon as it is one.
fn blocks_ui(ui: &mut Ui, blocks: &mut BlockSet) {
    let hover = words::SKIPPED_BLOCKS_HOVER;
    row(ui, words::SKIPPED_BLOCKS, hover, |ui, label| {
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

/// Two fractions of the steps; `names`: what a screen reader calls them.
fn part_ui(ui: &mut Ui, part: &mut GuidanceRange, hover: &str, (from, to): (&str, &str)) {
    let value = |edge| {
        DragValue::new(edge)
            .range(0.0..=1.0)
            .speed(0.005)
            .max_decimals(2)
    };
    let width = pair_width(ui, words::RUN_TO);
    number(ui, width, value(&mut part.start))
        .on_hover_text(hover)
        .accessible_name(from);
    ui.label(words::RUN_TO);
    let width = ui.available_width();
    number(ui, width, value(&mut part.end))
        .on_hover_text(hover)
        .accessible_name(to);
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
        part_ui(
            ui,
            &mut range,
            hover,
            (words::GUIDED_FROM, words::GUIDED_TO),
        );
    });
    if reset {
        *wish = None;
    } else if range != wish.unwrap_or_default() {
        *wish = Some(range);
    }
}
