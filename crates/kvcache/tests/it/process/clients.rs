//! Limits of each client, and proxies that speak for clients.

use anyhow::ensure;
use testkit::eventually;

use crate::common::{on_every_driver, start};

const PROXIED: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";

#[test]
fn client_list_has_the_client_that_a_proxy_names() {
    on_every_driver(|driver| {
        let mut server = start(&["--threads", "1", "--driver", driver.name(), "--proxy-protocol", "127.0.0.1"])?;
        let request = [PROXIED, b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"].concat();
        for at in [0, 1, PROXIED.len() - 1, PROXIED.len(), PROXIED.len() + 5] {
            let mut client = server.connect()?;
            client.send(&request[..at])?;
            client.send(&request[at..])?;
            let mut said = client.take(1)?;
            while !said.ends_with(b"\r\n") || said.iter().filter(|&&byte| byte == b'\n').count() < 2 {
                said.extend(client.take(1)?);
            }
            let said = String::from_utf8_lossy(&said).into_owned();
            ensure!(said.contains("addr=192.0.2.1:56324 laddr=198.51.100.1:443 "), "torn at {at}: {said}");
        }
        ensure!(server.stop()?.success());
        Ok(())
    });
}

#[test]
fn one_client_has_so_many_connections() {
    on_every_driver(|driver| {
        let mut server = start(&["--threads", "1", "--driver", driver.name(), "--max-connections-per-client", "2"])?;
        let mut open = [server.connect()?, server.connect()?];
        for client in &mut open {
            client.send(b"*1\r\n$4\r\nPING\r\n")?;
            client.expect(b"+PONG\r\n")?;
        }
        let refused = server.connect()?.read_to_end().unwrap_or_default();
        ensure!(refused.is_empty() || refused.starts_with(b"-ERR max number of clients"), "{}", refused.escape_ascii());
        eventually("the log says why", || Ok(server.stderr().contains("127.0.0.1 has 2 open")))?;
        ensure!(server.stop()?.success());
        Ok(())
    });
}
