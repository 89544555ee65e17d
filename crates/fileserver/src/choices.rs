//! Kinds of things to choose from on the command line, each kind by one table.

/// Not the name of anything there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{given}`; there are {known}")]
pub struct UnknownChoice {
    what: &'static str,
    given: String,
    /// What there is, with the other names it answers to.
    known: String,
}

impl UnknownChoice {
    pub(crate) fn new(what: &'static str, given: &str, known: &[(&str, &[&str])]) -> Self {
        let described = known.iter().map(|(name, aliases)| match aliases {
            [] => (*name).to_owned(),
            _ => format!("{name} (also {})", aliases.join(", ")),
        });
        Self { what, given: given.to_owned(), known: described.collect::<Vec<_>>().join(", ") }
    }
}

/// One table makes the enum, the list of all of it, the names and aliases on the command line, and the descriptions.
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        $choice:ident, $what:literal:
        $($(#[doc = $about:literal])+ $kind:ident = $name:literal $(| $alias:literal)*,)+
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $choice {
            $($(#[doc = $about])+ $kind,)+
        }

        impl $choice {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Other names that are understood.
            pub fn aliases(self) -> &'static [&'static str] {
                match self { $(Self::$kind => &[$($alias,)*],)+ }
            }

            /// One line, for `--list-backends`.
            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+).trim_ascii(),)+ }
            }
        }

        impl std::str::FromStr for $choice {
            type Err = $crate::choices::UnknownChoice;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $($name $(| $alias)* => Ok(Self::$kind),)+
                    _ => {
                        let known = [$(($name, &[$($alias,)*] as &[&str]),)+];
                        Err($crate::choices::UnknownChoice::new($what, name, &known))
                    }
                }
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use choices;
