//! Environment variables of the engine's process: those that a class of device needs before libtorch is loaded, and inherited ones that are not passed on.
//!
//! Users export nothing: variables in the settings override these, and the doctor shows all with their reasons. None of this ran on AMD hardware yet; the reasons are upstream reports.

use std::collections::BTreeMap;
use std::process::Command;

use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::job::DeviceChoice;
use safelight_core::memory::DeviceClass;
use safelight_core::settings::{AllocatorChoice, LibtorchRuntime, RuntimeSettings};
use serde::Serialize;

use crate::telemetry::device::{gpus, rocm_order};
use crate::telemetry::nvidia::NvidiaReport;
use crate::telemetry::{DeviceQuery, SystemRoots, amdgpu, device_class};

/// Device and runtime that the engine is started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineTarget {
    /// `cpu`, `cuda` or `rocm`.
    pub kind: &'static str,
    pub class: DeviceClass,
    /// The compute targets of all AMD cards, whichever computes.
    pub gfx: Vec<String>,
    /// The numbers of the GPUs that ROCm should show, where its own order would be wrong for a job.
    pub rocm_order: Option<String>,
    /// Fastest mode in a probe of the device.
    pub miopen: MiopenMode,
}

impl EngineTarget {
    /// As this machine and this runtime are.
    pub fn find(roots: &SystemRoots, runtime: &LibtorchRuntime, device: DeviceChoice) -> Self {
        let query = DeviceQuery {
            kind: runtime.kind(),
            device,
            ..DeviceQuery::default()
        };
        let is_rocm = query.kind == "rocm";
        let class = match query.kind {
            // No row of the table depends on the driver's answer.
            "cuda" if query.is_gpu() => DeviceClass::Discrete,
            _ => device_class(roots, &query),
        };
        Self {
            kind: query.kind,
            class,
            gfx: amdgpu::targets(&roots.sysfs),
            // A number that a user chose counts among all.
            rocm_order: (is_rocm && device == DeviceChoice::Auto)
                .then(|| rocm_order(&roots.sysfs))
                .flatten(),
            miopen: MiopenMode::default(),
        }
    }

    fn has(&self, gfx: &str) -> bool {
        self.gfx.iter().any(|found| found == gfx)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableOrigin {
    /// The class of the device needs it.
    Safelight,
    Settings,
    /// It was there, hurts, and is not passed on.
    Removed,
    /// It was there, may hurt, and is passed on.
    Inherited,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineVariable {
    pub name: String,
    /// Value for the engine; `None`: removed.
    pub value: Option<String>,
    /// Inherited value.
    pub inherited: Option<String>,
    pub origin: VariableOrigin,
    pub why: &'static str,
}

/// Targets that a rule applies to.
#[derive(Clone, Copy)]
enum RuleCondition {
    Always,
    Rocm,
    /// On ROCm, for this target.
    RocmOn(&'static str),
    /// On a GPU of any make.
    Gpu,
    /// With a card of this target, whichever device computes.
    Has(&'static str),
}

impl RuleCondition {
    fn holds(self, target: &EngineTarget) -> bool {
        match self {
            Self::Always => true,
            Self::Rocm => target.kind == "rocm",
            Self::RocmOn(gfx) => target.kind == "rocm" && target.has(gfx),
            Self::Gpu => target.kind != "cpu",
            Self::Has(gfx) => target.has(gfx),
        }
    }
}

/// Treatment of a variable.
#[derive(Clone, Copy)]
enum RuleAction {
    Set(&'static str),
    /// Set, unless the user's shell had a value.
    SetIfAbsent(&'static str),
    /// Not passed on.
    Remove,
    PassOn,
}

struct VariableRule {
    when: RuleCondition,
    action: RuleAction,
    /// Beginnings of names where they end in `*`.
    names: &'static [&'static str],
    why: &'static str,
}

impl VariableRule {
    fn fits(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *known,
            })
    }
}

pub(super) const MIOPEN_FIND_MODE: &str = "MIOPEN_FIND_MODE";
pub(super) const MIOPEN_LAYOUT: &str = "PYTORCH_MIOPEN_SUGGEST_NHWC";

/// libtorch's own, which have the same effect under three names.
const ALLOCATORS: [&str; 3] = [
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
];
const ALLOCATOR: &str = "changes how libtorch keeps GPU memory and can hang on ROCm (the setting runtime.allocator does it on purpose)";
const CHOSEN_GPUS: [&str; 3] = [
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
];

/// The GPUs of a runtime of this kind that can run jobs side by side: none where the user's environment hides some or
/// changes their numbers.
pub fn job_gpus(
    settings: &RuntimeSettings,
    kind: &str,
    roots: &SystemRoots,
    nvidia: impl FnOnce() -> Result<NvidiaReport, String>,
) -> Vec<DeviceChoice> {
    let is_set = |name: &&str| {
        let value = settings.environment.get(*name);
        value.map_or_else(|| std::env::var_os(name).is_some(), |it| !it.is_empty())
    };
    if CHOSEN_GPUS.iter().any(is_set) {
        return Vec::new();
    }
    gpus(roots, kind, nvidia)
}

/// [`VariableRule`]s, one a row: condition, action with its value, names, and the reason.
macro_rules! variable_rules {
    ($($when:ident $(($of:literal))? => $action:ident $(($value:literal))?: $names:expr, $why:expr;)+) => {
        &[$(VariableRule {
            when: RuleCondition::$when $(($of))?,
            action: RuleAction::$action $(($value))?,
            names: &$names,
            why: $why,
        }),+]
    };
}

/// Variables that are set, and inherited ones that hurt, the particular before the general. The allocator keeps
/// libtorch's defaults.
const RULES: &[VariableRule] = variable_rules! {
    // On two cores with four other busy threads a job took 11 s instead of 24 s; without spinning an idle machine is a
    // tenth slower.
    Always => SetIfAbsent("3000"): ["GOMP_SPINCOUNT"],
        "waiting threads sleep soon, which leaves the cores to other programs";
    Rocm => Set("1"): ["TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"],
        "turns on flash attention on RDNA 3 and 3.5, which saves tens of GiB";
    Rocm => Set("2"): [MIOPEN_FIND_MODE],
        "skips the search for convolutions, which takes minutes or hangs the driver";
    Rocm => SetIfAbsent("0"): [MIOPEN_LAYOUT],
        "keeps MIOpen from its kernels for channels innermost, which are many times as slow on RDNA 3";
    RocmOn("gfx1151") => SetIfAbsent("1"): ["TORCH_BLAS_PREFER_HIPBLASLT"],
        "makes 16-bit matrices several times as fast on gfx1151";
    Has("gfx1151") => Remove: ["HSA_OVERRIDE_GFX_VERSION"],
        "makes ROCm treat the GPU as another model, which crashes gfx1151";
    Always => PassOn: ["HSA_OVERRIDE_GFX_VERSION"], "makes ROCm treat the GPU as another model";
    Gpu => Remove: ALLOCATORS, ALLOCATOR;
    Always => PassOn: ALLOCATORS, ALLOCATOR;
    Always => Remove: ["PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"],
        "makes every allocation on the GPU slow";
    Always => Remove: ["MIOPEN_FIND_ENFORCE"],
        "searches for convolutions again and again, for minutes each";
    Always => PassOn: ["MIOPEN_LOG_LEVEL", "MIOPEN_ENABLE_LOGGING"], "makes MIOpen write to the log";
    Always => PassOn: ["MIOPEN_DEBUG_3D_CONV_IMPLICIT_GEMM_HIP_*"],
        "does nothing on Radeon GPUs: it is for the matrix cores of Instinct";
    Always => PassOn: ["MIOPEN_*"],
        "changes how convolutions are chosen on AMD, which can take minutes or hang";
    Always => PassOn: ["HSA_ENABLE_SDMA"], "turns copies beside the computation on or off";
    Always => PassOn: ["HSA_XNACK"], "changes how GPU memory is mapped, which may be slow";
    Always => PassOn: CHOSEN_GPUS, "hides GPUs or changes their numbers";
    Always => PassOn: ["GPU_DEVICE_ORDINAL"], "hides GPUs or changes their numbers";
    Always => PassOn: [
        "CUDA_LAUNCH_BLOCKING",
        "HIP_LAUNCH_BLOCKING",
        "AMD_SERIALIZE_KERNEL",
        "AMD_SERIALIZE_COPY",
    ], "makes the processor wait for every step of the GPU";
};

/// Value of libtorch's variable for the allocator; `None`: its default.
fn allocator(choice: AllocatorChoice) -> Option<&'static str> {
    match choice {
        AllocatorChoice::Default => None,
        AllocatorChoice::Expandable => Some("expandable_segments:True"),
        // The seeds' own figures for cards of up to 24 GiB; the first works under a memory cap alone.
        AllocatorChoice::SmallCard => Some("garbage_collection_threshold:0.8,max_split_size_mb:64"),
    }
}

/// Everything that differs from what the engine would inherit, and what it inherits that may hurt.
pub fn variables(
    target: &EngineTarget,
    settings: &RuntimeSettings,
    inherited: &BTreeMap<String, String>,
) -> Vec<EngineVariable> {
    let mut found: BTreeMap<String, EngineVariable> = BTreeMap::new();
    let mut put = |name: &str, value: Option<&str>, origin: VariableOrigin, why: &'static str| {
        let variable = EngineVariable {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            inherited: inherited.get(name).cloned(),
            origin,
            why,
        };
        found.insert(name.to_owned(), variable);
    };
    let is_set = |name: &str| inherited.get(name).is_some_and(|value| !value.is_empty());
    let rules = || RULES.iter().filter(|rule| rule.when.holds(target));
    for (name, value) in inherited.iter().filter(|(name, _)| is_set(name)) {
        let known = rules()
            .filter(|rule| rule.fits(name))
            .find_map(|rule| match rule.action {
                RuleAction::Remove => Some((None, VariableOrigin::Removed, rule.why)),
                RuleAction::PassOn => {
                    Some((Some(value.as_str()), VariableOrigin::Inherited, rule.why))
                }
                RuleAction::Set(_) | RuleAction::SetIfAbsent(_) => None,
            });
        if let Some((value, origin, why)) = known {
            put(name, value, origin, why);
        }
    }
    for rule in rules() {
        let (RuleAction::Set(value) | RuleAction::SetIfAbsent(value)) = rule.action else {
            continue;
        };
        let yields = matches!(rule.action, RuleAction::SetIfAbsent(_));
        for name in rule.names.iter().filter(|name| !(yields && is_set(name))) {
            put(name, Some(value), VariableOrigin::Safelight, rule.why);
        }
    }
    if target.kind == "rocm" && target.miopen.searches() {
        let why = "a probe of this GPU found convolutions faster when they are searched for";
        put(MIOPEN_FIND_MODE, None, VariableOrigin::Safelight, why);
    }
    if target.kind == "rocm" && target.miopen.is_innermost() {
        let why = "a probe of this GPU found convolutions faster with channels innermost";
        put(MIOPEN_LAYOUT, Some("1"), VariableOrigin::Safelight, why);
    }
    let order = target.rocm_order.as_deref();
    if let Some(order) = order.filter(|_| !CHOSEN_GPUS.into_iter().any(is_set)) {
        let why = "the strongest GPU comes first, and one that only draws the desktop is left out";
        put(
            "ROCR_VISIBLE_DEVICES",
            Some(order),
            VariableOrigin::Safelight,
            why,
        );
    }
    let mut put = |name: &str, value: Option<&str>| {
        put(name, value, VariableOrigin::Settings, "the settings say so");
    };
    if let Some(value) = allocator(settings.allocator).filter(|_| target.kind != "cpu") {
        put("PYTORCH_ALLOC_CONF", Some(value));
    }
    if settings.verbose_miopen && target.kind == "rocm" {
        put("MIOPEN_ENABLE_LOGGING", Some("1"));
        put("MIOPEN_LOG_LEVEL", Some("5"));
    }
    for (name, value) in &settings.environment {
        put(name, Some(value.as_str()).filter(|value| !value.is_empty()));
    }
    found.into_values().collect()
}

pub fn apply(variables: &[EngineVariable], command: &mut Command) {
    for EngineVariable { name, value, .. } in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// This process's own variables, as far as they are text.
pub fn inherited() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests;
