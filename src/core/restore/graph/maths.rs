//! Expressions of maths nodes: Python's operators and a few functions over the node's inputs.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Environment;
use minijinja::value::Rest;

/// Letters of an expression.
const MAX_LETTERS: usize = 500;

/// Function of one number.
type MathsFunction = fn(f64) -> f64;
const FUNCTIONS: [(&str, MathsFunction); 7] = [
    ("int", f64::trunc),
    ("float", |it| it),
    ("round", f64::round_ties_even),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
    ("abs", f64::abs),
    ("sqrt", f64::sqrt),
];

/// Result of an expression; `None` for what is not understood, and for what is not finite. `variable` gives the value of a
/// name.
pub(super) fn compute(text: &str, variable: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    if text.len() > MAX_LETTERS || has_other_order(text) {
        return None;
    }
    let fold = |first: f64, join: fn(f64, f64) -> f64| {
        move |numbers: Rest<f64>| numbers.iter().copied().fold(first, join)
    };
    let mut environment = Environment::empty();
    environment.add_function("min", fold(f64::INFINITY, f64::min));
    environment.add_function("max", fold(f64::NEG_INFINITY, f64::max));
    for (name, function) in FUNCTIONS {
        environment.add_function(name, function);
    }
    let expression = environment.compile_expression(text.trim()).ok()?;
    // In their order, so that the first one that cannot be read ends it.
    let names: BTreeSet<String> = expression.undeclared_variables(false).into_iter().collect();
    let is_function = |name: &str| environment.globals().any(|(known, _)| known == name);
    let names = names.into_iter().filter(|name| !is_function(name));
    let values = names.map(|name| variable(&name).map(|value| (name, value)));
    let values: Option<BTreeMap<String, f64>> = values.collect();
    let result = f64::try_from(expression.eval(values?).ok()?).ok()?;
    result.is_finite().then_some(result)
}

/// Returns whether Python computes powers in another order than the crate, as in `a ** b ** c` and `-a ** b`.
fn has_other_order(text: &str) -> bool {
    let powers: Vec<&str> = text.split("**").collect();
    let is_sign = |(at, _): (usize, &str)| {
        let before = text[..at].trim_end();
        before.is_empty() || before.ends_with(['(', ',', '+', '-', '*', '/', '%'])
    };
    // A number with an operator after it is a whole exponent.
    let is_chained = |power: &&str| {
        let power = power.trim();
        let rest = power.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
        rest.is_empty() || rest.len() == power.len()
    };
    let [_, between @ .., _] = &powers[..] else {
        return false;
    };
    text.match_indices('-').any(is_sign) || between.iter().any(is_chained)
}
