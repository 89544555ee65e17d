//! The one table of drivers: the names, the descriptions and the step from a runtime choice to a type.

use std::{fmt, io, str::FromStr, sync::Arc};

use proto::Protocol;
use sys::registered::Region;

use crate::{Config, Driver, Listeners, Serving, Shutdown, blocking, epoll, pool, reactor, tokio, tokio_uring, uring};

/// No driver has this name.
#[derive(Clone, Debug, thiserror::Error)]
#[error("unknown driver {name:?}; one of {}", names())]
pub struct UnknownDriver {
    name: String,
}

fn names() -> String {
    DriverKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

macro_rules! drivers {
    ($($variant:ident = $name:literal, $about:literal => $driver:ty;)+) => {
        /// A driver, chosen at run time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DriverKind { $(#[doc = $about] $variant,)+ }

        impl DriverKind {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One line for `--list-backends`.
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)+ }
            }

            /// Why this machine cannot run it, if so.
            pub fn probe(self) -> io::Result<()> {
                match self { $(Self::$variant => <$driver as Driver>::probe(),)+ }
            }

            /// Whether it registers memory with the kernel and sends that without copying it.
            pub fn registers_memory(self) -> bool {
                match self { $(Self::$variant => <$driver as Driver>::REGISTERS_MEMORY,)+ }
            }

            /// Why it cannot send memory of this region as [`DriverKind::registers_memory`] says, on so many threads, if
            /// so.
            pub fn probe_registered(self, region: &Region, threads: usize) -> io::Result<()> {
                match self { $(Self::$variant => <$driver as Driver>::probe_registered(region, threads),)+ }
            }

            /// How many sets of listeners it accepts from when it runs `threads` threads.
            pub fn acceptors(self, threads: usize) -> usize {
                let per_thread = match self { $(Self::$variant => <$driver as Driver>::LISTENER_PER_THREAD,)+ };
                if per_thread { threads } else { 1 }
            }

            /// Serves until `shutdown` drains and the last connection has closed. The one place where a runtime choice
            /// becomes a type.
            ///
            /// # Errors
            /// What ends the whole driver: a listener, an event queue or a ring that fails. A connection that fails
            /// ends alone and quietly.
            pub fn serve<P: Protocol>(
                self,
                protocol: Arc<P>,
                listeners: Listeners,
                config: &Config,
                shutdown: &Shutdown,
            ) -> io::Result<()> {
                let serving = Serving { protocol, listeners, config, shutdown };
                match self { $(Self::$variant => <$driver as Driver>::serve(serving),)+ }
            }
        }
    };
}

drivers! {
    Blocking = "blocking", "a thread per connection, plain blocking calls" => blocking::Blocking;
    Pool = "pool", "an acceptor, a bounded queue, and workers that each serve one connection at a time" => pool::Pool;
    Epoll = "epoll", "edge-triggered epoll, one event loop per thread" => epoll::Epoll;
    Reactor = "reactor", "event loops move the bytes, a pool of workers runs the protocol" => reactor::Reactor;
    Tokio = "tokio", "one tokio task per connection on a multi-thread runtime" => tokio::Tokio;
    TokioUring = "tokio-uring", "one tokio-uring runtime per thread, owned buffers; files and pipes are copied through memory" => tokio_uring::TokioUring;
    Uring = "uring", "raw io_uring: multishot accept and recv, provided buffers, batched submission" => uring::Uring;
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DriverKind {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownDriver { name: name.to_owned() })
    }
}
