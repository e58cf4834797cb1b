//! The kinds of attention, at the sizes of the families' networks.

use std::io;

use crate::error::EngineError;
use crate::nn::{attention, attention_is_sliced, libtorch_backend};
use crate::runtime::use_compute_options;
use safelight_core::memory::compute_options::{AttentionChoice, ComputeOptions};
use safelight_core::memory::conv_backends::ConvBackend;
use tch::{Kind, Tensor};

use super::{Found, Report, Setting};
use crate::bench::measure::timed;

/// Rows of queries whose error is measured.
const COMPARED_ROWS: i64 = 64;

/// Heads, rows of queries, rows of keys, width.
struct Case {
    name: &'static str,
    heads: i64,
    queries: i64,
    keys: i64,
    width: i64,
}

const fn case(name: &'static str, [heads, queries, keys, width]: [i64; 4]) -> Case {
    Case {
        name,
        heads,
        queries,
        keys,
        width,
    }
}

const CASES: [Case; 5] = [
    case("attention_wan_480p", [40, 32_760, 32_760, 128]),
    case("attention_wan_text", [40, 32_760, 512, 128]),
    case("attention_flux_1024", [24, 4_608, 4_608, 128]),
    case("attention_vae_480p", [1, 6_240, 6_240, 384]),
    case("attention_odd_width", [8, 4_096, 4_096, 331]),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

pub(super) fn measure(setting: &Setting<'_>, report: &mut Report<'_>) -> io::Result<()> {
    for case in &CASES {
        if !setting.arguments.has(case.name) {
            continue;
        }
        for choice in AttentionChoice::ALL {
            report(case.name, choice.name(), &mut || one(setting, case, choice))?;
        }
    }
    Ok(())
}

fn with_attention(attention: AttentionChoice) -> ComputeOptions {
    ComputeOptions {
        attention,
        ..ComputeOptions::default()
    }
}

fn one(setting: &Setting<'_>, case: &Case, choice: AttentionChoice) -> Result<Found, EngineError> {
    let parts = if setting.arguments.small { 16 } else { 1 };
    let random = |len: i64| {
        let size = [1, (len / parts).max(1), case.heads, case.width];
        // b l h d -> b h l d
        Tensor::randn(size, (setting.kind, setting.device)).transpose(1, 2)
    };
    let (q, k, v) = (random(case.queries), random(case.keys), random(case.keys));
    let expected = {
        let _guard = use_compute_options(
            setting.device,
            ConvBackend::Direct,
            with_attention(AttentionChoice::Sliced),
        );
        let rows = COMPARED_ROWS.min(q.size()[2]);
        let [q, k, v] = [&q.narrow(2, 0, rows), &k, &v].map(|xs| xs.to_kind(Kind::Float));
        attention(&q, &k, &v, None, None).to_kind(Kind::Double)
    };
    let options = with_attention(choice);
    let _guard = use_compute_options(setting.device, ConvBackend::Direct, options);
    let kernel = if attention_is_sliced(&q, &k, &v, None, None) {
        "sliced"
    } else {
        libtorch_backend(&q, &k, &v, None, None).map_or("refused", |backend| backend.name())
    };
    let found = attention(&q, &k, &v, None, None);
    let found = found.narrow(2, 0, expected.size()[2]).to_kind(Kind::Double);
    let error = ((found - &expected).norm() / expected.norm()).double_value(&[]);
    let measured = timed(setting.device, 1, setting.arguments.runs, 0, &mut || {
        drop(attention(&q, &k, &v, None, None));
        Some(())
    })?;
    Ok(Found::new(measured, error, Some(kernel)))
}
