//! A client of HTTP/2 that says exactly what a test wants it to say, rules or not.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use anyhow::{Context, anyhow, bail, ensure};
use socket2::SockRef;
pub use wire::http2::{ErrorCode, FRAME_BYTES, Setting as ClientSetting};
use wire::{
    hpack::{self, Decoder},
    http2::{
        Frame, FrameHeader, HEADER_LEN, PREFACE, Setting, WINDOW_BYTES, WINDOW_BYTES_MAX, push_data_header,
        push_headers, push_ping, push_rst_stream, push_settings, push_settings_ack, push_window_update,
    },
};

use crate::{HANG, tls::Certificates};

/// Receive buffer of a client whose server is to write little at a time.
const TORN_BYTES: usize = 4 << 10;

/// Returns the greeting of a client that takes whatever it gets.
pub fn greeting() -> Vec<u8> {
    let mut greeting = greeting_with(&[Setting::InitialWindowSize(WINDOW_BYTES_MAX)]);
    push_window_update(0, WINDOW_BYTES_MAX - WINDOW_BYTES, &mut greeting);
    greeting
}

/// Returns the greeting of a client with these settings.
pub fn greeting_with(settings: &[Setting]) -> Vec<u8> {
    let mut greeting = PREFACE.to_vec();
    push_settings(settings, &mut greeting);
    greeting
}

/// Returns the head of a request for a path, with fields beside the usual ones.
pub fn request(stream: u32, method: &str, path: &str, fields: &[(&str, &str)], is_last: bool) -> Vec<u8> {
    let usual = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "h")];
    headers(stream, &[&usual[..], fields].concat(), is_last)
}

/// Returns a GET without a body.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    request(stream, "GET", path, &[], true)
}

/// Returns HEADERS, and CONTINUATIONs if they are needed.
pub fn headers(stream: u32, fields: &[(&str, &str)], is_last: bool) -> Vec<u8> {
    let (mut block, mut frames) = (Vec::new(), Vec::new());
    fields.iter().for_each(|(name, value)| hpack::push_field(name.as_bytes(), value.as_bytes(), &mut block));
    push_headers(stream, &block, is_last, FRAME_BYTES as usize, &mut frames);
    frames
}

/// Returns DATA.
pub fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    push_data_header(stream, bytes.len(), is_last, &mut frame);
    frame.extend_from_slice(bytes);
    frame
}

/// Returns RST_STREAM.
pub fn reset(stream: u32) -> Vec<u8> {
    written(|out| push_rst_stream(stream, ErrorCode::Cancel, out))
}

/// Returns WINDOW_UPDATE.
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    written(|out| push_window_update(stream, increment, out))
}

/// Returns PING.
pub fn ping(contents: [u8; 8]) -> Vec<u8> {
    written(|out| push_ping(contents, false, out))
}

/// Returns SETTINGS.
pub fn settings(settings: &[Setting]) -> Vec<u8> {
    written(|out| push_settings(settings, out))
}

/// Returns a frame of any kind, right or wrong.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let ([_, a, b, c], [e, f, g, h]) = ((payload.len() as u32).to_be_bytes(), stream.to_be_bytes());
    [&[a, b, c, kind, flags, e, f, g, h][..], payload].concat()
}

fn written(push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out);
    out
}

/// Response on one stream, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Statuses of interim responses and of the final one.
    pub statuses: Vec<u16>,
    /// Fields of the final one, without its date.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// True if its end has come.
    pub is_whole: bool,
    /// Code of RST_STREAM.
    pub reset: Option<u32>,
}

impl Response {
    /// Returns the status of the final response; 0 before it has come.
    pub fn status(&self) -> u16 {
        self.statuses.last().copied().filter(|&status| status >= 200).unwrap_or(0)
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// True if nothing more will come.
    pub fn is_over(&self) -> bool {
        self.is_whole || self.reset.is_some()
    }
}

/// Everything that a server has sent.
#[derive(Debug, Default)]
pub struct Received {
    pub responses: BTreeMap<u32, Response>,
    /// Last stream and code of each GOAWAY.
    pub goaways: Vec<(u32, u32)>,
    /// PINGs of the server itself.
    pub pings: Vec<[u8; 8]>,
    /// PINGs that it has answered.
    pub pongs: usize,
    /// Its settings that have been acknowledged, and those of ours that it has.
    pub settings: Vec<Setting>,
    pub settings_acks: usize,
    /// Lengths of DATA frames with their streams, in order.
    pub data: Vec<(u32, usize)>,
    decoder: Decoder,
    /// Stream, block and end of the stream of a head that goes on.
    torn_block: Option<(u32, Vec<u8>, bool)>,
    torn: Vec<u8>,
}

impl Received {
    /// Reads what a server has sent.
    ///
    /// # Errors
    /// It has broken a rule.
    pub fn feed(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.torn.extend_from_slice(bytes);
        while let Some(header) = FrameHeader::parse(&self.torn)
            && self.torn.len() >= HEADER_LEN + header.payload_len()
        {
            let rest = self.torn.split_off(HEADER_LEN + header.payload_len());
            let whole = std::mem::replace(&mut self.torn, rest);
            let frame = Frame::parse(header, &whole[HEADER_LEN..]).map_err(|error| anyhow!("{error}: {header:?}"))?;
            self.take(frame).with_context(|| format!("{header:?}"))?;
        }
        Ok(())
    }

    /// Returns the response on a stream.
    ///
    /// # Errors
    /// Nothing has come on it.
    pub fn response(&self, stream: u32) -> anyhow::Result<&Response> {
        self.responses.get(&stream).with_context(|| format!("nothing on stream {stream}: {self:?}"))
    }

    fn take(&mut self, frame: Frame<'_>) -> anyhow::Result<()> {
        let continues = matches!(frame, Frame::Continuation { .. });
        ensure!(self.torn_block.is_some() == continues, "a head is interrupted");
        match frame {
            Frame::Data { stream, data, is_last, .. } => {
                self.data.push((stream, data.len()));
                let response = self.responses.entry(stream).or_default();
                ensure!(response.status() != 0 && !response.is_over(), "data where none is due: {response:?}");
                response.body.extend_from_slice(data);
                response.is_whole = is_last;
            }
            Frame::Headers { stream, block, is_whole, is_last, .. } => {
                self.torn_block = Some((stream, block.to_vec(), is_last));
                self.end_block(is_whole)?;
            }
            Frame::Continuation { stream, block, is_whole } => {
                let Some((begun, torn, _)) = &mut self.torn_block else { bail!("nothing goes on") };
                ensure!(*begun == stream, "another head goes on");
                torn.extend_from_slice(block);
                self.end_block(is_whole)?;
            }
            Frame::RstStream { stream, code } => self.responses.entry(stream).or_default().reset = Some(code),
            Frame::Settings(settings) => {
                for setting in settings.iter() {
                    self.settings.push(setting.map_err(|error| anyhow!("{error}"))?);
                }
            }
            Frame::SettingsAck => self.settings_acks += 1,
            Frame::Ping { data, is_ack: false } => self.pings.push(data),
            Frame::Ping { is_ack: true, .. } => self.pongs += 1,
            Frame::GoAway { last_stream, code } => self.goaways.push((last_stream, code)),
            Frame::WindowUpdate { .. } => {}
            Frame::Priority { .. } | Frame::PushPromise | Frame::PriorityUpdate { .. } | Frame::Unknown => {
                bail!("nothing that a server sends")
            }
        }
        Ok(())
    }

    fn end_block(&mut self, is_whole: bool) -> anyhow::Result<()> {
        if !is_whole {
            return Ok(());
        }
        let Some((stream, block, is_last)) = self.torn_block.take() else { return Ok(()) };
        let response = self.responses.entry(stream).or_default();
        ensure!(response.status() == 0 && !response.is_over(), "a second response: {response:?}");
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.decoder.decode(&block, |field| fields.push((text(field.name), text(field.value))))?;
        let (name, status) = fields.remove(0);
        ensure!(name == ":status", "{name} comes first");
        let status = status.parse()?;
        response.statuses.push(status);
        fields.retain(|(name, _)| name != "date");
        response.fields = fields;
        response.is_whole = is_last;
        Ok(())
    }
}

/// Bytes to and from a server.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Sizes of the pieces in which a client says something over TLS.
#[derive(Clone, Copy, Debug)]
pub struct Tearing {
    /// Each piece of plaintext is a record of its own, or several.
    pub plain_bytes: usize,
    /// Limit of a record.
    pub record_bytes: Option<usize>,
    /// Limit of a write to the socket.
    pub socket_bytes: usize,
}

/// A connection to a server.
pub struct Client {
    stream: Box<dyn Stream>,
    pub received: Received,
    /// The server has closed its side.
    pub is_closed: bool,
}

impl Client {
    /// Connects and greets.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_with(address, &greeting())
    }

    /// Connects and sends these bytes first.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect_with(address: SocketAddr, first: &[u8]) -> anyhow::Result<Self> {
        Self::begin(connect(address)?, first)
    }

    /// Connects over TLS, where the server has to choose HTTP/2, and sends these bytes first.
    ///
    /// # Errors
    /// The server does not answer, or chooses another protocol.
    pub fn connect_secured(address: SocketAddr, certificates: &Certificates, first: &[u8]) -> anyhow::Result<Self> {
        Self::begin(certificates.agree_on_http2(connect(address)?, None)?, first)
    }

    /// Does the same through a socket that takes few bytes at a time and has room for few, in records that hold few.
    ///
    /// # Errors
    /// The server does not answer, or chooses another protocol.
    pub fn connect_torn(
        address: SocketAddr,
        certificates: &Certificates,
        tearing: Tearing,
        first: &[u8],
    ) -> anyhow::Result<Self> {
        let socket = connect(address)?;
        SockRef::from(&socket).set_recv_buffer_size(TORN_BYTES)?;
        let socket = TornSocket { socket, piece_bytes: tearing.socket_bytes };
        let mut client = Self::begin(certificates.agree_on_http2(socket, tearing.record_bytes)?, b"")?;
        first.chunks(tearing.plain_bytes).try_for_each(|piece| client.send(piece))?;
        Ok(client)
    }

    fn begin(stream: impl Stream + 'static, first: &[u8]) -> anyhow::Result<Self> {
        let mut client = Self { stream: Box::new(stream), received: Received::default(), is_closed: false };
        client.send(first)?;
        Ok(client)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The server has closed.
    pub fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).context("sending")
    }

    /// Reads until `is_enough`, or until the server closes, and acknowledges settings.
    ///
    /// # Errors
    /// Nothing comes any more, or the server breaks a rule.
    pub fn read_until(&mut self, is_enough: impl Fn(&Received) -> bool) -> anyhow::Result<&Received> {
        let (begin, mut acknowledged) = (Instant::now(), self.received.settings.len());
        let mut buffer = vec![0; 64 << 10];
        while !is_enough(&self.received) && !self.is_closed {
            ensure!(begin.elapsed() < HANG, "waiting for ever: {:?}", self.received);
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_closed = true,
                Ok(n) => self.received.feed(&buffer[..n])?,
                // Over TLS, what could not be sent is tried again before anything is read.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                    self.is_closed = true;
                }
                Err(error) => return Err(error).with_context(|| format!("reading; so far: {:?}", self.received)),
            }
            if self.received.settings.len() > acknowledged {
                acknowledged = self.received.settings.len();
                let _ = self.send(&written(push_settings_ack));
            }
        }
        Ok(&self.received)
    }

    /// Reads until the response on a stream is over.
    ///
    /// # Errors
    /// See [`Client::read_until`].
    pub fn response(&mut self, stream: u32) -> anyhow::Result<Response> {
        let is_over = |received: &Received| received.responses.get(&stream).is_some_and(|response| response.is_over());
        Ok(self.read_until(is_over)?.response(stream)?.clone())
    }

    /// Reads until the server closes. Returns the code of its last GOAWAY.
    ///
    /// # Errors
    /// It does not close, or says nothing.
    pub fn end(&mut self) -> anyhow::Result<u32> {
        let received = self.read_until(|_| false)?;
        received.goaways.last().map(|&(_, code)| code).with_context(|| format!("no GOAWAY: {received:?}"))
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(HANG))?;
    socket.set_write_timeout(Some(HANG))?;
    Ok(socket)
}

/// A socket that takes at most so many bytes at a time.
struct TornSocket {
    socket: TcpStream,
    piece_bytes: usize,
}

impl Read for TornSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for TornSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(&bytes[..bytes.len().min(self.piece_bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
