//! Contents of the files: texts of a small vocabulary, which compress as real ones do, and bytes that do not compress.

use std::{fmt::Write as _, iter};

use fastrand::Rng;

const SEED: u64 = 0x5157_5745;

/// Number of words and names that texts are made of.
const WORDS: usize = 700;
/// Exponent of the choice between them: the higher, the more the first ones are preferred, as in any language.
const PREFERENCE: f64 = 2.2;
const ONSETS: [&str; 16] = ["b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "pl"];
const RIMES: [&str; 14] = ["a", "e", "i", "o", "u", "an", "en", "er", "ing", "on", "or", "al", "ist", "ound"];

const PROPERTIES: [&str; 20] = [
    "display:flex",
    "display:none",
    "position:relative",
    "position:absolute",
    "align-items:center",
    "justify-content:space-between",
    "text-decoration:none",
    "box-sizing:border-box",
    "overflow:hidden",
    "cursor:pointer",
    "font-weight:600",
    "width:100%",
    "background-color:transparent",
    "vertical-align:middle",
    "flex-direction:column",
    "border-style:solid",
    "text-align:left",
    "white-space:nowrap",
    "transition:opacity .15s ease-in-out",
    "pointer-events:none",
];
const LENGTHS: [&str; 8] =
    ["margin-top", "padding", "margin-bottom", "font-size", "line-height", "border-radius", "max-width", "left"];

/// Returns `bytes` bytes of what the name's extension promises; always the same.
pub(super) fn content(name: &str, bytes: usize, seed: u64) -> Vec<u8> {
    let mut writer = Writer::new(seed);
    let piece: fn(&mut Writer) = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => Writer::rule,
        Some("js") => Writer::statement,
        Some("html") => Writer::paragraph,
        Some("svg") => Writer::curve,
        Some("json") => Writer::entry,
        _ => return iter::repeat_with(|| writer.random.u8(..)).take(bytes).collect(),
    };
    while writer.text.len() < bytes {
        piece(&mut writer);
    }
    writer.text.truncate(bytes);
    writer.text.into_bytes()
}

struct Writer {
    random: Rng,
    words: Vec<String>,
    text: String,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(SEED ^ seed);
        let mut syllable = || {
            let (onset, rime) = (random.usize(..ONSETS.len()), random.usize(..RIMES.len()));
            [ONSETS[onset], RIMES[rime]].concat()
        };
        let words = (0..WORDS).map(|index| iter::repeat_with(&mut syllable).take(1 + index % 3).collect());
        Self { words: words.collect(), random, text: String::new() }
    }

    fn word(&mut self) -> String {
        let place = self.random.f64().powf(PREFERENCE) * WORDS as f64;
        self.words[place as usize % WORDS].clone()
    }

    fn sentence(&mut self) -> String {
        let count = self.random.usize(4..14);
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }

    /// Writing into a String cannot fail.
    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text);
    }

    fn rule(&mut self) {
        let (block, part) = (self.word(), self.word());
        let state = ["", "", ":hover", ">li", "::before"][self.random.usize(..5)];
        self.say(format_args!(".{block}-{part}{state}{{"));
        for _ in 0..self.random.usize(1..6) {
            let (property, length) = (self.random.usize(..PROPERTIES.len()), self.random.usize(..LENGTHS.len()));
            let number = self.random.u32(1..48);
            match self.random.u8(..10) {
                0 => {
                    let colour = self.random.u32(..0x100_0000);
                    self.say(format_args!("color:#{colour:06x};"));
                }
                1..=4 => self.say(format_args!("{}:{number}px;", LENGTHS[length])),
                _ => self.say(format_args!("{};", PROPERTIES[property])),
            }
        }
        self.say(format_args!("}}"));
    }

    fn statement(&mut self) {
        let (name, object, method, other) = (self.word(), self.word(), self.word(), self.word());
        let number = self.random.u32(..1000);
        let short = char::from(self.random.u8(b'a'..=b'z'));
        match self.random.u8(..7) {
            0 => self.say(format_args!("function {name}({short},t){{return {short}.{method}(t)||{object}.{other}}}")),
            1 => self.say(format_args!(
                "{object}.prototype.{method}=function({short}){{this.{name}={short};this.{other}()}};"
            )),
            2 => {
                let message = self.sentence();
                self.say(format_args!("if(!{object}.{name})throw new Error(\"{message}\");"));
            }
            3 => self.say(format_args!("var {short}={object}.{method}({number}),n={short}.length;")),
            4 => self.say(format_args!("for(var i=0;i<{short}.length;i++){{{object}.{method}({short}[i].{name})}}")),
            5 => self.say(format_args!("const {{{name}:{short},{other}:e}}=await {object}.{method}(t,{{{name}:!0}});")),
            _ => self.say(format_args!(
                "export default {{name:\"{name}\",{method}({short}){{return e?.{other}({short},{number})}}}};"
            )),
        }
    }

    fn paragraph(&mut self) {
        let (class, sentence, second) = (self.word(), self.sentence(), self.sentence());
        let (link, label) = (self.word(), self.sentence());
        match self.random.u8(..5) {
            0 => self.say(format_args!("<h2 class=\"{class}-title\" id=\"{link}\">{label}</h2>\n")),
            1 => self.say(format_args!("<li class=\"{class}\"><a href=\"/{link}/{class}.html\">{label}</a></li>\n")),
            _ => self
                .say(format_args!("<p class=\"{class}\">{sentence}. {second}, <a href=\"/{link}\">{label}</a>.</p>\n")),
        }
    }

    fn curve(&mut self) {
        let class = self.word();
        self.say(format_args!("<path class=\"{class}\" d=\"M"));
        for step in 0..self.random.usize(6..30) {
            let command = ["", "l", "c", " ", " "][step.min(1) * self.random.usize(..5)];
            let (x, y) = (self.random.i32(-300..300), self.random.i32(-300..300));
            self.say(format_args!("{command}{}.{} {}", x / 10, x.abs() % 10, y / 10));
        }
        self.say(format_args!("z\"/>\n"));
    }

    fn entry(&mut self) {
        let (name, title, group) = (self.word(), self.sentence(), self.word());
        let (id, price) = (self.random.u32(..100_000), self.random.u32(100..10_000));
        self.say(format_args!(
            "{{\"id\":{id},\"name\":\"{name}\",\"title\":\"{title}\",\"group\":\"{group}\",\"price\":{price}}},\n"
        ));
    }
}
