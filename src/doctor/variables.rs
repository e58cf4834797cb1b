//! Checks of the engine's environment: variables set by Safelight, by the settings, and harmful inherited ones.
//!
//! The worker builds the table, so it equals the engine's environment.

use std::collections::BTreeMap;

use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::memory::DeviceClass;
use safelight_core::settings::RuntimeSettings;

use super::check::CheckResult;
use crate::worker::environment::{self, EngineTarget, EngineVariable, VariableOrigin};

/// Without a libtorch, as for one without a GPU.
pub(super) fn all(
    target: Option<&EngineTarget>,
    settings: &RuntimeSettings,
    inherited: &BTreeMap<String, String>,
) -> Vec<CheckResult> {
    let plain = EngineTarget {
        kind: "cpu",
        class: DeviceClass::Cpu,
        gfx: Vec::new(),
        rocm_order: None,
        miopen: MiopenMode::default(),
    };
    let variables = environment::variables(target.unwrap_or(&plain), settings, inherited);
    let mut checks: Vec<CheckResult> = variables.iter().filter_map(hurtful).collect();
    if checks.is_empty() {
        let message = "no environment variable is known to cause problems";
        checks.push(CheckResult::ok("environment", message));
    }
    checks.extend(variables.iter().filter_map(given));
    checks
}

/// A variable that came from elsewhere.
fn hurtful(variable: &EngineVariable) -> Option<CheckResult> {
    let (name, value, why) = (&variable.name, &variable.value, &variable.why);
    let found = variable
        .inherited
        .as_ref()
        .filter(|found| !found.is_empty())?;
    let (message, advice) = match variable.origin {
        VariableOrigin::Removed => (
            format!("{name}={found} is set, and the engine ignores it: it {why}"),
            "Unless other programs need it, remove it from your shell's start-up files; to use it on purpose, add it to [runtime.environment] in the settings",
        ),
        VariableOrigin::Inherited => (
            format!("{name}={found} is set: it {why}"),
            "Unless it is on purpose, start Safelight without it",
        ),
        VariableOrigin::Safelight if value.as_ref() != Some(found) => (
            format!(
                "{name}={found} is set; the engine gets {name}={} instead: {why}",
                value.as_deref().unwrap_or_default()
            ),
            "To use another value on purpose, add it to [runtime.environment] in the settings",
        ),
        VariableOrigin::Safelight | VariableOrigin::Settings => return None,
    };
    Some(
        CheckResult::warn("environment", message)
            .advise(advice)
            .fix(format!("env -u {name} safelight")),
    )
}

/// A variable that the engine gets from us or from the settings.
fn given(variable: &EngineVariable) -> Option<CheckResult> {
    let (name, why) = (&variable.name, &variable.why);
    let what = match &variable.value {
        Some(value) => format!("the engine gets {name}={value}"),
        None => format!("the engine does not get {name}"),
    };
    match variable.origin {
        VariableOrigin::Safelight => Some(CheckResult::ok("environment", format!("{what}: {why}"))),
        VariableOrigin::Settings => {
            Some(CheckResult::ok("environment", format!("{what}, as {why}")))
        }
        VariableOrigin::Removed | VariableOrigin::Inherited => None,
    }
}
