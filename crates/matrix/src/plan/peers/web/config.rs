//! Configuration files of web servers, each as somebody writes it who wants that server fast, for one core.

use super::BROTLI_MODULE;
use crate::{
    plan::peers::OPEN_FILES,
    run::site::{
        tls::{CIPHER, GROUP, NAME},
        web::{Coding, TEXTS},
    },
};

/// Place at which a peer serves, and what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) ip: &'a str,
    pub(super) port: &'a str,
    pub(super) site: &'a str,
    pub(super) scratch: &'a str,
    /// Directory of nginx's modules.
    pub(super) modules: &'a str,
    /// Coding in which texts lie beside themselves, if they are asked for.
    pub(super) coding: Option<Coding>,
    /// Files of TLS, if it is spoken.
    pub(super) tls: Option<Pair<'a>>,
    pub(super) has_http2: bool,
}

/// A certificate and its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) certificate: &'a str,
    pub(super) key: &'a str,
}

/// Media types of the files.
const TYPES: [(&str, &str); 10] = [
    ("txt", "text/plain"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
];

/// `master_process off`: one process, whose CPU time is the server's.
pub(super) fn nginx(place: &Place<'_>, sendfile: bool) -> String {
    let Place { ip, port, site, scratch, modules, coding, tls, has_http2 } = *place;
    let (load, serve) = match coding {
        None => (String::new(), ""),
        Some(Coding::Gzip) => (String::new(), "  gzip_static on;\n  gzip_vary on;\n"),
        Some(Coding::Brotli) => (
            format!("load_module \"{modules}/{BROTLI_MODULE}\";\n"),
            "  gzip_static on;\n  gzip_vary on;\n  brotli_static on;\n  open_file_cache_errors on;\n",
        ),
    };
    let types: String = TYPES.iter().map(|(extension, name)| format!(" {name} {extension};")).collect();
    let sendfile = if sendfile { "on" } else { "off" };
    let secure = tls.map_or_else(String::new, |Pair { certificate, key }| {
        format!(
            "  ssl_certificate \"{certificate}\";
  ssl_certificate_key \"{key}\";
  ssl_protocols TLSv1.3;
  ssl_conf_command Ciphersuites {CIPHER};
  ssl_ecdh_curve {GROUP};
  ssl_session_tickets on;
"
        )
    });
    let protocol = format!("{}{}", if tls.is_some() { " ssl" } else { "" }, if has_http2 { " http2" } else { "" });
    format!(
        "{load}daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile {OPEN_FILES};
pid \"{scratch}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections {OPEN_FILES}; use epoll; multi_accept on; }}
http {{
  access_log off;
  sendfile {sendfile};
  tcp_nopush {sendfile};
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  open_file_cache max=1000 inactive=600s;
  open_file_cache_valid 600s;
{serve}{secure}  client_body_temp_path \"{scratch}/nginx-body\";
  proxy_temp_path \"{scratch}/nginx-proxy\";
  fastcgi_temp_path \"{scratch}/nginx-fastcgi\";
  uwsgi_temp_path \"{scratch}/nginx-uwsgi\";
  scgi_temp_path \"{scratch}/nginx-scgi\";
  types {{{types} }}
  server {{ listen {ip}:{port}{protocol} backlog=4096; root \"{site}\"; }}
}}
"
    )
}

/// It has no setting for compressed files beside the texts: a rule finds them.
pub(super) fn lighttpd(place: &Place<'_>) -> String {
    let Place { ip, port, site, coding, .. } = *place;
    let types = TYPES.iter().map(|(extension, name)| format!("\".{extension}\" => \"{name}\""));
    let coded = coding.into_iter().flat_map(|coding| {
        let extension = coding.extension();
        TYPES.iter().map(move |(of, name)| format!("\".{of}.{extension}\" => \"{name}\""))
    });
    let types: Vec<String> = types.chain(coded).collect();
    let rule = coding.map_or_else(String::new, |coding| {
        let (extension, texts) = (coding.extension(), TEXTS.join("|"));
        let named = match coding {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        };
        format!(
            "server.modules = ( \"mod_rewrite\", \"mod_setenv\" )
$REQUEST_HEADER[\"Accept-Encoding\"] =~ \"\\b{named}\\b\" {{
  $HTTP[\"url\"] =~ \"\\.(?:{texts})(?:\\.{extension})?$\" {{
    url.rewrite-once = ( \"^([^?]*)\" => \"$1.{extension}\" )
    setenv.set-response-header = ( \"Content-Encoding\" => \"{named}\", \"Vary\" => \"Accept-Encoding\" )
  }}
}}
"
        )
    });
    format!(
        "server.bind = \"{ip}\"
server.port = {port}
server.document-root = \"{site}\"
server.max-fds = {OPEN_FILES}
server.max-connections = {}
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 600
server.listen-backlog = 4096
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
mimetype.assign = ( {} )
{rule}",
        OPEN_FILES / 2,
        types.join(", "),
    )
}

/// It takes another user's rights, who cannot write into the scratch directory. It has no settings for suites and groups of TLS
/// 1.3, and speaks HTTP/2 wherever a client begins with it. Sessions are in its memory: with tickets that hold all of them every
/// third handshake is a full one.
pub(super) fn h2o(place: &Place<'_>) -> String {
    let Place { ip, port, site, coding, tls, .. } = *place;
    let serve = coding.map_or("", |_| "file.send-compressed: ON\n");
    let (tickets, secure) = tls.map_or_else(Default::default, |Pair { certificate, key }| {
        let secure = format!(
            "  ssl:
    certificate-file: \"{certificate}\"
    key-file: \"{key}\"
    minimum-version: TLSv1.3
    ocsp-update-interval: 0
"
        );
        ("ssl-session-resumption:\n  mode: cache\n", secure)
    });
    format!(
        "num-threads: 1
num-name-resolution-threads: 1
max-connections: {OPEN_FILES}
http1-request-timeout: 600
{serve}{tickets}listen:
  host: {ip}
  port: {port}
{secure}hosts:
  default:
    paths:
      \"/\":
        file.dir: \"{site}\"
"
    )
}

/// Without administration and certificates of its own it is its file server alone. Go chooses suites of TLS 1.3 itself. In its own language it cannot be told to keep no
/// copy of its configuration.
pub(super) fn caddy(place: &Place<'_>) -> String {
    let Place { ip, port, site, scratch, coding, tls, has_http2, .. } = *place;
    let protocol = match (tls.is_some(), has_http2) {
        (_, false) => "h1",
        (true, true) => "h2",
        (false, true) => "h2c",
    };
    // HTTP/2 is nothing that it does alone.
    let protocols = if has_http2 { format!("\"h1\", \"{protocol}\"") } else { "\"h1\"".to_owned() };
    let policies = tls.map_or_else(String::new, |_| {
        format!(
            "    \"tls_connection_policies\": [{{ \"protocol_min\": \"tls1.3\", \"curves\": [\"{}\"], \"default_sni\": \"{NAME}\" }}],\n",
            GROUP.to_lowercase()
        )
    });
    let pair = tls.map_or_else(String::new, |Pair { certificate, key }| {
        format!(
            ", \"tls\": {{ \"certificates\": {{ \"load_files\": [{{ \"certificate\": \"{certificate}\", \"key\": \"{key}\" }}] }} }}"
        )
    });
    let serve = match coding {
        None => "",
        Some(Coding::Brotli) => {
            "      \"precompressed\": { \"br\": {}, \"gzip\": {} }, \"precompressed_order\": [\"br\", \"gzip\"],\n"
        }
        Some(Coding::Gzip) => "      \"precompressed\": { \"gzip\": {} },\n",
    };
    format!(
        "{{
  \"admin\": {{ \"disabled\": true, \"config\": {{ \"persist\": false }} }},
  \"storage\": {{ \"module\": \"file_system\", \"root\": \"{scratch}/caddy\" }},
  \"logging\": {{ \"logs\": {{ \"default\": {{ \"level\": \"ERROR\" }} }} }},
  \"apps\": {{ \"http\": {{ \"servers\": {{ \"site\": {{
    \"listen\": [\"{ip}:{port}\"], \"protocols\": [{protocols}], \"idle_timeout\": \"10m\", \"automatic_https\": {{ \"disable\": true }},
{policies}    \"routes\": [{{ \"handle\": [{{
{serve}      \"handler\": \"file_server\", \"root\": \"{site}\"
    }}] }}]
  }} }} }}{pair} }}
}}
"
    )
}
