//! The arguments of the second pass.

use clap::Args;
use safelight_core::job::SecondPass;

/// A second pass at a larger size.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SecondPassArgs {
    /// Hires fix: upscale the result by this factor, 1.1 to 4, and denoise it again, for image models and Wan; 1 = off
    #[arg(long, value_name = "SCALE")]
    second_pass: Option<f64>,
    /// Denoising strength of hires fix: above 0, up to 1 [default: 0.4]
    #[arg(long, value_name = "X")]
    second_strength: Option<f64>,
}

impl SecondPassArgs {
    /// These arguments over what `--from` gave.
    pub fn over(self, base: Option<SecondPass>) -> Option<SecondPass> {
        // As given, for the error where it is wrong.
        let is_off = |scale: f64| (scale - 1.0).abs() < f64::EPSILON;
        let scale = match self.second_pass {
            Some(scale) if is_off(scale) => return None,
            Some(scale) => Some(scale),
            None => base.map(|base| base.scale),
        };
        let strength = self
            .second_strength
            .or_else(|| base.map(|base| base.strength));
        Some(SecondPass {
            strength: strength.unwrap_or(SecondPass::STRENGTH),
            ..SecondPass::of_scale(scale?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_pass_arguments_override_the_settings_of_a_file() {
        let base = Some(SecondPass {
            scale: 2.0,
            strength: 0.3,
        });
        let args = |second_pass, second_strength| SecondPassArgs {
            second_pass,
            second_strength,
        };
        assert_eq!(args(None, None).over(base), base);
        assert_eq!(args(None, None).over(None), None);
        assert_eq!(args(Some(1.0), None).over(base), None);
        let found = args(Some(1.5), None).over(None).unwrap();
        assert_eq!((found.scale, found.strength), (1.5, SecondPass::STRENGTH));
        let found = args(None, Some(0.6)).over(base).unwrap();
        assert_eq!((found.scale, found.strength), (2.0, 0.6));
        // Nothing says how much larger.
        assert_eq!(args(None, Some(0.6)).over(None), None);
    }
}
