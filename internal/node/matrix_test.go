package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
	dccsum "github.com/bulkhead-mail/bulkhead/signature/dcc"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
	pyzordigest "github.com/bulkhead-mail/bulkhead/signature/pyzor"
	"github.com/bulkhead-mail/bulkhead/signature/razor"
	"github.com/bulkhead-mail/bulkhead/signature/rspamd"
)

// A matrixDoor is a door as a client of its protocol uses it: what it reports,
// unlearns and recognises of a mail.
type matrixDoor struct {
	name            string
	report, unlearn func(raw []byte) error
	known           func(raw []byte) (word, error)
}

// A word is what a client of a protocol makes of an answer.
type word string

const (
	unknown   word = "-"
	suspected word = "suspected"
	spam      word = "spam"
)

// matrixDoors are the doors of a node whose clients report and check.
func matrixDoors(t *testing.T, n *Node) []matrixDoor {
	base := address(t, n, "http")
	razorClient, err := razor2.Dial(t.Context(), address(t, n, "razor2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { razorClient.Close() })
	if _, _, err := razorClient.Register("ana", "secret"); err != nil {
		t.Fatal(err)
	}
	if err := razorClient.Login("ana", "secret"); err != nil {
		t.Fatal(err)
	}
	// A server's id: such a client may DELETE, too.
	dccClient, err := dcc.Dial(t.Context(), address(t, n, "dcc"), 1000, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dccClient.Close() })
	fuzzyClient, err := fuzzy.Dial(t.Context(), address(t, n, "fuzzy"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fuzzyClient.Close() })
	return []matrixDoor{
		matrixHTTP(t.Context(), base), matrixRazor(t.Context(), razorClient),
		matrixPyzor(t.Context(), &pyzor.Client{Address: address(t, n, "pyzor")}),
		matrixDCC(t.Context(), dccClient), matrixFuzzy(t.Context(), fuzzyClient),
	}
}

func post(ctx context.Context, url string, raw []byte) (map[string]any, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "message/rfc822")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return answer, json.Unmarshal(text, &answer)
}

func matrixHTTP(ctx context.Context, base string) matrixDoor {
	vote := func(path string) func([]byte) error {
		return func(raw []byte) error { _, err := post(ctx, base+path, raw); return err }
	}
	return matrixDoor{"HTTP", vote("/v1/report"), vote("/v1/revoke"), func(raw []byte) (word, error) {
		v, err := post(ctx, base+"/v1/check", raw)
		if class := fmt.Sprint(v["class"]); class == "spam" || class == "suspected" {
			return word(class), err
		}
		return unknown, err
	}}
}

func matrixRazor(ctx context.Context, c *razor2.Client) matrixDoor {
	sums := func(raw []byte) (sigs []bulkhead.Signature, err error) {
		parts, err := razor.Parts(ctx, raw)
		for i := range parts {
			sigs = append(sigs, parts[i].E4)
		}
		return sigs, err
	}
	return matrixDoor{"Razor", func(raw []byte) error {
		header, parts := razorParts(raw)
		return c.Report(header, parts)
	}, func(raw []byte) error {
		sigs, err := sums(raw)
		if err != nil {
			return err
		}
		return c.Revoke(sigs...)
	}, func(raw []byte) (word, error) {
		best := unknown
		parts, err := razor.Parts(ctx, raw)
		if err != nil {
			return best, err
		}
		// logic_method 4 of the client: one part that is spam is enough; SpamAssassin
		// has a rule for confidences from 51 on.
		for i := range parts {
			answers, err := c.Check(append([]bulkhead.Signature{parts[i].E4}, parts[i].E8...)...)
			if err != nil {
				return best, err
			}
			for _, a := range answers {
				switch {
				case a.Spam && a.Confidence > 50:
					best = spam
				case a.Spam && best == unknown:
					best = suspected
				}
			}
		}
		return best, nil
	}}
}

// razorParts returns what razor-report sends of the mails of this test.
func razorParts(raw []byte) (header []byte, parts [][]byte) {
	const agent = "X-Razor2-Agent: test\n"
	head, body, _ := strings.Cut(string(raw), "\n\n")
	if !strings.Contains(head, "boundary=") {
		fields := head[strings.Index(head, "Content-Type:"):]
		return []byte(head + "\n"), [][]byte{[]byte(agent + fields + "\n\n" + body)}
	}
	for _, part := range strings.Split(body, "--=cut")[1:] {
		if !strings.HasPrefix(part, "--") {
			parts = append(parts, []byte(agent+strings.TrimSuffix(strings.TrimPrefix(part, "\n"), "\n")))
		}
	}
	return []byte(head + "\n"), parts
}

func matrixPyzor(ctx context.Context, c *pyzor.Client) matrixDoor {
	do := func(op pyzor.Op) func([]byte) (*pyzor.Reply, error) {
		return func(raw []byte) (*pyzor.Reply, error) {
			sigs, err := pyzordigest.Signatures(ctx, raw)
			if err != nil {
				return nil, err
			}
			r, err := c.Do(ctx, op, sigs...)
			if err == nil {
				err = r.Err()
			}
			return r, err
		}
	}
	vote := func(op pyzor.Op) func([]byte) error {
		return func(raw []byte) error { _, err := do(op)(raw); return err }
	}
	return matrixDoor{"Pyzor", vote(pyzor.OpReport), vote(pyzor.OpWhitelist), func(raw []byte) (word, error) {
		r, err := do(pyzor.OpCheck)(raw)
		if err != nil {
			return unknown, err
		}
		n, err := r.Count("Count")
		switch ham, err2 := r.Count("WL-Count"); {
		case err != nil || err2 != nil || n == 0 || ham > 0:
			return unknown, errors.Join(err, err2) // for the pyzor command
		case n < 5:
			return suspected, nil
		}
		return spam, nil // for SpamAssassin by its defaults, too
	}}
}

func matrixDCC(ctx context.Context, c *dcc.Conn) matrixDoor {
	sums := func(raw []byte) (all []dcc.Checksum, err error) {
		for _, rules := range []dccsum.Rules{dccsum.Rules2} {
			got, err := dccsum.Sums(ctx, raw, dccsum.Options{Rules: rules})
			if err != nil {
				return nil, err
			}
			for _, s := range got {
				if s.Type == dccsum.TypeBody || s.Type == dccsum.TypeFuz1 {
					all = append(all, dcc.Checksum{Type: s.Type, Sum: s.Sum})
				}
			}
		}
		return all, nil
	}
	return matrixDoor{"dccproc", func(raw []byte) error {
		all, err := sums(raw)
		if err == nil {
			_, err = c.Report(ctx, 1, true, all)
		}
		return err
	}, func(raw []byte) error {
		all, err := sums(raw)
		for _, sum := range all {
			if err == nil {
				err = c.Delete(ctx, sum)
			}
		}
		return err
	}, func(raw []byte) (word, error) {
		all, err := sums(raw)
		if err != nil {
			return unknown, err
		}
		totals, err := c.Query(ctx, all)
		for _, total := range totals {
			if total.Current == dcc.Many {
				return spam, err
			}
		}
		return unknown, err
	}}
}

func matrixFuzzy(ctx context.Context, c *fuzzy.Client) matrixDoor {
	h := rspamd.NewHasher("", "", rspamd.MumHash)
	each := func(raw []byte, do func(digest [64]byte, shingles *[32]uint64) error) error {
		m, err := mail.Read(ctx, raw)
		if err != nil {
			return err
		}
		hashes, err := h.Hashes(ctx, m, rspamd.Policy{AllTypes: true})
		for i := range hashes {
			if err == nil {
				sig := hashes[i].Signature()
				err = do([64]byte(sig.Sum()), hashes[i].Shingles)
			}
		}
		return err
	}
	return matrixDoor{"fuzzy", func(raw []byte) error {
		return each(raw, func(digest [64]byte, shingles *[32]uint64) error { return c.Write(ctx, digest, shingles, 1, 10) })
	}, func(raw []byte) error {
		return each(raw, func(digest [64]byte, shingles *[32]uint64) error { return c.Delete(ctx, digest, shingles) })
	}, func(raw []byte) (best word, err error) {
		best = unknown
		err = each(raw, func(digest [64]byte, shingles *[32]uint64) error {
			r, err := c.Check(ctx, digest, shingles)
			switch found := r.OK() && r.Flag == 1; {
			case found && r.Value > 5:
				best = spam
			case found && best == unknown:
				best = suspected
			}
			return err
		})
		return best, err
	}}
}

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

// text returns the body of a letter, in sentences. Its words are those of no other
// letter: nobody is to know one by another.
func (l letter) text() string {
	r := rand.New(rand.NewPCG(l.seed, 7))
	own := string([]byte{'a' + byte(l.seed%26), 'a' + byte(l.seed/26%26)})
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\n", l.name)
	for sentence := range 14 {
		for i := range 11 {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(letterWords[r.IntN(len(letterWords))] + own)
		}
		b.WriteString(".\n")
		if sentence == 6 {
			fmt.Fprintf(&b, "\nOrder%[1]s today%[1]s at %[2]s and save%[1]s half%[1]s.\n\n", own, l.link)
		}
	}
	return b.String() + l.tail
}

func (l letter) raw() []byte {
	head := "From: shop@" + l.header + ".example.net\nTo: " + l.name + "@example.org\nSubject: offer\nMessage-ID: <" + l.header + l.name + "@example.net>\nMIME-Version: 1.0\n"
	plain := "Content-Type: text/plain; charset=us-ascii\n\n" + l.text()
	if !l.alternative {
		return []byte(head + plain)
	}
	html := "<html><body><p>" + strings.ReplaceAll(strings.TrimSpace(l.text()), "\n\n", "</p>\n<p>") + "</p></body></html>\n"
	html = strings.Replace(html, "at "+l.link, `at <a href="`+l.link+`">our shop</a>`, 1)
	return []byte(head + "Content-Type: multipart/alternative; boundary=\"=cut\"\n\n--=cut\n" + plain + "\n--=cut\nContent-Type: text/html; charset=us-ascii\n\n" + html + "\n--=cut--\n")
}

// variants are how the mail that is asked for differs from the one that was reported.
var variants = []struct {
	name   string
	change func(*letter)
	least  int // cells that must be known, of 50
	spam   int // of these, as spam
}{
	{"exact copy", func(*letter) {}, 50, 50},
	{"other headers", func(l *letter) { l.header = "other" }, 50, 50},
	{"another name and link", func(l *letter) { l.name, l.link = "Bernhard", fmt.Sprintf("http://cheap%d.example/q?id=77812", l.seed) }, 40, 0},
	{"two words more", func(l *letter) { l.tail = "Kind regards\n" }, 40, 0},
}

// A matrix is a node with its doors, and letters that nobody has sent before.
type matrix struct {
	doors []matrixDoor
	seed  uint64
}

func newMatrix(t *testing.T) *matrix {
	n, _ := start(t, Options{Config: everyDoor(t, "[http]\nanonymous_report = \"loopback\"\n[limits]\nrequests_per_second = 0\n"+
		"[pyzor]\nanonymous = [\"check\", \"report\", \"whitelist\"]\n[[dcc.clients]]\nid = 1000\npassword = \"secret\"\n"), Dir: t.TempDir()})
	return &matrix{doors: matrixDoors(t, n)}
}

func (m *matrix) letter(alternative bool) letter {
	m.seed++
	return letter{seed: m.seed, alternative: alternative, name: "Ann", link: fmt.Sprintf("http://shop%d.example/a?u=1", m.seed), header: "one"}
}

// see lets the node see mail whole, which nobody has reported.
func (m *matrix) see(t *testing.T, letters ...letter) {
	t.Helper()
	for _, l := range letters {
		if got, err := m.doors[0].known(l.raw()); got != unknown || err != nil {
			t.Fatalf("before any report: %v, %v", got, err)
		}
	}
}

func (m *matrix) ask(t *testing.T, door matrixDoor, l letter) word {
	t.Helper()
	got, err := door.known(l.raw())
	if err != nil {
		t.Fatalf("%s checks: %v", door.name, err)
	}
	return got
}

// TestMatrix reports mail at each door that was seen whole before, and asks for copies
// at every door. The table is that of docs/doors.md.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	var table strings.Builder
	for _, v := range variants {
		known, sure := 0, 0
		for _, reporter := range m.doors {
			fmt.Fprintf(&table, "| %s | %s |", v.name, reporter.name)
			for _, checker := range m.doors {
				var cells []string
				for _, alternative := range []bool{false, true} {
					original := m.letter(alternative)
					changed := original
					v.change(&changed)
					m.see(t, original, changed)
					if err := reporter.report(original.raw()); err != nil {
						t.Fatalf("%s reports: %v", reporter.name, err)
					}
					got := m.ask(t, checker, changed)
					if got != unknown {
						known++
					}
					if got == spam {
						sure++
					}
					cells = append(cells, string(got))
				}
				fmt.Fprintf(&table, " %s |", strings.Join(slices.Compact(cells), ", "))
			}
			table.WriteByte('\n')
		}
		t.Logf("%s: %d of 50, %d of them as spam", v.name, known, sure)
		if known < v.least || sure < v.spam {
			t.Errorf("%s: %d of 50 cells are known, %d as spam; want %d, %d", v.name, known, sure, v.least, v.spam)
		}
	}
	t.Logf("\n%s", &table)
}

// TestMatrixUnlearns reports mail at each door, unlearns it at each, and asks at every
// one: nobody may know it any more.
func TestMatrixUnlearns(t *testing.T) {
	m := newMatrix(t)
	for _, reporter := range m.doors {
		for _, unlearner := range m.doors {
			for _, alternative := range []bool{false, true} {
				l := m.letter(alternative)
				m.see(t, l)
				if err := reporter.report(l.raw()); err != nil {
					t.Fatalf("%s reports: %v", reporter.name, err)
				}
				if err := unlearner.unlearn(l.raw()); err != nil {
					t.Fatalf("%s unlearns: %v", unlearner.name, err)
				}
				for _, checker := range m.doors {
					if got := m.ask(t, checker, l); got != unknown {
						t.Errorf("alternative %v: reported by %s and unlearnt by %s it is %s at %s", alternative, reporter.name, unlearner.name, got, checker.name)
					}
				}
				if err := reporter.report(l.raw()); err != nil {
					t.Fatalf("%s reports again: %v", reporter.name, err)
				}
				for _, checker := range m.doors {
					if got := m.ask(t, checker, l); got != spam {
						t.Errorf("alternative %v: reported by %s, unlearnt by %s and reported again it is %s at %s", alternative, reporter.name, unlearner.name, got, checker.name)
					}
				}
			}
		}
	}
}
