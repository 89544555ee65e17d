//! A server of HTTP/2 that does what a test says, frame by frame.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use wire::{
    hpack::{Decoder, push_field},
    http2::{FrameHeader, HEADER_LEN, PREFACE, Setting, push_data_header, push_headers, push_settings},
};

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const END_STREAM: u8 = 0x1;

/// One connection of a client, behind its preface.
pub(crate) struct Peer {
    socket: TcpStream,
    inbox: Vec<u8>,
    decoder: Decoder,
}

/// Starts a server whose connections run `script` with their number, and returns its URL. Those that close without a word, as a
/// probe does, have no number.
pub(crate) fn serve(settings: &[Setting], script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let mut greeting = Vec::new();
    push_settings(settings, &mut greeting);
    let (script, numbers) = (Arc::new(script), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (script, numbers, greeting) = (Arc::clone(&script), Arc::clone(&numbers), greeting.clone());
            std::thread::spawn(move || {
                let mut peer = Peer { socket, inbox: Vec::new(), decoder: Decoder::default() };
                if !peer.fill(PREFACE.len()) {
                    return;
                }
                assert_eq!(peer.inbox.drain(..PREFACE.len()).as_slice(), PREFACE);
                peer.send(&greeting);
                script(numbers.fetch_add(1, std::sync::atomic::Ordering::SeqCst), &mut peer);
                // Closing with unread input would be a reset.
                let _ = peer.socket.shutdown(std::net::Shutdown::Write);
                while peer.frame().is_some() {}
            });
        }
    });
    url
}

impl Peer {
    fn fill(&mut self, length: usize) -> bool {
        let mut buffer = [0; 4096];
        while self.inbox.len() < length {
            match self.socket.read(&mut buffer) {
                Ok(0) | Err(_) => return false,
                Ok(read) => self.inbox.extend_from_slice(&buffer[..read]),
            }
        }
        true
    }

    /// Reads a frame; `None` at the end.
    pub(crate) fn frame(&mut self) -> Option<(FrameHeader, Vec<u8>)> {
        if !self.fill(HEADER_LEN) {
            return None;
        }
        let header = FrameHeader::parse(&self.inbox).expect("nine bytes");
        let end = HEADER_LEN + header.payload_len();
        self.fill(end).then(|| {
            let frame: Vec<u8> = self.inbox.drain(..end).collect();
            (header, frame[HEADER_LEN..].to_vec())
        })
    }

    /// Reads a request without a body: its stream and path; `None` at the end.
    pub(crate) fn request(&mut self) -> Option<(u32, String)> {
        loop {
            let (header, payload) = self.frame()?;
            if header.kind == HEADERS && header.flags & END_STREAM != 0 {
                return Some((header.stream, self.path(&payload)));
            }
        }
    }

    /// Reads a request and its body, behind which no other stream may speak; `None` at the end.
    pub(crate) fn request_and_body(&mut self) -> Option<(u32, String, Vec<u8>)> {
        let (mut open, mut body) = (None, Vec::new());
        loop {
            let (header, payload) = self.frame()?;
            match header.kind {
                HEADERS => open = Some((header.stream, self.path(&payload))),
                DATA => body.extend_from_slice(&payload),
                _ => continue,
            }
            if header.flags & END_STREAM != 0 {
                return open.map(|(stream, path)| (stream, path, body));
            }
        }
    }

    /// Reads so many requests; fewer at the end.
    pub(crate) fn requests(&mut self, count: usize) -> Vec<(u32, String)> {
        (0..count).map_while(|_| self.request()).collect()
    }

    pub(crate) fn path(&mut self, block: &[u8]) -> String {
        let mut path = String::new();
        let visit = |field: wire::hpack::Field<'_>| {
            if field.name == b":path" {
                path = String::from_utf8_lossy(field.value).into_owned();
            }
        };
        self.decoder.decode(block, visit).expect("a header block");
        path
    }

    /// Returns true if no request comes for a while.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let quiet = self.request().is_none();
        self.socket.set_read_timeout(None).expect("a socket");
        quiet
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // The client may have gone.
        let _ = self.socket.write_all(bytes);
    }

    /// Sends what `write` makes.
    pub(crate) fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.send(&out);
    }

    /// Replies with 200 and a body.
    pub(crate) fn reply(&mut self, stream: u32, body: &[u8]) {
        self.reply_with(stream, "200", body);
    }

    pub(crate) fn reply_with(&mut self, stream: u32, status: &str, body: &[u8]) {
        self.say(|out| {
            push_headers(stream, &head(status), false, 1 << 14, out);
            push_data_header(stream, body.len(), true, out);
            out.extend_from_slice(body);
        });
    }
}

/// Renders a header block with a status alone.
pub(crate) fn head(status: &str) -> Vec<u8> {
    let mut block = Vec::new();
    push_field(b":status", status.as_bytes(), &mut block);
    block
}
