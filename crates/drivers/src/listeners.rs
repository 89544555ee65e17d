use std::io;

use sys::listen::{Address, ListenOptions, Listener, ListenerHandle, Sharing};

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

    /// [`Listeners::take_or_bind`] with no sockets that there are.
    ///
    /// # Errors
    /// The address that cannot be bound, and why.
    pub fn bind_with(
        addresses: &[Address],
        acceptors: usize,
        options: ListenOptions,
    ) -> Result<Self, (Address, io::Error)> {
        Self::take_or_bind(addresses, acceptors, options, &mut Vec::new())
    }

    /// Takes the sockets of every address out of those that the process has `inherited`, and binds what is missing:
    /// `acceptors` of each where threads accept on their own (see [`crate::DriverKind::acceptors`]).
    ///
    /// # Errors
    /// The address that cannot be bound, and why.
    pub fn take_or_bind(
        addresses: &[Address],
        acceptors: usize,
        options: ListenOptions,
        inherited: &mut Vec<Listener>,
    ) -> Result<Self, (Address, io::Error)> {
        let sharing = if acceptors > 1 { Sharing::AmongThreads } else { Sharing::Alone };
        let mut bound = Self { addresses: Vec::new(), per_thread: (0..acceptors).map(|_| Vec::new()).collect() };
        for address in addresses {
            let failed = |error| (address.clone(), error);
            let taken = take(address, acceptors, inherited).into_iter();
            let taken = taken.map(|listener| listener.with_options(options)).collect::<io::Result<Vec<_>>>();
            let mut sockets = taken.map_err(failed)?;
            if sockets.is_empty() {
                sockets.push(Listener::bind_with(address, sharing, options).map_err(failed)?);
            }
            while sockets.len() < acceptors {
                sockets.push(sockets[0].another().map_err(failed)?);
            }
            bound.addresses.push(sockets[0].address().clone());
            for (listeners, listener) in bound.per_thread.iter_mut().zip(sockets) {
                listeners.push(listener);
            }
        }
        Ok(bound)
    }

    /// The sockets of each accepting thread, one per address, in their order.
    pub fn into_threads(self) -> Vec<Vec<Listener>> {
        self.per_thread
    }

    /// The addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The sockets, for a process that succeeds this one.
    pub fn handles(&self) -> Vec<ListenerHandle> {
        // Those of one address stand together, as they are taken again.
        let places = 0..self.addresses.len();
        places.flat_map(|at| self.per_thread.iter().map(move |listeners| listeners[at].handle())).collect()
    }
}

/// Takes up to `count` sockets of one address; of whatever port, if the address names none.
fn take(address: &Address, count: usize, inherited: &mut Vec<Listener>) -> Vec<Listener> {
    let Some(found) = inherited.iter().map(Listener::address).find(|found| found.is_instance_of(address)).cloned()
    else {
        return Vec::new();
    };
    inherited.extract_if(.., |listener| *listener.address() == found).take(count).collect()
}
