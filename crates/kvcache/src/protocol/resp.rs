//! RESP: from a request to its command.

mod forward;

use proto::{Flow, Now, Outbox, Step};
use store::Store;
use wire::resp::{Args, Parsed, ProtocolError, RequestLimits, RequestParser};

use crate::{
    commands::dispatch,
    state::{Client, Keyspace, ServerState},
};

/// Result of parsing the start of a connection's input. Numbers are bytes: those of the request, or those that are
/// missing.
pub(crate) enum ParsedCommand<'i> {
    Request(Args<'i>, usize),
    /// An inline command with quotes.
    Quoted(Vec<Vec<u8>>, usize),
    /// A request without a command.
    Empty(usize),
    Incomplete(usize),
    Invalid(ProtocolError),
}

/// Parses the request that `input` begins with.
pub(crate) fn parse_next<'i>(parser: &mut RequestParser, limits: &RequestLimits, input: &'i [u8]) -> ParsedCommand<'i> {
    let mut args = Args::new();
    match parser.parse(input, limits, &mut args) {
        Ok(Parsed::Complete { consumed }) if args.is_empty() => ParsedCommand::Empty(consumed),
        Ok(Parsed::Complete { consumed }) => ParsedCommand::Request(args, consumed),
        // Rare, and typed by hand: a copy frees the parser.
        Ok(Parsed::Quoted { consumed }) => {
            ParsedCommand::Quoted(parser.quoted().iter().map(|arg| arg.to_vec()).collect(), consumed)
        }
        Ok(Parsed::Incomplete { need }) => ParsedCommand::Incomplete(need),
        Err(error) => ParsedCommand::Invalid(error),
    }
}

/// Answers the request that `input` begins with.
pub(crate) fn handle_request<S: Store + 'static>(
    state: &ServerState<S>,
    parser: &mut RequestParser,
    client: &mut Client<S>,
    input: &[u8],
    keys: &mut Keyspace<'_, S>,
    now: Now,
    out: &mut Outbox,
) -> Step {
    match parse_next(parser, state.limits_for(client.is_authenticated), input) {
        ParsedCommand::Request(args, consumed) => run(state, client, keys, (&args, &input[..consumed]), now, out),
        ParsedCommand::Quoted(args, consumed) => {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            run(state, client, keys, (&args, &input[..consumed]), now, out)
        }
        ParsedCommand::Empty(consumed) => Step::open(consumed),
        ParsedCommand::Incomplete(need) => Step { need, ..Step::open(0) },
        ParsedCommand::Invalid(error) => {
            error.write(out.inline());
            Step { flow: Flow::Linger, ..Step::open(0) }
        }
    }
}

/// Answers a request, unless CLIENT PAUSE makes it wait or another process has the keys.
#[inline]
fn run<S: Store + 'static>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    keys: &mut Keyspace<'_, S>,
    (args, request): (&[&[u8]], &[u8]),
    now: Now,
    out: &mut Outbox,
) -> Step {
    if dispatch::is_paused(state, client, args) {
        if state.clients.pause.is_handed_over() {
            if let Some(flow) = forward::forward(state, client, args, request, out) {
                return Step { flow, ..Step::open(request.len()) };
            }
        } else if client.hold(&state.clients, out) {
            return Step::open(0);
        }
    }
    Step { flow: dispatch::answer(state, client, keys, args, now, out), ..Step::open(request.len()) }
}
