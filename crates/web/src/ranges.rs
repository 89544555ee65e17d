//! 206 and 416: the parts of a file that a request wants.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use wire::http1::{
    Connection, Part, PreparedResponse, Request, Status,
    range::{self, Selection},
};

use crate::{Heads, Site, page, responder::Responder, writer::Writer};

impl<S: Site, W: Writer> Responder<'_, S, W> {
    /// Answers a GET with a `Range`.
    #[cold]
    pub(crate) fn send_ranges(&mut self, file: &S::File, request: &Request<'_>, connection: Connection) {
        let heads = S::heads(file);
        match range::select(request, heads.validators(), heads.size(), self.now.unix.as_secs()) {
            Selection::Whole => self.send_whole(file, connection),
            Selection::Unsatisfiable => {
                self.send_prepared(&page::unsatisfiable(heads.size(), heads.fields()), Part::Whole, connection)
            }
            Selection::Parts(parts) => match &parts[..] {
                [part] => self.send_part(file, part, connection),
                // A coding of the content would have to be undone before the parts are told apart, and would not be there.
                _ if heads.encoding().content_coding().is_some() => self.send_whole(file, connection),
                parts => self.send_multipart(file, parts, connection),
            },
        }
    }

    fn send_part(&mut self, file: &S::File, part: &Range<u64>, connection: Connection) {
        let heads = S::heads(file);
        let len = part.end - part.start;
        let mut head = PreparedResponse::builder(Status::PartialContent)
            .field("Content-Type", heads.media_type())
            .field("Content-Length", len.to_string())
            .field("Content-Range", content_range(part, heads.size()))
            .fields_of(&heads.not_modified);
        if let Some(coding) = heads.encoding().content_coding() {
            head = head.field("Content-Encoding", coding);
        }
        self.tally.note_coding(heads.encoding().coding());
        self.send_prepared(&head.body(b""), Part::Whole, connection);
        self.host.site.push_range(file, part.clone(), self.out);
        self.tally.body(len);
    }

    /// Writes several parts into one body (RFC 9110, section 14.6).
    fn send_multipart(&mut self, file: &S::File, parts: &[Range<u64>], connection: Connection) {
        let heads = S::heads(file);
        let boundary = boundary(&self.server.boundary_key, heads);
        let delimiters: Vec<String> =
            parts.iter().enumerate().map(|(at, part)| delimiter(at, &boundary, part, heads)).collect();
        let end = format!("\r\n--{boundary}--\r\n");
        let framing = delimiters.iter().map(String::len).sum::<usize>() + end.len();
        let len = parts.iter().map(|part| part.end - part.start).sum::<u64>() + framing as u64;
        let head = PreparedResponse::builder(Status::PartialContent)
            .field("Content-Type", format!("multipart/byteranges; boundary={boundary}"))
            .field("Content-Length", len.to_string())
            .fields_of(&heads.not_modified)
            .body(b"");
        self.send_prepared(&head, Part::Whole, connection);
        for (part, delimiter) in parts.iter().zip(&delimiters) {
            self.out.inline().extend_from_slice(delimiter.as_bytes());
            self.host.site.push_range(file, part.clone(), self.out);
        }
        self.out.inline().extend_from_slice(end.as_bytes());
        self.tally.body(len);
    }
}

fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

/// Formats what stands before a part.
fn delimiter(at: usize, boundary: &str, part: &Range<u64>, heads: &Heads) -> String {
    let line_end = if at == 0 { "" } else { "\r\n" };
    let (media_type, range) = (heads.media_type(), content_range(part, heads.size()));
    format!("{line_end}--{boundary}\r\nContent-Type: {media_type}\r\nContent-Range: {range}\r\n\r\n")
}

/// Derives the boundary of a file's parts. It is the same for the same version of a file, and unknown to its author.
fn boundary(secret: &RandomState, heads: &Heads) -> String {
    let half = |half: u8| secret.hash_one((half, heads.validators().etag));
    format!("{:016x}{:016x}", half(0), half(1))
}
