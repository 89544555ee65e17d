//! Web page that shows the statistics, embedded in the binary.

use wire::http1::{PreparedResponse, Status};

/// Files of the page: name below `/cache/webui/`, media type, contents.
const FILES: &[(&[u8], &str, &[u8])] = &[
    (b"", "text/html; charset=utf-8", include_bytes!("webui/index.html")),
    (b"icon.svg", "image/svg+xml", include_bytes!("webui/icon.svg")),
    (b"style.css", "text/css; charset=utf-8", include_bytes!("webui/style.css")),
    (b"app.js", "text/javascript; charset=utf-8", include_bytes!("webui/app.js")),
    (b"pictures.js", "text/javascript; charset=utf-8", include_bytes!("webui/pictures.js")),
    (b"text.js", "text/javascript; charset=utf-8", include_bytes!("webui/text.js")),
];
/// Content security policy: nothing from elsewhere, nothing inline, and no other page around it.
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Responses for the files, made once.
#[derive(Debug)]
pub(crate) struct WebUi(Vec<(&'static [u8], PreparedResponse)>);

impl WebUi {
    pub(crate) fn new() -> Self {
        Self(FILES.iter().map(|&(name, media_type, contents)| (name, page(media_type, contents))).collect())
    }

    /// Returns the response for `/cache/webui/` + `name`.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&PreparedResponse> {
        self.0.iter().find_map(|(known, page)| (*known == name).then_some(page))
    }
}

fn page(media_type: &str, contents: &[u8]) -> PreparedResponse {
    PreparedResponse::builder(Status::Ok)
        .field("Content-Type", media_type)
        .field("Content-Length", contents.len().to_string())
        .field("Content-Security-Policy", POLICY)
        .field("X-Content-Type-Options", "nosniff")
        .field("Referrer-Policy", "no-referrer")
        .field("Cache-Control", "no-cache")
        .body(contents)
}
