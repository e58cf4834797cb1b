//! Configs by declaration: one line a field says its type, its default, the tensor of a header that shows it, and its check.
//!
//! `in_channels: i64 = 64 => dim("img_in.weight", 1)` is 64 where a `config.json` leaves it out, the number of columns of
//! that matrix where there is no `config.json`, and refused where it is not a size. The other forms are methods of
//! [`NamedShapes`], and `within` and those without an argument, which are checked and not read.

use super::header::{count, heads, sizes};
use super::stream_blocks;
use crate::formats::weights::WeightSet;

/// The shapes in a file, under the names that readers ask with.
pub struct NamedShapes<'a> {
    pub(super) weights: &'a WeightSet,
    file_key: &'a dyn Fn(&str) -> String,
}

impl<'a> NamedShapes<'a> {
    pub(super) fn new(weights: &'a WeightSet, file_key: &'a dyn Fn(&str) -> String) -> Self {
        Self { weights, file_key }
    }

    pub(super) fn key(&self, name: &str) -> String {
        (self.file_key)(name)
    }

    pub(super) fn sizes<const RANK: usize>(&self, name: &str) -> Result<[i64; RANK], String> {
        sizes(self.weights, &self.key(name))
    }

    /// Rows (axis 0) or columns (axis 1) of a matrix.
    pub(super) fn dim(&self, name: &str, axis: usize) -> Result<i64, String> {
        Ok(self.sizes::<2>(name)?[axis])
    }

    /// Length of a vector.
    pub(super) fn width(&self, name: &str) -> Result<i64, String> {
        let [width] = self.sizes(name)?;
        Ok(width)
    }

    /// Attention heads of `head_dim` that fill the rows of a matrix.
    pub(super) fn heads(&self, name: &str, head_dim: i64) -> Result<i64, String> {
        heads(self.dim(name, 0)?, head_dim)
    }

    /// Blocks of a list, whatever their numbers are.
    pub(super) fn blocks(&self, list: &str) -> i64 {
        let first = self.key(&format!("{list}.0."));
        let list = first.strip_suffix(".0.").unwrap_or(&first);
        stream_blocks::count_blocks(self.weights, list)
    }

    /// Number of tensors that are numbered from 0 without a gap; `{}` in `pattern` is the number.
    pub(super) fn count(&self, pattern: &str) -> i64 {
        count(self.weights, |number| {
            self.key(&pattern.replace("{}", &number.to_string()))
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.weights.has(&self.key(name))
    }
}

/// A config that `network_config!` declared.
pub trait DeclaredConfig: Sized {
    /// Fields that single tensors show, and the defaults of the others.
    fn of_declared(header: &NamedShapes<'_>) -> Result<Self, String>;

    /// Checks the ranges of the declared sizes and counts.
    fn check_declared(&self) -> Result<(), String>;

    /// Returns true if diffusers quantized the weights, which no reader here expands.
    fn is_quantized(&self) -> bool {
        false
    }
}

macro_rules! network_config {
    ($(#[$of_all:meta])* pub struct $type:ident $(<$kind:ident: $bound:ident>)? {
        $(
            $(#[$of_one:meta])*
            $vis:vis $field:ident: $of:ty = $default:expr $(=> $how:ident($($arg:expr),*))?,
        )+
    }) => {
        $crate::enum_macros::with_defaults! {
            $(#[$of_all])*
            pub struct $type $(<$kind: $bound>)? {
                $($(#[$of_one])* $vis $field: $of = $default,)+
            }
        }

        impl $(<$kind: $bound>)? $crate::networks::declared::DeclaredConfig for $type $(<$kind>)? {
            fn of_declared(
                header: &$crate::networks::declared::NamedShapes<'_>,
            ) -> Result<Self, String> {
                // A config may read no field of single tensors.
                let _ = header;
                Ok(Self {
                    $($field: $crate::networks::declared::network_config!(
                        @read header $default $(, $how($($arg),*))?
                    ),)+
                })
            }

            fn check_declared(&self) -> Result<(), String> {
                $($($crate::networks::declared::network_config!(@check self $field $how($($arg),*));)?)+
                Ok(())
            }

            fn is_quantized(&self) -> bool {
                [$($($crate::networks::declared::network_config!(
                    @quantized self $field $how
                ),)?)+]
                .contains(&true)
            }
        }
    };
    (@read $header:ident $default:expr) => {
        $default
    };
    (@read $header:ident $default:expr, $how:ident()) => {
        $default
    };
    (@read $header:ident $default:expr, within($least:expr, $most:expr)) => {
        $default
    };
    (@read $header:ident $default:expr, has($name:expr)) => {
        $header.has($name)
    };
    (@read $header:ident $default:expr, blocks($list:expr)) => {
        $header.blocks($list)
    };
    (@read $header:ident $default:expr, count($pattern:expr)) => {
        $header.count($pattern)
    };
    (@read $header:ident $default:expr, $how:ident($($arg:expr),*)) => {
        $header.$how($($arg),*)?.into()
    };
    (@check $self:ident $field:ident has($name:expr)) => {};
    (@check $self:ident $field:ident quantization()) => {};
    // The default is the only value that is computed with.
    (@check $self:ident $field:ident only()) => {
        $crate::networks::config::check_only(stringify!($field), &$self.$field, &Self::default().$field)?;
    };
    (@check $self:ident $field:ident within($least:expr, $most:expr)) => {
        $crate::networks::config::check_within(stringify!($field), $self.$field, $least..=$most)?;
    };
    (@check $self:ident $field:ident epsilon()) => {
        $crate::networks::check_epsilon(stringify!($field), $self.$field)?;
    };
    // The base of rotary frequencies.
    (@check $self:ident $field:ident base()) => {
        $crate::networks::config::check_base(stringify!($field), $self.$field)?;
    };
    (@check $self:ident $field:ident axes()) => {
        let head_dim = $self.attention_head_dim;
        $crate::networks::stream_blocks::check_axes(stringify!($field), $self.$field, head_dim)?;
    };
    (@check $self:ident $field:ident layers()) => {
        $crate::networks::check_layers(&[(stringify!($field), $self.$field)])?;
    };
    (@check $self:ident $field:ident blocks($list:expr)) => {
        $crate::networks::check_layers(&[(stringify!($field), $self.$field)])?;
    };
    (@check $self:ident $field:ident count($pattern:expr)) => {
        $crate::networks::check_layers(&[(stringify!($field), $self.$field)])?;
    };
    (@check $self:ident $field:ident $how:ident($($arg:expr),*)) => {
        $crate::networks::config::check_size(stringify!($field), $self.$field)?;
    };
    (@quantized $self:ident $field:ident quantization) => {
        $self.$field.is_some()
    };
    (@quantized $self:ident $field:ident $how:ident) => {
        false
    };
}

pub(super) use network_config;
