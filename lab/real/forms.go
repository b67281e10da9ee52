package real

import (
	"encoding/base64"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/lab/real/files"
)

// A form is a way to write a text, with its links, as mail. Each copy is written anew.
type form struct {
	name string
	// write writes a draft into the parts of a message. Genuine mail is written in the same form where people
	// and programs do so, and moderately where only spammers do.
	write func(w *writer) entity
}

// unread are the forms whose text is not read: pictures, and codes in them. Fewer of their copies must be flagged.
var unread = map[string]bool{"picture": true, "picture in slices": true, "QR code": true}

// Bounds: shares of the copies after the first report of a campaign, in percent.
const (
	leastSpam          = 40
	leastFlagged       = 65
	leastFlaggedUnread = 25
)

// allForms are the forms. Plain text is what the others are compared with.
var allForms = []form{
	{"plain text", (*writer).plain},
	{"page", func(w *writer) entity { return w.paged(html.EscapeString) }},
	{"tags and references in words", func(w *writer) entity {
		return w.paged(func(text string) string {
			return w.letters(html.EscapeString(text), w.share(0.2, 0), func(c rune) string {
				switch w.r.IntN(4) {
				case 0:
					return fmt.Sprintf("<!-- %s -->%c", token(w.r), c)
				case 1:
					return fmt.Sprintf("<b></b>%c<wbr>", c)
				case 2:
					return "<span>" + string(c) + "</span>"
				}
				return string(c)
			})
		})
	}},
	{"look-alikes", func(w *writer) entity {
		if w.genuine {
			return w.texted(cyrillic(w.text))
		}
		return w.texted(w.looksLike(alike, 0.3))
	}},
	{"digits for letters", func(w *writer) entity { return w.texted(w.looksLike(digits, w.share(0.2, 0))) }},
	{"styled letters", func(w *writer) entity {
		return w.texted(w.words(w.text, w.share(0.5, 0.05), func(word string) string {
			first := pick(w.r, []rune{0x1d400, 0x1d434, 0x1d5d4, 0x1d63c, 0x1d670, 0xff21})
			return strings.Map(func(c rune) rune {
				switch {
				case 'A' <= c && c <= 'Z':
					return first + c - 'A'
				case 'a' <= c && c <= 'z' && first == 0xff21:
					return 0xff41 + c - 'a'
				case 'a' <= c && c <= 'z':
					return first + 26 + c - 'a'
				}
				return c
			}, word)
		}))
	}},
	{"marks on letters", func(w *writer) entity {
		return w.texted(w.letters(w.text, w.share(0.3, 0.01), func(c rune) string {
			return string(c) + string(rune(0x300+w.r.IntN(0x40)))
		}))
	}},
	{"letters without width", func(w *writer) entity {
		return w.texted(w.letters(w.text, w.share(0.2, 0.02), func(c rune) string {
			return string(pick(w.r, []rune("\u200b\u200c\u200d\u2060\ufeff\u2063\u180e\ufe0f\u034f\u061c"))) + string(c)
		}))
	}},
	{"soft hyphens", func(w *writer) entity {
		return w.paged(func(text string) string {
			return w.letters(text, 0.2, func(c rune) string { return pick(w.r, []string{"&shy;", "\u00ad"}) + string(c) })
		})
	}},
	{"spelt out", func(w *writer) entity {
		return w.texted(w.words(w.text, w.share(0.4, 0.02), func(word string) string {
			return strings.Join(strings.Split(word, ""), pick(w.r, []string{" ", ".", "-", "_", "*", "\u2009"}))
		}))
	}},
	{"odd blanks", func(w *writer) entity {
		return w.texted(w.blanks(w.share(0.5, 0.1), func() string {
			return string(pick(w.r, []rune("\u00a0\u2002\u2009\u202f\u3000\u2800\u3164\u115f")))
		}))
	}},
	{"blanks by style", func(w *writer) entity {
		return w.paged(func(text string) string {
			w.text = html.EscapeString(text)
			return w.blanks(w.share(0.5, 0), func() string { return "<span style=\"padding-left:4px\"></span>" })
		})
	}},
	{"bidi overrides", func(w *writer) entity {
		return w.texted(w.words(w.text, w.share(0.4, 0.1), func(word string) string {
			if w.genuine {
				return "\u200e" + word + "\u200e"
			}
			return "\u202e" + reversed(word) + "\u202c"
		}))
	}},
	{"mirrored by style", func(w *writer) entity {
		return w.paged(func(text string) string {
			return w.words(text, 0.4, func(word string) string {
				if w.genuine {
					return "<bdi>" + word + "</bdi>"
				}
				return pick(w.r, []string{"<bdo dir=rtl>", "<bdo dir=\"rtl\" style=\"color:#123\">"}) + reversed(word) + "</bdo>"
			})
		})
	}},
	{"hidden filler", func(w *writer) entity {
		if w.genuine { // words for the list of mails
			return w.paged(func(text string) string { return w.hidden(w.coined(8)) + html.EscapeString(text) })
		}
		e := w.paged(func(text string) string {
			return w.blanksOf(html.EscapeString(text), 0.4, func() string { return " " + w.hidden(w.coined(3)) })
		})
		e.body = strings.Replace(e.body, "<html>", "<html><style>.x7{display:none}</style>", 1)
		return e
	}},
	{"letters in cells", func(w *writer) entity {
		return w.paged(func(text string) string {
			return w.words(html.EscapeString(text), w.share(0.3, 0), func(word string) string {
				return "<table style=\"display:inline-table\" cellpadding=0 cellspacing=0><tr><td>" +
					strings.Join(strings.Split(word, ""), "</td><td>") + "</td></tr></table>"
			})
		})
	}},
	{"text by style sheet", func(w *writer) entity {
		rules := ""
		e := w.paged(func(text string) string {
			if w.genuine {
				return html.EscapeString(text)
			}
			name := coin(w.r, 2)
			rules += "." + name + "::before{content:\"" + strings.ReplaceAll(text, "\n", " ") + "\"}\n"
			return "<span class=" + name + "></span>"
		})
		e.body = strings.Replace(e.body, "<html>", "<html><style>"+rules+"p::after{content:\"\"}</style>", 1)
		return e
	}},
	{"fields of a form", func(w *writer) entity {
		return w.paged(func(text string) string {
			return fmt.Sprintf(pick(w.r, []string{"<textarea rows=9>%s</textarea>", "<input size=90 value=\"%s\">",
				"<input size=90 placeholder=\"%s\">", "<button>%s</button>"}), html.EscapeString(text))
		})
	}},
	{"alternative with other words", func(w *writer) entity {
		other := w.coined(60)
		if w.genuine {
			other = w.whole()
		}
		return w.multipart("alternative", raw("text/plain; charset=utf-8", other), w.paged(html.EscapeString))
	}},
	{"decoy files", func(w *writer) entity {
		return w.mixed(w.plain(), attached("text/plain; charset=utf-8", coin(w.r, 2)+".txt", []byte(w.coined(300))))
	}},
	{"quoted-printable", func(w *writer) entity {
		w.seen = w.whole()
		return entity{"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n",
			w.quoted(w.seen, 0.3)}
	}},
	{"damaged base64", func(w *writer) entity {
		e := part("text/plain; charset=utf-8", []byte(w.plain().body))
		e.body = w.letters(e.body, 0.02, func(c rune) string {
			return pick(w.r, []string{"\r\n", " ", "!", "-"}) + string(c)
		})
		e = w.mixed(entity{"X-Part: " + token(w.r) + "\r\n" + e.fields, e.body})
		e.body = w.coined(20) + "\r\n" + strings.TrimSuffix(e.body, "--\r\n")
		return e
	}},
	{"charsets", func(w *writer) entity {
		w.seen = w.whole()
		return w.inCharset(w.seen)
	}},
	{"flowed", func(w *writer) entity {
		w.seen = w.whole()
		return raw("text/plain; charset=utf-8; format=flowed; delsp=yes", w.flowed(w.seen))
	}},
	{"uuencode", func(w *writer) entity {
		file := files.UUEncoded(coin(w.r, 2)+".txt", w.coined(1+w.r.IntN(3))+"\n"+w.whole())
		w.seen = w.coined(6)
		return raw("text/plain; charset=utf-8", w.seen+"\n\n"+file)
	}},
	{"winmail.dat", func(w *writer) entity {
		file := attached("application/ms-tnef", "winmail.dat", files.Winmail(uint16(w.r.Uint32()), token(w.r), w.whole()))
		return w.mixed(w.cover(), file)
	}},
	{"invitation", func(w *writer) entity {
		e := part("text/calendar; charset=utf-8; method=REQUEST", []byte(w.invitation()))
		w.seen = w.whole()
		return e
	}},
	{"invitation as a file", func(w *writer) entity {
		file := attached("application/ics", "invite.ics", []byte(w.invitation()))
		return w.mixed(w.cover(), file)
	}},
	{"PDF", func(w *writer) entity {
		file := attached("application/pdf", token(w.r)+".pdf",
			files.PDF(fold(w.text, 80), w.hrefs(), token(w.r), token(w.r), token(w.r)))
		return w.mixed(w.cover(), file)
	}},
	{"text document", func(w *writer) entity {
		file := attached("application/octet-stream", token(w.r)+".docx", files.Document(w.text, w.hrefs(), token(w.r)))
		return w.mixed(w.cover(), file)
	}},
	{"HTML file", func(w *writer) entity {
		file := attached("text/html", token(w.r)+".html", []byte(w.bare()))
		return w.mixed(w.cover(), file)
	}},
	{"page built by script", func(w *writer) entity {
		name, page := coin(w.r, 2), w.bare()
		script := fmt.Sprintf("var %s='%s';document.write(atob(%s))", name,
			base64.StdEncoding.EncodeToString([]byte(page)), name)
		if chance(w.r, 0.5) {
			script = fmt.Sprintf("var %s=\"%s\";document.write(unescape(%s))", name, percent(page), name)
		}
		file := attached("text/html", name+".html", []byte("<html><body><script>"+script+"</script></body></html>"))
		return w.mixed(w.cover(), file)
	}},
	{"page in a zip", func(w *writer) entity {
		file := attached("application/zip", token(w.r)+".zip", files.Zip([2]string{coin(w.r, 2) + ".html", w.bare()}))
		return w.mixed(w.cover(), file)
	}},
	{"SVG file", func(w *writer) entity {
		lines := ""
		for i, line := range fold(w.text, 60) {
			lines += fmt.Sprintf("<text x=\"%d\" y=\"%d\">%s</text>\n", 10+w.r.IntN(5), 20+16*i, html.EscapeString(line))
		}
		for _, l := range w.links {
			lines += fmt.Sprintf("<a xlink:href=\"%s\"><text y=\"400\">%s</text></a>", html.EscapeString(l.url),
				html.EscapeString(l.words))
		}
		file := attached("image/svg+xml", token(w.r)+".svg", []byte("<svg xmlns=\"http://www.w3.org/2000/svg\""+
			" xmlns:xlink=\"http://www.w3.org/1999/xlink\">"+lines+"</svg>"))
		return w.mixed(w.cover(), file)
	}},
	{"forwarded twice", func(w *writer) entity {
		inner := w.plain()
		for range 2 {
			e := inner
			inner = entity{"Content-Type: message/rfc822\r\n", fmt.Sprintf("From: %s@%s\r\nSubject: %s\r\n"+
				"Message-ID: <%s@x.example>\r\nMIME-Version: 1.0\r\n%s\r\n%s",
				coin(w.r, 2), domainName(w.r, true), w.coined(2), token(w.r), e.fields, e.body)}
		}
		return w.mixed(w.cover(), inner)
	}},
	{"picture", func(w *writer) entity { return w.pictured(w.drawn()) }},
	{"picture in slices", func(w *writer) entity { return w.pictured(sliced(w.drawn(), 3+w.r.IntN(3))...) }},
	{"alternative texts", func(w *writer) entity {
		return w.paged(func(text string) string {
			return fmt.Sprintf("<img src=\"https://%s/%s.png\" width=600 height=%d alt=\"%s\">",
				domainName(w.r, false), token(w.r), 100+w.r.IntN(90), html.EscapeString(strings.ReplaceAll(text, "\n", " ")))
		})
	}},
	{"QR code", func(w *writer) entity {
		w.links = nil
		return w.pictured(w.code())
	}},
}

// percent encodes all characters of a text as scripts do.
func percent(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// The numbers of the bound "forms", for each form. The third copy of a campaign and every tenth after it are
// reported.
const (
	formCampaigns = 4
	formCopies    = 30
	formGenuine   = 30
)

// forms returns a plan of campaigns and of genuine mail in each form. The copies of a campaign have one text, and
// differ by what the form leaves open. Each has a link to a fresh domain. Nothing is verified for two campaigns, and
// each copy of two others is signed by a fresh domain. Each genuine mail has a sender and text of its own.
func forms(seed uint64) *Plan {
	b := settled("forms", seed, 12, 60)
	for i := range allForms {
		f := &allForms[i]
		for n := range formCampaigns {
			c := b.campaign("identical", []string{"none", "fresh"}[n%2], "fresh", networks(b.r, 20))
			c.format.html, c.format.plain, c.form = false, true, f
			start := 3*day + time.Duration(b.r.Int64N(int64(6*day)))
			for k := range formCopies {
				kind := f.name
				if k < 3 {
					kind = "before a report"
				}
				b.deliver(start+time.Duration(k)*2*time.Hour, b.reader(), true, kind, nil, c.copy)
				d := &b.plan.Deliveries[len(b.plan.Deliveries)-1]
				d.Reports, d.Delay = k%10 == 2, time.Hour
			}
			b.plan.Campaigns++
		}
		for range formGenuine {
			at := &carrier{domain: domainName(b.r, true), nets: networks(b.r, 1), signsOwn: chance(b.r, 0.8)}
			at.spf = at.signsOwn
			s := b.personal("personal", at)
			s.varied, s.form = true, f
			b.deliver(2*day+time.Duration(b.r.Int64N(int64(10*day))), b.reader(), false, f.name, []Group{inForms},
				s.mailing(b.r, 0))
			b.plan.Campaigns++
		}
	}
	return b.finish()
}

// inForms is the group of all genuine mail in a form.
var inForms = Group{"form", "all"}

// formLimits returns the limits of the bound "forms".
func formLimits() []Limit {
	limits := []Limit{{false, inForms, CalledSpam, 0.25}, {false, inForms, Suspected, 5}}
	for _, f := range allForms {
		kind := Group{"kind", f.name}
		if unread[f.name] {
			limits = append(limits, Limit{true, kind, Flagged, leastFlaggedUnread})
		} else {
			limits = append(limits, Limit{true, kind, CalledSpam, leastSpam}, Limit{true, kind, Flagged, leastFlagged})
		}
	}
	return limits
}

// attachmentSigners returns a plan of campaigns whose copies have little in common but an attached file. Each copy
// has other words and is signed by a fresh domain.
func attachmentSigners(seed uint64) *Plan {
	b := settled("fresh signers, one file", seed, 12, 100)
	for range 6 {
		c := b.campaign("words", "fresh", "nothing", networks(b.r, 20))
		file := make([]byte, 20<<10+b.r.IntN(40<<10))
		for i := range file {
			file[i] = byte(b.r.Uint32())
		}
		c.replaced = 0.9
		c.form = &form{write: func(w *writer) entity {
			return w.mixed(w.plain(), attached("application/octet-stream", fmt.Sprintf("%s.bin", coin(w.r, 2)), file))
		}}
		start := time.Duration(b.r.Float64() * float64(b.span-2*day))
		for range 100 {
			b.deliver(start+later(b.r, 12*time.Hour), b.reader(), true, "fresh signers", c.groups, c.copy)
		}
		b.plan.Campaigns++
	}
	return b.finish()
}
