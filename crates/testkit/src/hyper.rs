//! The HTTP/2 client of hyper, with prior knowledge or agreed by ALPN.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request,
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use sys::listen::Address;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Runtime,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsConnector;

use crate::{
    HANG,
    http::Response,
    tls::{Certificates, TLS13},
};

/// Windows of a stream and of the connection: small enough for bodies to wait for them again and again.
const STREAM_WINDOW_BYTES: u32 = 65_535;
const CONNECTION_WINDOW_BYTES: u32 = 150_000;

/// Request of a [`HyperClient`].
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    pub body: Bytes,
}

impl<'a> Ask<'a> {
    /// Returns a GET.
    pub fn get(path: &'a str) -> Self {
        Self { method: "GET", path, fields: &[], body: Bytes::new() }
    }
}

/// A connection. Its task runs only during calls.
#[derive(Debug)]
pub struct HyperClient {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
    scheme: &'static str,
}

/// Response whose body has begun. Dropping it resets its stream.
#[derive(Debug)]
pub struct BegunResponse {
    body: Incoming,
    begin: Vec<u8>,
}

impl HyperClient {
    /// Connects; with certificates over TLS, where the server has to choose HTTP/2.
    ///
    /// # Errors
    /// The server does not answer, or chooses another protocol.
    pub fn connect(address: &Address, certificates: Option<&Certificates>) -> anyhow::Result<Self> {
        let Address::Tcp(address) = address else { bail!("not TCP") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, connection) = runtime.block_on(within_bounds("connecting", async {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            let Some(certificates) = certificates else { return greet(socket).await };
            let mut config = (*certificates.client(&TLS13, None)?).clone();
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let connector = TlsConnector::from(Arc::new(config));
            let secured = connector.connect(ServerName::try_from("localhost")?, socket).await?;
            let chosen = secured.get_ref().1.alpn_protocol();
            ensure!(chosen == Some(b"h2"), "{chosen:?} instead of h2");
            greet(secured).await
        }))?;
        Ok(Self { runtime, sender, connection, scheme: if certificates.is_some() { "https" } else { "http" } })
    }

    /// Asks everything at once, each on a stream of its own. Returns the responses in the order of the requests.
    ///
    /// # Errors
    /// One of them has not come whole.
    pub fn ask_all(&self, requests: &[Ask<'_>]) -> anyhow::Result<Vec<Response>> {
        self.runtime.block_on(within_bounds("responses", async {
            let mut asked = JoinSet::new();
            for (at, ask) in requests.iter().enumerate() {
                let (request, mut sender) = (self.request(ask)?, self.sender.clone());
                asked.spawn(async move {
                    let response = sender.send_request(request).await?;
                    let (head, body) = response.into_parts();
                    let body = body.collect().await?.to_bytes().to_vec();
                    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                    let fields = head.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
                    Ok::<_, hyper::Error>((
                        at,
                        Response { status: head.status.as_u16(), fields: fields.collect(), body },
                    ))
                });
            }
            let mut responses = Vec::new();
            while let Some(response) = asked.join_next().await {
                responses.push(response??);
            }
            responses.sort_by_key(|&(at, _)| at);
            Ok(responses.into_iter().map(|(_, response)| response).collect())
        }))
    }

    /// Asks for a path and reads the first piece of the body.
    ///
    /// # Errors
    /// The response is not a 200 that has a body.
    pub fn begin(&self, path: &str) -> anyhow::Result<BegunResponse> {
        let (request, mut sender) = (self.request(&Ask::get(path))?, self.sender.clone());
        self.runtime.block_on(within_bounds("a response", async {
            let response = sender.send_request(request).await?;
            ensure!(response.status() == 200, "{path}: {}", response.status());
            let mut body = response.into_body();
            let frame = body.frame().await.context("no body")??;
            let begin = frame.into_data().map_err(|frame| anyhow::anyhow!("{frame:?} is no data"))?.to_vec();
            Ok(BegunResponse { body, begin })
        }))
    }

    /// Reads the rest of a body. Returns all of it.
    ///
    /// # Errors
    /// It ends early.
    pub fn finish(&self, response: BegunResponse) -> anyhow::Result<Vec<u8>> {
        self.runtime.block_on(within_bounds("the rest of a body", async {
            let rest = response.body.collect().await?.to_bytes();
            Ok([response.begin, rest.to_vec()].concat())
        }))
    }

    /// Waits until the server has ended the connection.
    ///
    /// # Errors
    /// It was not ended in order.
    pub fn end(self) -> anyhow::Result<()> {
        self.runtime.block_on(within_bounds("the end", async { Ok(self.connection.await??) }))
    }

    fn request(&self, ask: &Ask<'_>) -> anyhow::Result<Request<Full<Bytes>>> {
        let uri = format!("{}://localhost{}", self.scheme, ask.path);
        let begun = Request::builder().method(ask.method).uri(uri);
        let request = ask.fields.iter().fold(begun, |request, &(name, value)| request.header(name, value));
        Ok(request.body(Full::new(ask.body.clone()))?)
    }
}

async fn greet(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<(SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>)> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    Ok((sender, tokio::spawn(connection)))
}

async fn within_bounds<T>(what: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(HANG, work).await {
        Ok(outcome) => outcome.with_context(|| what.to_owned()),
        Err(_) => bail!("{what}: not after {HANG:?}"),
    }
}
