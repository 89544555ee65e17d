//! A client in memory, which sends frames and reads what comes.

use super::*;

/// Events that were handed on, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen(pub(super) Vec<String>);

impl Seen {
    fn add(&mut self, event: Event<'_>, head: &RequestHead) {
        let end = |is_last| if is_last { "." } else { "" };
        self.0.push(match event {
            Event::None => return,
            Event::Request { stream, is_last } => {
                let (method, target) = head.method_and_target();
                let [method, target] = [method, target].map(String::from_utf8_lossy);
                let large = if head.is_too_large { " too large" } else { "" };
                format!("{stream} {method} {target}{large}{}", end(is_last))
            }
            Event::Body { stream, data, is_last } => format!("{stream} +{}{}", data.len(), end(is_last)),
            Event::Cancelled { stream } => format!("{stream} cancelled"),
        });
    }
}

/// A connection and its client.
pub(super) struct Bench {
    pub(super) connection: ServerConnection,
    pub(super) seen: Seen,
    /// Frames that the client has got.
    pub(super) out: Vec<u8>,
    pub(super) now: Instant,
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to make an Instant")]
pub(super) fn start() -> Instant {
    Instant::now()
}

impl Bench {
    /// Before the preface.
    pub(super) fn silent(limits: Limits) -> Self {
        Self { connection: ServerConnection::new(limits), seen: Seen::default(), out: Vec::new(), now: start() }
    }

    pub(super) fn with_limits(limits: Limits) -> Self {
        let mut bench = Self::silent(limits);
        bench.send(PREFACE).unwrap();
        bench.send(&written(|out| push_settings(&[], out))).unwrap();
        bench.out.clear();
        bench
    }

    pub(super) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Sends whole frames.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), ErrorCode> {
        while !bytes.is_empty() {
            let taken = self.receive(bytes)?;
            assert!(taken > 0, "whole frames");
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Sends what may be torn. Returns what has been taken of it.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let Received { taken, event } = self.connection.receive(bytes, self.now, &mut self.out)?;
        self.seen.add(event, self.connection.head());
        Ok(taken)
    }

    pub(super) fn request(&mut self, stream: u32, is_last: bool) -> Result<(), ErrorCode> {
        self.send(&get(stream, &[], is_last))
    }

    /// Returns the frames that the client has got since the last look, as text.
    pub(super) fn got(&mut self) -> Vec<String> {
        let out = std::mem::take(&mut self.out);
        let mut rest = &out[..];
        let mut got = Vec::new();
        while let Some(header) = FrameHeader::parse(rest) {
            let (payload, behind) = rest[HEADER_LEN..].split_at(header.payload_len());
            rest = behind;
            got.push(match Frame::parse(header, payload).unwrap() {
                Frame::RstStream { stream, code } => format!("reset {stream} {code}"),
                Frame::GoAway { last_stream, code } => format!("goaway {last_stream} {code}"),
                Frame::WindowUpdate { stream, increment } => format!("window {stream} {increment}"),
                Frame::Headers { stream, is_last, .. } => format!("head {stream}{}", if is_last { "." } else { "" }),
                Frame::Data { stream, data, is_last, .. } => {
                    format!("data {stream} {}{}", data.len(), if is_last { "." } else { "" })
                }
                Frame::Ping { is_ack, .. } => format!("ping {is_ack}"),
                Frame::SettingsAck => "settings ack".to_owned(),
                other @ (Frame::Settings(_)
                | Frame::Priority { .. }
                | Frame::PushPromise
                | Frame::Continuation { .. }
                | Frame::PriorityUpdate { .. }
                | Frame::Unknown) => panic!("{other:?}"),
            });
        }
        got
    }

    /// Sends a response with a body, as far as the windows allow; returns the bytes of all bodies that went.
    pub(super) fn respond(&mut self, stream: u32, length: u64) -> usize {
        self.connection.push_response(stream, b"\x88", length, &mut self.out);
        self.push()
    }

    /// Sends as much as the windows allow; returns the bytes of all bodies that went.
    pub(super) fn push(&mut self) -> usize {
        let mut sent = 0;
        while let Some((stream, length)) = self.connection.next() {
            let is_last = self.connection.push_data(stream, length, &mut self.out);
            self.out.resize(self.out.len() + length, b'x');
            sent += length;
            if is_last {
                self.connection.finish(stream, &mut self.out);
            }
        }
        sent
    }
}

pub(super) fn written(push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out);
    out
}

pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    written(|out| fields.iter().for_each(|(name, value)| hpack::push_field(name.as_bytes(), value.as_bytes(), out)))
}

pub(super) fn get(stream: u32, more: &[(&str, &str)], is_last: bool) -> Vec<u8> {
    let head = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
    let block = block(&[&head[..], more].concat());
    written(|out| push_headers(stream, &block, is_last, FRAME_BYTES as usize, out))
}

pub(super) fn data(stream: u32, length: usize, is_last: bool) -> Vec<u8> {
    let mut frame = written(|out| push_data_header(stream, length, is_last, out));
    frame.resize(HEADER_LEN + length, b'd');
    frame
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    written(|out| push::push_window_update(stream, increment, out))
}

pub(super) fn initial_window(bytes: u32) -> Vec<u8> {
    written(|out| push_settings(&[Setting::InitialWindowSize(bytes)], out))
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    written(|out| push_rst_stream(stream, ErrorCode::Cancel, out))
}

pub(super) fn raw(length: u32, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    let ([_, a, b, c], [e, f, g, h]) = (length.to_be_bytes(), stream.to_be_bytes());
    let mut frame = vec![a, b, c, kind, flags, e, f, g, h];
    frame.resize(HEADER_LEN + length as usize, 0);
    frame
}
