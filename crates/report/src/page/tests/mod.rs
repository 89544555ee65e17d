//! Laws of the report: well-formed, self-contained, complete, honest about what is missing.

use std::collections::BTreeSet;

use results::{CellResult, Figures, Flag, FlagCount, Interval, Outcome, Report, Role, SCHEMA, Summary, Workload};
use roxmltree::{Document, Node, ParsingOptions};

use crate::sample;

/// A page of one matrix.
fn render(summary: &Summary) -> String {
    page(vec![summary.clone()])
}

fn page(matrices: Vec<Summary>) -> String {
    crate::render(&Report { schema: SCHEMA.to_owned(), matrices })
}

fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options).expect("the report is well-formed XML")
}

fn elements<'a, 'b>(document: &'a Document<'b>, name: &'a str) -> impl Iterator<Item = Node<'a, 'b>> {
    document.descendants().filter(move |n| n.has_tag_name(name))
}

fn by_id<'a, 'b>(document: &'a Document<'b>, id: &str) -> Option<Node<'a, 'b>> {
    document.descendants().find(|n| n.attribute("id") == Some(id))
}

fn all_text(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|n| n.text().filter(|_| n.is_text())).collect()
}

fn has_class(node: Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|list| list.split(' ').any(|c| c == class))
}

fn figures_mut(summary: &mut Summary, index: usize) -> &mut Figures {
    match &mut summary.results[index].outcome {
        Outcome::Measured(figures) => figures,
        Outcome::NotRun { reason } => panic!("not run: {reason}"),
    }
}

#[test]
fn the_report_is_well_formed_and_its_links_are_sound() {
    let two = page(vec![sample::summary(), sample::cache()]);
    let single = [sample::summary(), sample::quick(), sample::crowded(), sample::cache(), sample::crossed()];
    for html in single.iter().map(render).chain([two]) {
        let document = parse(&html);
        let ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "an id occurs twice");
        for link in document.descendants().filter_map(|n| n.attribute("href")) {
            // All others stay inside the page.
            match link.strip_prefix("visits.html#") {
                Some(visit) => assert!(visit.len() == 12 && visit.bytes().all(|it| it.is_ascii_hexdigit()), "{link}"),
                None => assert!(link.strip_prefix('#').is_some_and(|id| unique.contains(id)), "{link} leads nowhere"),
            }
        }
        for svg in elements(&document, "svg").filter(|n| n.has_attribute("role")) {
            for id in svg.attribute("aria-labelledby").expect("labelled").split(' ') {
                assert!(unique.contains(id), "{id} is missing");
            }
        }
        // What the script takes for granted.
        for id in ["theme", "tip", "data", "raw", "filterbar", "filter", "fcount", "dl"] {
            assert!(unique.contains(id), "{id} is missing");
        }
    }
}

#[test]
fn every_figure_leads_to_the_visits_that_it_comes_from() {
    let summary = sample::summary();
    let html = render(&summary);
    let document = parse(&html);
    let measured = summary.results.iter().filter_map(|result| match &result.outcome {
        Outcome::Measured(figures) => Some(figures),
        Outcome::NotRun { .. } => None,
    });
    let expected: BTreeSet<String> = measured
        .flat_map(|figures| &figures.per_block)
        .map(|block| block.source.clone().expect("traced").sha256)
        .collect();
    let table = by_id(&document, "raw").expect("the table");
    let links = table.descendants().filter_map(|node| node.attribute("href")?.strip_prefix("visits.html#"));
    let links: BTreeSet<&str> = links.collect();
    assert_eq!(links.len(), expected.len());
    assert!(expected.iter().all(|sha256| links.contains(&sha256[..12])));
    // Those that colour the matrix lead to the row first.
    let cells = document.descendants().filter(|node| node.attribute("class") == Some("cell"));
    assert!(cells.clone().count() > 0 && cells.filter_map(|it| it.attribute("href")).all(|it| it.starts_with("#raw-")));
}

#[test]
fn the_table_has_every_cell_under_every_workload() {
    let summary = sample::summary();
    let html = render(&summary);
    let document = parse(&html);
    for (row, cell) in summary.setup.cells.iter().enumerate() {
        for (column, workload) in summary.setup.workloads.iter().enumerate() {
            let line = by_id(&document, &format!("raw-s{row}-{column}")).expect("a row per cell and workload");
            let text = all_text(line);
            assert!(text.contains(&cell.label) && text.contains(&workload.name), "{text}");
        }
    }
    let rows = elements(&document, "tr").count();
    assert_eq!(rows, 1 + summary.results.len());
}

#[test]
fn the_table_prints_medians_with_their_intervals() {
    let mut summary = sample::summary();
    figures_mut(&mut summary, 0).cpu_us = Some(Interval { median: 4.321, lo: 4.211, hi: 4.431 });
    figures_mut(&mut summary, 0).throughput_rps = Interval { median: 231_427.0, lo: 230_100.0, hi: 232_900.0 };
    let html = render(&summary);
    let document = parse(&html);
    let text = all_text(by_id(&document, "raw-s0-0").unwrap());
    assert!(text.contains("4.32 [4.21, 4.43]"), "{text}");
    assert!(text.contains("231,427 [230,100, 232,900]"), "{text}");
}

#[test]
fn what_is_not_a_number_is_never_drawn() {
    let mut summary = sample::summary();
    let broken = Interval { median: f64::NAN, lo: f64::INFINITY, hi: f64::NAN };
    for index in 0..6 {
        if let Outcome::Measured(figures) = &mut summary.results[index].outcome {
            figures.cpu_us = Some(broken);
            figures.throughput_rps = broken;
            figures.client_cpu_us = broken;
            figures.user_us = Some(f64::NAN);
            figures.client_busy = f64::INFINITY;
            let ratio = figures.cpu_ratio.as_mut().unwrap();
            ratio.hi = f64::INFINITY;
            let service = figures.service.as_mut().unwrap();
            (service.p99, service.max) = (broken, f64::NAN);
            service.points.iter_mut().step_by(3).for_each(|p| p.us = f64::NAN);
            service.points.iter_mut().step_by(5).for_each(|p| p.max_us = f64::INFINITY);
        }
    }
    summary.effects[0].cpu.lo = 0.0;
    summary.noise[1].cpu_floor_percent = f64::NAN;
    let html = render(&summary);
    let document = parse(&html);
    let body = elements(&document, "main").next().unwrap();
    let attributes = body.descendants().flat_map(|n| n.attributes()).map(|a| a.value().to_owned());
    for text in attributes.chain([all_text(body)]) {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
        assert!(!text.split([' ', 'M', 'L', '[', ',']).any(|word| word == "inf" || word == "-inf"), "{text}");
    }
}

#[test]
fn extreme_numbers_draw_without_fault() {
    for scale in [1e-9, 1e9] {
        let mut summary = sample::summary();
        for result in &mut summary.results {
            if let Outcome::Measured(figures) = &mut result.outcome {
                figures.cpu_us = figures.cpu_us.map(|_| Interval { median: scale, lo: scale, hi: scale });
                figures.client_cpu_us = Interval { median: scale, lo: scale, hi: scale };
            }
        }
        parse(&render(&summary));
    }
}

#[test]
fn cells_that_did_not_run_are_dotted_and_say_why() {
    let html = render(&sample::summary());
    let document = parse(&html);
    let wide = by_id(&document, "heat0-w").unwrap();
    let cell = wide.descendants().find(|n| n.attribute("href") == Some("#raw-s5-2")).unwrap();
    assert!(cell.descendants().any(|n| n.has_tag_name("rect") && has_class(n, "na")));
    assert!(all_text(cell).contains("n/a: 64 workers"));
    assert!(cell.attribute("aria-label").unwrap().ends_with("n/a: 64 workers"));
}

#[test]
fn doubtful_cells_are_hatched_lettered_and_counted() {
    let html = render(&sample::summary());
    let document = parse(&html);
    for drawing in ["heat0-w", "heat0-n"] {
        let drawing = by_id(&document, drawing).unwrap();
        let hatched: Vec<_> = drawing
            .descendants()
            .filter(|n| n.attribute("fill") == Some("url(#hatch)"))
            .filter_map(|n| n.parent_element()?.attribute("href"))
            .collect();
        assert_eq!(hatched, ["#raw-s4-1", "#raw-s8-4"]);
    }
    let warnings = document.descendants().find(|n| has_class(*n, "warn")).unwrap();
    assert!(all_text(warnings).replace('\u{a0}', " ").contains("2 cells in doubt, hatched in the matrix"));
    let foot = document.descendants().find(|n| has_class(*n, "foot")).unwrap();
    for flag in [Flag::Noisy, Flag::Lag] {
        assert!(all_text(foot).contains(flag.meaning()));
    }
    assert!(!all_text(foot).contains(Flag::ServerSaturated.meaning()), "a closed loop is meant to saturate");
}

#[test]
fn a_saturated_generator_casts_doubt_on_an_open_loop_only() {
    let mut summary = sample::summary();
    let flag = FlagCount { flag: Flag::ClientSaturated, visits: 1 };
    figures_mut(&mut summary, 5).flags = vec![flag];
    figures_mut(&mut summary, 9).flags = vec![flag];
    let html = render(&summary);
    let document = parse(&html);
    let is_hatched = |link: &str| {
        let cell = document.descendants().find(|n| n.attribute("href") == Some(link)).unwrap();
        cell.descendants().any(|n| n.attribute("fill") == Some("url(#hatch)"))
    };
    assert!(!is_hatched("#raw-s1-0") && is_hatched("#raw-s1-4"));
}

#[test]
fn a_ratio_inside_the_noise_floor_has_no_tint() {
    let mut summary = sample::summary();
    let ratio = figures_mut(&mut summary, 5).cpu_ratio.as_mut().unwrap();
    ratio.differs = false;
    let html = render(&summary);
    let document = parse(&html);
    let cell = document.descendants().find(|n| n.attribute("href") == Some("#raw-s1-0")).unwrap();
    assert!(!cell.descendants().any(|n| has_class(n, "cheap") || has_class(n, "costly")));
    assert!(cell.attribute("aria-label").unwrap().contains("no difference seen"));
}

#[test]
fn a_server_that_could_not_run_at_all_is_named_once() {
    let mut summary = sample::summary();
    for result in summary.results.iter_mut().filter(|r| r.cell == "http-server/uring") {
        result.outcome = Outcome::NotRun { reason: "io_uring is disabled".to_owned() };
    }
    let html = render(&summary);
    let document = parse(&html);
    let text = all_text(document.descendants().find(|n| has_class(*n, "warn")).unwrap());
    assert!(text.contains("io_uring is disabled: uring"), "{text}");
    assert!(text.contains("64 workers: pool: get-1MiB-c16"), "{text}");
}

#[test]
fn pictures_without_data_are_left_out_with_their_links() {
    let (full, quick) = (render(&sample::summary()), render(&sample::quick()));
    let (full, quick) = (parse(&full), parse(&quick));
    for id in ["effects", "latency", "load", "within", "histogram"] {
        assert!(by_id(&full, id).is_some() && by_id(&quick, id).is_none(), "{id}");
        assert!(!quick.descendants().any(|n| n.attribute("href") == Some(&format!("#{id}"))), "{id}");
    }
    assert!(!all_text(elements(&quick, "main").next().unwrap()).contains("nginx"), "no peer, no word of it");
}

#[test]
fn a_closed_loop_is_service_time_without_a_solid_curve() {
    let html = render(&sample::small());
    let document = parse(&html);
    let section = by_id(&document, "latency").unwrap();
    let heads: Vec<_> =
        section.descendants().filter(|n| n.has_tag_name("h3") || n.has_tag_name("summary")).map(all_text).collect();
    assert!(heads[0].starts_with("get-128B-c64-open"), "the open loop comes first: {heads:?}");
    let labelled = heads.iter().filter(|h| h.contains("service time, not user latency")).count();
    assert_eq!(labelled, heads.len() - 1);
    let solid = |id: &str| {
        let drawing = by_id(&document, id).unwrap();
        let lines = drawing.descendants().filter(|n| has_class(*n, "ln"));
        lines.filter(|n| !n.has_attribute("stroke-dasharray")).count()
    };
    assert_eq!((solid("lat4-w"), solid("lat0-w")), (4, 0));
}

#[test]
fn a_summary_with_nothing_measured_still_makes_a_page() {
    let mut summary = sample::summary();
    summary.results.clear();
    summary.noise.clear();
    summary.effects.clear();
    summary.drift.clear();
    summary.progress.is_partial = true;
    let html = render(&summary);
    assert!(html.contains("Unfinished"));
    parse(&html);
    summary.setup.cells.clear();
    summary.setup.workloads.clear();
    parse(&render(&summary));
}

#[test]
fn the_embedded_data_have_what_is_drawn_and_the_table() {
    let data = |summary: &Summary| -> serde_json::Value {
        let html = render(summary);
        serde_json::from_str(by_id(&parse(&html), "data").unwrap().text().unwrap()).unwrap()
    };
    let usual = data(&sample::quick());
    assert_eq!(usual["matrices"][0]["cells"]["s1"], "http-server/uring");
    assert_eq!(usual["matrices"][0]["levels"]["s1"][0], "driver=uring");
    // Of many cells one workload is drawn, and no curve of another is embedded.
    let large = data(&sample::large());
    let results = &large["matrices"][0]["results"];
    let place = results["@"].as_array().unwrap().iter().position(|name| name == "workload").unwrap();
    let rows = results["rows"].as_array().unwrap();
    let drawn: BTreeSet<&str> = rows.iter().map(|row| row[place].as_str().unwrap()).collect();
    assert!(!drawn.is_empty() && drawn.len() <= 3, "{drawn:?}");
}

#[test]
fn many_workloads_make_several_drawings_with_all_columns() {
    let mut summary = sample::summary();
    let template = summary.setup.workloads[0].clone();
    for i in 0..7 {
        let name = format!("extra-{i}");
        summary.setup.workloads.push(Workload { name: name.clone(), ..template.clone() });
        for row in 0..summary.setup.cells.len() {
            let result = CellResult { workload: name.clone(), ..summary.results[row * 5].clone() };
            summary.results.push(result);
        }
    }
    let html = render(&summary);
    let document = parse(&html);
    let compared = summary.setup.cells.iter().filter(|c| c.role != Role::Control).count();
    for width in ["w", "n"] {
        let cells = (0..3).filter_map(|part| by_id(&document, &format!("heat{part}-{width}"))).flat_map(|svg| {
            svg.descendants().filter(|n| has_class(*n, "cell")).filter_map(|n| n.attribute("href")).collect::<Vec<_>>()
        });
        assert_eq!(cells.collect::<BTreeSet<_>>().len(), compared * summary.setup.workloads.len());
    }
}

/// Writes the sample reports where a browser can show them; it is no law.
/// `REPORT_SAMPLE_DIR=DIR cargo test -p report write_the_samples -- --ignored`
#[test]
#[ignore = "writes files for the eye"]
fn write_the_samples() {
    let directory = std::env::var_os("REPORT_SAMPLE_DIR").map_or_else(std::env::temp_dir, Into::into);
    let five = page(sample::five());
    std::fs::write(directory.join("bench-matrix-sample-five.html"), &five).unwrap();
    for (name, summary) in [
        ("full", sample::summary()),
        ("large", sample::large()),
        ("quick", sample::quick()),
        ("crowded", sample::crowded()),
        ("crossed", sample::crossed()),
    ] {
        let html = render(&summary);
        let path = directory.join(format!("bench-matrix-sample-{name}.html"));
        std::fs::write(&path, &html).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), html.as_bytes());
    }
}

mod browser;
mod figures;
mod first_screen;
mod matrices;
mod pictures;
mod safety;
mod sizes;
