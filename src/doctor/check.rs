//! The result of a check, with advice.

use std::fmt::Write as _;

use serde::Serialize;

/// Longest name of a check, for alignment.
const NAME_WIDTH: usize = 12;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// Subject of a check, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckGroup {
    Engine,
    Gpu,
    System,
    Environment,
    Speed,
    Files,
}

impl CheckGroup {
    pub const ALL: [Self; 6] = [
        Self::Engine,
        Self::Gpu,
        Self::System,
        Self::Environment,
        Self::Speed,
        Self::Files,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Engine => "Engine",
            Self::Gpu => "Graphics cards",
            Self::System => "System",
            Self::Environment => "Environment",
            Self::Speed => "Speed",
            Self::Files => "Models and files",
        }
    }

    fn from_check_name(name: &str) -> Self {
        match name {
            "settings" | "libtorch" | "engine" | "restarts" | "memory tiers" => Self::Engine,
            "gpu" | "gpu access" | "gpu memory" | "gpu choice" => Self::Gpu,
            "kernel" | "driver" | "memory" => Self::System,
            "environment" => Self::Environment,
            "speed" => Self::Speed,
            _ => Self::Files,
        }
    }
}

/// Measured value, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckFigure {
    pub value: f64,
    pub unit: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResult {
    pub group: CheckGroup,
    pub name: &'static str,
    pub status: CheckStatus,
    /// One sentence, no full stop.
    pub message: String,
    /// Advice; empty if nothing needs to be done.
    pub advice: String,
    /// A line for a shell that does it; empty when there is none.
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<CheckFigure>,
}

impl CheckResult {
    /// Returns whether the check can fail. Others state a fact, such as the GPU's name.
    pub fn is_verdict(&self) -> bool {
        const AT_RISK: [&str; 9] = [
            "libtorch",
            "engine",
            "gpu access",
            "gpu memory",
            "driver",
            "memory",
            "models",
            "output",
            "disk",
        ];
        self.status != CheckStatus::Ok || AT_RISK.contains(&self.name)
    }

    pub(super) fn new(name: &'static str, status: CheckStatus, message: impl Into<String>) -> Self {
        Self {
            group: CheckGroup::from_check_name(name),
            name,
            status,
            message: message.into(),
            advice: String::new(),
            command: String::new(),
            figure: None,
        }
    }

    /// Lines for people: the verdict, and below it what to do.
    pub fn text(&self) -> String {
        let mark = match self.status {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "note",
            CheckStatus::Fail => "FAIL",
        };
        let mut text = format!("{mark}  {:NAME_WIDTH$}  {}\n", self.name, self.message);
        for (arrow, line) in [("->", &self.advice), (" $", &self.command)] {
            if !line.is_empty() {
                // Writing to a string cannot fail.
                writeln!(text, "      {:NAME_WIDTH$}  {arrow} {line}", "").ok();
            }
        }
        text
    }

    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, message)
    }

    pub(super) fn warn(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Warn, message)
    }

    pub(super) fn fail(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Fail, message)
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    pub(super) fn fix(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    pub(super) fn measured(mut self, value: f64, unit: &str) -> Self {
        self.figure = Some(CheckFigure {
            value,
            unit: unit.to_owned(),
        });
        self
    }
}

/// The worst of them.
pub fn worst(checks: &[CheckResult]) -> CheckStatus {
    let status = checks.iter().map(|check| check.status).max();
    status.unwrap_or(CheckStatus::Ok)
}
