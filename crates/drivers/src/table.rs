//! The one table of drivers, and the step from a choice at run time to a type.

use std::{fmt, io, str::FromStr, sync::Arc};

use clap::{ValueEnum, builder::PossibleValue};
use proto::Protocol;
use sys::registered::Region;

use crate::{Config, Descriptor, Driver, DriverSet, Listeners, Serving, Shutdown, Unavailable};

/// No driver has this name.
#[derive(Clone, Debug, thiserror::Error)]
#[error("unknown driver {name:?}; one of {known}")]
pub struct UnknownDriver {
    name: String,
    known: String,
}

/// Returns the driver of a set that has this name.
///
/// # Errors
/// None has.
pub fn driver_named<D: DriverSet>(name: &str) -> Result<D, UnknownDriver> {
    D::ALL.iter().copied().find(|driver| driver.descriptor().name == name).ok_or_else(|| UnknownDriver {
        name: name.to_owned(),
        known: D::ALL.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    })
}

macro_rules! drivers {
    ($($(#[$gate:meta])? $variant:ident => $driver:ty;)+) => {
        /// A driver, chosen at run time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DriverKind { $($(#[$gate])? $variant,)+ }

        impl DriverKind {
            pub const ALL: &[Self] = &[$($(#[$gate])? Self::$variant,)+];

            pub const fn descriptor(self) -> &'static Descriptor {
                match self { $($(#[$gate])? Self::$variant => &<$driver as Driver>::DESCRIPTOR,)+ }
            }

            /// # Errors
            /// The reason that this machine cannot run it.
            pub fn probe(self) -> Result<(), Unavailable> {
                match self { $($(#[$gate])? Self::$variant => <$driver as Driver>::probe(),)+ }
            }

            /// # Errors
            /// The reason that it cannot send memory of this region as [`Descriptor::registers_memory`] says, on so
            /// many threads.
            pub fn probe_registered(self, region: &Arc<Region>, threads: usize) -> io::Result<()> {
                match self { $($(#[$gate])? Self::$variant => <$driver as Driver>::probe_registered(region, threads),)+ }
            }

            /// Serves until `shutdown` drains and the last connection has closed. The one place where a runtime choice
            /// becomes a type.
            ///
            /// # Errors
            /// The failure that ends the whole driver: of a listener, an event queue or a ring. A connection that fails
            /// ends alone and quietly.
            pub fn serve<P: Protocol>(
                self,
                protocol: Arc<P>,
                listeners: Listeners,
                config: &Config,
                shutdown: &Shutdown,
            ) -> io::Result<()> {
                let serving = Serving { protocol, listeners, config, shutdown };
                match self { $($(#[$gate])? Self::$variant => <$driver as Driver>::serve(serving),)+ }
            }
        }
    };
}

drivers! {
    Blocking => crate::blocking::Blocking;
    Pool => crate::pool::Pool;
    Epoll => crate::epoll::Epoll;
    Reactor => crate::reactor::Reactor;
    Tokio => crate::tokio::Tokio;
    #[cfg(not(target_env = "musl"))]
    TokioUring => crate::tokio_uring::TokioUring;
    Uring => crate::uring::Uring;
    #[cfg(feature = "compio")]
    Compio => crate::compio::Compio;
    #[cfg(feature = "smol")]
    Smol => crate::smol::Smol;
    #[cfg(feature = "monoio")]
    Monoio => crate::monoio::Monoio;
    #[cfg(feature = "may")]
    May => crate::may::May;
    #[cfg(all(feature = "glommio", not(target_env = "musl")))]
    Glommio => crate::glommio::Glommio;
}

impl DriverKind {
    /// Driver that serves where none is named.
    pub const DEFAULT: Self = Self::Epoll;
    /// Drivers that `auto` tries, the best first. The last one runs everywhere.
    pub const AUTO: &[Self] = &[Self::Uring, Self::Epoll];
    /// Driver for the few connections of something beside a server, such as its metrics.
    pub const AUXILIARY: Self = Self::Blocking;

    pub const fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// Number of listeners for each address that it accepts from when it runs `threads` threads.
    pub fn acceptors(self, threads: usize) -> usize {
        if self.descriptor().listener_per_thread { threads } else { 1 }
    }
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ValueEnum for DriverKind {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let Descriptor { name, about, .. } = *self.descriptor();
        Some(PossibleValue::new(name).help(about))
    }
}

impl FromStr for DriverKind {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        driver_named(name)
    }
}
