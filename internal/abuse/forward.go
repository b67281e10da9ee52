package abuse

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A forward in the text is recognised by its structure, whatever its language: lines of the form
// "Name: value", the first of which names an address or one of which is a From or Subject that is known,
// with the text below. A line before them that only separates makes fewer such lines enough.
const (
	minFields     = 3   // lines of the form "Name: value", of which one has an address
	minSeparated  = 2   // below a line that separates
	maxFieldName  = 40  // characters
	maxFieldWords = 4   // words of a name
	maxFields     = 16  // lines of one forwarded header
	maxStarts     = 256 // lines at which a forwarded header is looked for
)

var (
	// separatorLine matches a line of dashes or underscores, with or without words between them.
	separatorLine = regexp.MustCompile(`^(?:[-_=*~—–─]{5,}|[-—–─]{3,}[^-—–─].*[^-—–─][-—–─]{3,})$`)
	address       = regexp.MustCompile(`[^\s<>()\[\],;:"'@]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*`)
	clockTime     = regexp.MustCompile(`\b\d{1,2}[:.hH時시]\s?\d{2}`)
)

// The names of fields in languages of which a program writes From or Subject in an order of its own, in
// lower case. Other languages need none: the first address is that of From, and Subject is the field
// that has neither an address nor a time.
var (
	fromNames = []string{"from", "von", "de", "da", "van", "från", "fra", "od", "lähettäjä", "от", "від", "feladó", "差出人",
		"发件人", "寄件者", "보낸 사람", "kimden", "من", "מאת", "expéditeur", "remitente", "mittente", "afzender", "отправитель"}
	subjectNames = []string{"subject", "betreff", "objet", "sujet", "asunto", "assunto", "oggetto", "onderwerp",
		"ämne", "emne",
		"temat", "předmět", "predmet", "aihe", "тема", "tárgy", "件名", "主题", "主旨", "제목", "konu", "الموضوع", "נושא", "θέμα"}
)

// A field is a line of a forwarded header.
type field struct{ name, value string }

// fieldOf reads a line of the form "Name: value", with what mail programs put around the name.
func fieldOf(line string) (f field, ok bool) {
	line = strings.TrimLeft(line, " \t\u00a0>|*_\u200e\u200f\ufeff")
	n := strings.IndexAny(line, ":：")
	if n <= 0 {
		return field{}, false
	}
	_, size := utf8.DecodeRuneInString(line[n:])
	f.name = strings.Trim(line[:n], " \t\u00a0*_\u200e\u200f")
	f.value = strings.TrimSpace(strings.TrimLeft(line[n+size:], " \t\u00a0*_"))
	switch {
	case f.name == "", utf8.RuneCountInString(f.name) > maxFieldName, len(strings.Fields(f.name)) > maxFieldWords,
		strings.HasPrefix(f.value, "//"):
		return field{}, false
	}
	letters := 0
	for _, r := range f.name {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsMark(r), r == ' ', r == '-', r == '\'', r == '’', r == '.', r == '\u00a0', r == '/':
		default:
			return field{}, false
		}
	}
	return f, letters > 0
}

// A forwardedHeader is the header of a message that is forwarded in a text.
type forwardedHeader struct {
	fields []field
	body   int // the line behind it
}

// headerAt reads the fields that begin at a line, with values in the lines below. It passes over empty
// lines until there are enough fields.
func headerAt(lines []string, at int, enough int) (h forwardedHeader) {
	h.body = at
	for i := at; i < len(lines) && len(h.fields) < maxFields; i++ {
		if f, ok := fieldOf(lines[i]); ok {
			h.fields, h.body = append(h.fields, f), i+1
			continue
		}
		empty := isBlankLine(lines[i])
		switch {
		case len(h.fields) == 0:
			return h
		case !empty:
			last := &h.fields[len(h.fields)-1]
			switch text := strings.Trim(lines[i], " \t>"); {
			case last.value == "": // below its name
				last.value = text
			case !strings.Contains(text, "@"): // not the rest of a long list of recipients
				return h
			}
			h.body = i + 1
		case len(h.fields) >= enough:
			return h
		}
	}
	return h
}

func isBlankLine(line string) bool { return strings.Trim(line, " \t\r>|\u00a0") == "" }

// A separation is the way in which a line separates a forwarded message from the text above it.
type separation uint8

const (
	separatesNothing separation = iota
	announces                   // words that end with a colon
	separates                   // dashes, with or without words between them
)

func separationOf(line string) separation {
	line = strings.Trim(line, " \t\r>*\u00a0")
	if separatorLine.MatchString(line) {
		return separates
	}
	const most = 8 // words
	words := strings.Fields(line)
	if len(words) > 0 && len(words) <= most && !strings.Contains(line, "@") &&
		(strings.HasSuffix(line, ":") || strings.HasSuffix(line, "：")) {
		return announces
	}
	return separatesNothing
}

// forwarded returns the message that is forwarded in a text, with the From and the Subject in that
// text; nil for none.
func forwarded(text string) []byte {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	above, tried := separatesNothing, 0
	for i, line := range lines {
		if isBlankLine(line) {
			continue
		}
		if _, ok := fieldOf(line); ok && tried < maxStarts {
			tried++
			enough := minFields
			if above != separatesNothing {
				enough = minSeparated
			}
			h := headerAt(lines, i, enough)
			if h.isForward(above) {
				if m := h.message(lines[h.body:]); m != nil {
					return m
				}
			}
		}
		above = separationOf(line)
	}
	return nil
}

// isForward reports whether the fields below such a line belong to a forwarded message.
func (h *forwardedHeader) isForward(above separation) bool {
	hasAddress := func(f field) bool { return address.MatchString(f.value) }
	named := h.has(fromNames) || h.has(subjectNames)
	switch {
	case len(h.fields) < minSeparated:
		return false
	case above == separates:
		return named || slices.ContainsFunc(h.fields, hasAddress)
	case above == announces && named:
		return true
	}
	// Outlook names no address of a sender whom the site's directory has.
	whole := h.has(fromNames) && h.has(subjectNames)
	return len(h.fields) >= minFields && (hasAddress(h.fields[0]) || whole || named &&
		slices.ContainsFunc(h.fields, hasAddress))
}

// has reports whether a field has one of names.
func (h *forwardedHeader) has(names []string) bool {
	return slices.ContainsFunc(h.fields, func(f field) bool { return f.is(names) })
}

// is reports whether the name of f is one of names.
func (f *field) is(names []string) bool { return slices.Contains(names, strings.ToLower(f.name)) }

// message returns the forwarded message with the text below its header, nil if that is empty.
func (h *forwardedHeader) message(lines []string) []byte {
	var from, subject string
	for _, f := range h.fields {
		if f.is(fromNames) && from == "" {
			from = f.value
		}
		if f.is(subjectNames) && subject == "" {
			subject = f.value
		}
	}
	for _, f := range h.fields {
		switch has := address.MatchString(f.value); {
		case has && from == "":
			from = f.value
		case !has && subject == "" && f.value != "" && !clockTime.MatchString(f.value) && f.value != from:
			subject = f.value
		}
	}
	var b strings.Builder
	if from != "" {
		b.WriteString("From: " + oneLine(from) + "\r\n")
	}
	if subject != "" {
		b.WriteString("Subject: " + oneLine(subject) + "\r\n")
	}
	b.WriteString("Content-Type: text/plain; charset=utf-8\r\n\r\n")
	head := b.Len()
	if len(lines) > 0 && isBlankLine(lines[0]) {
		lines = lines[1:]
	}
	for i, line := range lines {
		if i+1 == len(lines) && line == "" {
			break
		}
		b.WriteString(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(line, "\r"), ">"), " ") + "\r\n")
	}
	m := b.String()
	if strings.TrimSpace(m[head:]) == "" {
		return nil
	}
	return []byte(m)
}

// oneLine returns a value without control characters.
func oneLine(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, value)
}
