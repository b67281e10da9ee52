package matrix

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A letter is a mail of the matrix: a text of its own with a name, a link and words
// at its end.
type letter struct {
	seed        uint64
	alternative bool
	name, link  string
	tail        string
	header      string
}

var letterWords = strings.Fields(`harbour ferry island morning ticket window garden library evening market
	bridge station lantern village teacher doctor kitchen bottle button candle carpet corner cotton dinner engine family
	farmer finger forest friend glass grass hammer handle helmet holiday jacket journey kettle ladder letter machine
	meadow mirror mountain music needle number office orange packet paper pencil person picture pillow planet platform
	pocket potato powder prison purple quarter railway rabbit record ribbon river rocket saddle sailor sample season
	shadow signal silver sister socket spider spring square stable sticker summer supper tailor temple thread thunder
	tobacco tomato towel tractor travel trouble tunnel turtle uncle valley velvet violin visitor voyage waiter wallet
	water weather wedding whistle winter wisdom woman wonder worker yellow`)

// The words between, by which rspamd detects the language.
var smallWords = strings.Fields("the of and to in for with from on at by the")

// text returns the body of a letter, in sentences. Half of its words are those of no other letter,
// in every sentence: no letter is to be known by another.
func (l letter) text() string {
	r := rand.New(rand.NewPCG(l.seed, 7))
	own := string([]byte{'a' + byte(l.seed%26), 'a' + byte(l.seed/26%26)})
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\n", l.name)
	for sentence := range 14 {
		for i := range 11 {
			if i > 0 {
				b.WriteString(" " + smallWords[r.IntN(len(smallWords))] + " ")
			}
			b.WriteString(letterWords[r.IntN(len(letterWords))])
			if i%2 == 1 {
				b.WriteString(own)
			}
		}
		b.WriteString(".\n")
		if sentence == 6 {
			fmt.Fprintf(&b, "\nOrder%[1]s the %[1]s today%[1]s at %[2]s and save%[1]s half of it%[1]s.\n\n", own, l.link)
		}
	}
	return b.String() + l.tail
}

func (l letter) raw() []byte {
	head := "From: shop@" + l.header + ".example.net\nTo: " + l.name +
		"@example.org\nSubject: offer\nMessage-ID: <" + l.header + l.name + "@example.net>\nMIME-Version: 1.0\n"
	plain := "Content-Type: text/plain; charset=us-ascii\n\n" + l.text()
	if !l.alternative {
		return []byte(head + plain)
	}
	html := "<html><body><p>" + strings.ReplaceAll(strings.TrimSpace(l.text()), "\n\n", "</p>\n<p>") +
		"</p></body></html>\n"
	html = strings.Replace(html, "at "+l.link, `at <a href="`+l.link+`">our shop</a>`, 1)
	return []byte(head + "Content-Type: multipart/alternative; boundary=\"=cut\"\n\n--=cut\n" + plain +
		"\n--=cut\nContent-Type: text/html; charset=us-ascii\n\n" + html + "\n--=cut--\n")
}
