//! Images of containers (OCI image layout), one for each program, made without a container engine: the program, which is linked
//! statically, a user, and nothing else. The same input makes the same bytes.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use matrix::workspace::root;

/// User and group of the program: a number, so that Kubernetes can see that it is not root.
const USER: u64 = 65532;
/// Port of the metrics, which the health check asks.
const METRICS_PORT: u16 = 9100;

/// Properties that all images share.
pub(super) struct Images<'a> {
    /// Directory of the programs, stripped.
    pub(super) programs: &'a Path,
    pub(super) version: &'a str,
    /// Architecture as rustc names it.
    pub(super) architecture: &'a str,
    pub(super) epoch: u64,
}

/// Files of an image layout, by their names in its directory.
type Layout = BTreeMap<String, Vec<u8>>;

impl Images<'_> {
    /// Makes the image of a program: an archive of its layout.
    pub(super) fn image(&self, program: &str) -> Result<(String, Vec<u8>)> {
        let layer = self.layer(program)?;
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
        std::io::Write::write_all(&mut gzip, &layer)?;
        let mut layout = Layout::new();
        let layer_blob = add_blob(&mut layout, "application/vnd.oci.image.layer.v1.tar+gzip", gzip.finish()?);
        let config = self.config(program, &digest(&layer))?;
        let config = add_blob(&mut layout, "application/vnd.oci.image.config.v1+json", serde_json::to_vec(&config)?);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layer_blob],
        });
        let mut manifest =
            add_blob(&mut layout, "application/vnd.oci.image.manifest.v1+json", serde_json::to_vec(&manifest)?);
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": self.version });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest],
        });
        layout.insert("index.json".to_owned(), serde_json::to_vec(&index)?);
        layout.insert("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
        let name = format!("quintet-{program}-{}-{}.oci.tar", self.version, architecture(self.architecture));
        let files: Vec<_> = layout.into_iter().map(|(path, bytes)| File::new(path, bytes, 0o644)).collect();
        Ok((name, self.pack(&files)?))
    }

    /// Returns the file system: the program, the name of its user, and a directory for it to write to, which a volume may cover.
    fn layer(&self, program: &str) -> Result<Vec<u8>> {
        let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
        let passwd = format!("root:x:0:0:root:/:/\nquintet:x:{USER}:{USER}:quintet:/:/\n");
        let group = format!("root:x:0:\nquintet:x:{USER}:\n");
        let mut files = vec![
            File::new("etc/group", group.into_bytes(), 0o644),
            File::new("etc/passwd", passwd.into_bytes(), 0o644),
            File::new(format!("usr/bin/{program}"), read(&self.programs.join(program))?, 0o755),
        ];
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            files.push(File::new(format!("usr/share/doc/quintet/{licence}"), read(&root().join(licence))?, 0o644));
        }
        files.push(File { path: "var/lib/quintet/".to_owned(), bytes: Vec::new(), mode: 0o750, owner: USER });
        self.pack(&files)
    }

    fn config(&self, program: &str, diff: &str) -> Result<Value> {
        let created = rfc3339(self.epoch);
        let port = port_of(program);
        let variable = |flag: &str| format!("{}_{flag}", program.to_uppercase().replace('-', "_"));
        let listen = port.map(|port| format!("{}=0.0.0.0:{port}", variable("LISTEN")));
        // loadgen serves nothing.
        let is_server = program != "loadgen";
        let metrics = is_server.then(|| format!("{}=0.0.0.0:{METRICS_PORT}", variable("METRICS")));
        let ports = port.into_iter().chain(is_server.then_some(METRICS_PORT));
        let ports: BTreeMap<_, _> = ports.map(|port| (format!("{port}/tcp"), json!({}))).collect();
        let path = format!("/usr/bin/{program}");
        let mut config = json!({
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [path],
            "WorkingDir": "/var/lib/quintet",
            "Env": listen.into_iter().chain(metrics).collect::<Vec<_>>(),
            "ExposedPorts": ports,
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": format!("quintet-{program}"),
                "org.opencontainers.image.version": self.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        });
        if is_server {
            // Docker's and Podman's, in nanoseconds; the specification reserves the name.
            config["Healthcheck"] = json!({
                "Test": ["CMD", path, "--check-health"],
                "Interval": 10_000_000_000_u64,
                "Timeout": 5_000_000_000_u64,
                "StartPeriod": 5_000_000_000_u64,
                "Retries": 3,
            });
        }
        Ok(json!({
            "created": created,
            "architecture": architecture(self.architecture),
            "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
            "history": [{ "created": created, "created_by": "cargo xtask dist" }],
        }))
    }

    /// Packs files and the directories that they are in.
    fn pack(&self, files: &[File]) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut add = |path: &str, bytes: &[u8], mode, owner, kind| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(bytes.len() as u64);
            header.set_mode(mode);
            header.set_mtime(self.epoch);
            header.set_uid(owner);
            header.set_gid(owner);
            archive.append_data(&mut header, path, bytes)
        };
        let mut directories = std::collections::BTreeSet::new();
        for file in files {
            let parents: Vec<_> = Path::new(&file.path).ancestors().skip(1).collect();
            for parent in parents.into_iter().rev().filter(|parent| parent.parent().is_some()) {
                if directories.insert(parent.to_owned()) {
                    add(&format!("{}/", parent.display()), b"", 0o755, 0, tar::EntryType::Directory)?;
                }
            }
            let is_directory = file.path.ends_with('/');
            let kind = if is_directory { tar::EntryType::Directory } else { tar::EntryType::Regular };
            add(&file.path, &file.bytes, file.mode, file.owner, kind)?;
        }
        Ok(archive.into_inner()?)
    }
}

struct File {
    path: String,
    bytes: Vec<u8>,
    mode: u32,
    owner: u64,
}

impl File {
    fn new(path: impl Into<String>, bytes: Vec<u8>, mode: u32) -> Self {
        Self { path: path.into(), bytes, mode, owner: 0 }
    }
}

/// Adds a blob. Returns its descriptor.
fn add_blob(layout: &mut Layout, media_type: &str, bytes: Vec<u8>) -> Value {
    let (digest, size) = (digest(&bytes), bytes.len());
    layout.insert(format!("blobs/sha256/{digest}"), bytes);
    json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Port that a server listens at in its image.
fn port_of(program: &str) -> Option<u16> {
    match program {
        "http-server" => Some(8080),
        "zerocopy" => Some(8081),
        "fileserver" => Some(7070),
        "kvcache" => Some(6379),
        _ => None,
    }
}

/// Returns the architecture as Go, and so the specification, names it.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns a time in UTC as RFC 3339 has it, from the days of the civil calendar.
fn rfc3339(epoch: u64) -> String {
    let (days, seconds) = (epoch / 86_400, epoch % 86_400);
    let (mut year, mut left) = (1970, days);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |year: u64| if is_leap(year) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(programs: &Path) -> Vec<(String, Vec<u8>)> {
        for program in servers::programs() {
            fs::write(programs.join(program), format!("the program {program}")).unwrap();
        }
        let images = Images { programs, version: "1.2", architecture: "x86_64", epoch: 1_700_000_000 };
        servers::programs().into_iter().map(|program| images.image(program).unwrap()).collect()
    }

    fn unpack(archive: &[u8]) -> Layout {
        let mut files = Layout::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            files.insert(entry.path().unwrap().to_str().unwrap().to_owned(), bytes);
        }
        files
    }

    #[test]
    fn the_same_input_makes_the_same_images() {
        let [first, second] = [0, 1].map(|_| tempfile::tempdir().unwrap());
        assert!(images(first.path()) == images(second.path()));
    }

    /// Every digest and size is that of what it leads to, from the index to the program.
    #[test]
    fn an_image_is_whole_and_runs_its_program_as_nobody_special() {
        let directory = tempfile::tempdir().unwrap();
        for ((name, archive), program) in images(directory.path()).into_iter().zip(servers::programs()) {
            assert_eq!(name, format!("quintet-{program}-1.2-amd64.oci.tar"));
            let layout = unpack(&archive);
            let blob = |descriptor: &Value| {
                let expected = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
                let bytes = &layout[&format!("blobs/sha256/{expected}")];
                assert_eq!((&*digest(bytes), Some(bytes.len() as u64)), (expected, descriptor["size"].as_u64()));
                bytes.clone()
            };
            let index: Value = serde_json::from_slice(&layout["index.json"]).unwrap();
            let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
            let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
            let mut layer = Vec::new();
            let compressed = blob(&manifest["layers"][0]);
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&compressed[..]), &mut layer).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", digest(&layer)));
            assert_eq!(unpack(&layer)[&format!("usr/bin/{program}")], format!("the program {program}").as_bytes());
            assert_eq!(
                (&config["config"]["User"], &config["created"]),
                (&json!("65532:65532"), &json!("2023-11-14T22:13:20Z"))
            );
            assert_eq!(config["config"]["Healthcheck"].is_object(), program != "loadgen");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let times =
            [(0, "1970-01-01T00:00:00Z"), (951_782_399, "2000-02-28T23:59:59Z"), (951_782_400, "2000-02-29T00:00:00Z")];
        for (epoch, text) in times.into_iter().chain([(1_798_761_599, "2026-12-31T23:59:59Z")]) {
            assert_eq!(rfc3339(epoch), text);
        }
    }
}
