use std::io;

use sys::listen::{Address, ListenOptions, Listener, ListenerHandle, Sharing};

/// The bound sockets of a server: for each accepting thread one per address, or several where they were inherited.
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
    /// `acceptors` of each where threads accept on their own (see [`crate::DriverKind::acceptors`]). If there are more, threads
    /// have several: a connection that waits at a socket would be reset with its closing.
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
        for (front_end, address) in addresses.iter().enumerate() {
            let failed = |error| (address.clone(), error);
            let taken = take(address, inherited).into_iter();
            let taken = taken.map(|listener| listener.with_options(options)).collect::<io::Result<Vec<_>>>();
            let mut sockets = taken.map_err(failed)?;
            if sockets.is_empty() {
                sockets.push(Listener::bind_with(address, sharing, options).map_err(failed)?);
            }
            while sockets.len() < acceptors {
                sockets.push(sockets[0].another().map_err(failed)?);
            }
            bound.addresses.push(sockets[0].address().clone());
            for (at, listener) in sockets.into_iter().enumerate() {
                bound.per_thread[at % acceptors].push(listener.at_front_end(front_end));
            }
        }
        Ok(bound)
    }

    /// The sockets of each accepting thread: of each address one or more ([`Listener::front_end`]).
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
        let of_one = |front_end| {
            let all = self.per_thread.iter().flatten();
            all.filter(move |listener| listener.front_end() == front_end).map(Listener::handle)
        };
        (0..self.addresses.len()).flat_map(of_one).collect()
    }
}

/// Takes the sockets of one address; of whatever port, if the address names none.
fn take(address: &Address, inherited: &mut Vec<Listener>) -> Vec<Listener> {
    let Some(found) = inherited.iter().map(Listener::address).find(|found| found.is_instance_of(address)).cloned()
    else {
        return Vec::new();
    };
    inherited.extract_if(.., |listener| *listener.address() == found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inherited by a server with another number of threads.
    #[test]
    fn no_inherited_socket_is_closed() {
        let addresses = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().unwrap());
        let first = Listeners::bind(&addresses, 3).unwrap();
        let addresses = first.addresses().to_vec();
        let mut inherited = first.into_threads().into_iter().flatten().collect();
        let mut of_threads = |threads: usize| {
            let options = ListenOptions::default();
            let listeners = Listeners::take_or_bind(&addresses, threads, options, &mut inherited).unwrap();
            assert_eq!((listeners.addresses(), listeners.handles().len()), (&addresses[..], 6));
            let threads = listeners.into_threads();
            let counts: Vec<_> = threads.iter().map(Vec::len).collect();
            let all: Vec<_> = threads.into_iter().flatten().collect();
            assert!(all.iter().all(|listener| *listener.address() == addresses[listener.front_end()]));
            inherited.extend(all);
            counts
        };
        assert_eq!(of_threads(1), [6]);
        assert_eq!(of_threads(2), [4, 2]);
        assert_eq!(of_threads(3), [2; 3]);
    }
}
