//! The one list of stores.

use std::{fmt, str::FromStr};

use service::{Choice, Dimension};
use store::{HashbrownStore, PackedStore, StdStore, Store};

/// What is to be done with a store, whichever it is.
pub trait WithStore {
    type Output;

    fn with<S: Store + 'static>(self, sharing: Sharing) -> Self::Output;
}

/// Who runs the commands on a shard's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Whichever thread has read them, under a lock.
    Locked,
    /// A thread that owns the shard.
    Owned,
}

macro_rules! stores {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal => $store:ty, $sharing:ident;)+) => {
        /// Where entries are kept.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StoreKind {
            $($(#[doc = $about])+ $kind,)+
        }

        impl StoreKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+).trim_ascii(),)+ }
            }

            /// Turns the choice into a type.
            pub fn with<F: WithStore>(self, action: F) -> F::Output {
                match self { $(Self::$kind => action.with::<$store>(Sharing::$sharing),)+ }
            }
        }
    };
}

stores! {
    /// one-line buckets of tags and offsets, an arena of size classes; the fastest and the smallest
    Packed = "packed" => PackedStore, Locked;
    /// hashbrown's table in front of a slab of entries
    Hashbrown = "hashbrown" => HashbrownStore, Locked;
    /// the standard library's map in front of a slab of entries
    Std = "std" => StdStore, Locked;
    /// shared nothing: packed, each shard owned by a thread of its own, to which commands travel
    Partitioned = "partitioned" => PackedStore, Owned;
}

/// Not the name of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown store `{0}`; there are {names}", names = StoreKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownStore(String);

impl FromStr for StoreKind {
    type Err = UnknownStore;

    fn from_str(name: &str) -> Result<Self, UnknownStore> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| UnknownStore(name.to_owned()))
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What `--list-backends` says of stores.
pub fn dimension() -> Dimension {
    let choice = |kind: &StoreKind| Choice {
        name: kind.name().to_owned(),
        description: kind.about().to_owned(),
        unavailable: None,
        facts: None,
    };
    Dimension {
        name: "store",
        flag: "--store",
        default: StoreKind::Packed.name().to_owned(),
        choices: StoreKind::ALL.iter().map(choice).collect(),
    }
}
