//! The top of a page of several servers: one claim about each, one picture, and how far to trust the run.

use maud::{Markup, html};

use super::{
    first_picture,
    header::{self, RUN_ID},
};
use crate::{claims, markup::joined, matrix_view::MatrixView};

/// `http-server, kvcache and fileserver`.
pub(super) fn title(views: &[MatrixView<'_>]) -> String {
    let mut servers: Vec<&str> = Vec::new();
    for view in views {
        let server = view.summary.setup.server.as_str();
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    header::listed(&servers)
}

pub(super) fn html(views: &[MatrixView<'_>]) -> Markup {
    let links: Vec<(String, &str)> =
        views.iter().map(|view| (view.id("top"), view.summary.setup.server.as_str())).collect();
    html! {
        header.run id=(RUN_ID) {
            (header::stamps(views))
            h1 { (title(views)) }
            ul.headlines {
                @for (view, (id, server)) in views.iter().zip(&links) {
                    li { a href={ "#" (id) } { (server) } " " (claims::headline(view).html()) } "\n"
                }
            }
            (first_picture::of_servers(views))
            (header::trust(views, true))
            nav aria-label="servers" { (header::links_html(&links)) " " (header::theme()) }
            p.small { (run(views)) }
        }
        "\n"
    }
}

/// Time and command; one of a merged page may have another.
fn run(views: &[MatrixView<'_>]) -> Markup {
    let setups = || views.iter().map(|view| &view.summary.setup);
    let begun = setups().map(|setup| setup.created_utc.as_str()).min().unwrap_or_default();
    let mut commands: Vec<&str> = Vec::new();
    for setup in setups() {
        if !commands.contains(&setup.command.as_str()) {
            commands.push(&setup.command);
        }
    }
    let commands: Vec<Markup> = commands.iter().map(|command| html! { span.mono { (command) } }).collect();
    html! { (begun.replace('T', " ").replace('Z', " UTC")) ", " (joined(&commands, ", ")) }
}
