// The filter language of `bench-matrix --filter`, told by the same cases: filter_cases.json. The parser follows
// xtask/src/matrix/filter/parser.rs line by line.
const parseFilter = (text) => {
  const DEPTH_MAX = 64, DELIMITERS = ",;&|()=!~/", RELATIONS = ["!=", "!~", "=", "~"];
  const isSpace = (c) => /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(c);
  class Parser {
    constructor(rest) { this.rest = rest; this.depth = 0; }
    trimmed() { let i = 0; while (i < this.rest.length && isSpace(this.rest[i])) i++; return this.rest.slice(i); }
    take(sign) {
      const rest = this.trimmed(), found = rest.startsWith(sign);
      if (found) this.rest = rest.slice(sign.length);
      return found;
    }
    takeWord(word) {
      const start = this.trimmed();
      if (!start.startsWith(word)) return false;
      const behind = new Parser(start.slice(word.length)), next = behind.rest[0];
      const isWhole = next === undefined || isSpace(next) || next === "(" || next === "!";
      if (!isWhole || RELATIONS.some((sign) => behind.trimmed().startsWith(sign))) return false;
      this.rest = behind.rest;
      return true;
    }
    word() {
      const start = this.trimmed();
      let i = 0;
      while (i < start.length && !isSpace(start[i]) && !DELIMITERS.includes(start[i])) i++;
      if (i === 0) return null;
      this.rest = start.slice(i);
      return start.slice(0, i);
    }
    relation() { return RELATIONS.find((sign) => this.take(sign)) ?? null; }
    expected(what, at = this.trimmed()) { throw new Error(`“${at.trim()}”: expected ${what}`); }
    joined(part, signs, word, join) {
      const parts = [part.call(this)];
      while (signs.some((sign) => this.take(sign)) || this.takeWord(word)) parts.push(part.call(this));
      return parts.length === 1 ? parts[0] : { [join]: parts };
    }
    any() { return this.joined(this.all, [";", "||", "|"], "or", "any"); }
    all() { return this.joined(this.one, [",", "&&", "&"], "and", "all"); }
    one() {
      if (++this.depth > DEPTH_MAX) throw new Error(`more than ${DEPTH_MAX} parentheses or negations in one another`);
      const one = this.nested();
      this.depth--;
      return one;
    }
    nested() {
      if (this.takeWord("not") || this.take("!")) return { not: this.one() };
      if (this.take("(")) {
        const inner = this.any();
        return this.take(")") ? inner : this.expected("“)”");
      }
      const before = this.rest, key = this.word() ?? this.expected("key=value", before), relation = this.relation();
      if (relation) return { key, isNegated: relation[0] === "!", patterns: this.patterns() };
      const path = [key];
      while (this.take("/")) path.push(this.word() ?? this.expected("a name behind “/”", before));
      return path.length === 1 ? this.expected("key=value", key) : { path };
    }
    patterns() {
      const patterns = [];
      for (;;) {
        const before = this.rest;
        patterns.push(this.word() ?? this.expected("a value", before));
        if (!this.offersAnotherValue()) return patterns;
        this.take("|");
      }
    }
    offersAnotherValue() {
      const ahead = new Parser(this.rest);
      if (ahead.trimmed().startsWith("||") || !ahead.take("|")) return false;
      const word = ahead.word();
      if (word === null || ahead.relation() !== null || ahead.rest.startsWith("/")) return false;
      return !(word === "not" && ahead.word() !== null && ahead.relation() !== null);
    }
  }
  const parser = new Parser(text), expression = parser.any();
  return parser.trimmed() === "" ? expression : parser.expected("“and”, “or” or the end");
};

// `vocabulary`: keys as [name, values], servers as [name, dimensions]. Returns whether a thing (key to value) is
// selected; a key that it does not have does not exclude it, negated or not. Throws what is wrong.
const makeFilter = (text, { keys, servers }) => {
  const glob = (pattern, value) => {
    const parts = pattern.split("*"), [head, tail] = [parts.shift(), parts.pop()];
    if (tail === undefined) return pattern === value;
    if (!value.startsWith(head) || !value.slice(head.length).endsWith(tail)) return false;
    let rest = value.slice(head.length, value.length - tail.length);
    return parts.every((part) => {
      const at = rest.indexOf(part);
      rest = rest.slice(at + part.length);
      return at >= 0;
    });
  };
  const known = (key, patterns) => {
    const entry = keys.find(([name]) => name === key);
    if (!entry) throw new Error(`no key “${key}” (${keys.map(([name]) => name).join(", ")})`);
    const unknown = patterns.find((pattern) => !entry[1].some((value) => glob(pattern, value)));
    if (unknown !== undefined) throw new Error(`no ${key} “${unknown}” (${entry[1].join(", ")})`);
  };
  const term = (key, patterns, isNegated) => {
    known(key, patterns);
    return { key, patterns, isNegated };
  };
  const unfold = ([server, ...levels]) => {
    if (!servers.some(([name]) => glob(server, name))) throw new Error(`no server “${server}”`);
    const fits = servers.filter(([name, dimensions]) => glob(server, name) && levels.length <= dimensions.length);
    if (!fits.length) throw new Error(`no server so named has ${levels.length} dimensions`);
    const one = ([name, dimensions]) => ({ all: [["server", name], ...levels.map((level, i) => [dimensions[i], level])]
      .map(([key, pattern]) => term(key, [pattern], false)) });
    return { any: fits.map(one) };
  };
  const check = (e) => {
    if (e.path) return unfold(e.path);
    if (e.not) return { not: check(e.not) };
    if (e.all) return { all: e.all.map(check) };
    if (e.any) return { any: e.any.map(check) };
    return term(e.key, e.patterns, e.isNegated);
  };
  // Negations end up in the terms (de Morgan).
  const holds = (e, thing, isNegated) => {
    if (e.not) return holds(e.not, thing, !isNegated);
    const part = (inner) => holds(inner, thing, isNegated);
    if (e.all) return isNegated ? e.all.some(part) : e.all.every(part);
    if (e.any) return isNegated ? e.any.every(part) : e.any.some(part);
    if (!(e.key in thing)) return true;
    return e.patterns.some((pattern) => glob(pattern, thing[e.key])) !== (e.isNegated !== isNegated);
  };
  const expression = check(parseFilter(text));
  return (thing) => holds(expression, thing, false);
};
