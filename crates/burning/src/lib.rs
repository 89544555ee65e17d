//! Real servers with an effect of known size: they spend extra CPU time on every request, as `loadgen null --burn` does.
//!
//! A program of a server is its `main` on a set of drivers. [`BurningDriver`] is such a set: every driver of ours, with
//! [`BurningProtocol`] around the protocol. So a hook is needed in no server and in no driver, and none of the programs that
//! are released knows of this crate.

#![forbid(unsafe_code)]

mod protocol;

use std::{fmt, io, sync::Arc};

use drivers::{Config, Descriptor, DriverKind, DriverSet, Listeners, Shutdown, Unavailable};
use loadgen::null::BurnOption;
use proto::Protocol;
use sys::registered::Region;

pub use self::protocol::BurningProtocol;

/// Environment variable with what is burnt on a request, such as `3us,200us/2000`; nothing where it is not set.
pub const VARIABLE: &str = "BURN";

/// A driver of ours, which runs any protocol as one that burns.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BurningDriver(DriverKind);

impl BurningDriver {
    /// Wraps drivers, in their order.
    const fn wrap<const N: usize>(kinds: &[DriverKind]) -> [Self; N] {
        let mut all = [Self(DriverKind::DEFAULT); N];
        let mut at = 0;
        while at < N {
            all[at] = Self(kinds[at]);
            at += 1;
        }
        all
    }
}

impl DriverSet for BurningDriver {
    const ALL: &'static [Self] = &Self::wrap::<{ DriverKind::ALL.len() }>(DriverKind::ALL);
    const AUTO: &'static [Self] = &Self::wrap::<{ DriverKind::AUTO.len() }>(DriverKind::AUTO);
    const DEFAULT: Self = Self(DriverKind::DEFAULT);

    fn descriptor(self) -> &'static Descriptor {
        self.0.descriptor()
    }

    fn probe(self) -> Result<(), Unavailable> {
        self.0.probe()
    }

    fn probe_registered(self, region: &Arc<Region>, threads: usize) -> io::Result<()> {
        self.0.probe_registered(region, threads)
    }

    fn serve<P: Protocol>(
        self,
        protocol: Arc<P>,
        listeners: Listeners,
        config: &Config,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        let protocol = BurningProtocol::new(protocol, &options(std::env::var(VARIABLE).ok().as_deref())?);
        tracing::info!("burns {:.1} ns of CPU time for each request", protocol.measure());
        self.0.serve(Arc::new(protocol), listeners, config, shutdown)
    }
}

impl fmt::Debug for BurningDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for BurningDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Parses the variable.
fn options(value: Option<&str>) -> io::Result<Vec<BurnOption>> {
    let parse = |text: &str| {
        text.parse().map_err(|why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{VARIABLE}: {why}")))
    };
    value.filter(|value| !value.is_empty()).map_or(Ok(Vec::new()), |value| value.split(',').map(parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_of_ours_is_there_under_its_name() {
        let names = |set: &[BurningDriver]| set.iter().map(ToString::to_string).collect::<Vec<_>>();
        let ours = |set: &[DriverKind]| set.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(BurningDriver::ALL), ours(DriverKind::ALL));
        assert_eq!(names(BurningDriver::AUTO), ours(DriverKind::AUTO));
        assert_eq!(BurningDriver::DEFAULT.descriptor().name, DriverKind::DEFAULT.descriptor().name);
    }

    #[test]
    fn the_variable_is_a_list_of_burns() {
        assert_eq!(options(None).unwrap(), []);
        assert_eq!(options(Some("")).unwrap(), []);
        let burn = |cpu_ns, every| BurnOption { cpu_ns, every };
        assert_eq!(options(Some("3us,200us/2000")).unwrap(), [burn(3_000, 1), burn(200_000, 2_000)]);
        let error = options(Some("3us,x")).unwrap_err();
        assert!(error.to_string().starts_with("BURN: expected a time"), "{error}");
    }
}
