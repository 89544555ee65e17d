use std::panic::{AssertUnwindSafe, catch_unwind};

use wire::resp::Version;

use crate::{Digest, Engine, Finished, Host, Interrupt, LogLevel, Source};

const MEMORY_BYTES: usize = 8 << 20;

/// Host whose commands are told apart by their names.
#[derive(Default)]
struct Fake {
    /// Arguments of the last command that was no other.
    args: Vec<Vec<u8>>,
    /// Reply of the command `reply`.
    reply: Vec<u8>,
    polls: usize,
}

impl Host for Fake {
    fn call(&mut self, args: &[&[u8]], reply: &mut Vec<u8>) -> Result<(), Interrupt> {
        match args[0] {
            b"reply" => reply.extend_from_slice(&self.reply),
            b"fail" => reply.extend_from_slice(b"-WRONG text\r\n"),
            b"big" => {
                reply.extend_from_slice(b"$16777216\r\n");
                reply.resize(reply.len() + (16 << 20), b'x');
                reply.extend_from_slice(b"\r\n");
            }
            b"panic" => panic!("of the host"),
            b"restart" => return Err(Interrupt::Restarted),
            _ => {
                self.args = args.iter().map(|arg| arg.to_vec()).collect();
                reply.extend_from_slice(b"+OK\r\n");
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Interrupt> {
        self.polls += 1;
        if self.polls < 1000 { Ok(()) } else { Err(Interrupt::Killed) }
    }

    fn set_version(&mut self, _: Version) {}

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn has_command(&self, _: &[&[u8]]) -> bool {
        true
    }
}

struct Scripts {
    engine: Engine,
    host: Fake,
}

impl Scripts {
    fn new() -> Self {
        let engine = Engine::new(MEMORY_BYTES, 1).unwrap();
        Self { engine, host: Fake::default() }
    }

    /// Runs a script. Returns its reply in RESP3.
    fn run(&mut self, text: &str, keys: &[&[u8]], argv: &[&[u8]]) -> (Finished, String) {
        let digest = Digest::of(text.as_bytes());
        let script = self.engine.compile(digest, &Source::parse(text.as_bytes()).unwrap()).unwrap();
        let mut out = Vec::new();
        let finished = self.engine.run(&script, keys, argv, &mut self.host, Version::Resp3, &mut out);
        (finished, out.escape_ascii().to_string())
    }

    fn reply(&mut self, text: &str) -> String {
        self.run(text, &[b"k"], &[b"a", b"\xff\0"]).1
    }

    fn arguments(&mut self, text: &str) -> Vec<String> {
        self.reply(text);
        self.host.args.iter().map(|arg| arg.escape_ascii().to_string()).collect()
    }
}

#[test]
fn arguments_reach_the_host_as_they_are() {
    let mut scripts = Scripts::new();
    assert_eq!(
        scripts.arguments("redis.call('a', '', 'x\\0y', ARGV[2], KEYS[1])"),
        ["a", "", "x\\x00y", "\\xff\\x00", "k"]
    );
    let numbers = scripts.arguments("redis.call('n', 1, 'one', -7, 1.5, 0.1, 1e14, 1e20, 'last', 2)");
    assert_eq!(numbers, ["n", "1", "one", "-7", "1.5", "0.10000000000000001", "100000000000000", "1e+20", "last", "2"]);
    let long = scripts.arguments("redis.call('long', ('x'):rep(1048576), 7)");
    assert_eq!((long[1].len(), &long[2][..]), (1 << 20, "7"));
    let many = "local t = {} for i = 1, 7000 do t[i] = i % 2 == 0 and i or tostring(i) end redis.call(unpack(t))";
    assert_eq!(scripts.arguments(many), (1..=7000).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn commands_with_wrong_arguments_are_refused() {
    let mut scripts = Scripts::new();
    let wrong = "ERR Lua redis lib command arguments must be strings or integers";
    for (args, error) in [
        ("", "ERR Please specify at least one argument for this redis lib call"),
        ("nil", wrong),
        ("true", wrong),
        ("'a', 1, {}", wrong),
        ("'a', 1, function() end", wrong),
        ("'a', coroutine.create(function() end)", wrong),
    ] {
        let line = format!("return redis.call({args})");
        let digest = Digest::of(line.as_bytes()).hex();
        assert_eq!(scripts.reply(&line), format!("-{error} script: {digest}, on @user_script:1.\\r\\n"));
        assert_eq!(scripts.reply(&format!("return redis.pcall({args})")), format!("-{error}\\r\\n"));
        let caught = format!("local ok, e = pcall(function() return redis.call({args}) end) return {{ok, e}}");
        assert_eq!(scripts.reply(&caught), format!("*2\\r\\n_\\r\\n${}\\r\\n{error}\\r\\n", error.len()));
    }
    assert_eq!(scripts.host.args.len(), 0);
}

#[test]
fn replies_pass_through_a_script_unchanged() {
    let mut scripts = Scripts::new();
    let nested = format!("{}:1\\r\\n", "*1\\r\\n".repeat(100));
    for (reply, passed) in [
        (":-9007199254740992\r\n", ":-9007199254740992\\r\\n"),
        ("$0\r\n\r\n", "$0\\r\\n\\r\\n"),
        ("$5\r\na\0\r\n\n\r\n", "$5\\r\\na\\x00\\r\\n\\n\\r\\n"),
        ("$-1\r\n", "_\\r\\n"),
        ("*-1\r\n", "_\\r\\n"),
        ("_\r\n", "_\\r\\n"),
        ("+OK\r\n", "+OK\\r\\n"),
        ("*0\r\n", "*0\\r\\n"),
        ("*3\r\n:1\r\n+a\r\n*1\r\n$1\r\nb\r\n", "*3\\r\\n:1\\r\\n+a\\r\\n*1\\r\\n$1\\r\\nb\\r\\n"),
        ("%1\r\n$1\r\na\r\n*1\r\n:2\r\n", "%1\\r\\n$1\\r\\na\\r\\n*1\\r\\n:2\\r\\n"),
        ("~1\r\n$1\r\na\r\n", "~1\\r\\n$1\\r\\na\\r\\n"),
        (",1.25\r\n", ",1.25\\r\\n"),
        (",-inf\r\n", ",-inf\\r\\n"),
        ("(12345678901234567890\r\n", "(12345678901234567890\\r\\n"),
        ("=7\r\ntxt:abc\r\n", "=7\\r\\ntxt:abc\\r\\n"),
        ("#t\r\n", ":1\\r\\n"),
        (&format!("{}:1\r\n", "*1\r\n".repeat(100)), &nested),
    ] {
        scripts.host.reply = reply.as_bytes().to_vec();
        assert_eq!(scripts.reply("return redis.call('reply')"), passed, "{reply:?}");
        assert_eq!(scripts.reply("return (coroutine.wrap(function() return redis.pcall('reply') end)())"), passed);
    }
    assert_eq!(
        scripts.reply("redis.setresp(3) return {true, {double = -0.5}, 1.9, 'x'}"),
        "*4\\r\\n#t\\r\\n,-0.5\\r\\n:1\\r\\n$1\\r\\nx\\r\\n"
    );
}

#[test]
fn tables_are_replies_up_to_a_depth() {
    let mut scripts = Scripts::new();
    let nest = |depth| format!("local t = 7 for i = 1, {depth} do t = {{t}} end return t");
    assert_eq!(scripts.reply(&nest(300)), format!("{}:7\\r\\n", "*1\\r\\n".repeat(300)));
    assert_eq!(scripts.reply(&nest(301)), format!("{}-ERR reached lua stack limit\\r\\n", "*1\\r\\n".repeat(300)));
    assert_eq!(
        scripts.reply("return {map = {a = {set = {b = true}}}}"),
        "%1\\r\\n$1\\r\\na\\r\\n~1\\r\\n$1\\r\\nb\\r\\n"
    );
    assert_eq!(scripts.reply("return {1, nil, 3}"), "*1\\r\\n:1\\r\\n");
    assert_eq!(scripts.reply("return {verbatim_string = {format = 'txt'}, 5}"), "*1\\r\\n:5\\r\\n");
}

#[test]
fn errors_of_commands_can_be_caught_wherever_they_are_raised() {
    let mut scripts = Scripts::new();
    for (script, reply) in [
        ("local ok, e = pcall(redis.call, 'fail') return {e}", "*1\\r\\n$10\\r\\nWRONG text\\r\\n"),
        (
            "return {redis.pcall('fail').err, redis.pcall('fail').ignore_error_stats_update}",
            "*2\\r\\n$10\\r\\nWRONG text\\r\\n:1\\r\\n",
        ),
        (
            "local ok, e = coroutine.resume(coroutine.create(function() redis.call('fail') end)) return e.err",
            "$10\\r\\nWRONG text\\r\\n",
        ),
        (
            "local ok, e = xpcall(function() redis.call('fail') end, function(e) return e.err end) return e",
            "$10\\r\\nWRONG text\\r\\n",
        ),
        (
            "local n = 0 for i = 1, 1000 do if not pcall(redis.call, 'fail') then n = n + 1 end end return n",
            ":1000\\r\\n",
        ),
        ("table.sort({1, 2}, function() return redis.call('fail') end)", ""),
    ] {
        let got = scripts.reply(script);
        match reply {
            "" => assert!(got.starts_with("-WRONG text script: "), "{got}"),
            reply => assert_eq!(got, reply, "{script}"),
        }
    }
}

#[test]
fn a_script_that_overflows_its_stack_has_a_reply() {
    let mut scripts = Scripts::new();
    for script in [
        "local function f() return 1 + f(redis.call('a')) end return f()",
        "local function f() return pcall(f, redis.call('a')) end f() return 'end'",
        "local t = {} for i = 1, 9000 do t[i] = 'x' end return redis.call(unpack(t))",
        "local function f() return coroutine.wrap(f)(redis.call('a')) end return f()",
    ] {
        let reply = scripts.reply(script);
        assert!(reply.starts_with("-ERR ") || reply == "$3\\r\\nend\\r\\n", "{script}: {reply}");
        assert_eq!(scripts.reply("return redis.call('a')"), "+OK\\r\\n");
    }
}

#[test]
fn a_value_beyond_the_memory_is_an_error_that_can_be_caught() {
    let mut scripts = Scripts::new();
    let reply = scripts.reply("return redis.call('big')");
    assert!(reply.starts_with("-ERR ") && reply.contains("not enough memory"), "{reply}");
    let caught = "local ok, e = pcall(redis.call, 'big') return {tostring(ok), e}";
    assert_eq!(scripts.reply(caught), "*2\\r\\n$5\\r\\nfalse\\r\\n$17\\r\\nnot enough memory\\r\\n");
    let (arg, full) = (vec![b'x'; MEMORY_BYTES], "return #ARGV");
    let reply = scripts.run(full, &[], &[&arg]).1;
    assert!(reply.contains("not enough memory"), "{reply}");
    assert_eq!(scripts.run(full, &[], &[&arg[..1 << 20]]).1, ":1\\r\\n");
    // Nothing of it is kept beyond the next script.
    assert_eq!(scripts.reply("return 1"), ":1\\r\\n");
    scripts.engine.collect_garbage();
    assert!(scripts.engine.memory_bytes() < 1 << 20, "{}", scripts.engine.memory_bytes());
}

#[test]
fn a_panic_of_the_host_goes_on_behind_the_script() {
    let mut scripts = Scripts::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| scripts.reply("pcall(redis.call, 'panic') return 1")));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"of the host"));
    assert_eq!(scripts.reply("return {redis.call('a'), KEYS[1]}"), "*2\\r\\n+OK\\r\\n$1\\r\\nk\\r\\n");
}

#[test]
fn no_pcall_keeps_a_script_alive_that_has_to_end() {
    let mut scripts = Scripts::new();
    for (begin, interrupt) in [("pcall(redis.call, 'restart')", Interrupt::Restarted), ("", Interrupt::Killed)] {
        let script = format!("{begin} while true do pcall(function() while true do end end) end");
        assert_eq!(scripts.run(&script, &[], &[]).0, Finished::Interrupted(interrupt));
        scripts.host.polls = 0;
        assert_eq!(scripts.reply("for i = 1, 100000 do end return redis.call('a')"), "+OK\\r\\n");
        assert!(scripts.host.polls < 100, "{}", scripts.host.polls);
    }
}

/// Scripts that only look into their tables share them; none may see what belongs to another.
#[test]
fn scripts_see_their_own_keys_and_arguments_alone() {
    let mut scripts = Scripts::new();
    let mut check = |text: &str, keys: &[&[u8]], argv: &[&[u8]], reply: &str| {
        assert_eq!(scripts.run(text, keys, argv).1, reply, "{text}");
    };
    let look = "return {#KEYS, KEYS[1] or '-', KEYS[2] or '-', #ARGV, ARGV[1] or '-'}";
    let all = "return {#KEYS, unpack(KEYS)}";
    check(look, &[b"a", b"b"], &[b"x"], "*5\\r\\n:2\\r\\n$1\\r\\na\\r\\n$1\\r\\nb\\r\\n:1\\r\\n$1\\r\\nx\\r\\n");
    check(look, &[b"c"], &[], "*5\\r\\n:1\\r\\n$1\\r\\nc\\r\\n$1\\r\\n-\\r\\n:0\\r\\n$1\\r\\n-\\r\\n");
    check("return redis.call('a')", &[b"k"], &[b"y"], "+OK\\r\\n");
    check(all, &[b"e", b"f"], &[], "*3\\r\\n:2\\r\\n$1\\r\\ne\\r\\n$1\\r\\nf\\r\\n");
    check("KEYS[2] = 'z' KEYS.x = 'y' setmetatable(ARGV, {__index = {'m'}}) return 1", &[b"g"], &[], ":1\\r\\n");
    check(look, &[], &[b"x"], "*5\\r\\n:0\\r\\n$1\\r\\n-\\r\\n$1\\r\\n-\\r\\n:1\\r\\n$1\\r\\nx\\r\\n");
    check(
        "return {KEYS.x or '-', KEYS[2] or '-', ARGV[1] or '-'}",
        &[b"h"],
        &[],
        "*3\\r\\n$1\\r\\n-\\r\\n$1\\r\\n-\\r\\n$1\\r\\n-\\r\\n",
    );
    check(all, &[], &[], "*1\\r\\n:0\\r\\n");
    let name = "ARGV";
    check(
        &format!("local n = 0 for k in pairs(_G) do if k == '{name}' then n = n + 1 end end return n"),
        &[],
        &[],
        ":1\\r\\n",
    );
    check("return loadstring('return #KEYS + #ARGV')()", &[b"a"], &[b"b", b"c"], ":3\\r\\n");
    let many: Vec<&[u8]> = vec![b"k"; 100];
    check("return #KEYS + #ARGV", &many, &[b"x"], ":101\\r\\n");
    check("return #KEYS + #ARGV", &many[..1], &[], ":1\\r\\n");
    check("return KEYS[100] or KEYS[2] or #KEYS", &[b"x"], &[], ":1\\r\\n");
}

#[test]
fn no_script_assigns_a_global() {
    let mut scripts = Scripts::new();
    for code in [
        "x = 1",
        "redis = 1",
        "KEYS = {}",
        "function f() end",
        "pcall(function() x = 1 end) x = 2",
        "_G.x = 1",
        "loadstring('x = 1')()",
        "local f = loadstring('return function() redis = 1 end')() f()",
        "redis.x = 1",
        "redis.call = 1",
    ] {
        let reply = scripts.reply(code);
        assert!(reply.contains("Attempt to modify a readonly table"), "{code}: {reply}");
        assert_eq!(scripts.reply("return redis.call('a', KEYS[1])"), "+OK\\r\\n");
        let missing = scripts.reply("return x");
        assert!(
            missing.contains("user_script:1: Script attempted to access nonexistent global variable \\'x\\'"),
            "{missing}"
        );
    }
}
