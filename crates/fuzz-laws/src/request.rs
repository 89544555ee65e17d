use wire::http1::{
    HeadLimits, HeadParser, Refusal, Request,
    conditional::{self, Validators},
    range,
};

use crate::tearing::Tearing;

/// Limits that short inputs reach, too.
const LIMITS: HeadLimits = HeadLimits { line_bytes_max: 200, head_bytes_max: 500, is_http2: false };

/// A request head in pieces has the same meaning as in one, and is refused for the same reason.
pub fn http1_request(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = if seed & 0x80 == 0 { HeadLimits::default() } else { LIMITS };
    let whole = HeadParser::default().parse(stream, &limits).map(|request| request.map(describe));
    let torn = parse_torn(stream, Tearing::new(seed), &limits);
    assert_eq!(whole, torn, "at once, and torn");
}

fn parse_torn(stream: &[u8], tearing: Tearing, limits: &HeadLimits) -> Result<Option<String>, Refusal> {
    let (mut parser, mut arrived) = (HeadParser::default(), 0);
    for piece in tearing.pieces(stream) {
        arrived += piece.len();
        if let Some(request) = parser.parse(&stream[..arrived], limits)? {
            return Ok(Some(describe(request)));
        }
    }
    parser.parse(stream, limits).map(|request| request.map(describe))
}

/// Describes every property of a request.
fn describe(request: Request<'_>) -> String {
    let validators = Validators { etag: b"\"tag\"", modified: 784_111_777, changed: 784_111_777 };
    let verdict = conditional::evaluate(&request, validators);
    let selection = range::select(&request, validators, 1_000, 784_111_778);
    let hosts: Vec<_> = request.values("host").collect();
    format!("{request:?} {verdict:?} {selection:?} {hosts:?}")
}
