//! Directories of documents, and fileservers that serve them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use tempfile::TempDir;

use super::socket_server::{Act, Server, framed_request, original_request};

/// A directory with the documents `DOCUMEN0` and so on.
pub(crate) struct Documents {
    pub(crate) directory: TempDir,
    pub(crate) bodies: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Documents {
    /// Makes a flat directory of documents of these lengths.
    pub(crate) fn of(lengths: &[usize]) -> Self {
        let body = |(place, &length): (usize, &usize)| (0..length).map(|at| (at * 7 + place) as u8).collect();
        Self::with(lengths.iter().enumerate().map(body))
    }

    /// Makes a flat directory of documents with these bodies.
    pub(crate) fn with(bodies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let name = |place: usize| format!("DOCUMEN{place}");
        let bodies: Vec<_> = bodies.into_iter().enumerate().map(|(place, body)| (name(place), body)).collect();
        for (name, body) in &bodies {
            std::fs::write(directory.path().join(name), body).expect("a document");
        }
        Self { directory, bodies: bodies.into_iter().map(|(name, body)| (name.into_bytes(), body)).collect() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the reply of a right server of the framed protocol to a request for `id`.
    pub(crate) fn framed(&self, id: &[u8]) -> Vec<u8> {
        match self.bodies.get(id) {
            Some(body) => framed(0, body),
            None => framed(1, b""),
        }
    }

    /// Starts a right server of the framed protocol.
    pub(crate) fn serve_framed(self: &Arc<Self>) -> Server {
        let documents = Arc::clone(self);
        Server::answering(framed_request, move |_, request| Act::Say(documents.framed(&request[2..])))
    }

    /// Starts a right server of the original protocol.
    pub(crate) fn serve_original(self: &Arc<Self>) -> Server {
        let documents = Arc::clone(self);
        Server::answering(original_request, move |_, id| {
            Act::SayAndClose(documents.bodies.get(id).cloned().unwrap_or_else(|| vec![0]))
        })
    }
}

/// Makes a reply of the framed protocol.
pub(crate) fn framed(status: u8, body: &[u8]) -> Vec<u8> {
    [&[status][..], &(body.len() as u64).to_be_bytes(), body].concat()
}
