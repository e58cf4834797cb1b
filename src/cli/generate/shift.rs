//! The shift of the noise schedule as it is written on the command line.

use std::str::FromStr;

/// A number, or by the number of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shift {
    Fixed(f64),
    Dynamic,
}

impl Shift {
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Fixed(number) => Some(number),
            Self::Dynamic => None,
        }
    }
}

impl FromStr for Shift {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "dynamic" {
            return Ok(Self::Dynamic);
        }
        let number = text.parse().ok().map(Self::Fixed);
        number.ok_or_else(|| format!("expected a number or dynamic, found {text:?}"))
    }
}
