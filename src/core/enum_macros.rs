//! Macros for enums with names and labels of their variants, for structs with defaults of their fields, and for the paths
//! of files in a folder, and for types that are written as texts.
//!
//! The name is used in files, settings, arguments and messages between processes and never changes; the label is for
//! the interface.

/// `named! { pub enum Sampler { Euler = "euler", "Euler"; } }` gives the enum with `Sampler::ALL`, `name()` and, if
/// labels follow the names, `label()` and `Sampler::CHOICES`. Serde writes the name.
macro_rules! named {
    ($(#[$of_all:meta])* pub enum $type:ident {
        $($(#[$of_one:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$of_all])*
        pub enum $type {
            $($(#[$of_one])* $variant,)+
        }

        impl $type {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];
        }
        $crate::enum_macros::named!(names of $type { $($variant: $name),+ });
        $crate::enum_macros::named!(serde of $type { $($name),+ });
    };
    ($(#[$of_all:meta])* pub enum $type:ident {
        $($(#[$of_one:meta])* $variant:ident = $name:literal, $label:literal;)+
    }) => {
        $crate::enum_macros::labelled! {
            $(#[$of_all])*
            pub enum $type {
                $($(#[$of_one])* $variant = $label,)+
            }
        }
        $crate::enum_macros::named!(names of $type { $($variant: $name),+ });
        $crate::enum_macros::named!(serde of $type { $($name),+ });

        impl $type {
            /// Every name with its label.
            pub const CHOICES: &[(&str, &str)] = &[$(($name, $label)),+];
        }
    };
    (names of $type:ident { $($variant:ident: $name:literal),+ }) => {
        impl $type {
            /// The name in files, in settings and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    (serde of $type:ident { $($name:literal),+ }) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                let found = Self::ALL.into_iter().find(|it| it.name() == text);
                found.ok_or_else(|| serde::de::Error::unknown_variant(&text, &[$($name),+]))
            }
        }
    };
}

/// `labelled! { pub enum Sort { Name = "By name", } }` gives the enum with `Sort::ALL` and `label()`.
macro_rules! labelled {
    ($(#[$of_all:meta])* pub enum $type:ident {
        $($(#[$of_one:meta])* $variant:ident = $label:literal,)+
    }) => {
        $(#[$of_all])*
        pub enum $type {
            $($(#[$of_one])* $variant,)+
        }

        impl $type {
            pub const ALL: [Self; [$($label),+].len()] = [$(Self::$variant),+];

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

/// Struct with field defaults, which serde uses for missing fields.
macro_rules! with_defaults {
    ($(#[$of_all:meta])* pub struct $type:ident $(<$kind:ident: $bound:ident>)? {
        $($(#[$of_one:meta])* $vis:vis $field:ident: $of:ty = $default:expr,)+
    }) => {
        $(#[$of_all])*
        pub struct $type $(<$kind: $bound>)? {
            $($(#[$of_one])* $vis $field: $of,)+
        }

        impl $(<$kind: $bound>)? Default for $type $(<$kind>)? {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

/// `file_paths! { JobFolder.path { mask = "mask.png"; reference(index) = "reference.{index:03}.png"; } }` gives methods
/// for the paths of files in a folder of the struct; numbered ones count from 0.
macro_rules! file_paths {
    ($($type:ident.$folder:tt {
        $($(#[$of_one:meta])* $name:ident $(($index:ident))? = $file:literal;)+
    })+) => { $(
        impl $type { $(
            $(#[$of_one])*
            pub fn $name(&self $(, $index: usize)?) -> std::path::PathBuf {
                let file = $crate::enum_macros::file_paths!(@name $file $($index)?);
                self.$folder.join(file)
            }
        )+ }
    )+ };
    (@name $file:literal) => {
        $file
    };
    (@name $file:literal $index:ident) => {
        format!($file)
    };
}

/// Conversions for serde of types that are written as texts: `#[serde(try_from = "String", into = "String")]`.
macro_rules! as_text {
    ($($type:ident)*) => { $(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )* };
}

pub(crate) use {as_text, file_paths, labelled, named, parsed, with_defaults};
