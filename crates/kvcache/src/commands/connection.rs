//! Commands about the connection itself.

use proto::Flow;
use store::Store;
use wire::resp::Version;

use super::{Call, Outcome, Refusal, generic::parse_database};

pub(super) fn ping<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(Refusal::new("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub(super) fn echo<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

pub(super) fn quit<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.ok();
    call.flow = Flow::Close;
    Ok(())
}

pub(super) fn select<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.conn.database = parse_database(call.args[1])?;
    call.keys.database = call.conn.database;
    call.reply.ok();
    Ok(())
}

pub(super) fn auth<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (user, password) = match call.args {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => return Err(Refusal::SYNTAX),
    };
    if call.args.len() == 2 && call.server.settings.password().is_none() {
        return Err(Refusal::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ));
    }
    log_in(call, user, password)?;
    call.reply.ok();
    Ok(())
}

fn log_in<S: Store>(call: &mut Call<'_, '_, S>, user: &[u8], password: &[u8]) -> Outcome {
    let right = call.server.settings.password().is_none_or(|right| right.as_bytes() == password);
    if user != b"default" || !right {
        return Err(Refusal::new("WRONGPASS invalid username-password pair or user is disabled."));
    }
    call.conn.authenticated = true;
    Ok(())
}

pub(super) fn hello<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let version = match call.args.get(1) {
        None => call.conn.version,
        Some(_) => match call.integer(1) {
            Ok(2) => Version::Resp2,
            Ok(3) => Version::Resp3,
            Ok(_) => return Err(Refusal::new("NOPROTO unsupported protocol version")),
            Err(_) => return Err(Refusal::new("ERR Protocol version is not an integer or out of range")),
        },
    };
    let mut at = 2;
    while at < call.args.len() {
        let left = call.args.len() - at - 1;
        if call.is(at, "AUTH") && left >= 2 {
            log_in(call, call.args[at + 1], call.args[at + 2])?;
            at += 3;
        } else if call.is(at, "SETNAME") && left >= 1 {
            call.conn.client.set_name(call.args[at + 1])?;
            at += 2;
        } else {
            let option = String::from_utf8_lossy(call.args[at]).into_owned();
            return Err(Refusal::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !call.conn.authenticated {
        return Err(Refusal::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    call.conn.version = version;
    call.reply.version = version;
    let reply = &mut call.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(crate::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if version == Version::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.conn.client.id() as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}
