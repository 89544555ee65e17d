//! One table per choice: the type, its names on the command line, and what `--list-backends` says of it.

/// Not the name of anything to choose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {dimension} `{name}`; there are {names}")]
pub struct UnknownChoice {
    pub dimension: &'static str,
    pub name: String,
    /// Those there are, with the other names they answer to.
    pub names: String,
}

impl UnknownChoice {
    /// Error of [`choices!`](crate::choices) for a name that is not in its table.
    pub fn new(dimension: &'static str, name: &str, known: &[(&str, &[&str])]) -> Self {
        let described = known.iter().map(|(name, aliases)| match aliases {
            [] => (*name).to_owned(),
            _ => format!("{name} (also {})", aliases.join(", ")),
        });
        Self { dimension, name: name.to_owned(), names: described.collect::<Vec<_>>().join(", ") }
    }
}

/// Makes an enum of choices from one table of variants, each with its description, its name, and other names that
/// mean the same:
///
/// ```
/// service::choices! {
///     /// What to do with a packet.
///     pub enum Verdict: "verdict", "--verdict", default Keep {
///         /// pass it on
///         Keep = "keep" | "pass",
///         /// forget it
///         Drop = "drop",
///     }
/// }
/// assert_eq!("pass".parse(), Ok(Verdict::Keep));
/// assert_eq!((Verdict::ALL.len(), Verdict::Drop.name(), Verdict::Drop.about()), (2, "drop", "forget it"));
/// assert!("eat".parse::<Verdict>().unwrap_err().to_string().ends_with("there are keep (also pass), drop"));
/// assert_eq!(Verdict::dimension().default, "keep");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $dimension:literal, $flag:literal, default $default:ident {
            $($(#[doc = $about:literal])+ $kind:ident = $text:literal $(| $alias:literal)*,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[doc = $about])+ $kind,)+
        }

        impl $name {
            /// In the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];
            /// Choice that counts when nothing is said.
            pub const DEFAULT: Self = Self::$default;

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $text,)+ }
            }

            /// One line.
            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+).trim_ascii(),)+ }
            }

            /// Its part of `--list-backends`.
            pub fn dimension() -> $crate::Dimension {
                let choice = |kind: &Self| $crate::Choice {
                    name: kind.name().to_owned(),
                    description: kind.about().to_owned(),
                    unavailable: None,
                    facts: None,
                };
                $crate::Dimension {
                    name: $dimension,
                    flag: $flag,
                    default: Self::DEFAULT.name().to_owned(),
                    choices: Self::ALL.iter().map(choice).collect(),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownChoice;

            fn from_str(name: &str) -> Result<Self, $crate::UnknownChoice> {
                match name {
                    $($text $(| $alias)* => Ok(Self::$kind),)+
                    _ => Err($crate::UnknownChoice::new($dimension, name, &[$(($text, &[$($alias,)*] as &[&str]),)+])),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
