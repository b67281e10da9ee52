package signature

import (
	"bytes"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// findFooter returns where the signature block or list footer of a text begins, or -1. It is at
// most footerLines long and begins with a separator: "-- ", or a rule of ten or more equal
// characters.
func findFooter(text []byte) int {
	end := len(bytes.TrimRight(text, " \t\r\n\u00a0"))
	at := end
	found := -1
	for range footerLines + 1 {
		start := scan.LastLineEnd(text[:at]) + 1
		line := bytes.TrimRight(text[start:at], " \t")
		if len(line) > 0 && line[0] == '>' {
			return found
		}
		if string(line) == "--" || isRule(line) {
			found = start
		}
		if start == 0 {
			return found
		}
		at = start - 1
		if at > 0 && text[at] == '\n' && text[at-1] == '\r' {
			at--
		}
	}
	return found
}

// isRule reports whether line consists of ten or more of the same character.
func isRule(line []byte) bool {
	if len(line) < 10 || strings.IndexByte("_-=*~#", line[0]) < 0 {
		return false
	}
	for _, c := range line {
		if c != line[0] {
			return false
		}
	}
	return true
}

// beginsQuote reports whether everything from line on is a message that this
// one answers or forwards.
func beginsQuote(line, rest []byte) bool {
	if len(line) > 200 {
		return false
	}
	if bytes.HasPrefix(line, []byte("--")) {
		middle := strings.ToLower(string(bytes.Trim(line, "- ")))
		for _, mark := range []string{"original message", "forwarded message", "forwarded by", "begin forwarded",
			"original-nachricht",
			"ursprüngliche nachricht", "weitergeleitete nachricht", "message d'origine", "mensaje original",
			"messaggio originale"} {
			if strings.Contains(middle, mark) {
				return true
			}
		}
	}
	// Outlook's header of a reply: From, Sent or Date, To, Subject.
	if !bytes.HasPrefix(line, []byte("From:")) && !bytes.HasPrefix(line, []byte("Von:")) &&
		!bytes.HasPrefix(line, []byte("De :")) {
		return false
	}
	fields := 0
	for range 5 {
		line, rest = nextLine(rest)
		line = bytes.TrimSpace(line)
		for _, name := range []string{"Sent:", "Date:", "To:", "Subject:", "Gesendet:", "An:", "Betreff:", "Envoyé",
			"À", "Objet"} {
			if bytes.HasPrefix(line, []byte(name)) {
				fields++
				break
			}
		}
	}
	return fields >= 2
}

// isAttribution reports whether line introduces quoted lines ("Ann wrote:").
func isAttribution(line, rest []byte) bool {
	if line[len(line)-1] != ':' || len(line) > 200 {
		return false
	}
	next, rest := nextLine(rest)
	if len(bytes.TrimSpace(next)) == 0 {
		next, _ = nextLine(rest)
	}
	return bytes.HasPrefix(bytes.TrimSpace(next), []byte(">"))
}

// isArmour reports whether line is a line that OpenPGP writes around a signature (RFC 9580,
// section 6.2). All signed mail has such lines.
func isArmour(line []byte) bool {
	return bytes.HasPrefix(line, []byte("-----BEGIN PGP ")) || bytes.HasPrefix(line, []byte("-----END PGP ")) ||
		bytes.HasPrefix(line, []byte("Version: ")) && bytes.Contains(line, []byte("PG"))
}

// isTemplate reports whether a paragraph is one of those that unrelated
// messages share: a disclaimer, or the legal and subscription lines below a
// newsletter.
func isTemplate(words *wordList) bool {
	hits := 0
	var last []byte
	for i := range words.len() {
		w := words.at(i)
		if templateWords.has(w) && !bytes.Equal(w, last) {
			hits++
		}
		last = w
	}
	switch n := words.len(); {
	case n <= 8: // "sent from my ...", "get outlook for ..."
		return hits >= 2 || hits == 1 && (words.startsWith("sent", "from", "my") || words.startsWith("get", "outiook", "for"))
	case n <= 40:
		return hits >= 3 && hits*8 >= n
	default:
		return hits >= 6 && hits*9 >= n
	}
}

// templateWords lists, folded, the words of which disclaimers and newsletter
// footers are made.
var templateWords = foldedSet(`
	confidential confidentiality privileged intended recipient recipients addressee addressed solely disclosure disclose
	dissemination distribution prohibited unauthorized unauthorised error notify sender disclaimer attachments virus
	viruses legally liability monitored strictly delete
	unsubscribe unsubscribed subscribed subscription preferences copyright reserved rights privacy policy terms
	newsletter browser mailing list listinfo mailman digest subscriber opt remove removed
	caution originated organization organisation external outside recognize recognise
	iphone ipad android outlook blackberry samsung
	vertraulich empfänger absender unbefugte confidentiel destinataire abmelden désabonner confidencial destinatario
	außerhalb anhänge expéditeur externe jointes remitente adjuntos externo mittente allegati esterno afzender bijlagen
	avsändaren bilagor nadawcy załączników zewnątrz`)

// greetings lists, folded, the words with which a salutation begins.
var greetings = foldedSet(`
	dear hi hello hey hullo greetings good hallo liebe lieber sehr guten bonjour cher chère chers hola estimado estimada
	querido querida ciao gentile caro cara prezado prezada olá beste geachte hej kære attention attn att welcome`)

func foldedSet(list string) *wordSet {
	set := &wordSet{}
	words := foldedWords(list)
	for i := range words.len() {
		set.add(words.at(i))
	}
	return set
}

// foldedWords returns the folded words of text. Only links and identifiers are left out.
func foldedWords(text string) *wordList {
	var f folder
	return f.folded(text)
}

// folded is foldedWords with the memory of f.
func (f *folder) folded(text string) *wordList {
	f.paragraph.truncate(0)
	f.singles, f.singleCount = f.singles[:0], 0
	plain := []byte(text)
	if !scan.IsASCII(plain) {
		plain = norm.NFKD.Bytes(plain)
	}
	for chunk := range bytes.FieldsSeq(plain) {
		f.chunk(chunk, true)
	}
	f.flushSingles()
	return &f.paragraph
}

// Limits on the names of recipients, since a sender could put the words of the text there.
const (
	maxNameWords      = 4  // of a name; a longer one is not a person's name
	maxRecipientWords = 16 // in all
)

// divided has blanks for the signs that divide the names in an address.
var divided = strings.NewReplacer("@", " ", ".", " ", "<", " ", ">", " ", `"`, " ", "'", " ", "_", " ", "-", " ",
	"+", " ", ",", " ", ";", " ", "(", " ", ")", " ")

// recipientWords returns the folded words that name the recipients in the
// given fields: the parts of addresses and of display names.
func recipientWords(fields []string) *wordSet {
	set := &wordSet{}
	var f folder
	add := func(text string) {
		words := f.folded(divided.Replace(text))
		for i := range words.len() {
			if w := words.at(i); words.len() <= maxNameWords && len(w) >= 3 && len(set.words) < maxRecipientWords {
				set.add(w)
			}
		}
	}
	for _, field := range fields {
		if len(field) > 1024 {
			continue // a list of recipients does not name the reader
		}
		for one := range strings.SplitSeq(field, ",") {
			name, address, _ := strings.Cut(one, "<")
			add(name)
			add(address)
		}
	}
	return set
}

// cutLinks returns chunk, text without white space, with links and addresses
// cut out.
func cutLinks(chunk []byte) []byte {
	for {
		i := bytes.Index(chunk, []byte("://"))
		if i < 0 {
			break
		}
		start := i
		for start > 0 && scan.IsLetter(chunk[start-1]) {
			start--
		}
		chunk = cutOut(chunk, start, linkEnd(chunk, i+3))
	}
	if i := bytes.IndexByte(chunk, '@'); i > 0 && bytes.IndexByte(chunk[i:], '.') > 1 {
		start := i
		for start > 0 && isAddressByte(chunk[start-1]) {
			start--
		}
		end := i + 1
		for end < len(chunk) && (scan.IsLetter(chunk[end]) || chunk[end] == '.' || chunk[end] == '-' ||
			'0' <= chunk[end] && chunk[end] <= '9') {
			end++
		}
		if start < i && bytes.IndexByte(chunk[i:end], '.') > 1 {
			chunk = cutOut(chunk, start, end)
		}
	}
	if i := hostStart(chunk); i >= 0 {
		chunk = cutOut(chunk, i, linkEnd(chunk, i))
	}
	return chunk
}

// cutOut takes out chunk[start:end] and leaves a word boundary in its place.
func cutOut(chunk []byte, start, end int) []byte {
	out := make([]byte, 0, start+1+len(chunk)-end)
	out = append(out, chunk[:start]...)
	out = append(out, ' ')
	return append(out, chunk[end:]...)
}

func linkEnd(chunk []byte, at int) int {
	for at < len(chunk) && chunk[at] > ' ' && chunk[at] < 0x7f && strings.IndexByte("<>\"'", chunk[at]) < 0 {
		at++
	}
	return at
}

// hostStart returns where a bare host name begins, such as www.example.com or
// example.com/x, or -1.
func hostStart(chunk []byte) int {
	if bytes.IndexByte(chunk, '.') < 1 {
		return -1
	}
	start := 0
	for start < len(chunk) && !scan.IsLetter(chunk[start]) && (chunk[start] < '0' || chunk[start] > '9') {
		start++
	}
	end := start
	for end < len(chunk) && (scan.IsLetter(chunk[end]) || '0' <= chunk[end] && chunk[end] <= '9' ||
		chunk[end] == '-' || chunk[end] == '.') {
		end++
	}
	name := bytes.TrimRight(chunk[start:end], ".-")
	i := bytes.LastIndexByte(name, '.')
	if i < 3 {
		return -1
	}
	host := strings.ToLower(string(name))
	if strings.HasPrefix(host, "www.") && len(host) > 5 {
		return start
	}
	switch host[i+1:] {
	case "com", "net", "org", "info", "biz", "edu", "gov", "ru", "cn", "de", "uk", "fr", "io", "co", "me", "top",
		"xyz", "html", "php":
		return start
	}
	return -1
}

func isAddressByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("<>()[]\\,;:\"'@", c) < 0
}
