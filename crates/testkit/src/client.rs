//! A test's end of a connection.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::RecvFlags,
};
use sha2::{Digest as _, Sha256};
use socket2::{Domain, SockAddr, Socket, Type};
use sys::listen::Address;

use crate::HANG;

/// SHA-256 and length of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub sha256: [u8; 32],
    pub len: u64,
}

/// A connected socket, TCP or unix, whose reads and writes time out after [`HANG`].
#[derive(Debug)]
pub struct Client(Socket);

impl Client {
    pub fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_with(address, |_| Ok(()))
    }

    /// Connects with a receive buffer of this size. A small one makes the server notice a slow reader soon.
    pub fn connect_with_buffer(address: &Address, buffer_bytes: usize) -> io::Result<Self> {
        Self::connect_with(address, |socket| socket.set_recv_buffer_size(buffer_bytes))
    }

    /// Connects to a unix socket; fails at once where its backlog is full.
    pub fn connect_nonblocking(address: &Address) -> io::Result<Self> {
        let client = Self::connect_with(address, |socket| socket.set_nonblocking(true))?;
        client.0.set_nonblocking(false)?;
        Ok(client)
    }

    fn connect_with(address: &Address, prepare: impl FnOnce(&Socket) -> io::Result<()>) -> io::Result<Self> {
        let (domain, address) = match address {
            Address::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        prepare(&socket)?;
        socket.set_read_timeout(Some(HANG))?;
        socket.set_write_timeout(Some(HANG))?;
        if domain != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
        }
        // A socket with a timeout is not restarted after an interruption, such as the end of a ring that this thread had
        // (signal(7)). The connection is made meanwhile, and a second connect(2) waits for it.
        while let Err(error) = socket.connect(&address) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Self(socket))
    }

    pub fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(bytes).context("cannot send")
    }

    /// Returns the address that the server sees; `None` on a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()?.as_socket()
    }

    /// Ends the sending half of the connection.
    pub fn half_close(&self) -> anyhow::Result<()> {
        self.0.shutdown(Shutdown::Write).context("cannot half-close")
    }

    /// Sends the bytes and the end of input in one TCP segment, as far as a client can ask for that.
    pub fn send_and_half_close(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.0.set_tcp_cork(true).context("cannot cork")?;
        self.send(bytes)?;
        self.half_close()
    }

    /// Closes with a reset instead of an end.
    pub fn reset(self) -> anyhow::Result<()> {
        self.0.set_linger(Some(Duration::ZERO)).context("cannot set SO_LINGER")
    }

    /// One read: 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Reads without waiting: `None` when nothing has arrived, 0 at the end.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(&self.0, buffer, RecvFlags::DONTWAIT) {
            Ok((n, _)) => Ok(Some(n)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True if the server has reset the connection, whatever of its output has not been read.
    pub fn is_cut_off(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Reads exactly `len` bytes.
    pub fn take(&mut self, len: usize) -> anyhow::Result<Vec<u8>> {
        let mut got = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let n = self.read(&mut got[filled..]).with_context(|| format!("after {filled} of {len} bytes"))?;
            ensure!(n > 0, "ended after {filled} of {len} bytes: {}", brief(&got[..filled]));
            filled += n;
        }
        Ok(got)
    }

    /// Reads as many bytes as `wanted` has, which must be equal to it.
    pub fn expect(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let got = self.take(wanted.len()).with_context(|| format!("expecting {}", brief(wanted)))?;
        same(&got, wanted)
    }

    /// Reads to the end; all that arrives must be equal to `wanted`.
    pub fn expect_all(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let got = self.read_to_end().with_context(|| format!("expecting {} and the end", brief(wanted)))?;
        same(&got, wanted)
    }

    /// Expects the end, and nothing before it.
    pub fn expect_end(&mut self) -> anyhow::Result<()> {
        self.expect_all(b"")
    }

    /// Expects the end, by a close or by a reset, and nothing before it.
    pub fn expect_disconnect(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 64];
        match self.read(&mut buffer) {
            Ok(0) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Ok(n) => bail!("expected the end, got {}", brief(&buffer[..n])),
            Err(error) => Err(error).context("expected the end"),
        }
    }

    /// Reads one line, whose end is left out.
    pub fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        loop {
            match self.take(1).with_context(|| format!("in a line, after {}", brief(&line)))?[..] {
                [b'\n'] => return Ok(String::from_utf8(line)?),
                [byte] => line.push(byte),
                _ => bail!("one byte was asked for"),
            }
        }
    }

    pub fn read_to_end(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut got = Vec::new();
        self.each(256 * 1024, |bytes| got.extend_from_slice(bytes)).with_context(|| format!("got {}", brief(&got)))?;
        Ok(got)
    }

    /// Reads until the end or an error, and returns both the bytes and the error.
    pub fn read_until_disconnect(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut got = Vec::new();
        let outcome = self.each(256 * 1024, |bytes| got.extend_from_slice(bytes));
        (got, outcome)
    }

    /// Reads to the end, `step` bytes at a time with a `pause` after each, and returns the digest.
    pub fn digest(&mut self, step: usize, pause: Duration) -> anyhow::Result<Digest> {
        let (mut hasher, mut len) = (Sha256::new(), 0);
        let outcome = self.each(step, |bytes| {
            hasher.update(bytes);
            len += bytes.len() as u64;
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        });
        outcome.with_context(|| format!("after {len} bytes"))?;
        Ok(Digest { sha256: hasher.finalize().into(), len })
    }

    fn each(&mut self, step: usize, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; step];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(()),
                n => sink(&buffer[..n]),
            }
        }
    }

    /// Returns a second handle to the same connection, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

fn same(got: &[u8], wanted: &[u8]) -> anyhow::Result<()> {
    let first = got.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or_else(|| got.len().min(wanted.len()));
    ensure!(
        got == wanted,
        "got {} bytes instead of {}; from byte {first} on {} instead of {}",
        got.len(),
        wanted.len(),
        brief(&got[first..]),
        brief(&wanted[first..]),
    );
    Ok(())
}

fn brief(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "nothing".to_owned(),
        len @ ..=60 => format!("{len} bytes {:?}", bytes.escape_ascii().to_string()),
        len => format!("{len} bytes {:?}…", bytes[..60].escape_ascii().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Instant};

    use drivers::DriverKind;

    use super::*;

    #[test]
    fn connecting_survives_the_end_of_a_ring() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = Address::Tcp(listener.local_addr().expect("it is bound"));
        let rings: Vec<_> = DriverKind::ALL.iter().filter(|driver| driver.descriptor().needs.is_some()).collect();
        for driver in rings.into_iter().cycle().take(40) {
            let Ok(()) = driver.probe() else { continue };
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(50) {
                let mut client = Client::connect(&address).expect("it listens");
                listener.accept().expect("the client has connected").0.write_all(b"here").expect("there is room");
                client.expect(b"here").expect("it is connected");
            }
        }
    }
}
