package learning

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// A sender is a made sender of commercial mail, or a kind of spam that looks like it. Each message has a
// selection of the sentences, in a layout, with some of the items.
type sender struct {
	name      string
	layout    int
	late      bool // sends in the second half of the time only
	subject   string
	sentences string // separated by |
	items     string // separated by |
	button    string
}

// Commercial returns n messages of each of 30 made senders of newsletters, shops, banks and notices, in 13
// languages, in random order. The last sixth of the senders begins in the second half. All texts are made up.
func Commercial(ctx context.Context, n int, seed uint64) ([]Letter, error) {
	return written(ctx, commercial, n, seed, false)
}

// Interleaved returns the letters of several streams, each in its order, so that all last as long.
func Interleaved(streams ...[]Letter) []Letter { return from(0, streams...) }

// Late returns a stream and another one that begins late, after the given share of the time.
func Late(stream, late []Letter, after float64) []Letter { return from(after, stream, late) }

// from interleaves streams, of which the last begins after a share of the time.
func from(after float64, streams ...[]Letter) []Letter {
	type placed struct {
		at     float64
		letter Letter
	}
	var all []placed
	for k, s := range streams {
		start := 0.0
		if k == len(streams)-1 {
			start = after
		}
		for i, l := range s {
			all = append(all, placed{start + (1-start)*float64(i)/float64(len(s)), l})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]Letter, len(all))
	for i := range all {
		out[i] = all[i].letter
	}
	return out
}

// Lures returns n messages of each kind of made spam. They have the layouts, the languages and many of the
// words of [Commercial].
func Lures(ctx context.Context, n int, seed uint64) ([]Letter, error) {
	return written(ctx, lures, n, seed, true)
}

func written(ctx context.Context, senders []sender, n int, seed uint64, spam bool) ([]Letter, error) {
	rng := rand.New(rand.NewPCG(seed, 0x636f6d))
	type planned struct {
		at     float64
		letter Letter
	}
	var all []planned
	for i := range senders {
		s := &senders[i]
		for k := range n {
			raw := []byte(s.message(k, spam, rng))
			m, err := mail.Read(ctx, raw)
			if err != nil {
				return nil, err
			}
			l := Letter{Name: fmt.Sprintf("%s %d", s.name, k), Spam: spam, Made: !spam, From: m.From, raw: raw}
			if !spam {
				_, l.Verified, _ = strings.Cut(m.From, "@")
			}
			if l.Features, err = learn.Features(ctx, m); err != nil {
				return nil, err
			}
			at := rng.Float64()
			if s.late {
				at = 0.5 + at/2
			}
			all = append(all, planned{at, l})
		}
	}
	slices.SortStableFunc(all, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
	out := make([]Letter, len(all))
	for i := range all {
		out[i] = all[i].letter
	}
	return out, nil
}

// message returns message k of a sender.
func (s *sender) message(k int, spam bool, rng *rand.Rand) string {
	sentences, items := strings.Split(s.sentences, "|"), strings.Split(s.items, "|")
	rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	rng.Shuffle(len(sentences), func(i, j int) { sentences[i], sentences[j] = sentences[j], sentences[i] })
	sentences, items = sentences[:max(2, len(sentences)-1)], items[:min(3, len(items))]
	domain := strings.ToLower(strings.ReplaceAll(s.name, " ", "-")) + ".example"
	link := domain
	if spam {
		link = fmt.Sprintf("s%d-%s", rng.IntN(900), domain)
	}
	head := fmt.Sprintf("From: %s <news@%s>\r\nTo: reader@site.example\r\nSubject: =?UTF-8?Q?%s?=\r\n"+
		"MIME-Version: 1.0\r\n", s.name, domain, quoted(s.subject))
	switch s.layout {
	case 0:
		return head + "Content-Type: text/plain; charset=UTF-8\r\n\r\n" + strings.Join(sentences, "\r\n\r\n") + "\r\n\r\n- " +
			strings.Join(items, "\r\n- ") + fmt.Sprintf("\r\n\r\n%s: https://%s/i/%d\r\n", s.button, link, k)
	case 1:
		return head + "Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
			"--b\r\nContent-Type: text/plain; charset=UTF-8\r\n\r\n" +
			strings.Join(sentences, "\r\n") + "\r\n--b\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n" +
			s.page(sentences, items, link, k) + "\r\n--b--\r\n"
	}
	return head + "Content-Type: text/html; charset=UTF-8\r\n\r\n" + s.page(sentences, items, link, k)
}

// page returns the HTML of a message in the layout of its sender.
func (s *sender) page(sentences, items []string, link string, k int) string {
	row, list, button := "<p>%s</p>\r\n", "<ul><li>%s</li></ul>\r\n", `<a href="https://%s/c/%d">%s</a>`
	open, end := "<html><body>\r\n", "</body></html>\r\n"
	switch s.layout {
	case 2:
		open = "<html><body style=\"margin:0;background:#f4f4f4\"><table width=\"600\" align=\"center\" cellpadding=\"0\" " +
			"cellspacing=\"0\" border=\"0\" style=\"background:#fff;font-family:Arial,sans-serif\">\r\n"
		row = "<tr><td style=\"padding:12px 24px;font-size:15px;line-height:22px\">%s</td></tr>\r\n"
		list = row
		button = "<tr><td align=\"center\" style=\"padding:20px\"><a href=\"https://%s/c/%d\" style=\"background:#0a66c2;" +
			"color:#fff;padding:12px 30px;text-decoration:none\">%s</a></td></tr>\r\n"
		end = "</table></body></html>\r\n"
	case 3:
		open = "<html><head><style>.wrap{max-width:640px}.btn{background:#d22;color:#fff}.foot{font-size:11px}</style>" +
			"</head><body><div class=\"wrap\"><img src=\"https://img.example/logo.png\" width=\"160\" alt=\"\">\r\n"
		row = "<div class=\"text\">%s</div>\r\n"
		button = "<a class=\"btn\" href=\"https://%s/c/%d\">%s</a>\r\n"
		end = "<div class=\"foot\">&copy;</div></div></body></html>\r\n"
	case 4:
		row = "<p style=\"color:#333333;font-family:Georgia\">%s</p>\r\n"
		button = "<p><a href=\"https://%s/c/%d\"><b>%s</b></a></p>\r\n"
	case 5:
		open = "<!DOCTYPE html><html lang=\"x\"><head><meta name=\"viewport\" content=\"width=device-width\"><style>" +
			"@media (max-width:600px){.col{width:100%!important}}h2{font-weight:600}</style></head><body bgcolor=\"#ffffff\">" +
			"<center><table role=\"presentation\" class=\"col\" width=\"580\">\r\n"
		row = "<tr><td class=\"col\" style=\"font:16px/24px Helvetica,Arial,sans-serif;color:#202020\">%s</td></tr>\r\n"
		list = "<tr><td style=\"border-top:1px solid #e0e0e0;padding:8px 0\"><h2>%s</h2></td></tr>\r\n"
		button = "<tr><td><a href=\"https://%s/c/%d\" style=\"display:inline-block;border-radius:4px;" +
			"background-color:#146c43;color:#ffffff\">%s</a></td></tr>\r\n"
		end = "</table></center></body></html>\r\n"
	case 6:
		open = "<html><body><div style=\"direction:ltr;max-width:36em\"><font face=\"Verdana\" size=\"2\">\r\n"
		row, list = "%s<br><br>\r\n", "&bull; %s<br>\r\n"
		button = "<br><a href=\"https://%s/c/%d\" target=\"_blank\">%s</a>\r\n"
		end = "</font></div></body></html>\r\n"
	case 7:
		row, list = "<p style=\"margin:0 0 4px\"><code>%s</code></p>\r\n", "<span class=\"badge\">%s</span>\r\n"
		button = "<hr><a href=\"https://%s/c/%d\" rel=\"noreferrer\">%s</a>\r\n"
	}
	var b strings.Builder
	b.WriteString(open)
	for _, x := range sentences {
		fmt.Fprintf(&b, row, x)
	}
	for _, x := range items {
		fmt.Fprintf(&b, list, x)
	}
	fmt.Fprintf(&b, button, link, k, s.button)
	b.WriteString(end)
	return b.String()
}

// quoted returns text in the Q encoding of header fields.
func quoted(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
