//! Requests of memcached's text protocol that its operators and tools make.

use testkit::Client;

use crate::common::{Kv, exchange, on_every_driver};

#[test]
fn operators_of_memcached_find_their_commands() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name(), "--shards", "1"])?;
        let (mut client, mut resp) = (Client::connect(kv.memcached())?, Client::connect(kv.resp())?);
        exchange(&mut client, b"set k 0 0 5\r\nvalue\r\n", b"STORED\r\n")?;
        exchange(&mut resp, b"HSET h f v\r\nSELECT 1\r\nSET other 1\r\n", b":1\r\n+OK\r\n+OK\r\n")?;
        exchange(&mut client, b"stats cachedump 1 0\r\n", b"ITEM k [5 b; 0 s]\r\nEND\r\n")?;
        exchange(
            &mut client,
            b"stats cachedump 2 0\r\nstats cachedump 64 0\r\n",
            b"END\r\nCLIENT_ERROR Illegal slab id\r\n",
        )?;
        exchange(&mut client, b"stats cachedump 1\r\n", b"CLIENT_ERROR bad command line\r\n")?;
        exchange(&mut client, b"stats cachedump 1 x\r\n", b"CLIENT_ERROR bad command line format\r\n")?;
        exchange(&mut client, b"set t 0 4000000000 1\r\nx\r\n", b"STORED\r\n")?;
        exchange(&mut client, b"delete k\r\nslabs automove 1\r\n", b"DELETED\r\nOK\r\n")?;
        exchange(&mut client, b"cache_memlimit 64\r\n", b"OK\r\n")?;
        exchange(&mut resp, b"CONFIG GET maxmemory\r\n", b"*2\r\n$9\r\nmaxmemory\r\n$8\r\n67108864\r\n")?;
        let small = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
        exchange(&mut client, b"cache_memlimit 7\r\n", small)?;
        exchange(&mut client, b"cache_memlimit 100 noreply\r\nmn\r\n", b"MN\r\n")?;
        exchange(&mut resp, b"CONFIG GET maxmemory\r\n", b"*2\r\n$9\r\nmaxmemory\r\n$9\r\n104857600\r\n")?;
        drop((client, resp));
        kv.stop()
    });
}

/// libmemcached writes -1 as 4294967295.
#[test]
fn a_time_beyond_31_bits_has_passed_on_every_driver() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name()])?;
        let mut client = Client::connect(kv.memcached())?;
        for time in ["4294967295", "2147483648", "-1"] {
            let set = format!("set k 0 {time} 1\r\nx\r\nget k\r\n");
            exchange(&mut client, set.as_bytes(), b"STORED\r\nEND\r\n")?;
            let touch = format!("set k 0 0 1\r\nx\r\ntouch k {time}\r\nget k\r\n");
            exchange(&mut client, touch.as_bytes(), b"STORED\r\nTOUCHED\r\nEND\r\n")?;
            let meta = format!("ms k 1 T{time}\r\nx\r\nmg k v\r\n");
            exchange(&mut client, meta.as_bytes(), b"HD\r\nEN\r\n")?;
        }
        exchange(&mut client, b"set k 0 2147483647 1\r\nx\r\nget k\r\n", b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n")?;
        drop(client);
        kv.stop()
    });
}

/// A get of two hundred thousand keys, in one line of 2.2 MB.
#[test]
fn a_line_of_more_than_a_mebibyte_is_answered() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name()])?;
        let mut client = Client::connect(kv.memcached())?;
        exchange(&mut client, b"set last 0 0 1\r\nx\r\n", b"STORED\r\n")?;
        let line = [b"get".as_slice(), &b" 0123456789".repeat(200_000), b" last\r\n"].concat();
        exchange(&mut client, &line, b"VALUE last 0 1\r\nx\r\nEND\r\n")?;
        drop(client);
        kv.stop()
    });
}
