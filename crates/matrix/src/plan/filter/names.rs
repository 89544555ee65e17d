//! Names: patterns that stand for several, and the known one that is nearest to an unknown one.

/// Part of a name, one in so many characters, that may be mistyped in one that is meant.
const MISTYPED_PART: usize = 3;

/// `did you mean `uring`? (blocking, epoll, uring)`; without the question where nothing known is near.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    let is_near = |name: &&&str| {
        let is_part = given.len() > 2 && name.contains(given);
        is_part || distance(given, name) <= (given.chars().count().max(name.chars().count()) / MISTYPED_PART).max(1)
    };
    let nearest = known.iter().filter(is_near).min_by_key(|name| distance(given, name));
    match (nearest, known) {
        (Some(nearest), _) => format!("did you mean `{nearest}`? ({})", known.join(", ")),
        (None, []) => "there are none".to_owned(),
        (None, _) => format!("there are {}", known.join(", ")),
    }
}

/// True if `text` matches `pattern`, in which `*` stands for any text, the empty one included.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| glob(tail, &rest[at..]))
        }),
    }
}

/// Optimal string alignment distance: insertions, deletions, substitutions and exchanges of neighbours that turn one text
/// into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (line, left) in (1..).zip(&from) {
        let mut row = vec![line];
        for (column, right) in (1..).zip(&to) {
            let above = &rows[line - 1];
            let substituted = above[column - 1] + usize::from(left != right);
            let mut least = substituted.min(row[column - 1] + 1).min(above[column] + 1);
            if line > 1 && column > 1 && from[line - 2] == *right && *left == to[column - 2] {
                least = least.min(rows[line - 2][column - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("*", "epoll", true),
            ("get-*-c64", "get-128B-c64", true),
            ("get-*-c64", "get-128B-c64-open", false),
            ("*uring", "tokio-uring", true),
            ("uring", "tokio-uring", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn only_a_near_miss_is_asked_back() {
        let known = ["blocking", "epoll", "tokio-uring", "get-128B-c64"];
        for (given, nearest) in
            [("epol", "epoll"), ("blokcing", "blocking"), ("get-128B", "get-128B-c64"), ("uring", "tokio-uring")]
        {
            assert!(hint(given, &known).starts_with(&format!("did you mean `{nearest}`? (blocking, ")), "{given}");
        }
        for given in ["x", "nginx", "yes please", ""] {
            assert!(hint(given, &known).starts_with("there are blocking, epoll"), "{given}");
        }
        assert_eq!(hint("x", &[]), "there are none");
    }

    #[test]
    fn a_distance_counts_the_slips_of_a_typist() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("mian", "main"), distance("ab", "ba")), (1, 1));
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("uring", "uring"), 0);
    }
}
