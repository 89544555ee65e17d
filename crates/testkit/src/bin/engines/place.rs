//! Loopback addresses, directories and processes of one set-up.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{Client, Server, eventually};

/// Servers of one set-up, on addresses that nobody else on the machine uses, as the configurations name ports.
pub(crate) struct Place {
    program: PathBuf,
    /// First three numbers of the addresses.
    network: String,
    pub(crate) directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(programs: &Path, server: &str, number: usize) -> anyhow::Result<Self> {
        let [_, low] = (std::process::id() as u16).to_be_bytes();
        // Even, where tests of the same kind have odd numbers.
        let network = format!("127.{}.{}", 128 | number, low & !1);
        Ok(Self { program: programs.join(server), network, directory: tempfile::tempdir()? })
    }

    /// Starts one of the servers: number 1 has the address that the configurations call 10.0.0.1.
    pub(crate) fn start(&self, number: usize, port: u16, args: &[&str]) -> anyhow::Result<Server> {
        let mut command = Command::new(&self.program);
        command.args(["--listen", &format!("{}.{number}:{port}", self.network), "--threads", "2"]).args(args);
        Server::start_command(command, 1)
    }
}

/// Proxy that is to be started with a configuration.
pub(crate) struct Proxy {
    command: Command,
    /// Addresses that it will listen on.
    addresses: Vec<Address>,
}

/// Proxy that runs; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningProxy {
    child: Child,
    address: Address,
}

impl Proxy {
    /// Copies a configuration, with the addresses of the place.
    pub(crate) fn new(place: &Place, program: &Path, configuration: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(configuration).with_context(|| configuration.display().to_string())?;
        let own = format!("{}.100", place.network);
        let text = text.replace("10.0.0.", &format!("{}.", place.network)).replace("127.0.0.1", &own);
        // Its log is in a directory of the system.
        let text = text.replace("http {", "http {\n    access_log off;");
        let directory = place.directory.path();
        let file = directory.join(configuration.file_name().context("a file")?);
        fs::write(&file, &text)?;
        let mut command = Command::new(program);
        match program.file_name().and_then(|name| name.to_str()) {
            Some("nutcracker") => command.arg("-c").arg(&file).args(["-a", &own, "-o"]).arg(directory.join("log")),
            Some("haproxy") => command.args(["-db", "-f"]).arg(&file),
            Some("nginx") => {
                let global = format!("daemon off; pid {}/pid;", directory.display());
                command.args(["-g", &global, "-e", "stderr", "-c"]).arg(&file)
            }
            _ => command.args(["--use-dynamic-base-id", "--concurrency", "1", "-l", "error", "-c"]).arg(&file),
        };
        Ok(Self { command, addresses: listening(&text, &own) })
    }

    /// True if it will listen on more than one address.
    pub(crate) fn has_several(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Starts it, and waits until it listens at the address of this number.
    pub(crate) fn start(mut self, number: usize) -> anyhow::Result<RunningProxy> {
        let address = self.addresses.get(number).context("the configuration has no such address")?.clone();
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.command.spawn().with_context(|| format!("{:?}", self.command))?;
        let mut proxy = RunningProxy { child, address };
        eventually("the proxy listens", || {
            ensure!(proxy.child.try_wait()?.is_none(), "{:?} has ended", self.command);
            Ok(proxy.connect().is_ok())
        })?;
        Ok(proxy)
    }
}

/// Returns the addresses with a port that a configuration has for the proxy itself, in their order.
fn listening(text: &str, own: &str) -> Vec<Address> {
    let behind =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(|line| line.split_once(own));
    let port = |behind: &str| {
        behind.split(|letter: char| !letter.is_ascii_digit()).find(|word| !word.is_empty()).map(str::to_owned)
    };
    behind.filter_map(|(_, behind)| format!("{own}:{}", port(behind)?).parse().ok()).collect()
}

impl RunningProxy {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(&self.address).with_context(|| self.address.to_string())
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        // SIGTERM, since nginx's workers outlive a master that is killed. It may have ended by itself.
        let _ = testkit::Process::new(self.child.id()).terminate();
        let _ = self.child.wait();
    }
}
