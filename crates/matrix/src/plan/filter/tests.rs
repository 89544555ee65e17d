use proptest::prelude::*;

use super::*;

fn vocabulary() -> Vocabulary {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    let servers = [("kvcache", list(&["driver", "store"])), ("http-server", list(&["driver"]))];
    Vocabulary {
        keys: vec![
            ("server".to_owned(), list(&["kvcache", "http-server", "redis"])),
            ("driver".to_owned(), list(&["blocking", "epoll", "uring", "tokio", "tokio-uring"])),
            ("store".to_owned(), list(&["packed", "std"])),
            ("workload".to_owned(), list(&["get-128B-c64", "get-1MiB-c16"])),
        ],
        servers: servers.map(|(name, dimensions)| (name.to_owned(), dimensions)).to_vec(),
    }
}

fn parse(text: &str) -> Result<Filter> {
    Filter::parse(text, &vocabulary())
}

/// A thing: keys and the values it has; not every key.
type Thing = [(&'static str, &'static str)];

fn selects(filter: &Filter, thing: &Thing) -> bool {
    let accepts = |product: &Product| thing.iter().all(|(key, value)| product.accepts(key, value));
    filter.products().iter().any(accepts)
}

#[test]
fn all_terms_must_hold_and_alternatives_are_any_of() {
    let filter = parse("driver=uring|epoll, workload=get-128B*").unwrap();
    assert!(filter.accepts("driver", "uring") && filter.accepts("driver", "epoll"));
    assert!(!filter.accepts("driver", "tokio-uring"));
    assert!(filter.accepts("workload", "get-128B-c64") && !filter.accepts("workload", "get-1MiB-c16"));
    assert!(filter.accepts("server", "anything"), "a key without a term excludes nothing");
    let [product] = filter.products() else { panic!("{filter:?}") };
    assert!(product.names("driver") && !product.names("server"));
    let filter = parse("driver!=tokio*").unwrap();
    assert!(filter.accepts("driver", "epoll") && !filter.accepts("driver", "tokio-uring"));
}

#[test]
fn what_one_of_several_products_selects_is_selected() {
    let filter = parse("driver=uring,workload=get-128B*; driver=epoll").unwrap();
    assert!(filter.accepts("driver", "uring") && filter.accepts("driver", "epoll"));
    assert!(!filter.accepts("driver", "tokio"));
    let [first, second] = filter.products() else { panic!("{filter:?}") };
    assert!(!first.accepts("workload", "get-1MiB-c16") && second.accepts("workload", "get-1MiB-c16"));
    assert!(parse("driver=uring;").is_err(), "an empty product would select everything");
}

#[test]
fn signs_and_words_say_the_same() {
    let same = [
        "server=kvcache & (driver=epoll|uring) & !store=std & workload~get-1*",
        "server=kvcache and (driver=epoll or driver=uring) and not store=std and workload=get-1*",
        "server=kvcache,driver=epoll|uring,store!=std,workload~get-1*",
        "(server=kvcache && (driver = epoll | driver = uring)) && store !~ std && workload=get-1*",
    ];
    let things: [&Thing; 5] = [
        &[("server", "kvcache"), ("driver", "epoll"), ("store", "packed"), ("workload", "get-1MiB-c16")],
        &[("server", "kvcache"), ("driver", "tokio"), ("store", "packed"), ("workload", "get-1MiB-c16")],
        &[("server", "kvcache"), ("driver", "epoll"), ("store", "std"), ("workload", "get-1MiB-c16")],
        &[("server", "redis"), ("workload", "get-1MiB-c16")],
        &[("driver", "uring")],
    ];
    for text in same {
        let filter = parse(text).unwrap();
        assert_eq!(things.map(|thing| selects(&filter, thing)), [true, false, false, false, true], "{text}");
    }
}

#[test]
fn a_path_names_a_server_and_its_dimensions_in_order() {
    let filter = parse("kvcache/epoll/*").unwrap();
    let [product] = filter.products() else { panic!("{filter:?}") };
    assert!(product.names("store") && product.names("driver"), "what a path names is crossed");
    assert!(selects(&filter, &[("server", "kvcache"), ("driver", "epoll"), ("store", "std")]));
    assert!(!selects(&filter, &[("server", "kvcache"), ("driver", "uring"), ("store", "std")]));
    assert!(!selects(&filter, &[("server", "http-server"), ("driver", "epoll")]));
    let filter = parse("*/uring").unwrap();
    assert!(selects(&filter, &[("server", "http-server"), ("driver", "uring")]));
    assert!(selects(&filter, &[("server", "kvcache"), ("driver", "uring"), ("store", "std")]));
    assert!(!selects(&parse("!(*/uring)").unwrap(), &[("server", "http-server"), ("driver", "uring")]));
    for (text, says) in [
        ("kvcahe/epoll", "did you mean `kvcache`?"),
        ("kvcache/epol", "did you mean `epoll`?"),
        ("http-server/epoll/std", "has 2 dimensions"),
        ("kvcache/", "expected a name"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn unknown_names_are_usage_errors_with_the_nearest_valid_one() {
    for (text, nearest) in [
        ("driver=urnig", "did you mean `uring`?"),
        ("drivr=uring", "did you mean `driver`?"),
        ("driver=uring|epol", "did you mean `epoll`?"),
        ("not (server=kvcache or driver!=epol)", "did you mean `epoll`?"),
        ("workload=put*", "no workload `put*`; there are get-128B-c64, "),
        ("driver", "expected `=` and a value behind it"),
        ("", "expected a key and a value"),
        ("(driver=epoll", "expected `)`"),
        ("driver=epoll)", "expected `and`, `or` or the end"),
        ("driver=epoll workload=get*", "expected `and`, `or` or the end"),
        ("driver=", "expected a value"),
        ("driver=", "--filter 'driver=': expected a value; for example --filter 'server=kvcache"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.is::<crate::UsageError>());
        assert!(error.to_string().contains(nearest), "{text}: {error}");
    }
}

#[test]
fn a_filter_cannot_exhaust_memory_or_the_stack() {
    let many = vec!["(driver=epoll;driver=uring)"; 20].join(",");
    assert!(parse(&many).unwrap_err().to_string().contains("more than 256"));
    let deep = format!("{}driver=epoll", "!".repeat(100_000));
    assert!(parse(&deep).unwrap_err().to_string().contains("more than 64"));
}

/// Any expression; names as odd as the grammar lets them be.
fn expressions(names: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Expression> {
    let relation =
        prop_oneof![Just(Relation::Is), Just(Relation::IsNot), Just(Relation::Like), Just(Relation::NotLike)];
    let patterns = prop::collection::vec(names.clone(), 1..3);
    let term = (names.clone(), relation, patterns)
        .prop_map(|(key, relation, patterns)| Expression::Term(Written { key, relation, patterns }));
    let path = prop::collection::vec(names, 2..4).prop_map(Expression::Path);
    prop_oneof![4 => term, 1 => path].prop_recursive(4, 24, 3, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            parts.clone().prop_map(Expression::All),
            parts.prop_map(Expression::Any),
            inner.prop_map(|part| Expression::Not(Box::new(part))),
        ]
    })
}

fn known_terms() -> impl Strategy<Value = Expression> {
    let keys = prop::sample::select(vec![
        ("server", vec!["kvcache", "*e*", "redis"]),
        ("driver", vec!["epoll", "uring", "tokio*", "*"]),
        ("store", vec!["std", "p*"]),
        ("workload", vec!["get-*", "*c64"]),
    ]);
    let relation = prop::sample::select(Relation::ALL.map(|(_, relation)| relation).to_vec());
    let term = (keys, relation, 0..8_usize, 0..8_usize).prop_map(|((key, values), relation, first, second)| {
        let pattern = |index: usize| values[index % values.len()].to_owned();
        Expression::Term(Written { key: key.to_owned(), relation, patterns: vec![pattern(first), pattern(second)] })
    });
    term.prop_recursive(3, 10, 3, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..3);
        prop_oneof![
            parts.clone().prop_map(Expression::All),
            parts.prop_map(Expression::Any),
            inner.prop_map(|part| Expression::Not(Box::new(part))),
        ]
    })
}

/// The tree as it is, for a thing that has every key.
fn holds(expression: &Expression, thing: &Thing) -> bool {
    match expression {
        Expression::All(parts) => parts.iter().all(|part| holds(part, thing)),
        Expression::Any(parts) => parts.iter().any(|part| holds(part, thing)),
        Expression::Not(part) => !holds(part, thing),
        Expression::Term(Written { key, relation, patterns }) => {
            let value = thing.iter().find(|(own, _)| own == key).unwrap().1;
            patterns.iter().any(|pattern| glob(pattern, value)) != relation.is_negated()
        }
        Expression::Path(_) => panic!("no paths here"),
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back_as_it_was(
        expression in expressions(prop_oneof![
            "[a-z0-9*.+:-]{1,6}", Just("not".to_owned()), Just("and".to_owned()), Just("or".to_owned())
        ])
    ) {
        prop_assert_eq!(parser::parse(&expression.to_string()), Ok(expression));
    }

    #[test]
    fn products_select_exactly_what_the_expression_says(expression in known_terms()) {
        let Ok(filter) = Filter::of(&expression, &vocabulary()) else { return Ok(()) };
        for server in ["kvcache", "http-server", "redis"] {
            for driver in ["blocking", "epoll", "uring", "tokio", "tokio-uring"] {
                for store in ["packed", "std"] {
                    for workload in ["get-128B-c64", "get-1MiB-c16"] {
                        let thing = [("server", server), ("driver", driver), ("store", store), ("workload", workload)];
                        prop_assert_eq!(selects(&filter, &thing), holds(&expression, &thing), "{}", expression);
                    }
                }
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z=!~|&;,()/* -]{0,40}") {
        drop(parser::parse(&text));
    }
}

#[test]
fn the_command_line_selects_what_the_table_of_cases_says() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("cases.json")).unwrap();
    let (vocabulary, things) = (listed(&cases), things(&cases));
    for case in cases["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let wanted: Option<Vec<usize>> = serde_json::from_value(case["selected"].clone()).unwrap();
        assert_eq!(selected(text, &vocabulary, &things), wanted, "{text}");
    }
}

/// Which things a filter selects; `None` where it is none.
fn selected(text: &str, vocabulary: &Vocabulary, things: &[Vec<(String, String)>]) -> Option<Vec<usize>> {
    let filter = Filter::parse(text, vocabulary).ok()?;
    let is_selected = |thing: &[(String, String)]| {
        filter.products().iter().any(|product| thing.iter().all(|(key, value)| product.accepts(key, value)))
    };
    Some((0..things.len()).filter(|&index| is_selected(&things[index])).collect())
}

fn listed(cases: &serde_json::Value) -> Vocabulary {
    let list = |name: &str| serde_json::from_value(cases["vocabulary"][name].clone()).unwrap();
    Vocabulary { keys: list("keys"), servers: list("servers") }
}

fn things(cases: &serde_json::Value) -> Vec<Vec<(String, String)>> {
    let thing = |thing: &serde_json::Value| -> Vec<(String, String)> {
        let members = thing.as_object().unwrap().iter();
        members.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
    };
    cases["things"].as_array().unwrap().iter().map(thing).collect()
}
