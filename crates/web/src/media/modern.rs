//! Media types of the web as it is today, where the usual list is older: by the registry of IANA, and by what browsers
//! insist on.

/// Types by extension in lower case.
const BY_EXTENSION: &[(&str, &str)] = &[
    // Modules are only run with a JavaScript type, and text/javascript is the one (RFC 9239).
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    ("map", "application/json"),
    ("topojson", "application/json"),
    ("har", "application/json"),
    ("ndjson", "application/x-ndjson"),
    ("jsonl", "application/jsonl"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("md", "text/markdown"),
    ("vcf", "text/vcard"),
    ("wat", "text/plain"),
    ("woff", "font/woff"),
    ("otf", "font/otf"),
    // HTTP live streaming: a playlist, and segments of an MPEG transport stream.
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ts", "video/mp2t"),
    ("m4s", "video/iso.segment"),
    ("m4a", "audio/mp4"),
    ("zst", "application/zstd"),
    ("tgz", "application/gzip"),
    ("usdz", "model/vnd.usdz+zip"),
    ("rpm", "application/x-rpm"),
    ("deb", "application/vnd.debian.binary-package"),
];

/// Types by the name of a file without an extension.
const BY_NAME: &[(&[u8], &str)] = &[
    // Apple fetches it from /.well-known/ and wants this type.
    (b"apple-app-site-association", "application/json"),
];

pub(super) fn by_extension(extension: &str) -> Option<&'static str> {
    BY_EXTENSION.iter().find(|(known, _)| *known == extension).map(|(_, media_type)| *media_type)
}

pub(super) fn by_name(name: &[u8]) -> Option<&'static str> {
    BY_NAME.iter().find(|(known, _)| *known == name).map(|(_, media_type)| *media_type)
}
