//! Servers of a few lines whose behaviour a test decides, request by request.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Behaviour after a request.
pub(crate) enum Act {
    /// Send these bytes and go on.
    Say(Vec<u8>),
    /// Send these bytes and close.
    SayAndClose(Vec<u8>),
    /// Send these bytes and reset the connection.
    SayAndReset(Vec<u8>),
    /// Send these bytes one by one, with a pause behind each, and go on.
    Drip(Vec<u8>, Duration),
    /// Never say anything again.
    FallSilent,
}

/// A server with a thread per connection. It stops listening when dropped; connections end with their peers.
pub(crate) struct Server {
    port: u16,
    connections: Arc<AtomicU64>,
    accepted: Arc<Mutex<Vec<(Instant, IpAddr)>>>,
    is_over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

/// Returns the length of the request at the start of the input, once it is whole.
type Framing = fn(&[u8]) -> Option<usize>;

/// Frames requests that end with an empty line.
pub(crate) fn http_request(input: &[u8]) -> Option<usize> {
    input.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4)
}

/// Frames arrays of at most nine bulk strings without line breaks.
pub(crate) fn resp_request(input: &[u8]) -> Option<usize> {
    let words = usize::from(input.get(1)? - b'0');
    let mut line_ends = input.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    line_ends.nth(2 * words).map(|(end, _)| end + 1)
}

/// Frames requests that end with a line break.
pub(crate) fn line_request(input: &[u8]) -> Option<usize> {
    input.iter().position(|&byte| byte == b'\n').map(|end| end + 1)
}

/// Frames requests that end with the unit separator.
pub(crate) fn us_request(input: &[u8]) -> Option<usize> {
    input.iter().position(|&byte| byte == 0x1f).map(|end| end + 1)
}

/// Frames requests of a length in two bytes and an id of that length.
pub(crate) fn framed_request(input: &[u8]) -> Option<usize> {
    let end = 2 + usize::from(u16::from_be_bytes([*input.first()?, *input.get(1)?]));
    (input.len() >= end).then_some(end)
}

/// Frames requests of eight characters.
pub(crate) fn original_request(input: &[u8]) -> Option<usize> {
    (input.len() >= 8).then_some(8)
}

impl Server {
    /// Starts a server. `behave` is asked once per HTTP request, with a number that counts the requests of all connections from 0.
    pub(crate) fn start(behave: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        Self::of(http_request, behave)
    }

    /// Starts a server of another protocol.
    pub(crate) fn of(framing: Framing, behave: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        Self::answering(framing, move |number, _| behave(number))
    }

    /// Starts a server whose `behave` is shown the request, too.
    pub(crate) fn answering(framing: Framing, behave: impl Fn(u64, &[u8]) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (behave, requests) = (Arc::new(behave), Arc::new(AtomicU64::new(0)));
        let (connections, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let (count, times, over) = (Arc::clone(&connections), Arc::clone(&accepted), Arc::clone(&is_over));
        let acceptor = std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let peer = socket.peer_addr().map_or_else(|_| IpAddr::from([0, 0, 0, 0]), |peer| peer.ip());
                times.lock().expect("not poisoned").push((Instant::now(), peer));
                let (behave, requests) = (Arc::clone(&behave), Arc::clone(&requests));
                std::thread::spawn(move || converse(socket, framing, &*behave, &requests));
            }
        });
        Self { port, connections, accepted, is_over, acceptor: Some(acceptor) }
    }

    /// Starts a server that takes ten milliseconds for each request, so that four connections do at most 400 a second.
    pub(crate) fn slow() -> Self {
        Self::start(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Act::Say(ok("x"))
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the number of connections accepted so far; the generator's probe is one of them.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the times at which connections were accepted.
    pub(crate) fn accepted(&self) -> Vec<Instant> {
        self.accepted.lock().expect("not poisoned").iter().map(|(time, _)| *time).collect()
    }

    /// Returns the addresses that they came from.
    pub(crate) fn peers(&self) -> Vec<String> {
        self.accepted.lock().expect("not poisoned").iter().map(|(_, peer)| peer.to_string()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the acceptor. If it cannot be reached it has ended already.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor ends");
        }
    }
}

fn converse(mut socket: TcpStream, framing: Framing, behave: &dyn Fn(u64, &[u8]) -> Act, requests: &AtomicU64) {
    socket.set_nodelay(true).expect("a TCP socket");
    let mut inbox = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        while let Some(end) = framing(&inbox) {
            let request: Vec<_> = inbox.drain(..end).collect();
            let act = behave(requests.fetch_add(1, Ordering::SeqCst), &request);
            let (bytes, ending) = match act {
                Act::Say(bytes) => (bytes, None),
                Act::SayAndClose(bytes) => (bytes, Some(false)),
                Act::SayAndReset(bytes) => (bytes, Some(true)),
                Act::Drip(bytes, pause) => {
                    for byte in bytes {
                        if socket.write_all(&[byte]).is_err() {
                            return;
                        }
                        std::thread::sleep(pause);
                    }
                    (Vec::new(), None)
                }
                Act::FallSilent => return wait_for_end(socket),
            };
            if socket.write_all(&bytes).is_err() {
                return;
            }
            match ending {
                None => {}
                Some(true) => {
                    // The bytes should be read before the reset overtakes them.
                    std::thread::sleep(Duration::from_millis(20));
                    let none = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(socket.as_fd(), none).expect("a socket");
                    return;
                }
                Some(false) => {
                    // Closing with unread input would be a reset.
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                    return wait_for_end(socket);
                }
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => inbox.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn wait_for_end(mut socket: TcpStream) {
    let mut buffer = [0; 1024];
    while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
}

/// Makes a reply `200 OK` with this body.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    reply("200 OK", "", body.len(), body)
}

pub(crate) fn reply(status: &str, headers: &str, length: usize, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}
