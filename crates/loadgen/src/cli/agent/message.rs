//! Messages between the coordinator and its agents: a JSON object on each line.

use std::io::{self, BufRead, Write};

use loadgen::result::RunResult;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version of the messages. Programs with different ones do not understand each other.
pub(super) const PROTOCOL: u32 = 1;
/// Version of the program, which both sides must have in common: a load is the same only if the generator is.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Limit of the length of a message. A result has some hundred KiB.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;

/// Message of the coordinator.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAgent {
    Hello {
        protocol: u32,
        version: String,
    },
    /// Asks for the agent's time.
    Ping,
    /// Arguments of the command to prepare.
    Run {
        arguments: Vec<String>,
    },
    /// Time to begin at, by the agent's clock, in nanoseconds since 1970.
    Start {
        at: u64,
    },
    /// Ends the run early.
    Stop,
}

/// Message of an agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromAgent {
    Hello {
        protocol: u32,
        version: String,
        host: Option<String>,
    },
    Pong {
        /// Nanoseconds since 1970.
        time: u64,
    },
    /// All is prepared, and it waits for [`ToAgent::Start`].
    Ready,
    /// Requests inside the window so far.
    Live {
        ok: u64,
        failed: u64,
    },
    Result(Box<RunResult>),
    /// The end, with the exit status that the command would have had.
    End {
        status: u8,
        error: Option<String>,
    },
}

/// Writes a message, and lets it go at once.
pub(super) fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads a message; `None` at the end.
pub(super) fn receive<M: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<M>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *input, MESSAGE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    let problem = |_| {
        let shown: String = String::from_utf8_lossy(&line).chars().take(80).collect();
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is no message of loadgen", shown.trim_end()))
    };
    serde_json::from_slice(&line).map(Some).map_err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_one_by_one() {
        let mut stream = Vec::new();
        send(&mut stream, &ToAgent::Ping).expect("memory");
        send(&mut stream, &ToAgent::Run { arguments: vec!["a\nb".to_owned()] }).expect("memory");
        stream.extend_from_slice(b"Welcome to host1!\n");
        let mut input = stream.as_slice();
        let ping: Option<ToAgent> = receive(&mut input).expect("a message");
        assert!(matches!(ping, Some(ToAgent::Ping)));
        let run: Option<ToAgent> = receive(&mut input).expect("a message");
        assert!(matches!(run, Some(ToAgent::Run { arguments }) if arguments == ["a\nb"]));
        let problem = receive::<ToAgent>(&mut input).expect_err("a greeting");
        assert_eq!(problem.to_string(), "`Welcome to host1!` is no message of loadgen");
        assert!(receive::<ToAgent>(&mut input).expect("the end").is_none());
    }
}
