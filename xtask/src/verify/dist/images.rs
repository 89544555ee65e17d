//! One image: unpacked by umoci, and run from a file system that is read only. By crun, where it may make namespaces; otherwise in a
//! chroot, as the image's user, and it says so.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getuid},
};
use serde_json::{Value, json};

use matrix::workspace::run_shown;

use super::is_installed;

/// Limit of an image.
const BYTES_MAX: u64 = 10 << 20;
/// Servers that need nothing but their image.
const HEALTHY: [&str; 3] = ["http-server", "kvcache", "zerocopy"];
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn prove(program: &str, archive: &Path) -> Result<()> {
    let bytes = fs::metadata(archive).with_context(|| archive.display().to_string())?.len();
    ensure!(bytes <= BYTES_MAX, "{bytes} bytes are more than {BYTES_MAX}");
    let directory = tempfile::tempdir().context("temporary directory")?;
    let (layout, bundle) = (directory.path().join("layout"), directory.path().join("bundle"));
    fs::create_dir(&layout)?;
    run_shown(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&layout))?;
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    let mut unpack = Command::new("umoci");
    unpack.args(["unpack", "--image", &image]);
    if !getuid().is_root() {
        unpack.arg("--rootless");
    }
    run_shown(unpack.arg(&bundle).stdout(Stdio::null()))?;
    match run_contained(program, &bundle) {
        Ok(()) => println!("{program}: {bytes} bytes; run by crun, its file system read only"),
        Err(error) if getuid().is_root() => {
            println!("{program}: {bytes} bytes; run in a chroot, not by crun: {error:#}");
            run_in_chroot(program, &bundle.join("rootfs"))?;
        }
        Err(error) => println!("{program}: {bytes} bytes; not run: {error:#}; a chroot needs root"),
    }
    Ok(())
}

/// Runs the program as the image says, as a container.
fn run_contained(program: &str, bundle: &Path) -> Result<()> {
    ensure!(is_installed("crun"), "crun is not installed");
    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path)?).context("config.json")?;
    ensure!(config["process"]["user"]["uid"] == 65532, "it would not run as its user");
    config["process"]["args"] = json!([format!("/usr/bin/{program}"), "--version"]);
    config["process"]["terminal"] = json!(false);
    config["root"]["readonly"] = json!(true);
    fs::write(&path, serde_json::to_vec(&config)?)?;
    let name = format!("quintet-{program}-{}", std::process::id());
    let run = Command::new("crun").args(["run", "--bundle"]).arg(bundle).arg(&name).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    if !run.status.success() {
        bail!("{}", String::from_utf8_lossy(&run.stderr).trim());
    }
    ensure!(said.trim() == format!("{program} {}", env!("CARGO_PKG_VERSION")), "it said: {said}");
    Ok(())
}

/// Runs the program in its file system alone, as its user. A server has to say that it is healthy.
fn run_in_chroot(program: &str, rootfs: &Path) -> Result<()> {
    let command = |args: &[&str]| {
        let mut command = Command::new("chroot");
        command.args(["--userspec=65532:65532", "--groups="]).arg(rootfs).arg(format!("/usr/bin/{program}")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    run_shown(&mut command(&["--version"]))?;
    if !HEALTHY.contains(&program) {
        return Ok(());
    }
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut server = command(&["--listen", "127.0.0.1:0", "--metrics", &metrics]).spawn().context("chroot")?;
    let checked = wait_until_healthy(&mut server, || {
        command(&["--check-health", "--metrics", &metrics]).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
    });
    kill(Pid::from_raw(i32::try_from(server.id())?), Signal::SIGTERM)?;
    let status = server.wait()?;
    checked?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn wait_until_healthy(server: &mut Child, is_healthy: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_healthy() {
        ensure!(server.try_wait()?.is_none() && began.elapsed() < PATIENCE, "it is not healthy");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
