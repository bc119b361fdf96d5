//! The errors in a file that a user has written, with their positions.

use std::fmt::{self, Display};
use std::ops::Range;

/// All errors in a file, in the order of its lines.
#[derive(Debug)]
pub struct Faults {
    file: String,
    text: String,
    faults: Vec<Fault>,
    absent: bool,
}

#[derive(Debug)]
pub struct Fault {
    /// A range of bytes of the text. None: the fault concerns the whole file.
    span: Option<Range<usize>>,
    fact: String,
    cause: String,
    next: String,
}

const DUPLICATE: &str = "duplicate key";

impl Fault {
    pub fn at(
        span: Range<usize>,
        fact: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Fault {
            span: Some(span),
            ..Fault::of_file(fact, cause, next)
        }
    }

    pub fn of_file(
        fact: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Fault {
            span: None,
            fact: fact.into(),
            cause: cause.into(),
            next: next.into(),
        }
    }

    /// The same fault, at a place.
    pub fn placed(self, span: Range<usize>) -> Self {
        Fault {
            span: Some(span),
            ..self
        }
    }

    /// The same fault, of a part that has no place but a name.
    pub fn about(self, part: &str) -> Self {
        Fault {
            fact: format!("{part}: {}", self.fact),
            ..self
        }
    }

    /// The text is not TOML. `example`: the command that shows it.
    pub fn not_toml(text: &str, error: &toml::de::Error, example: &str) -> Self {
        let span = error.span().unwrap_or(text.len()..text.len());
        match text
            .get(span.clone())
            .filter(|_| error.message() == DUPLICATE)
        {
            Some(key) => Fault::at(
                span,
                format!("{key} is written a second time"),
                "a section contains each name at most once",
                "keep one of them",
            ),
            None => Fault::at(
                span,
                format!("this is not TOML: {}", error.message()),
                "a line is NAME = VALUE, a [section] or a # comment; text is in quotes",
                format!("correct the line; {example} shows an example"),
            ),
        }
    }

    fn start(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.start)
    }

    fn write(&self, f: &mut fmt::Formatter, file: &str, text: &str) -> fmt::Result {
        let (fact, next) = (visible(&self.fact), visible(&self.next)); // they may contain names from the file
        match &self.span {
            Some(span) => {
                let place = Place::of(text, span);
                let (line, column) = (place.line, place.column);
                writeln!(f, "{file}:{line}:{column}: {fact}\n{place}")?;
            }
            None => writeln!(f, "{file}: {fact}")?,
        }
        write!(f, "  cause: {}\n  next:  {next}", self.cause)
    }
}

impl Faults {
    /// `text`: the text that the faults' spans refer to.
    pub fn new(file: &str, text: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(Fault::start);
        Faults {
            file: file.into(),
            text: text.into(),
            faults,
            absent: false,
        }
    }

    pub fn absent(self) -> Self {
        Faults {
            absent: true,
            ..self
        }
    }

    /// Does the file not exist?
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    pub fn count(&self) -> usize {
        self.faults.len()
    }

    /// The last line, after all faults.
    pub fn summary(&self) -> String {
        let plural = if self.count() == 1 { "" } else { "s" };
        let (file, count) = (&self.file, self.count());
        format!("{file}: {count} fault{plural}")
    }

    /// The same, for a command that would have changed something.
    pub fn refusal(&self) -> String {
        self.summary() + "; nothing was changed"
    }
}

impl Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            fault.write(f, &self.file, &self.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// The position of a span, printed as its first line with carets below.
pub struct Place<'a> {
    pub line: usize,
    /// In characters, from 1.
    column: usize,
    content: &'a str,
    before: &'a str,
    marked: usize,
}

impl<'a> Place<'a> {
    pub fn of(text: &'a str, span: &Range<usize>) -> Self {
        let start = boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let content = text[line_start..].lines().next().unwrap_or("");
        let line_end = line_start + content.len();
        let end = boundary(text, span.end).clamp(start, line_end.max(start));
        let before = &text[line_start..start];
        Place {
            line: text[..start].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            content,
            before,
            marked: text[start..end].chars().count().max(1),
        }
    }
}

// The largest boundary of a character up to `offset`, so that slices never cut within one.
fn boundary(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    (0..=offset)
        .rev()
        .find(|offset| text.is_char_boundary(*offset))
        .unwrap_or(0)
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (line, content) = (self.line, visible(self.content));
        let carets = "^".repeat(self.marked);
        write!(
            f,
            "{line:>5} | {content}\n{:>5} | {}{carets}",
            "",
            blank(self.before)
        )
    }
}

// Replaces control characters: a file's contents must not move the terminal's cursor.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c.is_control() && c != '\t' {
            true => char::REPLACEMENT_CHARACTER,
            false => c,
        })
        .collect()
}

// Blanks as wide as the text; tabs stay.
fn blank(text: &str) -> String {
    text.chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, span: Range<usize>) -> (usize, usize, String) {
        let place = Place::of(text, &span);
        (place.line, place.column, place.to_string())
    }

    #[test]
    fn a_position_is_shown_with_its_line() {
        let text = "a = 1\nb = 20\n";
        assert_eq!(
            shown(text, 10..12),
            (2, 5, "    2 | b = 20\n      |     ^^".into())
        );
    }

    #[test]
    fn columns_are_characters_and_tabs_stay() {
        let text = "\tü = 1";
        assert_eq!(
            shown(text, 6..7),
            (1, 6, "    1 | \tü = 1\n      | \t    ^".into())
        );
    }

    #[test]
    fn a_span_over_several_lines_is_marked_on_its_first() {
        let text = "a = [1,\r\n2]\n";
        assert_eq!(
            shown(text, 4..11),
            (1, 5, "    1 | a = [1,\n      |     ^^^".into())
        );
    }

    #[test]
    fn a_fault_may_be_at_the_end_of_the_text() {
        assert_eq!(
            shown("a =", 3..3),
            (1, 4, "    1 | a =\n      |    ^".into())
        );
        assert_eq!(shown("a\n", 2..2).0, 2);
        assert_eq!(shown("", 0..0), (1, 1, "    1 | \n      | ^".into()));
        assert_eq!(shown("a", 7..9).1, 2);
    }

    #[test]
    fn control_characters_are_not_printed() {
        assert!(!shown("a = \u{1b}[2J", 4..5).2.contains('\u{1b}'));
    }
}
