//! Compression of whole files, and what is worth it.

use std::io::{self, Read, Write};

use brotli::enc::BrotliEncoderParams;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use wire::http1::coding::{Coding, CodingSet};

/// Sizes of files that are compressed, in bytes: a smaller one fits into one packet anyway, and a larger one would keep its
/// first reader waiting.
pub const SIZES: std::ops::RangeInclusive<u64> = 1 << 10..=4 << 20;
/// Size of the largest result of decompressing a file for clients that accept nothing else, in bytes.
pub const DECOMPRESSED_MAX: u64 = 16 << 20;
/// Memory in which a zstd frame may refer back, as a power of two: the most that a client has to have (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

// Levels: docs/http-server.md has the measured ratios and times. Each result is sent many times.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 9;
const BROTLI_QUALITY: i32 = 6;

/// Codings that files are compressed in.
pub const CODINGS: CodingSet = CodingSet::EMPTY.with(Coding::Gzip).with(Coding::Zstd).with(Coding::Brotli);

/// True for media types of text and of what else is not compressed by itself.
pub fn is_compressible(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((main, sub)) = essence.split_once('/') else { return false };
    match main {
        "text" => true,
        "image" => matches!(sub, "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon"),
        "font" => matches!(sub, "ttf" | "otf" | "collection"),
        "model" => sub.ends_with("+json") || sub.ends_with("+xml"),
        "application" => {
            sub.ends_with("+json") || sub.ends_with("+xml") || sub.ends_with("+text") || APPLICATIONS.contains(&sub)
        }
        _ => false,
    }
}

/// Media types of applications that are text or code.
const APPLICATIONS: &[&str] = &[
    "ecmascript",
    "font-sfnt",
    "graphql",
    "javascript",
    "json",
    "json5",
    "jsonlines",
    "msgpack",
    "postscript",
    "rtf",
    "sql",
    "toml",
    "vnd.apple.mpegurl",
    "vnd.ms-fontobject",
    "wasm",
    "x-font-opentype",
    "x-font-otf",
    "x-font-ttf",
    "x-javascript",
    "x-ndjson",
    "x-sh",
    "x-tar",
    "x-yaml",
    "xhtml+xml",
    "xml",
    "yaml",
];

/// Compresses `contents`; `None` if the result is not smaller.
///
/// # Errors
/// Those of the encoder, out of memory included.
pub fn compress(coding: Coding, contents: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let compressed = match coding {
        Coding::Identity => return Ok(None),
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
            encoder.write_all(contents)?;
            encoder.finish()?
        }
        Coding::Zstd => zstd::bulk::compress(contents, ZSTD_LEVEL)?,
        Coding::Brotli => {
            let parameters =
                BrotliEncoderParams { quality: BROTLI_QUALITY, size_hint: contents.len(), ..Default::default() };
            let mut compressed = Vec::new();
            brotli::BrotliCompress(&mut &contents[..], &mut compressed, &parameters)?;
            compressed
        }
    };
    Ok((compressed.len() < contents.len()).then_some(compressed))
}

/// Makes a representation out of another one, which is `source` in this coding; `None` if that is not to be had, or is not
/// worth it. `bytes_max` limits what is decompressed.
pub fn convert(coding: Coding, (from, source): (Coding, &[u8]), bytes_max: u64) -> Option<Vec<u8>> {
    match coding {
        Coding::Identity => decompress(from, source, bytes_max).ok(),
        Coding::Gzip | Coding::Zstd | Coding::Brotli => compress(coding, source).ok().flatten(),
    }
}

/// Decompresses a file.
///
/// # Errors
/// The file is damaged, or it holds more than `bytes_max`.
pub fn decompress(coding: Coding, contents: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
    match coding {
        Coding::Identity => read(contents, bytes_max),
        Coding::Gzip => read(MultiGzDecoder::new(contents), bytes_max),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(contents)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            read(decoder, bytes_max)
        }
        Coding::Brotli => read(brotli::Decompressor::new(contents, 16 << 10), bytes_max),
    }
}

fn read(decoder: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    let read = decoder.take(bytes_max.saturating_add(1)).read_to_end(&mut contents)? as u64;
    if read > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(contents) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

    #[test]
    fn text_and_code_are_compressed_and_pictures_are_not() {
        for media_type in [
            "text/html; charset=utf-8",
            "TEXT/CSS",
            "application/json",
            "application/ld+json",
            "application/wasm",
            "application/manifest+json",
            "image/svg+xml",
            "font/ttf",
            "application/xhtml+xml",
        ] {
            assert!(is_compressible(media_type), "{media_type}");
        }
        for media_type in [
            "image/png",
            "font/woff2",
            "application/zip",
            "application/octet-stream",
            "video/mp4",
            "application/gzip",
            "x",
        ] {
            assert!(!is_compressible(media_type), "{media_type}");
        }
    }

    #[test]
    fn what_does_not_get_smaller_is_not_compressed() {
        for coding in CODINGS {
            assert_eq!(compress(coding, b"x").unwrap(), None, "{coding:?}");
        }
    }

    #[test]
    fn damaged_and_too_large_files_are_errors() {
        for coding in CODINGS {
            let compressed = compress(coding, &[b'x'; 10_000]).unwrap().unwrap();
            let cut = &compressed[..compressed.len() / 2];
            assert!(decompress(coding, cut, DECOMPRESSED_MAX).is_err(), "{coding:?} cut");
            assert!(decompress(coding, b"no compressed file", DECOMPRESSED_MAX).is_err(), "{coding:?}");
            assert_eq!(decompress(coding, &compressed, 10_000).unwrap(), [b'x'; 10_000], "{coding:?}");
            let error = decompress(coding, &compressed, 9_999).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{coding:?}");
        }
    }

    proptest! {
        #[test]
        fn decompressed_is_what_was_compressed(word in "[a-z]{1,20}", times in 1_usize..2_000) {
            let contents = word.repeat(times);
            for coding in CODINGS {
                if let Some(compressed) = compress(coding, contents.as_bytes()).unwrap() {
                    prop_assert!(compressed.len() < contents.len());
                    prop_assert_eq!(decompress(coding, &compressed, u64::MAX).unwrap(), contents.as_bytes());
                }
            }
        }
    }
}
