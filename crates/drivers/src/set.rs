//! The drivers that a program has: those of the table, or one of another crate.

use std::{fmt, hash::Hash, io, marker::PhantomData, sync::Arc};

use proto::Protocol;
use sys::registered::Region;

use crate::{Config, Descriptor, Driver, DriverKind, Listeners, Serving, Shutdown, Unavailable};

/// Drivers of a program, one of which is chosen at run time.
pub trait DriverSet: Copy + Eq + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// All of them, in the order of `--list-backends`.
    const ALL: &'static [Self];
    /// Driver that serves where none is named.
    const DEFAULT: Self;
    /// Drivers that `auto` tries, the best first.
    const AUTO: &'static [Self];

    fn descriptor(self) -> &'static Descriptor;

    /// # Errors
    /// See [`Driver::probe`].
    fn probe(self) -> Result<(), Unavailable>;

    /// # Errors
    /// See [`Driver::probe_registered`].
    fn probe_registered(self, region: &Arc<Region>, threads: usize) -> io::Result<()>;

    /// Serves until `shutdown` drains and the last connection has closed.
    ///
    /// # Errors
    /// The failure that ends the whole driver.
    fn serve<P: Protocol>(
        self,
        protocol: Arc<P>,
        listeners: Listeners,
        config: &Config,
        shutdown: &Shutdown,
    ) -> io::Result<()>;

    /// Number of listeners for each address that it accepts from when it runs `threads` threads.
    fn acceptors(self, threads: usize) -> usize {
        if self.descriptor().listener_per_thread { threads } else { 1 }
    }
}

impl DriverSet for DriverKind {
    const ALL: &'static [Self] = Self::ALL;
    const AUTO: &'static [Self] = Self::AUTO;
    const DEFAULT: Self = Self::DEFAULT;

    fn descriptor(self) -> &'static Descriptor {
        self.descriptor()
    }

    fn probe(self) -> Result<(), Unavailable> {
        self.probe()
    }

    fn probe_registered(self, region: &Arc<Region>, threads: usize) -> io::Result<()> {
        self.probe_registered(region, threads)
    }

    fn serve<P: Protocol>(
        self,
        protocol: Arc<P>,
        listeners: Listeners,
        config: &Config,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        self.serve(protocol, listeners, config, shutdown)
    }
}

/// Set of one driver: that of a program outside of this workspace.
pub struct Only<D>(PhantomData<fn() -> D>);

impl<D: Driver + 'static> DriverSet for Only<D> {
    const ALL: &'static [Self] = &[Self(PhantomData)];
    const AUTO: &'static [Self] = Self::ALL;
    const DEFAULT: Self = Self(PhantomData);

    fn descriptor(self) -> &'static Descriptor {
        &D::DESCRIPTOR
    }

    fn probe(self) -> Result<(), Unavailable> {
        D::probe()
    }

    fn probe_registered(self, region: &Arc<Region>, threads: usize) -> io::Result<()> {
        D::probe_registered(region, threads)
    }

    fn serve<P: Protocol>(
        self,
        protocol: Arc<P>,
        listeners: Listeners,
        config: &Config,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        D::serve(Serving { protocol, listeners, config, shutdown })
    }
}

// Derived ones would ask the same of `D`, which is a tag.
impl<D> Clone for Only<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Only<D> {}

impl<D> PartialEq for Only<D> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<D> Eq for Only<D> {}

impl<D> Hash for Only<D> {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl<D: Driver> fmt::Debug for Only<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<D: Driver> fmt::Display for Only<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(D::DESCRIPTOR.name)
    }
}
