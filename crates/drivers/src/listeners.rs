use std::io;

use sys::listen::{Address, ListenOptions, Listener, Sharing};

/// The bound sockets of a server: for each accepting thread one per address.
#[derive(Debug)]
pub struct Listeners {
    addresses: Vec<Address>,
    pub(crate) per_thread: Vec<Vec<Listener>>,
}

impl Listeners {
    /// [`Listeners::bind_with`] the usual options.
    ///
    /// # Errors
    /// The address that cannot be bound, and why.
    pub fn bind(addresses: &[Address], acceptors: usize) -> Result<Self, (Address, io::Error)> {
        Self::bind_with(addresses, acceptors, ListenOptions::default())
    }

    /// Binds every address, `acceptors` times over where threads accept on their own
    /// (see [`crate::DriverKind::acceptors`]).
    ///
    /// # Errors
    /// The address that cannot be bound, and why.
    pub fn bind_with(
        addresses: &[Address],
        acceptors: usize,
        options: ListenOptions,
    ) -> Result<Self, (Address, io::Error)> {
        let sharing = if acceptors > 1 { Sharing::AmongThreads } else { Sharing::Alone };
        let mut bound = Self { addresses: Vec::new(), per_thread: (0..acceptors).map(|_| Vec::new()).collect() };
        for address in addresses {
            let failed = |error| (address.clone(), error);
            let first = Listener::bind_with(address, sharing, options).map_err(failed)?;
            let others = (1..acceptors).map(|_| first.another()).collect::<io::Result<Vec<_>>>().map_err(failed)?;
            bound.addresses.push(first.address().clone());
            for (listeners, listener) in bound.per_thread.iter_mut().zip([first].into_iter().chain(others)) {
                listeners.push(listener);
            }
        }
        Ok(bound)
    }

    /// The addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.per_thread.iter().flatten().try_for_each(|listener| listener.set_nonblocking(nonblocking))
    }
}
