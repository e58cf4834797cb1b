//! Enums whose variants are called by fixed names: the list of the variants, their names and their labels, all from
//! one table.
//!
//! The name stands in files, settings, arguments and messages between processes and never changes; the label is what
//! the interface says.

/// `named!(Sampler { Euler: "euler", "Euler" })` gives `Sampler::ALL`, `name()` and, where a label stands behind the
/// names, `label()`.
macro_rules! named {
    ($type:ident { $($variant:ident: $name:literal),+ $(,)? }) => {
        impl $type {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files, in settings and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
    ($type:ident { $($variant:ident: $name:literal, $label:literal);+ $(;)? }) => {
        $crate::named::named!($type { $($variant: $name),+ });

        impl $type {
            /// The name in the interface.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label),+
                }
            }
        }
    };
}

/// `parsed!(Sampler, "a sampler")` reads the enum from its name, in capitals or not.
macro_rules! parsed {
    ($type:ident, $what:literal) => {
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let mut all = Self::ALL.into_iter();
                let found = all.find(|it| it.name().eq_ignore_ascii_case(text));
                found.ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    format!("expected {} ({names}), found {text:?}", $what)
                })
            }
        }
    };
}

pub(crate) use {named, parsed};
